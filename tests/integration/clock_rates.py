# SPDX-License-Identifier: Apache-2.0
"""F22: clocks, wall and monotonic, that run a tenth too slow and too fast: at the coordinator and at a worker, in
opposite directions. moved_clock.cc changes the times that the programs read and the durations of their waits. A run
is not affected: no worker is lost, no lease is returned, both workers are in the rounds, and all rounds can be
recomputed."""
import datetime
import re
import time

from atoll_harness import check, equal, main, number, wait_for
from moved_clock import MovedClock, refuse_without_moved_clock

MEMBERSHIP_SECONDS, HEARTBEAT_SECONDS = 5, 1
SECONDS = 6  # of each run, by the true clock: longer than the membership timeout
CLOSE = 0.02  # tolerance of a measured rate
PAIRS = {"slow": (0.9, 1.1), "fast": (1.1, 0.9)}  # rates of the coordinator and of worker a; b is exact


def rate_of(process, clock):
    """Compares the time in the last line of its log with the time at which the line was written."""
    said = datetime.datetime.fromisoformat(re.findall(r"^(\d{4}-\d\d-\d\dT[\d:.]+)Z ", process.log(), re.MULTILINE)[-1] + "+00:00").timestamp()
    return (said - clock.right_at) / (process.log_path.stat().st_mtime - clock.right_at)


class Run:
    """A coordinator with one clock rate, worker a with another, and worker b with an exact clock."""

    def __init__(self, scene, manifest, name, coordinator_rate, worker_rate):
        self.scene, self.name = scene, name
        self.clocks = clock, clock_a = MovedClock(scene, f"coordinator-{name}", coordinator_rate), MovedClock(scene, f"a-{name}", worker_rate)
        data = ("--data-root", scene.path("data"))
        self.coordinator = scene.coordinator(*data, "--membership-timeout", f"{MEMBERSHIP_SECONDS}s", "--heartbeat-interval", f"{HEARTBEAT_SECONDS}s",
                                             name=f"coordinator-{name}", state=name, **clock.environment)
        self.endpoint = scene.endpoint
        options = (*data, "--synthetic-step-seconds", "0.02")  # a worker that waits for its steps shows its clock and uses little processor time
        self.workers = [scene.worker(f"{name}-a", self.coordinator, *options, **clock_a.environment), scene.worker(f"{name}-b", self.coordinator, *options)]
        self.processes = [self.coordinator, *self.workers]
        self.job = scene.submit(f"job-{name}", manifest, steps=20_000, workers={"min": 2, "max": 2, "planned": 2}, checkpoint={"keep_contributions": True})

    def rounds(self):
        return [event for event in self.scene.logged_events(self.job, self.name) if event["kind"] == "round committed"]

    def with_both(self):
        names = {worker.name for worker in self.workers}
        return [event for event in self.rounds() if names <= set(event["text"].split(" with ")[-1].replace(",", " ").split())]

    def wait_rounds(self, least):
        wait_for(f"{least} rounds", lambda: len(self.rounds()) >= least, 60, self.processes)

    def end(self):
        scene = self.scene
        scene.endpoint = self.endpoint
        kinds = {event["kind"] for event in scene.logged_events(self.job, self.name)}
        equal(kinds & {"worker lost", "leases returned", "worker left", "round overdue", "left out"}, set(), f"what befell the workers of {self.job}")
        scene.atoll("job", "cancel", self.job)
        committed = number(scene.job(self.job), "rounds_committed")
        both, rounds = len(self.with_both()), len(self.rounds())
        check(both >= 0.8 * rounds, f"only {both} of {rounds} rounds have both workers")
        for process in reversed(self.processes):
            equal(process.terminate(), 0, f"the end of {process.name}")
        equal(scene.verify(self.name)["damage"], [], "what verify finds")
        equal(scene.replay(self.name)["counts"]["rounds equal"], committed, "the rounds that replay gives again")
        rates = [rate_of(process, clock) for process, clock in zip((self.coordinator, self.workers[0]), self.clocks)]
        for rate, clock, who in zip(rates, self.clocks, ("the coordinator", "worker a")):
            check(abs(rate / clock.rate - 1) < CLOSE, f"the clock of {who} went at {rate:.3f}, not at {clock.rate}")
        print(f"the clock of the coordinator at {rates[0]:.3f}, of worker a at {rates[1]:.3f}: {both} of {rounds} rounds with both, {committed} equal")


def test(scene):
    refuse_without_moved_clock()
    manifest = scene.corpus()
    runs = [Run(scene, manifest, name, *rates) for name, rates in PAIRS.items()]  # in parallel
    for run in runs:
        run.wait_rounds(2)
    until = time.monotonic() + SECONDS
    wait_for("longer than a membership", lambda: time.monotonic() >= until, 2 * SECONDS, [process for run in runs for process in run.processes])
    for run in runs:
        run.wait_rounds(12)
    for run in runs:
        run.end()


main(test)
