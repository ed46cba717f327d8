# SPDX-License-Identifier: Apache-2.0
"""S20: attackers that may connect (in plaintext there are no identities) exceed limits by far, all at once and for a
minute, while a job runs: crowds of connections, cancelled calls, calls of no method, giant and packed messages,
downloads without a reader. The command line keeps answering; rounds close; each worker's heartbeats arrive within
every 25 rounds; no worker is lost and no round is overdue. The coordinator's memory stays within its published bound
and 15 %, plus the transport's share of a giant message.

ATOLL_FLOOD_SECONDS: another duration. ATOLL_FLOOD_ATTACKS: plays only these, separated by commas."""
import os
import statistics
import threading
import time

from atoll_harness import ALLOWANCE, COORDINATOR_BASE_MB, check, check_peak, equal, main, number, wait_for
from http2_by_hand import bomb, call, giant_message, greet, rapid_resets

SECONDS = float(os.environ.get("ATOLL_FLOOD_SECONDS", "60"))
MOST_MORE_SECONDS = 300  # until a stretch of rounds has closed
ASKED = os.environ.get("ATOLL_FLOOD_ATTACKS", "")
QUIET_ROUNDS = 10
STRETCH_ROUNDS, INNER_STEPS, STEP_SECONDS = 25, 20, 0.02  # these rounds take at least 10 s: five heartbeats are due, and more on a slow machine
GIANT_MB = 64  # sent of an endless message; the transport buffers this much (docs/capacity.md, "Memory")
MEMBERSHIP_SECONDS, HEARTBEAT_SECONDS = 20, 2  # the defaults
LATEST_SECONDS = MEMBERSHIP_SECONDS / 2  # a bound of the histogram; later heartbeats are reported
WORKERS = "abcd"
PROBE = b"\x4a\x05\x08\x80\x80\x80\x20"  # DownloadRequest{probe {bytes: 64 MiB}}


def crowd(ports):
    held = []
    try:
        for _ in range(300):
            held.append(greet(ports["control"]))
            held.append(greet(ports["bulk"]))
    finally:
        for connection in held:
            connection.close()


def no_method(ports):
    """Calls of a method that does not exist."""
    with greet(ports["control"]) as connection:
        for stream in range(1, 4000, 2):
            connection.sendall(call(stream, "/atoll.v1.JobService/Nothing", b""))


def unread_downloads(ports):
    """Each requests 64 MiB a hundred times, and reads nothing."""
    held = [greet(ports["bulk"]) for _ in range(20)]
    for connection in held:
        connection.sendall(b"".join(call(stream, "/atoll.v1.TransferService/Download", PROBE) for stream in range(1, 200, 2)))
    threading.Event().wait(2)
    for connection in held:
        connection.close()


ATTACKS = {
    "crowd": crowd,
    "resets": lambda ports: rapid_resets(ports["control"], 20_000),
    "resets of transfers": lambda ports: rapid_resets(ports["bulk"], 20_000),
    "no method": no_method,
    "giant message": lambda ports: giant_message(ports["control"], GIANT_MB),
    "bomb": lambda ports: bomb(ports["bulk"]),
    "unread downloads": unread_downloads,
}


class Attacker(threading.Thread):
    """Repeats the attack until the end."""

    def __init__(self, attack, ports, over):
        super().__init__(daemon=True)
        self.attack, self.ports, self.over, self.done, self.cut = attack, ports, over, 0, 0

    def run(self):
        while not self.over.is_set():
            try:
                self.attack(self.ports)
            except OSError:
                self.cut += 1  # as expected
                self.over.wait(0.05)
            self.done += 1


def closings(scene, first, last):
    """Seconds between consecutive rounds first to last, from the event log."""
    times = [event["time_ns"] for event in scene.logged_events("job") if event["kind"] == "round committed"]
    return [(b - a) / 1e9 for a, b in zip(times[first:last], times[first + 1:last + 1])]


def heartbeats(coordinator):
    """For each worker: the number of gaps between heartbeats, and the number above LATEST_SECONDS."""
    lines = coordinator.page("/metrics").splitlines()

    def count(worker, bound):
        start = f'atoll_heartbeat_gap_seconds_bucket{{worker="{worker}",le="{bound}"}} '
        return next((float(line[len(start):]) for line in lines if line.startswith(start)), None)

    found = {worker: (count(worker, "+Inf"), count(worker, f"{LATEST_SECONDS:g}")) for worker in WORKERS}
    check(all(None not in counts for counts in found.values()), f"the metrics of heartbeats are not there: {found}")
    return {worker: (every, every - early) for worker, (every, early) in found.items()}


