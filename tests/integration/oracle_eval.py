# SPDX-License-Identifier: Apache-2.0
"""oracle_eval.py WORKER WRITER: log-probabilities of `atoll-worker eval` against transformers on the same
directories.

WRITER (oracle_logits_writer.cc) writes small random models with the byte tokenizer. Each choice of generated minimal
pairs and multiple-choice examples must get the same log-probability (at most 1e-3 relative), and so the same answers.
Exits with 77, a skip, if transformers is missing: scripts/setup --oracles installs it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

RELATIVE = 1e-3

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs the environment", file=sys.stderr)
    sys.exit(77)

PAIRS = [
    {"sentence_good": "Lucille's sisters are confused by Amy.", "sentence_bad": "Lucille's sisters are communicated by Amy."},
    {"sentence_good": "The cats that the dog sees run.", "sentence_bad": "The cats that the dog sees runs."},
    {"sentence_good": "Ein Käse für 3 €", "sentence_bad": "Ein Käse für 3 $"},
]
CHOICES = [
    {"ctx": "A man opens the door. He", "endings": ["walks in.", "is a door.", "rains.", "sits on the roof of it."], "label": 0},
    {"ctx": "", "endings": ["Once upon a time", "time a upon Once"], "label": "1"},
]


def texts(example):
    """(context, choice) pairs of an example, by docs/formats/eval-tasks.md."""
    if "sentence_good" in example:
        return [("", example["sentence_good"]), ("", example["sentence_bad"])]
    return [(example["ctx"], e if e.startswith(" ") else " " + e) for e in example["endings"]]


def log_probability(model, tokenizer, context, choice):
    before = tokenizer(context, add_special_tokens=False)["input_ids"]
    whole = tokenizer(context + choice, add_special_tokens=False)["input_ids"]
    if not before:
        before, whole = [tokenizer.eos_token_id], [tokenizer.eos_token_id, *whole]
    with torch.no_grad():
        scores = torch.log_softmax(model(torch.tensor([whole])).logits[0].double(), -1)
    return sum(scores[i - 1, whole[i]].item() for i in range(len(before), len(whole)))


def main():
    transformers.logging.set_verbosity_error()
    worst, compared = 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.argv[2], folder / "models"], check=True)
        files = []
        for task, examples in (("pairs", PAIRS), ("choices", CHOICES)):
            files.append(folder / f"{task}.jsonl")
            files[-1].write_text("".join(json.dumps(e) + "\n" for e in examples), encoding="utf-8")
        for directory in sorted(p for p in (folder / "models").iterdir() if p.is_dir()):
            model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
            tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
            ran = subprocess.run([sys.argv[1], "eval", "--checkpoint", directory, "--task", ",".join(map(str, files)), "--per-example"],
                                 check=True, capture_output=True, text=True)
            ours = [json.loads(line) for line in ran.stdout.splitlines()]
            ours = [line["log_probabilities"] for line in ours if "example" in line]
            for scores, example in zip(ours, PAIRS + CHOICES, strict=True):
                for mine, (context, choice) in zip(scores, texts(example), strict=True):
                    theirs = log_probability(model, tokenizer, context, choice)
                    worst = max(worst, abs(mine - theirs) / abs(theirs))
                    compared += 1
    print(f"{compared} log-probabilities compared, relative difference at most {worst:.2e}")
    if compared == 0 or not worst <= RELATIVE:
        print(f"FAILED: more than {RELATIVE} apart", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
