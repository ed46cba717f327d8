# SPDX-License-Identifier: Apache-2.0
"""Passes over parameters, as a share of triad in the same round."""
import statistics

from benches import figures, gpu, machine

WHAT = "encode, aggregate, apply and outer step by codec, and the inner step, as a share of triad in the same run"
ROUNDS = 11
GOALS = {"fp32": 0.6, "bf16": 0.6, "int8": 0.6, "mxfp4": 0.5, "e3m0": 0.5, "outer step": 0.6, "inner step": 0.6}
JUDGED = ("encode", "aggregate", "outer step", "AdamW")  # passes with a goal, by prefix of their names
SCREENS = 32  # contributions to a round, for the figure that adds their screens to its aggregate


def measure(rounds):
    return machine.program("bench_passes", rounds) | gpu.measured(rounds)


def rows(answer):
    """Each pass with its share by the clock and by processor time, and its goal if it has one."""
    for group in answer["groups"]:
        yard = group["samples"][0]
        for sample in group["samples"][1:]:
            judged = sample["name"].startswith(JUDGED) and not sample["name"].endswith("of zeros")
            goal = GOALS.get(group["name"]) if judged else None
            by_clock, by_cpu = (statistics.median(figures.shares(sample, yard, clock)) for clock in ("seconds", "cpu_seconds"))
            yield group, sample, by_clock, by_cpu, goal


def between_steps_line(answer):
    """Cost of a send and a merge on the training thread."""
    group = next(g for g in answer["groups"] if g["name"] == "snapshot")
    samples = {s["name"]: s for s in group["samples"]}
    told = []
    for name in ("snapshot", "merge", "merge, half kept"):
        share = statistics.median(figures.shares(samples[name], samples["copy"], "seconds"))
        told.append(f"{name} {statistics.median(samples[name]['seconds']) * 1e3:.1f} ms ({share:.0%} of what a copy moves in the same run)")
    return f"What the training thread pays for a contribution whose update comes before its apply step: {', '.join(told)}."


def with_screens_line(answer):
    """Figure of aggregate if the screens of its contributions, which run while these arrive, are counted as part of it."""
    told = []
    for group in answer["groups"]:
        samples = {s["name"]: s for s in group["samples"]}
        if "screen" not in samples:
            continue
        whole, screen = samples[f"aggregate, N = {SCREENS}"], samples["screen"]
        both = {"bytes": whole["bytes"], "seconds": [a + SCREENS * s for a, s in zip(whole["seconds"], screen["seconds"])]}
        told.append(f"{statistics.median(figures.shares(both, group['samples'][0], 'seconds')):.0%} in `{group['name']}`")
    return f"With the {SCREENS} screens of its round added to it, at one thread and by the clock, aggregate of {SCREENS} comes to this share of triad: {', '.join(told)}."


def table(answer):
    quiet = figures.quiet(answer)  # goals are for the clock; with other load only processor time is meaningful
    lines = ["| codec | pass | threads | ms | GB/s | share of triad | by CPU time | goal | |", "|---|---|---|---|---|---|---|---|---|"]
    judged = []
    for group, sample, by_clock, by_cpu, goal in rows(answer):
        codec = "" if group["name"] in ("outer step", "inner step", "snapshot") else f"`{group['name']}`"
        told = ""
        if goal:
            judged.append((by_clock if quiet else by_cpu) >= goal)
            told = figures.verdict(judged[-1])
        lines.append(f"| {codec} | {sample['name']} | {group['threads']} | {statistics.median(sample['seconds']) * 1e3:.1f} | "
                     f"{statistics.median(figures.rates(sample)):.1f} | {by_clock:.0%} | {by_cpu:.0%} | {f'{goal:.0%}' if goal else ''} | {told} |")
    by = "the clock" if quiet else "processor time, since the machine was not quiet"
    triads = {}
    for clock in ("seconds", "cpu_seconds"):
        for t in (1, 2):
            yards = [g["samples"][0] for g in answer["groups"] if g["threads"] == t]
            triads[clock, t] = statistics.median(y["bytes"] / s / 1e9 for y in yards for s in y[clock])
    return [*lines, "", between_steps_line(answer), "", with_screens_line(answer), "", f"Triad in this run: {triads['seconds', 1]:.1f} GB/s at 1 thread, {triads['seconds', 2]:.1f} GB/s at 2; "
            f"{triads['cpu_seconds', 1]:.1f} and {triads['cpu_seconds', 2]:.1f} GB a second of processor time. "
            f"{sum(judged)} of {len(judged)} rows with a goal meet it, judged by {by}.", *gpu.pass_lines(answer)]
