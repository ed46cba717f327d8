# SPDX-License-Identifier: Apache-2.0
"""Job control: pause, resume, update, rollback, cancel, a new job from a checkpoint, and their display on the command
line."""
import hashlib
import json
import shutil
import subprocess

from atoll_harness import check, close, equal, main, number, wait_for

ENDLESS = 1_000_000


def in_state(state):
    return lambda job: job["state"] == f"JOB_STATE_{state}"


def pause_and_resume(scene, worker):
    scene.atoll("job", "pause", "long")
    scene.wait_job("long", in_state("PAUSED"), "the pause", alive=[worker])
    scene.wait_job("long", lambda job: number(job, "workers_training") == 0, "free workers", alive=[worker])
    paused = number(scene.job("long"), "round")
    scene.atoll("job", "resume", "long")
    scene.wait_round("long", paused + 2, alive=[worker])


def update(scene, worker):
    before = scene.job("long")
    scene.atoll("job", "update", "long", "--set", "inner_optimizer.learning_rate=0.004", "--etag", before["etag"])
    job = scene.job("long")
    equal(number(job, "spec_revision"), 2, "the revision after an update")
    equal(job["spec"]["inner_optimizer"]["learning_rate"], 0.004, "the new rate")
    refused = scene.atoll("job", "update", "long", "--set", "inner_optimizer.learning_rate=0.005", "--etag", before["etag"], code=3)
    check("has changed" in refused.err, f"an old etag was refused with {refused.err!r}")
    refused = scene.atoll("job", "update", "long", "--set", "model.hidden_size=64", code=2)
    check("cannot be changed" in refused.err, f"a fixed field was refused with {refused.err!r}")
    refused = scene.atoll("job", "update", "long", "--set", "stop.inner_steps=1", code=3)
    check("would end it at once" in refused.err and "job cancel long" in refused.err, f"an end at once was refused with {refused.err!r}")
    equal(number(scene.job("long"), "spec_revision"), 2, "the revision after a refused end")
    scene.atoll("job", "update", "long", "--set-label", "team=north", "--set-label", "user=ada")
    scene.atoll("job", "update", "long", "--remove-label", "user")
    equal(scene.job("long")["labels"], {"team": "north"}, "the labels")
    refused = scene.atoll("job", "update", "long", "--remove-label", "user", code=2)
    check("has no 'user'" in refused.err, f"a label that is not there was refused with {refused.err!r}")
    shown = scene.atoll("job", "describe", "long").out
    check("team=north" in shown and " of memory and " in shown, f"describe shows {shown!r}")
    scene.wait_round("long", number(job, "round") + 2, alive=[worker])
    rate = [line for line in worker.page("/metrics").splitlines() if line.startswith("atoll_learning_rate ")]
    close(float(rate[0].split()[-1]), 0.004, 1e-6, "the rate that the worker trains with")


def checkpoints(scene):
    return scene.atoll("-o", "json", "checkpoint", "list", "long").json().get("checkpoints", [])


def rollback(scene, worker):
    """Back to a checkpoint: clock, version and hash are the checkpoint's."""
    refused = scene.atoll("job", "rollback", "long", "--to", checkpoints(scene)[-1]["step"], code=3)
    check("pause it" in refused.err, f"the rollback of a running job was refused with {refused.err!r}")
    scene.atoll("job", "pause", "long")
    scene.wait_job("long", lambda job: in_state("PAUSED")(job) and number(job, "workers_training") == 0, "the pause", alive=[worker])
    target = checkpoints(scene)[-1]
    scene.atoll("job", "rollback", "long", "--to", target["step"])
    job = scene.wait_job("long", lambda job: number(job["fragments"][0], "version") == int(target["versions"][0]), "the old version")
    equal(job["fragments"][0]["content_hash"], target["content_hashes"][0], "the hash after the rollback")
    scene.atoll("job", "resume", "long")
    scene.wait_round("long", int(target["versions"][0]) + 2, alive=[worker])
    refused = scene.atoll("job", "rollback", "long", "--to", "999999999", code=3)
    check("long" in refused.err, f"a missing checkpoint was refused with {refused.err!r}")