class Stretches:
    """The heartbeats of each worker in each stretch of at least STRETCH_ROUNDS rounds."""

    def __init__(self, coordinator):
        self.coordinator, self.before, self.first, self.heard = coordinator, heartbeats(coordinator), None, []

    def at(self, rounds):
        """Called when this number of rounds have closed. A stretch begins with the first poll after its heartbeat
        count, and so covers all its rounds."""
        if self.first is None:
            self.first = rounds
        elif rounds >= self.first + STRETCH_ROUNDS:
            now = heartbeats(self.coordinator)
            self.heard.append({worker: now[worker][0] - self.before[worker][0] for worker in WORKERS})
            self.before, self.first = now, None


def check_heartbeats(before, after, seconds, stretches):
    """Each worker is heard in every stretch. Prints the number of missing heartbeats: they queue after a crowd, and
    many are counted as one."""
    for worker in WORKERS:
        heard, late = (after[worker][i] - before[worker][i] for i in (0, 1))
        print(f"heartbeats of {worker}: {heard:.0f} of {seconds / HEARTBEAT_SECONDS:.0f}, {late:.0f} of them later than {LATEST_SECONDS:g} s after the one "
              f"before; in stretches of {STRETCH_ROUNDS} rounds {', '.join(f'{one[worker]:.0f}' for one in stretches)}")
        check(all(one[worker] > 0 for one in stretches), f"no heartbeat of {worker} was heard while {STRETCH_ROUNDS} rounds closed: {stretches}")


def incarnations(scene):
    return {worker["name"]: number(worker, "incarnation") for worker in scene.atoll("-o", "json", "worker", "list").json()["workers"]}


def worst(values):
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else values[0]


def test(scene):
    manifest = scene.corpus(text_bytes=400_000)
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data"), "--synthetic-step-seconds", STEP_SECONDS) for name in WORKERS]
    scene.submit("job", manifest, steps=1_000_000, inner_steps=INNER_STEPS, model={"hidden_size": 384, "intermediate_size": 1024, "layers": 4, "heads": 6},
                 sync={"upload_codec": "bf16", "download_codec": "bf16"}, workers={"min": 3, "max": 4, "planned": 4}, evaluation={"every_rounds": 0})
    alive = [coordinator, *workers]
    begun = number(scene.wait_round("job", QUIET_ROUNDS, seconds=300, alive=alive), "round")
    job_mb = number(scene.job("job"), "coordinator_memory_bytes") / 2**20
    quiet_mb, members, quiet_beats = coordinator.resident_mb(), incarnations(scene), heartbeats(coordinator)
    events_before, since = len(scene.logged_events("job")), time.monotonic()

    over = threading.Event()
    attackers = {name: Attacker(attack, coordinator.ports, over) for name, attack in ATTACKS.items() if not ASKED or name in ASKED.split(",")}
    for attacker in attackers.values():
        attacker.start()
    answers, end, stretches = 0, time.monotonic() + SECONDS, Stretches(coordinator)
    try:
        while time.monotonic() < end or not stretches.heard:
            check(time.monotonic() < end + MOST_MORE_SECONDS, f"no {STRETCH_ROUNDS} rounds closed during the flood")
            stretches.at(number(scene.atoll("-o", "json", "job", "get", "job", seconds=30).json(), "round"))
            answers += 1
            for process in alive:
                check(process.popen.poll() is None, f"{process.name} ended during the flood")
    finally:
        over.set()
    for attacker in attackers.values():
        attacker.join(60)
    check_heartbeats(quiet_beats, heartbeats(coordinator), time.monotonic() - since, stretches.heard)
    flooded = number(scene.job("job"), "round")
    print(f"rounds {begun} before, {flooded - begun} during the flood; the command line answered {answers} times")
    print("attacks, and how many were cut:", ", ".join(f"{name} {a.done}/{a.cut}" for name, a in attackers.items()))
    print(f"memory: {quiet_mb:.0f} MiB before")
    check_peak(coordinator, "S20", job_mb + GIANT_MB)
    told = [e["text"] for e in scene.logged_events("job")[events_before:] if e["kind"] in ("round overdue", "worker lost", "worker left", "left out")]
    equal(told, [], "what befell rounds and workers during the flood")
    equal(incarnations(scene), members, "the members and their incarnations: whoever was lost comes back with another")
    scene.wait_round("job", flooded + 2, seconds=120, alive=alive)
    before, during = closings(scene, 1, begun), closings(scene, begun, flooded)
    print(f"99th percentile from round to round: {worst(before):.2f} s before, {worst(during):.2f} s during")
    wait_for("memory given back", lambda: coordinator.resident_mb() < ALLOWANCE * (COORDINATOR_BASE_MB + job_mb))
    scene.atoll("job", "cancel", "job")


main(test)
