# SPDX-License-Identifier: Apache-2.0
"""F25: a rank of a real island hangs (SIGSTOP), or its rank 0: the other ranks end with the cause, no process
remains, the other worker continues, and the island returns when it is restarted."""
import os
import signal

from atoll_harness import check, equal, main, number
from island import BROKEN, STEPS, all_end, follower_of, trains

PATIENCE = 60  # seconds, worker/island/mesh.h
RANKS = 3


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--membership-timeout", "5s", "--heartbeat-interval", "300ms")

    def island():
        return scene.worker("a", coordinator, "--data-root", scene.path("data"), "--island-size", str(RANKS))

    plain = scene.worker("b", coordinator, "--data-root", scene.path("data"))
    a = island()
    scene.submit("job", manifest, "--set", "sync.max_unsynced_periods=4", steps=10 * STEPS,
                 inner_optimizer={"learning_rate": 1e-6, "schedule": {"kind": "constant"}})  # b takes very many steps meanwhile
    trains(scene, "a", 2, [plain, a])

    followers = [follower_of(a, rank) for rank in range(1, RANKS)]
    os.kill(followers[0], signal.SIGSTOP)
    equal(a.end(2 * PATIENCE), BROKEN, "the exit status of an island of which a rank hangs")
    cause = next(line for line in a.log().splitlines() if "rank 1" in line and "island" in line and "started" not in line)
    print("told:", cause)
    all_end(followers, 30)  # the stopped one too
    equal(scene.listed_worker("a")["state"], "left", "the state of a")
    rounds = number(scene.job("job"), "round")
    scene.wait_round("job", rounds + 3, alive=[plain])

    a = island()
    trains(scene, "a again", 2, [plain, a])
    followers = [follower_of(a, rank) for rank in range(1, RANKS)]
    a.send(signal.SIGSTOP)
    all_end(followers, 3 * PATIENCE)
    print("told:", [line for line in a.log().splitlines() if "rank 0" in line][-1])
    check(plain.popen.poll() is None, "the other worker is gone")
    a.kill()
    a = island()
    trains(scene, "a for the third time", 2, [plain, a])
    scene.atoll("job", "cancel", "job")


main(test)
