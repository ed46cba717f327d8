# SPDX-License-Identifier: Apache-2.0
"""The table of bad input: each case gives one clear error message and its documented exit code, does not crash, and
changes nothing.

Cases that need no running job; S26 (plaintext without a request for it) is among them. bad_input_run.py has the cases
that need a job; wrong_revision.py has the worker of another revision.
"""
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess

from atoll_harness import Failure, Ran, check, equal, free_port, main, program, small_job

CRASH = re.compile(r"terminate called|Aborted|Segmentation|Traceback|core dumped|AddressSanitizer|Check failed|what\(\):", re.I)
LIBRARY_LINE = re.compile(r"^[EWI]\d{4,}", re.M)  # gRPC's own log, which operators cannot interpret
USAGE_LINES = 4  # the messages, then "Run '... --help'"


@dataclasses.dataclass
class Case:
    """`run` returns the ended program."""
    name: str
    run: object
    code: int
    says: str  # pattern found in standard error


def edited(scene, name, text):
    file = scene.path(f"{name}.yaml")
    file.write_text(text)
    return file


def job_text(scene, **spec):
    return json.dumps(small_job("bad", scene.path("data/text/manifest.json"), **spec), indent=1)


def submit(scene, name, text):
    return scene.atoll("job", "submit", edited(scene, name, text), code=None)


def submit_with(scene, *sets):
    options = [x for s in sets for x in ("--set", s)]
    return scene.atoll("job", "submit", edited(scene, "plain", job_text(scene)), *options, code=None)


def daemon(scene, name, *options):
    """A daemon that must end by itself."""
    return scene.run(name, *options, code=None, seconds=60)


def coordinator(scene, *options, state="other"):
    ports = ("--control-port", 0, "--bulk-port", 0, "--admin-port", 0)
    return daemon(scene, "atoll-coordinator", "--insecure", "--state-dir", scene.path(state), *ports, *options)


def with_port_taken(scene):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return daemon(scene, "atoll-coordinator", "--insecure", "--state-dir", scene.path("other"), "--control-port",
                      taken.getsockname()[1], "--bulk-port", 0, "--admin-port", 0)


def unreachable(scene, *command):
    return scene.atoll("--endpoint", f"127.0.0.1:{free_port()}", "--timeout", "30s", *command, code=None)


def in_a_file(scene):
    """A state directory that cannot be created: its parent is a file. (Permissions do not restrict root.)"""
    scene.path("file").write_text("")
    return daemon(scene, "atoll-coordinator", "--insecure", "--state-dir", scene.path("file") / "state")


def foreign_ledger(scene):
    scene.path("foreign").mkdir()
    scene.path("foreign/ledger.sqlite").write_bytes(b"no database at all, but long enough to be read as one" * 20)
    return coordinator(scene, state="foreign")


def writing_to(scene, target, *command):
    """The command line with its results redirected to a file that is open for writing."""
    with target:
        ran = subprocess.run([str(program("atoll")), *command], stdin=subprocess.DEVNULL, stdout=target, stderr=subprocess.PIPE,
                             text=True, env=scene.environment(ATOLL_ENDPOINT=scene.endpoint), timeout=60)
    ran.stdout = ""
    return Ran(ran)


def on_full_disk(scene, *command):
    return writing_to(scene, open("/dev/full", "wb"), *command)


