# SPDX-License-Identifier: Apache-2.0
"""Runs the real programs for a test: real sockets, real files, real signals.

A test is a file with a function that takes a Scene, and `main(function)` as its last line. A Scene owns a directory
and every process that it starts. At the end it kills all of them; if the test failed it prints their logs. A
coordinator's ports are free ports that the system assigns to no other process, so that it can restart with the same
ports. All other ports are chosen by the system and read from the ports files. Every wait has a deadline and waits for
an event: a file, a line, a state, the end of a process.

Environment: ATOLL_BIN, the folder of the programs; ATOLL_SCRATCH, a folder for the scenes; ATOLL_TEST_DATA, a folder
with real text [shared/data beside the repository], without which there is none. A test exits with 0, 1 or, if it
cannot run here, 77 with a message.
"""
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

SKIPPED = 77
LOG_TAIL_LINES = 60
LOOK_INTERVAL_SECONDS = 0.1
COORDINATOR_BASE_MB = 64  # reserved for a coordinator without its jobs (docs/capacity.md, "Memory")
ALLOWANCE = 1.15  # over a published bound: overhead of the allocator and gRPC
BIN = pathlib.Path(os.environ.get("ATOLL_BIN", "build/dev/bin")).resolve()
FOREIGN_READER = pathlib.Path(__file__).resolve().parents[1] / "foreign/reader.py"
TEST_DATA = pathlib.Path(os.environ.get("ATOLL_TEST_DATA") or pathlib.Path(__file__).resolve().parents[3] / "shared/data")


class Failure(Exception):
    """An expectation of the test that was not met."""


class Skip(Exception):
    """The reason why the test cannot run here."""


def check(condition, sentence):
    if not condition:
        raise Failure(sentence)


def equal(have, want, what):
    check(have == want, f"{what} is {have!r}, not {want!r}")


def close(have, want, relative, what):
    check(abs(have - want) <= relative * abs(want), f"{what} is {have}, not within {relative} of {want}")


def check_peak(coordinator, what, jobs_mb=0):
    """The coordinator's peak memory is within its published bound; `jobs_mb`: the share of its jobs."""
    peak, bound = coordinator.peak_mb(), COORDINATOR_BASE_MB + jobs_mb
    print(f"{what}: {peak:.0f} MiB in memory at most, bound {bound:.0f} MiB")
    check(peak <= ALLOWANCE * bound, f"{what}: {peak:.0f} MiB in memory, more than {ALLOWANCE} of the bound of {bound:.0f} MiB")


def wait_for(what, look, seconds=60, alive=()):
    """Calls look() until it returns a true value, and returns that value. The processes in `alive` must not end
    meanwhile."""
    limit = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        value = look()
        if value:
            return value
        for process in alive:
            check(process.popen.poll() is None, f"{process.name} ended with {process.popen.returncode} while waiting for {what}")
        check(time.monotonic() < limit, f"{what}: not seen within {seconds} s")
        pause.wait(LOOK_INTERVAL_SECONDS)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no orphans when ctest ends this test


