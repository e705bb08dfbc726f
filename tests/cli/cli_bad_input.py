# cli_bad_input.py: bad input is one line that names argument, value and rule, and exit status 2.
import json
import os
import pathlib
import struct

from cli_command import SMALL, mok, read_tensors, run_json, same, write_tensors

# flags of `mok run`, the argument that the line names, a part of its rule
BAD_FLAGS = [
    (["--hidden", "12"], "--hidden", "multiple of 8"),
    (["--inputs", ""], "--inputs", "must name a file"),
    (["--hidden", "0"], "--hidden", "multiple of 8"),
    (["--hidden", "-8"], "--hidden", "multiple of 8"),
    (["--hidden", "6.4"], "--hidden", "whole number"),
    (["--hidden", "99999999999999999999"], "--hidden", "whole number"),
    (["--hidden", ""], "--hidden", ""),
    (["--hidden"], "--hidden", "needs a value"),
    (["--hidden", "--json"], "--hidden", "needs a value"),
    (["--hidden", "64", "--hidden", "64"], "--hidden", "once"),
    (["--intermediate", "20"], "--intermediate", "multiple of 8"),
    (["--shared-intermediate", "3"], "--shared-intermediate", "multiple of 8"),
    (["--ranks", "0"], "--ranks", "from 1 to 65535"),
    (["--ranks", "65536"], "--ranks", "from 1 to 65535"),
    (["--workers", "0"], "--workers", "from 1"),
    (["--tokens", "1,2,3"], "--tokens", "one for each of --ranks 4"),
    (["--tokens", "1,2,3,x"], "--tokens", "whole number"),
    (["--tokens", "-4"], "--tokens", "from 0"),
    (["--tokens", "1,,2,3"], "--tokens", "whole number"),
    (["--experts", "0"], "--experts", "from 1"),
    (["--topk", "17"], "--topk", "must not be above --experts 16"),
    (["--topk", "33", "--experts", "64"], "--topk", "from 1 to 32"),
    (["--layers", "0"], "--layers", "from 1"),
    (["--microbatches", "0"], "--microbatches", "from 1"),
    (["--ring-rows", "65"], "--ring-rows", "multiple of 64"),
    (["--ring-rows", "128"], "--ring-rows", "from "),
    (["--ring-rows", "max"], "--ring-rows", "whole number"),
    (["--saved-rows", "10"], "--saved-rows", "multiple of 64"),
    (["--saved-rows", "64", "--save", "none"], "--saved-rows", "contradicts --save none"),
    (["--output-gate", "--shared-intermediate", "0"], "--output-gate", "needs a shared expert"),
    (["--swiglu-limit", "-1"], "--swiglu-limit", "above 0"),
    (["--swiglu-limit", "nan"], "--swiglu-limit", "finite"),
    (["--backend", "cuda"], "--backend", "no CUDA layer"),
    (["--backend", "cdua"], "--backend", "nearest is cuda"),
    (["--engine", "avx521_bf16"], "--engine", "nearest is avx512_bf16"),
    (["--dispatch", "pul"], "--dispatch", "nearest is pull"),
    (["--combine", "scattr"], "--combine", "nearest is scatter"),
    (["--dy-dispatch", "scatter"], "--dy-dispatch", "must be pull or push"),
    (["--dx-combine", "gather"], "--dx-combine", "nearest is scatter"),
    (["--save", "al"], "--save", "nearest is all"),
    (["--grad", "fp23"], "--grad", "nearest is fp32"),
    (["--check", "smaple"], "--check", "nearest is sample"),
    (["--routing", "zpif"], "--routing", "nearest is zipf"),
    (["--x", "texts:a"], "--x", "nearest is text:FILE"),
    (["--model", "glm-5.2/ep16"], "--model", "nearest is glm-5.2/ep"),
    (["--model", "glm-5.2/ep8", "--experts", "64"], "--experts", "contradicts --model"),
    (["--model", "kimi-k2.7/ep64", "--ranks", "1"], "--model", "use more --ranks"),
    (["--seed", "1.5"], "--seed", "whole number"),
    (["--join-deadline-ms", "0"], "--join-deadline-ms", "from 1"),
    (["--progress-deadline-ms", "-1"], "--progress-deadline-ms", "from 1"),
    (["--ringrows", "256"], "--ringrows", "nearest is --ring-rows"),
    (["--shared_intermediate", "256"], "--shared_intermediate",
     "nearest is --shared-intermediate"),
    (["surplus"], "surplus", "not a flag"),
    (["--inputs", "nowhere"], "--inputs", "file"),
    (["--inputs", "nowhere", "--layers", "2"], "--layers", "contradicts --inputs"),
    (["--inputs", "nowhere", "--microbatches", "2"], "--microbatches", "contradicts --inputs"),
    (["--inputs", "nowhere", "--x", "random"], "--x", "contradicts --inputs"),
    (["--inputs", "nowhere", "--routing", "hot"], "--routing", "contradicts --inputs"),
    (["--outputs", "nowhere/file"], "--outputs", "folder that exists"),
    (["--outputs", "/dev/null"], "--outputs", "regular file"),
    (["--outputs", "f", "--layers", "2"], "--layers", "contradicts --outputs"),
    (["--x", "text:nowhere"], "--x", "file"),
    (["--x", "text:/dev/zero"], "--x", "regular file"),
    (["--routing", "file:nowhere"], "--routing", "file"),
    (["--case", "nowhere"], "--case", "file"),
    (["--case", "nowhere", "--ranks", "2"], "--ranks", "contradicts --case"),
    (["--hidden", "1048576", "--intermediate", "1048576"], "--", "this machine has"),
    (["--hidden", "1099511627776", "--intermediate", "1099511627776"], "--", "64 bits"),
    (["--tokens", "500000000"], "--tokens", "this machine has"),
    (["--experts", "100000", "--hidden", "8192"], "--experts", "this machine has"),
    (["--model", "kimi-k2.7/ep8", "--ranks", "64"], "--", "this machine has"),
]