def reader_gone(scene, *command):
    """A pipe with a closed reader, as after `head`."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing_to(scene, os.fdopen(writing, "wb"), *command)


def broken_manifest(scene):
    scene.path("broken").mkdir()
    scene.path("broken/manifest.json").write_text('{"format_revision": 1')
    return scene.atoll("data", "inspect", scene.path("broken"), code=None)


def damaged_shard(scene):
    """One bit of a training shard is flipped."""
    manifest = scene.corpus("damaged", root="elsewhere")
    shard = next(manifest.parent.glob("*train*.bin"))
    content = bytearray(shard.read_bytes())
    content[5000] ^= 1
    shard.write_bytes(content)
    return scene.atoll("data", "verify", manifest.parent, code=None)


def missing_shard(scene):
    manifest = scene.corpus("missing", root="elsewhere")
    next(manifest.parent.glob("*train*.bin")).unlink()
    return scene.atoll("data", "verify", manifest.parent, code=None)


def submit_of_shards(scene, name, spoil):
    """A job on a copy of the corpus with one of its shards spoilt."""
    copy = scene.path("copies") / name
    shutil.copytree(scene.path("data/text"), copy)
    spoil(next(copy.glob("*train*.bin")))
    return submit_with(scene, f"data.corpora[0].manifest={copy}")


def submit_of_served(scene, name, spoil):
    """The same if the coordinator serves the copy and the user has only the manifest."""
    root, mine = scene.path("roots") / name, scene.path("manifests") / name
    shutil.copytree(scene.path("data/text"), root / "text")
    spoil(next((root / "text").glob("*train*.bin")))
    mine.mkdir(parents=True)
    for file in scene.path("data/text").glob("*.[jm]*"):  # manifest.json, and tokenizer.model if present
        shutil.copy(file, mine)
    usual = scene.endpoint
    serving = scene.coordinator("--data-root", root, name=name, state=f"state-{name}")
    try:
        return submit_with(scene, f"data.corpora[0].manifest={mine}")
    finally:
        scene.endpoint = usual
        equal(serving.terminate(), 0, "the exit status of the coordinator")


def empty(scene):
    scene.path("empty.txt").write_text("")
    return scene.path("empty.txt")


def longer(shard):
    shard.write_bytes(shard.read_bytes() + b"xx")


def shorter(shard):
    shard.write_bytes(shard.read_bytes()[:-2])


def job_files(scene):
    good = job_text(scene)
    yield Case("unknown key", lambda: submit(scene, "unknown", good.replace('"hidden_size"', '"hiden_size"')), 2,
               r"unknown\.yaml:\d+:\d+: model\.hiden_size .*did you mean.*hidden_size")
    yield Case("wrong type", lambda: submit(scene, "type", good.replace('"sequences_per_step": 4', '"sequences_per_step": "four"')), 2,
               r"type\.yaml:\d+:\d+: batch\.sequences_per_step is 'four'.*whole number")
    yield Case("duplicate key", lambda: submit(scene, "twice", good.replace('"heads": 2', '"heads": 2,\n   "heads": 4')), 2,
               r"twice\.yaml:\d+:\d+: model\.heads is given twice; the first is at .*twice\.yaml:\d+")
    yield Case("unknown key that resembles none", lambda: submit(scene, "odd", good.replace('"sequences_per_step"', '"banana"')), 2,
               r"odd\.yaml:\d+:\d+: batch\.banana is not a known key; batch has sequences_per_step, micro_batch")
    yield Case("value out of range", lambda: submit_with(scene, "sync.mix=1.5"), 2, r"sync\.mix .*1\.5")
    yield Case("several faults at once", lambda: submit_with(scene, "sync.mix=2", "model.heads=3"), 2, r"sync\.mix[\s\S]*has \d+ faults")
    yield Case("no stop rule", lambda: submit_with(scene, "stop.inner_steps=0"), 2, r"stop")
    yield Case("not YAML", lambda: submit(scene, "broken", "spec: [1, 2"), 2, r"broken\.yaml:\d+:\d+: is not YAML")
    yield Case("no file", lambda: scene.atoll("job", "submit", scene.path("nothing.yaml"), code=None), 3, r"nothing\.yaml")
    yield Case("missing manifest", lambda: submit_with(scene, "data.corpora[0].manifest=nowhere/manifest.json"), 2,
               r"data\.corpora\[0\]\.manifest cannot be read: .*nowhere/manifest\.json.*atoll data prepare")
    yield Case("missing manifest beside another fault", lambda: submit_with(scene, "data.corpora[0].manifest=nowhere", "sync.mix=2"), 2,
               r"sync\.mix is 2[\s\S]*manifest cannot be read: .*nowhere/manifest\.json[\s\S]*has 2 faults")
    for name, spoil, says in (("missing", lambda shard: shard.unlink(), "is missing"),
                              ("longer", longer, r"has \d+ bytes, but its manifest has \d+"),
                              ("shorter", shorter, r"has \d+ bytes, but its manifest has \d+")):
        yield Case(f"{name} shard beside the manifest", lambda n=name, s=spoil: submit_of_shards(scene, n, s), 2,
                   rf"data\.corpora\[0\]\.manifest belongs to a corpus that is incomplete in .*/copies/{name}: shard train.*\.bin {says}.*atoll data verify")
        yield Case(f"{name} shard at the coordinator", lambda n=name, s=spoil: submit_of_served(scene, n, s), 2,
                   rf"data\.corpora\[0\]\.manifest is of corpus text, which is incomplete below the coordinator's data root: shard train.*\.bin {says}")
    yield Case("missing directory of weights", lambda: submit_with(scene, "model.init.directory=nowhere"), 2,
               r"model\.init\.directory names .*/nowhere, which does not exist; give")
    yield Case("directory in place of a job file", lambda: scene.atoll("job", "submit", scene.path("data"), code=None), 3, r"/data: Is a directory; name a file")
    yield Case("device in place of a job file", lambda: scene.atoll("job", "submit", "/dev/zero", code=None), 3, r"/dev/zero: it is a device; give a file or a pipe")
    yield Case("unstable outer rate", lambda: submit_with(scene, "outer_optimizer.learning_rate=3", "outer_optimizer.momentum=0.9"), 2,
               r"outer_optimizer\.learning_rate")
    yield Case("missing checkpoint", lambda: submit_with(scene, "model.init.checkpoint=jobs/none/checkpoints/7"), 2,
               r"model\.init\.checkpoint is jobs/none/checkpoints/7, which does not exist")


def requests(scene):
    yield Case("unknown command", lambda: scene.atoll("job", "sumbit", code=None), 2, r"sumbit.*submit")
    yield Case("unknown option", lambda: scene.atoll("job", "list", "--labell", "x=y", code=None), 2, r"--labell.*--label")
    yield Case("wrong endpoint", lambda: scene.atoll("--endpoint", "nowhere:0", "job", "list", code=None), 2, r"HOST:PORT")
    yield Case("unknown state", lambda: scene.atoll("job", "list", "--state", "done", code=None), 2, r"--state is 'done'; it must be one of pending, .*cancelled")
    yield Case("unknown number", lambda: scene.atoll("job", "logs", "kept", "--tail", "x", code=None), 2, r"--tail is 'x'; it must be a whole number")
    yield Case("unknown word of an option", lambda: scene.atoll("checkpoint", "export", "--dtype", "fp8", "kept", "out", code=None), 2,
               r"--dtype is 'fp8'; it must be one of fp32, fp16, bf16")
    yield Case("no identity file", lambda: scene.atoll("ca", "show", edited(scene, "identity", "x"), code=None), 2, r"identity\.yaml is not an identity file")
    yield Case("unknown job", lambda: scene.atoll("job", "get", "none", code=None), 3, r"no job.*none")
    yield Case("unknown job to cancel", lambda: scene.atoll("job", "cancel", "none", code=None), 3, r"none")
    yield Case("unknown worker", lambda: scene.atoll("worker", "drain", "none", code=None), 3, r"no worker is named none; 'atoll worker list'")
    yield Case("unknown checkpoint", lambda: scene.atoll("checkpoint", "export", "none", scene.path("out"), code=None), 3, r"none")
    yield Case("bad name", lambda: scene.atoll("job", "get", "No Such", code=None), 2, r"No Such")
    yield Case("resume of a job that has ended", lambda: scene.atoll("job", "resume", "ended", code=None), 3, r"ended.*cancelled|not paused")
    yield Case("update of a job that has ended", lambda: scene.atoll("job", "update", "ended", "--set", "priority=3", code=None), 3, r"cannot be changed")
    yield Case("update of an unknown path", lambda: scene.atoll("job", "update", "kept", "--set", "stop.inner_step=3", code=None), 2, r"stop has no key 'inner_step'; did you mean 'inner_steps'")
    yield Case("results to a full disk", lambda: on_full_disk(scene, "job", "list"), 3, r"results could not be written")
    yield Case("help to a full disk", lambda: on_full_disk(scene, "--help"), 3, r"results could not be written")
    yield Case("results to a reader that has gone", lambda: reader_gone(scene, "job", "list"), -signal.SIGPIPE, r"^$")
    yield Case("following for a reader that has gone", lambda: reader_gone(scene, "job", "logs", "--follow", "kept"), -signal.SIGPIPE, r"^$")
    yield Case("rollback of a job that is not paused", lambda: scene.atoll("job", "rollback", "kept", "--to", "5", code=None), 3, r"pause it")
    yield Case("name taken", lambda: scene.atoll("job", "submit", edited(scene, "plain", job_text(scene)), "--name", "kept", code=None), 3,
               r"kept exists")
    yield Case("another machine without an identity", lambda: scene.atoll("--endpoint", "192.0.2.1:7070", "job", "list", code=None), 2,
               r"192\.0\.2\.1:7070' is not a loopback address.*--identity")
    yield Case("unreachable coordinator", lambda: unreachable(scene, "job", "list"), 5, r"127\.0\.0\.1:\d+")
    yield Case("unreachable coordinator, watching", lambda: unreachable(scene, "job", "watch", "kept"), 5, r"127\.0\.0\.1:\d+")
    yield Case("timeout", lambda: scene.atoll("--timeout", "300ms", "job", "wait", "kept", code=None), 124, r"--timeout")


def programs(scene):
    yield Case("unknown option of the coordinator", lambda: daemon(scene, "atoll-coordinator", "--state-dri", "x"), 2, r"--state-dri; did you mean --state-dir")
    yield Case("no state directory", lambda: daemon(scene, "atoll-coordinator"), 2, r"--state-dir is missing")
    yield Case("neither certificates nor --insecure", lambda: daemon(scene, "atoll-coordinator", "--state-dir", scene.path("other")), 2,
               r"--trust is missing; .*'atoll ca init DIR'.* --insecure .*loopback")
    yield Case("metrics for everybody", lambda: coordinator(scene, "--admin-address", "0.0.0.0"), 2, r"give --admin-token, or use 127")
    yield Case("address that is not loopback", lambda: coordinator(scene, "--listen", "0.0.0.0"), 2, r"--insecure allows only loopback: give --trust")
    yield Case("port in use", lambda: with_port_taken(scene), 1, r"--control-port.*127\.0\.0\.1:\d+.*(in use|another)")
    yield Case("state directory in use", lambda: coordinator(scene, state="state"), 1, r"is in use by process \d+")
    yield Case("unwritable state directory", lambda: in_a_file(scene), 1, r"/file: Not a directory; .*name another path")
    yield Case("file as the state directory", lambda: daemon(scene, "atoll-coordinator", "--insecure", "--state-dir", edited(scene, "state", "x")), 1,
               r"state\.yaml: Not a directory; .*name another path")
    yield Case("ledger of another program", lambda: foreign_ledger(scene), 1, r"ledger\.sqlite")
    yield Case("missing data root of the coordinator", lambda: coordinator(scene, "--data-root", scene.path("nowhere")), 1, r"--data-root .*nowhere does not exist")
    yield Case("file as the coordinator's data root", lambda: coordinator(scene, "--data-root", edited(scene, "root", "x")), 1,
               r"--data-root .*root\.yaml is not a (?:readable )?directory")
    yield Case("unknown option of the worker", lambda: daemon(scene, "atoll-worker", "--cordinator", "x"), 2, r"--cordinator; did you mean --coordinator")
    yield Case("worker without an identity, to another machine", lambda: daemon(scene, "atoll-worker", "--coordinator", "192.0.2.1:7070", "--cache-dir",
                                                                                scene.path("cache")), 2, r"192\.0\.2\.1:7070' is not a loopback address.*--identity")
    yield Case("bulk of a worker without an identity, to another machine",
               lambda: daemon(scene, "atoll-worker", "--coordinator-bulk", "192.0.2.1:7071", "--cache-dir", scene.path("cache")), 2,
               r"192\.0\.2\.1:7071' is not a loopback address.*--join-token")
    yield Case("missing data root of the worker", lambda: daemon(scene, "atoll-worker", "--data-root", scene.path("nowhere")), 3, r"--data-root .*nowhere")
    yield Case("file as the worker's data root", lambda: daemon(scene, "atoll-worker", "--data-root", edited(scene, "root", "x")), 3,
               r"--data-root .*root\.yaml is not a (?:readable )?directory")
    yield Case("cache that cannot be made", lambda: daemon(scene, "atoll-worker", "--cache-dir", scene.path("file") / "cache"), 3, r"--cache-dir")
    yield Case("rate without a unit", lambda: daemon(scene, "atoll-worker", "--upload-limit", "100"), 2, r"--upload-limit .*is '100'; it must be a rate with its unit.*100Mbit")
    yield Case("no GPU here", lambda: daemon(scene, "atoll-worker", "--device", "gpu", "--cache-dir", scene.path("cache")), 3, r"[Gg][Pp][Uu]|CUDA")
    yield Case("no checkpoint to generate from", lambda: daemon(scene, "atoll-worker", "generate", "--checkpoint", scene.path("nowhere")), 3,
               r"nowhere/config\.json: No such file or directory; check the path")
    yield Case("no corpus to evaluate on", lambda: daemon(scene, "atoll-worker", "eval-loss", "--checkpoint", "x", "--manifest", scene.path("nowhere")), 3, r"nowhere")


def corpora(scene):
    yield Case("text that is not there", lambda: scene.atoll("data", "prepare", scene.path("no.txt"), "--out", scene.path("new"), code=None), 3,
               r"no\.txt: No such file or directory; check the path")
    yield Case("corpus below a file", lambda: scene.atoll("data", "prepare", scene.path("text.txt"), "--out", edited(scene, "out", "x") / "new", code=None), 3,
               r"out\.yaml/new: Not a directory; .*name another path")
    yield Case("no text to train a tokenizer on", lambda: scene.atoll("data", "prepare", empty(scene), "--train-tokenizer", 300, "--out", scene.path("new"), code=None),
               3, r"no text")
    yield Case("text of an unknown kind", lambda: scene.atoll("data", "prepare", edited(scene, "text", "x"), "--out", scene.path("new"), code=None), 2, r"text\.yaml")
    yield Case("text of an unknown kind that is not there", lambda: scene.atoll("data", "prepare", scene.path("nothing"), "--out", scene.path("new"), code=None), 3,
               r"nothing: No such file")
    yield Case("wrong name of a corpus", lambda: scene.atoll("data", "prepare", scene.path("text.txt"), "--out", scene.path("new"), "--name", "a b", code=None), 2,
               r"--name is 'a b'; it must be 1 to 63")
    yield Case("corpus that already exists", lambda: scene.atoll("data", "prepare", scene.path("text.txt"), "--out", scene.path("data/text"), code=None), 3, r"--force|already")
    yield Case("directory that is no corpus", lambda: scene.atoll("data", "inspect", scene.path("state"), code=None), 3, r"manifest\.json")
    yield Case("broken manifest", lambda: broken_manifest(scene), 3, r"broken/manifest\.json")
    yield Case("corrupt shard", lambda: damaged_shard(scene), 3, r"train.*\.bin.*(block|hash|SHA-256)")
    yield Case("missing shard", lambda: missing_shard(scene), 3, r"train.*\.bin.*; copy the corpus again")


def fault_of(case):
    """The fault in the outcome of a case; None if there is none."""
    ran = case.run()
    said = ran.err.strip()
    if ran.code != case.code:
        return f"exit status {ran.code}, not {case.code}; it said {said!r}"
    if CRASH.search(ran.err + ran.out):
        return f"it crashed: {said!r}"
    if LIBRARY_LINE.search(ran.err):
        return f"a library speaks: {said!r}"
    if not re.search(case.says, said):
        return f"it said {said!r}, which does not match {case.says!r}"
    if len(said.splitlines()) > USAGE_LINES:
        return f"more than a sentence: {said!r}"
    return None


def test(scene):
    manifest = scene.corpus()
    running = scene.coordinator("--data-root", scene.path("data"))
    scene.submit("kept", manifest)
    scene.wait_job("kept", lambda job: job["state"] == "JOB_STATE_WAITING_FOR_WORKERS", "the first version")
    scene.submit("ended", manifest)
    scene.atoll("job", "cancel", "ended")
    before = scene.job("kept")
    cases = [*job_files(scene), *requests(scene), *programs(scene), *corpora(scene)]
    faults = {}
    for case in cases:
        try:
            fault = fault_of(case)
        except Failure as failure:
            fault = str(failure)
        if fault:
            faults[case.name] = fault
    for name, fault in faults.items():
        print(f"{name}: {fault}")
    check(not faults, f"{len(faults)} of {len(cases)} cases of bad input are not answered as they should be")
    print(f"{len(cases)} cases of bad input")
    equal(scene.job("kept"), before, "the job that was there before")
    equal(sorted(scene.atoll("-o", "name", "job", "list").out.split()), ["jobs/ended", "jobs/kept"], "the jobs after all refusals")
    equal(running.terminate(), 0, "the exit status of the coordinator")


main(test)
