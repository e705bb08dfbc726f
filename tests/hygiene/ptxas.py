#!/usr/bin/env python3
# ptxas.py: registers and spills of each kernel, from the reports beside the objects: BUILD_FOLDER.
# A kernel that spills, or a warning of the assembler, fails.
import re
import subprocess
import sys

from sources import ROOT, report

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")


def kernels(text):
    """(name, architecture, registers, stack, spill bytes) for each entry function of one report."""
    found = []
    for block in re.split(r"(?=ptxas info\s+: Compiling entry function)", text):
        entry, spill, used = ENTRY.search(block), SPILL.search(block), USED.search(block)
        if entry and used:
            stack, stores, loads = (int(spill[i]) for i in (1, 2, 3)) if spill else (0, 0, 0)
            found.append((entry[1], entry[2], int(used[1]), stack, stores + loads))
    return found


def main():
    build = ROOT / sys.argv[1]
    problems, num_checked = [], 0
    for path in sorted(build.rglob("*.ptxas.txt")):
        for name, architecture, registers, stack, spilled in kernels(path.read_text()):
            num_checked += 1
            readable = subprocess.run(["c++filt", name], capture_output=True, text=True, check=False)
            text = readable.stdout.strip().split("(")[0] or name
            print(f"{architecture} {registers:4d} registers {stack:5d} B stack {spilled:5d} B spilled  {text}")
            if spilled:
                problems.append(f"{text} spills {spilled} bytes on {architecture}")
    return report("ptxas", problems, num_checked)


if __name__ == "__main__":
    sys.exit(main())
