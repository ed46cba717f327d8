# SPDX-License-Identifier: Apache-2.0
"""Bad input that shows only while a job runs: missing data, data that differs from its manifest (S15), a model that
is too large."""
import shutil

from atoll_harness import check, equal, main, number, wait_for


def failed(job):
    return job["state"] == "JOB_STATE_FAILED"


def refuse_model(scene, coordinator, manifest):
    """A model too large for the worker's memory: every worker reports how much is missing, and the job ends with that
    message."""
    worker = scene.worker("small", coordinator, "--data-root", scene.path("data"), "--memory-limit", "32MiB")
    scene.submit("large", manifest, model={"hidden_size": 256, "intermediate_size": 1024, "layers": 4})
    job = scene.wait_job("large", failed, "the refusal of a large model", alive=[worker])
    check("the model does not fit" in job["reason"] and "iB" in job["reason"], f"the reason is {job['reason']!r}")
    equal(scene.atoll("job", "wait", "large", code=None).code, 1, "the exit status of wait for a failed job")
    # The worker is free for a job that fits.
    scene.submit("fits", manifest, steps=20)
    scene.wait_end("fits")
    equal(worker.terminate(), 0, "the exit status of the worker")


def refuse_missing_data(scene, manifest):
    """Neither worker nor coordinator has the shards: the job reports which file is missing and where."""
    coordinator = scene.coordinator(name="without-data", state="state-without-data")
    worker = scene.worker("without", coordinator)
    scene.submit("missing", manifest)
    job = scene.wait_job("missing", lambda job: failed(job) or "shard" in job.get("reason", ""), "the word about missing shards", alive=[worker])
    check(".bin" in job["reason"], f"the reason is {job['reason']!r}")
    equal(worker.terminate(), 0, "the exit status of the worker")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def name_where_shards_were_sought(scene, manifest):
    """The coordinator has a data root without the corpus: the message names both searched places."""
    root = scene.path("empty-root")
    root.mkdir()
    coordinator = scene.coordinator("--data-root", root, name="empty-root", state="state-empty-root")
    worker = scene.worker("sought", coordinator)
    scene.submit("sought", manifest)
    job = scene.wait_job("sought", failed, "the word about missing shards", alive=[worker])
    shard = next((scene.path("data") / "text").glob("*train*.bin")).name
    for place in (root / "text" / shard, root / shard):
        check(str(place) in job["reason"], f"{place} is not named: {job['reason']!r}")
    equal(worker.terminate(), 0, "the exit status of the worker")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def refuse_damaged_data(scene, manifest):
    """A flipped bit in the worker's copy: the worker takes no step with it, and names the file."""
    damaged = scene.path("damaged")
    shutil.copytree(scene.path("data"), damaged)
    for shard in (damaged / "text").glob("*train*.bin"):
        content = bytearray(shard.read_bytes())
        content[2000] ^= 1
        shard.write_bytes(content)
    coordinator = scene.coordinator(name="damaged", state="state-damaged")
    worker = scene.worker("damaged-copy", coordinator, "--data-root", damaged)
    scene.submit("corrupt", manifest)
    job = scene.wait_job("corrupt", failed, "the word about damaged shards", alive=[worker])
    check(".bin" in job["reason"] and "block" in job["reason"], f"the reason is {job['reason']!r}")
    equal(number(job, "tokens"), 0, "the tokens that were trained on damaged data")
    equal(worker.terminate(), 0, "the exit status of the worker")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def stop_without_data(scene, manifest):
    """The shards disappear in mid-run: the job stops without loss, and continues once they are back."""
    data, away = scene.path("data"), scene.path("data-away")
    coordinator = scene.coordinator(name="comes-back", state="state-comes-back")
    worker = scene.worker("first", coordinator, "--data-root", data)
    scene.submit("comes-back", manifest, steps=400, checkpoint={"every_rounds": 2})
    scene.wait_round("comes-back", 3, alive=[worker])
    equal(worker.terminate(), 0, "the exit status of the first worker")
    reached = scene.job("comes-back")
    away.mkdir()
    for shard in (data / "text").glob("*train*.bin"):
        shard.rename(away / shard.name)
    worker = scene.worker("second", coordinator, "--data-root", data)
    stopped = scene.wait_job("comes-back", lambda job: job["state"] == "JOB_STATE_PAUSED", "the stop", alive=[worker])
    check(stopped["reason"].startswith("stopped: ") and ".bin" in stopped["reason"], f"the reason is {stopped['reason']!r}")
    equal(stopped["fragments"], reached["fragments"], "the versions of the stopped job")
    idle = scene.atoll("-o", "json", "worker", "list").json()["workers"]
    check(any(".bin" in w.get("waiting_for", "") for w in idle), f"no worker says why it is idle: {idle}")
    for shard in away.iterdir():
        shard.rename(data / "text" / shard.name)
    scene.atoll("job", "resume", "comes-back")
    check(number(scene.wait_end("comes-back"), "round") > number(stopped, "round"), "the job has gone on")
    equal(worker.terminate(), 0, "the exit status of the second worker")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


def refuse_namesake(scene, coordinator):
    """Two workers of one name: the second is refused with that reason, does not disturb the first, and may join after
    the first has left."""
    first = scene.worker("same", coordinator, "--data-root", scene.path("data"))
    workers = lambda: scene.atoll("-o", "json", "worker", "list").json().get("workers", [])
    wait_for("the first worker", workers, alive=[first])
    incarnation = number(workers()[0], "incarnation")
    second = scene.worker("same", coordinator, "--data-root", scene.path("data"))
    wait_for("the refusal of the namesake", lambda: "give this one another name" in second.log(), alive=[first, second])
    equal([(w["name"], number(w, "incarnation")) for w in workers()], [("workers/same", incarnation)], "the workers meanwhile")
    check("coordinator away" not in second.log(), "the second says that the coordinator is away, and it is not")
    equal(first.terminate(), 0, "the exit status of the first")
    wait_for("the second worker", lambda: any(number(w, "incarnation") > incarnation for w in workers()), alive=[second])
    equal(second.terminate(), 0, "the exit status of the second")


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    refuse_model(scene, coordinator, manifest)
    refuse_namesake(scene, coordinator)
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    refuse_missing_data(scene, manifest)
    name_where_shards_were_sought(scene, manifest)
    refuse_damaged_data(scene, manifest)
    stop_without_data(scene, manifest)


main(test)
