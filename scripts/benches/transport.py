# SPDX-License-Identifier: Apache-2.0
"""Fragments up and down over gRPC, as a share of plain sockets and of OpenSSL over them in the same round."""
import statistics

from benches import figures, machine

WHAT = "fragments up and down over gRPC, beside raw TCP and raw TLS with as many connections"
ROUNDS = 15
GOALS = {"gRPC, plaintext": 0.7, "gRPC, mutual TLS": 0.9}  # each as a share of the previous sample


def measure(rounds):
    return machine.program("bench_transport", rounds)


def table(answer):
    quiet = figures.quiet(answer)  # goals are for the clock; with other load only processor time is meaningful
    lines = ["| fragment | connections | what | GB/s | middle half | CPU s a GB | share | by CPU time | goal | |", "|---|---|---|---|---|---|---|---|---|---|"]
    judged = []
    for group in answer["groups"]:
        yard = None
        for sample in group["samples"]:
            goal = GOALS.get(sample["name"])
            told = ["", "", "", ""]
            if goal:
                by_clock, by_cpu = (statistics.median(figures.shares(sample, yard, clock)) for clock in ("seconds", "cpu_seconds"))
                judged.append((by_clock if quiet else by_cpu) >= goal)
                told = [f"{by_clock:.0%}", f"{by_cpu:.0%}", f"{goal:.0%}", figures.verdict(judged[-1])]
            yard = sample
            rates = figures.rates(sample)
            cpu = statistics.median(sample["cpu_seconds"]) / sample["bytes"] * 1e9
            lines.append(f"| {group['name']} | {group['threads']} | {sample['name']} | {statistics.median(rates):.2f} | {figures.spread(rates, 2)} | {cpu:.3f} | "
                         f"{' | '.join(told)} |")
    lines += allocation_table(answer)
    by = "the clock" if quiet else "processor time, since the machine was not quiet"
    return [*lines, "", f"{sum(judged)} of {len(judged)} rows with a goal meet it, judged by {by}."]


def allocation_table(answer):
    """Empty for older figures without a count of allocations."""
    rows = [f"| {group['name']} | {group['threads']} | {sample['name']} | {sample['own_allocations']:.2f} | {sample['own_allocated_bytes']:.0f} | {sample['library_allocations']:.1f} |"
            for group in answer["groups"] for sample in group["samples"] if "own_allocations" in sample]
    if not rows:
        return []
    return ["", "Calls of `operator new` at both ends for each MiB that moved, the beginning and the end of a transfer included: those of the project's own "
            "code with their bytes, and those of gRPC, protobuf and Abseil. What gRPC's C code takes by malloc is not counted.", "",
            "| fragment | connections | what | own calls | own bytes | libraries' calls |", "|---|---|---|---|---|---|", *rows]
