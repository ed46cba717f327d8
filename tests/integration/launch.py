# SPDX-License-Identifier: Apache-2.0
"""A command prefix: it changes what the program inherits, then executes the program."""
import json

CODE = """
import ctypes, json, os, resource, signal, struct, sys
how = json.loads(sys.argv[1])
if how["own_group"]:
    os.setpgid(0, 0)
for name in how["ignored"]:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in how["blocked"]])
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python's own is not for the program
for name, value in how["limits"].items():
    resource.setrlimit(getattr(resource, name), (value, value))
if how["user"]:
    # A user of its own, who has no other processes; root's limit of processes does not count. What root may read it may.
    libc = ctypes.CDLL(None)
    read = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    os.setgroups([]); os.setresgid(how["user"], how["user"], how["user"]); os.setresuid(how["user"], how["user"], how["user"])
    header, data = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", read, read, read, 0, 0, 0)
    assert libc.capset(header, data) == 0
    for number in (1, 2):
        assert libc.prctl(47, 2, number, 0, 0) == 0  # PR_CAP_AMBIENT_RAISE
if how["refused_calls"]:
    # A seccomp filter: these calls of the system fail with EPERM.
    def step(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)
    calls = how["refused_calls"]
    steps = [step(0x20, 0, 0, 0)] + [step(0x15, len(calls) - i, 0, n) for i, n in enumerate(calls)] + [step(0x06, 0, 0, 0x7fff0000), step(0x06, 0, 0, 0x00050001)]
    filters = ctypes.create_string_buffer(b"".join(steps))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.byref(Program(len(steps), ctypes.addressof(filters))), 0, 0) == 0  # PR_SET_SECCOMP
for fd in how["closed"]:
    os.close(fd)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def through(own_group=False, ignored=(), blocked=(), limits=None, user=0, refused_calls=(), closed=()):
    """`limits`: by name, as RLIMIT_NOFILE. `user`: its number. `refused_calls`: their numbers. `closed`: descriptors."""
    how = {"own_group": own_group, "ignored": ignored, "blocked": blocked, "limits": limits or {}, "user": user,
           "refused_calls": list(refused_calls), "closed": list(closed)}
    return ["/usr/bin/python3", "-c", CODE, json.dumps(how)]
