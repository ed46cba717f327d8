#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_proto.py CURRENT.binpb [BASELINE.binpb]: refuses an incompatible change of the protocol, and poor names or
comments.

Both arguments are descriptor sets; scripts/proto-baseline makes them. CURRENT must hold source info (comments). Field
names count as protocol too: a YAML job file uses them.
"""

import re
import sys

from google.protobuf import descriptor_pb2

FieldProto = descriptor_pb2.FieldDescriptorProto
COMMENT_CHARACTERS = 10  # a shorter comment explains nothing
JOB_SPEC = "atoll.v1.JobSpec"  # each field of it, and of all messages below it, documents its default
SAYS_DEFAULT = re.compile(r"\b(Left out: |Required\b)")
SAYS_NO_VALUE = re.compile(r"\b(Left out: |No value\b)")


def load(path):
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as f:
        files.ParseFromString(f.read())
    return files


# --- compatibility ----------------------------------------------------------------------------------------------------


def messages_of(file):
    """{full name: DescriptorProto}, nested messages included."""
    found = {}

    def walk(prefix, messages):
        for m in messages:
            found[f"{prefix}.{m.name}"] = m
            walk(f"{prefix}.{m.name}", m.nested_type)

    walk(file.package, file.message_type)
    return found


def enums_of(file):
    found = {f"{file.package}.{e.name}": e for e in file.enum_type}
    for name, message in messages_of(file).items():
        found |= {f"{name}.{e.name}": e for e in message.enum_type}
    return found


def everything(files, pick):
    return {name: item for file in files.file for name, item in pick(file).items()}


def is_reserved(message, number, inclusive):
    return any(r.start <= number < r.end + inclusive for r in message.reserved_range)


def kind(field):
    name = FieldProto.Type.Name(field.type)[len("TYPE_"):].lower()
    return field.type_name.lstrip(".") or name


def oneof_of(message, field):
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return message.oneof_decl[field.oneof_index].name


def field_changes(name, old, new):
    now = {f.number: f for f in new.field}
    for field in old.field:
        where = f"{name}.{field.name} (number {field.number})"
        other = now.get(field.number)
        if other is None:
            if not is_reserved(new, field.number, 0):
                yield f"{where} is gone; write 'reserved {field.number};' in its place"
            elif field.name not in new.reserved_name:
                yield f"{where} is gone; write 'reserved \"{field.name}\";' too, so that no later field takes the name"
            continue
        if other.name != field.name:
            yield f"{where} is now called {other.name}; keep the name, or reserve the number and add a new field"
        if kind(other) != kind(field):
            yield f"{where} changed its type from {kind(field)} to {kind(other)}; add a new field and reserve this number"
        if other.label != field.label:
            yield f"{where} changed between single and repeated; add a new field and reserve this number"
        if other.proto3_optional != field.proto3_optional:
            yield f"{where} changed between optional and plain, so absence means something else; add a new field"
        if oneof_of(old, field) != oneof_of(new, other):
            yield f"{where} moved into or out of a oneof; add a new field and reserve this number"


def message_changes(base, current):
    now = everything(current, messages_of)
    for name, old in everything(base, messages_of).items():
        if name not in now:
            yield f"message {name} is gone; keep it, or reserve every field that used it and say so in the changelog"
        else:
            yield from field_changes(name, old, now[name])


def enum_changes(base, current):
    now = everything(current, enums_of)
    for name, old in everything(base, enums_of).items():
        new = now.get(name)
        if new is None:
            yield f"enum {name} is gone; keep it"
            continue
        values = {v.number: v.name for v in new.value}
        for value in old.value:
            if value.number not in values and not is_reserved(new, value.number, 1):
                yield f"{name}.{value.name} (number {value.number}) is gone; write 'reserved {value.number};' in its place"
            elif values.get(value.number, value.name) != value.name:
                yield f"{name}.{value.name} (number {value.number}) is now called {values[value.number]}; keep the name"


def signature(method):
    stream = ("stream " if method.client_streaming else "", "stream " if method.server_streaming else "")
    return f"({stream[0]}{method.input_type.lstrip('.')}) returns ({stream[1]}{method.output_type.lstrip('.')})"


def service_changes(base, current):
    def methods(files):
        return {f"{f.package}.{s.name}/{m.name}": m for f in files.file for s in f.service for m in s.method}

    now = methods(current)
    for name, old in methods(base).items():
        if name not in now:
            yield f"rpc {name} is gone; keep it and let it answer UNIMPLEMENTED with a sentence"
        elif signature(now[name]) != signature(old):
            yield f"rpc {name} changed from {signature(old)} to {signature(now[name])}; add another rpc"


def incompatible(base, current):
    yield from message_changes(base, current)
    yield from enum_changes(base, current)
    yield from service_changes(base, current)


# --- names and comments -----------------------------------------------------------------------------------------------


def upper_snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def enum_naming(name, enum):
    prefix = upper_snake(enum.name) + "_"
    if enum.value[0].number != 0 or enum.value[0].name != prefix + "UNSPECIFIED":
        yield f"enum {name}: its value 0 must be {prefix}UNSPECIFIED, so that absence is not a choice"
    for value in enum.value:
        if not value.name.startswith(prefix):
            yield f"enum {name}: {value.name} must begin with {prefix}, since values share the namespace around the enum"


def message_naming(name, message):
    if not re.fullmatch(r"([A-Z][a-z0-9]*)+", message.name):
        yield f"message {name}: names of messages are PascalCase"
    for field in message.field:
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", field.name):
            yield f"{name}.{field.name}: names of fields are lower_snake_case"


# Field numbers in descriptor.proto; a comment's path uses them.
FILE_MESSAGE, FILE_ENUM, FILE_SERVICE = 4, 5, 6
MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM = 2, 3, 4
ENUM_VALUE, SERVICE_METHOD = 2, 2


def described(file):
    """Yields (name, path) of everything in a file that needs a comment."""

    def enum(prefix, e, path):
        yield f"enum {prefix}.{e.name}", path
        for i, v in enumerate(e.value):
            yield f"{prefix}.{e.name}.{v.name}", path + (ENUM_VALUE, i)

    def message(prefix, m, path):
        name = f"{prefix}.{m.name}"
        if m.options.map_entry:
            return
        yield f"message {name}", path
        for i, f in enumerate(m.field):
            yield f"{name}.{f.name}", path + (MESSAGE_FIELD, i)
        for i, n in enumerate(m.nested_type):
            yield from message(name, n, path + (MESSAGE_NESTED, i))
        for i, e in enumerate(m.enum_type):
            yield from enum(name, e, path + (MESSAGE_ENUM, i))

    for i, m in enumerate(file.message_type):
        yield from message(file.package, m, (FILE_MESSAGE, i))
    for i, e in enumerate(file.enum_type):
        yield from enum(file.package, e, (FILE_ENUM, i))
    for i, s in enumerate(file.service):
        yield f"service {file.package}.{s.name}", (FILE_SERVICE, i)
        for j, m in enumerate(s.method):
            yield f"rpc {file.package}.{s.name}/{m.name}", (FILE_SERVICE, i, SERVICE_METHOD, j)


def needs_none(file):
    """Names that are documented elsewhere: a field named like its message type, a field of a oneof of messages, and
    the request and response of a commented rpc."""
    names = set()
    for name, message in messages_of(file).items():
        for field in message.field:
            type_name = field.type_name.rsplit(".", 1)[-1]
            if field.type == FieldProto.TYPE_MESSAGE and (
                    oneof_of(message, field) or upper_snake(type_name) == field.name.upper()):
                names.add(f"{name}.{field.name}")
    for service in file.service:
        for method in service.method:
            names |= {f"message {t.lstrip('.')}" for t in (method.input_type, method.output_type)
                      if t.endswith(("Request", "Response"))}
    return names


def comments_of(file):
    """{path: comment} of a file, each on one line."""
    return {tuple(l.path): " ".join((l.leading_comments + l.trailing_comments).split())
            for l in file.source_code_info.location}


def uncommented(file):
    told, comments = needs_none(file), comments_of(file)
    for name, path in described(file):
        if name not in told and len(comments.get(path, "")) < COMMENT_CHARACTERS:
            hint = "who may send it" if name.endswith("_UNSPECIFIED") else "its meaning, unit, range and what absence means"
            yield f"{file.name}: {name} has no comment; say {hint}"


def job_spec_tree(files):
    """Full names of JobSpec and of all messages of the package that its fields hold."""
    messages, found, waiting = everything(files, messages_of), set(), [JOB_SPEC]
    while waiting:
        name = waiting.pop()
        if name in found or name not in messages:
            continue
        found.add(name)
        waiting += [f.type_name.lstrip(".") for f in messages[name].field if f.type_name.startswith(".atoll.v1.")]
    return found


def silent_about_absence(files, file):
    in_spec, comments, paths = job_spec_tree(files), comments_of(file), dict(described(file))
    for name, message in messages_of(file).items():
        for field in message.field:
            comment = comments.get(paths.get(f"{name}.{field.name}"), "")
            if name in in_spec and not SAYS_DEFAULT.search(comment):
                yield (f"{file.name}: {name}.{field.name} does not say what is used when a job leaves it out; "
                       "write 'Left out: ...' or 'Required'")
            elif field.proto3_optional and not SAYS_NO_VALUE.search(comment):
                yield f"{file.name}: {name}.{field.name} is optional and does not say what 'No value: ...' means"


def poor(current):
    for file in current.file:
        if file.package != "atoll.v1":
            continue
        yield from uncommented(file)
        yield from silent_about_absence(current, file)
        for name, enum in enums_of(file).items():
            yield from enum_naming(name, enum)
        for name, message in messages_of(file).items():
            yield from message_naming(name, message)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    current = load(sys.argv[1])
    problems = list(poor(current))
    if len(sys.argv) == 3:
        problems += list(incompatible(load(sys.argv[2]), current))
    print("\n".join(problems))
    if problems and len(sys.argv) == 3:
        print("After a change that is meant, and whose commit says why: scripts/proto-baseline")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
