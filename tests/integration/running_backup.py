# SPDX-License-Identifier: Apache-2.0
"""A coordinator is backed up again and again while its workers train and it deletes old files. Each backup is
complete, and its history is a prefix of the original's final history. A coordinator on a restored backup continues
with its own workers. The original is not affected, not even by a backup that is killed or that fills its disk."""
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

from atoll_harness import BIN, check, equal, main, number, program, wait_for
from launch import through
from preload import refuse_without

BACKUPS = 5
STEPS = 100_000  # more than there is time for
LARGEST_FILE = 32 << 10  # limit for a backup's files: less than a snapshot
KILLED_AT = 12  # the call on a file of the backup after which it is killed; there are more than twice as many
SMALL_DISK = 64 << 10


def history(scene, state):
    """The committed rounds in the ledger of a state without a running coordinator: all decisions, including hashes."""
    with sqlite3.connect(f"file:{scene.path(state)}/ledger.sqlite?immutable=1", uri=True) as ledger:
        return ledger.execute("SELECT job, epoch, fragment, version, record FROM rounds ORDER BY seq").fetchall()


def back_up(scene, to, code=0):
    return scene.run("atoll-coordinator", "backup", "--state", scene.path("state"), "--to", scene.path(to), code=code)


def restore(scene, backup, state):
    scene.run("atoll-coordinator", "restore", "--from", scene.path(backup), "--state", scene.path(state))
    equal(scene.verify(state)["damage"], [], f"what verify finds in {state}")
    scene.replay(state)
    return history(scene, state)


def rounds(scene):
    return number(scene.job("job"), "rounds_committed")


def take_backups(scene, alive):
    """Each backup has everything reported before it, and nothing that was deleted long ago."""
    histories = []
    for i in range(BACKUPS):
        told = rounds(scene)
        said = back_up(scene, f"backup-{i}").out
        check("verified and flushed" in said, f"backup said {said!r}")
        equal(scene.verify(f"backup-{i}")["damage"], [], f"what verify finds in backup-{i}")
        histories.append(restore(scene, f"backup-{i}", f"restored-{i}"))
        check(len(histories[-1]) >= told, f"{told} rounds were committed when backup {i} began, and it has {len(histories[-1])}")
        scene.wait_round("job", number(scene.job("job"), "round") + 2, alive=alive)
    for shorter, longer in zip(histories, histories[1:]):
        check(len(shorter) < len(longer), "no round was committed between two backups")
    segments = len(list(scene.path("backup-0").rglob("*.seg")))
    check(segments < len(histories[0]), f"all {segments} segments are held: nothing was dropped")
    return histories


def killed(scene, alive):
    """The leftovers of a killed backup are not a backup; the same command completes them."""
    command = [program("atoll-coordinator"), "backup", "--state", scene.path("state"), "--to", scene.path("killed")]

    def back_up_with(*limit, **environment):
        return subprocess.run(list(map(str, [*limit, *command])), env=scene.environment(**environment), capture_output=True, text=True, timeout=60)
    ended = back_up_with(*through(limits={"RLIMIT_FSIZE": LARGEST_FILE}))
    equal(ended.returncode, 1, "how a backup ends whose files may not grow")
    check("File too large" in ended.stderr and "ulimit -f" in ended.stderr, f"it says {ended.stderr!r}")
    ended = back_up_with(LD_PRELOAD=str(BIN / "libdurable_calls.so"), DURABLE_CALLS_BELOW=str(scene.path("killed.partial").resolve()),
                         DURABLE_CALLS_LOG=str(scene.path("killed.calls")), DURABLE_CALLS_AT=str(KILLED_AT), DURABLE_CALLS_FAULT="killed-after")
    equal(ended.returncode, -signal.SIGKILL, "how a backup ends that is killed while it writes")
    check(scene.path("killed.partial").exists() and not scene.path("killed").exists(), "the backup was not in the middle of it")
    refused = scene.run("atoll-coordinator", "restore", "--from", scene.path("killed.partial"), "--state", scene.path("none"), code=1)
    check("is a backup that was not finished" in refused.err, refused.err)
    on_partial = scene.launch_coordinator(name="on-partial", state="killed.partial")
    equal(on_partial.end(), 1, "the exit status of a coordinator on a backup that was not finished")
    check("was not finished" in on_partial.log(), on_partial.log())
    scene.wait_round("job", number(scene.job("job"), "round") + 2, alive=alive)
    back_up(scene, "killed")
    check(not scene.path("killed.partial").exists(), "something is left of the killed backup")
    restore(scene, "killed", "restored-killed")


def full_disk(scene, alive):
    """One error message, and nothing is left."""
    directory = scene.path("small-disk")
    directory.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", directory],
                                           capture_output=True).returncode != 0:
        print("a small disk cannot be mounted here: not tried")
        return
    try:
        refused = back_up(scene, "small-disk/backup", code=1)
        check("bytes free; free disk space or use another disk" in refused.err and refused.err.count("\n") == 1, refused.err)
        equal(os.listdir(directory), [], "what is left on the small disk")
    finally:
        subprocess.run(["umount", directory], check=True)
    scene.wait_round("job", number(scene.job("job"), "round") + 1, alive=alive)


