#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every mutant of tests/mutants/mutants.toml can be applied: its text occurs once in its file, and changes it."""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = "tests/mutants/mutants.toml"


def check(root=ROOT):
    root = pathlib.Path(root)
    problems, seen = [], set()
    for mutant in tomllib.loads((root / LIST).read_text())["mutant"]:
        name, file = mutant["name"], root / mutant["file"]
        times = file.read_text().count(mutant["old"]) if file.is_file() else 0
        if times != 1:
            problems.append(f"{LIST}: [mutants] the text of {name} stands {times} times in {mutant['file']}, not once; bring it up to date")
        if mutant["old"] == mutant["new"]:
            problems.append(f"{LIST}: [mutants] {name} changes nothing")
        if name in seen:
            problems.append(f"{LIST}: [mutants] {name} is there twice")
        seen.add(name)
    return problems


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(1 if found else 0)
