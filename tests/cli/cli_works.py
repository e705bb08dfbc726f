# cli_works.py: what the command promises to users whose input is right.
import json
import math
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import time

from cli_command import MOK, SMALL, mok, read_tensors, run_json, same, write_tensors

NAMES = ["y", "dx", "d_router", "d_gate", "d_up", "d_down", "d_shared_gate", "d_shared_up",
         "d_shared_down"]
# Bits of these do not depend on R; shared gradients are sums of the ranks' own.
OVER_RANKS = NAMES[:6]
SLOTS = ["dispatch", "combine", "dy_dispatch", "dx_combine"]


def test_default_run_in_text(folder):
    status, out, err = mok("run")
    same(status, 0, err)
    for word in ["hidden 512", "rows", "load", "route", "forward", "backward", "GFLOP/s", "dispatch",
                 "memory", "formula", "error/bound", "xxh64:", "run_to_run", "ep_invariant",
                 "check: full", "ok: every output"]:
        assert word in out, word
    same(err, "", "nothing on stderr")


def test_rows_and_load_of_each_rank_are_printed(folder):
    # B77: a generator that leaves ranks idle must show: few tokens, many experts and ranks.
    flags = ["--ranks", "8", "--tokens", "2", "--experts", "128", "--topk", "8", "--hidden", "16",
             "--intermediate", "8"]
    for routing in ["uniform", "zipf", "hot"]:
        rows = run_json(*flags, "--routing", routing)["rows_per_rank"]
        same(sum(rows), 8 * 2 * 8)
        status, out, err = mok("run", *flags, "--routing", routing)
        same(status, 0, err)
        lines = [line.split() for line in out.splitlines()]
        table = [line for line in lines if len(line) > 3 and line[0].isdigit() and line[2].endswith("x")]
        same([int(line[1]) for line in table], rows)
        same([line[2] for line in table], [f"{each * 8 / sum(rows):.2f}x" for each in rows])


def test_stderr_that_is_closed_or_full_costs_only_the_text(folder):
    small = " ".join(SMALL)
    for redirect in ["2>&-", "2>/dev/full"]:
        for flags, status in [(f"{small} --json --tokens 1", 0), ("--bogus", 2)]:
            done = subprocess.run(["sh", "-c", f"'{MOK}' run {flags} {redirect}"],
                                  capture_output=True, timeout=60)
            same(done.returncode, status, f"{flags} {redirect}")
            assert status == 2 or json.loads(done.stdout)["ok"]


def test_text_of_a_recording_cannot_write_to_the_terminal(folder):
    path = os.path.join(folder, "r.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"model": "m\n\x1b[31m\x00", "layer": 0, "num_experts": 7,
                               "top_k": 1}) + "\n")
        file.write(json.dumps({"ids": [3], "weights": [1.0]}) + "\n")
    status, out, err = mok("run", "--hidden", "16", "--intermediate", "8", "--tokens", "2",
                           "--routing", "file:" + path)
    same(status, 0, err)
    assert "\x1b" not in out and "\x00" not in out and "\nm\n" not in out


def test_json_has_exactly_the_documented_keys(folder):
    found = run_json()
    same(list(found), ["ok", "version", "backend", "engine", "ranks", "shape", "options",
                       "determinism", "rows_per_rank", "phases", "ring_turns", "replayed_rows",
                       "transfers", "time_ms", "peak_bytes", "formula_bytes", "max_abs_err",
                       "rel_err", "error_over_bound", "hash"])
    same((found["ok"], found["version"], found["backend"], found["ranks"]),
         (True, "0.1.0", "cpu", 4))
    assert found["engine"] in ("scalar", "avx2", "avx512_bf16")
    same(found["shape"], {"tokens": [64] * 4, "hidden": 512, "intermediate": 256,
                          "shared_intermediate": 256, "experts": 16, "topk": 4})
    same(found["options"], {"dispatch": "pull", "combine": "scatter", "dy_dispatch": "pull",
                            "dx_combine": "scatter", "ring_rows": 512, "saved_rows": 576,
                            "save": "all", "grad": "bf16"})
    same(found["determinism"], ["run_to_run", "schedule_invariant", "ep_invariant"])
    for key in ["rows_per_rank", "phases", "ring_turns", "replayed_rows"]:
        assert len(found[key]) == 4 and all(type(each) is int for each in found[key]), key
    same(sum(found["rows_per_rank"]), 64 * 4 * 4)
    same(list(found["transfers"]), SLOTS)
    for slot in SLOTS:
        counts = found["transfers"][slot]
        same(list(counts), ["direction", "bytes", "remote_reads", "remote_writes"])
        assert all(type(counts[key]) is int for key in list(counts)[1:])
    same(list(found["time_ms"]), ["route", "forward", "backward", "reference"])
    assert all(type(each) is float and each >= 0 for each in found["time_ms"].values())
    assert type(found["peak_bytes"]) is int and found["peak_bytes"] > 0
    same(found["peak_bytes"], found["formula_bytes"])
    for key in ["max_abs_err", "rel_err", "error_over_bound"]:
        same(list(found[key]), NAMES, key)
        assert all(type(each) is float and math.isfinite(each) for each in found[key].values())
    assert all(0 <= each < 1 for each in found["error_over_bound"].values())
    same(list(found["hash"]), NAMES)
    assert all(each.startswith("xxh64:") and len(each) == 22 for each in found["hash"].values())