def one_night(scene, kept, keep, status=0):
    """The recipe of docs/backup.md. Returns its standard error and the names that exist afterwards."""
    script = pathlib.Path(__file__).parents[2] / "deploy/backup/atoll-backup"
    path = f"{program('atoll-coordinator').parent}:{os.environ['PATH']}"
    ran = subprocess.run([script, scene.path("state"), kept, keep], env=scene.environment(PATH=path), capture_output=True, text=True, timeout=120)
    equal(ran.returncode, status, f"the exit status of atoll-backup, which said {ran.stderr!r},")
    return ran.stderr, sorted(os.listdir(kept))


def nightly(scene):
    """The newest backups stay, and a backup that was interrupted just before its end is not lost."""
    kept = scene.path("nights")
    for name in ("2024-05-01T030000Z", "2024-05-02T030000Z"):
        (kept / name).mkdir(parents=True)
    scene.path("killed").rename(kept / "new")
    os.utime(kept / "new/BACKUP", (1_714_705_200, 1_714_705_200))  # 2024-05-03 03:00 UTC
    one_night(scene, kept, "0", status=2)
    said, names = one_night(scene, kept, "3")
    check(len(names) == 3 and names[:2] == ["2024-05-02T030000Z", "2024-05-03T030000Z"], f"{names} are kept")
    check("future" not in said, f"no clock was wrong, and it said {said!r}")
    for name in names[1:]:
        equal(scene.verify(f"nights/{name}")["damage"], [], f"what verify finds in {name}")


def wrong_clock(scene):
    """Backups from a clock that was ahead are deleted first, with a message about each that stays; the newest backup
    is never deleted."""
    def nights(folder, *names):
        for name in names:
            (scene.path(folder) / name).mkdir(parents=True)
        return scene.path(folder)
    ahead = ["2099-01-01T030000Z", "2099-01-02T030000Z", "2099-01-03T030000Z"]
    said, names = one_night(scene, nights("ahead", *ahead), "3")
    check(len(names) == 3 and names[1:] == ahead[1:] and names[0].startswith("2"), f"{names} are kept")
    equal(scene.verify(f"ahead/{names[0]}")["damage"], [], "what verify finds in the backup just made")
    told = [line for line in said.splitlines() if "lies in the future" in line]
    check(len(told) == 2 and all(name in line for name, line in zip(ahead[1:], told)), f"it said {said!r}")
    said, names = one_night(scene, nights("one", ahead[0]), "1")
    check(len(names) == 1 and names[0] < ahead[0] and "future" not in said, f"{names} are kept; it said {said!r}")
    # From a clock that was late: such a backup is as old as its name, and is counted.
    _, names = one_night(scene, nights("behind", "1970-01-01T000100Z", "2024-05-01T030000Z", ahead[0]), "2")
    check(len(names) == 2 and names[0] == "2024-05-01T030000Z" and names[1] < ahead[0], f"{names} are kept")


def goes_on(scene, manifest_root, backup_history):
    """A coordinator on a restored state, with its own workers, while the original runs."""
    original = scene.endpoint
    restored = scene.coordinator("--data-root", manifest_root, name="restored", state="restored-1")
    workers = [scene.worker(name, restored, "--data-root", manifest_root) for name in ("c", "d")]
    scene.wait_job("job", lambda job: number(job, "rounds_committed") >= len(backup_history) + 4, "rounds of the restored coordinator",
                   alive=[restored, *workers])
    scene.atoll("job", "cancel", "job")
    for worker in workers:
        equal(worker.terminate(), 0, "the exit status of a worker")
    equal(restored.terminate(), 0, "the exit status of the restored coordinator")
    equal(scene.verify("restored-1")["damage"], [], "what verify finds in the restored state in the end")
    scene.replay("restored-1")
    equal(history(scene, "restored-1")[:len(backup_history)], backup_history, "the history up to the backup")
    scene.endpoint = original


def test(scene):
    refuse_without("libdurable_calls.so")
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data")) for name in ("a", "b")]
    alive = [coordinator, *workers]
    slowly = {"learning_rate": 0.0002, "schedule": {"kind": "constant"}}  # this number of short rounds would overshoot at a higher rate
    scene.submit("job", manifest, steps=STEPS, inner_steps=2, inner_optimizer=slowly, checkpoint={"every_rounds": 2, "keep_last": 1})
    scene.wait_round("job", 8, alive=alive)
    histories = take_backups(scene, alive)
    killed(scene, alive)
    full_disk(scene, alive)
    nightly(scene)
    wrong_clock(scene)
    shutil.rmtree(scene.path("backup-0"))
    before = rounds(scene)
    goes_on(scene, scene.path("data"), histories[1])
    wait_for("rounds of the original meanwhile", lambda: rounds(scene) > before, 60, alive)
    log = coordinator.log()
    check(" ERROR " not in log and "worker lost" not in log, f"the coordinator has noticed: {log[-2000:]}")
    scene.atoll("job", "cancel", "job")
    for worker in workers:
        equal(worker.terminate(), 0, f"the exit status of {worker.name}")
    equal(coordinator.terminate(), 0, "the exit status of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds in the original")
    scene.replay()
    whole = history(scene, "state")
    for i, part in enumerate(histories):
        equal(part, whole[:len(part)], f"the history of backup {i}, against the original's")


main(test)
