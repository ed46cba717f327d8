#!/usr/bin/env python3
"""oracle_tokenizer.py DIRECTORY EXPECTED

Loads DIRECTORY with transformers' AutoTokenizer and compares its ids with ours.
EXPECTED holds lines {"text": ..., "ids": [...]} written by one of our programs.
Every text must give the same ids; its ids must decode to the same text where ours round-trips.
Exit status: 0 equal, 1 different (the first differences are printed), 77 transformers is not there.
"""
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

SHOWN = 5


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], local_files_only=True)
    texts = different = 0
    with open(sys.argv[2], encoding="utf-8") as lines:
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
    print(f"{type(tokenizer).__name__}: {texts - different} of {texts} texts give the same ids, "
          f"vocabulary {len(tokenizer)}, end of text {tokenizer.eos_token_id}")
    return 1 if different or texts == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
