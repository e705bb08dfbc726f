#!/usr/bin/env python3
# includes.py: who may include whom: nothing below a layer knows the layer.
import re
import sys

from sources import ROOT, cpp_files, report

# Folder of src/ -> the other folders it may include. Public headers (mok/...) are open to all but
# the reference.
ALLOWED = {
    "core": set(),
    "sync": {"core"},
    "route": {"core"},
    "program": {"core", "sync", "route"},
    "comm": {"core", "sync"},
    "reference": set(),
    "io": {"core"},
    "cpu": {"core", "sync", "route", "program", "comm"},
    "cuda": {"core", "sync", "route", "program", "comm"},
    "sim": {"core", "sync", "route", "program", "comm"},
    "layer": {"core", "sync", "route", "program", "comm", "cpu", "cuda", "sim"},
    "capi": {"core", "sync", "route", "program", "comm", "cpu", "cuda", "sim", "layer"},
    "cli": {
        "core", "sync", "route", "program", "comm", "cpu", "cuda", "sim", "layer", "capi",
        "reference", "io",
    },
}
# The reference shares storage types with the program, and no arithmetic but bf16 rounding.
REFERENCE_HEADERS = {"core/bf16.hpp", "core/host_device.hpp", "mok/status.hpp"}
# Third-party headers -> the folders that may use them.
THIRD_PARTY = {
    "CLI": {"cli"},
    "nlohmann": {"io", "cli"},
    "fmt": {"io", "cli"},
    "xxhash.h": {"io", "cli"},
    "tl": set(ALLOWED) | {"mok"},
}
# Host+device folders do no I/O.
NO_IO_FOLDERS = {"core", "sync", "route", "program"}
IO_HEADERS = {"iostream", "fstream", "filesystem", "cstdio", "stdio.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def check_file(root, path):
    parts = path.relative_to(root).parts
    name = "/".join(parts)
    public = parts[0] == "include"
    folder = "mok" if public else parts[1]
    if not public and len(parts) == 2:
        return [f"{name}: a source lies in a folder of src/, not in src/ itself"]
    if not public and folder not in ALLOWED:
        return [f"{name}: folder {folder} has no row in tests/hygiene/includes.py"]
    problems = []
    for quote, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
        top = target.split("/")[0]
        if top in THIRD_PARTY:
            if folder not in THIRD_PARTY[top]:
                problems.append(f"{name}: includes {target}, allowed in {sorted(THIRD_PARTY[top])}")
        elif quote == "<" and top not in ALLOWED and not target.startswith("mok"):
            if folder in NO_IO_FOLDERS and target in IO_HEADERS:
                problems.append(f"{name}: includes <{target}>, but {folder} does no I/O")
        elif folder == "reference" and top != "reference":
            if target not in REFERENCE_HEADERS:
                problems.append(f"{name}: includes {target}, allowed: {sorted(REFERENCE_HEADERS)}")
        elif target == "mok.h" or top == "mok":
            continue
        elif public:
            problems.append(f"{name}: a public header includes {target}, allowed: mok/ only")
        elif top not in ALLOWED:
            problems.append(f"{name}: includes {target}: name it from src/ (folder/file.hpp)")
        elif top != folder and top not in ALLOWED[folder]:
            problems.append(f"{name}: {folder} includes {target}, allowed: {sorted(ALLOWED[folder])}")
    return problems


def check(root=ROOT):
    files = [p for p in cpp_files(root) if p.relative_to(root).parts[0] in ("include", "src")]
    problems = []
    for path in files:
        problems += check_file(root, path)
    return problems, len(files)


if __name__ == "__main__":
    sys.exit(report("includes", *check()))
