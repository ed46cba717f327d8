# SPDX-License-Identifier: Apache-2.0
"""Several processes as one worker: an island in a job with a plain worker, a killed rank, a killed rank 0, a
launcher."""
import os
import re
import signal

from atoll_harness import check, equal, free_port, main, number, program, wait_for

STEPS = 100_000  # more than are taken here
BROKEN = 8  # worker/daemon/exit_codes.h


def follower_of(worker, rank=1):
    """The process id of a rank that the daemon has started."""
    started = rf"rank started rank={rank} process=(\d+)"
    return int(wait_for(f"rank {rank} of {worker.name}", lambda: re.search(started, worker.log()), 60, [worker]).group(1))


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def trains(scene, name, workers, alive):
    scene.wait_job("job", lambda job: number(job, "workers_participating") == workers, f"{name} in a round", alive=alive)


def all_end(followers, seconds=60):
    wait_for("the end of the other ranks", lambda: not any(runs(pid) for pid in followers), seconds)


def launched(scene, coordinator, rank, port):
    """Starts one rank, as a launcher does."""
    command = [program("atoll-worker"), "--name", "c", "--coordinator", f"127.0.0.1:{coordinator.ports['control']}", "--coordinator-bulk",
               f"127.0.0.1:{coordinator.ports['bulk']}", "--threads", "1", "--device", "cpu", "--cache-dir", scene.path("cache-c"),
               "--data-root", scene.path("data"), "--no-admin"]
    return scene.start(f"c-{rank}", command, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(port), ATOLL_ISLAND_SECRET="a secret for this test")


def test(scene):
    refused = scene.run("atoll-worker", "--name", "x", code=2, WORLD_SIZE="2", RANK="2", MASTER_PORT="1")
    for part in ("RANK is '2'", "MASTER_ADDR is missing", "ATOLL_ISLAND_SECRET has 0 characters"):
        check(part in refused.err, f"no word of {part}: {refused.err}")
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--membership-timeout", "5s", "--heartbeat-interval", "300ms")

    def island():
        return scene.worker("a", coordinator, "--data-root", scene.path("data"), "--island-size", "2")

    plain = scene.worker("b", coordinator, "--data-root", scene.path("data"))
    a = island()
    scene.submit("job", manifest, "--set", "sync.max_unsynced_periods=4", steps=STEPS)
    trains(scene, "a", 2, [plain, a])

    # A rank dies: the worker leaves in order, gives the reason, and returns when it is restarted.
    first = scene.listed_worker("a")
    os.kill(follower_of(a), signal.SIGKILL)
    equal(a.end(), BROKEN, "the exit status of an island that lost a rank")
    check("rank 1 of the island" in a.log() and "was killed by signal 9" in a.log(), f"the cause is not told: {a.log()[-2000:]}")
    equal(scene.listed_worker("a")["state"], "left", "the state of a")
    a = island()
    trains(scene, "a again", 2, [plain, a])
    check(number(scene.listed_worker("a"), "incarnation") > number(first, "incarnation"), "a came back with its old incarnation")

    # Rank 0 dies: no process remains.
    follower = follower_of(a)
    a.kill()
    wait_for("the end of rank 1 without rank 0", lambda: not runs(follower), 60)

    # A launcher starts the ranks, in any order, and stops them all at once.
    port = free_port()
    c1 = launched(scene, coordinator, 1, port)
    c0 = launched(scene, coordinator, 0, port)
    wait_for("c in the fleet", lambda: "job prepared" in c0.log() and "share prepared" in c1.log(), 90, [c0, c1, plain])
    c1.send(signal.SIGTERM)
    equal(c0.terminate(), 0, "the exit status of rank 0")
    equal(c1.end(), 0, "the exit status of rank 1")

    # A closing terminal sends SIGHUP to all processes of an island that its daemon has started: they leave in order.
    a = island()
    trains(scene, "a for the third time", 2, [plain, a])
    follower = follower_of(a)
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 3, alive=[plain, a])
    os.kill(follower, signal.SIGHUP)
    a.send(signal.SIGHUP)
    equal(a.end(), 0, "the exit status of an island that leaves")
    check(not runs(follower), "a rank is there after its island left")
    scene.atoll("job", "cancel", "job")


if __name__ == "__main__":  # island_of_four.py uses the functions above
    main(test)
