# SPDX-License-Identifier: Apache-2.0
"""Seventeen ways to change the state left by takes_part.py: the independent reader finds and names each, and verify or
replay finds it too."""
import pathlib
import shutil
import sqlite3
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "integration"))  # at the end: one of its files has the name of a Python module
from atoll_harness import Skip, check, main  # noqa: E402

TRIMMED, MEAN = "fp32-fp16", "e3m0-int8"  # jobs of takes_part.py


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def segment_of(state, job, version):
    return state / f"jobs/{job}/rounds/e0000000000/f00000/v{version:010d}.seg"


class Records:
    """The records of a segment, to be changed and rewritten with valid checksums and chain."""

    def __init__(self, path):
        self.path, self.records, data, at = path, [], path.read_bytes(), 0
        while at < len(data):
            fields = list(struct.unpack("<4sIQQQQQII", data[at:at + 56]))
            self.records.append([fields, bytearray(data[at + 56:at + 56 + fields[2]])])
            at += 56 + fields[2]

    def of(self, kind):
        return [record for record in self.records if record[0][1] == kind]

    def slot_of(self, name):
        """The slot of a worker's contribution, and its acceptance."""
        for record in self.of(4):
            if wire.record.ContributionAccepted.FromString(bytes(record[1][4:])).header.worker == name:
                return int.from_bytes(record[1][:4], "little"), record
        raise AssertionError(name)

    def chunks(self, slot):
        return [record for record in self.of(3) if int.from_bytes(record[1][:4], "little") == slot]

    def write(self):
        out, previous = b"", 0
        for fields, payload in self.records:
            fields[2], fields[6], fields[7] = len(payload), previous, crc32c.crc32c(bytes(payload))
            head = struct.pack("<4sIQQQQQI", *fields[:8])
            head += struct.pack("<I", crc32c.crc32c(head))
            previous = xxhash.xxh3_128_intdigest(head) & (1 << 64) - 1
            out += head + bytes(payload)
        self.path.write_bytes(out)


def change_row(state, table, where, change, keep_checksum=False):
    """Changes the columns that `change` gives for a row, and its checksum unless `keep_checksum`."""
    database = sqlite3.connect(state / "ledger.sqlite")
    cursor = database.execute(f"SELECT * FROM {table} WHERE {where}")
    columns, values = [column[0] for column in cursor.description], cursor.fetchone()
    row = dict(zip(columns, values)) | change(dict(zip(columns, values)))
    if not keep_checksum:
        row["crc"] = reader.Ledger.checksum(row)
    database.execute(f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in columns)} WHERE {where}", list(row.values()))
    database.commit()
    database.close()


def change_round(state, job, version, change, **how):
    def of_row(row):
        record = wire.record.RoundRecord.FromString(row["record"])
        change(record)
        return {"record": record.SerializeToString()}
    change_row(state, "rounds", f"job = '{job}' AND epoch = 0 AND fragment = 0 AND version = {version}", of_row, **how)


# ---- the ways

def a_bit_of_a_contribution(state, checksums=False, digests=False):
    """Changes a bit of the largest value of an element; the value stays the largest and is trimmed away."""
    records = Records(segment_of(state, TRIMMED, 1))
    slots = {name: records.slot_of(name) for name in ("a", "b", "foreign")}
    data = {name: b"".join(bytes(chunk[1][12:]) for chunk in records.chunks(slot)) for name, (slot, _) in slots.items()}
    values = {name: np.frombuffer(content, "<f4") for name, content in data.items()}
    name, others = "b", np.maximum(values["a"], values["foreign"])
    element = int(np.argmax(values[name] - others))
    [chunk] = [c for c in records.chunks(slots[name][0]) if int.from_bytes(c[1][4:12], "little") <= 4 * element][-1:]
    at = 12 + 4 * element - int.from_bytes(chunk[1][4:12], "little")
    if not checksums:
        before = bytes(chunk[1])
        whole = records.path.read_bytes()
        return flip(records.path, whole.index(before) + at)
    chunk[1][at] ^= 1
    if digests:
        changed = wire.to_digest(xxhash.xxh3_128_intdigest(b"".join(bytes(c[1][12:]) for c in records.chunks(slots[name][0]))))
        accepted = wire.record.ContributionAccepted.FromString(bytes(slots[name][1][1][4:]))
        accepted.header.digest.CopyFrom(changed)
        slots[name][1][1][4:] = accepted.SerializeToString()
        change_round(state, TRIMMED, 2, lambda record: [c.digest.CopyFrom(changed) for c in record.contributions if c.worker == name])
    return records.write()


