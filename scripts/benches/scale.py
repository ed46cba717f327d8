# SPDX-License-Identifier: Apache-2.0
"""How many workers one coordinator supports: real control streams, and the core alone."""
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from benches import machine, scenes

WHAT = "1,000 real control streams to one coordinator, and up to 10,000 simulated workers on its core"
ROUNDS = 5
STREAMS = 1000
SIMULATED = [(1000, 1), (10_000, 10), (10_000, 0)]  # workers and the jobs they share
ROUND_SECONDS = 10
DESCRIPTORS = 16_384  # of each process: two per connection, three ports, and files


def measure(rounds):
    scenes.harness()  # builds the programs it starts
    client = machine.built("bench", "bench_scale") / "bench_scale"
    raise_descriptors()
    with machine.ForeignLoad() as load:
        samples = [streams(client, rounds), *[ran(client, "core", workers, jobs, rounds) for workers, jobs in SIMULATED]]
    group = {"name": "control plane", "threads": 1, "foreign_cores": load.cores, "samples": samples}
    return {"machine": machine.described(), "groups": [group]}


def raise_descriptors():
    """Processor time of this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        sys.exit(f"bench: a process may open {hard} descriptors here, {DESCRIPTORS} are needed; raise the hard limit (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))


def ran(client, *words):
    return json.loads(subprocess.run([str(client), *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout)


def streams(client, rounds):
    """Runs with a coordinator of its own, which has ended when this returns."""
    with tempfile.TemporaryDirectory(prefix="atoll-bench-scale-") as directory:
        scene = scenes.harness().Scene(pathlib.Path(directory))
        try:
            manifest = scene.corpus()
            coordinator = scene.coordinator("--connections-per-address", "1024")
            # Their round stays open, because no worker contributes.
            scene.submit("job", manifest, steps=1_000_000, inner_steps=10_000, workers={"min": 1, "max": STREAMS, "planned": STREAMS})
            sample = ran(client, "streams", coordinator.ports["control"], coordinator.pid, STREAMS, rounds, ROUND_SECONDS)
            scenes.harness().equal(coordinator.terminate(), 0, "the coordinator's exit status")
            return sample
        finally:
            scene.close(False)


def table(answer):
    lines = ["| what | workers | share of a core | middle of a heartbeat | 99 of 100 within | in the worst run | memory a worker | all joined after | joining, CPU ms a worker |", "|---|---|---|---|---|---|---|---|---|"]
    for sample in answer["groups"][0]["samples"]:
        simulated = "join_seconds" not in sample
        # A round of the core alone is one heartbeat of every worker, whatever its duration.
        seconds = [sample["interval_seconds"]] * len(sample["seconds"]) if simulated else sample["seconds"]
        share = statistics.median(c / s for c, s in zip(sample["cpu_seconds"], seconds))
        unit, factor = ("µs", 1e3) if simulated else ("ms", 1)
        told = [f"{of(sample[key]) * factor:.2f} {unit}" for of, key in ((statistics.median, "median_ms"), (statistics.median, "p99_ms"), (max, "p99_ms"))]
        joined = "" if simulated else f"{sample['join_seconds']:.1f} s"
        lines.append(f"| {sample['name']} | {sample['workers']:,} | {share:.1%} | {' | '.join(told)} | {sample['bytes_per_worker'] / 1024:.1f} KiB | {joined} | "
                     f"{sample['join_cpu_seconds'] / sample['workers'] * 1e3:.2f} |")
    return [*lines, "", f"A heartbeat every {answer['groups'][0]['samples'][0]['interval_seconds']:.0f} s of each worker, the interval that the coordinator asks for by itself."]
