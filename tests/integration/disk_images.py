# SPDX-License-Identifier: Apache-2.0
"""Computes disk contents from the calls that durable_calls.cc recorded: after each call if the process is killed, and
the possible contents after a power cut. Runs nothing.

A strict disk: the bytes of a file are durable once the file was flushed, a name once its directory was flushed, and
nothing else is durable. A torn cut keeps a seeded part of the rest: some of the changed names, a prefix of an
appended file with sectors of zeros, and for each overwritten sector its old or new content.
"""
import dataclasses
import json
import os
import pathlib

SECTOR = 512


@dataclasses.dataclass(frozen=True)
class Call:
    number: int
    kind: str
    error: int
    offset: int
    path: str
    to: str
    fault: str
    data: bytes

    def __str__(self):
        return f"{self.kind} {self.path}"


def whole_calls(log):
    """All whole records of a log of durable_calls.cc, and their end: a process may have ended while it wrote a
    record."""
    content, at, calls = pathlib.Path(log).read_bytes(), 0, []
    while (end := content.find(b"\n", at)) >= 0:
        number, kind, error, offset, size, path, to, fault = content[at:end].decode().split("\t")
        after = end + 1 + int(size)
        if after > len(content):
            break
        calls.append(Call(int(number), kind, int(error), int(offset), path, to, fault, content[end + 1:after]))
        at = after
    return calls, at


def read_calls(log):
    return whole_calls(log)[0]


class File:
    def __init__(self):
        self.content, self.durable = bytearray(), b""

    def write(self, offset, data):
        self.content.extend(bytes(max(0, offset - len(self.content))))
        self.content[offset:offset + len(data)] = data

    def truncate(self, size):
        self.content[size:] = bytes(max(0, size - len(self.content)))

    def flush(self):
        self.durable = bytes(self.content)

    def torn(self, dice):
        """A possible result of a cut for the unflushed bytes."""
        there = len(self.durable)
        if len(self.content) > there:
            there = dice.randint(there, len(self.content))
        elif len(self.content) < there and dice.random() < 0.5:
            there = len(self.content)
        left = bytearray(self.durable[:there] + self.content[len(self.durable):there])
        for at in range(0, there, SECTOR):
            old, new = self.durable[at:at + SECTOR], self.content[at:at + SECTOR]
            if len(old) == len(new) and dice.random() < 0.5:
                left[at:at + SECTOR] = new
            elif len(old) < len(new) and dice.random() < 1 / 3:
                left[at + len(old):min(there, at + SECTOR)] = bytes(max(0, min(there, at + SECTOR) - at - len(old)))
        return bytes(left)


class Directory:
    def __init__(self):
        self.names, self.durable = {}, {}
        self.changes = []  # since the last flush: {name: its new target, or None}; each change is made whole or not at all

    def change(self, change):
        self.changes.append(change)
        self.names = apply(self.names, change)

    def flush(self):
        self.durable, self.changes = dict(self.names), []

    def torn(self, dice):
        left = self.durable
        for change in self.changes:
            if dice.random() < 0.5:
                left = apply(left, change)
        return left


def apply(names, change):
    return {name: node for name, node in (names | change).items() if node is not None}


class Disk:
    """Initially an empty directory."""

    def __init__(self, calls=()):
        self.root = Directory()
        for call in calls:
            self.play(call)

    def find(self, path):
        node = self.root
        for part in [] if path == "." else path.split("/"):
            node = node.names.get(part) if isinstance(node, Directory) else None
        return node

    def place(self, path):
        """The directory of a name, and its last part."""
        directory, _, name = path.rpartition("/")
        return self.find(directory or "."), name

    def play(self, call):
        if call.error:
            return
        if call.kind in ("create", "mkdir", "link"):
            directory, name = self.place(call.to or call.path)
            made = {"create": File, "mkdir": Directory, "link": lambda: self.find(call.path)}[call.kind]()
            directory.change({name: made})
        elif call.kind in ("unlink", "rmdir"):
            directory, name = self.place(call.path)
            directory.change({name: None})
        elif call.kind == "rename":
            self.rename(call)
        elif not call.path.endswith(" (deleted)"):
            self.play_on_file(call)

    def play_on_file(self, call):
        node = self.find(call.path)
        if call.kind == "write":
            node.write(call.offset, call.data)
        elif call.kind == "truncate":
            node.truncate(call.offset)
        else:
            assert call.kind == "sync", call
            node.flush()

    def rename(self, call):
        (source, old), (target, new) = self.place(call.path), self.place(call.to)
        node = source.names[old]
        if source is target:
            source.change({old: None, new: node})
        else:
            target.change({new: node})
            source.change({old: None})

    # ---- images

    def write_killed(self, directory):
        """All written data, as the system has it."""
        write_tree(directory, self.root, lambda d: d.names, lambda f: bytes(f.content), {})

    def write_cut(self, directory):
        """Without any unflushed data."""
        write_tree(directory, self.root, lambda d: d.durable, lambda f: f.durable, {})

    def write_torn(self, directory, dice):
        """With any part of the unflushed data."""
        write_tree(directory, self.root, lambda d: d.torn(dice), lambda f: f.torn(dice), {})


def write_tree(at, directory, names_of, bytes_of, written):
    os.makedirs(at, exist_ok=True)
    for name, node in sorted(names_of(directory).items()):
        path = os.path.join(at, name)
        if isinstance(node, Directory):
            write_tree(path, node, names_of, bytes_of, written)
        elif id(node) in written:
            os.link(written[id(node)], path)
        else:
            pathlib.Path(path).write_bytes(bytes_of(node))
            written[id(node)] = path


def events_written(calls, path):
    """The whole lines of an event log that were written by then; each is one write."""
    lines = [call.data for call in calls if call.kind == "write" and call.path == path and call.data.startswith(b"{")]
    return [json.loads(line) for line in lines if line.endswith(b"\n")]
