# SPDX-License-Identifier: Apache-2.0
"""Changes below a directory seen by strace, for comparison with the record of durable_calls.cc."""
import collections
import pathlib
import re
import subprocess

from atoll_harness import check, equal, wait_for

KIND = {"write": "write", "writev": "write", "pwrite64": "write", "pwritev": "write", "pwritev2": "write", "ftruncate": "truncate",
        "truncate": "truncate", "fsync": "sync", "fdatasync": "sync", "mkdir": "mkdir", "mkdirat": "mkdir", "unlink": "unlink",
        "rmdir": "rmdir", "unlinkat": "unlink", "rename": "rename", "renameat": "rename", "renameat2": "rename", "link": "link",
        "linkat": "link"}
OPENS = ("open", "openat", "openat2", "creat")
# Calls that change a file and that durable_calls.cc does not know: before a program uses one, durable_calls.cc must
# learn it.
UNKNOWN = ("fallocate", "copy_file_range", "sendfile", "splice", "symlink", "symlinkat", "mknod", "mknodat", "sync", "syncfs", "msync",
           "mmap", "io_uring_setup", "io_submit")
LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")


def strace_command(output):
    """Prefix for a command, which keeps its own process id."""
    return ("strace", "-D", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "0", "-o", output, "-e",
            "trace=" + ",".join((*KIND, *OPENS, *UNKNOWN, "exit_group")))


def why_not_traced(directory):
    """None if strace may trace; otherwise the reason."""
    try:
        ran = subprocess.run([*strace_command(directory / "strace-tried"), "true"], capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        return "strace is not installed"
    return None if ran.returncode == 0 else ran.stderr.strip()


def whole_lines(text):
    """Joins calls that strace has split into two lines."""
    begun = {}
    for line in text.splitlines():
        process, _, rest = line.partition(" ")
        if rest.endswith("<unfinished ...>"):
            begun[process] = line.removesuffix("<unfinished ...>")
        elif "resumed>" in rest and process in begun:
            yield begun.pop(process) + rest.partition("resumed>")[2]
        else:
            yield line


def seen(output, below):
    """Counter of (kind, path below the directory), the paths opened for creation, and lines of unknown calls."""
    counts, made, unknown = collections.Counter(), set(), []
    for line in whole_lines(pathlib.Path(output).read_text(errors="replace")):
        match = LINE.match(line)
        paths = re.findall(rf'["<]{re.escape(str(below))}(?:/([^">]*))?[">]', line)
        if not match or not paths or int(match[4]) < 0:
            continue
        name, arguments = match[2], match[3]
        if name in OPENS:
            made |= {paths[0]} if "O_CREAT" in arguments else set()
            counts["truncate", paths[0]] += "O_TRUNC" in arguments
        elif name in KIND:
            kind = "rmdir" if "AT_REMOVEDIR" in arguments else KIND[name]
            counts[kind, paths[0].removesuffix(" (deleted)") or "."] += 1
        elif name != "mmap" or ("MAP_SHARED" in arguments and "PROT_WRITE" in arguments):
            unknown.append(line)
    return +counts, made, unknown


def compare(outputs, below, calls):
    """Every call seen by strace was recorded, and no other."""
    traced, made = collections.Counter(), set()
    for output in outputs:
        wait_for(f"the end of {output}", lambda output=output: "exit_group(" in output.read_text(errors="replace")
                 or "killed by" in output.read_text(errors="replace"), 30)
        counts, names, unknown = seen(output, below)
        equal(unknown, [], "calls that durable_calls.cc does not know")
        traced, made = traced + counts, made | names
    written = collections.Counter((call.kind, call.path) for call in calls if not call.error and call.kind != "create")
    equal(traced - written, collections.Counter(), "what strace has seen and durable_calls.cc has not")
    equal(written - traced, collections.Counter(), "what durable_calls.cc has seen and strace has not")
    known = {call.path for call in calls if call.kind == "create"} | {call.to for call in calls}
    check(made <= known, f"durable_calls.cc has not seen how these were made: {sorted(made - known)}")
    return sum(traced.values()) + len(made)
