"""Whole rounds of a real coordinator and four real workers on this machine, beside raw sockets and a raw file in the same run."""
import statistics
import subprocess

from benches import figures, fleet, floors, machine

WHAT = "whole rounds, four workers: fp32 and mxfp4, plaintext and mTLS, state on disk and tmpfs, beside raw TCP, raw TLS and a raw file"
ROUNDS = 3
LINK, LINK_TOLD = "125MB/s", "1 Gbit/s"
GOALS = {False: 1.6, True: 1.3}  # by mutual TLS: fp32 seconds over the floor's
LINK_GOAL = 4                    # mxfp4 over fp32 on the link
COUNTED, COUNTED_ON_LINK = 5, 3  # rounds of one job


def cases():
    """(codec, state, mutual TLS, link) in the order in which they take turns."""
    for state in ("disk", "tmpfs"):
        for mutual_tls in (False, True):
            for codec in ("fp32", "mxfp4"):
                yield codec, state, mutual_tls, None
    for codec in ("fp32", "mxfp4"):
        yield codec, "disk", False, LINK


def name_of(codec, state, mutual_tls, link):
    return f"{codec}, {'mTLS' if mutual_tls else 'plaintext'}, {state}" + (f", {LINK_TOLD}" if link else "")


def measure(rounds):
    fleet.programs()
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


def keep(sample, seconds, cpu):
    sample["seconds"].append(seconds)
    sample["cpu_seconds"].append(cpu)


def take_floors(model, samples):
    size = 4 * fleet.parameters(model)
    with fleet.Place("disk") as disk, fleet.Place("tmpfs") as memory:
        identity = certificate(disk)
        keep(sample_of(samples, "raw TCP", 2 * fleet.WORKERS * size), *floors.moved(fleet.WORKERS, size))
        keep(sample_of(samples, "raw TLS", 2 * fleet.WORKERS * size), *floors.moved(fleet.WORKERS, size, identity))
        for state, place in (("disk", disk), ("tmpfs", memory)):
            keep(sample_of(samples, f"write and flush, {state}", fleet.WORKERS * size), *floors.flushed(place, fleet.WORKERS * size))


def certificate(directory):
    """Of the kind that the programs use: P-256."""
    path = directory / "floor.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=floor",
                    "-keyout", str(path), "-out", str(path) + ".crt"], check=True, stderr=subprocess.DEVNULL)
    path.write_text(path.read_text() + (directory / "floor.pem.crt").read_text())
    return path


def take_case(model, case, samples):
    codec, state, mutual_tls, link = case
    told = fleet.rounds(model, codec, state, mutual_tls, COUNTED_ON_LINK if link else COUNTED, link)
    sample = sample_of(samples, name_of(*case), 2 * fleet.WORKERS * told.leg_bytes)
    keep(sample, statistics.median(told.seconds), told.cpu)
    sample.setdefault("each", []).append(told.seconds)
    sample.setdefault("aggregate_seconds", []).append(told.aggregate)
    sample["coordinator_mb"], sample["worker_mb"] = (max(a, b) for a, b in zip(told.peak_mb, (sample.get("coordinator_mb", 0), sample.get("worker_mb", 0))))


def ratios(sample, *floor):
    """Of each round to the largest of the floors in it."""
    return [s / max(times) for s, *times in zip(sample["seconds"], *(f["seconds"] for f in floor))]


def judged(samples, case):
    """(ratio of the medians within a round, goal, against what) of a case that has a goal, or None."""
    codec, state, mutual_tls, link = case
    own = samples[name_of(*case)]
    if link and codec == "mxfp4":
        slower = samples[name_of("fp32", state, mutual_tls, link)]
        return statistics.median(a / b for a, b in zip(slower["seconds"], own["seconds"])), LINK_GOAL, "fp32 ÷ it, at least"
    if link or codec != "fp32":
        return None
    wire, flush = ("raw TLS" if mutual_tls else "raw TCP"), f"write and flush, {state}"
    return statistics.median(ratios(own, samples[wire], samples[flush])), GOALS[mutual_tls], f"÷ the larger of {wire} and {flush}, at most"


def table(answer):
    lines = ["| parameters | what | s, median | of the rounds | CPU s | GB/s | ratio | goal | |", "|---|---|---|---|---|---|---|---|---|"]
    met = []
    for group in answer["groups"]:
        samples = {sample["name"]: sample for sample in group["samples"]}
        told = {name_of(*case): judged(samples, case) for case in cases()}
        for name, sample in samples.items():
            ratio = goal = verdict = ""
            if told.get(name):
                value, most, what = told[name]
                met.append(value >= most if what.startswith("fp32") else value <= most)
                ratio, goal, verdict = f"{value:.2f}", f"{most} {what}", figures.verdict(met[-1])
            seconds = statistics.median(sample["seconds"])
            lines.append(f"| {group['name']} | {name} | {seconds:.3f} | {figures.spread(flat(sample), 3)} | {statistics.median(sample['cpu_seconds']):.2f} | "
                         f"{sample['bytes'] / seconds / 1e9:.2f} | {ratio} | {goal} | {verdict} |")
    return [*lines, "", *remarks(answer, met)]


def flat(sample):
    return [s for job in sample["each"] for s in job] if "each" in sample else sample["seconds"]


def remarks(answer, met):
    cores = answer["machine"]["cores"]
    lines = [f"{sum(met)} of {len(met)} rows with a goal meet it. A round cannot last less than its CPU seconds ÷ {cores} on these {cores} cores. "
             f"Most memory in use at once, of the coordinator and of one worker:"]
    for group in answer["groups"]:
        most = [max(s.get(key, 0) for s in group["samples"]) for key in ("coordinator_mb", "worker_mb")]
        lines.append(f"{group['name']}: {most[0]:.0f} MB and {most[1]:.0f} MB{'.' if group is answer['groups'][-1] else ';'}")
    return lines
