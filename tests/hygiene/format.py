#!/usr/bin/env python3
# format.py: every C++ and CUDA file is as clang-format 14 leaves it (--fix: make it so).
import shutil
import subprocess
import sys

from sources import ROOT, cpp_files, report

TOOL = "clang-format-14"


def main():
    if shutil.which(TOOL) is None:
        print(f"format: {TOOL} is not installed (tools/setup.sh test)")
        return 1
    files = [str(p.relative_to(ROOT)) for p in cpp_files()]
    if not files:
        return report("format", [], 0)
    if "--fix" in sys.argv[1:]:
        return subprocess.run([TOOL, "-i", *files], cwd=ROOT, check=False).returncode
    run = subprocess.run(
        [TOOL, "--dry-run", "-Werror", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in run.stderr.splitlines() if "error:" in line]
    # The first finding of each file is enough: `make format` mends all.
    problems = list({line.split(":")[0]: line for line in reversed(lines)}.values())
    if run.returncode != 0 and not problems:
        problems = [run.stderr.strip() or f"{TOOL} failed with status {run.returncode}"]
    return report("format", problems, len(files))


if __name__ == "__main__":
    sys.exit(main())
