#!/usr/bin/python3
"""The units of deploy/ and the commands of docs/operations.md speak of the same directories and the same user."""
import pathlib
import re
import sys

COORDINATOR = "deploy/systemd/atoll-coordinator.service"
WORKER = "deploy/systemd/atoll-worker.service"
BACKUP = "deploy/backup/atoll-backup.service"
PAGE = "docs/operations.md"


def setting(root, unit, key):
    return re.search(rf"^{key}=(.*)$", (root / unit).read_text(), re.M).group(1)


def backups(root, page):
    """What is backed up is what the coordinator writes."""
    state = re.search(r"--state-dir (\S+)", setting(root, COORDINATOR, "ExecStart")).group(1)
    shown = re.findall(r"\* \* \* .*atoll-backup (\S+)", page)
    if not shown:
        yield f"{PAGE}: shows no line of a crontab with atoll-backup"
    for where, named in ((BACKUP, setting(root, BACKUP, "ExecStart").split()[1]), *((PAGE, one) for one in shown)):
        if named != state:
            yield f"{where}: backs up {named}, and {COORDINATOR} has --state-dir {state}"


def users(root, page):
    """All of them can read what the others write; what is typed is typed as the user who finds it."""
    names = {unit: setting(root, unit, "User") for unit in (COORDINATOR, WORKER, BACKUP)}
    if len(set(names.values())) > 1:
        yield f"{BACKUP}: the units have different users: {names}"
    for name in re.findall(r"runuser -u (\S+)", page):
        if name != names[WORKER]:
            yield f"{PAGE}: runuser -u {name}, and {WORKER} has User={names[WORKER]}"


def checked_worker(root, page):
    """The check before a worker joins has the options with which the unit starts it: a token is spent into its identity file."""
    program, options = setting(root, WORKER, "ExecStart").split(" ", 1)
    command = f"{program} check {options}".replace("%l", '"$(hostname -s)"')
    if command not in " ".join(page.replace("\\\n", " ").split()):
        yield f"{PAGE}: the check before a worker joins is not '{command}', the options of {WORKER}"


def check(root):
    """What is wrong, a sentence each."""
    root = pathlib.Path(root)
    page = (root / PAGE).read_text()
    return [*backups(root, page), *users(root, page), *checked_worker(root, page)]


def main():
    faults = check(pathlib.Path(__file__).resolve().parent.parent.parent)
    print("\n".join(faults) or "units and their page agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
