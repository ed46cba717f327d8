# SPDX-License-Identifier: Apache-2.0
"""`atoll job watch` in a real terminal of 80 and of 200 columns, as shown by tmux."""
import re
import shlex
import shutil
import signal
import subprocess

from atoll_harness import Skip, check, equal, main, program, wait_for

PARTS = ("step ", "round ", "ETA", "loss ", "perplexity", "tokens/s", "workers: ", "%", "a  ", "b  ")


class Terminal:
    """A separate tmux server with one window."""

    def __init__(self, scene, columns, command):
        self.socket = str(scene.path(f"tmux-{columns}"))
        line = f"{command}; echo exit status $?; exec cat"
        self.tmux("-f", "/dev/null", "-u", "new-session", "-d", "-x", str(columns), "-y", "24", line,
                  env=scene.environment(TERM="xterm-256color", ATOLL_ENDPOINT=scene.endpoint))

    def tmux(self, *arguments, env=None):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], env=env, check=True, capture_output=True, text=True).stdout

    def screen(self):
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-N").splitlines()]

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)


def shows(terminal, parts):
    lines = terminal.screen()
    return lines if all(any(part in line for line in lines) for part in parts) else None


def check_layout(lines, columns):
    """One line per item, nothing wrapped, the wide terminal used."""
    check(all(len(line) <= columns for line in lines), f"a line is longer than {columns}: {lines}")
    titles = [line for line in lines if line.startswith("job") and "round" in line]
    equal(len(titles), 1, f"the title lines in {lines}")
    bars = [line for line in lines if line.lstrip().startswith("[")]
    equal(len(bars), 1, f"the progress bars in {lines}")
    check(len(bars[0]) > (60 if columns == 80 else 90), f"the bar takes {len(bars[0])} of {columns} columns")
    equal(len([line for line in lines if "tok/s" in line]), 2, f"the lines of workers in {lines}")


def clean_view(terminal, columns):
    """The lines of a screen that holds one view, drawn for this width, and nothing else."""
    lines = [line for line in terminal.screen() if line]
    bars = [line for line in lines if line.startswith("[")]
    whole = len(bars) == 1 and len(bars[0]) == columns - 1 and max(map(len, lines)) < columns
    return lines if whole and lines[0].startswith("job") and sum("tok/s" in line for line in lines) == 2 else None


def resize(scene, workers):
    """After a window shrinks and grows again it shows one view: nothing is left of earlier views."""
    terminal = Terminal(scene, 100, f"{shlex.quote(str(program('atoll')))} job watch job")
    try:
        wait_for("the view before", lambda: clean_view(terminal, 100), 60, workers)
        for columns, rows in ((60, 24), (100, 24), (70, 10), (110, 40)):
            terminal.tmux("resize-window", "-x", str(columns), "-y", str(rows))
            lines = wait_for(f"one view in {columns} x {rows}", lambda: clean_view(terminal, columns), 60, workers)
            check(len(lines) < rows, f"{len(lines)} lines in {rows} rows: {lines}")
    finally:
        terminal.close()


def show_reason(terminal, workers):
    """The reason of a worker's wait is below its figures, complete, if 80 columns have no space for it."""
    stopped = workers[1]
    stopped.send(signal.SIGSTOP)
    try:
        reason = lambda: [line for line in terminal.screen() if re.fullmatch(r" {6}no heartbeat for \d+ s", line)]
        equal(len(wait_for("the reason of a silent worker", reason, 60, workers)), 1, "the lines of reasons")
    finally:
        stopped.send(signal.SIGCONT)
    wait_for("the end of the silence", lambda: not reason(), 60, workers)


def test(scene):
    if shutil.which("tmux") is None:
        raise Skip("tmux is not installed; scripts/setup installs it")
    manifest = scene.corpus()
    data = ("--data-root", scene.path("data"))
    coordinator = scene.coordinator(*data, "--heartbeat-interval", "300ms")
    workers = [scene.worker(name, coordinator, *data) for name in ("a", "b")]
    scene.submit("job", manifest, steps=1_000_000, workers={"min": 2}, evaluation={"every_rounds": 5, "max_tokens": 4096})
    scene.wait_round("job", 6, alive=workers)
    terminals = {columns: Terminal(scene, columns, f"{shlex.quote(str(program('atoll')))} job watch job") for columns in (80, 200)}
    try:
        for columns, terminal in terminals.items():
            wanted = PARTS if columns == 200 else tuple(p for p in PARTS if p != "workers: ")
            lines = wait_for(f"the whole view in {columns} columns", lambda: shows(terminal, wanted), 60, workers)
            print(f"---- {columns} columns", *[line for line in lines if line], sep="\n")
            check_layout(lines, columns)
        resize(scene, workers)
        show_reason(terminals[80], workers)
        scene.atoll("job", "cancel", "job")
        for columns, terminal in terminals.items():
            lines = wait_for(f"the end in {columns} columns", lambda: shows(terminal, ("cancelled", "exit status 6")), 60)
            check(all(len(line) <= columns for line in lines), f"a line is longer than {columns}: {lines}")
    finally:
        for terminal in terminals.values():
            terminal.close()


main(test)
