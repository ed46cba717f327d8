# SPDX-License-Identifier: Apache-2.0
"""oracle_export.py SCENE: the exports of run_end_to_end in transformers: the same loss on the held-out tokens.

Exits with 77, a skip, if transformers is missing: scripts/setup --oracles installs it.
"""
import json
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
RELATIVE = 1e-3
LENGTH = 32  # of the samples that run_end_to_end evaluates

try:
    import numpy
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs the environment")
    sys.exit(77)


def held_out_tokens(corpus):
    """The tokens of the held-out shard: llm.c's format, 256 words of header, then 16 bits a token."""
    manifest = json.loads((corpus / "manifest.json").read_text())
    name = next(f["name"] for f in manifest["files"] if f["split"] == "held_out")
    return numpy.fromfile(corpus / name, dtype="<u2", offset=1024).astype(numpy.int64)


def same_loss(scene, name):
    directory = scene / f"export-{name}"
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    expected = json.loads((scene / f"expected-{name}.json").read_text())
    ids = held_out_tokens(scene / "data" / "text")
    samples = expected["tokens"] // LENGTH
    batch = torch.from_numpy(numpy.stack([ids[i * LENGTH:i * LENGTH + LENGTH + 1] for i in range(samples)]))
    with torch.no_grad():
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).item()
    print(f"{name}: {type(model).__name__} {loss:.6f}, atoll {expected['loss']:.6f}, on {samples * LENGTH} tokens of "
          f"{tokenizer.decode(ids[:20].tolist())!r}...")
    return abs(loss - expected["loss"]) <= RELATIVE * loss


def main():
    scene = pathlib.Path(sys.argv[1])
    names = sorted(f.stem.removeprefix("expected-") for f in scene.glob("expected-*.json"))
    if not names:
        print("skipped: run_end_to_end has left no export")
        return 77
    transformers.logging.set_verbosity_error()
    return 0 if all([same_loss(scene, name) for name in names]) else 1


sys.exit(main())
