#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oracle_tokenizer.py DIRECTORY EXPECTED [DIRECTORY EXPECTED]...

Loads each DIRECTORY with transformers' AutoTokenizer and compares its ids with ours. EXPECTED holds lines {"text":
..., "ids": [...]} written by one of our programs. Every text must give the same ids.

Exit status: 0 equal, 1 different (prints the first differences), 77 transformers is missing.
"""
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

SHOWN = 5


def compare(load, directory: str, expected_path: str) -> bool:
    """True if every text gives the same ids."""
    tokenizer = load(directory, local_files_only=True)
    texts = different = 0
    with open(expected_path, encoding="utf-8") as lines:
        for line in lines:
            expected = json.loads(line)
            texts += 1
            ids = tokenizer(expected["text"])["input_ids"]
            if ids == expected["ids"]:
                continue
            different += 1
            if different <= SHOWN:
                at = next((i for i, (a, b) in enumerate(zip(ids, expected["ids"])) if a != b),
                          min(len(ids), len(expected["ids"])))
                print(f"text {texts} {expected['text'][:60]!r}: ids differ from index {at}: "
                      f"theirs {ids[at:at + 8]}, ours {expected['ids'][at:at + 8]}")
    print(f"{directory}: {type(tokenizer).__name__}, {texts - different} of {texts} texts give the same ids, "
          f"vocabulary {len(tokenizer)}, end of text {tokenizer.eos_token_id}")
    return texts > 0 and different == 0


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or len(arguments) % 2:
        sys.exit(__doc__)
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    pairs = zip(arguments[::2], arguments[1::2])
    results = [compare(AutoTokenizer.from_pretrained, directory, expected) for directory, expected in pairs]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
