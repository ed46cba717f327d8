#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the Python standard library's sources as a corpus: demo_corpus.py OUT.jsonl

One document a file, in the order of their names, up to LIMIT_BYTES of text. The sources are on every Debian machine that has
python3 (package libpython3.11-stdlib and its successors), under the Python Software Foundation License 2.
"""
import json
import pathlib
import sys

LIMIT_BYTES = 6_000_000
LARGEST_FILE = 200_000


def library():
    for path in sorted(pathlib.Path("/usr/lib").glob("python3.*")):
        if (path / "ast.py").exists():
            return path
    sys.exit("demo_corpus: no Python standard library below /usr/lib; install the package python3")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    root, total, documents = library(), 0, 0
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for path in sorted(root.rglob("*.py")):
            if "site-packages" in path.parts or "dist-packages" in path.parts or "test" in path.parts:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            if not text or len(text) > LARGEST_FILE or total + len(text) > LIMIT_BYTES:
                continue
            out.write(json.dumps({"text": text}) + "\n")
            total += len(text)
            documents += 1
    print(f"{documents} documents, {total / 1e6:.1f} MB of text from {root}")


main()
