# SPDX-License-Identifier: Apache-2.0
"""An independent worker, written from the documents alone, takes part in real runs with two atoll-workers: enrolment,
leases, streamed blocks, all codecs on both legs, every merge rule, evaluations, a rollback, and a coordinator that is
killed. Then an independent reader recomputes every round to the bit. tampering.py changes the remaining state.

With --long each job is longer, and the coordinator is killed ten times."""
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "integration"))
from atoll_harness import Process, Skip, check, equal, main, number, wait_for  # noqa: E402

LONG = "--long" in sys.argv
STEPS, KILLS = (400, 10) if LONG else (40, 1)
NAME = "foreign"
MODEL = {"layers": 2}
TWO = {"fragments": "strided", "layers_per_fragment": 2}
# Together the jobs use every leg, error memory, merge rule, weight rule and outer optimizer at least once.
JOBS = {
    "fp32-fp16": {"sync": {"upload_codec": "fp32", "download_codec": "fp16", "merge": "trimmed_mean", "trim_share": 0.34}},
    "fp16-bf16": {"sync": {"upload_codec": "fp16", "download_codec": "bf16", "download_error_memory": "loco", "loco": {"reset_syncs": 3}, "merge": "median", **TWO}},
    "bf16-e3m0": {"sync": {"upload_codec": "bf16", "download_codec": "e3m0", "merge": "centered_clip", "weights": "uniform", "overlap_steps": 2}},
    "int8-mxfp4": {"sync": {"upload_codec": "int8", "upload_error_memory": "loco", "download_codec": "mxfp4", "download_error_memory": "off", **TWO},
                   "outer_optimizer": {"kind": "momentum", "learning_rate": 0.5, "momentum": 0.5}},
    "e3m0-int8": {"sync": {"upload_codec": "e3m0", "upload_error_memory": "feedback", "download_codec": "int8", "weights": "tokens_squared_over_steps",
                           "pace": "balanced"}, "weights": (2, 1), "outer_optimizer": {"kind": "sgd", "learning_rate": 0.7}},
    "shards": {"sync": {"download_codec": "mxfp4", "download_error_memory": "feedback"}, "shards": True},
    "drops": {"sync": {"download_codec": "bf16", "weights": "uniform", "mix": 0.25, "overlap_steps": 3}, "experiment": {"drop_sync_probability": 0.3}},
}


