# SPDX-License-Identifier: Apache-2.0
"""Messages of both programs to a service manager (sd_notify) from start to end, over a real socket, and none without
one."""
import os
import signal
import socket

from atoll_harness import check, equal, main

WATCHDOG_SECONDS = 2
TURNS = 3  # watchdog messages to wait for


class Manager:
    """A service manager's socket, in the abstract namespace."""

    def __init__(self, name):
        self.name = f"@atoll-{name}-{os.getpid()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name[1:])
        self.socket.settimeout(30)

    def next(self):
        return self.socket.recv(256).decode()

    def rest(self):
        """All messages that are not read yet."""
        self.socket.setblocking(False)
        said = []
        try:
            while True:
                said.append(self.next())
        except BlockingIOError:
            return said


def test(scene):
    manager = Manager("coordinator")
    coordinator = scene.launch_coordinator(NOTIFY_SOCKET=manager.name, WATCHDOG_USEC=str(WATCHDOG_SECONDS * 1_000_000))
    equal(manager.next(), "READY=1", "the first word of a coordinator")
    check(coordinator.ports_file.exists(), "it said that it is ready before its ports were open")
    coordinator.wait_ready()
    equal(coordinator.page("/healthz"), "ok\n", "/healthz")
    equal({manager.next() for _ in range(TURNS)}, {"WATCHDOG=1"}, "what follows")

    workers_manager = Manager("worker")
    worker = scene.worker("a", coordinator, NOTIFY_SOCKET=workers_manager.name, WATCHDOG_USEC=str(WATCHDOG_SECONDS * 1_000_000))
    equal(workers_manager.next(), "READY=1", "the first word of a worker")
    check(worker.ports_file.exists(), "the worker said that it is ready before its admin port was open")
    equal(worker.terminate(), 0, "the end of the worker")
    equal(workers_manager.rest(), ["STOPPING=1"], "what a worker says at its end")

    equal(coordinator.terminate(), 0, "the end of the coordinator")
    said = manager.rest()
    equal(said[-1], "STOPPING=1", "the last word of a coordinator")
    equal(set(said[:-1]) - {"WATCHDOG=1"}, set(), "what it says beside")

    hasty = Manager("hasty")
    watched = scene.launch_coordinator(name="watched", state="watched-state", NOTIFY_SOCKET=hasty.name, WATCHDOG_USEC="2")  # a microsecond
    equal(hasty.next(), "READY=1", "the first word of one that is watched closely")
    equal({hasty.next() for _ in range(TURNS)}, {"WATCHDOG=1"}, "what follows")
    watched.send(signal.SIGTERM)
    while hasty.next() != "STOPPING=1":
        pass
    equal(watched.end(60), 0, "its end")
    equal(hasty.rest(), [], "what it says after its last word")

    alone = scene.coordinator(name="alone", state="other-state", WATCHDOG_USEC="1")
    equal(alone.terminate(), 0, "the end of one without a service manager")
    check("service manager" not in alone.log(), alone.log())


main(test)
