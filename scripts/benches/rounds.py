# SPDX-License-Identifier: Apache-2.0
"""Whole rounds of a real coordinator and four real workers on this machine, compared with raw sockets and a raw file in
the same run."""
import os
import statistics
import subprocess

from benches import figures, fleet, floors, machine

WHAT = "whole rounds, four workers: fp32 and mxfp4, plaintext and mTLS, state on disk and tmpfs, beside raw TCP, raw TLS and a raw file"
ROUNDS = 3
LINKS = {"1 Gbit/s for each worker": fleet.Link(cap="125MB/s"), "1 Gbit/s shared by all": fleet.Link(shared_bits=1e9)}
GOALS = {False: 1.6, True: 1.3}  # by mutual TLS: fp32 seconds relative to the floor
LINK_GOAL = 4                    # mxfp4 over fp32 on either link
MEMORY_GOAL = 1.15  # the coordinator's peak relative to its published bound
MXFP4_BITS = 4.25                # of a parameter: 32 of them share a scale of 8 bits
SMALL = "the bytes of mxfp4"
COUNTED, COUNTED_ON_LINK = 5, 3  # rounds of one job
FLOORS_EACH = 3  # measurements of each raw floor within a round; their median counts


def cases():
    """(codec, state, mutual TLS, link) in the order of turns."""
    for state in ("disk", "tmpfs"):
        for mutual_tls in (False, True):
            for codec in ("fp32", "mxfp4"):
                yield codec, state, mutual_tls, None
    for link in LINKS:
        for codec in ("fp32", "mxfp4"):
            yield codec, "disk", False, link


def name_of(codec, state, mutual_tls, link):
    return f"{codec}, {'mTLS' if mutual_tls else 'plaintext'}, {state}" + (f", {link}" if link else "")


def measure(rounds):
    fleet.programs()
    machine.built("bench", "bench_link")
    described = machine.described()
    return {"machine": described, "groups": [group_of(model, rounds) for model in fleet.MODELS]}


def group_of(model, rounds):
    samples = {}
    with machine.ForeignLoad() as load:
        for _ in range(rounds):
            take_floors(model, samples)
            for case in cases():
                take_case(model, case, samples)
    return {"name": model, "threads": "processes", "foreign_cores": load.cores, "samples": list(samples.values())}


def sample_of(samples, name, size):
    return samples.setdefault(name, {"name": name, "bytes": size, "seconds": [], "cpu_seconds": []})


def keep(sample, seconds, cpu, each):
    """Result of one round, and the seconds of each repetition."""
    sample["seconds"].append(seconds)
    sample["cpu_seconds"].append(cpu)
    sample.setdefault("each", []).append(each)


def take_floors(model, samples):
    """The floors take turns like everything else."""
    size = 4 * fleet.parameters(model)
    encoded = round(size * MXFP4_BITS / 32)
    with fleet.Place("disk") as disk, fleet.Place("tmpfs") as memory:
        identity = certificate(disk)
        kinds = {"raw TCP": (2, lambda: floors.moved(fleet.WORKERS, size)), "raw TLS": (2, lambda: floors.moved(fleet.WORKERS, size, identity)),
                 f"raw TCP, {SMALL}": (2, lambda: floors.moved(fleet.WORKERS, encoded)), f"raw TLS, {SMALL}": (2, lambda: floors.moved(fleet.WORKERS, encoded, identity)),
                 "write and flush, disk": (1, lambda: floors.flushed(disk, fleet.WORKERS * size)),
                 "write and flush, tmpfs": (1, lambda: floors.flushed(memory, fleet.WORKERS * size))}
        taken = {name: [] for name in kinds}
        for _ in range(FLOORS_EACH):
            for name, (_, take) in kinds.items():
                os.sync()  # pending writes of others are not counted
                taken[name].append(take())
    for name, (legs, _) in kinds.items():
        seconds, cpu = zip(*taken[name])
        keep(sample_of(samples, name, legs * fleet.WORKERS * (encoded if name.endswith(SMALL) else size)), statistics.median(seconds), statistics.median(cpu), seconds)


def certificate(directory):
    """A key of the kind that the programs use: P-256."""
    path = directory / "floor.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=floor",
                    "-keyout", str(path), "-out", str(path) + ".crt"], check=True, stderr=subprocess.DEVNULL)
    path.write_text(path.read_text() + (directory / "floor.pem.crt").read_text())
    return path


