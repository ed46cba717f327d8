# SPDX-License-Identifier: Apache-2.0
"""The golden values of the pages, computed by the modules written from those pages. Needs no program."""
import sys
import types

try:
    import numpy as np

    import codec as coding
    import plan
    import wire
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup installs it")
    sys.exit(77)

# docs/formats/codecs.md
CODECS = [(coding.FP32, [1, -2.5], "0000803f000020c0"), (coding.FP16, [1, -2.5, 2.0 ** -24, 1e6], "003c00c10100ff7b"),
          (coding.BF16, [1, -2.5, 3.14159274], "803f20c04940"), (coding.INT8, [127, -1, 2.5, 3.5], "803f7fff0204"),
          (coding.MXFP4, [6, -1, 0.3, 0, 2.5], "7fa70104"), (coding.E3M0, [1, -0.5, 0.01, 0, 0.3], "7fe70105")]
JOIN_TOKEN = "atoll1-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-goaKjpKWmp_Dx8vP09fb3-Pn6-_z9_v_2bICj"
JOIN_STRING = "atoll1-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-goaKjpKWmp_Dx8vP09fb3-Pn6-_z9_v9leGFtcGxlLm9yZzo3MDcwLCwsY3B1LTFnjMUC"


def equal(have, want, what):
    if have != want:
        sys.exit(f"{what}: {have!r}, not {want!r}")


def job(**more):
    """The part of a job file that the data order uses."""
    data = types.SimpleNamespace(seed=42, sequence_length=500, window_blocks=2, assignment=1,
                                 corpora=[types.SimpleNamespace(name="a", weight=6), types.SimpleNamespace(name="b", weight=2)])
    vars(data).update(more)
    return types.SimpleNamespace(data=data, experiment=types.SimpleNamespace(drop_sync_probability=0.5))


def manifest(*tokens):
    return {"token_type": "uint16", "files": [{"split": "train", "name": i, "tokens": count} for i, count in enumerate(tokens)]}


def main():
    for codec, values, wanted in CODECS:
        data = coding.encode(codec, np.array(values, np.float32))
        equal(data.hex(), wanted, f"codec {codec}")
        equal(len(data), coding.encoded_size(codec, len(values)), f"the size of codec {codec}")
    # docs/formats/frames.md
    frame = wire.transfer.Frame(offset_bytes=72_623_859_790_382_856, crc32c=0xAABBCCDD, last=True, payload=bytes(300))
    equal(frame.SerializeToString()[:19].hex(" "), "11 08 07 06 05 04 03 02 01 1d dd cc bb aa 20 01 7a ac 02", "a frame")
    # docs/formats/join-token.md
    token = wire.JoinToken(JOIN_TOKEN)
    equal((token.authority, token.id, token.secret), (bytes(range(32)), "a0a1a2a3a4a5a6a7", bytes(range(0xF0, 0x100))), "the join token")
    equal(token.fields, [""], "the fields of a token without addresses")
    equal(wire.JoinToken(JOIN_STRING).fields, ["example.org:7070", "", "", "cpu-1"], "the fields of a join string")
    # docs/formats/layout.md
    model = types.SimpleNamespace(vocab_size=64, hidden_size=8, intermediate_size=16, layers=2, heads=2, kv_heads=1, head_dim=4, tie_embeddings=True,
                                  qk_norm=False)
    layout = plan.Layout(types.SimpleNamespace(model=model, sync=types.SimpleNamespace(fragments=2, layers_per_fragment=1)))
    equal(f"{layout.digest:032x}", "510cbf5c245035a0e7fdbebc3dd5cb45", "the digest of a layout")
    # docs/formats/data-order.md
    equal(plan.philox(0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8), "Philox")
    equal(plan.stream_key(7, "order/tiny"), 0x96D3D2E1C56ECF9A, "a stream's key")
    equal([plan.permute(7, 10, i) for i in range(10)], [2, 8, 4, 7, 6, 1, 0, 5, 9, 3], "a permutation")
    equal([plan.drops_sync(job(), "a", 0, version) for version in range(8)], [False] + 6 * [True] + [False], "dropped syncs")
    corpora = [manifest(1_500_001, 77, 1_100_003), manifest(400_000)]
    place = lambda order, position: (order.at(position)[0], order.at(position)[1]["name"], order.at(position)[2])
    shared, pinned = plan.JobOrder(job(), corpora), plan.JobOrder(job(assignment=2), corpora)
    equal([place(shared, i * 1001) for i in range(6)],
          [(0, 0, 428000), (0, 0, 261000), (1, 0, 40000), (0, 2, 358000), (0, 0, 1463500), (0, 0, 607000)], "the shared order")
    equal([place(pinned, (1 << 56) + at) for at in (0, 1001)], [(1, 0, 200000), (1, 0, 98500)], "the order of shards")


main()
