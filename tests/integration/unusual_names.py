# SPDX-License-Identifier: Apache-2.0
"""Paths that are not ASCII: valid UTF-8, and bytes that are not UTF-8, for every file and directory that an operator
names. A run from the corpus to the export works, also in the plain C locale, and JSON output stays JSON."""
import json
import os

from atoll_harness import check, equal, main

UTF8 = "zustand-ü-状态-🚀 mit Leerzeichen"
BYTES = os.fsdecode(b"zustand-\xfc-\xff")  # Latin-1, as on old disks


def check_json_logs(process):
    for line in process.log_path.read_bytes().splitlines():
        if line.startswith(b"{"):
            json.loads(line.decode("utf-8"))  # strictly


def run(scene, name, data_name, locale):
    """A small job. Every path contains `name`, except those of the data: a job file names its corpora, and is text."""
    scene.directory = scene.directory / name
    scene.directory.mkdir()
    where = {"LC_ALL": locale}
    data_root = scene.directory.parent / f"data-{data_name}"
    manifest = scene.corpus("text", root=data_root)
    coordinator = scene.coordinator("--data-root", data_root, "--log-format", "json", **where)
    here = scene.worker("a", coordinator, "--data-root", data_root, "--log-format", "json", **where)
    streams = scene.worker("b", coordinator, "--log-format", "json", **where)
    scene.submit("job", manifest)
    scene.wait_end("job")
    scene.atoll("checkpoint", "export", "job/latest", scene.path("export"), **where)
    scene.run("atoll-worker", "eval-loss", "--checkpoint", scene.path("export"), "--manifest", manifest, "--max-tokens", 1000, **where)
    scene.run("atoll-coordinator", "backup", "--state", scene.path("state"), "--to", scene.path("backup"), **where)
    paused = scene.run("atoll-worker", "pause", "--cache-dir", scene.path("cache-a"), **where)
    check("worker 'a'" in paused.out, f"pause says {paused.out!r}")
    for process in (here, streams, coordinator):
        equal(process.terminate(), 0, f"the end of {process.name}")
        check_json_logs(process)
    report = scene.run("atoll-coordinator", "verify", "--state", scene.path("state"), "-o", "json", **where)
    equal(report.json()["damage"], [], "what verify finds")
    equal(scene.run("atoll-coordinator", "restore", "--from", scene.path("backup"), "--state", scene.path("restored"), **where).code, 0, "restore")
    scene.directory = scene.directory.parent


def refusals(scene, name):
    """Errors contain the name, with the exit code of a refusal."""
    for command in (("data", "inspect", name), ("data", "verify", name), ("job", "submit", name), ("job", "get", name), ("worker", "drain", name),
                    ("-o", "json", "job", "get", name), ("checkpoint", "export", f"{name}/latest", "out"), ("token", "revoke", name)):
        ran = scene.atoll(*command, code=None)
        check(ran.code in (2, 3) and ran.err.startswith("atoll: "), f"atoll {' '.join(command)!r} ended with {ran.code}: {ran.err}")
        check("\x1b" not in ran.err, f"atoll {' '.join(command)!r} controls the terminal: {ran.err!r}")
    for option in ("--name", "--config", "--identity", "--data-root"):
        ran = scene.run("atoll-worker", "check", option, name, code=None, seconds=60)
        check(ran.code in (2, 3) and ("atoll-worker check: " in ran.err or "failed " in ran.out),
              f"a worker with {option} {name!r} ended with {ran.code}: {ran.err}{ran.out}")
        check("\x1b" not in ran.err + ran.out, f"a worker with {option} {name!r} controls the terminal: {ran.err + ran.out!r}")


def test(scene):
    run(scene, UTF8, UTF8, "C")
    run(scene, BYTES, "bytes", "C.UTF-8")
    scene.coordinator(state="last")
    for name in (UTF8, BYTES, "red \x1b[31m"):
        refusals(scene, name)


main(test)
