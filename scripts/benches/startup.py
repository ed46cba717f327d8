# SPDX-License-Identifier: Apache-2.0
"""Start-up times: coordinator to its first answer, worker to its first step, and a worker that joins a job with a large model."""
import calendar
import statistics
import sys
import time

from benches import figures, machine, scenes

WHAT = "start-up: coordinator to its first answer, worker to its first inner step, join of 100 M parameters on loopback and at 1 Gbit/s"
ROUNDS = 5

LINK_BITS = 1e9
LINK_GOAL = 0.8  # of the link, while fragments are downloaded
LOOK_SECONDS = 0.002
ALONE_SECONDS = 2  # for counting the steps of a worker before another one joins
TINY = {"layers": 2, "hidden_size": 64, "intermediate_size": 128, "heads": 4, "kv_heads": 4}
LARGE = {"layers": 12, "hidden_size": 768, "intermediate_size": 2048, "heads": 12, "kv_heads": 12, "vocab_size": 20480}
# Log lines that end the worker's phases; the first one found counts.
PHASES = (("process", ("worker started",)), ("greeting", ("job assigned",)), ("memory", ("steps are synthetic", "corpus name=")), ("fragments", ("training what=",)))


def large_parameters():
    hidden, inner = LARGE["hidden_size"], LARGE["intermediate_size"]
    return LARGE["vocab_size"] * hidden + hidden + LARGE["layers"] * (4 * hidden * hidden + 3 * hidden * inner + 2 * hidden)


def logged_at(worker, words):
    """Unix time of a worker's first line with one of these texts."""
    lines = worker.log().splitlines()
    line = next(line for word in words for line in lines if word in line)
    stamp = line.split()[0]
    return calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) + float(stamp[19:].rstrip("Z"))


def steps(worker):
    return scenes.metrics(worker)["atoll_step_duration_seconds_count"]


def step_seconds(worker, meanwhile):
    """Step times of the worker while an action runs, and the action's result."""
    began, before = time.monotonic(), steps(worker)
    given = meanwhile()
    return (time.monotonic() - began) / max(1, steps(worker) - before), given


def join(first, start):
    """first_step() of a worker that joins next to another one, and the step times of the other one: before, and meanwhile."""
    alone, _ = step_seconds(first, lambda: time.sleep(ALONE_SECONDS))
    meanwhile, taken = step_seconds(first, lambda: first_step(start))
    return taken | {"alone": alone, "meanwhile": meanwhile}


def first_step(start):
    """Seconds from the start of a worker to the end of its first step, and its processor time; seconds of each of its phases."""
    began, wall = time.monotonic(), time.time()
    worker = start()
    scenes.harness().wait_for(f"the first step of {worker.name}", lambda: worker.ports_file.exists() and steps(worker), 120, [worker])
    seconds = time.monotonic() - began
    ends = [wall] + [logged_at(worker, words) for _, words in PHASES] + [wall + seconds]
    phases = {name: max(0.0, after - before) for name, before, after in zip([n for n, _ in PHASES] + ["step"], ends, ends[1:])}
    cpu = scenes.cpu_seconds(worker)
    worker.kill()
    return {"seconds": seconds, "cpu_seconds": cpu, **phases}


def started_coordinator(scene, name, state):
    """A coordinator that has answered `atoll job list`; seconds to its ports, to that answer, and of one more request."""
    began = time.monotonic()
    coordinator = scene.coordinator("--data-root", scene.path("data"), name=name, state=state)
    ports = time.monotonic() - began
    scene.atoll("job", "list")
    answered = time.monotonic() - began
    cpu = scenes.cpu_seconds(coordinator)
    again = time.monotonic()
    scene.atoll("job", "list")
    return coordinator, {"seconds": answered, "cpu_seconds": cpu, "ports": ports, "question": time.monotonic() - again}


def submit(scene, corpus, name, model):
    scene.submit(name, corpus, steps=10_000_000, inner_steps=10_000, model=model, batch={"sequences_per_step": 1}, workers={"min": 1, "max": 3, "planned": 2}, checkpoint={"keep_last": 1},
                 sync={"fragments": "strided"})
    scene.wait_job(name, lambda job: job["state"] != "JOB_STATE_PENDING", "parameters", 120)