def take_case(model, case, samples):
    codec, state, mutual_tls, link = case
    told = fleet.rounds(model, codec, state, mutual_tls, COUNTED_ON_LINK if link else COUNTED, LINKS.get(link, fleet.Link()))
    sample = sample_of(samples, name_of(*case), 2 * fleet.WORKERS * told.leg_bytes)
    keep(sample, statistics.median(told.seconds), told.cpu, told.seconds)
    sample.setdefault("aggregate_seconds", []).append(told.aggregate)
    sample["coordinator_mb"], sample["worker_mb"] = (max(a, b) for a, b in zip(told.peak_mb, (sample.get("coordinator_mb", 0), sample.get("worker_mb", 0))))
    sample["bound_mb"] = told.bound_mb


def means(sample):
    """Mean round of each job: rounds that write a snapshot count like the others."""
    return [statistics.mean(job) for job in sample["each"]]


def ratios(sample, *floor):
    """Ratio of each job's mean round to the largest of the floors in its turn."""
    return [s / max(times) for s, *times in zip(means(sample), *(f["seconds"] for f in floor))]


def judged(samples, case):
    """(median of the ratios within a turn, goal or None, compared with what) of a case that is compared with another, or None."""
    codec, state, mutual_tls, link = case
    own = samples[name_of(*case)]
    if link and codec == "mxfp4":
        slower = samples[name_of("fp32", state, mutual_tls, link)]
        return statistics.median(a / b for a, b in zip(means(slower), means(own))), LINK_GOAL, "fp32 ÷ it, at least"
    wire, flush = ("raw TLS" if mutual_tls else "raw TCP"), f"write and flush, {state}"
    if codec == "mxfp4" and not link and f"{wire}, {SMALL}" in samples:
        return statistics.median(ratios(own, samples[f"{wire}, {SMALL}"])), None, f"÷ {wire}, {SMALL}"
    if link or codec != "fp32":
        return None
    return statistics.median(ratios(own, samples[wire], samples[flush])), GOALS[mutual_tls], f"÷ the larger of {wire} and {flush}, at most"


def table(answer):
    lines = ["| parameters | what | s, median | s, mean | of the rounds | CPU s | GB/s | ratio | goal | |", "|---|---|---|---|---|---|---|---|---|---|"]
    met = []
    for group in answer["groups"]:
        samples = {sample["name"]: sample for sample in group["samples"]}
        told = {name_of(*case): judged(samples, case) for case in cases() if name_of(*case) in samples}
        for name, sample in samples.items():
            ratio = goal = verdict = ""
            if told.get(name):
                value, most, what = told[name]
                ratio, goal = f"{value:.2f}", what if most is None else f"{most} {what}"
                if most is not None:
                    met.append(value >= most if what.startswith("fp32") else value <= most)
                    verdict = figures.by_clock(answer, met[-1])
            seconds = statistics.median(sample["seconds"])
            lines.append(f"| {group['name']} | {name} | {seconds:.3f} | {statistics.mean(flat(sample)):.3f} | {figures.spread(flat(sample), 3)} | {statistics.median(sample['cpu_seconds']):.2f} | "
                         f"{sample['bytes'] / seconds / 1e9:.2f} | {ratio} | {goal} | {verdict} |")
    return [*lines, "", *remarks(answer, met)]


def flat(sample):
    return [s for job in sample["each"] for s in job] if "each" in sample else sample["seconds"]


def remarks(answer, met):
    cores = answer["machine"]["cores"]
    return [f"{figures.tally(answer, met)} On average a round cannot last less than its CPU seconds ÷ {cores} on these {cores} cores.", "",
            *memory_table(answer)]


def memory_table(answer):
    """Maximum over the rows of a codec: all of its jobs have the same bound. Older figures without a bound have none."""
    lines = ["Most memory in use at once:", "", "| parameters | codec | coordinator, MB | published bound, MB | ratio | goal | | one worker, MB |", "|---|---|---|---|---|---|---|---|"]
    for group in answer["groups"]:
        for codec in ("fp32", "mxfp4"):
            rows = [sample for sample in group["samples"] if sample["name"].startswith(codec + ",")]
            most, worker, bound = (max(row.get(key, 0) for row in rows) for key in ("coordinator_mb", "worker_mb", "bound_mb"))
            told = [f"{bound:.0f}", f"{most / bound:.2f}", f"at most {MEMORY_GOAL}", figures.verdict(most <= MEMORY_GOAL * bound)] if bound else [""] * 4
            lines.append(f"| {group['name']} | {codec} | {most:.0f} | {' | '.join(told)} | {worker:.0f} |")
    return lines
