# SPDX-License-Identifier: Apache-2.0
"""The training step compared with PyTorch: the same model, first parameters, batches, recipe, types and threads."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from benches import figures, gpu, machine

WHAT = "tokens a second of the training step beside PyTorch eager and torch.compile"
ROUNDS = 9
STEPS = 4  # in one turn
WARM_UP = 3  # steps of every side before the first round: torch.compile compiles in the first
GPU_WARM_UP = 5  # passes are recorded in the fourth
GOAL = 1.1  # of torch.compile
MODELS = ("124m", "1b")  # on a GPU, in bf16
GPU_STEPS = 60  # of the turn in which the driver reports how busy the card is
COMPILED = "torch.compile"
GPU_GOAL = 0.5  # of the rate of matrix products that the card reaches
PEER = pathlib.Path(__file__).with_name("training_peer.py")
# The worker's own malloc setting (worker/main.cc), for a peer.
TUNED = "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=2147483647:glibc.malloc.top_pad=268435456"
PEERS = {"PyTorch eager": ("eager", {}), "torch.compile": ("compile", {}),
         "torch.compile, malloc as ours": ("compile", {"GLIBC_TUNABLES": TUNED})}


def python():
    """ATOLL_BENCH_PYTHON, or the environment of the oracles, which has PyTorch without CUDA's libraries; exits with an
    error message when that or a header is missing."""
    if "ATOLL_BENCH_PYTHON" in os.environ:
        return os.environ["ATOLL_BENCH_PYTHON"]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    path = cache / "atoll/oracles-1/bin/python"
    if not path.exists():
        sys.exit(f"bench: {path} is missing: scripts/setup --oracles installs PyTorch")
    asked = "import sysconfig; print(sysconfig.get_path('include', 'posix_prefix'))"
    include = subprocess.run([path, "-c", asked], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    if not (pathlib.Path(include) / "Python.h").exists():
        sys.exit(f"bench: {include}/Python.h is not there, and torch.compile needs it: scripts/setup installs libpython3.11-dev")
    return str(path)


class Side:
    """A process that takes steps on request and sleeps otherwise."""

    def __init__(self, name, command, environment):
        self.name, self.losses, self.seconds, self.cpu_seconds = name, [], [], []
        self.process = subprocess.Popen(command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: the side '{self.name}' ended with status {self.process.wait()}; its words are above")
        return json.loads(line)

    def turn(self, steps, timed):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        done = self.answer()
        self.losses += done["losses"]
        if timed:
            self.seconds.append(done["seconds"])
            self.cpu_seconds.append(done["cpu_seconds"])

    def close(self):
        self.process.stdin.close()
        if self.process.wait():
            sys.exit(f"bench: the side '{self.name}' ended with status {self.process.returncode}")


def sides(program, folder, precision, threads, peers=tuple(PEERS)):
    """Starts Atoll and then the peers, each as a process that has loaded its training state."""
    # Kernels are compiled for a number of threads, which is not part of the cache's key.
    environment = {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_COMPILE_THREADS": "1",
                   "TORCHINDUCTOR_CACHE_DIR": str(machine.ROOT / f"build/bench-training/inductor-{threads}")}
    yield Side("Atoll", [program, "train", precision, str(threads)], environment)
    for name, (kind, more) in ((name, PEERS[name]) for name in peers):
        yield Side(name, [python(), "-W", "ignore", PEER, folder, kind, precision, str(threads)], environment | more)


def apart(ours, theirs):
    """The largest relative difference of a loss."""
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def group(program, folder, precision, threads, rounds, recipe):
    with machine.ForeignLoad() as load:
        running = list(sides(program, folder, precision, threads))
        for side in running:
            side.turn(WARM_UP, timed=False)
        for _ in range(rounds):
            for side in running:
                side.turn(STEPS, timed=True)
        for side in running:
            side.close()
    ours = running[0]
    # The work of a turn is stored as "bytes", as in all benchmarks, but counts tokens here.
    tokens = STEPS * recipe["batch"] * recipe["length"]
    samples = [{"name": s.name, "bytes": tokens, "seconds": s.seconds, "cpu_seconds": s.cpu_seconds, "loss": s.losses[-1],
                "apart": apart(ours.losses, s.losses)} for s in running]
    print(f"{precision}, {threads} threads: {rounds} rounds", file=sys.stderr)
    return {"name": precision, "threads": threads, "foreign_cores": load.cores, "steps": len(ours.losses), "samples": samples}


def peers_on_gpu():
    """Why the peers cannot run on the card; false if they can. The environment of the oracles has no CUDA:
    ATOLL_BENCH_PYTHON names one that has."""
    done = subprocess.run([python(), "-c", "import torch; assert torch.cuda.is_available(), 'its PyTorch sees no CUDA device'"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    return done.returncode and (done.stderr.strip().splitlines() or ["it cannot be started"])[-1]


def gpu_sides(program, folder, model):
    """(name, command) of each."""
    atoll = [program, "train", "bf16", "1", "--model", model, "--device", "gpu"]
    kernels, recorded = ["--pass-kernels", "auto"], ["--cuda-graph", "auto"]
    yield "Atoll, as a worker is by itself", atoll
    yield "Atoll, --pass-kernels auto", [*atoll, *kernels]
    yield "Atoll, --cuda-graph auto", [*atoll, *recorded]
    yield "Atoll, both", [*atoll, *kernels, *recorded]
    if why := peers_on_gpu():
        print(f"bench: warning: no peers on the GPU: {python()}: {why}; set ATOLL_BENCH_PYTHON to one with CUDA", file=sys.stderr)
        return
    for kind, name in (("eager", "PyTorch eager"), ("compile", COMPILED)):
        for heads in ("repeated", "shared"):
            yield f"{name}, {heads} key heads", [python(), "-W", "ignore", PEER, folder, kind, "bf16", "1", "cuda", heads]


def gpu_sample(name, command, recipe, rounds):
    side = Side(name, command, {})
    side.turn(GPU_WARM_UP, timed=False)
    for _ in range(rounds):
        side.turn(STEPS, timed=True)
    with gpu.Busy() as busy:
        side.turn(GPU_STEPS, timed=False)
    side.close()
    return {"name": name, "bytes": STEPS * recipe["batch"] * recipe["length"], "seconds": side.seconds, "cpu_seconds": side.cpu_seconds, "busy": busy.share}, side.losses


def gpu_group(program, model, rounds, so_far=lambda group: None):
    """Runs the sides one after another, because both do not fit into memory. A failing peer is skipped with a warning;
    `so_far` receives the group after each side."""
    group, first = {"name": model, "samples": []}, None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "write", folder, "--model", model], check=True)
        group["recipe"] = json.loads((pathlib.Path(folder) / "bench.json").read_text())
        for name, command in gpu_sides(program, folder, model):
            try:
                sample, losses = gpu_sample(name, command, group["recipe"], rounds)
            except SystemExit as ended:
                if command[0] == program:
                    raise
                print(f"{ended}; the row is left out", file=sys.stderr)
                continue
            first = first or losses
            group["samples"].append(sample | {"apart": apart(first, losses)})
            so_far(group)
    print(f"{model} on the GPU: {rounds} rounds", file=sys.stderr)
    return group


def on_gpu(rounds):
    """The card's limits, and the groups of the models."""
    answer = gpu.card(rounds)
    program = str(gpu.programs("bench_training") / "bench_training")
    return answer | {"models": [gpu_group(program, model, rounds) for model in MODELS]}


