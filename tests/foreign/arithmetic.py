# SPDX-License-Identifier: Apache-2.0
"""Content hashes, outer steps and error memories, to the bit. Written from docs/formats/snapshot.md and
docs/formats/outer-step.md.

numpy neither fuses a product with a sum nor flushes subnormal numbers, so each line below is the page's operation."""
import struct

import numpy as np

import codec as coding
from plan import digest_of

F = np.float32
PIECE = 4096


def digest_words(digest):
    """A digest as hash input: high half, low half."""
    return struct.pack("<QQ", digest >> 64, digest & (1 << 64) - 1)


def content_hash(values, version, layout):
    """snapshot.md, Content hash."""
    data = np.ascontiguousarray(values, "<f4").tobytes()
    leaves = b"".join(digest_words(digest_of(data[at:at + 4096])) for at in range(0, len(data), 4096))
    return digest_of(leaves + struct.pack("<Q", version) + digest_words(layout))


def root_of_squares(x):
    """outer-step.md, centered_clip: the root of a sum of squares over a fragment."""
    total = 0.0
    for at in range(0, len(x), PIECE):
        squares = np.square(x[at:at + PIECE].astype(np.float64))
        lanes = np.zeros(16)
        for row in np.concatenate([squares, np.zeros(-len(squares) % 16)]).reshape(-1, 16):
            lanes = lanes + row
        for half in (8, 4, 2, 1):
            lanes = lanes[:half] + lanes[half:2 * half]
        total += float(lanes[0])
    return float(np.sqrt(total))


class Contribution:
    """One row of the ledger, decoded."""

    def __init__(self, record, values):
        self.values, self.tokens, self.steps = values, record.tokens, record.steps
        self.clip, self.cursors = record.clip_factor, [(c.lease, c.cursor) for c in record.cursors]


# ---- Weights

def raw_weight(spec, contribution):
    rule, share = spec.sync.weights, min(1.0, contribution.steps / spec.sync.inner_steps)
    if contribution.steps == 0:
        return 0.0
    if rule == 1:
        return share
    if rule == 2:
        return float(contribution.tokens)
    if rule == 3:
        return float(contribution.tokens) * contribution.tokens / contribution.steps
    sizes = [corpus.samples for corpus in spec.data.corpora]
    samples = sizes[max(contribution.cursors)[1] >> 56] if contribution.cursors else sum(sizes) // len(sizes)
    return samples * share


def weights_of(spec, contributions):
    raw = [raw_weight(spec, contribution) for contribution in contributions]
    total = 0.0
    for weight in raw:
        total += weight
    weights = [weight / total if total else 1 / len(raw) for weight in raw]
    if spec.sync.merge == 1:
        return weights
    members = sum(weight > 0 for weight in weights)
    return [1 / members if weight > 0 else 0.0 for weight in weights]


# ---- Each element: merge

def middle(values, left_out):
    ordered = np.sort(np.stack(values), axis=0, kind="stable")
    total = ordered[left_out]
    for row in ordered[left_out + 1:len(values) - left_out]:
        total = total + row
    return F(1 / (len(values) - 2 * left_out)) * total


def merged(spec, contributions, weights):
    if spec.sync.merge == 1:
        g = None
        for contribution, weight in zip(contributions, weights):
            part = F(weight * contribution.clip) * contribution.values
            g = part if g is None else g + part
        return g
    values = [F(c.clip) * c.values for c, weight in zip(contributions, weights) if weight > 0]
    n, most = len(values), (len(values) - 1) // 2
    if spec.sync.merge == 2:
        return middle(values, min(most, int(spec.sync.trim_share * n)))
    m = middle(values, most)
    if spec.sync.merge == 3:
        return m
    distances = [root_of_squares(y - m) for y in values]
    radius, g = spec.sync.clip_radius * sorted(distances)[most], m
    for y, distance in zip(values, distances):
        g = g + F((radius / distance if distance > radius else 1.0) / n) * (y - m)
    return g


# ---- Each element: direction, error memory, public copy

class FragmentState:
    """Public copy, momentum and residual of a fragment at a version."""

    def __init__(self, version, public, momentum, residual):
        self.version, self.public, self.momentum, self.residual = version, public, momentum, residual

    def step(self, spec, record, contributions):
        """One committed round: advances the state to the next version. Returns the encoded update and the weights."""
        kind, weights = spec.outer_optimizer.kind, weights_of(spec, contributions) if contributions else []
        lr, mu = F(record.learning_rate), F(record.momentum)
        if contributions:
            g = merged(spec, contributions, weights)
        else:
            g, lr, mu = np.zeros_like(self.public), F(0), F(1)
        direction = g
        if kind != 3:
            self.momentum = mu * self.momentum + g
            direction = g + mu * self.momentum if kind == 1 else self.momentum
        u = -lr * direction
        memory = spec.sync.download_error_memory
        h = u if memory == 1 else u + self.residual
        update = coding.encode(spec.sync.download_codec, h)
        taken = coding.decode(spec.sync.download_codec, update, len(h))
        self.public, self.version = self.public + taken, self.version + 1
        self.residual = next_residual(spec.sync.loco, memory, self.residual, h - taken, self.version)
        return update, weights


def next_residual(loco, memory, residual, lost, version):
    """Step 6 of the page."""
    if memory == 1:
        return residual
    if memory == 2:
        return lost
    if version % loco.reset_syncs == 0:
        return np.zeros_like(residual)
    return loco_average(loco, residual, lost)


def loco_average(loco, residual, lost):
    """The moving average, kept in int8."""
    average = F(loco.beta) * residual + F(1 - loco.beta) * lost if loco.beta else lost
    return coding.decode(coding.INT8, coding.encode(coding.INT8, average), len(average))


# ---- docs/formats/outer-step.md: a worker's side

def mixed(mix, own, other):
    """mix own + (1 - mix) other; 0 and 1 copy."""
    if mix in (0, 1):
        return own if mix else other
    return F(mix) * own + F(1 - mix) * other


class UploadMemory:
    """Error memory of uploads. The residual of a send is pending until a merge makes it the memory."""

    def __init__(self, sync, elements):
        self.kind, self.loco, self.memory, self.pending, self.syncs = sync.upload_error_memory, sync.loco, np.zeros(elements, F), None, 0

    def encoded(self, delta, codec):
        h = delta if self.kind == 1 else delta + self.memory
        data = coding.encode(codec, h)
        lost = h - coding.decode(codec, data, len(h))
        self.pending = loco_average(self.loco, self.memory, lost) if self.kind == 3 else lost
        return data

    def merged(self, mix):
        if self.kind == 1 or self.pending is None:
            return
        self.memory, self.pending, self.syncs = mixed(mix, self.memory, self.pending), None, self.syncs + 1
        if self.kind == 3:
            self.memory = coding.decode(coding.INT8, coding.encode(coding.INT8, self.memory), len(self.memory))
            if self.syncs % self.loco.reset_syncs == 0:
                self.memory = np.zeros_like(self.memory)
