#!/usr/bin/env python3
# text.py: words, first lines, file lengths, addresses and machine paths of every text file.
import re
import sys

from sources import CPP_SUFFIXES, ROOT, project_files, report

# Written in parts, so that this file passes its own check.
BANNED_WORDS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "place" + "holder"]) + r")\b", re.I)
URL = re.compile(r"\b(?:https?|ftp|git|ssh)" + r"://")
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:" + "|".join(["wo" + "rk", "ho" + "me", "ro" + "ot", "Us" + "ers"]) + r")/")
MARKDOWN_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
MAX_LINES = 600
SCRIPT_SUFFIXES = {".py", ".sh", ".cmake"}
SCRIPT_NAMES = {"Makefile", "CMakeLists.txt"}
TEXT_SUFFIXES = CPP_SUFFIXES | SCRIPT_SUFFIXES | {".md", ".json", ".in", ".txt", ".yml", ".yaml", ".toml"}
EXEMPT = {"LICENSE"}


def first_line_problem(path, lines):
    """The first line (after a script's #!) names the file and says what it is."""
    is_script = path.suffix in SCRIPT_SUFFIXES or path.name in SCRIPT_NAMES or (
        path.parent.name == ".ci"
    )
    if path.suffix in CPP_SUFFIXES:
        pattern = r"(//|/\*) " + re.escape(path.name) + r": \S"
    elif is_script:
        pattern = r'(# |""")' + re.escape(path.name) + r": \S"
    else:
        return None
    line = next((text for text in lines if not text.startswith("#!")), "")
    if re.match(pattern, line):
        return None
    return f"the first line must be a comment '{path.name}: what it is'"


def check_file(root, path):
    name = path.relative_to(root)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return [f"{name}: not UTF-8"]
    lines = text.splitlines()
    problems = []
    first = first_line_problem(path, lines)
    if first:
        problems.append(f"{name}:1: {first}")
    if path.suffix != ".md" and len(lines) > MAX_LINES:
        problems.append(f"{name}: {len(lines)} lines, at most {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        if BANNED_WORDS.search(line):
            problems.append(f"{name}:{number}: unfinished: {line.strip()[:80]}")
        if path.suffix != ".md" and URL.search(line):
            problems.append(f"{name}:{number}: an address: {line.strip()[:80]}")
        for target in MARKDOWN_LINK.findall(line) if path.suffix == ".md" else []:
            if not URL.match(target) and not (path.parent / target).exists():
                problems.append(f"{name}:{number}: a link to nothing: {target}")
        if MACHINE_PATH.search(line):
            problems.append(f"{name}:{number}: a path of one machine: {line.strip()[:80]}")
    return problems


def check(root=ROOT):
    files = [
        p
        for p in project_files(root)
        if p.name not in EXEMPT
        and (p.suffix in TEXT_SUFFIXES or p.name in SCRIPT_NAMES or p.parent.name == ".ci" or not p.suffix)
        and "seeds" not in p.parts
    ]
    problems = []
    for path in files:
        problems += check_file(root, path)
    return problems, len(files)


if __name__ == "__main__":
    sys.exit(report("text", *check()))
