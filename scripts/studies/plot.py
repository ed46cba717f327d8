# SPDX-License-Identifier: Apache-2.0
"""Draws docs/results/LABEL.png: loss against tokens seen, the gap to the first arm during training and at the end; for the study bytes
also the bytes through the sockets next to the formula.

    PYTHON scripts/studies/plot.py NAME SIZE    PYTHON: the one installed by scripts/setup --plots
"""
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from studies import definition, judging, records, report  # noqa: E402


def curve(results, arm):
    """(tokens, mean loss over seeds, losses of each seed) along the way, for the points that all its seeds have."""
    runs = results.of(arm)
    shared = set.intersection(*({step for step, _ in r["curve"]} for r in runs))
    planned = results.planned[arm, runs[0]["seed"]]
    a_step = planned.tokens() / planned.spec["stop"]["inner_steps"]
    # Older runs without this field have seen the planned tokens, except where a pool or a pace has
    # its own schedule.
    seen = {step: tokens for (step, _), tokens in zip(runs[0]["curve"], runs[0].get("seen", []))}
    rows = [{step: loss for step, loss in r["curve"]} for r in runs]
    points = [(seen.get(step, step * a_step), statistics.mean(row[step] for row in rows)) for step in sorted(shared)]
    return [p for p in points if p[0] > 0]


def draw_curves(axes, results, colours):
    for arm in results.arms:
        points = curve(results, arm)
        axes.plot([x / 1e6 for x, _ in points], [y for _, y in points], marker="o", markersize=3, linewidth=1.3, color=colours[arm], label=arm)
    axes.set_xlabel("million tokens, of all workers")
    axes.set_ylabel("held-out loss, nats per byte")
    axes.legend(fontsize=7, frameon=False)


def gap_points(results, arm, base):
    return [(x, 100 * (y / judging.between(base, x) - 1)) for x, y in curve(results, arm) if known(base, x)]


def draw_gap_curves(axes, results, colours):
    """Gap to the first arm at the same number of tokens: only near its own points, because its curve is unknown in between."""
    base = curve(results, results.arms[0])
    for arm in results.arms[1:]:
        points = gap_points(results, arm, base)
        axes.plot([x / 1e6 for x, _ in points], [y for _, y in points], marker="o", markersize=3, linewidth=1.3, color=colours[arm])
    axes.axhline(0, color=colours[results.arms[0]], linewidth=1)
    axes.set_xlabel("million tokens, of all workers")
    axes.set_ylabel(f"loss above {results.arms[0]}, %")


def known(points, x):
    return points[0][0] <= x <= points[-1][0] and min(abs(x - x0) for x0, _ in points) <= 0.06 * x


def draw_gaps(axes, results, colours):
    base, others = results.arms[0], list(reversed(results.arms[1:]))
    for place, arm in enumerate(others):
        gap = results.table.gap(arm, base)
        if gap:
            axes.errorbar(gap.mean, place, xerr=gap.half or 0, fmt="o", color=colours[arm], capsize=3)
    axes.axvline(0, color=colours[base], linewidth=1)
    axes.set_yticks(range(len(others)), others, fontsize=8)
    axes.set_xlabel(f"final {results.study.measure} against {base}, %,\nwith 95 % intervals")


def draw_runs(axes, results, colours):
    for place, arm in enumerate(results.arms):
        losses = [r["loss"] for r in results.of(arm)]
        axes.plot(losses, [place] * len(losses), "o", color=colours[arm], alpha=0.7)
    axes.set_yticks(range(len(results.arms)), results.arms, fontsize=8)
    axes.set_xlabel("final held-out loss of each run")


def draw_bytes(axes, results, colours):
    """Bytes through the sockets relative to the formula, up and down, from 0 to a little above 1."""
    for place, (arm, ratios) in enumerate(report.byte_ratios(results).items()):
        for offset, direction in ((-0.18, "up"), (0.18, "down")):
            axes.barh(place + offset, 100 * (ratios[direction] - 1), height=0.32, color=colours[arm], alpha=1 if direction == "up" else 0.55)
            axes.text(100 * (ratios[direction] - 1), place + offset, f" {direction}", va="center", fontsize=7)
    axes.axvline(2, color="black", linewidth=1, linestyle="dashed")
    axes.set_yticks(range(len(results.arms)), results.arms, fontsize=8)
    axes.set_xlim(0, 2.2)
    axes.set_xlabel("all bytes of TCP above the formula's payload, % (the bound is 2)")


def main():
    study = definition.Study(sys.argv[1], sys.argv[2])
    results = report.Results(study, records.Records(study).runs)
    palette = plt.get_cmap("tab10" if len(results.arms) <= 10 else "tab20")
    colours = {arm: palette(i % palette.N) for i, arm in enumerate(results.arms)}
    drawn = {"bytes": [draw_bytes], "noise": [draw_curves, draw_runs], "loss": [draw_curves, draw_gap_curves, draw_gaps]}[study.report]
    base = curve(results, results.arms[0])
    if study.report == "loss" and not any(len(gap_points(results, arm, base)) > 1 for arm in results.arms[1:]):
        drawn.remove(draw_gap_curves)  # no arm was evaluated near the first one's tokens
    figure, panels = plt.subplots(1, len(drawn), figsize=(5 * len(drawn) + (3 if len(drawn) == 1 else 0), 4.2), layout="constrained", squeeze=False)
    for draw, axes in zip(drawn, panels[0]):
        draw(axes, results, colours)
    figure.suptitle(study.question, fontsize=11)
    figure.savefig(study.results / f"{study.label}.png", dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
