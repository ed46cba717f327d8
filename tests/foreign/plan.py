# SPDX-License-Identifier: Apache-2.0
"""Values that both ends compute from a job's spec: layout, order of samples, draws, send steps.

Written from docs/formats/layout.md, docs/formats/data-order.md and docs/formats/outer-step.md (Send, Apply)."""
import bisect
import math

import xxhash

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
BLOCK_BYTES = 1 << 20


def digest_of(data):
    """XXH3-128 as one number: high half first."""
    return xxhash.xxh3_128_intdigest(data)


# ---- docs/formats/layout.md

def tensors_of(model):
    """(name, shape, block or None) in order of use."""
    hidden, inner = model.hidden_size, model.intermediate_size
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    tensors = [("model.embed_tokens.weight", (model.vocab_size, hidden), None)]
    for i in range(model.layers):
        block = [("input_layernorm", (hidden,)), ("self_attn.q_proj", (query, hidden)), ("self_attn.k_proj", (key, hidden)),
                 ("self_attn.v_proj", (key, hidden))]
        if model.qk_norm:
            block += [("self_attn.q_norm", (model.head_dim,)), ("self_attn.k_norm", (model.head_dim,))]
        block += [("self_attn.o_proj", (hidden, query)), ("post_attention_layernorm", (hidden,)), ("mlp.gate_proj", (inner, hidden)),
                  ("mlp.up_proj", (inner, hidden)), ("mlp.down_proj", (hidden, inner))]
        tensors += [(f"model.layers.{i}.{name}.weight", shape, i) for name, shape in block]
    tensors.append(("model.norm.weight", (hidden,), None))
    if not model.tie_embeddings:
        tensors.append(("lm_head.weight", (model.vocab_size, hidden), None))
    return tensors


