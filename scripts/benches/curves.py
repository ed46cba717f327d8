# SPDX-License-Identifier: Apache-2.0
"""Compares loss curves of the training step with PyTorch: the same first parameters, batches and recipe, for a few
hundred steps."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from benches import figures, machine, training

WHAT = "loss curves beside PyTorch eager over a few hundred steps; --rounds is their number"
ROUNDS = 300  # steps
THREADS = 2
TURN = 10  # steps; also the window of the curves' means
# The largest relative difference of means over TURN steps that counts as agreement. In fp32, sums
# have a different order; in bf16, the peer's autocast rounds at other places, and each rounding is
# 2^-9 of the value.
GOALS = {"fp32": 1e-3, "bf16": 1e-2}
PICTURE = machine.ROOT / "docs/results/training-curves.svg"


def group(program, folder, precision, steps):
    with machine.ForeignLoad() as load:
        running = list(training.sides(program, folder, precision, THREADS, ("PyTorch eager",)))
        for begin in range(0, steps, TURN):
            for side in running:
                side.turn(min(TURN, steps - begin), timed=False)
            print(f"{precision}: {min(begin + TURN, steps)} of {steps} steps", file=sys.stderr)
        for side in running:
            side.close()
    # Integers, because other numbers are stored with five digits: the curves differ in later ones.
    curves = [{"name": s.name, "micronats": [round(1e6 * loss) for loss in s.losses]} for s in running]
    return {"name": precision, "threads": THREADS, "foreign_cores": load.cores, "curves": curves}


def measure(steps):
    training.python()
    program = str(machine.built("bench-training", "bench_training") / "bench_training")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "write", folder], check=True)
        recipe = json.loads((pathlib.Path(folder) / "bench.json").read_text())
        groups = [group(program, folder, precision, steps) for precision in ("fp32", "bf16")]
    return {"machine": machine.described(), "groups": groups, "recipe": recipe}


def losses_of(g):
    """Losses of Atoll and the peer, step by step, in nats per token."""
    return [[loss / 1e6 for loss in curve["micronats"]] for curve in g["curves"]]


def means(losses):
    """Means over TURN steps; the last one over the remainder."""
    return [statistics.mean(losses[at:at + TURN]) for at in range(0, len(losses), TURN)]


def differences(ours, theirs):
    """Relative differences with sign: above 0 where Atoll's loss is higher."""
    return [(a - b) / abs(b) for a, b in zip(ours, theirs)]


def compared(g):
    """(largest difference of one step, of a mean over TURN steps, mean difference over all steps)"""
    ours, theirs = losses_of(g)
    steps = differences(ours, theirs)
    return max(map(abs, steps)), max(map(abs, differences(means(ours), means(theirs)))), statistics.mean(steps)


def table(answer):
    lines = ["| type | steps | first loss | last loss, Atoll | last loss, PyTorch eager | apart, one step | "
             f"apart, means of {TURN} steps | goal | | mean difference |", "|---|---|---|---|---|---|---|---|---|---|"]
    for g in answer["groups"]:
        ours, theirs = losses_of(g)
        step, mean, drift = compared(g)
        lines.append(f"| {g['name']} | {len(ours)} | {ours[0]:.4f} | {means(ours)[-1]:.4f} | {means(theirs)[-1]:.4f} | {step:.1e} | "
                     f"{mean:.1e} | {GOALS[g['name']]:.0e} | {figures.verdict(mean <= GOALS[g['name']])} | {drift:+.1e} |")
    recipe = answer["recipe"]
    return [*lines, "", f"{recipe['parameters']:,} parameters, {recipe['batch']} × {recipe['length']} tokens a step, {THREADS} threads. Apart: the largest relative "
            "difference of losses; the mean difference has a sign, above 0 where Atoll's loss is the higher. Last loss: the mean over the last "
            f"{TURN} steps.", "", f"![Loss over steps, Atoll and PyTorch]({PICTURE.name})"]


# The figure: losses of both at the top, their difference below; one panel per type.
WIDTH, LEFT, TOP, PANEL, GAP, TALL, LOW = 1140, 70, 40, 480, 90, 260, 120
HEIGHT = TOP + TALL + 40 + LOW + 70
COLOURS = ("#c44e52", "#4c72b0")


def text(x, y, words, anchor="middle"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}">{words}</text>'


def frame(left, top, tall, low, high, last):
    """The box of a panel with its scale, and the position of a point in it."""
    def at(step, value):
        return left + PANEL * step / max(1, last), top + tall * (high - value) / (high - low)
    out = [f'<rect x="{left}" y="{top}" width="{PANEL}" height="{tall}" fill="none" stroke="#444"/>']
    for quarter in range(5):
        value = low + (high - low) * quarter / 4
        y = at(0, value)[1]
        out += [f'<line x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>', text(left - 6, y + 4, f"{value:.3g}", "end")]
    return out, at


def line(values, at, colour, more=""):
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(step, value) for step, value in enumerate(values)))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4" {more}/>'


def panel(g, left):
    losses = losses_of(g)
    apart = [100 * d for d in differences(*losses)]
    last, most = len(losses[0]) - 1, max(max(map(abs, apart)), 1e-9)
    upper, at_loss = frame(left, TOP, TALL, min(map(min, losses)), max(map(max, losses)), last)
    lower, at_apart = frame(left, TOP + TALL + 40, LOW, -most, most, last)
    out = [*upper, *lower, text(left + PANEL / 2, TOP - 12, f"{g['name']}: loss, nats a token"),
           text(left + PANEL / 2, TOP + TALL + 30, "Atoll's loss above PyTorch's, %")]
    # The curve in the background is wider, so that it stays visible where both are equal.
    out += [line(losses[1], at_loss, COLOURS[1], 'stroke-opacity="0.5" style="stroke-width:4"'), line(losses[0], at_loss, COLOURS[0]),
            line(apart, at_apart, "#444")]
    return out + [text(left, HEIGHT - 50, "0"), text(left + PANEL, HEIGHT - 50, last), text(left + PANEL / 2, HEIGHT - 50, "step")]


def picture(answer):
    """Writes the figure of the page."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for number, g in enumerate(answer["groups"]):
        out += panel(g, LEFT + number * (PANEL + GAP))
    at = LEFT
    for curve, colour in zip(answer["groups"][0]["curves"], COLOURS):
        out += [f'<line x1="{at}" x2="{at + 24}" y1="{HEIGHT - 18}" y2="{HEIGHT - 18}" stroke="{colour}" stroke-width="3"/>',
                text(at + 30, HEIGHT - 14, curve["name"], "start")]
        at += 60 + 7 * len(curve["name"])
    PICTURE.write_text("\n".join(out + ["</svg>"]) + "\n")
