# SPDX-License-Identifier: Apache-2.0
"""A root folder of a bare Debian system, made of this machine's own packages, and programs that run in it: no compiler, no source, no
library but those of the named packages."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from atoll_harness import SKIPPED, Skip, check


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def installed(package):
    listed = subprocess.run(("dpkg-query", "-W", "-f=${db:Status-Status}", package), capture_output=True, text=True)
    return listed.stdout.startswith("installed")


def closure(packages):
    """`packages` and everything that they depend on, as it is installed here."""
    found, missing = set(), list(packages)
    while missing:
        name = missing.pop()
        if name in found:
            continue
        found.add(name)
        if not installed(name):
            raise Skip(f"the Debian package {name} is not installed")
        for alternatives in filter(None, (part.strip() for part in output("dpkg-query", "-W", "-f=${Pre-Depends}, ${Depends}", name).split(","))):
            names = [re.split(r"[ :(]", one.strip())[0] for one in alternatives.split("|")]
            missing += [name for name in names if installed(name)][:1]
    return sorted(found)


class BareRoot:
    """In a mount namespace of this test (own_mounts), so that nothing is left mounted."""

    def __init__(self, folder, packages, shared):
        """`shared`: folders that have the same path inside and outside."""
        self.folder, self.shared = folder, ["/proc", "/dev", *map(str, shared)]
        for name in ("bin", "sbin", "lib", "lib64"):
            (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(f"usr/{name}")
        self.packages = closure(packages)
        paths = {path for path in output("dpkg", "-L", *self.packages).splitlines() if re.match(r"/(usr/|lib|bin|sbin|etc/)", path) and not re.match(r"/usr/share/(doc|man|locale)/", path)}
        files = sorted(path for path in paths if os.path.islink(path) or os.path.isfile(path))
        packed = subprocess.run(("tar", "-C", "/", "-cf", "-", "--no-recursion", "-T", "-"), input="\n".join(path.lstrip("/") for path in files).encode(), capture_output=True, check=True)
        subprocess.run(("tar", "-xf", "-", "-C", folder, "--keep-directory-symlink"), input=packed.stdout, check=True)
        for path in self.shared:
            inside = folder / path.lstrip("/")
            inside.mkdir(parents=True, exist_ok=True)
            subprocess.run(("mount", "--bind", path, inside), check=True)
        (folder / "tmp").mkdir(exist_ok=True)

    def register(self):
        """Lets dpkg of the root know its packages, and gives the root its users."""
        database = self.folder / "var/lib/dpkg"
        for name in ("info", "updates", "triggers"):
            (database / name).mkdir(parents=True)
        (database / "status").write_text(output("dpkg-query", "--status", *self.packages))
        for name in self.packages:
            (database / "info" / f"{name}.list").touch()
        for name in ("passwd", "group"):
            shutil.copy(self.folder / f"usr/share/base-passwd/{name}.master", self.folder / "etc" / name)

    def run(self, *command, user="root", code=0, **how):
        ran = subprocess.run(("chroot", f"--userspec={user}", self.folder, *map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)
        check(ran.returncode == code, f"{' '.join(map(str, command))} ended with {ran.returncode}, not {code}: {ran.stdout}")
        return ran.stdout

    def wrappers(self, folder, programs):
        """Programs in `folder` that run those of the root: {name: its path in the root}."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in programs.items():
            check((self.folder / path.lstrip("/")).exists(), f"{path} is not in the bare root")
            wrapper = folder / name
            wrapper.write_text(f"#!/bin/sh\nexec chroot {shlex.quote(str(self.folder))} {shlex.quote(path)} \"$@\"\n")
            wrapper.chmod(0o755)
        return folder


def own_mounts(arguments):
    """Runs this test again in a mount namespace of its own, unless it already has one."""
    if "ATOLL_OWN_MOUNTS" in os.environ:
        return
    if os.geteuid() != 0:
        print("skipped: chroot and mounts need root")
        sys.exit(SKIPPED)
    os.environ["ATOLL_OWN_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", "/usr/bin/python3", *arguments])
