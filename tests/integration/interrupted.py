# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM end a command that works without a coordinator, at once, with the documented exit code."""
import os
import signal

from atoll_harness import check, equal, generated_text, main, program, wait_for


def prepare(scene, out, number):
    """Interrupts `data prepare` while it reads a text that takes it a minute."""
    process = scene.start(out, [program("atoll"), "data", "prepare", scene.path("text.txt"), "--out", scene.path(out),
                                "--train-tokenizer", 8000, "--text-split", "paragraphs"])
    wait_for(f"{out} to read", lambda: reads(process.pid, scene.path("text.txt")), alive=[process])
    process.send(number)
    equal(process.end(20), 130, f"the exit status after signal {number}")
    check(not (scene.path(out) / "manifest.json").exists(), "an interrupted corpus has a manifest")
    # Its leftovers do not disturb the next run.
    scene.path("short.txt").write_text(generated_text(20_000))
    scene.atoll("data", "prepare", scene.path("short.txt"), "--out", scene.path(out), "--text-split", "paragraphs", "--quiet")


def reads(pid, file):
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}") == os.path.realpath(file):
                return True
        except FileNotFoundError:  # closed since it was listed
            continue
    return False


def test(scene):
    scene.path("text.txt").write_text(generated_text(500_000) * 100)
    prepare(scene, "keyboard", signal.SIGINT)
    prepare(scene, "terminated", signal.SIGTERM)


main(test)
