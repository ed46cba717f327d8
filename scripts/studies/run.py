# SPDX-License-Identifier: Apache-2.0
"""Plays runs with the real programs: a coordinator and its workers in a separate folder, on loopback."""
import asyncio
import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.request

from provenance import provenance
from studies.definition import FOLDER, ROOT, fail

BIN = pathlib.Path(os.environ.get("ATOLL_BIN", ROOT / "build/release/bin"))
DATA = pathlib.Path(os.environ.get("ATOLL_TEST_DATA", ROOT.parent / "shared/data"))
HOURS_AT_MOST = 12  # limit of one run
PLAYING = set()  # running programs, for end_all


class Failed(Exception):
    """A run failed; its folder is kept for inspection."""


def end_all():
    """Ends every program started here, before this one ends."""
    for process in list(PLAYING):
        process.kill()
    for process in list(PLAYING):
        process.wait()


class Proxy:
    """A port in front of a port of the coordinator that counts the bytes in both directions: TCP payload, including all
    framing."""

    def __init__(self, target):
        self.target, self.up, self.down, self.port = target, 0, 0, 0
        ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, args=(ready,), daemon=True).start()
        if not ready.wait(30):
            raise Failed("the counting proxy did not start within 30 s")

    def _run(self, ready):
        async def serve():
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await server.serve_forever()
        self.loop.run_until_complete(serve())

    async def _connection(self, reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self._pump(reader, far_writer, "up"), self._pump(far_reader, writer, "down"))

    async def _pump(self, reader, writer, direction):
        try:
            while data := await reader.read(1 << 16):
                setattr(self, direction, getattr(self, direction) + len(data))
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()


class Run:
    """One planned run; nothing is left running when the block ends."""

    def __init__(self, planned, folder):
        self.planned, self.folder, self.processes = planned, folder, []
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            PLAYING.discard(process)
        if not any(error):
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, *command, core=None):
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})
        if core is not None:
            os.sched_setaffinity(process.pid, [core])
        self.processes.append(process)
        PLAYING.add(process)
        return process

    def atoll(self, *arguments):
        done = subprocess.run([str(BIN / "atoll"), "--endpoint", f"127.0.0.1:{self.ports['control']}", *map(str, arguments)],
                              capture_output=True, text=True, timeout=3600 * HOURS_AT_MOST)
        if done.returncode != 0:
            raise Failed(f"atoll {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def play(self, corpora, start=None, tasks=False, keep=None):
        """Plays the run to its end. `start`: Hugging Face directory of version 0. `keep`: destination of the final
        outer parameters."""
        ports_file = self.folder / "ports.json"
        coordinator = self.start("coordinator", BIN / "atoll-coordinator", "--insecure", "--state-dir", self.folder / "state", "--control-port", 0,
                                 "--bulk-port", 0, "--admin-port", 0, "--ports-file", ports_file, "--threads", 1)
        while not ports_file.exists():
            if coordinator.poll() is not None:
                raise Failed(f"the coordinator ended: {(self.folder / 'coordinator.log').read_text()[-500:]}")
            time.sleep(0.05)
        self.ports = json.loads(ports_file.read_text())
        control, bulk = Proxy(self.ports["control"]), Proxy(self.ports["bulk"])
        started = time.monotonic()
        job = self.folder / "job.yaml"
        manifests = [c / "manifest.json" for c in corpora]
        job.write_text(self.planned.job(manifests, start) if start else self.planned.job(manifests))
        self.atoll("job", "submit", job)
        for i in range(self.planned.workers):
            self.start(f"worker-{i}", BIN / "atoll-worker", "--name", f"worker-{i}", "--coordinator", f"127.0.0.1:{control.port}",
                       "--coordinator-bulk", f"127.0.0.1:{bulk.port}", "--threads", 1, "--device", "cpu", "--data-root", corpora[0].parent,
                       "--cache-dir", self.folder / f"cache-{i}", *(["--overlap-steps", self.planned.overlaps[i]] if self.planned.overlaps else []),
                       core=self.planned.pin[i] if self.planned.pin else None)
        self.atoll("job", "wait", "study")
        result = {"seconds": round(time.monotonic() - started, 1)} | self.collect()
        result["tcp"] = {"up": control.up + bulk.up, "down": control.down + bulk.down}
        if keep:
            self.atoll("checkpoint", "export", "study", keep)
        out = self.folder / "export"
        if tasks or len(corpora) > 1:
            self.atoll("checkpoint", "export", "study", out)
        if tasks:
            result["tasks"] = self.score(out)
        if len(corpora) > 1:
            result["domains"] = {c.name.rsplit("-", 1)[0]: self.loss_on(out, c) for c in corpora}
        return result

    def collect(self):
        job = json.loads(self.atoll("-o", "json", "job", "get", "study"))
        job = job.get("job", job)
        if job["state"] != "JOB_STATE_SUCCEEDED":
            raise Failed(f"the run in {self.folder} ended {job['state']}: {job.get('reason', '')}")
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.ports['admin']}/metrics", timeout=60).read().decode()
        moved = collections.Counter()
        for kind, value in re.findall(r'atoll_transfer_bytes_total\{[^}]*kind="(\w+)"[^}]*\} (\S+)', page):
            moved[kind] += round(float(value))
        curves = json.loads(self.atoll("-o", "json", "job", "metrics", "study"))["curves"]
        curve = [[int(p.get("step", 0)), round(p["value"], 6)] for c in curves if c["metric"] == "evaluation_loss" for p in c["points"]]
        events = [json.loads(line) for line in (self.folder / "state/events/study.jsonl").read_text().splitlines()]
        merges = [(e["time_ns"], e["fields"]) for e in events if e["kind"] == "round committed"]
        contributors = [len(fields["contributions"].split()) for _, fields in merges]
        # For one fragment only: rounds of the others merge the same steps again.
        rounds = [(time_ns, int(f["clock_step"]), int(f["tokens"])) for time_ns, f in merges if f["fragment"] == "0"]
        seen = [sum(tokens for _, at, tokens in rounds if at <= step) for step, _ in curve]
        paced = {"seconds": round((rounds[-1][0] - rounds[0][0]) / 1e9, 3), "tokens": sum(t for _, _, t in rounds[1:])} if len(rounds) > 1 else None
        largest = max((int(f["update_bytes"]) for _, f in merges), default=0)
        return {"loss": curve[-1][1], "curve": curve, "largest_update": largest, "seen": seen, "paced": paced, "parameters": int(job["parameters"]), "tokens": int(job["tokens"]),
                "payload": {"up": moved["contribution"], "down": moved["update"]}, "commits": len(contributors),
                "contributions": sum(contributors)}

    def score(self, checkpoint):
        """Accuracy by task file."""
        files = ",".join(str(f) for f in sorted((DATA / "blimp").glob("*.jsonl")))
        if not files:
            return {}
        return dict(task_line(line) for line in look("eval", "--checkpoint", checkpoint, "--task", files))

    def loss_on(self, checkpoint, corpus):
        """Held-out loss on one of several corpora, over as many tokens as an evaluation of the run reads from all of them."""
        spec = self.planned.spec
        line, = look("eval-loss", "--checkpoint", checkpoint, "--manifest", corpus, "--sequence-length", spec["data"]["sequence_length"],
                     "--max-tokens", spec["evaluation"]["max_tokens"])
        return round(line["loss"], 6)


