#!/usr/bin/env python3
# bits_table.py: hashes of one batch over R, workers, rings, saved rows, directions and policy, as a
# Markdown table: bits_table.py PATH_OF_MOK [flags of mok run ...]. Exit 1 if any hash differs.
import json
import subprocess
import sys

OUTPUTS = ["y", "dx", "d_router", "d_gate", "d_up", "d_down"]
TOTAL_TOKENS = 240
VARIANTS = [
    ("defaults", []),
    ("1 worker", ["--workers", "1"]),
    ("3 workers", ["--workers", "3"]),
    ("smallest ring", ["--ring-rows", "min"]),
    ("saved_rows 0", ["--saved-rows", "0"]),
    ("saved_rows 192", ["--saved-rows", "192"]),
    ("save none", ["--save", "none"]),
    ("dispatch, dy by push", ["--dispatch", "push", "--dy-dispatch", "push"]),
    ("combine, dx by push", ["--combine", "push", "--dx-combine", "push"]),
    ("all pull, smallest ring", ["--combine", "pull", "--dx-combine", "pull", "--ring-rows", "min"]),
    ("all push, smallest ring", ["--dispatch", "push", "--dy-dispatch", "push", "--combine", "push",
                                 "--dx-combine", "push", "--ring-rows", "min", "--saved-rows", "64"]),
]


def hashes(mok, ranks, flags):
    tokens = [TOTAL_TOKENS // ranks + (1 if i < TOTAL_TOKENS % ranks else 0) for i in range(ranks)]
    command = [mok, "run", "--json", "--check", "off", "--ranks", str(ranks), "--tokens",
               ",".join(map(str, tokens)), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    return [found["hash"][name] for name in OUTPUTS]


def main():
    mok, extra = sys.argv[1], sys.argv[2:]
    ranks = [1, 2, 3, 4, 6, 8]
    reference = None
    differing = 0
    print("| options | " + " | ".join(f"R = {r}" for r in ranks) + " |")
    print("| --- |" + " --- |" * len(ranks))
    for name, flags in VARIANTS:
        cells = []
        for r in ranks:
            found = hashes(mok, r, [*flags, *extra])
            reference = reference or found
            wrong = [OUTPUTS[i] for i in range(len(OUTPUTS)) if found[i] != reference[i]]
            differing += len(wrong)
            cells.append("equal" if not wrong else "differs: " + " ".join(wrong))
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()
    for output, value in zip(OUTPUTS, reference):
        print(f"{output} {value}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
