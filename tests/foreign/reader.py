#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An independent reader of a state directory without a running coordinator. Checks the guarantees of its pages and
recomputes every stored round to the bit.

Written from docs/formats/state-directory.md, ledger.md, round-log.md, snapshot.md, audit-log.md and outer-step.md.
Prints one JSON object; exits with 65 if something is damaged."""
import argparse
import collections
import hashlib
import json
import pathlib
import shutil
import sqlite3
import struct
import sys
import tempfile

import crc32c
import numpy as np

import codec as coding
from arithmetic import Contribution, FragmentState, content_hash, root_of_squares
from plan import Layout, digest_of
from wire import from_digest, record

DAMAGED, ARITHMETIC_REVISION, MASK64 = 65, 1, (1 << 64) - 1


class Damage(Exception):
    """The contents of a file or row violate its page."""


def check(condition, what):
    if not condition:
        raise Damage(what)


# ---- docs/formats/ledger.md

class Ledger:
    def __init__(self, state, report):
        with tempfile.TemporaryDirectory() as copy:  # SQLite writes next to a database while it reads the log
            for file in state.glob("ledger.sqlite*"):
                shutil.copy(file, copy)
            database = sqlite3.connect(pathlib.Path(copy) / "ledger.sqlite")
            pragma = lambda name: database.execute(f"PRAGMA {name}").fetchone()[0]
            check((pragma("application_id"), pragma("user_version")) == (0x41544C31, 1), "not a ledger of revision 1")
            self.tables = {}
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                cursor = database.execute(f"SELECT * FROM {name}")
                columns = [column[0] for column in cursor.description]
                self.tables[name] = [self.row(name, dict(zip(columns, values)), report) for values in cursor]
            database.close()

    @staticmethod
    def checksum(row):
        """Section Checksums."""
        data = b""
        for value in list(row.values())[:-1]:
            if isinstance(value, int):
                data += b"i" + struct.pack(">q", value)
            else:
                content = value.encode() if isinstance(value, str) else value
                data += (b"t" if isinstance(value, str) else b"b") + struct.pack(">Q", len(content)) + content
        return crc32c.crc32c(data)

    def row(self, table, row, report):
        report.look("rows", self.checksum(row) == row["crc"], f"ledger: a row of {table} does not have its checksum: {list(row.values())[:3]}")
        return {name: value & MASK64 if isinstance(value, int) else value for name, value in row.items()}

    def of(self, table, job):
        return [row for row in self.tables[table] if row["job"] == job]

    def check_invariants(self, report):
        """Section What holds."""
        [meta] = self.tables["meta"]
        seqs = [row["seq"] for table in ("rounds", "evaluations", "checkpoints", "rollbacks") for row in self.tables[table]]
        report.look("histories", len(seqs) == len(set(seqs)) and all(seq < meta["next_seq"] for seq in seqs), "ledger: a seq is used twice")
        report.look("leases", all(row["lease"] < meta["next_lease"] for row in self.tables["leases"]), "ledger: a lease from the future")
        for job in self.tables["jobs"]:
            [pool] = self.of("pools", job["job"]) or [None]
            if pool is None:
                continue
            ranges = [(row["first"], row["last"]) for row in self.of("pool_ranges", job["job"])]
            ranges += [(row["consumed_to"], row["last"]) for row in self.of("leases", job["job"]) if row["consumed_to"] < row["last"]]
            free = sum(last - first for first, last in ranges)
            ranges.sort()
            apart = all(a[1] <= b[0] for a, b in zip(ranges, ranges[1:])) and all(last <= pool["frontier"] for _, last in ranges)
            report.look("pools", pool["frontier"] == free + pool["consumed"] + pool["abandoned"] and apart, f"ledger: the samples of {job['job']} do not balance")
            rounds = sorted(self.of("rounds", job["job"]), key=lambda row: row["seq"])
            boots = [record.RoundRecord.FromString(row["record"]).boot for row in rounds]
            report.look("pools", boots == sorted(boots) and all(boot <= meta["boot"] for boot in boots), f"ledger: boot numbers of {job['job']} fall")

    def heads(self, job):
        """The head of each fragment, and base and rows of each (epoch, fragment)."""
        versions, lines, epoch = [0] * job["fragments"], {}, 0
        for fragment in range(job["fragments"]):
            lines[0, fragment] = [0, {}]
        rows = [(row["seq"], row) for table in ("rounds", "rollbacks") for row in self.of(table, job["job"])]
        for _, row in sorted(rows, key=lambda pair: pair[0]):
            if "record" not in row:
                epoch += 1
                check(row["epoch"] == epoch, f"ledger: rollbacks of {job['job']} do not count up")
                versions = list(struct.unpack(f">{len(row['versions']) // 8}Q", row["versions"]))
                lines.update({(epoch, fragment): [version, {}] for fragment, version in enumerate(versions)})
                continue
            fragment, version = row["fragment"], row["version"]
            check((row["epoch"], version) == (epoch, versions[fragment] + 1), f"ledger: round {version} of fragment {fragment} does not follow")
            of = record.RoundRecord.FromString(row["record"])
            check((of.reached.fragment, of.reached.version) == (fragment, version), "ledger: a round's record is another's")
            names = [c.worker for c in of.contributions]
            check(names == sorted(set(names)) and of.tokens == sum(c.tokens for c in of.contributions), "ledger: contributions out of order")
            versions[fragment] = version
            lines[epoch, fragment][1][version] = of
        check(epoch == job["epoch"], f"ledger: {job['job']} has another epoch than rollbacks")
        return versions, lines


# ---- docs/formats/round-log.md

class Segment:
    """Contributions by worker (header, bytes), and the update."""

    def __init__(self, path, name):
        data = path.read_bytes()
        self.accepted, self.update, self.slots, self.torn = {}, None, {}, False
        at, previous, sequence, boot = 0, 0, None, 0
        while at < len(data):
            try:
                head = data[at:at + 56]
                check(len(head) == 56 and head[:4] == b"ATLR" and crc32c.crc32c(head[:52]) == int.from_bytes(head[52:], "little"), "header")
                kind, size, number, of_boot, flushed, chain, crc = struct.unpack("<IQQQQQI", head[4:52])
                payload = data[at + 56:at + 56 + size]
                check(1 <= kind <= 6 and (kind == 1) == (at == 0) and chain == previous and of_boot >= boot and flushed <= at, "chain")
                check(sequence is None or number == sequence + 1 & MASK64, "sequence")
                check(len(payload) == size and crc32c.crc32c(payload) == crc, "payload")
            except Damage:
                self.first = self.first if at else None
                check(not self.durable_beyond(data, at), f"{name}: damaged at {at}")
                self.torn = True
                return
            if at == 0:
                self.first, self.header = number, record.SegmentHeader.FromString(payload)
                check(self.header.format_revision <= 1, f"{name}: a newer format")
            else:
                self.take(kind, payload)
            at, previous, sequence, boot = at + 56 + size, digest_of(head) & MASK64, number, of_boot

    def durable_beyond(self, data, broken):
        """Section Reading after a crash: a whole record after the broken one that was written after a flush of the
        broken bytes."""
        at = data.find(b"ATLR", broken + 1)
        while at >= 0:
            head = data[at:at + 56]
            if len(head) == 56 and crc32c.crc32c(head[:52]) == int.from_bytes(head[52:], "little"):
                _, size, number, _, flushed, _, crc = struct.unpack("<IQQQQQI", head[4:52])
                ours = self.first is None or (number - self.first & MASK64) <= len(data) // 56
                if flushed > broken and ours and at + 56 + size <= len(data) and crc32c.crc32c(data[at + 56:at + 56 + size]) == crc:
                    return True
            at = data.find(b"ATLR", at + 1)
        return False

    def take(self, kind, payload):
        """Section Record."""
        number = int.from_bytes(payload[:4], "little")
        if kind == 2:
            header = record.ContributionBegin.FromString(payload[4:]).header
            replaced = [slot for slot, (of, _) in self.slots.items() if of.worker == header.worker and slot != number]
            for slot in replaced:
                del self.slots[slot]
            self.slots[number] = header, self.slots.get(number, (None, bytearray()))[1]
        elif kind == 3 and number in self.slots:
            parts = self.slots[number][1]
            check(int.from_bytes(payload[4:12], "little") == len(parts), "chunks of a contribution do not follow each other")
            parts += payload[12:]
        elif kind == 4:
            header = record.ContributionAccepted.FromString(payload[4:]).header
            self.accepted[header.worker] = header, bytes(self.slots[number][1])
        elif kind == 5:
            self.update = record.UpdateRecord.FromString(payload[4:4 + number]), payload[4 + number:]
        elif kind == 6:
            self.slots.pop(number, None)


# ---- docs/formats/snapshot.md

def read_snapshot(path, name):
    data = path.read_bytes()
    size = int.from_bytes(data[8:12], "little")
    check(data[:8] == b"ATLSNAP1" and crc32c.crc32c(data[16:16 + size]) == int.from_bytes(data[12:16], "little"), f"{name}: header")
    header = record.SnapshotHeader.FromString(data[16:16 + size])
    check(header.format_revision == 1 and not any(data[16 + size:4096]) and len(data) == 4096 + 12 * header.elements, f"{name}: size")
    arrays = [np.frombuffer(data, "<f4", header.elements, 4096 + 4 * header.elements * i).copy() for i in range(3)]
    check(content_hash(arrays[0], header.at.version, from_digest(header.layout)) == from_digest(header.hash), f"{name}: the public copy is not what its hash says")
    for what, array, digest in zip(("momentum", "residual"), arrays[1:], (header.momentum_digest, header.residual_digest)):
        check(digest_of(array.tobytes()) == from_digest(digest), f"{name}: the {what} is not what its digest says")
    return header, FragmentState(header.at.version, *arrays)


# ---- the whole: docs/formats/state-directory.md

class Report:
    def __init__(self):
        self.counts, self.damage = collections.Counter(), []

    def look(self, what, right, otherwise):
        self.counts[what] += 1
        if not right:
            self.damage.append(otherwise)

    def attempt(self, what, function, *arguments):
        """Returns the function's result; None if it reports damage."""
        self.counts[what] += 1
        try:
            return function(*arguments)
        except Damage as damage:
            self.damage.append(str(damage))
        return None


