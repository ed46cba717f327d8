# SPDX-License-Identifier: Apache-2.0
"""Private host names of a test: a hosts file that only processes started `through=seeing(...)` see (a mount
namespace: needs root)."""
import os
import pathlib
import subprocess

from atoll_harness import Skip, check

PROBE = "probe.atoll.test"


def has_address(scene, name, address):
    """Sets the name's address, also for running processes: the file is written in place. No other name has an
    address. None: the name has none."""
    lines = ["127.0.0.1 localhost"] + ([f"{address} {name}"] if address else [])
    with open(scene.path("hosts"), "w", encoding="utf-8") as hosts:
        hosts.write("\n".join(lines) + "\n")


def seeing(hosts):
    """A command prefix in which `hosts` replaces /etc/hosts. In a chroot mounts cannot be made private, and need not
    be if nothing is shared."""
    shared = "shared:" in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return ["unshare", "-m", "--propagation", "private" if shared else "unchanged", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec \"$@\"", "sh"]


def refuse_without_namespaces(scene):
    has_address(scene, PROBE, "127.0.0.9")
    if os.geteuid() != 0:
        raise Skip("a hosts file of one's own takes root")
    tried = subprocess.run([*seeing(scene.path("hosts")), "grep", "-q", PROBE, "/etc/hosts"], capture_output=True, text=True)
    if tried.returncode != 0:
        raise Skip(f"no mount namespace here: {tried.stderr.strip()}")
    check(PROBE not in pathlib.Path("/etc/hosts").read_text(encoding="utf-8"), "the machine's own hosts file was changed")