def small(rounds):
    """Coordinators and first steps of a tiny model."""
    with scenes.scene("startup-small") as scene:
        corpus, samples = scene.corpus(text_bytes=100_000), {"coordinator, new state": [], "worker, tiny model, real steps": [], "worker, tiny model, synthetic steps": []}
        for round_number in range(rounds + 1):
            coordinator, started = started_coordinator(scene, f"coordinator-{round_number}", f"state-{round_number}")
            submit(scene, corpus, "job", TINY)
            taken = [started]
            for name, options in (("real", ()), ("synthetic", ("--synthetic-step-seconds", 0.001))):
                taken.append(first_step(lambda: scene.worker(name, coordinator, "--data-root", scene.path("data"), *options)))
            coordinator.kill()
            for sample, values in zip(samples.values(), taken):
                sample.append(values)
        return samples


def large(rounds):
    """Joins of a job of 100 M parameters that one worker trains already, and a coordinator that recovers that job from
    its state."""
    with scenes.scene("startup-large") as scene:
        corpus = scene.corpus(text_bytes=300_000)
        samples = {"coordinator, killed with a job of 100 M parameters": [], "join of 100 M parameters, loopback": [], "join of 100 M parameters, 1 Gbit/s": []}
        options = ("--data-root", scene.path("data"), "--synthetic-step-seconds", 0.05)
        coordinator, _ = started_coordinator(scene, "coordinator", "state")
        submit(scene, corpus, "job", LARGE)
        coordinator.kill()
        for round_number in range(rounds + 1):
            coordinator, started = started_coordinator(scene, f"coordinator-{round_number}", "state")
            first = scene.worker("first", coordinator, *options)
            scenes.harness().wait_for("a worker that trains", lambda: steps(first), 120, [first])
            link = scenes.linked(scene, f"{round_number}", coordinator, LINK_BITS)
            taken = [started] + [join(first, lambda: scene.worker(name, to, *options)) for name, to in (("near", coordinator), ("far", link))]
            first.kill()
            coordinator.kill()
            for sample, values in zip(samples.values(), taken):
                sample.append(values)
        return samples


def measure(rounds):
    harness = scenes.harness()
    usual, harness.LOOK_INTERVAL_SECONDS = harness.LOOK_INTERVAL_SECONDS, LOOK_SECONDS
    groups = []
    try:
        for name, part, size in (("small", small, 0), ("large", large, 4 * large_parameters())):
            with machine.ForeignLoad() as load:
                samples = part(rounds)
            print(f"bench: {name}:", *(f"{n} {statistics.median(v['seconds'] for v in values[1:]):.2f} s;" for n, values in samples.items()), file=sys.stderr)
            # The first round is discarded: files come from a cold disk.
            groups.append({"name": name, "threads": 1, "foreign_cores": load.cores,
                           "samples": [{"name": n, "bytes": size, **{key: [v[key] for v in values[1:]] for key in values[0]}} for n, values in samples.items()]})
    finally:
        harness.LOOK_INTERVAL_SECONDS = usual
    return {"machine": machine.described(), "groups": groups}


def phases_text(sample):
    if "ports" in sample:
        return f"ports open {statistics.median(sample['ports']):.3f}; one such question by itself {statistics.median(sample['question']):.3f}"
    return ", ".join(f"{name} {statistics.median(sample[name]):.3f}" for name in [n for n, _ in PHASES] + ["step"])


def beside_text(sample):
    """Also empty for older figures without this measurement."""
    return f"{statistics.median(sample['alone']):.3f}, {statistics.median(sample['meanwhile']):.3f}" if "alone" in sample else ""


def table(answer):
    lines = ["| what | seconds, median | middle half | CPU s | phases, s | fragments | of the link | goal | | step of the worker that is there, s: before, meanwhile |", "|---|---|---|---|---|---|---|---|---|---|"]
    for group in answer["groups"]:
        for s in group["samples"]:
            joins = s["name"].startswith("join")
            rate = statistics.median(s["bytes"] / t for t in s["fragments"]) if joins else 0
            share = rate * 8 / LINK_BITS if s["name"].endswith("1 Gbit/s") else None
            told = f"{share:.0%} | {LINK_GOAL:.0%} | {figures.by_clock(answer, share >= LINK_GOAL)}" if share is not None else " | | "
            lines.append(f"| {s['name']} | {statistics.median(s['seconds']):.2f} | {figures.spread(s['seconds'], 2)} | {statistics.median(s['cpu_seconds']):.2f} | {phases_text(s)} | "
                         f"{f'{rate / 1e6:.0f} MB/s' if joins else ''} | {told} | {beside_text(s)} |")
    return lines
