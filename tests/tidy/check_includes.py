#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py [ROOT]: refuses every #include, and every ROOMS of a CMakeLists.txt, that tests/tidy/rooms.toml does not allow."""

import pathlib
import re
import sys
import tomllib

from tree import CODE, files_below, without_comments_and_literals

TABLE = "tests/tidy/rooms.toml"
COMPOSITION_ROOTS = {"coordinator/main.cc": "coordinator/", "worker/main.cc": "worker/", "cli/main.cc": "cli"}

# Header prefixes of the libraries that only some rooms may use. Order matters: the first match counts.
LIBRARIES = [
    ("gRPC", re.compile(r"^(grpc|grpcpp)/|\.grpc\.pb\.h$")),
    ("protobuf", re.compile(r"^google/protobuf/|\.pb\.h$")),
    ("LibTorch", re.compile(r"^(torch|ATen|c10|caffe2)/")),
    ("CUDA", re.compile(r"^(cuda|cublas|curand|nccl)[a-z0-9_]*\.h$|^cooperative_groups|^cub/|^nvtx")),
    ("SQLite", re.compile(r"^sqlite3\.h$")),
    ("SentencePiece", re.compile(r"^sentencepiece")),
    ("Prometheus", re.compile(r"^prometheus/")),
    ("CLI11", re.compile(r"^CLI/")),
    ("nghttp2", re.compile(r"^nghttp2/")),
]

# These must not come through a header of another room either.
KEPT_IN = {"gRPC", "LibTorch", "CUDA", "CLI11", "nghttp2"}

# Machines whose fields are private to them, and headers that hold several of them. A machine sees no other machine and
# no holder, and nothing but a holder includes two machines.
MACHINES = {f"coordinator/core/{name}.h" for name in ("member", "round", "evaluation", "checkpoints", "leases")} | {"worker/core/fragment.h"}
HOLDERS = {f"coordinator/core/{name}.h" for name in ("run", "fleet", "context", "job", "machine")} | {"worker/core/state.h"}

IMPURE = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|atomic|future|chrono|ctime|time\.h|random|fstream|iostream|cstdio|"
    r"filesystem|unordered_map|unordered_set|unistd\.h|sys/.*|cmath|math\.h|absl/(time|random|synchronization|container)/.*|"
    r"common/base/(log|files|executor|mutex)\.h)$")
