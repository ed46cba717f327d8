# SPDX-License-Identifier: Apache-2.0
"""The scripted run of crash_points.py, and the requirements for a state left by a fault."""
import json
import os

from atoll_harness import BIN, check, check_balance, equal, number, small_job, wait_for
from disk_images import events_written, read_calls, whole_calls

RESTART_AT = 330  # the first coordinator is killed after this call, in about the third round
STEPS = 6  # each a round
JOB = {"steps": STEPS, "inner_steps": 1, "workers": {"min": 1}, "model": {"hidden_size": 16, "intermediate_size": 16, "heads": 1},
       "checkpoint": {"every_rounds": 2, "keep_last": 1, "keep_contributions": True}}
WAYS_OUT = {74: ("fix the cause and start the coordinator again",),
            1: ("free disk space and try again", "the disk reports errors; see the system's log", "check that the disk has free space and works")}
# SQLite does not always know why a flush has failed: then its message also advises to look for space.
WORDS = {"EIO": ("Input/output error", "disk I/O error"), "ENOSPC": ("No space left", "is full", "check that the disk has free space"),
         "short": ("No space left", "is full")}
SQLITE_WORDS = {"create": ("unable to open database file",)}  # SQLite's entire message in that case


class Told:
    """Everything reported to people and workers by a certain moment: event log lines of commits, and answers."""

    def __init__(self, calls, answers=()):
        events = events_written(calls, "state/events/job.jsonl")
        self.hashes = {int(e["fields"]["version"]): e["fields"]["hash"] for e in events if e["kind"] == "round committed"}
        self.closed = {int(e["fields"]["version"]) for e in events if e["kind"] == "round closing"}
        self.checkpoint = any(e["kind"] == "checkpoint" for e in events)
        self.ended = any(e["kind"] == "state" and e["fields"]["state"] == "SUCCEEDED" for e in events)
        self.job = bool(events)
        for answer in answers:
            self.add(answer)

    def add(self, answer):
        self.job = True
        for fragment in answer.get("fragments", []) if answer else []:
            if number(fragment, "version") > 0:
                self.hashes[number(fragment, "version")] = fragment["content_hash"]
        self.ended = self.ended or (answer or {}).get("state") == "JOB_STATE_SUCCEEDED"

    @property
    def version(self):
        return max(self.hashes, default=0)


def check_state(scene, state, told):
    """Nothing is damaged, every round gives the same bits, and everything reported exists."""
    if not told.job:
        return  # there may not even be a ledger yet
    counts, replayed = scene.verify(state)["counts"], scene.replay(state)["counts"]
    for what, least in {"rounds in the ledger": told.version, "contributions": len(told.closed | set(range(told.version))),
                        "jobs": 1, "checkpoints": int(told.checkpoint)}.items():
        check(counts.get(what, 0) >= least, f"{least} {what} were told and {counts.get(what, 0)} are there")
    equal(replayed.get("rounds equal", 0), counts.get("rounds in the ledger", 0), "the rounds that replay found equal")


def check_job(job, told, known):
    """Checks a job as shown by a coordinator that was started on the state; `known`: the hash of each version of its
    history."""
    check(job is not None or not told.job, "the job is gone")
    check(not told.ended or job["state"] == "JOB_STATE_SUCCEEDED", f"the job had succeeded, and is {job and job['state']}")
    for fragment in (job or {}).get("fragments", []):
        version = number(fragment, "version")
        check(version >= told.version, f"version {told.version} was told, only {version} is left")
        if version in known:
            equal(fragment["content_hash"], known[version], f"the hash of version {version}")


