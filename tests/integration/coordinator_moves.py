# SPDX-License-Identifier: Apache-2.0
"""Workers dial the coordinator by a name. The coordinator is killed and restarts at another address; later the name
disappears for a while and returns with a third address. The running workers find it each time, with the same
incarnations, and the run continues.

The names are in the test's own hosts file, which the workers see instead of /etc/hosts (a mount namespace: needs
root)."""
from atoll_harness import equal, main, number, wait_for
from own_hosts import has_address, refuse_without_namespaces, seeing

NAME = "coordinator.atoll.test"
FIND_SECONDS = 120  # a name is resolved again at most every 30 s


def start(scene, address, **where):
    has_address(scene, NAME, address)
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--listen", address, "--data-root",
                                    scene.path("data"), "--membership-timeout", "5m", **where)
    scene.endpoint = f"{address}:{coordinator.ports['control']}"
    return coordinator


def ports_of(coordinator):
    return {kind: coordinator.ports[kind] for kind in ("control", "bulk", "admin")}


def incarnations(scene):
    return {w["name"]: w["incarnation"] for w in scene.atoll("-o", "json", "worker", "list").json()["workers"]}


def goes_on(scene, workers, known):
    """Both workers are in a round again, and neither had to start over."""
    rounds = number(scene.job("job"), "round")
    job = scene.wait_job("job", lambda j: number(j, "round") >= rounds + 2 and number(j, "workers_participating") == 2,
                         "a round with both", FIND_SECONDS, workers)
    equal(incarnations(scene), known, "the incarnations")
    return job


def test(scene):
    refuse_without_namespaces(scene)
    manifest = scene.corpus()
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    coordinator = start(scene, "127.0.0.1")
    workers = []
    for name in ("a", "b"):
        identity = scene.path(f"{name}.pem")
        scene.atoll("ca", "issue", scene.path("trust"), "--role", "worker", "--name", name, "--out", identity)
        workers.append(scene.worker(name, coordinator, "--data-root", scene.path("data"), "--identity", identity, host=NAME,
                                    through=seeing(scene.path("hosts"))))
    scene.submit("job", manifest, steps=100_000, workers={"min": 2})
    scene.wait_job("job", lambda j: number(j, "workers_participating") == 2, "both in a round", alive=workers)
    known = incarnations(scene)

    coordinator.kill()
    ports = ports_of(coordinator)
    coordinator = start(scene, "127.0.0.2", name="moved", ports=ports)
    goes_on(scene, workers, known)

    coordinator.kill()
    has_address(scene, NAME, None)
    for worker in workers:
        seen = len(worker.log())
        wait_for(f"{worker.name} to miss it", lambda w=worker, n=seen: "coordinator away" in w.log()[n:], 60, workers)
    coordinator = start(scene, "127.0.0.3", name="moved-again", ports=ports)
    job = goes_on(scene, workers, known)
    print(f"three addresses, round {job['round']}, incarnations {sorted(known.values())}")
    for worker in workers:
        equal(worker.terminate(), 0, f"the end of {worker.name}")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    equal(scene.verify()["damage"], [], "what verify finds")


main(test)