class JobReader:
    def __init__(self, state, ledger, row, report):
        self.root, self.report, self.job, self.row = state / "jobs" / row["job"], report, row["job"], row
        self.spec = record.StoredJobSpec.FromString(row["spec"]).spec
        self.layout = Layout(self.spec)
        self.heads, self.lines = ledger.heads(row)
        self.checkpoints = {}
        for checkpoint in sorted(ledger.of("checkpoints", self.job), key=lambda row: row["seq"]):
            self.checkpoints[checkpoint["step"]] = checkpoint

    def read(self):
        if not self.row["parameters_ready"] and self.row["state"] >= 6:
            return
        self.check_blobs()
        starts = collections.defaultdict(list)
        for path in sorted(self.root.glob("snapshots/*/*/*.snap")) + sorted(self.root.glob("checkpoints/*/*.snap")):
            found = self.report.attempt("snapshots", read_snapshot, path, path.name)
            if found is None:
                continue
            header, state = found
            ours = header.job == self.job and from_digest(header.layout) == self.layout.digest
            self.report.look("snapshots", ours, f"{path}: of another job or layout")
            starts[header.epoch, header.at.fragment].append((state.version, path, state))
        for step, row in self.checkpoints.items():
            if row["complete"] and not row["dropped"]:
                self.report.attempt("checkpoints", self.check_checkpoint, step, row)
        for (epoch, fragment), (base, rounds) in sorted(self.lines.items()):
            self.replay(epoch, fragment, base, rounds, starts[epoch, fragment])

    def check_blobs(self):
        wanted = [corpus.manifest_sha256 for corpus in self.spec.data.corpora] + list(self.spec.data.tokenizer_sha256)
        wanted += list(self.spec.model.init.safetensors_sha256) + [task.file_sha256 for task in self.spec.evaluation.tasks]
        for sha256 in wanted:
            path = self.root.parents[1] / "blobs" / sha256[:2] / sha256
            self.report.look("blobs", path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256, f"{path}: not the content of its name")

    def check_checkpoint(self, step, row):
        """snapshot.md, Checkpoint."""
        folder = self.root / "checkpoints" / f"{step:010d}"
        try:
            manifest = record.CheckpointManifest.FromString((folder / "manifest").read_bytes())
        except Exception as error:
            raise Damage(f"{folder}: the manifest is not what the ledger says: {error}") from None
        versions = struct.unpack(f">{len(row['versions']) // 8}Q", row["versions"])
        hashes = [int.from_bytes(row["hashes"][at:at + 16], "big") for at in range(0, len(row["hashes"]), 16)]
        same = (manifest.format_revision, manifest.job, manifest.step, tuple(manifest.versions)) == (1, self.job, step, versions)
        same = same and [from_digest(h) for h in manifest.hashes] == hashes
        same = same and (manifest.pool_consumed, manifest.pool_frontier, manifest.wall_nanos) == (row["pool_consumed"], row["pool_frontier"], row["wall_nanos"])
        check(same, f"{folder}: the manifest is not what the ledger says")
        for fragment, (version, digest) in enumerate(zip(versions, hashes)):
            path = folder / f"f{fragment:05d}.snap"
            check(path.is_file(), f"{path}: is not there")
            header, _ = read_snapshot(path, path)
            check((header.at.fragment, header.at.version, from_digest(header.hash)) == (fragment, version, digest), f"{path}: another version")

    def replay(self, epoch, fragment, base, rounds, starts):
        """outer-step.md: every stored round, from the newest known state."""
        states = {}
        for version, path, state in starts:
            states.setdefault(version, (path, state))
        newest, state = max(states, default=-1), None
        last = epoch == max(key[0] for key in self.lines)
        for version in range(base, self.heads_of(base, rounds)):
            state = self.meet(states, version, state)
            path = self.root / f"rounds/e{epoch:010d}/f{fragment:05d}/v{version:010d}.seg"
            if not path.is_file():
                needed = self.spec.checkpoint.keep_contributions or (last and 0 <= newest <= version)
                self.report.look("rounds", not needed, f"{path}: is not there")
                state = None
                continue
            if not self.report.attempt("rounds", self.round, path, fragment, version, epoch, rounds[version + 1], state, newest > version):
                state = None
        self.meet(states, self.heads_of(base, rounds), state)

    @staticmethod
    def heads_of(base, rounds):
        return max(rounds, default=base)

    def meet(self, states, version, state):
        """A state on disk of this version: compared with the computed state, or used as the start."""
        if version not in states:
            return state
        path, there = states[version]
        if state:
            for what in ("public", "momentum", "residual"):
                same = getattr(state, what).tobytes() == getattr(there, what).tobytes()
                self.report.look("arrays", same, f"{path}: the {what} is not what the rounds before give")
        return FragmentState(there.version, there.public, there.momentum, there.residual)

    def round(self, path, fragment, version, epoch, of, state, passed):
        """Returns True if the next version is known."""
        segment = Segment(path, path)
        named = (segment.header.job, segment.header.target.fragment, segment.header.target.version, segment.header.epoch)
        check(named == (self.job, fragment, version, epoch) and from_digest(segment.header.layout) == self.layout.digest, f"{path}: another round's segment")
        contributions = []
        for c in of.contributions:
            self.report.counts[f"contributions of {c.worker}"] += 1
            check(c.worker in segment.accepted, f"{path}: the contribution of {c.worker} is not there")
            header, data = segment.accepted[c.worker]
            same = digest_of(data) == from_digest(c.digest) == from_digest(header.digest) and len(data) == c.encoded_bytes == header.encoded_bytes
            same = same and (header.tokens, header.steps, header.codec, header.send_step) == (c.tokens, c.steps, c.codec, c.send_step)
            check(same, f"{path}: the contribution of {c.worker} is not what the ledger says")
            contribution = Contribution(c, coding.decode(c.codec, data, self.layout.fragments[fragment][1]))
            check(not c.norm or root_of_squares(contribution.values) == c.norm, f"{path}: the contribution of {c.worker} does not have its norm")
            contributions.append(contribution)
        check(segment.update is not None or not passed, f"{path}: the update is not there, though a snapshot behind it is")
        if of.arithmetic_revision != ARITHMETIC_REVISION or state is None:
            self.report.counts["rounds not recomputed"] += 1
            return False
        check(contributions or of.dropped, f"{path}: a round of nobody")
        update, weights = state.step(self.spec, of, contributions)
        check([c.weight for c in of.contributions] == weights, f"{path}: weights {weights} are not those of the ledger")
        check(segment.update is None or segment.update[1] == update, f"{path}: the update is not the one recomputed")
        check(digest_of(update) == from_digest(of.update_digest) and len(update) == of.update_bytes, f"{path}: the ledger has another update")
        if segment.update:
            told = segment.update[0]
            check((from_digest(told.digest), from_digest(told.hash)) == (from_digest(of.update_digest), from_digest(of.hash)), f"{path}: the update's record")
        check(content_hash(state.public, state.version, self.layout.digest) == from_digest(of.hash), f"{path}: another content hash than the ledger's")
        self.report.counts["rounds recomputed"] += 1
        return True


def check_audit(state, report):
    """docs/formats/audit-log.md. An incomplete last line does not count."""
    previous = "0" * 64
    files = sorted((state / "events" / "audit").glob("*.jsonl"))
    for i, file in enumerate(files):
        for line in file.read_bytes().split(b"\n")[:-1]:
            told = json.loads(line)["previous"]
            first_kept = i == 0 and int(file.stem) > 0 and previous == "0" * 64
            report.look("audit lines", first_kept or told == previous, f"{file}: a line does not follow the one before it")
            previous = hashlib.sha256(line).hexdigest()


def read_state(state):
    report = Report()
    ledger = report.attempt("ledgers", Ledger, state, report)
    if ledger and not report.damage:
        ledger.check_invariants(report)
        for row in ledger.tables["jobs"]:
            job = report.attempt("jobs", JobReader, state, ledger, row, report)
            if job:
                job.read()
    check_audit(state, report)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=pathlib.Path)
    report = read_state(parser.parse_args().state)
    print(json.dumps({"counts": report.counts, "damage": report.damage}, indent=1))
    return DAMAGED if report.damage else 0


if __name__ == "__main__":
    sys.exit(main())
