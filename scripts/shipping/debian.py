# SPDX-License-Identifier: Apache-2.0
"""Debian packages (.deb), made by dpkg-deb alone, whose bytes depend on the names and contents of their files alone."""
import dataclasses
import hashlib
import os
import pathlib
import shutil

from shipping import archive, elf

CONTACT = "Atoll maintainers <maintainers@atoll.invalid>"
DEPENDS = "libc6 (>= 2.35), libgcc-s1 (>= 12), libstdc++6 (>= 12)"
STATE = "/var/lib/atoll"


@dataclasses.dataclass
class Kind:
    """One package. `units`: those that it enables and stops; `disposable`: what a purge deletes in the state directory."""
    program: str
    own: str  # its folder below /usr/lib/atoll
    summary: str
    description: str
    files: dict = dataclasses.field(default_factory=dict)  # path in the repository: path in the package
    units: tuple = ()
    folders: tuple = ()
    disposable: tuple = ()


UNITS = "usr/lib/systemd/system"
KINDS = (
    Kind("atoll", "cli", "command line of Atoll", "Submits and watches the training jobs of an Atoll coordinator, makes corpora and the\nauthority for mutual TLS."),
    Kind("atoll-coordinator", "coordinator", "coordinator of Atoll",
         "Manages the global model, the ledger and the job queue of low-communication training,\nand serves workers and users. Needs no LibTorch.",
         {"deploy/systemd/atoll-coordinator.service": f"{UNITS}/atoll-coordinator.service", "deploy/systemd/coordinator.yaml": "etc/atoll/coordinator.yaml",
          "deploy/backup/atoll-backup": "usr/bin/atoll-backup", "deploy/backup/atoll-backup.service": f"{UNITS}/atoll-backup.service",
          "deploy/backup/atoll-backup.timer": f"{UNITS}/atoll-backup.timer"},
         ("atoll-coordinator.service", "atoll-backup.timer", "atoll-backup.service"), (STATE, f"{STATE}/data")),
    Kind("atoll-worker", "worker", "worker of Atoll",
         "Trains language models as one of several islands. LibTorch for CPUs is inside. To train on\n"
         "GPUs, /etc/atoll/torch links to an installed PyTorch @TORCH@ (the folder site-packages/torch),\nwhose libraries then replace those of the package.",
         {"deploy/systemd/atoll-worker.service": f"{UNITS}/atoll-worker.service", "deploy/systemd/worker.yaml": "etc/atoll/worker.yaml",
          "deploy/systemd/gpu-devices": "usr/lib/atoll/worker/gpu-devices", "deploy/debian/atoll-worker": "usr/bin/atoll-worker"},
         ("atoll-worker.service",), (STATE,), ("/etc/atoll/torch", *(f"{STATE}/{name}" for name in ("cache", "identity.pem", "join-token")))),
)


def copy_files(kind, project, root):
    """Puts units, settings and what a shell finds into `root`."""
    for source, target in kind.files.items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / source, root / target)
    if f"usr/bin/{kind.program}" not in kind.files.values():
        (root / "usr/bin").mkdir(parents=True, exist_ok=True)
        (root / "usr/bin" / kind.program).symlink_to(f"../lib/atoll/{kind.own}/bin/{kind.program}")


def write_copyright(kind, root):
    """Names the folder of the licences, which stage wrote."""
    folder = root / "usr/share/doc" / kind.program
    texts = "\n".join(f"  {path.stem}: licences/{path.name}" for path in sorted((folder / "licences").iterdir()))
    (folder / "copyright").write_text(f"Atoll is under the Apache License, version 2.0. The libraries below /usr/lib/atoll have the licences of\ntheir projects; bom.json lists them. Texts:\n\n{texts}\n")


def maintainer_scripts(kind, project, control):
    """The scripts that dpkg runs, for a package with services."""
    for name in ("postinst", "prerm", "postrm") if kind.units else ():
        text = (project / "deploy/debian" / name).read_text()
        for word, value in (("PACKAGE", [kind.program]), ("FOLDERS", kind.folders), ("UNITS", kind.units), ("DISPOSABLE", kind.disposable)):
            text = text.replace(f"@{word}@", " ".join(value))
        (control / name).write_text(text)


def write_control(kind, version, torch, root):
    control = root / "DEBIAN"
    control.mkdir()
    files = archive.files_below(root)
    size = sum(-(-path.lstat().st_size // 1024) for path in files)
    description = "".join(f" {line}\n" for line in kind.description.replace("@TORCH@", torch).splitlines())
    (control / "control").write_text(
        f"Package: {kind.program}\nVersion: {version}\nArchitecture: amd64\nMaintainer: {CONTACT}\nInstalled-Size: {size}\n"
        f"Depends: {DEPENDS}{', passwd' if kind.units else ''}\n{'Recommends: atoll' + chr(10) if kind.units else ''}"
        f"Section: science\nPriority: optional\nDescription: {kind.summary}\n{description}")
    if settings := [f"/{path.relative_to(root)}\n" for path in files if path.is_relative_to(root / "etc")]:
        (control / "conffiles").write_text("".join(settings))
    (control / "md5sums").write_text("".join(f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
                                             for path in files if not path.is_symlink() and not path.is_relative_to(root / "etc")))
    return control


def normalize(root, epoch):
    """The same modes and times whatever the umask and the clock are."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 or path.name in ("postinst", "prerm", "postrm") else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def build(kind, project, version, torch, root, into, epoch):
    """Makes the package of the folder `root`, which has the files already (copy_files). Returns its path."""
    maintainer_scripts(kind, project, write_control(kind, version, torch, root))
    normalize(root, epoch)
    target = pathlib.Path(into, f"{kind.program}_{version}_amd64.deb")
    elf.output("env", f"SOURCE_DATE_EPOCH={epoch}", "dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--threads-max=1", "--build", root, target)
    return target
