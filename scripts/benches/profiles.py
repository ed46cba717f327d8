# SPDX-License-Identifier: Apache-2.0
"""Where processor time goes: samples of perf over the whole machine, each counted to the first part that it belongs to."""
import collections
import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from benches import fleet, machine, training

WHAT = "where the processor time of rounds, transport and the training step goes, by perf"
ROUNDS = 12  # rounds of a job; as many GB each way, and twice as many training steps
HERTZ = 499  # samples a second of each core: no multiple of anything periodic
WARM_UP = 3  # training steps
JOBS = (("mxfp4", False, "disk"), ("fp32", False, "disk"), ("fp32", True, "disk"), ("fp32", False, "tmpfs"), ("fp32", True, "tmpfs"))
KINDS = {"tcp": "raw TCP", "plaintext": "gRPC, plaintext", "tls": "raw TLS", "mtls": "gRPC, mutual TLS"}  # as bench_transport and as the page call them
FRAGMENTS = (32, 100)  # MiB
CONNECTIONS = (1, 2, 4)
IDLE = "idle"
FOREIGN = "other processes"  # the machine's, and scripts/bench itself: in no share and in no sum
APART = (IDLE, FOREIGN)

# Of a sample: process, name of the process that it was told to be ("coordinator", "worker", "kernel"), "" where there is one alone, IDLE or FOREIGN; library, the file of the innermost
# function; symbol, that function; kernel, the functions of the kernel from the innermost out to the system call, in one string.
Sample = collections.namedtuple("Sample", "process library symbol kernel")

# The first that fits holds. `kernel` and `symbol` are searched, `library` begins the file's name.
Part = collections.namedtuple("Part", "name kernel symbol library", defaults=(None, None, None))
PARTS = [
    Part("files: written", kernel=r"generic_perform_write|ext4_file_write_iter|shmem_file_write_iter|ext4_buffered_write|iomap_dio_rw|fallocate"),
    Part("files: flushed and written back", kernel=r"sync_file_range|ext4_sync_file|do_fsync|wb_workfn|jbd2|kjournald|blk_|virtblk|wb_do_writeback"),
    Part("files: read", kernel=r"filemap_read|ext4_file_read_iter|shmem_file_read_iter"),
    Part("sockets: copies, TCP and polling", kernel=r"tcp_|inet_|sock_|__sys_(send|recv)|net_rx_action|epoll|eventfd|unix_"),
    Part("pages: fresh ones cleared and mapped", kernel=r"exc_page_fault|clear_page|clear_huge|__x64_sys_(mmap|munmap|brk|madvise|mprotect)"),
    Part("kernel: threads and the rest", kernel=r"."),
    Part("OpenSSL, nearly all of it AES-GCM", library=("libcrypto", "libssl")),
    Part("heap", symbol=r"^(__libc_)?(malloc|calloc|free|realloc|cfree|_int_malloc|_int_free|malloc_consolidate|unlink_chunk.*|sysmalloc|systrim.*|operator new.*|operator delete.*)$"),
    Part("copies by memcpy and memset", symbol=r"mem(cpy|move|set|cmp)", library="libc.so"),
    Part("checksums and digests", symbol=r"[Cc]rc32c|ByProducts|XXH3|XXH_|[Dd]igest|ContentHash|LeafHash"),
    Part("checksums and digests", library="libxxhash"),
    Part("products of matrices", symbol=r"gemm|GEMM|jit_|brgemm|mkl_blas|mkl_|dnnl|sgemm|xbyak"),
    Part("products of matrices", library=("[JIT]", "[anon", "//anon", "anon", "[unknown]", "perf-")),  # what oneDNN has compiled
    Part("attention and its gradient", symbol=r"[Aa]ttention"),
    Part("optimizer and the norm of gradients", symbol=r"cpu_step|Adamw|AdamW|StepKernel|GradientNorm"),
    Part("row kernels: RMSNorm, rotation, SwiGLU, loss", symbol=r"row_kernels|RmsNorm|Rotat|SwiGlu|Swiglu|CrossEntropy|LossOf"),
    Part("LibTorch", library=("libtorch", "libc10", "libgomp", "libATen")),
    Part("passes over parameters", symbol=r"N_AVX|N_SSE|codec|Aggregat|FragmentReplica|OuterStep|Nesterov|MergeInto|hwy::"),
    Part("gRPC, protobuf, Abseil", library=("libgrpc", "libgpr", "libprotobuf", "libabsl", "libupb", "libre2", "libaddress_sorting", "libcares")),
    Part("libc: locks, clocks and the rest", library=("libc.so", "ld-linux", "[vdso]", "libstdc++", "libm.so")),
]
REST = "Atoll's own code beside the passes"


