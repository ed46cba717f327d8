# SPDX-License-Identifier: Apache-2.0
"""F9, F13, F15: a worker with both connections over a faulty wire, with mutual TLS. Flipped bits, resets after any
number of bytes, connections closed in one direction, and bytes one by one: each time the other worker continues, the
worker on the wire is not blamed, and it returns to the rounds by itself once the wire is intact. Then the wire is
silent for longer than the membership timeout without closing anything: the worker is lost, and the coordinator
releases its connections. All rounds are equal to the bit."""
import time
import types

import faulty_wire
from atoll_harness import ESTABLISHED, check, equal, main, number, sockets_of, wait_for

SEED = 1
MEAN_BYTES = {"control": 5_000, "bulk": 300_000}  # between faults of one direction of a connection
TIMES = 3  # occurrences of each fault, at each of the two wires
MEMBERSHIP_SECONDS = 10
FREE_SECONDS = 120  # at most, until connections of a silent peer are released; by keepalive after 40 s


def worker(scene, name):
    [it] = [w for w in scene.atoll("-o", "json", "worker", "list").json()["workers"] if w["name"].split("/")[-1] == name]
    return it


def both_in_rounds(scene, alive):
    begun = number(scene.job("job"), "round")
    return scene.wait_job("job", lambda job: number(job, "round") >= begun + 2 and number(job, "workers_participating") == 2, "both workers in a round",
                          120, alive)


def times_lost(scene):
    return sum(event["kind"] == "worker lost" for event in scene.logged_events("job"))


def held(coordinator, ports):
    """The coordinator's connections that came from `ports`."""
    return [remote for _, remote, state in sockets_of(coordinator.pid) if remote in ports and state == ESTABLISHED]


def test(scene):
    manifest = scene.corpus()
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--data-root", scene.path("data"), "--membership-timeout", f"{MEMBERSHIP_SECONDS}s")
    identities = {name: scene.atoll("ca", "issue", scene.path("trust"), "--role", "worker", "--name", name, "--out", scene.path(f"{name}.pem")).out.strip()
                  for name in ("behind", "near")}
    wires = {kind: faulty_wire.Wire(coordinator.ports[kind], SEED + i, mean) for i, (kind, mean) in enumerate(MEAN_BYTES.items())}
    near = scene.worker("near", coordinator, "--identity", identities["near"], "--data-root", scene.path("data"))
    behind = scene.worker("behind", types.SimpleNamespace(ports={kind: wire.port for kind, wire in wires.items()}), "--identity", identities["behind"], "--data-root", scene.path("data"))
    alive = [coordinator, near, behind]
    scene.submit("job", manifest, steps=100_000, inner_steps=50, inner_optimizer={"learning_rate": 0.001, "schedule": {"kind": "constant"}}, model={"hidden_size": 128, "intermediate_size": 256, "layers": 2},
                 workers={"min": 1, "max": 2, "planned": 2}, checkpoint={"keep_contributions": True})
    both_in_rounds(scene, alive)

    for fault in (faulty_wire.FLIPS, faulty_wire.RESETS, faulty_wire.HALF_CLOSES, faulty_wire.TRICKLES):
        begun, at = number(scene.job("job"), "round"), time.monotonic()
        for wire in wires.values():
            wire.turn(fault)
        wait_for(f"{TIMES} {fault} at each wire", lambda: min(wire.befallen for wire in wires.values()) >= TIMES, 180, alive)
        seen = {kind: wire.befallen for kind, wire in wires.items()}
        for wire in wires.values():
            wire.turn(faulty_wire.WHOLE)
        job = both_in_rounds(scene, alive)
        print(f"{fault}: {seen}; rounds meanwhile and until both were in one again: {number(job, 'round') - begun}, in {time.monotonic() - at:.1f} s")
    equal(worker(scene, "behind").get("screened", ""), "", "what is held against the worker behind the wire")

    silent = [port for wire in wires.values() for port in wire.onward]
    check(len(held(coordinator, silent)) >= 2, "the worker behind the wires has no two connections")
    begun, before = time.monotonic(), times_lost(scene)
    for wire in wires.values():
        wire.turn(faulty_wire.SILENCE)
    wait_for("the worker to be lost", lambda: times_lost(scene) > before, 120, alive)
    lost = time.monotonic() - begun
    wait_for("its connections to be free", lambda: not held(coordinator, silent), FREE_SECONDS, alive)
    free = time.monotonic() - begun
    for wire in wires.values():
        wire.turn(faulty_wire.WHOLE)
    both_in_rounds(scene, alive)
    print(f"silence: lost after {lost:.1f} s, its connections free after {free:.1f} s")

    scene.atoll("job", "cancel", "job", "--drain")
    job = scene.wait_job("job", lambda job: "end_time" in job, "the end in order", alive=[coordinator])
    for process in reversed(alive):
        equal(process.terminate(), 0, f"the end of {process.name}")
    equal(scene.verify()["damage"], [], "what verify finds")
    equal(scene.replay()["counts"]["rounds equal"], number(job, "rounds_committed"), "the rounds that replay gives again")


main(test)