def group_of(pattern, block, layers, per_fragment, groups):
    """Section Fragments; patterns are numbered as FragmentPattern of job.proto."""
    return {2: block % groups, 3: block // per_fragment, 4: block * groups // layers}[pattern]


class Layout:
    """tensors: (name, shape, offset, fragment) in arena order; fragments: (offset, elements); digest: a number."""

    def __init__(self, spec):
        pattern, per_fragment = spec.sync.fragments, spec.sync.layers_per_fragment
        groups = 0 if pattern == 1 else -(-spec.model.layers // per_fragment)
        placed = [(group_of(pattern, block, spec.model.layers, per_fragment, groups) if pattern != 1 and block is not None else groups, name, shape)
                  for name, shape, block in tensors_of(spec.model)]
        placed.sort(key=lambda tensor: tensor[0])  # stable
        self.tensors, self.fragments, at = [], [[0, 0] for _ in range(groups + 1)], 0
        for fragment, name, shape in placed:
            place = self.fragments[fragment]
            if place[1] == 0:
                place[0] = at
            self.tensors.append((name, shape, at, fragment))
            place[1] += math.prod(shape)
            at += math.prod(shape)
        self.elements = at
        text = "atoll layout 1\n"
        for name, shape, offset, fragment in self.tensors:
            text += f"{name} {offset} {fragment} [{''.join(f'{n},' for n in shape)}]\n"
        text += "".join(f"{offset}+{elements}\n" for offset, elements in self.fragments)
        self.digest = digest_of(text.encode())


# ---- docs/formats/data-order.md

def philox(key, low, high=0):
    """Section Philox and keys: four words."""
    c0, c1, c2, c3 = low & MASK32, low >> 32, high & MASK32, high >> 32
    k0, k1 = key & MASK32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & MASK32, p0 >> 32 ^ c3 ^ k1, p0 & MASK32
        k0, k1 = k0 + 0x9E3779B9 & MASK32, k1 + 0xBB67AE85 & MASK32
    return c0, c1, c2, c3


def stream_key(seed, name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK64
    words = philox(seed, h)
    return words[1] << 32 | words[0]


def permute(key, n, i):
    if n == 1:
        return 0
    bits = 1
    while 4 ** bits < n:
        bits += 1
    x, mask = i, (1 << bits) - 1
    while True:
        left, right = x >> bits, x & mask
        for turn in range(4):
            left, right = right, left ^ philox(key, right, turn)[0] & mask
        x = left << bits | right
        if x < n:
            return x


def drops_sync(spec, worker, fragment, version):
    """Section Draws. The division is exact: both are below 2^53 times a power of two."""
    words = philox(stream_key(spec.data.seed, f"experiment/drop/{worker}"), version, fragment)
    return ((words[0] << 32 | words[1]) >> 11) < spec.experiment.drop_sync_probability * 2.0 ** 53


def is_held_out(seed, fraction, document):
    digest = digest_of(document)
    words = philox(stream_key(seed, "held-out"), digest & MASK64, digest >> 64)
    return (words[0] << 21 ^ words[1] >> 11) / 2.0 ** 53 < fraction


class CorpusOrder:
    """Sections Samples of a corpus and Order within a corpus. `manifest`: the parsed manifest.json."""

    def __init__(self, spec, name, manifest):
        self.steps, self.window, self.key = spec.data.sequence_length, spec.data.window_blocks, stream_key(spec.data.seed, f"order/{name}")
        self.token_bytes = {"uint16": 2, "uint32": 4}[manifest["token_type"]]
        self.shards = [file for file in manifest["files"] if file["split"] == "train"]
        self.groups = []  # shard, first sample, samples
        for shard, file in enumerate(self.shards):
            groups = {}
            for sample in range((file["tokens"] - 1) // self.steps if file["tokens"] > self.steps else 0):
                groups.setdefault(sample * self.steps // (BLOCK_BYTES // self.token_bytes), []).append(sample)
            self.groups += [(shard, samples[0], len(samples)) for samples in groups.values()]
        self.samples = sum(count for _, _, count in self.groups)
        self.epochs = {}

    def epoch(self, number):
        if number not in self.epochs:
            key = stream_key(self.key, f"epoch/{number}")
            places, starts = [permute(key, len(self.groups), j) for j in range(len(self.groups))], [0]
            for group in places:
                starts.append(starts[-1] + self.groups[group][2])
            self.epochs[number] = key, places, starts
        return self.epochs[number]

    def at(self, position):
        """File of the manifest and first token of the sample."""
        key, places, starts = self.epoch(position // self.samples)
        entry = position % self.samples
        window = (bisect.bisect_right(starts, entry) - 1) // self.window
        begin, end = starts[window * self.window], starts[min((window + 1) * self.window, len(places))]
        entry = begin + permute(stream_key(key, f"window/{window}"), end - begin, entry - begin)
        place = bisect.bisect_right(starts, entry) - 1
        shard, first, _ = self.groups[places[place]]
        return self.shards[shard], (first + entry - starts[place]) * self.steps


class JobOrder:
    """Section Order of a job: position -> (corpus, file, first token)."""

    def __init__(self, spec, manifests):
        self.pinned = spec.data.assignment == 2
        self.corpora = [CorpusOrder(spec, corpus.name, manifest) for corpus, manifest in zip(spec.data.corpora, manifests)]
        weights = [corpus.weight for corpus in spec.data.corpora]
        self.shares = [weight // math.gcd(*weights) for weight in weights]
        self.pattern, given = [], [0] * len(weights)
        for slot in range(sum(self.shares)):
            open_ones = [c for c, share in enumerate(self.shares) if given[c] < share]
            best = max(open_ones, key=lambda c: (slot + 1) * self.shares[c] - sum(self.shares) * given[c])  # the first of equals
            self.pattern.append((best, given[best]))
            given[best] += 1

    def at(self, position):
        if self.pinned:
            corpus, within = position >> 56, position & (1 << 56) - 1
        else:
            corpus, rank = self.pattern[position % len(self.pattern)]
            within = position // len(self.pattern) * self.shares[corpus] + rank
        return corpus, *self.corpora[corpus].at(within)


# ---- docs/formats/outer-step.md: Send, Apply

def send_offset(sync, fragment, fragments):
    return ((fragment + 1) * sync.inner_steps // fragments - sync.overlap_steps) % sync.inner_steps
