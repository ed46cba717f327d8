# SPDX-License-Identifier: Apache-2.0
"""Goes through the table of docs/formats/exit-codes.md, "Signals and standard streams": sends every signal to every
program and compares the effect with the table's cell."""
import pathlib
import re
import signal

from atoll_harness import Failure, check, equal, main, program, wait_for
from launch import through

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs/formats/exit-codes.md"
ATOLL = "`atoll` and commands that end by themselves"
PROGRAMS = ("`atoll-coordinator`", "`atoll-worker`", ATOLL)


def rows():
    """(signals, whether under nohup, the cell of each program)."""
    section = TABLE.read_text().split("## Signals and standard streams\n", 1)[1]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.strip().split("\n\n")[0].splitlines()]
    equal(lines[0], ["signal", *PROGRAMS], "the head of the table")
    for cells in lines[2:]:
        yield re.findall(r"SIG[A-Z0-9]+", cells[0]), "nohup" in cells[0], dict(zip(PROGRAMS, cells[1:]))


class Programs:
    """Starts each of the three programs, at work and ready for a signal."""

    def __init__(self, scene):
        self.scene, self.number = scene, 0
        self.coordinator = scene.coordinator()
        self.manifest = scene.corpus()
        scene.submit("waits", self.manifest, workers={"min": 4, "max": 4, "planned": 4})

    def start(self, which, prefix):
        self.number += 1
        name = f"program-{self.number}"
        if which == PROGRAMS[0]:
            return self.scene.launch_coordinator(name=name, state=f"state-{self.number}", through=prefix).wait_ready()
        if which == PROGRAMS[1]:
            worker = self.scene.worker(name, self.coordinator, through=prefix)
            wait_for(f"{name} to join", lambda: f"workers/{name}" in self.workers(), alive=[worker])
            return worker
        watch = self.scene.start(name, [*prefix, program("atoll"), "--endpoint", self.scene.endpoint, "-o", "jsonl", "job", "watch", "waits"])
        wait_for("the first line of the watch", lambda: "waiting_for_workers" in watch.log(), alive=[watch])
        return watch

    def workers(self):
        return [w["name"] for w in self.scene.atoll("-o", "json", "worker", "list").json().get("workers", [])]


def state(process):
    return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def pending(process):
    """The pending signals of the process, as a bit mask."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"ShdPnd:\s+(\w+)", status).group(1), 16)


def in_order(process, which, number, what):
    process.send(number)
    equal(process.end(30), 130 if which == ATOLL else 0, f"the end of {what}")


def stand_still(process, what):
    wait_for(f"{what} to stand still", lambda: state(process) == "T", 30)
    process.send(signal.SIGCONT)
    wait_for(f"{what} to go on", lambda: state(process) != "T", 30)


def play(programs, which, names, nohup, cell):
    """One process for all signals that it survives, and one for each signal that ends it."""
    prefix = [*through(own_group=True), *(["nohup"] if nohup else [])]
    survives = cell.startswith(("ignored", "is suspended"))
    process = None
    for name in names:
        number, what = getattr(signal, name), f"{which} by {name}{' under nohup' if nohup else ''}"
        process = process if process and survives else programs.start(which, prefix)
        if cell.startswith("stops in order") or (which == ATOLL and cell.startswith("`atoll` ends with 130")):
            in_order(process, which, number, what)
            if which != ATOLL:
                check(f'={name}' in process.log(), f"{what}: the log does not name the signal:\n{process.log()}")
        elif cell.startswith("ends at once"):
            process.send(number)
            equal(process.end(30), -number, f"the end of {what}")
            check(("stopped by" in process.log()) == cell.endswith("with a line"), f"{what} says {process.log()}")
        elif survives:
            process.send(number)
            if cell.startswith("is suspended"):
                stand_still(process, what)
        else:
            raise Failure(f"the cell of {what} says {cell!r}, which this test does not know")
    if survives:  # a signal that is not ignored would end it before this one
        in_order(process, which, signal.SIGTERM, f"{which} after {' '.join(names)}")


def haste(programs):
    """A closing terminal sends SIGHUP twice, and a service manager may send SIGHUP after SIGTERM: that is not a
    second request. A second SIGTERM ends a worker at once."""
    scene = programs.scene
    scene.submit("job", programs.manifest)
    worker = scene.worker("haste", programs.coordinator, "--data-root", scene.path("data"), "--synthetic-step-seconds", "3000")
    wait_for("its first step", lambda: "training" in worker.log(), alive=[worker])
    for number in (signal.SIGHUP, signal.SIGHUP):
        worker.send(number)
        wait_for("the worker to take it", lambda: not pending(worker) >> (number - 1) & 1, alive=[worker])
    worker.send(signal.SIGTERM)
    equal(worker.end(30), 128 + signal.SIGTERM, "the end of a worker in haste")
    programs.coordinator.send(signal.SIGHUP)
    programs.coordinator.send(signal.SIGHUP)
    equal(programs.coordinator.end(60), 0, "the end of a coordinator by two SIGHUP")
    check("stopped" in programs.coordinator.log(), programs.coordinator.log())


def test(scene):
    programs = Programs(scene)
    for names, nohup, cells in rows():
        for which in PROGRAMS:
            play(programs, which, names, nohup, cells[which])
    haste(programs)


main(test)