class Recording:
    """with Recording() as seen: ...; then seen.samples(names), where names[pid] tells whose process it was."""

    def __init__(self):
        if not shutil.which("perf"):
            sys.exit("bench: perf is not there: scripts/setup installs linux-perf")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="atoll-profile-")
        self.file = f"{self.folder.name}/perf.data"
        self.errors = open(f"{self.folder.name}/errors", "w+")
        self.perf = subprocess.Popen(["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(HERTZ), "-g", "-o", self.file], stderr=self.errors)
        return self

    def __exit__(self, *_):
        self.perf.send_signal(signal.SIGINT)
        self.perf.wait()

    def samples(self, names):
        told = subprocess.run(["perf", "script", "--no-inline", "-i", self.file, "-F", "comm,pid,tid,ip,sym,dso"], stdout=subprocess.PIPE,
                              stderr=self.errors, text=True, errors="replace").stdout
        found = [s for s in map(lambda block: sample(block, names), told.split("\n\n")) if s]
        self.errors.seek(0)
        said = self.errors.read().strip()
        self.folder.cleanup()
        if not found:
            sys.exit(f"bench: perf saw nothing of the whole machine, which root may watch or everybody with kernel.perf_event_paranoid=0: {said}")
        return found


@functools.cache
def is_kernels(pid):
    """A thread of the kernel's own: a child of kthreadd, or that itself. A process that has ended is none."""
    try:
        parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return False
    return pid == 2 or parent == "2"


def sample(block, names):
    """Of a block of perf script: a line of who, then a line a function, the innermost first."""
    head, *rest = block.strip("\n").splitlines() or [""]
    who = re.match(r"^(.*?)\s+(-?\d+)/(-?\d+)", head)
    if not who or not rest:
        return None
    name, pid = who.group(1).strip(), int(who.group(2))
    if name == "perf":
        return None
    frames = [re.match(r"^\s*[0-9a-f]+ (.*) \((.*)\)$", line) for line in rest]
    frames = [(f.group(1), f.group(2)) for f in frames if f]
    if not frames:
        return None
    kernel = []
    for symbol, library in frames:
        if not library.startswith("[kernel") and not library.startswith("[guest"):
            break
        kernel.append(symbol)
    process = IDLE if pid == 0 or "swapper" in name else names.get(pid, "kernel" if is_kernels(pid) else FOREIGN)
    return Sample(process, os.path.basename(frames[0][1]), frames[0][0], " ".join(kernel))


def fits(part, found):
    if part.kernel or found.kernel:
        return bool(part.kernel and re.search(part.kernel, found.kernel))
    return (not part.symbol or re.search(part.symbol, found.symbol)) and (not part.library or found.library.startswith(part.library))


def part_of(found):
    return found.process if found.process in APART else next((part.name for part in PARTS if fits(part, found)), REST)


def counted(samples, units):
    """{part or "process: part": processor seconds a unit}, and those that were idle or somebody else's."""
    seconds = collections.Counter()
    for s in samples:
        part = part_of(s)
        seconds[part if s.process in (*APART, "kernel", "") else f"{s.process}: {part}"] += 1 / HERTZ / units
    return dict(seconds)


def rounds_group(name, count, **job):
    """Whole rounds as scripts/bench rounds plays them."""
    recording, names = Recording(), {}

    @contextlib.contextmanager
    def watch(processes):
        names.update({p.pid: "coordinator" if i == 0 else "worker" for i, p in enumerate(processes)})
        with recording:
            yield
    played = fleet.rounds(counted=count, watch=watch, **job)
    return {"name": name, "seconds": counted(recording.samples(names), len(played.seconds))}


def transport_group(program, up, mebibytes, connections, kind, gigabytes):
    """The program with this kind alone, its start included."""
    rounds = max(1, round(gigabytes * 1e9 / (mebibytes * connections * 2**20)))
    command = [program, str(rounds), "--only", kind, "up" if up else "down", str(mebibytes * 1024), str(connections)]
    with Recording() as recording, subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        if process.wait():
            sys.exit(f"bench: {' '.join(command)} ended with status {process.returncode}")
    moved = (rounds + 1) * connections * mebibytes * 2**20  # one round is not timed
    return {"name": f"{'upload' if up else 'download'}, {mebibytes} MiB, by {connections}: {KINDS[kind]}", "seconds": counted(recording.samples({process.pid: ""}), moved / 1e9)}


def training_group(precision, count):
    program = str(machine.built("bench-training", "bench_training") / "bench_training")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "write", folder], check=True)
        side = next(training.sides(program, folder, precision, 1, peers=()))
        side.turn(WARM_UP, timed=False)
        with Recording() as recording:
            side.turn(count, timed=False)
        side.close()
    return {"name": precision, "seconds": counted(recording.samples({side.process.pid: ""}), count)}


