# SPDX-License-Identifier: Apache-2.0
"""Samples, medians and shares, and their text forms."""
import statistics

QUIET_CORES = 0.1  # busy with other processes; above this the figures get a warning


def rates(sample):
    """GB/s of every round."""
    return [sample["bytes"] / s / 1e9 for s in sample["seconds"]]


def middle_half(values):
    if len(values) < 4:
        return min(values), max(values)
    quarters = statistics.quantiles(values, n=4)
    return quarters[0], quarters[2]


def shares(sample, yard, clock):
    """Shares of a variant relative to the yardstick in the same round."""
    return [(sample["bytes"] / s) / (yard["bytes"] / y) for s, y in zip(sample[clock], yard[clock])]


def spread(values, digits):
    low, high = middle_half(values)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def foreign(answer):
    """Cores that other processes kept busy meanwhile."""
    return max(group["foreign_cores"] for group in answer["groups"])


def quiet(answer):
    return foreign(answer) <= QUIET_CORES


def verdict(met):
    return "met" if met else "**missed**"


def by_clock(answer, met):
    """Verdict on a goal for seconds without a substitute measure: with other load the yardsticks and the measured
    programs suffer differently."""
    return verdict(met) if quiet(answer) else "not judged: not quiet"


def tally(answer, judged):
    if not quiet(answer):
        return "No row is judged, since the machine was not quiet."
    return f"{sum(judged)} of {len(judged)} rows with a goal meet it."


def rounded(value):
    """Keeps five digits: more is noise, and the files stay small."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value
