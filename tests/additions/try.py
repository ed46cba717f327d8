#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""try.py [--check] [NAME...]

Shows what an addition to Atoll takes. Each patch of this folder adds one thing: a job option, a codec, an RPC. It is
applied to a copy of the tree, its targets are built, and its tests run; scripts/house prints how many files it has.
  --check          only tells whether the patches apply
  --preset PRESET  the build, dev if left out
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


def run(*command, cwd):
    print("+", *command, flush=True)
    # Without the ceiling, git would apply the patch to the repository around the copy.
    subprocess.run(command, cwd=cwd, check=True, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(cwd.parent)})


def copy_of_the_tree(name):
    """A folder with the tree's files as they are, without ignored ones. A build directory in it is kept."""
    copy = ROOT / "build" / "additions" / name
    copy.mkdir(parents=True, exist_ok=True)
    for old in copy.iterdir():
        if old.name != "build":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    listed = subprocess.run(("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), cwd=ROOT, check=True, capture_output=True)
    for path in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / path).exists():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, copy / path)
    return copy


def head(patch, key):
    found = re.search(rf"^{key}: (.+)$", patch.read_text(), re.M)
    if not found:
        sys.exit(f"{patch.name}: the head has no line '{key}: ...'")
    return found.group(1)


def attempt(patch, preset):
    copy = copy_of_the_tree(patch.stem)
    build = f"build/{preset}"
    run("git", "apply", str(patch), cwd=copy)
    run("cmake", "--preset", preset, cwd=copy)
    run("cmake", "--build", build, "-j", str(os.cpu_count()), "--target", *head(patch, "Targets").split(), cwd=copy)
    run("ctest", "--test-dir", build, "-j", str(os.cpu_count()), "--output-on-failure", "--no-tests=error", "-R", head(patch, "Tests"), cwd=copy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--preset", default="dev")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    patches = [FOLDER / f"{name}.patch" for name in asked.names] or sorted(FOLDER.glob("*.patch"))
    for patch in patches:
        applies = subprocess.run(("git", "apply", "--check", str(patch)), cwd=ROOT, capture_output=True, text=True)
        if applies.returncode != 0:
            sys.exit(f"{patch.relative_to(ROOT)} does not apply; update it: {applies.stderr.strip()}")
    if not asked.check:
        for patch in patches:
            attempt(patch, asked.preset)


main()