def measure(count):
    fleet.programs()
    program = str(machine.built("bench", "bench_transport") / "bench_transport")
    with machine.ForeignLoad() as load:
        rounds = [[rounds_group(f"{codec}, {'mTLS' if sealed else 'plaintext'}, {state}", count, model=model, codec=codec, state=state, mutual_tls=sealed)
                   for codec, sealed, state in JOBS] for model in fleet.MODELS]
        transport = [transport_group(program, up, mebibytes, connections, kind, count)
                     for mebibytes in FRAGMENTS for up in (True, False) for connections in CONNECTIONS for kind in KINDS]
        steps = [training_group(precision, 2 * count) for precision in ("fp32", "bf16")]
    groups = [{"what": what, "unit": unit, "columns": columns, "foreign_cores": load.cores}
              for what, unit, columns in (*((f"Whole rounds, {model}", "a round", played) for model, played in zip(fleet.MODELS, rounds)),
                                          ("Transport", "a GB", transport), ("Training", "a step", steps))]
    return {"machine": machine.described(), "groups": groups}


def table(answer):
    lines = []
    for group in answer["groups"]:
        columns = group["columns"]
        parts = sorted({part for c in columns for part in c["seconds"] if part not in APART}, key=lambda part: -max(c["seconds"].get(part, 0) / busy(c) for c in columns))
        told = [part for part in parts if max(c["seconds"].get(part, 0) / busy(c) for c in columns) >= 0.01]
        rows = [["part", *(c["name"] for c in columns)]]
        rows += [[part, *(cell(c, c["seconds"].get(part, 0)) for c in columns)] for part in told]
        rows.append(["parts below 1 %", *(cell(c, sum(c["seconds"].get(p, 0) for p in parts if p not in told)) for c in columns)])
        rows.append(["**all**", *(f"{busy(c):.3g}" for c in columns)])
        rows.append(["of both cores idle", *(f"{of_both_cores(c, IDLE):.0%}" for c in columns)])
        if any(FOREIGN in c["seconds"] for c in columns):  # figures of before have them among the parts
            rows.append([f"of both cores {FOREIGN}", *(f"{of_both_cores(c, FOREIGN):.0%}" for c in columns)])
        if len(columns) > len(told):
            rows = [list(row) for row in zip(*rows)]
        lines += [f"**{group['what']}**, CPU seconds {group['unit']} and share of them:", "", line(rows[0]), "|---" * len(rows[0]) + "|", *map(line, rows[1:]), ""]
    return lines[:-1]


def line(cells):
    return f"| {' | '.join(cells)} |"


def busy(column):
    return sum(seconds for part, seconds in column["seconds"].items() if part not in APART)


def of_both_cores(column, what):
    return column["seconds"].get(what, 0) / sum(column["seconds"].values())


def cell(column, seconds):
    return f"{seconds:.3f}, {seconds / busy(column):.0%}" if seconds else ""
