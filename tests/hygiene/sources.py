# sources.py: which files belong to the project; shared by the checks in this folder.
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPP_SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".c"}


def project_files(root=ROOT):
    """Tracked files and new ones that git does not ignore; without git, everything but build folders."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.decode().split("\0")
        paths = [root / name for name in names if name]
    else:
        paths = []
        for folder, subfolders, files in os.walk(root):
            subfolders[:] = [s for s in subfolders if s not in ("build", ".git", ".venv", "__pycache__")]
            paths += [pathlib.Path(folder) / name for name in files]
    return sorted(p for p in set(paths) if p.is_file() and not p.is_symlink())


def cpp_files(root=ROOT):
    return [p for p in project_files(root) if p.suffix in CPP_SUFFIXES]


def headers(root=ROOT):
    """Headers below include/ and src/, the ones that others include."""
    tops = ("include", "src")
    return [
        p
        for p in cpp_files(root)
        if p.suffix in (".hpp", ".cuh", ".h") and p.relative_to(root).parts[0] in tops
    ]


def report(name, problems, num_checked):
    """Prints the problems and one closing line; returns the exit status. Nothing checked is a failure."""
    for problem in problems:
        print(problem)
    if num_checked == 0:
        print(f"{name}: nothing to check")
        return 1
    print(f"{name}: {num_checked} checked, {len(problems)} problems")
    return 1 if problems else 0