def measure(rounds):
    python()
    program = str(machine.built("bench-training", "bench_training") / "bench_training")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "write", folder], check=True)
        recipe = json.loads((pathlib.Path(folder) / "bench.json").read_text())
        groups = [group(program, folder, precision, threads, rounds, recipe) for precision in ("fp32", "bf16") for threads in (2, 1)]
    return {"machine": machine.described(), "groups": groups, "recipe": recipe} | gpu.measured(rounds, on_gpu)


def gpu_lines(answer):
    if "gpu" not in answer:
        return gpu.NONE
    told = answer["gpu"]
    peak = gpu.matrix_rate(told)
    lines = ["", gpu.provenance(told), "", "| model | who | tokens/s, median | middle half | MFU | goal | | the fastest Atoll ÷ who | goal | | step outside the GPU | losses apart |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for group in told["models"]:
        speed = {s["name"]: statistics.median(s["bytes"] / t for t in s["seconds"]) for s in group["samples"]}
        best = max(rate for name, rate in speed.items() if name.startswith("Atoll"))
        compiled = max((name for name in speed if name.startswith(COMPILED)), key=speed.get, default=None)
        for s in group["samples"]:
            rates = [s["bytes"] / t for t in s["seconds"]]
            used = speed[s["name"]] * group["recipe"]["flops_per_token"] / peak
            ratio = best / speed[s["name"]]
            own = [f"{GPU_GOAL:.0%}", figures.verdict(used >= GPU_GOAL), "", "", ""]
            other = ["", "", f"{ratio:.2f}", *([f"{GOAL:.1f}", figures.verdict(ratio >= GOAL)] if s["name"] == compiled else ["", ""])]
            idle = "" if s["busy"] is None else f"{1 - s['busy']:.0%}"
            lines.append(" | ".join([f"| {group['name']}", s["name"], f"{statistics.median(rates):,.0f}", figures.spread(rates, 0), f"{used:.0%}",
                                     *(own if s["name"].startswith("Atoll") else other), idle, "" if s is group["samples"][0] else f"{s['apart']:.1e}"]) + " |")
    return [*lines, "", f"MFU: floating-point operations of the model, attention by half its square, ÷ time, as a share of the {peak / 1e12:,.0f} TFLOP/s that "
            "products of matrices reach in bf16 in the same run. The goal beside torch.compile is that beside the faster of its two. Step outside the GPU: the part of the time in which the driver saw no kernel."]


def table(answer):
    clock = "seconds" if figures.quiet(answer) else "cpu_seconds"
    lines = ["| type | threads | who | tokens/s, median | middle half | tokens a CPU second | Atoll ÷ who, by the clock | by CPU time | goal | | losses apart |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    judged = []
    for g in answer["groups"]:
        ours = g["samples"][0]
        for s in g["samples"]:
            rates = [s["bytes"] / t for t in s["seconds"]]
            by_cpu = statistics.median(s["bytes"] / t for t in s["cpu_seconds"])
            ratios = {c: statistics.median(figures.shares(ours, s, c)) for c in ("seconds", "cpu_seconds")}
            told = ["", ""]
            if s["name"] == "torch.compile":
                judged.append(ratios[clock] >= GOAL)
                told = [f"{GOAL:.1f}", figures.verdict(judged[-1])]
            others = ["", "", *told, ""] if s is ours else [f"{ratios['seconds']:.2f}", f"{ratios['cpu_seconds']:.2f}", *told, f"{s['apart']:.1e}"]
            lines.append(" | ".join([f"| {g['name']}", str(g["threads"]), s["name"], f"{statistics.median(rates):,.0f}", figures.spread(rates, 0),
                                     f"{by_cpu:,.0f}", *others]) + " |")
    recipe, steps = answer["recipe"], answer["groups"][0]["steps"]
    by = "the clock" if clock == "seconds" else "processor time, since the machine was not quiet"
    return [*lines, "", f"{recipe['parameters']:,} parameters, {recipe['batch']} × {recipe['length']} tokens a step. Losses apart: the largest relative "
            f"difference from Atoll's loss over the first {steps} steps. {sum(judged)} of {len(judged)} rows with a goal meet it, judged by {by}.",
            *gpu_lines(answer)]
