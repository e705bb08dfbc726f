#!/usr/bin/env python3
# tidy.py: clang-tidy 14 over src/**/*.cpp: tidy.py BUILD_FOLDER. A file that passed is not run again
# until it, a header, the checks or its compile command change.
import concurrent.futures
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

from sources import ROOT, headers, report

TOOL = "clang-tidy-14"


def run_one(build, source):
    # The database holds g++'s options, of which clang does not know every warning.
    command = [TOOL, "--quiet", "--warnings-as-errors=*", "--extra-arg=-Wno-unknown-warning-option"]
    command += ["-p", str(build), str(source)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return None
    lines = [line for line in run.stdout.splitlines() if "error:" in line or "warning:" in line]
    return "\n".join(sorted(set(lines))) or run.stderr.strip()[:2000]


def main():
    if shutil.which(TOOL) is None:
        print(f"tidy: {TOOL} is not installed (tools/setup.sh test)")
        return 1
    build = (ROOT / sys.argv[1]).resolve()
    database = json.loads((build / "compile_commands.json").read_text())
    commands = {pathlib.Path(e["file"]): e["command"] for e in database}
    sources = sorted(p for p in commands if p.is_relative_to(ROOT / "src") and p.suffix == ".cpp")
    cache = build / "tidy"
    cache.mkdir(exist_ok=True)
    common = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for header in headers():
        common.update(header.read_bytes())

    def checked(source):
        key = common.copy()
        key.update(commands[source].encode() + source.read_bytes())
        stamp = cache / key.hexdigest()
        if stamp.exists():
            return None
        problem = run_one(build, source)
        if problem is None:
            stamp.touch()
        return problem

    # Longest first: the pool ends with short ones.
    order = sorted(sources, key=lambda p: -p.stat().st_size)
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        found = [p for p in pool.map(checked, order) if p]
    # A finding in a header comes once for each file that includes it.
    problems = sorted({line for text in found for line in text.splitlines()})
    return report("tidy", problems, len(sources))


if __name__ == "__main__":
    sys.exit(main())
