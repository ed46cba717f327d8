# SPDX-License-Identifier: Apache-2.0
"""The authority gets a new key in mid-run. Holders of an identity of the old authority continue and get a new
identity at renewal; old and new tokens enrol workers. Once the old authority is retired, holders without a new
identity are refused.

S8.
"""
import re

from atoll_harness import check, equal, main, wait_for
from moved_clock import HOUR, MovedClock, refuse_without_moved_clock

REFUSED, FORBIDDEN = 3, 4


def trusted(scene, identity):
    """The authorities of an identity file, newest first."""
    return re.findall(r"trusts +([0-9a-f]{64}) until", scene.atoll("ca", "show", identity).out)


def token(scene, name):
    file = scene.path(name)
    file.write_text(scene.atoll("token", "create", "--uses", 3).out)
    return file


def go_on(coordinator, names):
    """Waits until one more version with contributions of all workers is merged. The coordinator must report itself
    healthy: it dials its own ports."""
    before, wanted = len(coordinator.log()), f"with {', '.join(names[:-1])} and {names[-1]}"
    wait_for(f"a round {wanted}", lambda: wanted in coordinator.log()[before:])
    coordinator.page("/healthz")


def test(scene):
    refuse_without_moved_clock()
    manifest = scene.corpus()
    trust = scene.path("trust")
    admin = scene.identity = scene.atoll("ca", "init", trust).out.strip()
    with_trust = ["--trust", trust, "--data-root", scene.path("data")]
    coordinator = scene.coordinator(*with_trust, "--enroll-port", 0)
    enrol = ["--coordinator-enroll", f"127.0.0.1:{coordinator.ports['enroll']}", "--join-token"]
    before = token(scene, "before")
    clock = MovedClock(scene, "a")
    workers = {"a": scene.worker("a", coordinator, *enrol, before, **clock.environment), "b": scene.worker("b", coordinator, *enrol, before)}
    scene.submit("long", manifest, steps=100_000)
    go_on(coordinator, "ab")
    [old] = trusted(scene, admin)

    scene.atoll("ca", "rotate", trust)
    wait_for("the coordinator to sign with the new key", lambda: "authority adopted" in coordinator.log())
    check("is still trusted" in scene.atoll("ca", "rotate", trust, code=REFUSED).err, "a second rotation before the first is over")
    # The admin's own identity is old, and so are those of the two workers.
    after = token(scene, "after")
    workers["c"] = scene.worker("c", coordinator, *enrol, before)
    workers["d"] = scene.worker("d", coordinator, *enrol, after)
    go_on(coordinator, "abcd")
    new, also = trusted(scene, scene.path("cache-c/identity.pem"))
    equal(also, old, "what a worker with a token of before trusts beside the new authority")
    equal(trusted(scene, scene.path("cache-d/identity.pem")), [new], "what a worker with a token of after trusts")
    equal(trusted(scene, scene.path("cache-b/identity.pem")), [old], "what a worker trusts whose certificate is not old enough to be renewed")

    # Thirteen hours later by one worker's clock: more than half of its certificate's life.
    equal(workers["a"].terminate(), 0, "the end of the worker that is started again")
    clock.move(13 * HOUR)
    workers["a"] = scene.worker("a", coordinator, *enrol, before, **clock.environment)
    go_on(coordinator, "abcd")
    check("certificate renewed" in workers["a"].log(), workers["a"].log())
    equal(trusted(scene, scene.path("cache-a/identity.pem")), [new, old], "what a worker trusts after its renewal")
    coordinator.kill()
    coordinator = scene.coordinator(*with_trust, ports=coordinator.ports)
    go_on(coordinator, "abcd")

    check("may be in use until" in scene.atoll("ca", "retire", trust, code=REFUSED).err, "it is retired while identities of it are good")
    scene.atoll("ca", "retire", trust, "--early")
    wait_for("the coordinator to retire it", lambda: "previous=retired" in coordinator.log())
    wait_for("an identity of the retired authority to be refused", lambda: scene.atoll("job", "list", code=None).code != 0)
    scene.identity = scene.atoll("ca", "issue", trust, "--role", "admin", "--name", "again", "--out", scene.path("again.pem")).out.strip()
    go_on(coordinator, "abcd")
    # Existing connections end.
    coordinator.kill()
    coordinator = scene.coordinator(*with_trust, ports=coordinator.ports)
    refused = workers.pop("b")
    wait_for("the worker with an identity of the retired authority to say so", lambda: "refuses our certificate" in refused.log())
    go_on(coordinator, "acd")
    late = scene.worker("e", coordinator, *enrol, before)
    check(late.end() != 0, "a token of the retired authority let a worker in")
    check("is for another coordinator" in late.log(), late.log())
    coordinator.page("/healthz")
    for worker in workers.values():
        equal(worker.terminate(), 0, f"the end of {worker.name}")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    scene.verify()


main(test)
