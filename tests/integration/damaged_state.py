# SPDX-License-Identifier: Apache-2.0
"""Damage in the state directory: an unusable checkpoint, a segment of another round, a truncated segment, and
restarts after rollbacks."""
import shutil

from atoll_harness import check, equal, main, number

ENDLESS = 1_000_000


def paused(job):
    return job["state"] == "JOB_STATE_PAUSED" and number(job, "workers_training") == 0


def checkpoints(scene):
    return scene.atoll("-o", "json", "checkpoint", "list", "hurt").json().get("checkpoints", [])


def pause(scene, worker, name="hurt"):
    scene.atoll("job", "pause", name)
    return scene.wait_job(name, paused, "the pause", alive=[worker])


def restart(scene, coordinator, between=lambda: None):
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    between()
    return scene.coordinator("--data-root", scene.path("data"), ports=coordinator.ports)


def refuse_damaged_checkpoint(scene):
    """The refusal names the file; checkpoints and versions do not change."""
    before, listed = scene.job("hurt"), checkpoints(scene)
    step = listed[0]["step"]
    file = next(scene.path("state").glob(f"jobs/hurt/checkpoints/*{int(step)}/f*.snap"))
    whole = file.read_bytes()
    file.unlink()  # it may be a link to a snapshot
    file.write_bytes(whole[:5000] + bytes(b ^ 1 for b in whole[5000:5004]) + whole[5004:])
    refused = scene.atoll("job", "rollback", "hurt", "--to", step, code=3)
    check("nothing was changed" in refused.err and file.name in refused.err, f"the refusal is {refused.err!r}")
    equal(checkpoints(scene), listed, "the checkpoints after a refused rollback")
    equal(scene.job("hurt")["fragments"], before["fragments"], "the versions after a refused rollback")


def restart_after_rollback(scene, coordinator, worker):
    target = checkpoints(scene)[-1]
    scene.atoll("job", "rollback", "hurt", "--to", target["step"])
    coordinator = restart(scene, coordinator)
    job = scene.wait_job("hurt", lambda job: job["fragments"][0]["version"] == target["versions"][0], "the old version")
    equal(job["state"], "JOB_STATE_PAUSED", "the state after a rollback and a restart")
    scene.atoll("job", "resume", "hurt")
    scene.wait_round("hurt", number(job, "round") + 2, alive=[worker])
    return coordinator


def stop_for_a_strange_segment(scene, coordinator, worker):
    """Only the job of that segment stops; after its removal the job continues."""
    job = pause(scene, worker)
    head = number(job, "round")
    [directory] = scene.path("state").glob("jobs/hurt/rounds/e*1/f*0")
    newest = sorted(directory.glob("v*.seg"))[-1]
    strange = directory / f"v{head:010d}.seg"
    source = newest if newest != strange else sorted(directory.glob("v*.seg"))[-2]
    coordinator = restart(scene, coordinator, lambda: shutil.copyfile(source, strange))
    job = scene.job("hurt")
    equal(job["state"], "JOB_STATE_PAUSED", "the state with a strange segment")
    check(strange.name in job["reason"] and "belongs to another round" in job["reason"], f"the reason is {job['reason']!r}")
    refused = scene.atoll("job", "resume", "hurt", code=3)
    check("start the coordinator again" in refused.err, f"resume was refused with {refused.err!r}")
    scene.submit("other", scene.path("data") / "text" / "manifest.json")
    scene.wait_end("other")
    coordinator = restart(scene, coordinator, strange.unlink)
    scene.atoll("job", "resume", "hurt")
    scene.wait_round("hurt", head + 2, alive=[worker])
    return coordinator


def tell_a_cut_segment(scene, coordinator, worker):
    """The segment of a round that nothing needs: verify and the next start name file, offset and the missing data,
    and do not change the file."""
    scene.submit("kept", scene.path("data") / "text" / "manifest.json", steps=100_000,
                 checkpoint={"every_rounds": 2, "keep_contributions": True})
    scene.wait_round("kept", 6, alive=[worker])
    pause(scene, worker, "kept")
    [segment, *_] = sorted(scene.path("state").glob("jobs/kept/rounds/e*/f*/v*.seg"))[-8:]
    whole = segment.read_bytes()
    for end in (0, len(whole) // 2, len(whole) - 1):
        def cut(end=end):
            segment.write_bytes(whole[:end])
            [told, *_] = [finding for finding in scene.verify(code=65)["damage"] if finding["file"] == str(segment)]
            check("the committed round that led to version" in told["problem"] and "missing" in told["problem"], told)
            check(int(told["offset"]) <= end and "from a backup" in told["way_out"], told)
        coordinator = restart(scene, coordinator, cut)
        lines = [event["text"] for event in scene.logged_events("kept") if event["kind"] == "round log damaged"]
        check(lines and str(segment) in lines[-1] and "missing from it" in lines[-1], f"the event log of kept has {lines}")
        print(lines[-1])
        equal(segment.read_bytes(), whole[:end], "the segment after a start")
    segment.write_bytes(whole)
    scene.atoll("job", "cancel", "kept")
    return coordinator


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    worker = scene.worker("w", coordinator, "--data-root", scene.path("data"))
    scene.submit("hurt", manifest, steps=ENDLESS, checkpoint={"every_rounds": 2})
    scene.wait_round("hurt", 8, alive=[worker])
    pause(scene, worker)
    refuse_damaged_checkpoint(scene)
    coordinator = restart_after_rollback(scene, coordinator, worker)
    coordinator = stop_for_a_strange_segment(scene, coordinator, worker)
    scene.atoll("job", "cancel", "hurt")
    coordinator = tell_a_cut_segment(scene, coordinator, worker)
    equal(worker.terminate(), 0, "the exit status of the worker")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")


main(test)
