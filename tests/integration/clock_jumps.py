# SPDX-License-Identifier: Apache-2.0
"""The wall clock of real processes jumps by an hour and by ten years, forward and back, and stops. A run is not
affected; only tokens and certificates react, each with its reason. A clock with an error of nine minutes works; at
eleven minutes the error message has both times (S12). moved_clock.cc changes the time that the programs read."""
import datetime
import re
import time

from atoll_harness import check, equal, main, number, wait_for
from moved_clock import DAY, HOUR, MovedClock, refuse_without_moved_clock

JUMPS = {"an hour forward": HOUR, "an hour back": -HOUR, "ten years forward": 3652 * DAY, "ten years back": -3652 * DAY}


def rounds_with(scene, job, names):
    return [e for e in scene.logged_events(job) if e["kind"] == "round committed" and all(n in e["text"].split(" with ")[-1] for n in names)]


def goes_on(scene, job, names, processes, what):
    """Two more rounds with all of them."""
    before = len(rounds_with(scene, job, names))
    wait_for(f"rounds after {what}", lambda: len(rounds_with(scene, job, names)) >= before + 2, 60, processes)


def year_of_events(scene, job):
    return datetime.datetime.fromtimestamp(scene.logged_events(job)[-1]["time_ns"] / 1e9, datetime.timezone.utc).year


def a_run_does_not_notice(scene, manifest):
    clocks = {name: MovedClock(scene, name) for name in ("coordinator", "a")}
    coordinator = scene.coordinator("--data-root", scene.path("data"), "--membership-timeout", "10s", "--heartbeat-interval", "300ms",
                                    **clocks["coordinator"].environment)
    workers = [scene.worker("a", coordinator, "--data-root", scene.path("data"), **clocks["a"].environment),
               scene.worker("b", coordinator, "--data-root", scene.path("data"))]
    processes = [coordinator, *workers]
    scene.submit("job", manifest, steps=100_000, workers={"min": 2})
    goes_on(scene, "job", "ab", processes, "the start")
    for what, seconds in JUMPS.items():
        for name, clock in clocks.items():
            clock.move(seconds)
            goes_on(scene, "job", "ab", processes, f"the clock of {name} went {what}")
            scene.wait_job("job", lambda job: number(job, "workers_training") == 2, "both workers", alive=processes)
        clocks["a"].move(0)
        want = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.timezone.utc).year
        check(abs(year_of_events(scene, "job") - want) <= 1, f"the coordinator's clock was not moved: its events are of {year_of_events(scene, 'job')}")
        clocks["coordinator"].move(0)
        goes_on(scene, "job", "ab", processes, "the clocks were right again")
    for clock in clocks.values():
        clock.stop()
    goes_on(scene, "job", "ab", processes, "the clocks stood still")
    stood = scene.logged_events("job")[-1]["time_ns"]
    goes_on(scene, "job", "ab", processes, "the clocks stood still for longer")
    equal(scene.logged_events("job")[-1]["time_ns"], stood, "the time of the newest event, where the clock stands still")
    for clock in clocks.values():
        clock.move(0)
    goes_on(scene, "job", "ab", processes, "the clocks went on")
    kinds = {event["kind"] for event in scene.logged_events("job")}
    equal(kinds & {"worker lost", "leases returned", "worker left"}, set(), "what befell the workers")
    scene.atoll("job", "cancel", "job")
    for process in (*workers, coordinator):
        equal(process.terminate(), 0, f"the end of {process.name}")
    equal(scene.verify()["damage"], [], "what verify finds")


def tokens_and_certificates_react(scene, manifest):
    scene.identity = scene.atoll("ca", "init", scene.path("trust")).out.strip()
    clock = MovedClock(scene, "trusted")
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0, "--data-root", scene.path("data"), "--membership-timeout",
                                    "10s", "--heartbeat-interval", "300ms", name="trusted", state="trusted-state", **clock.environment)
    at = f"127.0.0.1:{coordinator.ports['enroll']}"
    tokens = []
    for name in ("bob", "c"):
        tokens.append(scene.path(f"{name}.token"))
        tokens[-1].write_text(scene.atoll("token", "create", "--lifetime", "2h", "--role", "viewer" if name == "bob" else "worker").out)
    worker = scene.worker("c", coordinator, "--coordinator-enroll", at, "--join-token", tokens[1])
    scene.submit("trusted", manifest, steps=100_000)
    scene.wait_round("trusted", 2, alive=[coordinator, worker])
    enrol = ["enroll", "--at", at, "--name", "bob", "--join-token", tokens[0], "--out", scene.path("bob.pem")]

    def round_now():
        line = next(line for line in coordinator.page("/metrics").splitlines() if line.startswith("atoll_round{"))
        return float(line.split()[-1])

    def moved(seconds, answer):
        """The command line's answer while the coordinator's clock is moved by `seconds`; the run continues over its
        existing connections."""
        clock.move(seconds)
        rounds = round_now()
        wait_for("two rounds more", lambda: round_now() >= rounds + 2, 60, [coordinator, worker])
        return wait_for(f"an answer {seconds} s off", answer, 60, [coordinator, worker])

    ended = moved(3 * HOUR, lambda: (ran := scene.atoll(*enrol, code=None)).code and ran.err)
    check("expired at" in ended, f"a token that has ended by the coordinator's clock: {ended}")
    moved(200 * DAY, lambda: scene.atoll("job", "list", code=None).code != 0)
    seen = scene.atoll("doctor", "--bulk-endpoint", f"127.0.0.1:{coordinator.ports['bulk']}", code=None)
    check("valid until" in seen.out and "not valid by the coordinator's clock" in seen.out, f"what doctor says of a certificate that has ended: {seen.out}{seen.err}")
    moved(0, lambda: scene.atoll("job", "list", code=None).code == 0)
    scene.atoll(*enrol)
    equal(scene.job("trusted")["state"], "JOB_STATE_RUNNING", "the state of the run")
    for process in (worker, coordinator):
        equal(process.terminate(), 0, f"the end of {process.name}")