class Process:
    """A background program. Standard output and error go to one log; a later process of the same name appends to it."""

    def __init__(self, scene, name, command, environment):
        self.name = name
        self.log_path = scene.directory / f"{name}.log"
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()
            self.popen = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=subprocess.STDOUT, env=environment, preexec_fn=die_with_parent)

    @property
    def pid(self):
        return self.popen.pid

    def resident_mb(self):
        return self.memory_mb("VmRSS")

    def peak_mb(self):
        """The peak resident memory."""
        return self.memory_mb("VmHWM")

    def memory_mb(self, which):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{which}:\s+(\d+) kB", status).group(1)) / 1024

    def log(self):
        """The output of this process, without that of earlier processes of the same name."""
        return self.log_path.read_bytes()[self.log_start:].decode(errors="replace")

    def check_alive(self):
        check(self.popen.poll() is None, f"{self.name} has ended with {self.popen.returncode}")

    def end(self, seconds=60):
        """Waits for its end. Returns the exit status, negative for a signal."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end within {seconds} s") from None

    def send(self, number):
        self.popen.send_signal(number)

    def kill(self):
        """kill -9; the process is gone on return."""
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()

    def terminate(self, seconds=60):
        """SIGTERM; returns the exit status."""
        self.send(signal.SIGTERM)
        return self.end(seconds)


class Coordinator(Process):
    def __init__(self, scene, name, command, environment, ports_file):
        super().__init__(scene, name, command, environment)
        self.ports_file = ports_file
        self.ports = {}

    def wait_ready(self, seconds=30):
        wait_for(f"the ports of {self.name}", self.ports_file.exists, seconds, [self])
        self.ports = json.loads(self.ports_file.read_text())
        return self

    def page(self, path):
        return http_get(f"http://127.0.0.1:{self.ports['admin']}{path}")


class Worker(Process):
    def __init__(self, scene, name, command, environment, ports_file):
        super().__init__(scene, name, command, environment)
        self.ports_file = ports_file

    def page(self, path):
        return http_get(f"http://127.0.0.1:{self.admin_port()}{path}")

    def admin_port(self):
        wait_for(f"the ports of {self.name}", self.ports_file.exists, 30, [self])
        return json.loads(self.ports_file.read_text())["admin"]


def http_get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Ran:
    """A program that has ended."""

    def __init__(self, result):
        self.code, self.out, self.err = result.returncode, result.stdout, result.stderr

    def json(self):
        return json.loads(self.out)

    def jsonl(self):
        return [json.loads(line) for line in self.out.splitlines()]


def program(name):
    if not (BIN / name).exists():
        raise Skip(f"{name} is not built")
    return BIN / name


class Scene:
    def __init__(self, directory):
        self.directory = directory
        self.processes = []
        self.endpoint = None  # of the newest coordinator
        self.identity = None  # identity file of the command line; None: plaintext
        self.debuggable = os.geteuid() != 0  # only root may read /proc/PID of programs that hold keys

    # ---- processes

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ATOLL_")}
        if self.debuggable:
            kept["ATOLL_DEBUGGABLE"] = "1"
        return kept | {"HOME": str(self.directory), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"} | more

    def start(self, name, command, **environment):
        process = Process(self, name, command, self.environment(**environment))
        self.processes.append(process)
        return process

    def launch_coordinator(self, *options, name="coordinator", state="state", ports=None, threads=1, through=(), **environment):
        """Starts a coordinator without waiting, in plaintext unless --trust is among the options. `ports`: of an
        earlier coordinator, to restart at the same address. `through`: as for a worker."""
        ports = ports or {kind: lasting_port() for kind in ("control", "bulk", "admin")}
        ports_file = self.directory / f"{name}.ports"
        ports_file.unlink(missing_ok=True)
        command = [*through, program("atoll-coordinator"), "--state-dir", self.path(state), "--ports-file", ports_file, "--threads", threads,
                   *(x for kind, port in ports.items() for x in (f"--{kind}-port", port)), *options,
                   *(() if "--trust" in options else ("--insecure",))]
        coordinator = Coordinator(self, name, command, self.environment(**environment), ports_file)
        self.processes.append(coordinator)
        return coordinator

    def coordinator(self, *options, **where):
        """Starts a coordinator and waits until it is ready."""
        coordinator = self.launch_coordinator(*options, **where).wait_ready()
        self.endpoint = f"127.0.0.1:{coordinator.ports['control']}"
        return coordinator

    def worker(self, name, coordinator, *options, host="127.0.0.1", through=(), **environment):
        """Starts a worker that dials `host`; it may not be connected yet on return. `through`: a command that execs
        its remaining arguments."""
        ports_file = self.path(f"{name}.ports")
        ports_file.unlink(missing_ok=True)
        command = [*through, program("atoll-worker"), "--name", name, "--coordinator", f"{host}:{coordinator.ports['control']}",
                   "--coordinator-bulk", f"{host}:{coordinator.ports['bulk']}", "--threads", "1", "--device", "cpu",
                   "--cache-dir", self.path(f"cache-{name}"), "--ports-file", ports_file, *options]
        worker = Worker(self, name, command, self.environment(**environment), ports_file)
        self.processes.append(worker)
        return worker

    def run(self, name, *arguments, code=0, seconds=120, **environment):
        """Runs a program to its end. `code`: the required exit status, None for any."""
        said = f"{name} {' '.join(map(str, arguments))}"
        with_endpoint = {"ATOLL_ENDPOINT": self.endpoint} if self.endpoint and name == "atoll" else {}
        if self.identity and name == "atoll":
            with_endpoint["ATOLL_IDENTITY"] = str(self.identity)
        try:
            result = subprocess.run([str(program(name)), *map(str, arguments)],
                                    env=self.environment(**(with_endpoint | environment)), cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                    errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{said} did not end within {seconds} s; it said {late.stderr!r}") from None
        ran = Ran(result)
        check(code is None or ran.code == code, f"{said} ended with {ran.code}, not {code}: {ran.err}{ran.out[-2000:]}")
        return ran

    def atoll(self, *arguments, **how):
        return self.run("atoll", *arguments, **how)

    # ---- jobs

    def job(self, name):
        """The job as the coordinator shows it. Absent fields are zero: JSON omits them."""
        return self.atoll("-o", "json", "job", "get", name).json()

    def listed_worker(self, name):
        """The worker as the coordinator shows it, also after it has left."""
        workers = self.atoll("-o", "json", "worker", "list", "--all").json()["workers"]
        return next(w for w in workers if w["name"] == f"workers/{name}")

    def logged_events(self, name, state="state"):
        """Every line of the job's event log; `describe` shows only the newest. Skips an incomplete line, as any
        reader must: it is being written, or its coordinator was killed."""
        events, torn = [], 0
        for line in self.path(f"{state}/events/{name}.jsonl").read_text(errors="replace").splitlines():
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError:
                torn += 1
        coordinators = sum(isinstance(process, Coordinator) for process in self.processes)
        check(torn <= coordinators, f"{torn} lines of the event log of {name} are not JSON, after {coordinators} coordinators")
        return events

    def describe(self, name):
        return self.atoll("-o", "json", "job", "describe", name).json()

    def wait_job(self, name, condition, what, seconds=90, alive=()):
        """Polls until condition(job). The ledger must balance at every poll."""
        def look():
            job = self.job(name)
            check_balance(job)
            return job if condition(job) else None
        return wait_for(f"{what} of {name}", look, seconds, alive)

    def wait_round(self, name, rounds, seconds=90, alive=()):
        return self.wait_job(name, lambda job: number(job, "round") >= rounds, f"round {rounds}", seconds, alive)

    def wait_end(self, name, seconds=120):
        """Waits until the job has succeeded; returns the job."""
        ran = self.atoll("-o", "json", "--timeout", f"{seconds}s", "job", "wait", name, code=None, seconds=seconds + 30)
        check(ran.code == 0, f"job {name} did not succeed: wait ended with {ran.code}: {ran.out}{ran.err}")
        job = ran.json()
        equal(job["state"], "JOB_STATE_SUCCEEDED", f"the state of {name}")
        check_balance(job)
        return job

    def end_after(self, name, steps=600):
        """Ends a job without a stop of its own (ENDLESS steps) after this number of further inner steps, and waits
        for the end; returns the job."""
        last = number(self.job(name), "step") + steps
        self.atoll("job", "update", name, "--set", f"stop.inner_steps={last}")
        job = self.wait_end(name)
        equal(number(job, "step"), last, "the job clock at the end")
        return job

    def submit(self, name, corpus, *options, **spec):
        """Submits a small job; see small_job for the keys."""
        ran = self.atoll("-o", "name", "job", "submit", self.job_file(name, corpus, **spec), *options)
        equal(ran.out, f"jobs/{name}\n", "what submit prints")
        return name

    # ---- audits of a state that nobody writes

    def verify(self, state="state", code=0):
        """The report of atoll-coordinator verify."""
        return self.run("atoll-coordinator", "verify", "--state", self.path(state), "-o", "json", code=code).json()

    def replay(self, state="state", code=0):
        """The report of atoll-coordinator replay. Every stored round must be equal, also for the independent reader."""
        report = self.run("atoll-coordinator", "replay", "--state", self.path(state), "-o", "json", code=code, seconds=300).json()
        if code == 0:
            counts = report["counts"]
            equal(counts["rounds equal"] + counts["rounds without a state to start from"], counts["rounds held"],
                  "the number of rounds that replay found equal")
            # The reader in Python shares no code with the programs. It must recompute the same rounds.
            ran = subprocess.run(["/usr/bin/python3", "-B", FOREIGN_READER, self.path(state)], capture_output=True, text=True, check=False)
            check(ran.returncode == 0, f"the independent reader ended with {ran.returncode}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}")
            equal(json.loads(ran.stdout)["counts"].get("rounds recomputed", 0), counts["rounds equal"], "the rounds that it recomputed")
        return report

    # ---- files

    def job_file(self, name, corpus, **spec):
        """Writes the file of a small job; returns its path."""
        file = self.path(f"{name}.json")
        file.write_text(json.dumps(small_job(name, corpus, **spec), indent=1))
        return file

    def path(self, name):
        return self.directory / name

    def corpus(self, name="text", text_bytes=150_000, root="data", text=None, options=()):
        """Prepares a text, generated by default, as a corpus below `root`; returns the path of its manifest."""
        source = self.path(f"{name}.txt")
        source.write_text(text or generated_text(text_bytes), encoding="utf-8")
        directory = self.path(root) / name
        self.atoll("data", "prepare", source, "--out", directory, "--held-out", "0.1", "--text-split", "paragraphs", "--quiet", *options)
        return directory / "manifest.json"

    def close(self, failed):
        for process in reversed(self.processes):
            process.kill()
        if failed:
            for log in sorted(self.directory.glob("*.log")):
                tail = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
                print(f"---- {log.name}, its last lines", *tail, sep="\n")


def number(message, key):
    """A number of a message; JSON has 64-bit numbers as text."""
    return int(message.get(key, 0))


def check_balance(job):
    """unleased + leased + consumed + abandoned = dataset."""
    ledger = job.get("ledger", {})
    parts = [number(ledger, key) for key in ("unleased", "leased", "consumed", "abandoned")]
    check(sum(parts) == number(ledger, "dataset"), f"the ledger of {job['name']} does not balance: {ledger}")


def small_job(name, corpus, steps=60, inner_steps=10, sync=(), model=(), **spec):
    """About 20,000 parameters. Written as JSON, which is valid YAML."""
    full = {
        "model": {"hidden_size": 32, "intermediate_size": 64, "layers": 1, "heads": 2, "kv_heads": 1, **dict(model)},
        "data": {"corpora": [{"manifest": str(corpus)}], "sequence_length": 32},
        "batch": {"sequences_per_step": 4},
        "inner_optimizer": {"learning_rate": 0.01, "schedule": {"kind": "constant"}},
        "sync": {"inner_steps": inner_steps, **dict(sync)},
        "workers": {"min": 1, "max": 4, "planned": 2},
        "stop": {"inner_steps": steps},
        "evaluation": {"every_rounds": 0, "max_tokens": 4096},
    } | spec
    return {"apiVersion": "atoll/v1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": full}


def real_text(size):
    """The beginning of a real text, None if there is none."""
    file = TEST_DATA / "corpus" / "tinyshakespeare.txt"
    return file.read_text(encoding="utf-8")[:size] if file.is_file() else None


def generated_text(size, seed=7):
    """Paragraphs of artificial words with a simple grammar, regular enough to be learnt in seconds."""
    dice = random.Random(seed)
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(dice.choices(syllables, k=dice.randint(1, 3))) for _ in range(60)]
    after = {word: dice.sample(words, 4) for word in words}
    paragraphs, length = [], 0
    while length < size:
        word, sentence = dice.choice(words), []
        for _ in range(dice.randint(20, 60)):
            sentence.append(word)
            word = dice.choice(after[word])
        paragraphs.append(" ".join(sentence) + ".")
        length += len(paragraphs[-1]) + 2
    return "\n\n".join(paragraphs) + "\n"


asked_ports = 0


def lasting_port():
    """A free port below the range from which the system assigns ports to bind(0) and to connections: no process takes
    it while its owner is away. 0, meaning any, if that range leaves few ports below."""
    global asked_ports
    first, least = 10_000, int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if least - first < 10_000:
        return 0
    while True:
        asked_ports += 1  # starts at a number specific to this process, never the same twice
        port = first + (os.getpid() * 97 + asked_ports) % (least - first)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def free_port():
    """A port on which no process listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


