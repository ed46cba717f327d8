# SPDX-License-Identifier: Apache-2.0
"""The control stream of a worker: Hello, heartbeats, messages. Written from docs/protocol.md, Control; functions name
their sections.

One thread does all work in turn; two more read the stream and send heartbeats. Transfers block the first thread,
which no page forbids."""
import json
import os
import queue
import threading

import grpc

import wire
from wire import worker

PROTOCOL_REVISION = ARITHMETIC_REVISION = 1


def pause(seconds):
    """Waits between two retries; no event reports that a retry would succeed."""
    threading.Event().wait(seconds)


class Control:
    """Streams and their messages. A training class has a method on_KIND for each message that it accepts, and
    `advance`."""

    def __init__(self, options, identity):
        self.options, self.name, self.identity = options, options.name, identity
        self.nonce, self.incarnation, self.boot, self.boot_nonce = int.from_bytes(os.urandom(8), "big"), 0, 0, 0
        self.job, self.problems, self.sequence, self.interval, self.left, self.waiting = None, 0, 0, 2.0, False, ""
        self.lines, self.contributed, self.merged_count = [], 0, 0
        self.bulk = wire.Bulk(wire.dial(options.bulk, identity), self.name)

    def say(self, event, **fields):
        line = json.dumps({"event": event, **fields})
        self.lines.append(line)
        print(line, flush=True)

    def problem(self, what):
        self.problems += 1
        self.say("problem", what=what)

    def send(self, **kind):
        self.outbox.put(worker.WorkerMessage(**kind))

    # ---- Control: streams, Hello, heartbeats

    def run(self):
        while not self.left:
            try:
                self.converse()
            except (grpc.RpcError, ConnectionError, queue.Empty) as error:
                self.say("stream ended", why=error.code().name if isinstance(error, grpc.RpcError) else repr(error))
                pause(0.2)
        return 1 if self.problems else 0

    def converse(self):
        """One stream, from Hello to its end."""
        self.inbox, self.outbox, ended = queue.SimpleQueue(), wire.Outbox(), threading.Event()
        with wire.dial(self.options.control, self.identity) as channel:
            call = wire.control_stream(channel, self.outbox)
            self.send(hello=self.hello())
            ear = threading.Thread(target=self.listen, args=(call,), daemon=True)
            ear.start()
            try:
                self.welcome(self.next_message(15))
                threading.Thread(target=self.beat, args=(self.outbox, ended), daemon=True).start()
                while not self.left:
                    self.turn()
            finally:
                ended.set()
                self.outbox.close()
            ear.join(10)  # until the coordinator has read our last message

    def listen(self, call):
        try:
            for message in call:
                self.inbox.put(message)
            self.inbox.put(ConnectionError("the coordinator ended the stream"))
        except grpc.RpcError as error:
            self.inbox.put(error)

    def next_message(self, seconds):
        message = self.inbox.get(timeout=seconds)
        if isinstance(message, Exception):
            raise message
        return message

    def hello(self):
        message = worker.Hello(worker=self.name, program_version="foreign", protocol_revision=PROTOCOL_REVISION, device="cpu",
                               arithmetic_revision=ARITHMETIC_REVISION, start_nonce=self.nonce, incarnation=self.incarnation, last_boot=self.boot)
        if self.job and self.job.ready:
            message.job = self.job.id
            message.leases.extend(self.job.cursors())
            for f in self.job.fragments:
                message.applied.append(f.at())
                if f.held and not f.held.dropped:
                    message.held.append(worker.HeldContribution(target=f.held.header.target, digest=f.held.header.digest))
        return message

    def welcome(self, message):
        """Hello, Resuming, Fates, Restored coordinators."""
        if message.WhichOneof("kind") == "refused":
            return self.on_refused(message.refused)
        welcome = message.welcome
        if welcome.boot < self.boot or welcome.boot == self.boot and self.boot_nonce not in (0, welcome.boot_nonce):
            raise SystemExit("this coordinator runs on an old copy of its state")
        other_line = self.boot and welcome.boot // 1_000_000 != self.boot // 1_000_000
        self.say("welcome", boot=welcome.boot, incarnation=welcome.incarnation, resumed=welcome.resumed)
        self.boot, self.boot_nonce, self.incarnation = welcome.boot, welcome.boot_nonce, welcome.incarnation
        self.interval = welcome.heartbeat_interval_ns / 1e9
        if not welcome.resumed or other_line:
            self.job = None
            return
        for fate in welcome.fates:
            f = self.job.fragments[fate.target.fragment]
            if f.held and f.held.version == fate.target.version:
                f.held.accepted, f.held.committed = fate.fate in (1, 2), fate.fate == 2
                if fate.fate == 3:
                    f.held, f.tried = None, fate.target.version
        for f in self.job.fragments:
            if f.held and f.held.dropped:
                self.send(sync_dropped=worker.SyncDropped(job=self.job.id, target=f.held.header.target, send_step=f.held.header.send_step))

    def beat(self, outbox, ended):
        while True:
            job, self.sequence = self.job, self.sequence + 1
            beat = worker.Heartbeat(sequence=self.sequence, activity=1)
            if job:
                beat.job, beat.activity, beat.step, beat.tokens_total = job.id, 4 if self.waiting else 3 if job.ready else 2, job.clock, job.tokens
                beat.step_ns, beat.loss_micro, beat.waiting_for = int(job.step_seconds * 1e9), int(job.loss * 1e6), self.waiting
                if job.spec.sync.pace == 2:
                    beat.period_steps = job.pace
            outbox.put(worker.WorkerMessage(heartbeat=beat))
            if ended.wait(self.interval):
                return

    def turn(self):
        """Processes all received messages, then does one thing; waits for a message if there is nothing to do."""
        try:
            self.hear(self.next_message(0 if self.job and self.job.ready and self.advance() else 0.05))
        except queue.Empty:
            pass

    def hear(self, message):
        kind = message.WhichOneof("kind")
        of = getattr(message, kind)
        if kind not in ("assignment", "refused", "drain_requested", "logs_wanted") and not (self.job and of.job == self.job.id):
            return
        getattr(self, f"on_{kind}", lambda _: None)(of)

    def on_refused(self, refused):
        self.say("refused", reason=refused.reason, retry=refused.retry)
        self.left = not refused.retry
        if refused.retry:
            raise ConnectionError(refused.reason)

    def on_logs_wanted(self, wanted):
        self.send(log_lines=worker.LogLines(request=wanted.request, lines=self.lines[-min(wanted.lines, 1000):]))

    def on_drain_requested(self, _):
        self.leave("asked to leave")

    def leave(self, why):
        if self.job and self.job.leases:
            self.send(lease_return=worker.LeaseReturn(job=self.job.id, leases=self.job.cursors()))
        self.send(leaving=worker.Leaving(reason=why))
        self.left = True
