# SPDX-License-Identifier: Apache-2.0
"""Compute utilization of real workers on shaped links, compared with the planner's figure."""
import math
import re
import statistics
import sys
import threading
import time

from benches import figures, machine, scenes

WHAT = "share of time that real workers compute on links of 10 to 1000 Mbit/s, beside the planner's figure"
ROUNDS = 1

LINKS = (10, 50, 200, 1000)  # Mbit/s in each direction of each worker
AT_ONCE_UP_TO = 50  # on links up to this, all methods run concurrently, because they leave the processor idle
WORKERS = ("a", "b")
STEP_SECONDS, INNER_STEPS = 0.1, 40
WARMUP_PERIODS, LEAST_PERIODS, LEAST_SECONDS = 1.5, 2, 12
GOAL, PLANNED_GOAL = 0.95, 0.99  # the goal applies where this much is planned
SMALL = {"layers": 6, "hidden_size": 256, "intermediate_size": 704, "heads": 4, "kv_heads": 4, "vocab_size": 320}
LARGE = {"layers": 14, "hidden_size": 768, "intermediate_size": 2048, "heads": 12, "kv_heads": 12, "vocab_size": 320}
# Name, and arguments for `atoll plan` and the job.
METHODS = (("classic", "diloco", 0, "bf16"), ("streaming", "streaming", 0, "bf16"), ("overlapped by 1 step", "streaming", 1, "bf16"),
           ("overlapped by 10 steps", "streaming", 10, "bf16"), ("overlapped by 10 steps, 4 bits", "streaming", 10, "mxfp4"))
# Model, links and methods. The training thread's work between steps grows with the model, as the
# large one shows.
RUNS = ((SMALL, LINKS, METHODS), (LARGE, LINKS[-1:], METHODS[:1] + METHODS[-1:]))


def parameters(model):
    """Parameters of the whole model, and of embeddings and final norm, which form a fragment."""
    hidden, inner = model["hidden_size"], model["intermediate_size"]
    apart = model["vocab_size"] * hidden + hidden
    return apart + model["layers"] * (4 * hidden * hidden + 3 * hidden * inner + 2 * hidden), apart


def millions(model):
    return f"{parameters(model)[0] / 1e6:.3g} M"


def plan(scene, model, method, overlap, codec, megabits, round_seconds=0):
    """Result of `atoll plan` for a coordinator with this time from the last contribution of a round to its update."""
    whole, apart = parameters(model)
    return scene.atoll("-o", "json", "plan", "--params", whole, "--embedding-params", apart, "--layers", model["layers"], "--layers-per-fragment", 1,
                       "--workers", len(WORKERS), "--step-seconds", STEP_SECONDS, "--inner-steps", INNER_STEPS, "--method", method,
                       "--overlap-steps", overlap, "--codec", codec, "--bandwidth", f"{megabits}Mbit/s",
                       "--round-time", f"{round(round_seconds * 1e6)}us").json()


def submit(scene, corpus, model, method, overlap, codec):
    scene.submit("job", corpus, steps=10_000_000, inner_steps=INNER_STEPS, model=model, batch={"sequences_per_step": 1},
                 workers={"min": len(WORKERS), "max": len(WORKERS), "planned": len(WORKERS)},
                 sync={"fragments": "whole" if method == "diloco" else "strided", "layers_per_fragment": 1, "overlap_steps": overlap,
                       "upload_codec": codec, "download_codec": codec})


def round_seconds(coordinator):
    """Median time of a round from its closing to its commit, from the coordinator's log, in milliseconds."""
    began, took = {}, []
    for stamp, what, number, fragment in re.findall(r'T(\S+)Z INFO round (?:closing|committed) .*text="(round|version) (\d+) of fragment (\d+)', coordinator.log()):
        at = sum(float(part) * unit for part, unit in zip(stamp.split(":"), (3600, 60, 1)))
        if what == "round":
            began[int(number) + 1, fragment] = at
        elif (int(number), fragment) in began:
            took.append((at - began[int(number), fragment]) % 86400)
    return statistics.median(took)


class Reading:
    """Counters of a worker."""

    def __init__(self, worker):
        self.at = time.monotonic()
        counted = scenes.metrics(worker)
        self.steps = int(counted["atoll_step_duration_seconds_count"])
        self.computed = counted["atoll_step_duration_seconds_sum"]
        self.waited = counted["atoll_sync_wait_seconds_total"] + counted["atoll_data_wait_seconds_total"]
        self.worked = counted["atoll_sync_work_seconds_total"]
        self.cpu = scenes.cpu_seconds(worker)


def reading_after(worker, steps, seconds):
    """Waits until shortly after the end of that step. Whole periods later the schedule is at the same point again."""
    def look():
        reading = Reading(worker)
        return reading if reading.steps >= steps else None
    return scenes.harness().wait_for(f"step {steps} of {worker.name}", look, seconds, [worker])


def window(worker, first, steps, limit_seconds):
    """Shares of the time in which a worker takes this many steps after the first ones."""
    begin = reading_after(worker, first, limit_seconds)
    end = reading_after(worker, begin.steps + steps, limit_seconds)
    whole = sum(getattr(end, part) - getattr(begin, part) for part in ("computed", "waited", "worked"))
    periods = (end.steps - begin.steps) / INNER_STEPS
    return {"measured": (end.computed - begin.computed) / whole, "seconds": whole / periods, "by_the_wall": (end.at - begin.at) / periods,
            "computed": (end.computed - begin.computed) / periods, "waited": (end.waited - begin.waited) / periods,
            "worked": (end.worked - begin.worked) / periods, "cpu": (end.cpu - begin.cpu) / periods}