ESTABLISHED, LISTEN = "01", "0A"  # states of TCP sockets, as in /proc


def tcp_table(pid):
    """The TCP sockets visible to a process: (local address, local port, remote port, state, inode), as in /proc."""
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            (address, port), (_, remote) = (fields[i].rsplit(":", 1) for i in (1, 2))
            yield address, int(port, 16), int(remote, 16), fields[3], fields[9]


def sockets_of(pid):
    """TCP sockets of a process as (local port, remote port, state), from /proc alone."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(fd) if fd.is_symlink() else ""
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return [(local, remote, state) for _, local, remote, state, inode in tcp_table(pid) if inode in inodes]


def main(test):
    """Runs `test` in its own scene and exits."""
    name = pathlib.Path(sys.argv[0]).stem
    scratch = pathlib.Path(os.environ.get("ATOLL_SCRATCH", tempfile.gettempdir() + "/atoll-scenes"))
    directory = (scratch / name).resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    scene, status = Scene(directory), 1
    try:
        test(scene)
        status = 0
    except Skip as why:
        print(f"skipped: {why}")
        status = SKIPPED
    except Failure as failure:
        line = traceback.extract_tb(failure.__traceback__)
        at = next((f for f in reversed(line) if f.filename == sys.argv[0]), line[-1])
        print(f"FAILED at {pathlib.Path(at.filename).name}:{at.lineno}: {failure}")
    except Exception:  # a mistake in the test itself, or an unexpected form of an answer
        traceback.print_exc(file=sys.stdout)
    finally:
        scene.close(failed=status == 1)
    sys.exit(status)
