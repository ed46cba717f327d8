# SPDX-License-Identifier: Apache-2.0
"""One job of a real coordinator and real workers on this machine, with inner steps so short that rounds follow each other."""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import tempfile

from benches import machine, scenes

atoll_harness = scenes.atoll_harness

WORKERS = 4
SCRATCH = machine.ROOT / "build/bench-rounds"  # on the disk of the checkout
MEMORY = pathlib.Path("/dev/shm")              # a tmpfs
STEP_SECONDS = 0.001  # of an inner step, the only wait of a round
SKIPPED = 3  # first rounds of a job: connections, buffers and files are new
SECONDS = 600  # limit for every wait

# Llama layouts of 25,076,224 and 99,959,808 parameters: 8 blocks, tied embeddings of 256 tokens, MLP a little below 8/3 of the width.
MODELS = {"25 M": {"layers": 8, "heads": 8, "kv_heads": 8, "hidden_size": 512, "intermediate_size": 1344},
          "100 M": {"layers": 8, "heads": 8, "kv_heads": 8, "hidden_size": 1024, "intermediate_size": 2688}}
CODEC_BITS = {"fp32": 32, "mxfp4": 4.25}  # a parameter

# Results of one job. seconds: of each counted round; cpu: CPU seconds per round over all processes;
# aggregate: seconds inside the aggregate; peak_mb: peak memory of the coordinator and of the
# largest worker; bound_mb: the coordinator's published bound for this job; leg_bytes: size of one
# contribution, and of the update.
Rounds = collections.namedtuple("Rounds", "seconds cpu aggregate peak_mb bound_mb leg_bytes")
BASE_MB = 64  # of a coordinator without jobs (docs/capacity.md)

# The link between workers and coordinator: `cap`, a rate such as 125MB/s for the uploads and the
# downloads of each worker, or `shared_bits`, bits a second of one link shared by all, in each
# direction (tests/bench/link_shaper.h).
Link = collections.namedtuple("Link", "cap shared_bits", defaults=(None, None))


class Place:
    """with Place("disk") as path: a folder that is deleted at the end. Also deletes leftovers of a killed benchmark,
    which are gigabytes of memory."""

    def __init__(self, kind):
        base = {"disk": SCRATCH, "tmpfs": MEMORY}[kind]
        base.mkdir(parents=True, exist_ok=True)
        for left in base.glob("atoll-rounds-*"):
            if not pathlib.Path("/proc", left.name.split("-")[2]).exists():
                shutil.rmtree(left, ignore_errors=True)
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"atoll-rounds-{os.getpid()}-", dir=base))

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def programs():
    """Builds the programs as released."""
    scenes.harness()


def identity(scene, role, name):
    return scene.atoll("ca", "issue", scene.path("trust"), "--role", role, "--name", name, "--out", scene.path(f"{name}.pem")).out.strip()


def rounds(model, codec, state="disk", mutual_tls=False, counted=5, link=Link(), sync=(), watch=lambda processes: contextlib.nullcontext()):
    """Runs a job until `counted` rounds after the first few are committed, inside watch([coordinator, *workers]).
    `sync`: more keys of the job's spec.sync."""
    with Place("disk") as directory, Place(state) as state_directory:
        scene = atoll_harness.Scene(directory)
        try:
            return played(scene, state_directory / "state", model, codec, mutual_tls, counted, link, dict(sync), watch)
        finally:
            scene.close(False)


def played(scene, state, model, codec, mutual_tls, counted, link, sync, watch):
    manifest = scene.corpus()
    trust, show = [], lambda name: []
    if mutual_tls:
        scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
        trust = ["--trust", scene.path("trust"), "--enroll-port", 0]
        show = lambda name: ["--identity", identity(scene, "worker", name)]  # noqa: E731
    coordinator = scene.coordinator(*trust, state=state, threads=0)
    limits = ["--upload-limit", link.cap, "--download-limit", link.cap] if link.cap else []
    dialled = scenes.linked(scene, "shared", coordinator, link.shared_bits) if link.shared_bits else coordinator
    names = [f"w{i}" for i in range(WORKERS)]
    workers = [scene.worker(name, dialled, "--data-root", scene.path("data"), "--synthetic-step-seconds", STEP_SECONDS, *limits, *show(name)) for name in names]
    scene.submit("job", manifest, steps=10_000_000, inner_steps=1, model=MODELS[model], batch={"sequences_per_step": 1},
                 workers={"min": WORKERS, "max": WORKERS, "planned": WORKERS},
                 sync={"upload_codec": codec, "download_codec": codec, "quorum": WORKERS, **sync})
    processes = [coordinator, *workers]
    first = committed(state, SKIPPED, processes)
    begin = cpu_seconds(processes)
    with watch(processes):
        last = committed(state, len(first) + counted, processes)
    cpu = (cpu_seconds(processes) - begin) / (len(last) - len(first))
    peaks = [peak_mb(process) for process in processes]
    bound = BASE_MB + atoll_harness.number(scene.job("job"), "coordinator_memory_bytes") / 2**20
    at = [event["time_ns"] / 1e9 for event in last[SKIPPED - 1:]]
    aggregate = statistics.median(float(event["fields"]["aggregate_ms"]) / 1e3 for event in last[SKIPPED:])
    fields = last[-1]["fields"]
    atoll_harness.equal(fields["members"], "w0, w1, w2 and w3", "who is in the newest round")
    if codec == "fp32":
        atoll_harness.equal(int(fields["update_bytes"]), 4 * parameters(model), "the size of an update in fp32")
    return Rounds([b - a for a, b in zip(at, at[1:])], cpu, aggregate, [peaks[0], max(peaks[1:])], bound, int(fields["update_bytes"]))


def committed(state, count, processes):
    """The event log's lines of the committed rounds of fragment 0, once there are enough."""
    log = state / "events/job.jsonl"

    def look():
        lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
        events = [json.loads(line) for line in lines if line.endswith(b"\n")]
        found = [e for e in events if e["kind"] == "round committed" and e["fields"]["fragment"] == "0"]
        return found if len(found) >= count else None
    return atoll_harness.wait_for(f"{count} committed rounds", look, SECONDS, processes)


def parameters(model):
    """Parameters of the layout: embeddings of the 256 byte tokens and the special ones, rounded up to a multiple of 64;
    blocks; final norm."""
    m, vocabulary = MODELS[model], 320
    block = 4 * m["hidden_size"] ** 2 + 3 * m["hidden_size"] * m["intermediate_size"] + 2 * m["hidden_size"]
    return vocabulary * m["hidden_size"] + m["layers"] * block + m["hidden_size"]


def peak_mb(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


def cpu_seconds(processes):
    ticks = 0
    for process in processes:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
