#!/usr/bin/env python3
# reference_links.py: the reference's objects need nothing of the program but Status: BUILD_FOLDER.
import pathlib
import re
import subprocess
import sys

from sources import ROOT, report

REFERENCE = "libmok_reference.a"
# Error texts, no arithmetic.
ALLOWED = re.compile(r"^(?:non-virtual thunk to )?mok::(?:Status::|Status\b|code_name\(|exit_status\()")
PROJECT_SYMBOL = re.compile(r"\bmok(?:::|_)")


def symbols(archive, kind):
    """Mangled names of an archive, by nm: kind is --undefined-only or --defined-only."""
    run = subprocess.run(
        ["nm", "--format=posix", kind, str(archive)], capture_output=True, text=True, check=True
    )
    fields = [line.split() for line in run.stdout.splitlines()]
    # A weak symbol is an inline function or a template: each object carries its own.
    return {f[0] for f in fields if len(f) >= 2 and f[1] not in ("V", "v", "w")}


def demangle(names):
    names = sorted(names)
    run = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, run.stdout.splitlines()))


def main():
    build = ROOT / sys.argv[1]
    reference = build / REFERENCE
    if not reference.is_file():
        print(f"reference_links: {reference.name} is not built")
        return 1
    others = sorted(p for p in pathlib.Path(build).glob("libmok_*.a") if p.name != REFERENCE)
    defined = symbols(reference, "--defined-only")
    needed = symbols(reference, "--undefined-only") - defined
    readable = demangle(needed)
    problems = []
    for name in sorted(needed):
        text = readable[name]
        if ALLOWED.match(text):
            continue
        owners = [p.name for p in others if name in symbols(p, "--defined-only")]
        if owners or PROJECT_SYMBOL.search(text):
            problems.append(f"the reference needs {text} (defined in {owners or 'no archive'})")
    return report("reference_links", problems, len(defined))


if __name__ == "__main__":
    sys.exit(main())
