# SPDX-License-Identifier: Apache-2.0
"""A job runs halfway; its coordinator is stopped, backed up (once to a disk that fills up during the backup), and
continues. Then its machine is lost. A coordinator on another directory, restored from the backup, continues with the
same workers, although they have newer state: they start over from the backup, the run ends, and verify and replay
find nothing wrong."""
import shutil

from atoll_harness import BIN, check, equal, main, number
from disk_images import read_calls

ENDLESS = 10_000  # more than are taken here, and few enough that all contributions can be kept
FILLED_AT = 5  # positions in a backup, from its second durable call to its last but one


def boot_number(coordinator):
    line = next(line for line in coordinator.page("/metrics").splitlines() if line.startswith("atoll_boot_number"))
    return int(float(line.split()[-1]))


def start(scene, **where):
    return scene.coordinator("--data-root", scene.path("data"), **where)


def back_up(scene, coordinator):
    """Copies the state of a stopped coordinator; the copy is as valid as the original."""
    command = ("atoll-coordinator", "backup", "--state", scene.path("state"), "--to", scene.path("backup"))
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    said = scene.run(*command).out
    check("verified and flushed" in said, f"backup said {said!r}")
    equal(scene.verify("backup")["counts"], scene.verify()["counts"], "what verify counts in the backup")
    again = scene.run(*command, code=1)
    check("already exists and is never overwritten" in again.err, again.err)
    on_backup = scene.launch_coordinator(name="on-backup", state="backup")
    equal(on_backup.end(), 1, "the exit status of a coordinator on a backup")
    check("restore --from" in on_backup.log(), f"it said {on_backup.log()!r}")


def back_up_to_a_disk_that_fills_up(scene):
    """Wherever the disk fills up during the backup: one error message, no backup, and the same command succeeds once
    there is space."""
    def back_up_to(name, code=0, **faults):
        calls = scene.path(f"{name}.calls")
        ran = scene.run("atoll-coordinator", "backup", "--state", scene.path("state"), "--to", scene.path("disk") / name, code=code,
                        LD_PRELOAD=str(BIN / "libdurable_calls.so"), DURABLE_CALLS_BELOW=str(scene.path("disk").resolve()),
                        DURABLE_CALLS_LOG=str(calls), **faults)
        return ran, read_calls(calls)

    scene.path("disk").mkdir()
    last = len(back_up_to("undisturbed")[1]) - 2
    for i in range(FILLED_AT):
        name, at = f"filled-{i}", 1 + i * (last - 1) // (FILLED_AT - 1)
        failed, calls = back_up_to(name, code=None, DURABLE_CALLS_AT=str(at), DURABLE_CALLS_FAULT="ENOSPC")
        check(failed.code != 0 and "No space left on device" in failed.err, f"a backup whose disk filled up at call {at} ended with {failed.code} and said {failed.err!r}")
        check(not (scene.path("disk") / name).exists(), f"there is a backup although its disk filled up at call {at}")
        back_up_to(name)
        equal(scene.verify(f"disk/{name}")["damage"], [], f"what verify finds in the backup that was finished after call {at}")


def restore(scene):
    command = ("atoll-coordinator", "restore", "--from", scene.path("backup"), "--state", scene.path("other-host"))
    scene.run(*command)
    again = scene.run(*command, code=1)
    check("is never overwritten" in again.err, again.err)
    equal(scene.verify("other-host")["damage"], [], "what verify finds in the restored state")
    (scene.path("backup") / "BACKUP").rename(scene.path("BACKUP.away"))
    no_backup = scene.run("atoll-coordinator", "restore", "--from", scene.path("backup"), "--state", scene.path("third"), code=1)
    check("is not a backup" in no_backup.err and not scene.path("third").exists(), no_backup.err)


def check_workers(workers):
    for worker in workers:
        check(worker.popen.poll() is None, f"worker {worker.name} has ended")
        check("coordinator restored" in worker.log(), f"worker {worker.name} did not notice that the coordinator was restored")
        check("replica deviates" not in worker.log(), f"worker {worker.name} held other bits than were published")


def test(scene):
    manifest = scene.corpus()
    coordinator = start(scene)
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("a", "b")]
    scene.submit("job", manifest, steps=ENDLESS, workers={"min": 2}, checkpoint={"every_rounds": 10, "keep_contributions": True})
    scene.wait_round("job", 8, alive=workers)
    back_up(scene, coordinator)
    back_up_to_a_disk_that_fills_up(scene)
    coordinator = start(scene, ports=coordinator.ports)
    held = number(scene.job("job"), "round")
    known = number(scene.wait_round("job", held + 5, alive=workers), "round")
    coordinator.kill()
    shutil.rmtree(scene.path("state"))
    restore(scene)
    coordinator = start(scene, ports=coordinator.ports, state="other-host", name="restored")
    check(boot_number(coordinator) > 1_000_000, "the boot number is none of a new line")
    check(number(scene.job("job"), "round") < known, "nothing was lost, so nothing is shown")
    job = scene.end_after("job")
    check_workers(workers)
    equal(coordinator.terminate(), 0, "the exit status of the restored coordinator")
    equal(scene.verify("other-host")["damage"], [], "what verify finds at the end")
    equal(scene.replay("other-host")["counts"]["rounds equal"], number(job, "rounds_committed"), "the rounds that replay found equal")


main(test)