class Run:
    """A coordinator on its own disk, a job of six rounds with snapshots, checkpoints and deletions, and a worker. The
    coordinator is killed once and restarted. `data`: folder of the corpus `text`; `through`: returns the command
    prefix of a start."""

    def __init__(self, scene, data, at=None, fault="", through=lambda: ()):
        self.scene, self.data, self.through = scene, data, through
        self.faults = [(RESTART_AT, "killed-after")] if at is None or at > RESTART_AT else []
        self.faults += [(at, fault)] if at is not None else []
        self.coordinator, self.ports, self.worker, self.resumed = None, None, None, False
        self.answers = []  # (number of recorded calls at the answer, the job): the answer's contents were durable by then
        self.outcomes = []
        scene.path("disk").mkdir(exist_ok=True)

    def calls(self):
        return read_calls(self.scene.path("calls")) if self.scene.path("calls").exists() else []

    def told(self):
        return Told(self.calls(), [job for _, job in self.answers])

    def options(self):
        return "--data-root", self.data

    def start(self):
        log = self.scene.path("calls")
        if log.exists():
            os.truncate(log, whole_calls(log)[1])  # so that later records follow a whole record
        made = len(self.calls())
        environment = {"LD_PRELOAD": str(BIN / "libdurable_calls.so"), "DURABLE_CALLS_BELOW": str(self.scene.path("disk")),
                       "DURABLE_CALLS_LOG": str(self.scene.path("calls")), "DURABLE_CALLS_FROM": str(made)}
        for at, fault in [ahead for ahead in self.faults if ahead[0] >= made][:1]:
            environment |= {"DURABLE_CALLS_AT": str(at), "DURABLE_CALLS_FAULT": fault}
        self.coordinator = self.scene.launch_coordinator(*self.options(), state="disk/state", ports=self.ports, through=self.through(),
                                                         **environment)

    def answering(self):
        """True if a coordinator has reported its address; restarts one that has ended."""
        if self.coordinator is None or self.coordinator.popen.poll() is not None:
            if self.coordinator is not None:
                self.bury()
            self.start()
        if not self.coordinator.ports_file.exists():
            return False
        self.ports = self.coordinator.ports = json.loads(self.coordinator.ports_file.read_text())
        self.scene.endpoint = f"127.0.0.1:{self.ports['control']}"
        return True

    def bury(self):
        """Checks a coordinator that has ended: it gave a reason, and lost nothing that it had reported."""
        code, met = self.coordinator.end(), [call for call in self.calls() if call.fault][-1:]
        check(met, f"the coordinator ended with {code} by itself: {self.coordinator.log()[-500:]}")
        if code == -9:
            check(met[0].fault.startswith("killed"), f"it was killed at {met[0]}")
        else:
            self.check_last_word(code, met[0])
        self.outcomes.append({-9: "killed", 74: "stopped", 1: "did not start"}.get(code))
        check_state(self.scene, "disk/state", self.told())

    def check_last_word(self, code, met):
        check(code in (1, 74) and met.fault in WORDS, f"the exit status at {met.fault} of {met} is {code}")
        last = self.coordinator.log().splitlines()[-1]
        words = WORDS[met.fault] + SQLITE_WORDS.get(met.kind, ())
        file = str(self.scene.path("disk") / met.path).removesuffix("-wal").removesuffix("-journal")
        check(last.startswith("atoll-coordinator: ") and file in last and any(word in last for word in words)
              and any(way in last for way in WAYS_OUT[code]), f"after {met.fault} at {met} the coordinator said {last!r}")

    def job(self):
        """The job as currently shown; None if no coordinator answers or there is no such job."""
        told = self.told()
        if not self.answering():
            return None
        ran = self.scene.atoll("-o", "json", "job", "get", "job", code=None)
        if ran.code != 0:
            return None
        check_balance(ran.json())
        check_job(ran.json(), told, told.hashes)
        self.answers.append((len(self.calls()), ran.json()))
        return ran.json()

    def submitted(self):
        if self.job():
            return True
        file = self.scene.job_file("job", self.data / "text" / "manifest.json", **JOB)
        if self.answering() and self.scene.atoll("job", "submit", file, code=None).code == 0:
            self.answers.append((len(self.calls()), None))
            return True
        return False

    def ended(self):
        """Checks after the run: a new coordinator resumes a job that the disk stopped."""
        job = self.job()
        if job and job["state"] == "JOB_STATE_PAUSED":
            check("stopped:" in job["reason"] and any(call.fault for call in self.calls()), f"the job is paused: {job['reason']!r}")
            if not self.resumed:
                self.outcomes.append("job stopped")
                self.coordinator.kill()
                check_state(self.scene, "disk/state", self.told())
                self.start()
                self.resumed = True
            elif self.answering():
                self.scene.atoll("job", "resume", "job", code=None)
        return job and "end_time" in job and job

    def play(self):
        wait_for("a job", self.submitted, 60)
        self.worker = self.scene.worker("a", self.coordinator, *self.options())
        self.worker.admin_port()  # from now on it ends in order
        job = wait_for("the end of the job", self.ended, 90, [self.worker])
        equal(self.worker.terminate(), 0, "the exit status of the worker")
        if job["state"] == "JOB_STATE_FAILED" and number(job, "rounds_committed") == 0:
            self.outcomes.append("job failed before it began")
        else:
            equal((job["state"], number(job, "step")), ("JOB_STATE_SUCCEEDED", STEPS), "the end of the job")
        if self.coordinator.terminate() != 0:
            self.bury()
            self.start()
            wait_for("the job", self.job, 30)
            equal(self.coordinator.terminate(), 0, "the exit status of the coordinator")
        check_state(self.scene, "disk/state", self.told())
        return job
