# SPDX-License-Identifier: Apache-2.0
"""The Debian packages in a bare root without a running systemd: install, upgrade, remove and purge; for packages.py."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import time

from atoll_harness import check, equal, wait_for
from bare_root import output

NEEDED = ("dpkg", "passwd", "base-passwd", "coreutils", "dash", "sed", "tar", "libc-bin", "debianutils", "grep", "diffutils")  # all are in every Debian
PROGRAMS = {"atoll": "cli/bin/atoll", "atoll-coordinator": "coordinator/bin/atoll-coordinator", "atoll-worker": "worker/bin/atoll-worker"}
OF_THE_SYSTEM = r"/(usr/)?lib(64)?/(x86_64-linux-gnu/)?(ld-linux-x86-64|lib(c|m|dl|rt|pthread|util|anl|resolv|gcc_s|stdc\+\+))\.so"
DPKG = ("dpkg", "--force-unsafe-io")


def files_of(root):
    """Paths in the root, except mounted folders, temporary files and the records of dpkg and of users."""
    skipped = [*root.shared, "/tmp", "/opt", "/var/lib/dpkg", "/var/log", "/etc/passwd*", "/etc/group*", "/etc/shadow*", "/etc/gshadow*", "/etc/sub?id*", "/etc/.pwd.lock"]
    prune = [word for path in skipped for word in ("-path", f"{root.folder}{path}", "-prune", "-o")]
    return set(output("find", root.folder, *prune, "-printf", "./%P\n").splitlines())


def install(root, packages):
    root.register()
    before = files_of(root)
    started = time.monotonic()
    for name, path in packages.items():
        shutil.copy(path, root.folder / "tmp" / f"{name}.deb")
    root.run(*DPKG, "--install", *(f"/tmp/{name}.deb" for name in packages))
    print(f"three packages installed in {time.monotonic() - started:.1f} s")
    equal(root.run("dpkg", "--verify", *packages), "", "the files that differ from those of the packages")
    for folder in ("var/lib/atoll", "var/lib/atoll/data"):
        status = (root.folder / folder).stat()
        equal((oct(status.st_mode & 0o777), str(status.st_uid)), ("0o700", root.run("id", "-u", "atoll").strip()), f"mode and owner of {folder}")
    return before


def private_libraries(root):
    """The programs load nothing of the distribution's but the C and C++ libraries."""
    for program in PROGRAMS.values():
        loaded = root.run("env", "LD_TRACE_LOADED_OBJECTS=1", f"/usr/lib/atoll/{program}")
        check("libgrpc.so" in loaded and "not found" not in loaded, f"{program} lacks libraries: {loaded}")
        foreign = [path for path in re.findall(r"=> (/\S+)", loaded) if not path.startswith("/usr/lib/atoll/") and not re.match(OF_THE_SYSTEM, path)]
        check(not foreign, f"{program} loads {foreign} of the distribution")


def documents(root):
    """Each package has a licence of each part, and a bill of materials with the right hashes."""
    for name in PROGRAMS:
        folder = root.folder / "usr/share/doc" / name
        check((folder / "copyright").is_file(), f"{name} has no copyright file")
        for one in json.loads((folder / "bom.json").read_text())["components"]:
            if one["type"] == "library":
                check((folder / "licences" / f"{one['name']}.txt").is_file(), f"{name} has no licence of {one['name']}")
            else:
                equal(hashlib.sha256((root.folder / one["name"]).read_bytes()).hexdigest(), one["hashes"][0]["content"], f"the hash of {one['name']}")


def services(root, scene):
    """What the units run works as their user, with the options of the packages."""
    root.run("atoll", "ca", "init", "/var/lib/atoll/trust", user="atoll:atoll")
    ports = root.folder / "var/lib/atoll/ports.json"
    any_port = [word for name in ("control", "bulk", "admin", "enroll") for word in (f"--{name}-port", "0")]
    command = ("chroot", "--userspec=atoll:atoll", root.folder, "/usr/bin/atoll-coordinator", "--config", "/etc/atoll/coordinator.yaml", *any_port, "--ports-file", "/var/lib/atoll/ports.json")
    coordinator = scene.start("packaged", command)
    wait_for("the packaged coordinator", ports.exists, alive=(coordinator,))
    equal(coordinator.terminate(), 0, "the end of the packaged coordinator")
    ports.unlink()
    found = root.run("atoll-worker", "check", "--config", "/etc/atoll/worker.yaml", "--device", "cpu", user="atoll:atoll", code=3)
    check("ok       folders" in found and "join-token" in found, f"the packaged worker does not ask for a join token: {found}")


