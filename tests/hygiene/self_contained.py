#!/usr/bin/env python3
# self_contained.py: each header compiles alone; the shared ones also for aarch64 and with nvcc.
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from sources import ROOT, headers, report

SHARED_FOLDERS = ("core", "sync", "route", "program")
WARNINGS = "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror".split()
INCLUDES = [f"-I{ROOT}/include", f"-I{ROOT}/src"]


def include_name(path):
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[1:])


def compile_text(command, text, what):
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return None
    lines = (run.stderr + run.stdout).strip().splitlines()
    return f"{what}: " + "\n    ".join(lines[:12])


def job(compiler, extra, path):
    """One header twice in one unit: it includes what it uses, and its guard works."""
    name = include_name(path)
    what = f"{name} with {pathlib.Path(compiler).name}"
    if path.suffix == ".h":
        if compiler != "g++":
            return None
        command = ["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        problem = compile_text([*command, *INCLUDES, "-x", "c", "-"], f'#include "{name}"\n', what + " as C")
        if problem:
            return problem
    command = [compiler, "-std=c++20", "-fsyntax-only", *WARNINGS, *extra, *INCLUDES, "-x", "c++", "-"]
    return compile_text(command, f'#include "{name}"\n#include "{name}"\n', what)


def find_nvcc():
    found = subprocess.run(
        ["cmake", "-P", str(ROOT / "cmake/find_nvcc.cmake")], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def nvcc_job(nvcc, paths, folder):
    """All shared headers in one unit: that each stands alone is known from g++."""
    source = pathlib.Path(folder) / "shared_headers.cu"
    names = [include_name(p) for p in paths]
    source.write_text("".join(f'#include "{n}"\n' for n in names) + "__global__ void empty_kernel() {}\n")
    command = [nvcc, "-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "--expt-relaxed-constexpr"]
    command += ["-Werror=all-warnings", "-Xcompiler=-Wall,-Wextra,-Werror", *INCLUDES]
    return compile_text([*command, "-c", str(source), "-o", f"{folder}/out.o"], "", "shared headers with nvcc")


def main():
    all_headers = headers()
    host = [p for p in all_headers if p.suffix != ".cuh" and "cuda" not in p.relative_to(ROOT).parts]
    shared = [p for p in all_headers if p.suffix == ".hpp" and p.relative_to(ROOT).parts[1] in SHARED_FOLDERS]
    with tempfile.TemporaryDirectory() as folder:
        # The cross compiler must not see the host's headers: only tl/expected.hpp, by a link.
        os.symlink("/usr/include/tl", f"{folder}/tl")
        jobs = [("g++", [], p) for p in host]
        cross = "aarch64-linux-gnu-g++"
        problems = []
        if shutil.which(cross):
            jobs += [(cross, [f"-isystem{folder}"], p) for p in shared]
        else:
            problems.append(f"{cross} is not installed (tools/setup.sh test)")
        num_checked = len(jobs)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            pending = [pool.submit(job, *arguments) for arguments in jobs]
            nvcc = find_nvcc()
            if nvcc and shared:
                num_checked += 1
                pending.append(pool.submit(nvcc_job, nvcc, shared, folder))
            problems += [p.result() for p in pending if p.result()]
    return report("self_contained", problems, num_checked)


if __name__ == "__main__":
    sys.exit(main())