def cancel(scene, worker):
    scene.atoll("job", "cancel", "long")
    scene.wait_job("long", in_state("CANCELLED"), "the end", alive=[worker])
    equal(scene.atoll("job", "wait", "long", code=None).code, 6, "the exit status of wait for a cancelled job")


def from_checkpoint(scene, manifest):
    """A new job that starts from a checkpoint: its first evaluation equals the checkpoint's."""
    source = checkpoints(scene)[-1]
    scene.submit("next", manifest, steps=20, model={"init": {"checkpoint": source["name"]}}, evaluation={"max_tokens": 4096})
    job = scene.wait_end("next")
    check(job["first_evaluation"]["loss"] < 4, f"it starts at {job['first_evaluation']['loss']}, as from random parameters")
    if "evaluation_loss" in source:
        close(job["first_evaluation"]["loss"], source["evaluation_loss"], 1e-6, "the loss at the start")
    # And from an exported directory, without outer state.
    scene.atoll("checkpoint", "export", source["name"][len("jobs/"):].replace("/checkpoints", ""), scene.path("export"))
    scene.submit("third", manifest, steps=20, model={"init": {"directory": str(scene.path("export"))}}, evaluation={"max_tokens": 4096})
    third = scene.wait_end("third")
    close(third["first_evaluation"]["loss"], job["first_evaluation"]["loss"], 1e-6, "the loss at the start from the directory")


def what_is_shown(scene):
    """Every format of every listing."""
    for command in (["job", "list"], ["job", "get", "next"], ["job", "describe", "next"], ["worker", "list"], ["checkpoint", "list", "next"]):
        check(len(scene.atoll(*command).out.splitlines()) >= 2, f"{command} prints no table")
        json.loads(scene.atoll("-o", "json", *command).out)
        check(scene.atoll("-o", "yaml", *command).out.strip(), f"{command} prints no YAML")
        check(scene.atoll("-o", "jsonl", *command).jsonl(), f"{command} prints no lines")
    names = scene.atoll("-o", "name", "job", "list").out.split()
    equal(sorted(names), ["jobs/long", "jobs/next", "jobs/third"], "the names of all jobs")
    only = scene.atoll("-o", "name", "job", "list", "--state", "cancelled").out.split()
    equal(only, ["jobs/long"], "the cancelled jobs")
    # `job get -o yaml` is a job file again.
    again = scene.path("again.yaml")
    again.write_text(scene.atoll("-o", "yaml", "job", "get", "next").out)
    scene.atoll("job", "submit", again, "--name", "again", "--dry-run", "server")
    check("round committed" in scene.atoll("job", "logs", "next").out, "the coordinator has no lines about the job")
    check("job prepared" in scene.atoll("job", "logs", "next", "--worker", "a").out, "the worker's lines did not come")
    for options, sentence in ((("logs", "nowhere", "--worker", "a"), "no job jobs/nowhere"),
                              (("logs", "next", "--worker", "nobody"), "nobody is not connected"),
                              (("metrics", "next", "--metric", "nonsense"), "no points of 'nonsense'; it has ")):
        refused = scene.atoll("job", *options, code=3)
        check(sentence in refused.err, f"job {' '.join(options)} said {refused.err!r}")
    followed = scene.atoll("job", "logs", "next", "--follow").out
    check("round committed" in followed, "following an ended job does not show its lines and end")
    check(len(set(followed.splitlines())) == len(followed.splitlines()), "following shows a line twice")
    curves = {c["metric"]: c["points"] for c in scene.atoll("-o", "json", "job", "metrics", "next").json()["curves"]}
    check({"loss", "evaluation_loss", "perplexity"} <= set(curves), f"the curves are {sorted(curves)}")
    csv = scene.atoll("job", "metrics", "next", "--metric", "loss", "--csv").out.splitlines()
    equal(len(csv), 1 + len(curves["loss"]), "the lines of a curve as CSV")