def expect_refusal(args, argument, rule, code=None):
    status, out, err = mok(*args)
    same(status, 2, (args, err))
    same(out, "", (args, "nothing on stdout"))
    assert err.startswith("mok: ") and err.count("\n") == 1 and len(err) < 1000, (args, err)
    assert argument in err and rule in err, (args, err)
    status, out, err_again = mok(*args, "--json")
    if args[-1] in ("--hidden",):
        return  # --json would be the missing value
    same(status, 2)
    assert out.count("\n") == 1, out
    found = json.loads(out)
    same(list(found), ["ok", "error"])
    same(found["ok"], False)
    same(list(found["error"]), ["code", "argument", "value", "rule"])
    assert all(type(each) is str for each in found["error"].values())
    assert found["error"]["argument"].startswith(argument), (args, found)
    assert rule in found["error"]["rule"], (args, found)
    assert code is None or found["error"]["code"] == code, (args, found)


def test_bad_flags(folder):
    for flags, argument, rule in BAD_FLAGS:
        if "--json" in flags:
            status, _, err = mok("run", *flags)
            assert status == 2 and argument in err and rule in err, err
            continue
        expect_refusal(["run", *flags], argument, rule)


def test_bad_commands(folder):
    for args, argument, rule in [
            (["rnu"], "command", "nearest is run"),
            ([], "command", "run, verify or doctor"),
            (["verify", "--cases", "0"], "--cases", "from 1"),
            (["verify", "--seed", "x"], "--seed", "whole number"),
            (["verify", "--engine", "scaler"], "--engine", "nearest is scalar"),
            (["verify", "--hidden", "8"], "--hidden", "no flag of mok verify"),
            (["doctor", "--jsn"], "--jsn", "nearest is --json")]:
        status, out, err = mok(*args)
        same((status, out), (2, ""), args)
        assert argument in err and rule in err and err.count("\n") == 1, err


