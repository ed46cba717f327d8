# SPDX-License-Identifier: Apache-2.0
"""A hostile member of a run: a valid certificate of the role worker, a hand-written protocol, and messages that lie,
repeat or overload. A seed determines its actions. The coordinator's answers are counted by kind, and messages that it
wrongly accepted are recorded.

It avoids the actions in which the coordinator trusts a member (docs/trust.md, "What a member can still do"): ending
the job permanently (JobFailure.permanent), claiming an absurd step or pace, and contributing finite values that it
never trained. Its contributions consist of NaN, which the screens refuse from the first round on: none of them may
ever be merged."""
import collections
import random
import socket
import ssl
import threading
import time

import http2_by_hand
from grpc_by_hand import (ABORTED, ALREADY_EXISTS, CANCELLED, DATA_LOSS, DEADLINE_EXCEEDED, FAILED_PRECONDITION, INTERNAL, INVALID_ARGUMENT,
                          NOT_FOUND, OK, OUT_OF_RANGE, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAUTHENTICATED, UNAVAILABLE, UNIMPLEMENTED,
                          Connection, Fixed32, Fixed64, crc32c, digest, fields, message, one, read_varint)

JOB, HONEST = "job", "w1"
CONTROL, UPLOAD, DOWNLOAD = (f"/atoll.v1.{name}" for name in ("WorkerService/Control", "TransferService/Upload", "TransferService/Download"))
REVISION = 1  # of the protocol and of the arithmetic
FP32, MXFP4 = 1, 5
BLOCK, BLOCK_BYTES = 32, 17  # of mxfp4
TRAINING, HUGE = 3, 1 << 61
ABSENT_LEASE = 1 << 50
MEGABYTE = 1 << 20
# Answers of a coordinator that is stopped, dead, paused, flooded or past the question.
BUSY = {UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED, CANCELLED, DEADLINE_EXCEEDED, FAILED_PRECONDITION}


