# SPDX-License-Identifier: Apache-2.0
"""Manifests, blocks and samples over the bulk connection. Written from docs/formats/corpus.md, token_shard.md and data-order.md."""
import json

import numpy as np

from plan import BLOCK_BYTES, JobOrder
from wire import transfer, worker


class Data:
    def __init__(self, job, spec, bulk):
        self.job, self.spec, self.bulk, self.blocks = job, spec, bulk, {}
        self.hashes = [corpus.manifest_sha256 for corpus in spec.data.corpora]
        self.manifests = [json.loads(bulk.checked(sha256, blob_sha256=sha256)) for sha256 in self.hashes]
        self.order = JobOrder(spec, self.manifests)

    def block(self, corpus, file, number):
        key = self.hashes[corpus], file["name"], number
        if key not in self.blocks:
            wanted = transfer.BlockKey(job=self.job, manifest_sha256=key[0], shard=key[1], block=number)
            self.blocks[key] = self.bulk.checked(file["blocks"][number], block=wanted)
        return self.blocks[key]

    def tokens(self, corpus, file, first):
        """The sequence_length + 1 tokens of a sample."""
        size = 2 if self.manifests[corpus]["token_type"] == "uint16" else 4
        begin, end = first * size, (first + self.spec.data.sequence_length + 1) * size
        blocks = range(begin // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1)
        data = b"".join(self.block(corpus, file, number) for number in blocks)
        return np.frombuffer(data, f"<u{size}")[(begin - blocks[0] * BLOCK_BYTES) // size:][:self.spec.data.sequence_length + 1].astype(np.int64)

    def batch(self, positions):
        """Inputs and targets."""
        samples = np.stack([self.tokens(*self.order.at(position)) for position in positions])
        return samples[:, :-1], samples[:, 1:]

    def held_out(self, count):
        """data-order.md, Held-out samples: the first `count` samples, and the bytes of text per token."""
        length, lists = self.spec.data.sequence_length, []
        for corpus, manifest in enumerate(self.manifests):
            files = [file for file in manifest["files"] if file["split"] == "held_out"]
            lists.append([(corpus, file, k * length) for file in files for k in range((file["tokens"] - 1) // length)])
        turns = [sample for row in zip(*(samples + [None] * (max(map(len, lists)) - len(samples)) for samples in lists)) for sample in row if sample]
        for corpus, file, first in turns[:count]:
            totals = self.manifests[corpus]["held_out"]
            yield self.tokens(corpus, file, first), totals["text_bytes"] / totals["tokens"]


def held(lease, cursor):
    return worker.LeaseCursor(lease=lease, cursor=cursor)
