# SPDX-License-Identifier: Apache-2.0
"""Passphrase-protected identities with the real programs: from a file, typed at a terminal, wrong, missing; and a
worker, which never asks.

S22.
"""
import os
import pathlib
import pty
import re
import termios

from atoll_harness import check, equal, main, program

USAGE, FORBIDDEN, INTERRUPTED = 2, 4, 130
RIGHT, WRONG = "correct horse battery", "correct horse buttery"


def written(scene, name, text):
    file = scene.path(name)
    file.write_text(text + "\n")
    file.chmod(0o600)
    return file


def shows_typing(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def at_a_terminal(scene, typed, *arguments):
    """Runs `atoll` on its own terminal with typed input. Returns its exit status and the terminal's output."""
    environment = scene.environment(ATOLL_ENDPOINT=scene.endpoint, ATOLL_IDENTITY=str(scene.identity))
    child, terminal = pty.fork()
    if child == 0:
        os.execve(program("atoll"), ["atoll", *map(str, arguments)], environment)
    shown = b""
    asked = 0
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
            while len(re.findall(rb"passphrase (?:of|for) [^\n]*: |repeat the passphrase: ", shown)) > asked and asked < len(typed):
                check(not shows_typing(terminal), f"the terminal shows what is typed: {shown!r}")
                # Nothing after an interrupt: a line that ends may be read before the process does.
                os.write(terminal, typed[asked].encode() + (b"" if typed[asked] == "\x03" else b"\n"))
                asked += 1
    except OSError:  # Linux's report that the other end is gone
        pass
    check(shows_typing(terminal), f"the terminal hides what is typed afterwards, too: {shown!r}")
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode()


def test(scene):
    right, wrong = written(scene, "right", RIGHT), written(scene, "wrong", WRONG)
    scene.identity = scene.atoll("--passphrase-file", right, "ca", "init", scene.path("trust"), "--protect").out.strip()
    check("BEGIN ENCRYPTED PRIVATE KEY" in pathlib.Path(scene.identity).read_text(), "the first admin's key lies open")
    coordinator = scene.coordinator("--trust", scene.path("trust"), "--enroll-port", 0)
    scene.atoll("--passphrase-file", right, "job", "list")
    scene.atoll("job", "list", ATOLL_PASSPHRASE_FILE=str(right))
    said = scene.atoll("--passphrase-file", wrong, "job", "list", code=FORBIDDEN).err
    check("the passphrase does not open the private key" in said, said)
    said = scene.atoll("job", "list", code=USAGE).err  # tests have no terminal
    check("--passphrase-file" in said, said)
    scene.atoll("--passphrase-file", right, "doctor", code=None)

    code, shown = at_a_terminal(scene, [RIGHT], "job", "list")
    equal(code, 0, f"the end of a call whose passphrase was typed; the terminal shows {shown!r}")
    check(RIGHT not in shown, f"the terminal shows what was typed: {shown!r}")
    code, shown = at_a_terminal(scene, ["\x1a\x1c" + RIGHT], "job", "list")  # ^Z and ^\\ have no effect
    equal(code, 0, f"the end of a call that could not be suspended while it asked; the terminal shows {shown!r}")
    code, shown = at_a_terminal(scene, [WRONG], "job", "list")
    equal(code, FORBIDDEN, f"the end of a call whose passphrase was typed wrong; the terminal shows {shown!r}")

    code, shown = at_a_terminal(scene, ["\x03"], "job", "list")
    equal(code, INTERRUPTED, f"the end of a call that was interrupted where it asks; the terminal shows {shown!r}")

    # Enrolment, and an existing file.
    token = written(scene, "token", scene.atoll("--passphrase-file", right, "token", "create", "--role", "operator", "--name", "bob").out.strip())
    bob = scene.path("bob.pem")
    enrol = ["enroll", "--at", f"127.0.0.1:{coordinator.ports['enroll']}", "--join-token", token, "--name", "bob", "--out", bob, "--protect"]
    code, shown = at_a_terminal(scene, [RIGHT, RIGHT], *enrol)
    equal(code, 0, f"the end of an enrolment; the terminal shows {shown!r}")
    check(not list(scene.directory.glob("bob.pem.*")), "something is left of the enrolment")
    check("BEGIN PRIVATE KEY" not in bob.read_text(), "the key that enrolled lies open")
    scene.atoll("ca", "issue", scene.path("trust"), "--role", "viewer", "--name", "eve", "--out", scene.path("eve.pem"))
    scene.atoll("--passphrase-file", right, "ca", "protect", scene.path("eve.pem"))
    for scene.identity in (bob, scene.path("eve.pem")):
        scene.atoll("--passphrase-file", right, "job", "list")
        check("passphrase   yes" in scene.atoll("ca", "show", scene.identity).out, "who shows an identity is asked for nothing")

    worker = scene.worker("bob", coordinator, "--identity", bob)
    check(worker.end() != 0, "a worker began with an identity that it cannot read")
    check("is protected by a passphrase" in worker.log(), worker.log())


main(test)
