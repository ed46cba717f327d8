# SPDX-License-Identifier: Apache-2.0
"""Judges each check of a study by its runs: text, measured figure, verdict."""
import statistics

from studies import compare


def judge(results, check):
    for kind, judged_by in (("times_fewer_bytes", judge_bytes), ("faster", judge_rates), ("gap_shrinks", judge_shrinking), ("ahead_early", judge_early),
                            ("peak_share", judge_peak)):
        if kind in check:
            return judged_by(results, check)
    gap = results.table.gap(check["arm"], check["of"])
    run = next((r for (arm, _), r in results.runs.items() if arm == check["arm"]), None)
    tokens = run["tokens"] / run["parameters"] if run else 0
    return compare.words(check), gap.whole() if gap else "", compare.verdict(check, gap, tokens)


def judge_bytes(results, check):
    words = f"{check['arm']}: at least {check['times_fewer_bytes']} times fewer payload bytes than fp32 gradients, both ways"
    fewer = results.times_fewer(check["arm"]) if check["arm"] in results.arms else None
    if not fewer:
        return words, "", "not run"
    measured = f"{fewer[0]:.0f} up, {fewer[1]:.0f} down; against bf16 gradients {fewer[0] / 2:.0f} and {fewer[1] / 2:.0f}"
    return words, measured, "holds" if min(fewer) >= check["times_fewer_bytes"] else "does not hold"


def rate(run):
    """Tokens a second from the first merge to the last, or None for older runs."""
    paced = run.get("paced")
    return paced["tokens"] / paced["seconds"] if paced and paced["seconds"] else None


def one_sided(wanted, values):
    """Judges `values`, one per seed, by seeds alone: only all on one side of 0 count. `wanted`: the expected sign."""
    if all(v * wanted > 0 for v in values):
        return "holds"
    return "does not hold" if all(v * wanted < 0 for v in values) else "not resolved at this size"


def judge_rates(results, check):
    """Figures that include processor time of a shared machine."""
    arm, of = check["arm"], check["of"]
    words = f"{arm}: more tokens a second than {of}, in each seed"
    pairs = [(rate(results.runs[arm, s]), rate(results.runs[of, s])) for s in results.table.seeds_of(arm, of)]
    if not pairs or not all(a and b for a, b in pairs):
        return words, "", "not run"
    ratios = sorted(a / b for a, b in pairs)
    return words, f"{statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})", one_sided(1, [r - 1 for r in ratios])


def gap_in(results, arm, of, seed, begin, end):
    """Mean gap in percent over the evaluations between these shares of the steps, for one seed; None without any.
    Nothing is compared before the other's first evaluation in training: from step 0 its loss falls far from any
    straight line."""
    curve, other = results.runs[arm, seed]["curve"], [point for point in results.runs[of, seed]["curve"] if point[0] > 0]
    last = curve[-1][0]
    gaps = [100 * (loss / between(other, step) - 1) for step, loss in curve if max(begin * last, other[0][0] - 1) < step <= min(end * last, other[-1][0])]
    return statistics.mean(gaps) if gaps else None


def between(points, x):
    """The value at x of a curve of points, by linear interpolation."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def judge_shrinking(results, check):
    """The quarters were fixed before the first run: the mean of the second one, and the last one."""
    arm, of = check["arm"], check["of"]
    words = f"{arm}: its gap to {of} shrinks with tokens seen, from the second quarter to the last, in each seed"
    gaps = [[gap_in(results, arm, of, s, *share) for share in ((0.25, 0.5), (0.75, 1))] for s in results.table.seeds_of(arm, of)]
    if not gaps or any(g is None for pair in gaps for g in pair):
        return words, "", "not run"
    early, late = (statistics.mean(pair[i] for pair in gaps) for i in (0, 1))
    return words, f"{early:+.2f} % to {late:+.2f} %", one_sided(-1, [b - a for a, b in gaps])


def judge_early(results, check):
    """Early means the first half of the steps, fixed before the first run."""
    arm, of = check["arm"], check["of"]
    words = f"{arm}: below {of} in the first half of the steps, in each seed"
    gaps = [gap_in(results, arm, of, s, 0, 0.5) for s in results.table.seeds_of(arm, of)]
    if not gaps or None in gaps:
        return words, "", "not run"
    return words, f"{statistics.mean(gaps):+.2f} % ({min(gaps):+.2f} to {max(gaps):+.2f})", one_sided(-1, gaps)


def judge_peak(results, check):
    """Streaming DiLoCo, section 3: the peak falls to p / L, with p layers per fragment out of L; the embeddings are a
    fragment of their own."""
    arm, of = check["arm"], check["of"]
    spec = next((results.planned[key].spec for key in results.runs if key[0] == arm), None)
    largest = [max((r.get("largest_update") or 0 for r in results.of(a)), default=0) for a in (arm, of)]
    if not spec or not all(largest):
        return f"{arm}: most bytes sent at once, over those of {of}", "", "not run"
    share = spec["sync"]["layers_per_fragment"] / spec["model"]["layers"]
    measured = largest[0] / largest[1]
    return (f"{arm}: most bytes sent at once, over those of {of}, at most p / L = {share:.2f}",
            f"{largest[0]:,} of {largest[1]:,}: {measured:.2f}", "holds" if measured <= share else "does not hold")