DATE = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC"


def seconds_of(date):
    return datetime.datetime.fromisoformat(date + "+00:00").timestamp()


def told_times(said):
    """The two times in a message about a certificate and a clock, in seconds."""
    found = re.search(rf"(?:is valid from|expired at) {DATE}, but this machine's clock shows {DATE}", said)
    check(found, f"both times are not told: {said}")
    return [seconds_of(date) for date in found.groups()]


def minutes_off(scene, manifest):
    """S12. A certificate is valid from ten minutes before its creation, for clocks that are late by less."""
    margin, near, far = 600, 540, 660
    scene.identity = admin = scene.atoll("ca", "init", scene.path("off-trust")).out.strip()
    made = time.time()
    identity = scene.path("d.pem")
    scene.atoll("ca", "issue", scene.path("off-trust"), "--role", "worker", "--name", "d", "--out", identity)
    clock = MovedClock(scene, "off")
    coordinator = scene.coordinator("--trust", scene.path("off-trust"), "--enroll-port", 0, "--data-root", scene.path("data"), name="off", state="off-state")
    scene.submit("off", manifest, steps=100_000)
    worker = lambda: scene.worker("d", coordinator, "--identity", identity, "--data-root", scene.path("data"), **clock.environment)

    clock.move(-near)
    first = worker()
    scene.wait_round("off", 2, alive=[coordinator, first])
    scene.atoll("job", "list", **clock.environment)
    equal(first.terminate(), 0, "the end of a worker whose clock is nine minutes behind")

    clock.move(-far)
    second = worker()
    wait_for("what a worker whose certificate has not begun by its clock waits for", lambda: "set the clock right" in second.log(), alive=[coordinator, second])
    told = {"the worker": second.log(), "the command line": scene.atoll("job", "list", code=None, **clock.environment).err}
    for who, said in told.items():
        begins, says = told_times(said)
        check(abs(begins - (made - margin)) < 60 and abs(says - (time.time() - far)) < 60 and "set the clock right" in said, f"{who}, eleven minutes behind, says: {said}")

    until = seconds_of(re.search(rf"ends +{DATE}", scene.atoll("ca", "show", admin).out).group(1))
    clock.move(int(until - time.time()) + far)
    said = scene.atoll("job", "list", code=None, **clock.environment).err
    ended, says = told_times(said)
    check(abs(says - ended - far) < 60 and "join token), or set the clock right" in said, f"eleven minutes after its end the command line says: {said}")
    clock.move(0)
    scene.atoll("job", "list", **clock.environment)
    scene.wait_round("off", number(scene.job("off"), "round") + 2, alive=[coordinator, second])
    equal(second.terminate(), 0, "the end of a worker that went on once its clock was right")
    equal(coordinator.terminate(), 0, "the end of the coordinator")
    scene.identity = None


def a_coordinator_ahead(scene):
    """The coordinator's certificate is not yet valid by the clients' clocks. The message must give that reason, and
    not blame the authority or the port."""
    ahead = 1200
    scene.identity = scene.atoll("ca", "init", scene.path("ahead-trust")).out.strip()
    clock = MovedClock(scene, "ahead")
    clock.move(ahead)
    coordinator = scene.coordinator("--trust", scene.path("ahead-trust"), "--enroll-port", 0, name="ahead", state="ahead-state", **clock.environment)
    made = time.time() + ahead
    token = scene.path("ahead.token")
    token.write_text(scene.atoll("token", "create", "--role", "viewer", **clock.environment).out)
    at = f"127.0.0.1:{coordinator.ports['enroll']}"
    told = {"the command line": scene.atoll("job", "list", code=None).err,
            "enroll": scene.atoll("enroll", "--at", at, "--name", "eve", "--join-token", token, "--out", scene.path("eve.pem"), code=None).err,
            "doctor": scene.atoll("doctor", "--bulk-endpoint", f"127.0.0.1:{coordinator.ports['bulk']}", code=None).out}
    for who, said in told.items():
        begins, says = told_times(said)
        check(abs(begins - (made - 600)) < 60 and abs(says - time.time()) < 60 and "set the clock right, on this machine or on the coordinator's" in said,
              f"{who}, twenty minutes behind the coordinator, says: {said}")
        check("by our authority" not in said and "control or bulk port" not in said, f"{who} blames authority or port: {said}")
    scene.atoll("job", "list", **clock.environment)
    equal(coordinator.terminate(), 0, "the end of the coordinator that is ahead")
    scene.identity = None


def test(scene):
    refuse_without_moved_clock()
    manifest = scene.corpus()
    a_run_does_not_notice(scene, manifest)
    minutes_off(scene, manifest)
    a_coordinator_ahead(scene)
    tokens_and_certificates_react(scene, manifest)


main(test)