def context_of(identity):
    """TLS with an identity file; the port's owner is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if identity is not None:
        context.load_cert_chain(identity)
    return context


def nan_contribution(elements):
    """NaN in every block of mxfp4."""
    rest = elements % BLOCK
    block = lambda n: b"\xff" + bytes((n + 1) // 2)
    return block(BLOCK) * (elements // BLOCK) + (block(rest) if rest else b"")


def payload_frame(content, offset=0, last=True, crc=None):
    """A Frame of transfer.proto."""
    pairs = [(2, Fixed64(offset))] if offset else []
    return message(*pairs, (3, Fixed32(crc32c(content) if crc is None else crc)), (4, int(last)), (15, content))


class Membership:
    """The contents of a Welcome, an Assignment and a lease, and their control stream."""

    def __init__(self, call):
        self.call, self.boot, self.incarnation, self.clock, self.lease = call, 0, 0, 0, None
        self.versions, self.elements, self.refused, self.ended, self.why = {}, {}, 0, False, ""
        self.wishes, self.leases = 0, {}  # by the number of the request

    def hear(self, seconds):
        """Reads the received messages, and waits up to `seconds` for one. Returns their kinds."""
        kinds = []
        while (content := self.call.answer(0.01 if kinds else seconds)) is not None:
            ((kind, values),) = fields(content).items()
            self.take(kind, fields(values[0]))
            kinds.append(kind)
        return kinds

    def take(self, kind, said):
        if kind == 1:
            self.boot, self.incarnation = one(said, 1), one(said, 2)
        elif kind == 2:
            packed, at = one(said, 5, b""), 0
            self.clock, self.versions = one(said, 4), {}
            while at < len(packed):
                version, at = read_varint(packed, at)
                self.versions[len(self.versions)] = version
        elif kind == 4:
            lease = (one(said, 3), one(said, 4), one(said, 5))
            self.leases.setdefault(one(said, 2), set()).add(lease)
            self.lease = lease if one(said, 2) == self.wishes else self.lease
        elif kind == 7:
            reached = fields(one(said, 2, b""))
            self.versions[one(reached, 1)], self.clock = one(reached, 2), one(said, 6)
            self.elements[one(reached, 1)] = one(said, 4) // 2  # the updates are bf16
        elif kind == 6:
            self.leases = {}  # a returned lease may be granted again
        elif kind == 8:
            self.refused += 1
        elif kind in (3, 13):
            self.leases = {}
            self.ended, self.why = True, one(said, 1 if kind == 13 else 2, b"").decode()

    def hear_until(self, wanted, seconds):
        until = time.monotonic() + seconds
        while not (there := wanted()) and not self.ended and self.call.status is None and time.monotonic() < until:
            self.hear(0.2)
        return there


class HostileMember(threading.Thread):
    """tried: the number of attempts, by kind. refused: the number of refusals. wrong: attempts that the coordinator
    accepted, or answered against its documentation. shut: the member's name is quarantined and waits for an operator."""

    def __init__(self, name, ports, identity, seed):
        super().__init__(name=name, daemon=True)
        self.ports, self.context, self.stranger = ports, context_of(identity), context_of(None)
        self.random, self.over, self.shut = random.Random(seed), threading.Event(), False
        self.tried, self.refused, self.wrong, self.accepted, self.told, self.resumed_from = collections.Counter(), collections.Counter(), [], 0, 0, 0
        self.nonce = self.random.getrandbits(60)

    def run(self):
        attacks = [(self.membership, 12), (self.strange_hello, 3), (self.first_words, 3), (self.stranger_enrols, 1), (self.another_name, 2),
                   (self.users_calls, 2), (self.downloads, 2), (self.unread_downloads, 1), (self.flood, 1)]
        while not self.over.wait(0.1):
            (attack,) = self.random.choices([a for a, _ in attacks], [w for _, w in attacks])
            try:
                attack()
            except OSError:
                self.tried["cut off"] += 1  # or the coordinator is down
            except Exception as mistake:  # a mistake in this file, or an unexpected form of an answer: the run must fail
                self.wrong.append(f"{attack.__name__}: {mistake!r}")

    # ---- answers

    def judge(self, kind, status, *expected):
        """Expects a refusal with one of the documented codes."""
        self.tried[kind] += 1
        if status not in {*expected, *BUSY}:
            self.wrong.append(f"{kind}: answered with gRPC status {status}")
        elif status in expected:
            self.refused[kind] += 1

    def connect(self, port):
        return Connection(self.ports[port], self.context)

    # ---- before a membership

    def hello(self, worker=None, protocol=REVISION, arithmetic=REVISION, leases=0, nonce=None):
        return message((1, [(1, worker or self.name), (2, "hostile"), (3, protocol), (4, arithmetic), (5, Fixed64(nonce or self.nonce)), (8, "cpu"),
                            *[(14, [(1, i + 1)]) for i in range(leases)]]))

    def strange_hello(self):
        """Another revision, another worker's name, more leases than allowed."""
        kind, content, codes = self.random.choice([
            ("hello of another protocol", self.hello(protocol=999), ()), ("hello of another arithmetic", self.hello(arithmetic=999), ()),
            ("hello as another worker", self.hello(worker=HONEST), (PERMISSION_DENIED,)),
            ("hello with too many leases", self.hello(leases=5000), (INVALID_ARGUMENT,))])
        with self.connect("control") as connection:
            call = connection.call(CONTROL)
            call.send(content)
            if codes:
                return self.judge(kind, call.end(), *codes)
            answer = call.answer()
            self.tried[kind] += 1
            if answer is None:
                return
            if 13 in fields(answer):  # Refused
                self.refused[kind] += 1
            else:
                self.wrong.append(f"{kind}: answered with {answer!r}")

    def first_words(self):
        """Messages that must not begin a control stream."""
        kind, content, compressed, codes = self.random.choice([
            ("noise on the control stream", self.random.randbytes(200) + b"\xff", 0, (INVALID_ARGUMENT, OK)),  # gRPC reports only an end
            ("no hello first", message((3, [(1, JOB), (2, 1), (3, 40)])), 0, (INVALID_ARGUMENT,)),
            ("a message of another kind", message((77, b"x")), 0, (INVALID_ARGUMENT,)),
            ("a compressed message", bytes(100), 1, (UNIMPLEMENTED, INTERNAL, INVALID_ARGUMENT)),
            ("a message of 2 MiB", self.hello() + message((99, bytes(2 * MEGABYTE))), 0, (RESOURCE_EXHAUSTED, CANCELLED))])
        with self.connect("control") as connection:
            call = connection.call(CONTROL, *([("grpc-encoding", "gzip")] if compressed else []))
            call.send(content, compressed=compressed)
            if call.answer() is not None:
                self.wrong.append(f"{kind}: answered")
            self.judge(kind, call.end(), *codes)

    def stranger_enrols(self):
        """With an unknown token, and with none; without a certificate."""
        secret = self.random.choice([self.random.randbytes(16), b"", bytes(40)])
        body = message((1, "no request"), (2, f"{self.random.getrandbits(64):016x}"), (3, secret), (4, "worker"), (5, "eve"))
        with socket.create_connection(("127.0.0.1", self.ports["enroll"]), timeout=20) as plain, self.stranger.wrap_socket(plain) as connection:
            connection.sendall(b"POST /v1/enroll HTTP/1.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            answer = connection.makefile("rb").read()
        code = fields(answer.partition(b"\r\n\r\n")[2])[1]
        self.judge("enrolment with a wrong token", code[0] if code else None, UNAUTHENTICATED, RESOURCE_EXHAUSTED, INVALID_ARGUMENT)

    def another_name(self):
        """A contribution in the name of an honest worker."""
        with self.connect("bulk") as connection:
            header = [(1, JOB), (2, HONEST), (3, 1), (4, [(1, 0), (2, 1)]), (5, digest(b"")), (6, 100), (7, MXFP4), (8, 1), (9, 1)]
            self.judge("contribution as another worker", self.offer(connection, header)[1], PERMISSION_DENIED)

    def users_calls(self):
        """Calls reserved for users that may change a run."""
        kind, path, content = self.random.choice([
            ("cancelling the job", "JobService/CancelJob", message((1, f"jobs/{JOB}"))),
            ("rolling the job back", "JobService/RollbackJob", message((1, f"jobs/{JOB}"), (2, "latest"))),
            ("evicting a worker", "AdminService/EvictWorker", message((1, f"workers/{HONEST}"))),
            ("making a token", "AdminService/CreateToken", message((1, "admin")))])
        with self.connect("control") as connection:
            call = connection.call(f"/atoll.v1.{path}")
            call.send(content, end=True)
            self.judge(kind, call.end(), PERMISSION_DENIED)

    # ---- loads

    def downloads(self):
        """Downloads of unknown or invalid names."""
        kind, wanted, codes = self.random.choice([
            ("download of no version", (1, [(1, JOB), (2, [(1, 0), (2, 1 << 40)])]), (NOT_FOUND, INVALID_ARGUMENT)),
            ("download of a job that is not its own", (2, [(1, "other"), (2, [(1, 0)]), (3, 1)]), (UNAVAILABLE,)),
            ("download of no fragment", (2, [(1, JOB), (2, [(1, 999)]), (3, 1)]), (NOT_FOUND, INVALID_ARGUMENT)),
            ("download of a path", (3, [(1, JOB), (2, "0" * 64), (3, "../../state/ledger.db"), (4, 0)]), (INVALID_ARGUMENT,)),
            ("download of no hash", (4, "%2e%2e%2fledger"), (INVALID_ARGUMENT,)),
            ("download beyond all sizes", (9, [(1, 1 << 40)]), (INVALID_ARGUMENT,))])
        with self.connect("bulk") as connection:
            call = connection.call(DOWNLOAD)
            call.send(message(wanted, (7, self.name)), end=True)
            while call.answer() is not None:
                pass
            self.judge(kind, call.end(), *codes)

    def unread_downloads(self):
        """64 MiB each, and nothing of it is read."""
        with self.connect("bulk") as connection:
            for _ in range(24):  # more than one connection may have
                connection.call(DOWNLOAD).send(message((9, [(1, 64 * MEGABYTE)]), (7, self.name)), end=True)
                self.tried["downloads never read"] += 1
            self.over.wait(2)

    def flood(self):
        """Two thousand calls, cancelled at once or of no method; a bomb; the beginning of a message of 4 GB."""
        port = self.ports[self.random.choice(["control", "bulk"])]
        what = self.random.choice([http2_by_hand.rapid_resets, http2_by_hand.bomb, self.giant, self.no_method])
        self.tried[{"rapid_resets": "2,000 calls reset", "bomb": "compressed bombs", "giant": "messages of 4 GB", "no_method": "2,000 calls of no method"}[what.__name__]] += 1
        what(port, context=self.context)

    def giant(self, port, context):
        http2_by_hand.giant_message(port, 8, context)

    def no_method(self, port, context):
        with http2_by_hand.greet(port, context) as connection:
            for stream in range(1, 4000, 2):
                connection.sendall(http2_by_hand.call(stream, "/atoll.v1.JobService/Nothing", b""))

    # ---- as a member

    def membership(self):
        """Joins correctly, then: offers, repetitions, and an end of one kind or another."""
        with self.connect("control") as connection:
            member = Membership(connection.call(CONTROL))
            member.call.send(self.hello())
            self.tried["memberships"] += 1
            if not member.hear_until(lambda: member.versions, 3):
                self.shut = self.shut or "is quarantined" in member.why
                return
            self.train(member)
            for _ in range(self.random.randrange(4, 12)):
                member.hear(0.05)
                if member.ended or self.over.is_set():
                    break
                self.random.choice([self.lie, self.lie, self.contribute_nan, self.break_off, self.repeat, self.repeat])(member)
            self.told += member.refused
            for request, leases in member.leases.items():
                if len(leases) > 1:
                    self.wrong.append(f"one request for samples was answered with the leases {sorted(leases)}")
            self.leave(member)

    def train(self, member):
        """Reports training, and requests samples."""
        member.call.send(self.heartbeat(member))
        member.call.send(message((4, [(1, JOB), (2, member.clock), *[(3, [(1, i), (2, v)]) for i, v in member.versions.items()]])))
        self.wish(member)
        member.hear_until(lambda: member.lease and len(member.elements) == len(member.versions), 3)

    def wish(self, member):
        member.wishes += 1
        member.call.send(message((3, [(1, JOB), (2, member.wishes), (3, HUGE)])))

    def heartbeat(self, member):
        return message((2, [(1, 1), (2, JOB), (3, TRAINING), (4, member.clock), (6, 1_000_000)]))

    def leave(self, member):
        how = self.random.choice(["leaves", "vanishes", "hello twice", "heartbeat without an activity", "noise"])
        if how == "leaves":
            member.call.send(message((8, [(1, "enough")])), end=True)
            member.call.end(1)
        elif how == "hello twice":
            member.call.send(self.hello())
            self.judge_end(how, member)
        elif how == "heartbeat without an activity":
            member.call.send(message((2, [(1, 2), (2, JOB)])))
            self.judge_end(how, member)
        elif how == "noise":
            member.call.raw(self.random.randbytes(3000))
            self.tried["noise in mid-stream"] += 1

    def judge_end(self, how, member):
        """Checks the end of a stream after a message that ends it, unless the member was quarantined just before."""
        status = member.call.end()
        member.hear(0.01)
        if not member.ended:
            self.judge(how, status, INVALID_ARGUMENT)

    def header(self, member, fragment, content, /, **changed):
        """A contribution's header as an honest worker writes it, except for `changed`."""
        lease, begin, end = member.lease or (ABSENT_LEASE, 0, 0)
        samples = min(40, end - begin)  # of 32 tokens, one a step: no more than its cursor covers
        given = {"job": JOB, "incarnation": member.incarnation, "fragment": fragment, "version": member.versions.get(fragment, 0), "digest": digest(content),
                 "bytes": len(content), "codec": MXFP4, "tokens": 32 * samples, "steps": samples, "lease": lease, "cursor": begin + samples, "boot": member.boot} | changed
        return [(1, given["job"]), (2, self.name), (3, given["incarnation"]), (4, [(1, given["fragment"]), (2, given["version"])]), (5, given["digest"]),
                (6, given["bytes"]), (7, given["codec"]), (8, given["tokens"]), (9, given["steps"]), (10, member.clock), (11, 1_000_000),
                (12, [(1, given["lease"]), (2, given["cursor"])]), (13, given["boot"])]

    def offer(self, connection, header):
        """An upload call with that header, its status if it is refused at once, else None; and whether everything is
        stored already. Sets resumed_from to the length stored by an earlier call."""
        call = connection.call(UPLOAD)
        call.send(message((1, message((1, header)))))
        answer = call.answer()
        if answer is None:
            return call, call.end(0.1), False
        state = fields(one(fields(answer), 1, b""))
        self.resumed_from = one(state, 1)
        return call, None, one(state, 2) == 1

    def content(self, member):
        fragment = self.random.choice(sorted(member.elements)) if member.elements else 0
        return fragment, nan_contribution(member.elements.get(fragment, 1))

    def lie(self, member):
        """One field of a contribution's header is false."""
        if not member.elements:  # without an assignment the size would be wrong too, and reported first
            return
        fragment, content = self.content(member)
        _, begin, end = member.lease or (0, 0, 0)
        kind, changed, codes = self.random.choice([
            ("contribution of another incarnation", {"incarnation": member.incarnation - 1}, (FAILED_PRECONDITION,)),
            ("contribution of no incarnation", {"incarnation": 0}, (FAILED_PRECONDITION, INVALID_ARGUMENT)),
            ("contribution from a later boot", {"boot": member.boot + 5}, (FAILED_PRECONDITION,)),
            ("contribution to an older version", {"version": 0 if member.versions.get(fragment) else 1 << 41}, (FAILED_PRECONDITION,)),
            ("contribution to a later version", {"version": 1 << 40}, (FAILED_PRECONDITION,)),
            ("contribution to no fragment", {"fragment": 999}, (INVALID_ARGUMENT,)),
            ("contribution to no job", {"job": "another"}, (NOT_FOUND, FAILED_PRECONDITION)),
            ("contribution in another codec", {"codec": FP32, "bytes": 4 * member.elements.get(fragment, 1)}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            ("contribution of another shape", {"bytes": len(content) + 17}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            ("contribution of 4 TiB", {"bytes": 1 << 42}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            ("contribution of no tokens", {"tokens": 0}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            ("contribution of more tokens than can be", {"tokens": 1 << 63}, (INVALID_ARGUMENT,)),
            ("contribution of more samples than its cursor covers", {"tokens": 32 * 10_000, "steps": 10_000}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            ("contribution of more steps than its cursor covers", {"steps": 1 << 20}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            ("contribution under no lease", {"lease": ABSENT_LEASE}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            # Who joined before any lease was granted may have held lease 1, or it has ended: then its samples are missing.
            ("contribution under another's lease", {"lease": 1, "cursor": 1}, (INVALID_ARGUMENT, FAILED_PRECONDITION)),
            ("contribution beyond its lease", {"cursor": end + 1}, (INVALID_ARGUMENT, FAILED_PRECONDITION))])
        with self.connect("bulk") as connection:
            changed["digest"] = digest(self.random.randbytes(16))  # of unknown bytes
            call, status, there = self.offer(connection, self.header(member, fragment, content, **changed))
            if status == ALREADY_EXISTS:
                self.tried[kind] += 1  # a contribution of the same key exists
            elif status is None:
                self.wrong.append(f"{kind}: {'accepted' if there else 'granted'}")
                call.reset()
            else:
                self.judge(kind, status, *codes)

    def contribute_nan(self, member):
        """Bytes of the right size and digest, all values NaN: accepted, because values are judged when the round
        closes."""
        fragment, content = self.content(member)
        header = self.header(member, fragment, content)
        with self.connect("bulk") as connection:
            call, status, there = self.offer(connection, header)
            self.tried["contribution of NaN"] += 1
            if status is None and not there:
                call.send(payload_frame(content))
                call.answer()
                status, there = call.end(), True
            if there and status in (None, OK):
                self.accepted += 1
                again = self.offer(connection, header)  # the same answer, or its round has closed
                self.tried["the same contribution again"] += 1
                if again[1] not in {None, *BUSY}:
                    self.wrong.append(f"the same contribution again: status {again[1]}")
                another = self.header(member, fragment, content, digest=digest(b"another"))
                call, status, there = self.offer(connection, another)
                if there:
                    self.wrong.append("another digest under the same key: accepted")
                elif status is not None:
                    self.judge("another digest under the same key", status, ALREADY_EXISTS, FAILED_PRECONDITION)

    def break_off(self, member):
        """A granted upload with bytes that differ from the promise, come one by one, or do not come."""
        fragment, content = self.content(member)
        kind = self.random.choice(["wrong digest", "wrong checksum", "a gap", "more than promised", "stops in the middle", "byte by byte", "no frame"])
        changed = {"digest": digest(b"something else")} if kind == "wrong digest" else {}
        with self.connect("bulk") as connection:
            call, status, there = self.offer(connection, self.header(member, fragment, content, **changed))
            if status is not None or there:
                return
            half = len(content) // 2
            if kind == "wrong digest":
                call.send(payload_frame(content))
            elif kind == "wrong checksum":
                call.send(payload_frame(content, crc=1))
            elif kind == "a gap":
                begin = self.resumed_from + 1  # half of an upload that was interrupted may be stored
                call.send(payload_frame(content[begin:], offset=begin))
            elif kind == "more than promised":
                call.send(payload_frame(content + bytes(100)))
            elif kind == "no frame":
                call.send(b"\x0f\xff\xff")
            else:
                pieces = [content[:half]] if kind == "stops in the middle" else [content[i:i + 1] for i in range(60)]
                for i, piece in enumerate(pieces):
                    call.send(payload_frame(piece, offset=i, last=False))
                self.tried[f"upload: {kind}"] += 1
                return  # and the connection ends
            self.judge(f"upload: {kind}", call.end(), DATA_LOSS, INVALID_ARGUMENT, OUT_OF_RANGE)

    def repeat(self, member):
        """Repeated messages, and messages that belong to other workers."""
        lease, begin, _ = member.lease or (1, 0, 0)
        newest = self.random.choice(list(member.versions.items()))
        kind, content = self.random.choice([
            ("the same wish again", message((3, [(1, JOB), (2, member.wishes), (3, HUGE)]))),
            ("ready again", message((4, [(1, JOB), (2, member.clock), (3, [(1, 0), (2, 1)])]))),
            ("ready for another job", message((4, [(1, "another"), (2, 1)]))),
            ("applied what is not there", message((5, [(1, JOB), (2, [(1, 0), (2, 1 << 40)]), (3, 1)]))),
            ("a deviant replica", message((5, [(1, JOB), (2, [(1, 0), (2, 1)])]))),
            ("a deviant replica of the newest version", message((5, [(1, JOB), (2, [(1, newest[0]), (2, newest[1])])]))),
            ("an evaluation that nobody asked for", message((6, [(1, JOB), (2, 0), (3, 1), (4, 1 << 40)]))),
            ("leases of others given back", message((7, [(1, JOB), *[(2, [(1, i), (2, 0)]) for i in range(1, 2000) if i != lease]]))),
            ("its lease given back twice", message((7, [(1, JOB), (2, [(1, lease), (2, begin)])]))),
            ("another job given up", message((9, [(1, "another"), (2, "no reason"), (3, 1)]))),
            ("a sync that is not dropped", message((11, [(1, JOB), (2, [(1, 0), (2, 1)]), (3, 1)]))),
            ("log lines that nobody wanted", message((10, [(1, 7), *[(2, "\x1b[2J" + "x" * 500) for _ in range(500)]])))])
        self.tried[kind] += 1
        member.call.send(content)
        if "twice" in kind:  # later messages that name it are taken for messages about a used-up lease
            member.call.send(content)
            member.lease = None
            self.wish(member)
        member.call.send(self.heartbeat(member))
