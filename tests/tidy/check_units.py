#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The units of deploy/ are valid, restrict what their programs can do, may write where their programs write, and use the same
directories and user as the commands of docs/install.md and docs/backup.md."""
import pathlib
import re
import shutil
import subprocess
import sys

COORDINATOR = "deploy/systemd/atoll-coordinator.service"
WORKER = "deploy/systemd/atoll-worker.service"
BACKUP = "deploy/backup/atoll-backup.service"
OPTIONS = {COORDINATOR: "deploy/systemd/coordinator.yaml", WORKER: "deploy/systemd/worker.yaml"}  # their --config files
EXPOSURE = 3.0  # at most, by systemd-analyze security
HIDES_GPU = ("PrivateDevices", "DeviceAllow", "DevicePolicy", "ProtectClock")  # ProtectClock implies a DeviceAllow
PAGES = ("docs/install.md", "docs/backup.md")


def setting(root, unit, key):
    return re.search(rf"^{key}=(.*)$", (root / unit).read_text(), re.M).group(1)


def option(root, unit, name):
    """Values of an option in the unit's configuration file."""
    return re.findall(rf"^{name}: (\S+)$", (root / OPTIONS[unit]).read_text(), re.M)


def backups(root, pages):
    """The backup recipe covers the coordinator's state."""
    state = option(root, COORDINATOR, "state-dir")[0]
    shown = [(name, one) for name, page in pages.items() for one in re.findall(r"\* \* \* .*atoll-backup (\S+)", page)]
    if not shown:
        yield f"{PAGES[1]}: shows no line of a crontab with atoll-backup"
    for where, named in ((BACKUP, setting(root, BACKUP, "ExecStart").split()[1]), *shown):
        if named != state:
            yield f"{where}: backs up {named}, and {OPTIONS[COORDINATOR]} has state-dir: {state}"


def users(root, pages):
    """Every user can read the others' files; typed commands run as the user that needs the result."""
    names = {unit: setting(root, unit, "User") for unit in (COORDINATOR, WORKER, BACKUP)}
    if len(set(names.values())) > 1:
        yield f"{BACKUP}: the units have different users: {names}"
    for page, text in pages.items():
        for name in re.findall(r"runuser -u (\S+)", text):
            if name != names[WORKER]:
                yield f"{page}: runuser -u {name}, and {WORKER} has User={names[WORKER]}"


def checked_worker(root, pages):
    """The check before a worker joins has the same options as the unit: a token is spent into its identity file."""
    program, options = setting(root, WORKER, "ExecStart").split(" ", 1)
    command = f"{program} check {options}"
    if command not in " ".join(pages[PAGES[0]].replace("\\\n", " ").split()):
        yield f"{PAGES[0]}: the check before a worker joins is not '{command}', the options of {WORKER}"


def writable(root):
    """A unit allows writes where its program writes."""
    for unit, names in ((COORDINATOR, ("state-dir",)), (WORKER, ("identity", "cache-dir"))):
        if "ProtectSystem=strict" not in (root / unit).read_text():
            continue
        places = [pathlib.PurePath(place) for place in setting(root, unit, "ReadWritePaths").split()]
        for name in names:
            for path in option(root, unit, name):
                if not any(pathlib.PurePath(path).is_relative_to(place) for place in places):
                    yield f"{unit}: {name} {path} is not below ReadWritePaths, {', '.join(map(str, places))}"


def restricted(root):
    """systemd computes a low exposure of each unit, and the worker still reaches a GPU."""
    for key in HIDES_GPU:
        if re.search(rf"^{key}=", (root / WORKER).read_text(), re.M):
            yield f"{WORKER}: {key} hides the device files of a GPU"
    if shutil.which("systemd-analyze") is None:
        return
    for unit in (COORDINATOR, WORKER, BACKUP):
        ran = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(root / unit)], capture_output=True, text=True)
        exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", ran.stdout)
        if exposure is None or float(exposure.group(1)) > EXPOSURE:
            yield f"{unit}: systemd-analyze security says {exposure.group(1) if exposure else ran.stderr}, more than {EXPOSURE}"


def parsed(root):
    """systemd, if present, reports nothing about the units except that the programs are not installed here."""
    if shutil.which("systemd-analyze") is None:
        return
    for unit in (COORDINATOR, WORKER, BACKUP):
        said = subprocess.run(["systemd-analyze", "verify", str(root / unit)], capture_output=True, text=True).stderr
        for line in said.splitlines():
            if pathlib.PurePath(unit).name in line and not line.endswith("is not executable: No such file or directory"):
                yield f"{unit}: systemd-analyze verify says: {line}"


def check(root):
    """The problems, one sentence each."""
    root = pathlib.Path(root)
    pages = {page: (root / page).read_text() for page in PAGES}
    return [*backups(root, pages), *users(root, pages), *checked_worker(root, pages), *writable(root), *parsed(root), *restricted(root)]


def main():
    faults = check(pathlib.Path(__file__).resolve().parent.parent.parent)
    if shutil.which("systemd-analyze") is None:
        print("skipped: syntax and exposure of the units: systemd-analyze is not installed")
    print("\n".join(faults) or "units can be read and agree with their pages")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
