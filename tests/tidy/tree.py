# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks of this folder: the list of files, and C++ text without comments and literals."""

import pathlib
import re
import subprocess

CODE = (".h", ".cc", ".cu", ".cuh")
SKIPPED_FOLDERS = {"build", ".git", "__pycache__"}


def files_below(root):
    """Paths relative to `root` of every file that git tracks or would track; of every file if there is no git."""
    root = pathlib.Path(root)
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True,
                                text=True).stdout.split("\n")
        return sorted({f for f in listed if f and (root / f).is_file()})
    found = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
    return sorted(str(p) for p in found if not SKIPPED_FOLDERS & set(p.parts))


TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]{0,16})\((.*?)\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL)


def without_comments_and_literals(text):
    """The same number of lines, without comments and with empty literals."""

    def replace(match):
        newlines = "\n" * match.group(0).count("\n")
        return newlines if match.group(0).startswith("/") else '""' + newlines

    return TOKEN.sub(replace, text)
