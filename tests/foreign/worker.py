#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An independent worker: enrols, joins, trains and contributes. Written from docs/protocol.md, Joining, Training,
Bulk and Evaluations; functions name their sections. It reports its actions as JSON lines, and exits with 1 after a
deviation from the pages ("problem")."""
import argparse
import math
import sys
import time

import grpc
import numpy as np

import codec as coding
import wire
from arithmetic import F, UploadMemory, content_hash, mixed
from control import Control, pause
from data import Data, held
from model import Llama, Optimizer
from plan import Layout, digest_of, drops_sync, send_offset
from wire import from_digest, to_digest, transfer, worker

ASK_AGAIN_SECONDS = 2
PATIENCE_SECONDS = 30  # at an apply step: at least the membership timeout plus the grace


class Held:
    """A contribution with an unknown fate, or the placeholder of a sync that the job drops."""

    def __init__(self, header, data, apply_at, retry, loss):
        self.header, self.data, self.apply_at, self.retry, self.loss = header, data, apply_at, retry, loss
        self.version, self.digest = header.target.version, from_digest(header.digest)
        self.accepted = self.committed = self.dropped = False
        self.wait_until = self.accepted_at = None


class Fragment:
    def __init__(self, number, elements, outer, local, sync):
        self.number, self.outer, self.local, self.memory = number, outer, local, UploadMemory(sync, elements)
        self.version = self.newest = self.missed = 0
        self.published, self.held, self.unsettled, self.due, self.send_now, self.tried = {}, None, None, False, False, None
        self.forget()

    def forget(self):
        """The drift is discarded."""
        self.steps = self.tokens = self.loss = self.missed = 0
        self.due = self.send_now = False

    def at(self, version=None):
        return worker.FragmentVersion(fragment=self.number, version=self.version if version is None else version)


class Job:
    """The worker's state of the job that it trains."""

    def __init__(self, assignment, bulk):
        self.id, self.spec, self.revision, self.epoch = assignment.job, assignment.spec, assignment.spec_revision, assignment.epoch
        self.layout = Layout(self.spec)
        self.arena, self.outer_arena = np.zeros(self.layout.elements, F), np.zeros(self.layout.elements, F)
        self.model, self.outer_model = Llama(self.spec.model, self.layout, self.arena), Llama(self.spec.model, self.layout, self.outer_arena)
        self.optimizer, self.data = Optimizer(self.spec.inner_optimizer, self.model), Data(self.id, self.spec, bulk)
        self.fragments = [Fragment(i, elements, self.outer_arena[at:at + elements], self.arena[at:at + elements], self.spec.sync)
                          for i, (at, elements) in enumerate(self.layout.fragments)]
        self.leases, self.request, self.asked_at, self.asking, self.denied = {}, 0, 0.0, False, False  # leases: id -> [cursor, end]
        self.clock = self.taken = self.applied_at = self.tokens = self.credit = 0
        self.pace, self.joined, self.loss, self.step_seconds = self.spec.sync.inner_steps, False, 0.0, 0.0
        self.evaluation = self.closing = None
        self.said_end = self.ready = False

    def cursors(self):
        return [held(lease, cursor) for lease, (cursor, _) in self.leases.items()]

    def unused(self):
        return sum(end - cursor for cursor, end in self.leases.values())