def foreign_worker(scene, coordinator, token):
    command = ["/usr/bin/python3", HERE / "worker.py", "--name", NAME, "--control", f"127.0.0.1:{coordinator.ports['control']}",
               "--bulk", f"127.0.0.1:{coordinator.ports['bulk']}", "--enrol", f"127.0.0.1:{coordinator.ports['enroll']}",
               "--join-token", token, "--identity", scene.path("foreign.pem"), "--slow", "0.1"]
    process = Process(scene, NAME, command, scene.environment(PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1"))
    scene.processes.append(process)
    return process


def said(process, kind):
    lines = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == kind]


def read(state):
    """The report of the independent reader, which must find nothing."""
    ran = subprocess.run(["/usr/bin/python3", "-B", HERE / "reader.py", state], capture_output=True, text=True, check=False)
    check(ran.returncode == 0, f"the reader ended with {ran.returncode}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}")
    return json.loads(ran.stdout)["counts"]


def refuse_without_libraries():
    ran = subprocess.run(["/usr/bin/python3", "-c", "import crc32c, google.protobuf, grpc, numpy, xxhash"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Skip(f"Python libraries of scripts/debian-packages.txt are missing: {ran.stderr.splitlines()[-1]}")


def check_split(scene, manifest):
    """data-order.md, Draws: which documents of the corpus are held out."""
    from plan import is_held_out
    of = json.loads(manifest.read_text())
    documents = [text.strip("\n").encode() for text in scene.path("text.txt").read_text().split("\n\n") if text.strip()]
    held_out = sum(is_held_out(of["split_seed"], of["held_out_fraction"], document) for document in documents)
    equal((held_out, len(documents) - held_out), (of["held_out"]["documents"], of["train"]["documents"]), "the documents held out and trained on")


def submit(scene, manifests, name, shards=False, weights=(1,), **more):
    """A job on the first corpora, one per weight, or with `shards` on all of them, one per worker."""
    corpora = [{"manifest": str(manifest), "weight": weight} for manifest, weight in zip(manifests, (1, 1, 1) if shards else weights)]
    data = {"corpora": corpora, "sequence_length": 32, "assignment": "shards" if shards else "shared"}
    scene.submit(name, None, steps=STEPS, model=MODEL, workers={"min": 3, "max": 3, "planned": 3}, checkpoint={"keep_contributions": True}, data=data, **more)


def killed_and_rolled_back(scene, manifest, coordinator, options, alive):
    """One job of two fragments with overlap and mix. The coordinator is killed during the job, and the job is rolled
    back once."""
    scene.submit("faults", manifest, steps=100_000, model=MODEL, workers={"min": 3, "max": 3, "planned": 3}, evaluation={"every_rounds": 2, "max_tokens": 1024},
                 checkpoint={"every_rounds": 3, "keep_contributions": True},
                 sync={"upload_codec": "mxfp4", "upload_error_memory": "feedback", "download_codec": "e3m0", "overlap_steps": 2, "mix": 0.5, **TWO})
    rounds = 7
    for _ in range(KILLS):
        scene.wait_round("faults", rounds, alive=alive)
        coordinator.kill()
        print(f"killed: {read(scene.path('state'))['rounds recomputed']} rounds are equal")
        coordinator = scene.coordinator(*options, ports=coordinator.ports)
        rounds = number(scene.job("faults"), "round") + 4
    scene.wait_round("faults", rounds, alive=alive)
    scene.atoll("job", "pause", "faults")
    scene.wait_job("faults", lambda job: job["state"] == "JOB_STATE_PAUSED", "the pause")
    checkpoints = scene.atoll("-o", "json", "checkpoint", "list", "faults").json()["checkpoints"]
    scene.atoll("job", "rollback", "faults", "--to", checkpoints[-1]["name"].split("/")[-1])
    scene.atoll("job", "resume", "faults")
    scene.end_after("faults", steps=50)
    return coordinator


def test(scene):
    refuse_without_libraries()
    manifests = [scene.corpus(name, size) for name, size in (("text", 150_000), ("second", 90_000), ("third", 60_000))]
    check_split(scene, manifests[0])
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    options = ["--trust", scene.path("trust"), "--data-root", scene.path("data")]
    coordinator = scene.coordinator(*options, "--enroll-port", 0)
    token = scene.path("token")
    token.write_text(scene.atoll("token", "create", "--name", NAME).out)
    one = foreign_worker(scene, coordinator, token)
    wait_for("the identity of the foreign worker", scene.path("foreign.pem").exists, 30, [one])
    others = []
    for name in ("a", "b"):
        scene.atoll("ca", "issue", scene.path("trust"), "--role", "worker", "--name", name, "--out", scene.path(f"{name}.pem"))
        others.append(scene.worker(name, coordinator, "--identity", scene.path(f"{name}.pem")))
    alive = [one, *others]

    coordinator = killed_and_rolled_back(scene, manifests[0], coordinator, options, alive)
    for name, job in JOBS.items():
        submit(scene, manifests, name, **job)
        scene.wait_end(name)
    shown = scene.atoll("ca", "show", scene.path("foreign.pem")).out
    check(re.search(rf"^name +{NAME}$", shown, re.MULTILINE), f"the identity file is not one that atoll reads: {shown}")
    scene.atoll("worker", "drain", NAME)
    equal(one.end(), 0, "the exit status of the foreign worker")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")

    [left] = said(one, "left")
    losses = [event["loss"] for event in said(one, "unassigned")]
    check(losses[-1] < 5, f"the foreign worker has learnt nothing: {losses}")
    check(len(said(one, "evaluated")) > 0, "the foreign worker made no evaluation")
    counts = read(scene.path("state"))
    print(f"{left}; the reader: {counts}")
    equal(counts["rounds recomputed"], counts["rounds"], "the number of rounds that are recomputed")
    check(counts[f"contributions of {NAME}"] > counts["rounds"] / 2, "the foreign worker is in few rounds")
    report = scene.replay()
    equal(report["counts"]["rounds equal"], counts["rounds"], "the number of rounds that replay found equal")


main(test)