def purge(scene, coordinator, manifest):
    """Purging an ended job frees its disk space. Its list entry and curves stay, its name stays taken, and other jobs
    and the next start are not affected."""
    kept = scene.path("state/jobs/long")
    check(any(kept.rglob("*.snap")), "nothing is kept of a cancelled job")
    scene.submit("running", manifest, steps=ENDLESS)
    refused = scene.atoll("job", "purge", "running", code=3)
    check("only what has ended can be purged" in refused.err, f"the purge of a running job was refused with {refused.err!r}")
    scene.atoll("job", "cancel", "running")
    for _ in range(2):  # the second as after a lost answer
        equal(scene.atoll("-o", "name", "job", "purge", "long").out.split(), ["jobs/long"], "what was purged")
    wait_for("the end of its files", lambda: not [path for path in kept.rglob("*") if path.is_file()], 30, [coordinator])
    equal(checkpoints(scene), [], "the checkpoints of a purged job")
    job = scene.job("long")
    equal(job["state"], "JOB_STATE_CANCELLED", "the state of a purged job")
    check(job["reason"].startswith("purged: its checkpoints, parameters and round log are given up; it had ended so: "), f"its reason is {job['reason']!r}")
    check("job purged" in scene.atoll("job", "logs", "long").out, "its log does not tell of the purge")
    refused = scene.atoll("checkpoint", "export", "long", scene.path("gone"), code=3)
    check("jobs/long has no checkpoint" in refused.err, f"the export of a purged job was refused with {refused.err!r}")
    equal(len(scene.atoll("-o", "json", "checkpoint", "list", "next").json()["checkpoints"]), 1, "the checkpoints of another job")


def stored(scene):
    return {path.name for path in scene.path("state/blobs").rglob("*") if path.is_file()}


def files_of_purged_jobs(scene, data):
    """Files submitted with purged jobs are deleted at the next start, except those that another job names."""
    before = stored(scene)
    weights = {hashlib.sha256(path.read_bytes()).hexdigest() for path in scene.path("export").glob("*.safetensors")}
    check(weights and weights < before, f"the weights {weights} are not among the stored files {before}")
    for jobs, left in (([], before), (["third"], before - weights), (["next", "running"], set())):
        coordinator = scene.coordinator(*data)
        for job in jobs:
            scene.atoll("job", "purge", job)
        coordinator.terminate()
        coordinator = scene.coordinator(*data)
        equal(stored(scene), left, f"the stored files once {jobs} are purged too")
        equal("files of purged jobs removed" in coordinator.log(), bool(jobs), "whether its log tells of them")
        coordinator.terminate()
    equal(scene.verify()["damage"], [], "what verify finds once all jobs are purged")


def completion(scene):
    for shell in ("bash", "zsh", "fish"):
        script = scene.atoll("completion", shell).out
        check("rollback" in script, f"the {shell} completion does not know rollback")
        if shutil.which(shell):
            checked = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
            equal((checked.returncode, checked.stderr), (0, ""), f"{shell} -n on the completion script")
    offered = subprocess.run(["bash", "-c", scene.atoll("completion", "bash").out +
                              "\nCOMP_WORDS=(atoll job pau); COMP_CWORD=2; COMP_LINE='atoll job pau'; COMP_POINT=13; _atoll; echo ${COMPREPLY[@]}"],
                             text=True, capture_output=True).stdout.strip()
    equal(offered, "pause", "what bash offers after 'atoll job pau'")


def test(scene):
    completion(scene)
    manifest = scene.corpus()
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data)
    worker = scene.worker("a", coordinator, *data)
    scene.submit("long", manifest, steps=ENDLESS, checkpoint={"every_rounds": 5, "keep_last": 3})
    scene.wait_round("long", 3, alive=[worker])
    pause_and_resume(scene, worker)
    update(scene, worker)
    scene.wait_job("long", lambda job: len(checkpoints(scene)) >= 2, "two checkpoints", alive=[worker])
    rollback(scene, worker)
    cancel(scene, worker)
    from_checkpoint(scene, manifest)
    what_is_shown(scene)
    purge(scene, coordinator, manifest)
    check(worker.popen.poll() is None, "the worker has ended")
    coordinator.terminate()
    equal((scene.verify()["damage"], scene.replay()["damage"]), ([], []), "what verify and replay find once a job was purged")
    files_of_purged_jobs(scene, data)


main(test)