def test_bad_inputs_files(folder):
    good = os.path.join(folder, "good.safetensors")
    run_json(*SMALL, "--ranks", 1, "--tokens", 6, "--output-gate", "--outputs", good)
    tensors = read_tensors(good)
    path = os.path.join(folder, "bad.safetensors")

    def refused(change, rule, *flags, argument="--inputs"):
        changed = dict(tensors)
        change(changed)
        write_tensors(path, changed)
        expect_refusal(["run", "--inputs", path, *flags], argument, rule)

    def put(name, dtype, shape, data):
        return lambda changed: changed.update({name: (dtype, shape, data)})

    def with_id(value):
        ids = list(struct.unpack("<18i", tensors["ids"][2]))
        ids[4] = value
        return put("ids", "I32", [6, 3], struct.pack("<18i", *ids))

    refused(with_id(7), "an expert from 0 to 6")
    refused(with_id(-2), "-1 (no route)")
    refused(put("ids", "I64", [6, 3], struct.pack("<18q", *([0] * 17 + [1 << 40]))),
            "an expert from 0 to 6")
    refused(put("ids", "F32", [6, 3], bytes(72)), "must be I32")
    refused(put("ids", "I32", [3, 6], tensors["ids"][2]), "must be I32 [6,3]")
    refused(put("x", "F32", [6, 32], tensors["x"][2]), "must be BF16")
    refused(put("dy", "BF16", [3, 128], tensors["dy"][2]), "must be BF16 [6,64]")
    refused(put("down", "BF16", [7, 40, 64], tensors["down"][2]), "must be BF16 [7,64,40]")
    refused(put("shared_down", "BF16", [24, 64], tensors["shared_down"][2]), "BF16 [64,24]")
    for name in ["x", "ids", "weights", "dy", "gate", "up", "down", "shared_up", "shared_gate"]:
        refused(lambda changed, name=name: changed.pop(name), f"must hold '{name}'")
    refused(put("shared_gat", "BF16", [1], b"ab"), "nearest is shared_gate")
    refused(put("gate", "BF16", [7, 1, 64], tensors["gate"][2][:896]), "multiple of 8",
            argument="--intermediate")
    refused(lambda changed: None, "contradicts --inputs", "--hidden", 128, argument="--hidden")
    refused(lambda changed: None, "contradicts --inputs", "--topk", 2, argument="--topk")
    refused(lambda changed: None, "which has 6", "--tokens", "2", argument="--tokens")
    refused(lambda changed: [changed.pop(name) for name in list(changed)
                             if name.startswith("shared")] and None,
            "contradicts --inputs", "--output-gate", argument="--output-gate")

    whole = pathlib.Path(good).read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8:8 + length])

    def refused_bytes(data, rule):
        pathlib.Path(path).write_bytes(data)
        expect_refusal(["run", "--inputs", path], "--inputs", rule, "bad_file")

    def refused_header(edit, rule):
        changed = json.loads(json.dumps(header))
        edit(changed)
        text = json.dumps(changed).encode()
        refused_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length:], rule)

    refused_bytes(b"", "at least 8 bytes")
    refused_bytes(whole[:-1], "")
    refused_bytes(whole + b"\0", "")
    refused_bytes(struct.pack("<Q", 1 << 62) + whole[8:], "the header must")
    refused_header(lambda h: h["y"].update(data_offsets=h["x"]["data_offsets"]), "")
    refused_header(lambda h: h["x"].update(shape=[6, 65]), "")
    text = json.dumps(header)
    twice = (text[:-1] + ', "x": ' + json.dumps(header["x"]) + "}").encode()
    refused_bytes(struct.pack("<Q", len(twice)) + twice + whole[8 + length:], "")


def test_bad_routing_files(folder):
    path = os.path.join(folder, "bad.jsonl")
    head = {"model": "m", "layer": 0, "num_experts": 4, "top_k": 2}
    token = {"ids": [0, 3], "weights": [0.5, 0.5]}

    def text_of(*lines):
        return "".join(json.dumps(line) + "\n" for line in lines)

    for text, rule in [("", ""), ("x\n", ""), (text_of(head), "at least one token"),
                       (text_of({**head, "top_k": 5}, token), "top_k"),
                       (text_of(head, {**token, "ids": [0, 4]}), "from -1"),
                       (text_of(head, {**token, "ids": [0]}), "top_k = 2"),
                       (text_of(head, {**token, "ids": [0, 1, 2]}), "top_k = 2"),
                       (text_of(head, {"ids": [0, 1]}), "ids and weights"),
                       (text_of(head, {**token, "weights": [1, 1e300]}), "finite"),
                       (text_of(head)[:-1] + "\n{\"ids\": [0,", ""),
                       (text_of(head) + " " * (2 << 20) + "\n", "at most"),
                       ("{\"top_k\": 1, " + text_of(head)[1:] + text_of(token), "")]:
        pathlib.Path(path).write_text(text)
        expect_refusal(["run", "--routing", "file:" + path], "--routing", rule, "bad_file")


def test_bad_case_files(folder):
    path = os.path.join(folder, "bad.json")
    for text, argument, rule in [("{}", "--case", "mok_case"),
                                 ('{"mok_case": 1, "hiden": 8}', "--case", "nearest is hidden"),
                                 ('{"mok_case": 1, "hidden": 12}', "--hidden", "multiple of 8"),
                                 ('{"mok_case": 1, "topk": 20}', "--topk", "--experts 16"),
                                 ('{"mok_case": 1', "--case", "")]:
        pathlib.Path(path).write_text(text)
        expect_refusal(["run", "--case", path], argument, rule)


def test_failure_leaves_no_file(folder):
    path = os.path.join(folder, "never.safetensors")
    same(mok("run", "--hidden", 12, "--outputs", path)[0], 2)
    assert not os.path.exists(path)
