#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The units of deploy/ are valid, may write where their programs write, and use the same directories and user as the
commands of docs/install.md and docs/backup.md."""
import pathlib
import re
import shutil
import subprocess
import sys

COORDINATOR = "deploy/systemd/atoll-coordinator.service"
WORKER = "deploy/systemd/atoll-worker.service"
BACKUP = "deploy/backup/atoll-backup.service"
PAGES = ("docs/install.md", "docs/backup.md")


def setting(root, unit, key):
    return re.search(rf"^{key}=(.*)$", (root / unit).read_text(), re.M).group(1)


def backups(root, pages):
    """The backup recipe covers the coordinator's state."""
    state = re.search(r"--state-dir (\S+)", setting(root, COORDINATOR, "ExecStart")).group(1)
    shown = [(name, one) for name, page in pages.items() for one in re.findall(r"\* \* \* .*atoll-backup (\S+)", page)]
    if not shown:
        yield f"{PAGES[1]}: shows no line of a crontab with atoll-backup"
    for where, named in ((BACKUP, setting(root, BACKUP, "ExecStart").split()[1]), *shown):
        if named != state:
            yield f"{where}: backs up {named}, and {COORDINATOR} has --state-dir {state}"


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
    command = f"{program} check {options}".replace("%l", '"$(hostname -s)"')
    if command not in " ".join(pages[PAGES[0]].replace("\\\n", " ").split()):
        yield f"{PAGES[0]}: the check before a worker joins is not '{command}', the options of {WORKER}"


def writable(root):
    """A unit allows writes where its program writes."""
    for unit, options in ((COORDINATOR, ("--state-dir",)), (WORKER, ("--identity", "--cache-dir"))):
        if "ProtectSystem=strict" not in (root / unit).read_text():
            continue
        places = [pathlib.PurePath(place) for place in setting(root, unit, "ReadWritePaths").split()]
        command = setting(root, unit, "ExecStart")
        for option in options:
            for path in re.findall(rf"{option} (\S+)", command):
                if not any(pathlib.PurePath(path).is_relative_to(place) for place in places):
                    yield f"{unit}: {option} {path} is not below ReadWritePaths, {', '.join(map(str, places))}"


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
    return [*backups(root, pages), *users(root, pages), *checked_worker(root, pages), *writable(root), *parsed(root)]


def main():
    faults = check(pathlib.Path(__file__).resolve().parent.parent.parent)
    print("\n".join(faults) or "units can be read and agree with their pages")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
