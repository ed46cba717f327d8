# SPDX-License-Identifier: Apache-2.0
"""The machine's limits: the yardsticks of the other benchmarks."""
import statistics

from benches import figures, gpu, machine

WHAT = "memory copy and triad, TCP over loopback, AES-GCM, checksums and hashes: what the machine can do"
ROUNDS = 15


def measure(rounds):
    return machine.program("bench_limits", rounds) | gpu.measured(rounds)


def table(answer):
    lines = ["| what | threads | GB/s, median | middle half | CPU s a GB |", "|---|---|---|---|---|"]
    for group in answer["groups"]:
        for sample in group["samples"]:
            cpu = statistics.median(sample["cpu_seconds"]) / sample["bytes"] * 1e9
            told = sample["name"] if group["name"] in ("memory", "loopback") else f"{group['name']}: {sample['name']}"
            threads = "two a connection" if group["name"] == "loopback" else group["threads"]
            rates = figures.rates(sample)
            lines.append(f"| {told} | {threads} | {statistics.median(rates):.2f} | {figures.spread(rates, 2)} | {cpu:.3f} |")
    return [*lines, *gpu.limit_lines(answer)]