def test_outputs_follow_the_shape(folder):
    found = run_json(*SMALL, "--output-gate")
    same(list(found["hash"]), NAMES + ["d_shared_output_gate"])
    found = run_json("--hidden", 64, "--intermediate", 40, "--shared-intermediate", 0, "--check",
                     "off")
    same(list(found["hash"]), OVER_RANKS)
    same(found["error_over_bound"], {}, "nothing is claimed where nothing was checked")


def test_hashes_do_not_depend_on_ranks(folder):
    hashes = [run_json(*SMALL, "--ranks", ranks, "--tokens", tokens, "--check", "off")["hash"]
              for ranks, tokens in [(1, 48), (2, 24), (3, "48,0,0"), (4, 12), (6, 8), (8, 6),
                                    (3, "1,30,17")]]
    for each in hashes[1:]:
        for name in OVER_RANKS:
            same(each[name], hashes[0][name], name)


def test_hashes_do_not_depend_on_options(folder):
    base = run_json(*SMALL, "--tokens", "40,9,0,23", "--routing", "zipf")["hash"]
    for options in [["--ring-rows", "min"], ["--ring-rows", 1024], ["--saved-rows", 0],
                    ["--saved-rows", 64], ["--save", "none"], ["--workers", 3],
                    ["--dispatch", "push", "--dy-dispatch", "push"],
                    ["--combine", "push", "--dx-combine", "push"],
                    ["--combine", "pull", "--dx-combine", "pull"],
                    ["--check", "sample"], ["--join-deadline-ms", 50000]]:
        found = run_json(*SMALL, "--tokens", "40,9,0,23", "--routing", "zipf", *options)
        same(found["hash"], base, options)


def test_hashes_depend_on_the_seed_and_the_input(folder):
    base = run_json(*SMALL)["hash"]
    same(run_json(*SMALL)["hash"], base, "again")
    for options in [["--seed", 2], ["--routing", "uniform"], ["--routing", "hot"],
                    ["--swiglu-limit", 0.5]]:
        assert run_json(*SMALL, *options)["hash"]["y"] != base["y"], options


def test_every_engine_passes(folder):
    for engine in ["scalar", "avx2", "avx512_bf16"]:
        status, out, err = mok("run", *SMALL, "--engine", engine, "--json")
        if status == 2 and "lacks" in err:
            continue
        same(status, 0, err)
        same(json.loads(out)["engine"], engine)


def test_gradient_forms_layers_and_microbatches(folder):
    for grad in ["bf16", "fp32", "main-grad"]:
        found = run_json(*SMALL, "--grad", grad, "--layers", 2, "--microbatches", 3)
        same(found["options"]["grad"], grad)
        same(sum(found["rows_per_rank"]), 64 * 4 * 3 * 6, "sums over layers and micro-batches")
    assert run_json(*SMALL, "--save", "none")["options"]["save"] == "none"