def a_bit_of_an_update(state, checksums=False):
    path = segment_of(state, MEAN, 1)
    if not checksums:
        return flip(path, -1)
    records = Records(path)
    records.of(5)[-1][1][-1] ^= 1
    return records.write()


def a_bit_of_a_snapshot(state, array):
    path = sorted((state / f"jobs/{MEAN}/snapshots/e0000000000/f00000").glob("*.snap"))[-1]
    elements = (path.stat().st_size - 4096) // 12
    return flip(path, 4096 + 4 * (array * elements + 5))


def a_weight(state):
    def change(record):
        record.contributions[0].weight += 1e-12
    change_round(state, MEAN, 2, change)


def a_rate(state, **how):
    def change(record):
        record.learning_rate *= 1.0001
    change_round(state, MEAN, 2, change, **how)


def one_more_consumed(state):
    change_row(state, "pools", f"job = '{MEAN}'", lambda row: {"consumed": row["consumed"] + 1})


def swapped(state):
    one, other = segment_of(state, MEAN, 0), segment_of(state, MEAN, 1)
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])


def cut(state):
    path = segment_of(state, MEAN, 1)
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


DAMAGED, WELL = 65, 0
# What the reader must report, and the exit codes of verify and replay.
WAYS = {
    "a bit of a contribution": (a_bit_of_a_contribution, "damaged at", DAMAGED, DAMAGED),
    "a bit of a contribution, with checksums and chain":
        (lambda state: a_bit_of_a_contribution(state, checksums=True), "the contribution of b is not what the ledger says", DAMAGED, DAMAGED),
    "a bit of a contribution, with all digests":
        (lambda state: a_bit_of_a_contribution(state, checksums=True, digests=True), "the contribution of b does not have its norm", WELL, DAMAGED),
    "a bit of the update at the end of a segment": (a_bit_of_an_update, "the update is not there", DAMAGED, DAMAGED),
    "a bit of an update, with checksums":
        (lambda state: a_bit_of_an_update(state, checksums=True), "the update is not the one recomputed", DAMAGED, DAMAGED),
    "a bit of a public copy": (lambda state: a_bit_of_a_snapshot(state, 0), "the public copy is not", DAMAGED, DAMAGED),
    "a bit of a momentum": (lambda state: a_bit_of_a_snapshot(state, 1), "the momentum is not", DAMAGED, DAMAGED),
    "a bit of a residual": (lambda state: a_bit_of_a_snapshot(state, 2), "the residual is not", DAMAGED, DAMAGED),
    "a weight, with the row's checksum": (a_weight, "are not those of the ledger", WELL, DAMAGED),
    "a learning rate, with the row's checksum": (a_rate, "the update is not the one recomputed", WELL, DAMAGED),
    "a row without its checksum": (lambda state: a_rate(state, keep_checksum=True), "does not have its checksum", DAMAGED, DAMAGED),
    "one more sample consumed": (one_more_consumed, "do not balance", DAMAGED, DAMAGED),
    "a segment removed": (lambda state: segment_of(state, MEAN, 1).unlink(), "is not there", DAMAGED, DAMAGED),
    "a segment cut": (cut, "is not there", DAMAGED, DAMAGED),
    "two segments swapped": (swapped, "another round's segment", DAMAGED, DAMAGED),
    "a byte of a manifest":
        (lambda state: flip(next((state / f"jobs/{MEAN}/checkpoints").glob("*/manifest")), 20), "the manifest is not what the ledger says", DAMAGED, WELL),
    "a byte of a stored file": (lambda state: flip(next((state / "blobs").glob("*/*")), 3), "not the content of its name", DAMAGED, WELL),
}


def test(scene):
    left = scene.directory.parent / "takes_part/state"
    if not (left / "ledger.sqlite").exists():
        raise Skip("takes_part.py has left no state")
    check(not reader.read_state(left).damage, "the state is damaged before anything is changed")
    state, failed = scene.path("state"), []
    for name, (change, reported, *wanted) in WAYS.items():
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(left, state)
        change(state)
        damage = reader.read_state(state).damage
        found = any(reported in line for line in damage)
        audits = [scene.run("atoll-coordinator", tool, "--state", state, code=None).code for tool in ("verify", "replay")]
        print(f"{name}: the reader {damage[:1]}; verify and replay {audits}")
        if not found or audits != wanted:
            failed.append(f"{name}: the reader found {damage}, not {reported!r}; verify and replay ended with {audits}, not {wanted}")
    check(not failed, failed)


try:
    import crc32c
    import numpy as np
    import reader
    import wire
    import xxhash
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup installs it")
    sys.exit(77)
main(test)