def other_torch(root, torch):
    """The worker takes the PyTorch that /etc/atoll/torch links to, and refuses another version."""
    link = root.folder / "etc/atoll/torch"
    other = root.folder / "tmp/torch"
    other.mkdir()
    link.symlink_to("/tmp/torch")
    check("is no whole PyTorch" in root.run("atoll-worker", "--version", code=3), "a PyTorch without version.py is not refused")
    (other / "version.py").write_text("__version__ = '2.10.1+cu128'\n")
    refused = root.run("atoll-worker", "--version", code=3)
    check("2.10.1+cu128" in refused and "pip install" in refused, f"another PyTorch is refused with {refused!r}")
    link.unlink()
    link.symlink_to(torch / "torch")
    loaded = root.run("atoll-worker", "--version", env=os.environ | {"LD_DEBUG": "files"})
    check("calling init: /etc/atoll/torch/lib/libtorch_cpu.so" in loaded and "calling init: /usr/lib/atoll/worker/lib/libtorch" not in loaded, "the worker does not run on the PyTorch of /etc/atoll/torch")


def upgrade(root, scene, package):
    """A newer package keeps changed options and all data, and replaces the program's files."""
    unpacked = scene.path("newer")
    subprocess.run(("dpkg-deb", "--raw-extract", package, unpacked), check=True)
    control = unpacked / "DEBIAN/control"
    control.write_text(re.sub(r"^(Version: .*)-1$", r"\1-2", control.read_text(), flags=re.MULTILINE))
    (unpacked / "usr/bin/atoll-backup").write_text("#!/bin/sh\n")
    subprocess.run(("dpkg-deb", "--root-owner-group", "-Znone", "--build", unpacked, root.folder / "tmp/newer.deb"), check=True, capture_output=True)
    options = root.folder / "etc/atoll/coordinator.yaml"
    options.write_text(options.read_text() + "threads: 1\n")
    root.run(*DPKG, "--install", "/tmp/newer.deb")
    check("threads: 1" in options.read_text(), "an upgrade has lost a changed option")
    equal((root.folder / "usr/bin/atoll-backup").read_text(), "#!/bin/sh\n", "a file after the upgrade")
    check((root.folder / "var/lib/atoll/state/ledger.sqlite").exists(), "an upgrade has lost the state")


def remove(root, before):
    """A removal keeps options and data, a purge the coordinator's data; then nothing is left."""
    root.run(*DPKG, "--remove", *PROGRAMS)
    left = files_of(root) - before
    check(not [path for path in left if path.startswith("./usr/")], f"a removal leaves {sorted(left)}")
    check({"./etc/atoll/coordinator.yaml", "./etc/atoll/worker.yaml", "./var/lib/atoll/state"} <= left, f"a removal keeps only {sorted(left)}")
    purged = root.run(*DPKG, "--purge", *PROGRAMS)
    check("/var/lib/atoll and its user atoll stay: state  trust" in purged, f"a purge does not name the data: {purged}")
    equal({path for path in files_of(root) - before if not path.startswith("./var/lib/atoll")}, set(), "what a purge leaves")
    shutil.rmtree(root.folder / "var/lib/atoll")
    root.run("userdel", "atoll")


def again(root, before, package):
    """A package that never ran leaves nothing."""
    root.run(*DPKG, "--install", "/tmp/newer.deb")
    root.run(*DPKG, "--purge", "atoll-coordinator")
    equal(files_of(root) - before, set(), f"what is left of {package}")
    for name in ("passwd", "group"):
        check("atoll" not in (root.folder / "etc" / name).read_text(), f"a purge leaves atoll in /etc/{name}")