class Worker(Control):
    # ---- Joining

    def on_assignment(self, assignment):
        if self.job and self.job.id == assignment.job and self.job.epoch == assignment.epoch and self.job.ready:
            job = self.job
            if assignment.spec_revision > job.revision:
                job.spec.CopyFrom(assignment.spec)
                job.revision = assignment.spec_revision
        else:
            try:
                job = self.join(assignment)
            except NotImplementedError as error:
                self.send(job_failure=worker.JobFailure(job=assignment.job, reason=str(error), permanent=False))
                return
        for f, version in zip(job.fragments, assignment.versions):
            f.newest = max(f.newest, version)
        job.clock = max(job.clock, assignment.clock_step)
        stop = job.spec.stop.inner_steps
        self.send(ready=worker.Ready(job=job.id, step=min(job.clock, stop - 1) if stop else job.clock, applied=[f.at() for f in job.fragments]))

    def join(self, assignment):
        """Layout, Joining: every whole fragment, then the updates committed since its snapshot."""
        began, self.job = time.monotonic(), None
        job = Job(assignment, self.bulk)
        self.say("assigned", job=job.id, fragments=len(job.fragments), epoch=job.epoch)
        if from_digest(assignment.layout) not in (0, job.layout.digest):
            self.problem("the layout has another digest than the assignment says")
        self.job = job
        for f, version in zip(job.fragments, assignment.versions):
            f.newest = version
            self.fetch_whole(f)
            while f.version < f.newest:
                self.move_outer(f)
                f.unsettled = None
        job.arena[:] = job.outer_arena
        job.clock = assignment.clock_step
        if assignment.clock_step_nanos:
            passed = math.ceil((time.monotonic() - began) * 1e9 / assignment.clock_step_nanos)
            job.clock += min(passed, job.spec.sync.inner_steps - 1)
        job.joined, job.ready = job.clock > 0, True
        return job

    def fetch(self, **key):
        """A download, repeated while the coordinator is away or a piece is damaged."""
        for _ in range(50):
            try:
                return self.bulk.download(**key)
            except wire.BrokenTransfer as broken:
                self.problem(str(broken))
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
            pause(0.1)
        raise ConnectionError(f"a download did not come: {key}")

    def fetch_whole(self, f):
        """The newest snapshot; its content hash is checked."""
        header, data = self.fetch(fragment=transfer.FragmentKey(job=self.job.id, at=f.at(0), newest=True))
        f.outer[:] = np.frombuffer(data, "<f4")
        f.version, f.newest = header.version, max(f.newest, header.version)
        if content_hash(f.outer, f.version, self.job.layout.digest) != from_digest(header.hash):
            self.problem(f"fragment {f.number} at version {f.version} has another hash than announced")

    def on_unassign(self, unassign):
        self.say("unassigned", reason=unassign.reason, step=self.job.clock, loss=self.job.loss)
        if self.job.leases:
            self.send(lease_return=worker.LeaseReturn(job=self.job.id, leases=self.job.cursors()))
        self.job = None
        if self.options.jobs == 1:
            self.leave("the job is over")
        self.options.jobs -= 1

    # ---- Training: Apply

    def on_update_published(self, published):
        f = self.job.fragments[published.reached.fragment]
        f.newest = max(f.newest, published.reached.version)
        f.published[published.reached.version] = published
        period = self.job.spec.sync.inner_steps
        if published.clock_step >= self.job.clock + 2 * period and not self.job.closing:
            self.job.clock += ((published.clock_step - self.job.clock) // period - 1) * period

    def is_contributor(self, f, published):
        if not f.held or f.held.dropped or f.held.version != f.version:
            return False
        if f.held.committed or published is None:
            return f.held.committed
        named = dict(zip(published.contributors, published.digests))
        return self.name in named and from_digest(named[self.name]) == f.held.digest

    def move_outer(self, f):
        """Applies the next update to the outer copy; the local parameters follow in `settle`."""
        try:
            header, data = self.fetch(update=transfer.UpdateKey(job=self.job.id, reached=f.at(f.version + 1)))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            return self.leap(f)
        published = f.published.pop(f.version + 1, None)
        contributor, before = self.is_contributor(f, published), f.outer.copy()
        f.outer[:] = f.outer + coding.decode(header.codec or coding.FP32, data, len(f.outer))
        f.version += 1
        found, told = content_hash(f.outer, f.version, self.job.layout.digest), {from_digest(header.hash)}
        if published:
            told.add(from_digest(published.hash))
        matches = told == {found}
        self.send(applied=worker.Applied(job=self.job.id, applied=f.at(), hash_matches=matches))
        if not matches:
            self.problem(f"fragment {f.number} at version {f.version} has another hash than announced")
        f.unsettled = contributor, before
        self.job.applied_at = self.job.taken

    def leap(self, f):
        """The next update is no longer kept: fetches the whole fragment, and keeps the drift if nothing is in flight."""
        drift = f.local - f.outer
        self.fetch_whole(f)
        f.local[:] = f.outer if f.held else f.outer + drift
        if f.held:
            f.held = None
            f.forget()

    def settle(self, f):
        """The table of section Training, Apply."""
        contributor, before = f.unsettled
        held_one, f.unsettled = f.held, None
        f.tried = None
        if held_one and held_one.dropped:
            f.held = None
        elif contributor:
            late = self.job.taken > held_one.apply_at
            f.local[:] = mixed(1.0 if late else self.job.spec.sync.mix, f.local, f.outer)
            f.memory.merged(1.0 if late else self.job.spec.sync.mix)
            f.steps, f.tokens, f.loss = f.steps - held_one.header.steps, f.tokens - held_one.header.tokens, f.loss - held_one.loss
            f.held, f.missed = None, 0
            self.merged_count += 1
            for cursor in held_one.header.cursors:
                if cursor.lease in self.job.leases and self.job.leases[cursor.lease][1] == cursor.cursor:
                    del self.job.leases[cursor.lease]
        else:
            f.local[:] = f.local + (f.outer - before)
            if held_one:
                f.held, f.missed, f.send_now = None, f.missed + 1, not held_one.retry
                if f.missed >= self.job.spec.sync.max_missed:
                    self.take_outer("too many syncs were missed")

    def take_outer(self, why):
        self.say("drift discarded", why=why)
        for f in self.job.fragments:
            f.local[:], f.held, f.unsettled, f.memory = f.outer, None, None, UploadMemory(self.job.spec.sync, len(f.outer))
            f.forget()
        self.send(lease_return=worker.LeaseReturn(job=self.job.id, leases=self.job.cursors()))
        self.job.leases.clear()

    def apply_due(self):
        job, moved = self.job, False
        for f in job.fragments:
            wanted = job.evaluation.versions[f.number] if job.evaluation else f.newest
            if f.unsettled is None and f.version < min(wanted, f.newest):
                self.move_outer(f)
                moved = True
            if f.unsettled and (job.closing or not f.held or job.taken >= f.held.apply_at or not self.may_step() or f.version < wanted):
                self.settle(f)
                moved = True
        return moved

    # ---- Training: Send, error memory of uploads

    def send_due(self):
        job = self.job
        for f in job.fragments:
            if not (f.due or f.send_now) or f.version < f.newest or f.unsettled:
                continue
            may, retry = f.held is None and f.steps > 0 and (f.due or f.tried != f.version), not f.due
            f.due = f.send_now = False
            if may:
                self.form(f, retry, job.clock, job.taken + job.spec.sync.overlap_steps)

    def send_unsent_work(self):
        """Formats, outer step, Send: others may wait for the work of a worker that can take no step."""
        job, stop, now = self.job, self.job.spec.stop.inner_steps, time.monotonic()
        no_samples = job.denied and not job.unused()
        if (stop and job.clock >= stop) or (self.may_step() and not no_samples):
            return
        for f in job.fragments:
            if f.held and f.held.accepted:
                f.held.accepted_at = f.held.accepted_at or now
            waits = f.held and not (f.held.accepted and now >= f.held.accepted_at + PATIENCE_SECONDS)
            if f.due or f.unsettled or f.version < f.newest or waits:
                return
        for f in job.fragments:
            f.send_now = f.send_now or (f.held is None and f.steps > 0 and f.tried != f.version)

    def form(self, f, retry, send_step, apply_at):
        job, drops = self.job, not self.job.closing and drops_sync(self.job.spec, self.name, f.number, f.version)
        header = transfer.ContributionHeader(job=job.id, worker=self.name, incarnation=self.incarnation, target=f.at(), boot=self.boot,
                                             codec=job.spec.sync.upload_codec, tokens=f.tokens, steps=f.steps, send_step=send_step,
                                             mean_loss_micro=int(f.loss / f.steps * 1e6), cursors=job.cursors())
        data = b"" if drops else f.memory.encoded(f.outer - f.local, job.spec.sync.upload_codec)
        header.encoded_bytes = len(data)
        header.digest.CopyFrom(to_digest(digest_of(data)))
        f.held = Held(header, data, apply_at, retry, f.loss)
        if drops:
            f.held.dropped = f.held.accepted = True
            self.send(sync_dropped=worker.SyncDropped(job=job.id, target=header.target, send_step=send_step))

    def upload_held(self):
        """Section Bulk: the worker's reaction to each answer."""
        for f in self.job.fragments:
            if not f.held or f.held.accepted or f.newest > f.held.version:
                continue
            f.held.header.incarnation, f.held.header.boot = self.incarnation, self.boot
            try:
                self.bulk.upload(f.held.header, f.held.data)
                f.held.accepted, self.contributed = True, self.contributed + 1
            except wire.BrokenTransfer:
                pass
            except grpc.RpcError as error:
                again = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
                if error.code() not in again:
                    self.say("not taken", fragment=f.number, code=error.code().name, details=error.details())
                    if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                        self.problem(error.details())
                    f.tried, f.held = f.held.version, None
                return False
        return True

    def on_contribution_refused(self, refused):
        f = self.job.fragments[refused.target.fragment]
        self.say("contribution refused", reason=refused.reason)
        if f.held and f.held.version == refused.target.version and f.held.digest == from_digest(refused.digest):
            f.tried, f.held = f.held.version, None

    # ---- Training: samples and steps

    def on_lease_granted(self, granted):
        self.job.leases.setdefault(granted.lease, [granted.begin, granted.end])
        self.job.asking = self.job.denied = False

    def on_lease_denied(self, denied):
        self.job.asking, self.job.denied = False, True

    def on_lease_revoked(self, revoked):
        for lease in revoked.leases:
            self.job.leases.pop(lease, None)
        self.take_outer(revoked.reason)

    def on_pace_assigned(self, order):
        self.job.pace = order.period_steps

    def wish(self):
        job, now = self.job, time.monotonic()
        steps = job.spec.sync.max_unsynced_periods * job.pace
        if job.spec.stop.inner_steps:
            steps = min(steps, job.spec.stop.inner_steps - job.clock)
        wanted = steps * job.spec.batch.sequences_per_step
        if now < job.asked_at + ASK_AGAIN_SECONDS and (job.asking or job.denied):
            return
        if job.asking or (job.unused() * 2 <= wanted and job.unused() < wanted) or job.unused() < job.spec.batch.sequences_per_step:
            job.request += not job.asking
            job.asking, job.asked_at = True, now
            self.send(lease_request=worker.LeaseRequest(job=job.id, request=job.request, samples=wanted))

    def may_step(self):
        job, stop = self.job, self.job.spec.stop.inner_steps
        return not job.closing and not (stop and job.clock >= stop) and job.taken - job.applied_at < job.spec.sync.max_unsynced_periods * job.pace

    def waits_for_update(self):
        for f in self.job.fragments:
            if f.held and self.job.taken == f.held.apply_at:
                f.held.wait_until = f.held.wait_until or time.monotonic() + PATIENCE_SECONDS
                if time.monotonic() < f.held.wait_until:
                    return f"version {f.held.version + 1} of fragment {f.number}"
        return ""

    def step(self):
        job, batch = self.job, self.job.spec.batch.sequences_per_step
        if job.unused() < batch and not (job.denied and job.unused()):
            return False
        positions = []
        for lease in job.leases.values():
            while lease[0] < lease[1] and len(positions) < batch:
                positions.append(lease[0])
                lease[0] += 1
        began = time.monotonic()
        if job.spec.sync.pace == wire.job.PACE_BALANCED:
            pause(self.options.slow)
        inputs, targets = job.data.batch(positions)
        job.loss = job.model.loss(inputs, targets)
        warmup = job.spec.sync.join_warmup_steps
        job.optimizer.step(job.clock, min(1.0, (job.taken + 1) / warmup) if job.joined and warmup else 1.0)
        job.step_seconds = time.monotonic() - began
        before, period = job.clock, job.spec.sync.inner_steps
        job.credit += period
        job.clock, job.credit = job.clock + job.credit // job.pace, job.credit % job.pace
        job.taken, job.tokens = job.taken + 1, job.tokens + targets.size
        for f in job.fragments:
            f.steps, f.tokens, f.loss = f.steps + 1, f.tokens + targets.size, f.loss + job.loss
            offset = send_offset(job.spec.sync, f.number, len(job.fragments))
            f.due = f.due or any(step % period == offset for step in range(before + 1, job.clock + 1))
        return True

    def advance(self):
        """One thing at a step boundary; False: only a message helps."""
        job, self.waiting = self.job, ""
        if self.apply_due():
            return True
        if job.evaluation:
            return self.evaluate()
        if job.closing:
            return self.close()
        self.send_unsent_work()
        self.send_due()
        if not self.upload_held():
            return False
        if not self.may_step():
            self.waiting = "an update, or the end of the job"
            return False
        self.wish()
        self.waiting = self.waits_for_update()
        if self.waiting:
            return False
        if self.step():
            return True
        self.waiting = "a lease"
        return False

    # ---- Evaluations

    def on_evaluation_assigned(self, assigned):
        if assigned.score_tasks or any(f.version > version for f, version in zip(self.job.fragments, assigned.versions)):
            done = worker.EvaluationDone(job=self.job.id, evaluation=assigned.evaluation, failure="this worker cannot make it")
            self.send(evaluation_done=done)
        else:
            self.job.evaluation = assigned

    def evaluate(self):
        job, asked = self.job, self.job.evaluation
        if any(f.version < version for f, version in zip(job.fragments, asked.versions)):
            return False
        nll = tokens = text = 0
        for sample, bytes_per_token in job.data.held_out(asked.samples):
            nll += job.outer_model.loss(sample[None, :-1], sample[None, 1:], with_gradient=False) * (len(sample) - 1)
            tokens, text = tokens + len(sample) - 1, text + (len(sample) - 1) * bytes_per_token
        self.say("evaluated", evaluation=asked.evaluation, loss=nll / tokens, versions=list(asked.versions))
        self.send(evaluation_done=worker.EvaluationDone(job=job.id, evaluation=asked.evaluation, nll_micro_nats=round(nll * 1e6), tokens=tokens,
                                                        text_bytes=round(text)))
        job.evaluation = None
        return True

    # ---- Training: End

    def on_closing_started(self, closing):
        self.job.closing, self.job.said_end = closing, False
        for f, version in zip(self.job.fragments, closing.versions):
            f.newest, f.due, f.send_now = max(f.newest, version), False, False
            if f.held and f.held.dropped and f.version > f.held.version:
                f.held = None

    def close(self):
        job, over = self.job, True
        stop = max(job.clock, job.closing.stop_step)
        for f in job.fragments:
            if f.held and f.held.dropped:
                f.held = None
            if f.held is None and f.steps > 0 and f.tried != f.version:
                self.form(f, True, stop, job.taken)
            over = over and (not f.steps or f.held is not None and f.held.accepted and f.held.header.steps == f.steps or f.tried == f.version)
        if not self.upload_held():
            return False
        if over and not job.said_end:
            job.said_end = True
            self.send(ready=worker.Ready(job=job.id, step=stop, applied=[f.at() for f in job.fragments]))
        self.waiting = "the closing rounds"
        return not over


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("name", "control", "bulk"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--jobs", type=int, default=0, help="leaves after so many jobs; 0: never")
    parser.add_argument("--slow", type=float, default=0, help="seconds that a step takes longer where sync.pace is balanced")
    for name in ("enrol", "join-token", "identity"):
        parser.add_argument(f"--{name}")
    options, identity = parser.parse_args(), None
    if options.enrol:
        with open(options.join_token, encoding="ascii") as file:
            identity = wire.Identity.enrol(options.enrol, file.read(), options.name)
        identity.renew(options.enrol)
        identity.write(options.identity)
    one = Worker(options, identity)
    status = one.run()
    one.say("left", problems=one.problems, contributed=one.contributed, merged=one.merged_count, sent=one.bulk.sent, received=one.bulk.received)
    return status


sys.exit(main())
