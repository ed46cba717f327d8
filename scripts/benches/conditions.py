# SPDX-License-Identifier: Apache-2.0
"""Title and conditions of each benchmark, for docs/results/benchmarks.md: what is measured, against what, and the goal."""

OF = {
    "limits": ("Limits", """
- Copy is `memcpy`. Triad is STREAM's `a[i] = b[i] + s * c[i]` over fp32. As in STREAM, the reads of a cache before it writes are not counted.
- TCP: plain sockets over loopback, writes of 1 MiB, one thread at each end.
- AES-GCM: OpenSSL, records of 16 KiB, from memory to memory. Mutual TLS negotiates AES-GCM with keys of 128 bits.
- GPU (`bench_gpu`): copies within the card's memory and over the bus from pinned memory, and products of square matrices in bf16.
"""),
    "passes": ("Codecs and passes", """
A row is one pass over n = 8,388,608 parameters. Its rate is the bytes that the pass must move ÷ time, as a share of triad with the same number of
threads; e is the size of the encoded fragment. Goals: 60% of triad for fp32, bf16, int8, the outer step and AdamW; 50% for codecs of four bits. Rows are
judged by the clock, or by processor time if the machine was not quiet.

| pass | what it does | bytes moved |
|---|---|---|
| encode | worker, `FragmentReplica::FormContribution`: pseudo-gradient, residual, norms, encoded bytes and their digest | 8 n + e, and 8 n for a residual |
| snapshot | worker: the copy of a fragment's parameters that the training thread makes on a CPU | 8 n |
| apply | worker: decodes an update into the outer copy, with its content hash | 8 n + e |
| merge | worker: the outer copy into the parameters | 8 n; 12 n with `sync.mix` |
| aggregate | coordinator, `Aggregator::CloseRound`: merge of N contributions, outer step, encoded update, hashes | 24 n + (N + 1) e |
| trimmed mean | aggregate with `sync.merge: trimmed_mean`, a quarter trimmed at either end; no goal | as aggregate |
| of zeros | apply and aggregate of fragments in which nothing moved; no goal | as above |
| screen | coordinator, `ContributionScreener`: one contribution, while its bytes arrive in pieces of 1 MiB; not part of aggregate | e |
| hash of the result | the content hash alone, which aggregate computes in its pass | 4 n |
| outer step | Nesterov alone, over momentum and pseudo-gradient | 16 n |
| AdamW | worker on a CPU, `cpu_step::Adamw`: scaled gradients, both moments, parameters, cleared gradients | 32 n; 34 n with a copy in bf16 |
| norm of the gradients | before AdamW; decides on clipping and on whether the step is taken | 4 n |

AdamW and the outer step exceed triad because they write where they have just read; triad writes an array that it has not read.

On a GPU (`bench_gpu`): the plugin's kernels over 67,108,864 parameters, as a share of a copy within the card's memory in the same round. Encode and
decode move 4 n + e, the norm 4 n, forming a contribution in one pass (`--form-on gpu`) 16 n + e, AdamW 32 n, and 34 n with the copy in bf16. Of n
values in bf16, scores that become gradients move 4 n, SwiGLU 3 n and its gradient 5 n, the rotary embedding 4 n. Goal: 75%.
"""),
    "transport": ("Transport", """
Fragments of 32 and 100 MiB are uploaded and downloaded over loopback by 1, 2 and 4 workers at once, one connection each (`bench_transport`, each end
a process). The production client, service, acceptor and credentials of `common/rpc` move them.

- A fragment has arrived when its bytes are in the receiver's memory and both the CRC-32C of every frame and the digest of the whole have been checked.
- The round log and the screen are not included; they are part of [whole rounds](#whole-rounds).
- All workers download one update, which is encoded and checksummed once. Each round has a new one.
- The limit: the same number of plain sockets, and of OpenSSL connections with certificates at both ends and the suite that gRPC negotiates (TLS 1.3,
  `TLS_AES_128_GCM_SHA256`). They check nothing.

Goals: 70% of raw TCP in plaintext, 90% of raw TLS with mutual TLS.
"""),
    "rounds": ("Whole rounds", """
One coordinator and four workers, the released programs, on one machine. The job trains a Llama layout of 25,076,224 or 99,959,808 parameters as one
fragment (`fragments: whole`). Inner steps are synthetic, take 1 ms, one a round, without overlap. A round is then nothing but the synchronisation: publish,
download, apply, check and merge the update; one step; encode and upload; log and flush; aggregate, encode and commit.

- Seconds of a round: the time between two `round committed` lines of `events/job.jsonl`, written when the ledger's transaction is durable. The first three
  rounds of a job are discarded, then five count (three on a link). The median leaves out the snapshot of every third round; the mean includes it.
- CPU seconds: of all five processes, for a mean round.
- The limits, in the same turn (three times each, the median counts): the bytes of the round over four raw connections up, then down (plain TCP; TLS 1.3 with
  AES-256-GCM; each end a process), and the bytes of the uploads written to one file in pieces of 1 MiB and flushed once. These are Python programs; with
  the sockets of Transport as limits the goals would be up to a sixth (TCP) and a quarter (TLS) harder.
- A link of 1 Gbit/s is one for each worker (`--upload-limit 125MB/s --download-limit 125MB/s`) or one shared by all (`bench_link relay`; its processor
  time is not counted).
- A worker's memory does not include the GPU plugin, which is loaded only where a GPU driver exists.

Goals, of a job's mean round ÷ the limit in the same turn, then the median over the turns:

- fp32: at most 1.6 × the larger of raw TCP and of the written file, and 1.3 × with raw TLS under mutual TLS; the same with the state on tmpfs;
- `mxfp4`: at least 4 × faster than fp32 on either link;
- the coordinator's memory: at most 1.15 × the [published bound](../capacity.md#memory).
"""),
    "peers": ("Other systems", """
One synchronisation of the same number of fp32 values among four processes of one machine, with other systems from PyPI (`scripts/requirements-peers.txt`,
pinned by hash), and a whole round of Atoll as above, plaintext, committed to the disk. Systems take turns. Each start of a peer plays two synchronisations
that are discarded and three that count. The resulting means are checked.

- Gloo: `torch.distributed.all_reduce` over loopback, one thread each. Nothing is durable and no process may leave.
- torchft: a lighthouse and a manager for each process; quorum, all-reduce over its Gloo process group, commit vote.
- hivemind: `DecentralizedAverager`, fp32 without compression, from the trigger to the averaged tensors, without the search for peers.
- Flower: a SuperLink and four SuperNodes as processes, FedAvg over its HTTP API; from the strategy's first message of a round to its aggregate.
- NVFlare: its simulator with four clients, FedAvg of a NumPy array; from one model received by a client to the next.

CPU seconds of Flower and NVFlare include their start-up. Goals, of means within a turn: Flower, NVFlare and hivemind take at least 10 × the fp32 round of
Atoll; the `mxfp4` round is faster than Gloo's all-reduce of fp32.
"""),
    "utilization": ("Compute utilization on shaped links", """
The share of time that workers compute, against `atoll plan` for the same model, step, period, fragments, overlap, codec and link. A real coordinator and two
real workers run the real synchronisation; the inner step is a timer of 0.1 s (`--synthetic-step-seconds`), so that two cores suffice. The model has 4.8
million parameters, in two rows 99.4 million; H = 40; `bf16` both ways, or `mxfp4` in the rows of 4 bits. Classic DiLoCo has one fragment, streaming one for
each block and one for the embeddings.

- Link: each worker has its own `bench_link relay` (`tests/bench/link_shaper.h`) between TCP connections in user space. It has a rate for each direction,
  shared by control and bulk traffic in order of arrival. On 10 and 50 Mbit/s all methods run at the same time; on faster links one after the other.
- Measured: time in steps ÷ all time over whole periods, after the first one and a half, by the counters of the worker that computed less.
- Shown: the figure of `atoll worker list` at the end, the first periods included.
- Planned: without the coordinator's time for a round. "With rounds as they were": `--round-time` is the median from closing to commit in the coordinator's log.
- Other work: the training thread's time for snapshots, applying and merging.

Goal: at least 95% measured wherever 99% is planned.
"""),
    "training": ("Training", """
Tokens a second of the worker's inner step (`worker/train`, `bench_training`) against a plain PyTorch program (`scripts/benches/training_peer.py`) that takes
the same steps: a Llama of 6.45 million parameters (256 wide, 6 layers, 8 heads, 4 key heads, vocabulary 4,096, untied head), 8 samples of 256 tokens a step,
AdamW (`fused=True`), clipping by the global norm.

- Both read the same first parameters and the same batches from files. Losses are compared step by step.
- Each side is a process of its own that takes four steps in turn and sleeps otherwise. Three steps before the first round are not timed; torch.compile
  compiles in them. Each number of threads has its own Inductor cache.
- The peer's bf16 is autocast; Atoll's is `precision: bf16`. Key heads are repeated for torch.compile, which is twice as fast that way, and left to
  `enable_gqa` in eager.
- The worker sets malloc to use buffers again; torch.compile is measured without and with that setting.

Goal: 1.1 × torch.compile as installed, in fp32 and bf16.

On a GPU (`bench_training --device gpu`): a tied Llama of 124 million parameters (32 × 1,024 tokens a step) and one of 1.1 billion (8 × 2,048), both in bf16,
and the PyTorch program on the same card. Atoll runs as it is, with `--pass-kernels auto`, with `--cuda-graph auto` and with both. `ATOLL_BENCH_PYTHON` names
a Python with a PyTorch that has CUDA. Goals: 50% of the rate of matrix products in the same run, and 1.1 × torch.compile.
"""),
    "curves": ("Loss curves", """
Both sides of [training](#training) take 300 steps from the same first parameters, on the same 64 batches in the same order, repeated. No step is timed. Goal:
means over ten steps agree within 0.1% in fp32 and 1% in bf16, where autocast rounds at other places than `precision: bf16`.
"""),
    "island": ("The all-reduce of an island", """
Ranks are threads of one process and reduce 16 Mi floats (64 MiB), whole and in buckets of 4 MiB as the training step does. The limit is one TCP connection
over loopback that carries 64 MiB both ways at once, one thread at each end. Every connection of the chain carries the values both ways, so an island of two
moves the same bytes and adds them. Three and four ranks have two and three connections, which share the two cores. Goal: with two ranks at most 1.5 × raw TCP.
"""),
    "scale": ("Scale of the control plane", """
`control streams`: a released coordinator in plaintext, and one process with 1,000 channels and the production client of the control stream, all members of one
job. Their heartbeats carry every metric of a worker; none trains. Heartbeats come every 2 s, spread evenly. Every tenth is followed by a request for a lease
of a job that does not exist, which the core denies in order; the time to the denial is the time of a heartbeat in and an answer out. Processor time and
memory are those of the coordinator's process; memory is its growth since before the first stream.

`core alone`: simulated workers on `coordinator/core`, without streams and threads. A step is one heartbeat; the share of a core is one heartbeat of each
worker in 2 s. The last two rows exceed the coordinator's limit of 1,024 workers (`common/plan/limits.h`), which is lifted for them.

1,000 workers with one address need `--connections-per-address 1024` and 6,200 descriptors (`ulimit -n`): [trust](../trust.md), Floods.
"""),
    "startup": ("Start-up", """
The time from the start of a process until it works, files in the page cache.

- Coordinator: until `atoll job list` is answered; the time of such a command on a running coordinator is in the same row. With a new state directory, and
  killed with a job of 100 million parameters in its state.
- Worker: until the end of its first inner step, in phases by its own log. `process` ends with its first line, `greeting` when it has a job, `memory` when the
  memory is prepared, `fragments` when all are fetched, checked and installed, `step` after the step. The tiny model has 0.1 million parameters.
- Join: a job of 101 million parameters in five fragments, 403 MB in fp32, with synthetic steps of 0.05 s, at which one worker trains already. The rate is
  those bytes ÷ the phase `fragments`; the link is that of [utilization](#compute-utilization-on-shaped-links) at 1 Gbit/s. The last column is the step time of
  the other worker for two seconds before the join and during it.

Goal: a joining worker fetches at 80% of the link at least.
"""),
    "profile": ("Where processor time goes", """
`perf` samples each core 499 times a second during whole rounds, during [transport](#transport), one kind and number of connections at a time (both ends are one
process, its start included), and during the training step at one thread. Each sample counts for the first matching part (`scripts/benches/profiles.py`), by
process, innermost function and, in the kernel, the functions out to the system call. The kernel's work for a process belongs to that process; `kernel` alone is
threads of its own. "Passes over parameters" are the vector kernels of codecs, differences, sums and the outer step. A profile is a run of its own, sometimes
in a slower hour: read its shares, not its seconds.
"""),
}
