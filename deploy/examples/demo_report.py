#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table at the end of scripts/demo: demo_report.py JOB.json MANIFEST.json METRICS.txt

METRICS.txt is the coordinator's /metrics page, taken while the workers are connected: it tells bytes by kind.
Exit status 3 when the model is no better than the bigram model.
"""
import array
import collections
import json
import math
import pathlib
import re
import sys

SHARD_HEADER_BYTES = 1024  # docs/formats/token_shard.md; a byte tokenizer's ids are uint16


def bytes_text(n):
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if n < 1000 or unit == "TB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000


def bytes_by_kind(path):
    kinds = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            match = re.match(r'atoll_transfer_bytes_total\{.*kind="(\w+)".*\} (\S+)', line)
            if match:
                kinds[match[1]] = kinds.get(match[1], 0) + float(match[2])
    return kinds


def tokens_of(directory, manifest, split):
    """The shards of a split, each as an array of ids."""
    for file in manifest["files"]:
        if file["split"] == split:
            ids = array.array("H")
            ids.frombytes((directory / file["name"]).read_bytes()[SHARD_HEADER_BYTES:])
            yield ids


def bigram_perplexity(directory, manifest, tokens):
    """The bigram baseline of docs/formats/corpus.md over the first held-out tokens: those that the job evaluates."""
    singles, pairs, before, followers, train = collections.Counter(), collections.Counter(), collections.Counter(), collections.Counter(), 0
    for ids in tokens_of(directory, manifest, "train"):
        singles.update(ids)
        pairs.update(zip(ids, ids[1:]))
        train += len(ids)
    for (a, _), count in pairs.items():
        before[a] += count
        followers[a] += 1
    vocabulary = manifest["tokenizer"]["vocab_size"]
    nats, scored = 0.0, 0
    for ids in tokens_of(directory, manifest, "held_out"):
        ids = ids[:max(0, tokens - scored)]
        for a, b in zip(ids, ids[1:]):
            alone = (singles[b] + 1) / (train + vocabulary)
            nats -= math.log((pairs[a, b] + followers[a] * alone) / (before[a] + followers[a]) if followers[a] else alone)
            scored += 1
    return math.exp(nats / scored)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        answer = json.load(f)
    job = answer.get("job", answer)
    with open(sys.argv[2], encoding="utf-8") as f:
        manifest = json.load(f)
    number = lambda key: int(job.get(key, 0))
    first, last = job["first_evaluation"], job["last_evaluation"]
    batch = job["spec"]["batch"]["sequences_per_step"] * job["spec"]["data"]["sequence_length"]
    worker_steps = number("tokens") // batch  # inner steps of all workers together
    kinds = bytes_by_kind(sys.argv[3])
    moved = kinds.get("contribution", 0) + kinds.get("update", 0) + kinds.get("fragment", 0)
    # Data parallel moves one fp32 gradient up and one update down for each worker and step.
    data_parallel = worker_steps * 2 * 4 * number("parameters")
    evaluated = int(last["tokens"])
    bigram = bigram_perplexity(pathlib.Path(sys.argv[2]).parent, manifest, evaluated)
    rows = [
        ("state", job["state"].removeprefix("JOB_STATE_").lower()),
        ("parameters", f"{number('parameters'):,}"),
        ("outer steps (all fragments)", f"{number('rounds_committed'):,}"),
        ("tokens trained", f"{number('tokens'):,}"),
        ("parameters on the wire, both ways", bytes_text(moved)),
        ("the same by data parallel (fp32)", f"{bytes_text(data_parallel)}  ({data_parallel / max(1, moved):.0f} x)"),
        ("training data streamed to workers", bytes_text(kinds.get("block", 0))),
        ("held-out tokens of the three below", f"{evaluated:,}"),
        ("held-out perplexity at the start", f"{first['perplexity']:.2f}"),
        ("held-out perplexity, bigram model", f"{bigram:.2f}"),
        ("held-out perplexity at the end", f"{last['perplexity']:.2f}"),
        ("bits per byte at the end", f"{last.get('bits_per_byte', 0):.3f}"),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")
    if last["perplexity"] >= bigram:
        print("demo_report: the model is no better than the bigram model; the run is too short or broken", file=sys.stderr)
        sys.exit(3)


main()