def test_transfers_have_closed_forms(folder):
    alone = run_json(*SMALL, "--ranks", 1, "--tokens", 48)["transfers"]
    for slot in SLOTS:
        same([alone[slot][key] for key in ["bytes", "remote_reads", "remote_writes"]], [0, 0, 0])
    outputs = os.path.join(folder, "t.safetensors")
    for directions, reads in [(["pull", "scatter", "pull", "scatter"], [1, 0, 1, 0]),
                              (["push", "pull", "push", "push"], [0, 1, 0, 0])]:
        flags = []
        for slot, direction in zip(SLOTS, directions):
            flags += ["--" + slot.replace("_", "-"), direction]
        found = run_json(*SMALL, "--ranks", 3, "--tokens", "20,4,11", "--outputs", outputs, *flags)
        ids = struct.unpack("<105i", read_tensors(outputs)["ids"][2])
        token_rank = [0] * 20 + [1] * 4 + [2] * 11
        expert_rank = [0, 0, 0, 1, 1, 2, 2]  # 7 experts: 3, 2, 2
        remote = sum(expert_rank[each] != token_rank[i // 3] for i, each in enumerate(ids)
                     if each >= 0)
        assert remote > 0
        for slot, direction, is_read in zip(SLOTS, directions, reads):
            same(found["transfers"][slot],
                 {"direction": direction, "bytes": remote * 64 * 2,
                  "remote_reads": remote if is_read else 0,
                  "remote_writes": 0 if is_read else remote}, slot)


def test_replayed_rows_are_counted(folder):
    found = run_json(*SMALL, "--saved-rows", 0)
    same(found["replayed_rows"], found["rows_per_rank"])
    same(run_json(*SMALL)["replayed_rows"], [0] * 4)


def test_outputs_hold_everything(folder):
    path = os.path.join(folder, "out.safetensors")
    found = run_json(*SMALL, "--ranks", 3, "--tokens", "5,0,8", "--output-gate", "--outputs", path)
    tensors = read_tensors(path)
    expected = {"x": ("BF16", [13, 64]), "ids": ("I32", [13, 3]), "weights": ("F32", [13, 3]),
                "dy": ("BF16", [13, 64]), "gate": ("BF16", [7, 40, 64]),
                "up": ("BF16", [7, 40, 64]), "down": ("BF16", [7, 64, 40]),
                "shared_gate": ("BF16", [24, 64]), "shared_up": ("BF16", [24, 64]),
                "shared_down": ("BF16", [64, 24]), "shared_output_gate": ("BF16", [64]),
                "y": ("BF16", [13, 64]), "dx": ("BF16", [13, 64]), "d_router": ("F32", [13, 3]),
                "d_gate": ("BF16", [7, 40, 64]), "d_up": ("BF16", [7, 40, 64]),
                "d_down": ("BF16", [7, 64, 40]), "d_shared_gate": ("F32", [24, 64]),
                "d_shared_up": ("F32", [24, 64]), "d_shared_down": ("F32", [64, 24]),
                "d_shared_output_gate": ("F32", [64])}
    same({name: entry[:2] for name, entry in tensors.items()}, expected)
    again = run_json("--inputs", path, "--ranks", 3, "--tokens", "5,0,8")
    same(again["hash"], found["hash"], "the file says the same as the seed")


def test_inputs_are_split_evenly_or_as_told(folder):
    path = os.path.join(folder, "in.safetensors")
    first = run_json(*SMALL, "--ranks", 1, "--tokens", 14, "--outputs", path)
    for ranks, tokens, split in [(4, None, [4, 4, 3, 3]), (2, "10,4", [10, 4]), (2, "7", [7, 7])]:
        flags = [] if tokens is None else ["--tokens", tokens]
        found = run_json("--inputs", path, "--ranks", ranks, *flags)
        same(found["shape"]["tokens"], split)
        for name in OVER_RANKS:
            same(found["hash"][name], first["hash"][name], name)
    # int64 ids say the same.
    tensors = read_tensors(path)
    ids = struct.unpack("<42i", tensors["ids"][2])
    tensors["ids"] = ("I64", [14, 3], struct.pack("<42q", *ids))
    write_tensors(path, tensors)
    found = run_json("--inputs", path, "--ranks", 1)
    same(found["hash"], first["hash"])
    # Agreeing flags are no contradiction.
    run_json("--inputs", path, "--hidden", 64, "--experts", 7, "--topk", 3, "--check", "off")


def test_nan_in_one_token_stays_there(folder):
    path = os.path.join(folder, "nan.safetensors")
    out = os.path.join(folder, "nan_out.safetensors")
    run_json("--hidden", 64, "--intermediate", 40, "--shared-intermediate", 0, "--experts", 7,
             "--topk", 3, "--x", "random", "--ranks", 2, "--tokens", 8, "--outputs", path)
    clean = read_tensors(path)
    tensors = {name: clean[name] for name in ["x", "ids", "weights", "dy", "gate", "up", "down"]}
    x = bytearray(tensors["x"][2])
    x[5 * 128:5 * 128 + 2] = b"\xc0\x7f"
    tensors["x"] = ("BF16", [16, 64], bytes(x))
    write_tensors(path, tensors)
    status, _, err = mok("run", "--inputs", path, "--ranks", 2, "--outputs", out)
    same(status, 0, err)
    dirty = read_tensors(out)
    for name, row_bytes in [("y", 128), ("dx", 128), ("d_router", 12)]:
        for token in range(16):
            rows = [each[name][2][token * row_bytes:(token + 1) * row_bytes]
                    for each in (clean, dirty)]
            assert token == 5 or rows[0] == rows[1], (name, token)


def test_recorded_routing_sets_experts(folder):
    path = os.path.join(folder, "routing.jsonl")
    lines = [{"model": "m", "layer": 3, "num_experts": 5, "top_k": 2}]
    lines += [{"ids": [i % 5, -1], "weights": [0.75, 0.25]} for i in range(3)]
    pathlib.Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, out, err = mok("run", "--routing", "file:" + path, "--tokens", 4, "--ranks", 2)
    same(status, 0, err)
    assert "5 experts, top-2" in out and "holds 3 tokens, the run has 8: it is repeated" in out
    status, out, err = mok("run", "--routing", "file:" + path, "--tokens", 4, "--ranks", 2, "--json")
    same(json.loads(out)["shape"]["experts"], 5)
    assert "it is repeated" in err
    status, _, err = mok("run", "--routing", "file:" + path, "--tokens", 4, "--experts", 5)
    same(status, 0, err)
    for flag, value in [("--experts", 6), ("--topk", 1)]:
        status, _, err = mok("run", "--routing", "file:" + path, flag, value)
        same(status, 2)
        assert flag in err and "contradicts --routing" in err, err


def test_verify_passes_and_repeats(folder):
    status, out, err = mok("verify", "--cases", 4, "--seed", 9, "--json", cwd=folder)
    same(status, 0, err)
    found = json.loads(out)
    same((found["ok"], found["cases"], found["seed"], found["passed"], found["failed"]),
         (True, 4, 9, 4, 0))
    status, again, _ = mok("verify", "--cases", 4, "--seed", 9, "--json", cwd=folder)
    same(again, out)
    status, text, _ = mok("verify", "--cases", 2, "--seed", 9, cwd=folder)
    same((status, text.splitlines()[-1]), (0, "2 passed, 0 failed"))


def test_a_case_file_replays(folder):
    path = os.path.join(folder, "case.json")
    case = {"mok_case": 1, "tokens": [9, 0, 4], "hidden": 48, "intermediate": 24,
            "shared_intermediate": 16, "experts": 5, "topk": 2, "output_gate": True,
            "swiglu_limit": 1.0, "combine": "pull", "save": "none", "grad": "fp32", "seed": 12,
            "x": "random", "routing": "random"}
    pathlib.Path(path).write_text(json.dumps(case))
    found = run_json("--case", path, "--check", "full")
    same(found["shape"]["tokens"], [9, 0, 4])
    same(found["options"]["combine"], "pull")
    same(run_json("--case", path, "--workers", 2)["hash"], found["hash"])


def test_doctor_judges_everything(folder):
    status, out, err = mok("doctor", "--json")
    same(status, 0, err)
    found = json.loads(out)
    same([each["item"] for each in found["findings"]],
         ["cpu", "memory", "driver", "gpus", "peer_access", "nvlink", "nccl"])
    for each in found["findings"]:
        assert each["verdict"] in ("ok", "missing", "too old"), each
        assert each["verdict"] == "ok" or each["advice"], each
    status, text, _ = mok("doctor")
    same(status, 0)
    assert "best engine" in text


def test_version_and_help(folder):
    same(mok("--version"), (0, "mok 0.1.0\n", ""))
    status, out, err = mok("run", "--help")
    same((status, err), (0, ""))
    for flag in ["--backend", "--engine", "--ranks", "--workers", "--tokens", "--hidden",
                 "--intermediate", "--shared-intermediate", "--output-gate", "--swiglu-limit",
                 "--experts", "--topk", "--model", "--layers", "--microbatches", "--ring-rows",
                 "--saved-rows", "--dispatch", "--combine", "--dy-dispatch", "--dx-combine",
                 "--save", "--grad", "--check", "--case", "--seed", "--join-deadline-ms",
                 "--progress-deadline-ms", "--json", "--x", "--routing", "--inputs", "--outputs"]:
        assert flag + " " in out or flag + "\n" in out, flag


def test_auto_backend_is_said(folder):
    _, out, _ = mok("run", *SMALL)
    assert "backend auto is cpu" in out
    _, _, err = mok("run", *SMALL, "--json")
    assert "backend auto is cpu" in err and "check full" in err
    _, out, _ = mok("run", *SMALL, "--backend", "cpu", "--check", "sample")
    assert "backend auto" not in out and "check: sample (as asked)" in out


def test_interrupt_exits_130(folder):
    child = subprocess.Popen([MOK, "verify", "--cases", "100000"], cwd=folder,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.7)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    same(child.returncode, 130)
    assert b"interrupted" in err


def test_progress_on_a_terminal_only(folder):
    main, terminal = pty.openpty()
    child = subprocess.Popen([MOK, "verify", "--cases", "100000"], cwd=folder,
                             stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    seen, begin = b"", time.monotonic()
    while b"%" not in seen and time.monotonic() - begin < 20:
        if select.select([main], [], [], 0.2)[0]:
            seen += os.read(main, 4096)
    child.send_signal(signal.SIGINT)
    child.wait(timeout=20)
    os.close(main)
    assert b"[" in seen and b"%" in seen and b"case " in seen, seen


def test_a_full_disk_is_an_error(folder):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([MOK, "doctor"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    same(done.returncode, 2)
    assert b"standard output" in done.stderr