def look(what, *options):
    """Output of atoll-worker for a checkpoint: its JSON lines."""
    done = subprocess.run([str(BIN / "atoll-worker"), what, *map(str, options), "--threads", "1"], capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise Failed(f"atoll-worker {what} ended with {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def task_line(line):
    return pathlib.Path(line["task"]).stem, round(line["accuracy"], 4)


def prepare(study):
    """The corpora of a study, made once for all studies that read the same text."""
    parts = [[c] for c in study.corpora] if study.separate_corpora else [study.corpora]
    each = study.corpus_bytes // len(study.corpora)
    return [prepare_one(part, each) for part in parts]


def prepare_one(names, each):
    out = FOLDER / "data" / ("-".join(pathlib.Path(n).stem for n in names) + f"-{each}")
    if (out / "manifest.json").exists():
        return out
    files = [DATA / "corpus" / name for name in names]
    missing = [str(f) for f in files if not f.is_file()]
    if missing:
        fail(f"there is no {', '.join(missing)}; set ATOLL_TEST_DATA to a folder with corpus/*.jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    text = FOLDER / f"{out.name}.jsonl"
    with open(text, "w", encoding="utf-8") as merged:
        for file in files:
            taken = 0
            for line in open(file, encoding="utf-8"):
                if taken >= each:
                    break
                taken += len(line)
                merged.write(line)
    made = subprocess.run([BIN / "atoll", "data", "prepare", text, "--out", out, "--held-out", "0.05", "--quiet"])
    if made.returncode != 0:
        fail(f"{', '.join(names)} of {DATA / 'corpus'} cannot be prepared; what 'atoll data prepare' says stands above")
    return out


def pretrain(study, corpora):
    """Folder of the parameters that every arm starts from, and their SHA-256; made once for all studies with such a start."""
    if not study.pretraining:
        return None, None
    out = study.pretraining.folder
    if not (out / "model.safetensors").exists():
        print(f"{study.label}: pretraining, {study.pretraining_steps} steps", flush=True)
        half = out.with_name(out.name + ".half")
        shutil.rmtree(half, ignore_errors=True)
        with Run(study.pretraining, FOLDER / "runs" / f"{study.label}-{os.getpid()}-pretraining") as playing:
            outcome = playing.play(corpora, keep=half)
        print(f"{study.label}: pretraining: loss {outcome['loss']:.4f} after {outcome['seconds']:.0f} s", flush=True)
        half.rename(out)
    return out, hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()[:16]
