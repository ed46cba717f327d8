"""S20: attackers who may connect (plaintext, so nobody is asked who he is) pass limits by far, all at once and for a minute, while a
job goes on: crowds of connections, calls taken back, calls of no method, giant and packed messages, downloads that nobody reads. The
command line answers all the while; heartbeats of every worker are heard, none of them later than half a membership after the one before;
no worker is lost, no round is overdue, rounds close; and the coordinator's memory stays within its published bound and 15 %, with what the transport holds of a giant message.

ATOLL_FLOOD_SECONDS: another length. ATOLL_FLOOD_ATTACKS: some of them alone, with commas between."""
import os
import statistics
import threading
import time

from atoll_harness import ALLOWANCE, COORDINATOR_BASE_MB, check, check_peak, equal, main, number, wait_for
from http2_by_hand import bomb, call, giant_message, greet, rapid_resets

SECONDS = float(os.environ.get("ATOLL_FLOOD_SECONDS", "60"))
ASKED = os.environ.get("ATOLL_FLOOD_ATTACKS", "")
QUIET_ROUNDS = 10
GIANT_MB = 64  # sent of a message without an end: what the transport holds meanwhile (docs/operations.md, "Memory")
MEMBERSHIP_SECONDS, HEARTBEAT_SECONDS = 20, 2  # the defaults
LATEST_SECONDS = MEMBERSHIP_SECONDS / 2        # which is a bound of the histogram's
LEAST_HEARD = 0.5                              # of the heartbeats that there are in a quiet time
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
    """Calls of a method that there is none of."""
    with greet(ports["control"]) as connection:
        for stream in range(1, 4000, 2):
            connection.sendall(call(stream, "/atoll.v1.JobService/Nothing", b""))


def unread_downloads(ports):
    """Each asks for 64 MiB a hundred times, and reads nothing."""
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
    """The same again and again, until it is over."""

    def __init__(self, attack, ports, over):
        super().__init__(daemon=True)
        self.attack, self.ports, self.over, self.done, self.cut = attack, ports, over, 0, 0

    def run(self):
        while not self.over.is_set():
            try:
                self.attack(self.ports)
            except OSError:
                self.cut += 1  # as it should be
                self.over.wait(0.05)
            self.done += 1


def closings(scene, first, last):
    """Seconds between one round and the next, of rounds first to last, by the event log."""
    times = [event["time_ns"] for event in scene.logged_events("job") if event["kind"] == "round committed"]
    return [(b - a) / 1e9 for a, b in zip(times[first:last], times[first + 1:last + 1])]


def heartbeats(coordinator):
    """Of each worker: how many gaps between heartbeats there were, and how many of them above LATEST_SECONDS."""
    lines = coordinator.page("/metrics").splitlines()

    def count(worker, bound):
        start = f'atoll_heartbeat_gap_seconds_bucket{{worker="{worker}",le="{bound}"}} '
        return next((float(line[len(start):]) for line in lines if line.startswith(start)), None)

    found = {worker: (count(worker, "+Inf"), count(worker, f"{LATEST_SECONDS:g}")) for worker in WORKERS}
    check(all(None not in counts for counts in found.values()), f"the metrics of heartbeats are not there: {found}")
    return {worker: (every, every - early) for worker, (every, early) in found.items()}


def check_heartbeats(before, after, seconds):
    """None is late, and at least half of what a quiet time has is heard: the others are sent behind a crowd, and counted once for many."""
    for worker in WORKERS:
        heard, late = (after[worker][i] - before[worker][i] for i in (0, 1))
        print(f"heartbeats of {worker}: {heard:.0f} in {seconds:.0f} s, {late:.0f} of them later than {LATEST_SECONDS:g} s after the one before")
        equal(late, 0, f"heartbeats of {worker} that came late")
        check(heard >= LEAST_HEARD * seconds / HEARTBEAT_SECONDS, f"only {heard:.0f} heartbeats of {worker} were heard in {seconds:.0f} s")


def incarnations(scene):
    return {worker["name"]: number(worker, "incarnation") for worker in scene.atoll("-o", "json", "worker", "list").json()["workers"]}


def worst(values):
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else values[0]


def test(scene):
    manifest = scene.corpus(text_bytes=400_000)
    coordinator = scene.coordinator("--data-root", scene.path("data"))
    workers = [scene.worker(name, coordinator, "--data-root", scene.path("data"), "--synthetic-step-seconds", "0.02") for name in WORKERS]
    scene.submit("job", manifest, steps=1_000_000, inner_steps=20, model={"hidden_size": 384, "intermediate_size": 1024, "layers": 4, "heads": 6},
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
    answers, end = 0, time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            scene.atoll("job", "get", "job", seconds=30)
            answers += 1
            for process in alive:
                check(process.popen.poll() is None, f"{process.name} ended during the flood")
    finally:
        over.set()
    for attacker in attackers.values():
        attacker.join(60)
    check_heartbeats(quiet_beats, heartbeats(coordinator), time.monotonic() - since)
    flooded = number(scene.job("job"), "round")
    print(f"rounds {begun} before, {flooded - begun} during {SECONDS:.0f} s of flood; the command line answered {answers} times")
    print("attacks, and how many were cut:", ", ".join(f"{name} {a.done}/{a.cut}" for name, a in attackers.items()))
    check(flooded > begun, "no round closed during the flood")
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