FLOATING = re.compile(r"\b(float|double)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


class Room:
    def __init__(self, name, row):
        self.name, self.rooms, self.libraries = name, set(row.get("rooms", [])), set(row.get("libraries", []))
        self.pure = row.get("pure", False)


def read_table(root):
    """{name: Room}; a room's allowed includes are transitive."""
    table = tomllib.loads((pathlib.Path(root) / TABLE).read_text())
    rooms = {name: Room(name, row) for name, row in table.items()}
    known_libraries = {name for name, _ in LIBRARIES}
    for room in rooms.values():
        for name in room.rooms - rooms.keys():
            sys.exit(f"{TABLE}: room {room.name} may include '{name}', which has no row")
        for name in room.libraries - known_libraries:
            sys.exit(f"{TABLE}: room {room.name} names the library '{name}', which tests/tidy/check_includes.py does not know")
    refuse_cycles(rooms)
    for room in rooms.values():
        room.rooms = reachable(rooms, room.name)
    return rooms


def refuse_cycles(rooms):
    for room in rooms.values():
        if any(room.name in reachable(rooms, other) for other in room.rooms):
            sys.exit(f"{TABLE}: room {room.name} may include itself through others; the house has no cycles")


def reachable(rooms, start):
    seen, todo = set(), [start]
    while todo:
        for name in rooms[todo.pop()].rooms - seen:
            seen.add(name)
            todo.append(name)
    return seen


def room_of(path, rooms):
    parts = path.split("/")
    if parts[0] == "cli":
        return "cli"
    name = "/".join(parts[:2])
    return name if len(parts) > 2 and name in rooms else None


def library_of(header):
    return next((name for name, pattern in LIBRARIES if pattern.search(header)), None)


class Headers:
    """The libraries that a header of ours includes, directly or through other headers of ours."""

    def __init__(self, root):
        self.root, self.brings, self.reaches = pathlib.Path(root), {}, {}

    def reached(self, header):
        """Our headers that come with this one, itself included."""
        if header not in self.reaches:
            self.reaches[header] = {header}  # a cycle of headers ends here
            file = self.root / header
            for _, inner in includes(file.read_text()) if file.is_file() else ():
                self.reaches[header] = self.reaches[header] | self.reached(inner)
        return self.reaches[header]

    def libraries(self, header):
        """{library: the header that includes it}"""
        if header not in self.brings:
            self.brings[header] = {}  # ends cycles of headers
            file = self.root / header
            found = {}
            for _, inner in includes(file.read_text()) if file.is_file() else ():
                if library := library_of(inner):
                    found.setdefault(library, header)
                else:
                    found = {**self.libraries(inner), **found}
            self.brings[header] = found
        return self.brings[header]


def check_file(path, text, rooms, headers):
    """Yields one sentence for each refused include of `path`."""
    if path in COMPOSITION_ROOTS:
        yield from check_composition_root(path, text, rooms)
        return
    room = rooms.get(room_of(path, rooms))
    if room is None:
        yield f"{path}:1: belongs to no room of {TABLE}; move it into one, or add a row for a new room"
        return
    for line, header in includes(text):
        other, library = room_of(header, rooms), library_of(header)
        where = f"{path}:{line}"
        if header.startswith(("tests/", "../", "./")) or "/../" in header:
            yield f"{where}: includes {header}; write the path from the repository's root, and never one below tests"
        elif other and other != room.name and other not in room.rooms:
            yield f"{where}: room {room.name} may not include {header} (room {other}); see the table in {TABLE}"
        elif library and library not in room.libraries:
            yield f"{where}: room {room.name} may not see {library} ({header}); see the table in {TABLE}"
        elif brought := sorted((l, h) for l, h in headers.libraries(header).items()
                                if other and l in KEPT_IN and l not in room.libraries):
            yield f"{where}: {header} brings {brought[0][0]} into room {room.name} (through {brought[0][1]}); keep it in .cc files there"
        elif room.pure and IMPURE.match(header):
            yield f"{where}: room {room.name} is pure and may not include {header}; take what it needs as an argument"
    yield from check_machines(path, text, headers)
    if path.endswith(".cc"):
        brought = set().union(*({library_of(h)} | headers.libraries(h).keys() for _, h in includes(text)))
        if {"LibTorch", "gRPC"} <= brought:
            yield f"{path}:1: sees LibTorch and gRPC; put one of them behind a header that names neither"
    if room.pure:
        for number, line in enumerate(without_comments_and_literals(text).splitlines(), 1):
            if match := FLOATING.search(line):
                yield f"{path}:{number}: room {room.name} is pure and may not use {match.group(1)}; count in integers (ns, bytes, tokens, steps)"


def check_machines(path, text, headers):
    included = {header for _, header in includes(text)}
    own = re.sub(r"\.cc$", ".h", path)
    if own in MACHINES:
        reached = set().union(*map(headers.reached, included)) & (MACHINES | HOLDERS) - {own}
        for header in sorted(reached):
            yield f"{path}:1: a machine may not see {header}; take what it needs as an argument"
    elif path not in HOLDERS and len(included & MACHINES) > 1:
        yield f"{path}:1: includes the machines {' and '.join(sorted(included & MACHINES))}; include the header that holds them"


def check_cmake(path, text, rooms):
    """The rooms that a room's target links must be in the room's row too."""
    text = re.sub(r"#[^\n]*", "", text)
    for match in re.finditer(r"atoll_room\(\s*(\S+)([^)]*)\)", text):
        name = "cli" if match.group(1).startswith("cli/") else match.group(1)
        room, words = rooms.get(name), match.group(2).split()
        if room is None:
            yield f"{path}: room {match.group(1)} has no row in {TABLE}"
            continue
        heads = [i for i, w in enumerate(words) if w in ("SOURCES", "ROOMS", "LIBS", "PRIVATE_LIBS")] + [len(words)]
        for start, end in zip(heads, heads[1:]):
            for other in words[start + 1:end] if words[start] == "ROOMS" else ():
                if other not in room.rooms and not (room.name == "cli" and other.startswith("cli/")):
                    yield f"{path}: room {room.name} may not be linked with {other}; see the table in {TABLE}"


def check_composition_root(path, text, rooms):
    own = COMPOSITION_ROOTS[path]
    for line, header in includes(text):
        other, library = room_of(header, rooms), library_of(header)
        if other and not other.startswith(("common/", own)):
            yield f"{path}:{line}: this program may not include {header} (room {other})"
        elif library == "LibTorch":
            yield f"{path}:{line}: {path} puts rooms together and may not see LibTorch ({header}); go through worker/daemon"


def includes(text):
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def check(root):
    rooms = read_table(root)
    problems, headers = [], Headers(root)
    for path in files_below(root):
        if path.split("/")[0] not in ("common", "coordinator", "worker", "cli"):
            continue
        if path.endswith(CODE):
            problems += check_file(path, (pathlib.Path(root) / path).read_text(), rooms, headers)
        elif path.endswith("/CMakeLists.txt"):
            problems += check_cmake(path, (pathlib.Path(root) / path).read_text(), rooms)
    return problems


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent.parent
    problems = check(root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
