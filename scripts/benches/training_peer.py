# SPDX-License-Identifier: Apache-2.0
"""The training step as a plain, good PyTorch program, for scripts/bench training; also runs alone:

    training_peer.py DIRECTORY {eager,compile} {fp32,bf16} THREADS [{cpu,cuda} [{repeated,shared}]]

DIRECTORY is the output of "bench_training write": first parameters, batches and the recipe. Prints {"ready": true} first. Then reads
a number of steps per line from stdin, takes them, and answers with a line of JSON: {"seconds", "cpu_seconds", "losses"}. Exits with
an error message when a requested GPU is missing. bf16 is autocast, as PyTorch's documentation advises: fp32 parameters, matrix
products and attention in bf16. Key heads that serve several query heads are repeated, or shared by enable_gqa. Default: repeated for
torch.compile and shared in eager, which is the faster way on a CPU for each.
"""
import json
import pathlib
import sys
import time

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, c, repeat):
        super().__init__()
        self.repeat = repeat
        self.heads, self.kv, self.d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        self.input_layernorm = nn.RMSNorm(hidden, c["rms_norm_eps"])
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv) * self.d, bias=False)
        self.o_proj = nn.Linear(self.heads * self.d, hidden, bias=False)
        self.post_attention_layernorm = nn.RMSNorm(hidden, c["rms_norm_eps"])
        self.gate_up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        qkv = self.qkv(self.input_layernorm(x)).view(b, t, self.heads + 2 * self.kv, self.d)
        q, k, v = qkv.split((self.heads, self.kv, self.kv), 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.repeat:
            k, v = (x.repeat_interleave(self.heads // self.kv, 2) for x in (k, v))
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=not self.repeat)
        x = x + self.o_proj(mixed.transpose(1, 2).reshape(b, t, -1))
        gate, up = self.gate_up(self.post_attention_layernorm(x)).chunk(2, -1)
        return x + self.down_proj(F.silu(gate) * up)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Llama(nn.Module):
    def __init__(self, c, repeat):
        super().__init__()
        self.embedding = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.blocks = nn.ModuleList(Block(c, repeat) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        if c["tie_word_embeddings"]:
            self.head.weight = self.embedding.weight
        frequency = c["rope_theta"] ** (-torch.arange(0, c["head_dim"], 2).float() / c["head_dim"])
        angle = torch.outer(torch.arange(c["max_position_embeddings"]).float(), frequency)[None, :, None]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens):
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = self.embedding(inputs)
        cos, sin = self.cos[:, :inputs.shape[1]], self.sin[:, :inputs.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def loaded(directory, config, repeat):
    model, names = Llama(config, repeat), load_file(directory / "model.safetensors")
    state = {"embedding.weight": names["model.embed_tokens.weight"], "norm.weight": names["model.norm.weight"]}
    state["head.weight"] = state["embedding.weight"] if config["tie_word_embeddings"] else names["lm_head.weight"]
    for i in range(config["num_hidden_layers"]):
        of = lambda name: names[f"model.layers.{i}.{name}.weight"]  # noqa: E731
        state |= {f"blocks.{i}.{ours}.weight": of(theirs) for ours, theirs in (
            ("input_layernorm",) * 2, ("o_proj", "self_attn.o_proj"), ("post_attention_layernorm",) * 2, ("down_proj", "mlp.down_proj"))}
        state[f"blocks.{i}.qkv.weight"] = torch.cat([of(f"self_attn.{p}_proj") for p in "qkv"])
        state[f"blocks.{i}.gate_up.weight"] = torch.cat([of("mlp.gate_proj"), of("mlp.up_proj")])
    model.load_state_dict(state | {"cos": model.cos, "sin": model.sin})
    return model


class Training:
    def __init__(self, directory, kind, precision, device, repeat):
        self.device = device
        self.recipe = r = json.loads((directory / "bench.json").read_text())
        tokens = directory / "tokens.i32"
        flat = torch.from_file(str(tokens), size=tokens.stat().st_size // 4, dtype=torch.int32)
        self.batches = flat.view(-1, r["batch"], r["length"] + 1).long().to(device)
        self.model = loaded(directory / "model", json.loads((directory / "model/config.json").read_text()), repeat).to(device)
        self.bf16 = precision == "bf16"
        self.forward = torch.compile(self.model) if kind == "compile" else self.model
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        kept = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": r["weight_decay"]}, {"params": kept, "weight_decay": 0.0}],
            lr=r["learning_rate"], betas=(r["beta1"], r["beta2"]), eps=r["epsilon"], fused=True)
        self.at = 0

    def step(self):
        tokens = self.batches[self.at % len(self.batches)]
        self.at += 1
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.forward(tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe["gradient_clip"])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def main():
    directory, kind, precision, threads, *rest = sys.argv[1:]
    device = rest[0] if rest else "cpu"
    repeat = rest[1] == "repeated" if len(rest) > 1 else kind == "compile"
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("training_peer.py: this PyTorch sees no GPU: it was installed without CUDA's libraries, or there is none")
    torch.set_num_threads(int(threads))
    training = Training(pathlib.Path(directory), kind, precision, device, repeat)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        begin, cpu = time.monotonic(), time.process_time()
        losses = [training.step() for _ in range(int(line))]
        print(json.dumps({"seconds": time.monotonic() - begin, "cpu_seconds": time.process_time() - cpu, "losses": losses}), flush=True)


if __name__ == "__main__":
    main()