def run(model, name, method, overlap, codec, megabits):
    """One job of two workers; the activity of each in some periods after the first."""
    with scenes.scene(f"utilization-{model['layers']}-{megabits}-{METHODS.index((name, method, overlap, codec))}") as scene:
        corpus = scene.corpus(text_bytes=300_000)
        coordinator = scene.coordinator("--data-root", scene.path("data"))
        planned = plan(scene, model, method, overlap, codec, megabits)
        workers = [scene.worker(w, scenes.linked(scene, w, coordinator, megabits * 1e6), "--data-root", scene.path("data"),
                                "--synthetic-step-seconds", STEP_SECONDS) for w in WORKERS]
        submit(scene, corpus, model, method, overlap, codec)
        ratio = planned["coordinator_utilization_ratio"]
        period = INNER_STEPS * STEP_SECONDS / ratio
        periods = max(LEAST_PERIODS, math.ceil(LEAST_SECONDS / period))
        first, limit = round(WARMUP_PERIODS * INNER_STEPS), 60 + 3 * (periods + 2) * period
        windows = in_parallel([lambda w=w: window(w, first, periods * INNER_STEPS, limit) for w in workers])
        shown = [w["compute_utilization_ratio"] for w in scene.atoll("-o", "json", "worker", "list").json()["workers"]]
        rounds = round_seconds(coordinator)
        with_rounds = plan(scene, model, method, overlap, codec, megabits, rounds)["coordinator_utilization_ratio"]
        return {"planned": ratio, "round_seconds": rounds, "with_rounds": with_rounds, "period_bytes": planned["bytes_per_period"] + planned["download_bytes_per_period"], "shown": min(shown), "windows": windows}


def in_parallel(works):
    """Runs functions in threads and returns their results; raises the first failure. Each must end its own processes,
    because children die with their thread."""
    answers, failures = [None] * len(works), []

    def take(i):
        try:
            answers[i] = works[i]()
        except Exception as failure:  # raised again below
            failures.append(failure)
    threads = [threading.Thread(target=take, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers


def measure(rounds):
    scenes.harness()
    groups = [group(model, megabits, methods, rounds) for model, links, methods in RUNS for megabits in links]
    links = machine.program("bench_link", 2, 16 << 20)["groups"]
    return {"machine": machine.described(), "groups": groups, "links": links}


def group(model, megabits, methods, rounds):
    with machine.ForeignLoad() as load:
        runs = []
        for _ in range(rounds):
            works = [lambda m=m: run(model, *m, megabits) for m in methods]
            runs.append(in_parallel(works) if megabits <= AT_ONCE_UP_TO else [work() for work in works])
    samples = [sample(methods[i][0], [r[i] for r in runs]) for i in range(len(methods))]
    name = f"{megabits} Mbit/s" if model is SMALL else f"{megabits} Mbit/s, {millions(model)}"
    print(f"bench: {name}:", *(f"{s['name']} {statistics.median(s['measured']):.3f} of {s['planned']:.3f};" for s in samples), file=sys.stderr)
    return {"name": name, "threads": 1, "foreign_cores": load.cores, "samples": samples}


def sample(name, runs):
    """For each run, the worker that computed less."""
    worst = [min(r["windows"], key=lambda w: w["measured"]) for r in runs]
    parts = {part: [w[part] for w in worst] for part in ("measured", "seconds", "by_the_wall", "computed", "waited", "worked")}
    told = {key: [r[key] for r in runs] for key in ("shown", "round_seconds", "with_rounds")}
    return {"name": name, "bytes": runs[0]["period_bytes"], "planned": runs[0]["planned"], "cpu_seconds": [w["cpu"] for w in worst], **told, **parts}


def table(answer):
    lines = ["| link | method | planned | with rounds as they were | measured | shown | a period: waits planned | waited | other work | CPU s | goal | |", "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    judged = []
    for group in answer["groups"]:
        for s in group["samples"]:
            measured = statistics.median(s["measured"])
            has_goal = s["planned"] >= PLANNED_GOAL
            if has_goal:
                judged.append(measured >= GOAL)
            planned_wait = INNER_STEPS * STEP_SECONDS * (1 / s["planned"] - 1)
            middle = {part: statistics.median(s[part]) for part in ("shown", "with_rounds", "waited", "worked", "cpu_seconds")}
            lines.append(f"| {group['name']} | {s['name']} | {s['planned']:.1%} | {middle['with_rounds']:.1%} | {measured:.1%} | {middle['shown']:.1%} | {planned_wait:.2f} s | {middle['waited']:.2f} s | "
                         f"{middle['worked'] * 1e3:.0f} ms | {middle['cpu_seconds']:.2f} | {f'{GOAL:.0%}' if has_goal else ''} | {figures.by_clock(answer, judged[-1]) if has_goal else ''} |")
    reached = "; ".join(f"{g['name'].removeprefix('link of ')}: " + ", ".join(
        f"{s['name']} {statistics.median(s['bytes'] * 8 / t for t in s['seconds']) / 1e6:.0f}" for s in g["samples"]) for g in answer["links"])
    return [*lines, "", f"{figures.tally(answer, judged)} Plain TCP through the emulator, Mbit/s in this run: {reached}."]
