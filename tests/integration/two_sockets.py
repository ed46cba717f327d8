# SPDX-License-Identifier: Apache-2.0
"""A worker has exactly two TCP connections to its coordinator, one for control and one for bulk."""
from collections import Counter

from atoll_harness import ESTABLISHED, equal, main, sockets_of


def test(scene):
    manifest = scene.corpus()
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    worker = scene.worker("a", coordinator)  # streams its data, so that both are in use
    scene.submit("job", manifest, steps=100_000)
    scene.wait_round("job", 3, alive=[worker])
    ports = {coordinator.ports["control"]: "control", coordinator.ports["bulk"]: "bulk", coordinator.ports["admin"]: "admin"}
    sockets = sockets_of(worker.pid)
    used = Counter(ports[remote] for _, remote, state in sockets if remote in ports and state == ESTABLISHED)
    equal(dict(used), {"control": 1, "bulk": 1}, "the connections of the worker")
    others = [s for s in sockets if s[1] not in ports and s[2] == ESTABLISHED]
    equal(others, [], "connections to anybody else")
    scene.atoll("job", "cancel", "job")


main(test)
