# SPDX-License-Identifier: Apache-2.0
"""The all-reduce of an island over loopback, compared with one raw TCP connection in the same round."""
import statistics

from benches import figures, machine

WHAT = "the all-reduce of an island of 2, 3 and 4 ranks, beside raw TCP both ways in the same run"
ROUNDS = 11
GOAL = 1.5  # of raw TCP, with two ranks


def measure(rounds):
    return machine.program("bench_island", rounds)


def table(answer):
    lines = ["| what | ms | GB/s over all connections | time / raw TCP | CPU seconds a GB | goal | |", "|---|---|---|---|---|---|---|"]
    group = answer["groups"][0]
    raw = group["samples"][0]
    for sample in group["samples"]:
        ratio = statistics.median(mine / yard for mine, yard in zip(sample["seconds"], raw["seconds"]))
        cpu = statistics.median(s / sample["bytes"] * 1e9 for s in sample["cpu_seconds"])
        told = f"at most {GOAL} | {figures.by_clock(answer, ratio <= GOAL)}" if sample["name"].startswith("2 ranks") else " | "
        lines.append(f"| {sample['name']} | {statistics.median(sample['seconds']) * 1e3:.1f} | {statistics.median(figures.rates(sample)):.2f} | "
                     f"{ratio:.2f} | {cpu:.2f} | {told} |")
    return lines
