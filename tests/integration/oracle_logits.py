# SPDX-License-Identifier: Apache-2.0
"""oracle_logits.py WRITER: our model's results against transformers on our exported directories.

WRITER (oracle_logits_writer.cc) writes small random models with tokens, logits and loss. AutoModelForCausalLM must
load each directory and give the same logits (at most 1e-3 apart in fp32) and the same loss (at most 1e-5 relative).
Exits with 77, a skip, if transformers is missing: scripts/setup --oracles installs it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

LOGITS = 1e-3
LOSS = 1e-5

try:
    import numpy
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs the environment", file=sys.stderr)
    sys.exit(77)


def compare(directory):
    """The largest difference of a logit, the relative difference of the loss."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ours = json.loads(directory.with_suffix(".json").read_text())
    tokens = torch.tensor(ours["tokens"]).view(ours["sequences"], ours["length"])
    raw = numpy.fromfile(directory.with_suffix(".f32"), dtype="<f4")
    logits = torch.from_numpy(raw).view(ours["sequences"], ours["length"], -1)
    with torch.no_grad():
        theirs = model(tokens).logits
        nll = torch.nn.functional.cross_entropy(theirs[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum").item()
    if theirs.shape != logits.shape:
        sys.exit(f"{directory.name}: transformers gives logits of shape {tuple(theirs.shape)}, we {tuple(logits.shape)}")
    spread = theirs.std().item()
    if not spread > 0.1:
        sys.exit(f"{directory.name}: logits hardly differ from each other ({spread}): the comparison would say nothing")
    return (theirs - logits).abs().max().item(), abs(nll - ours["nll"]) / abs(nll)


def main():
    transformers.logging.set_verbosity_error()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.argv[1], name], check=True)
        cases = sorted(p for p in pathlib.Path(name).iterdir() if p.is_dir())
        for directory in cases:
            logits, loss = compare(directory)
            bad = not (logits <= LOGITS and loss <= LOSS)
            failed |= bad
            print(f"{directory.name}: logits differ by at most {logits:.2e}, loss by {loss:.2e}{' TOO MUCH' if bad else ''}")
    if not cases:
        sys.exit("the writer left no case")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
