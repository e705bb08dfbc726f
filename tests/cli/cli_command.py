# cli_command.py: runs the command, reads its JSON, reads and writes tensor files; for the cli tests.
import json
import os
import pathlib
import struct
import subprocess
import sys

MOK = os.path.abspath(sys.argv[1])
SMALL = ["--hidden", "64", "--intermediate", "40", "--shared-intermediate", "24", "--experts", "7",
         "--topk", "3", "--x", "random"]


def mok(*args, timeout=120, cwd=None):
    done = subprocess.run([MOK, *map(str, args)], capture_output=True, timeout=timeout, cwd=cwd)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def run_json(*args):
    status, out, err = mok("run", "--json", *args)
    assert status == 0, (args, status, err)
    assert out.endswith("\n") and out.count("\n") == 1, "one object on one line"
    return json.loads(out)


def same(a, b, what=""):
    assert a == b, f"{what}: {a!r} is not {b!r}"


def read_tensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)
