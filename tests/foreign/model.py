# SPDX-License-Identifier: Apache-2.0
"""A Llama model in numpy with hand-written gradients, and AdamW. Shapes and names: docs/formats/layout.md; rates:
ScheduleSpec and InnerOptimizerSpec of proto/atoll/v1/job.proto. Any framework would do: no other program computes
these bits."""
import math

import numpy as np

F = np.float32


def rms_norm(x, w, epsilon):
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + F(epsilon))
    return x * scale * w, (x, w, scale)


def rms_norm_back(d, kept):
    x, w, scale = kept
    dw = (d * x * scale).reshape(-1, x.shape[-1]).sum(0)
    dx = d * w
    return scale * (dx - x * scale * scale * (dx * x).mean(-1, keepdims=True)), dw


def linear_back(d, x, w):
    """The gradients of x w^T."""
    flat = d.reshape(-1, d.shape[-1])
    return d @ w, flat.T @ x.reshape(-1, x.shape[-1])


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Llama:
    """Over an arena of fp32: `views` are its tensors, `gradients` those of an arena of the same layout."""

    def __init__(self, spec, layout, arena):
        if spec.qk_norm or spec.z_loss:
            raise NotImplementedError("this worker trains models without qk_norm and z_loss")
        self.spec, self.arena, self.gradient = spec, arena, np.zeros_like(arena)
        self.views, self.gradients, self.decays = {}, {}, np.zeros(len(arena), bool)
        for name, shape, offset, _ in layout.tensors:
            place = slice(offset, offset + math.prod(shape))
            self.views[name], self.gradients[name] = arena[place].reshape(shape), self.gradient[place].reshape(shape)
            self.decays[place] = len(shape) > 1

    def rope(self, steps):
        half = self.spec.head_dim // 2
        angle = np.outer(np.arange(steps), self.spec.rope_theta ** (-np.arange(half) / half))
        return np.cos(angle).astype(F), np.sin(angle).astype(F)

    @staticmethod
    def rotate(x, cos, sin):
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def heads(self, x, count):
        return x.reshape(*x.shape[:2], count, self.spec.head_dim).swapaxes(1, 2)

    def loss(self, tokens, targets, with_gradient=True):
        """Mean over all targets. Fills the gradient."""
        m, w, kept = self.spec, self.views, []
        cos, sin = self.rope(tokens.shape[1])
        x = w["model.embed_tokens.weight"][tokens]
        mask = np.triu(np.full((tokens.shape[1],) * 2, F(-1e30)), 1)
        for i in range(m.layers):
            at = lambda name: w[f"model.layers.{i}.{name}.weight"]
            h, norm1 = rms_norm(x, at("input_layernorm"), m.rms_norm_eps)
            q = self.rotate(self.heads(h @ at("self_attn.q_proj").T, m.heads), cos, sin)
            k = self.rotate(self.heads(h @ at("self_attn.k_proj").T, m.kv_heads), cos, sin).repeat(m.heads // m.kv_heads, 1)
            v = self.heads(h @ at("self_attn.v_proj").T, m.kv_heads).repeat(m.heads // m.kv_heads, 1)
            share = softmax(q @ k.swapaxes(2, 3) / F(math.sqrt(m.head_dim)) + mask)
            mixed = (share @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1)
            x = x + mixed @ at("self_attn.o_proj").T
            h2, norm2 = rms_norm(x, at("post_attention_layernorm"), m.rms_norm_eps)
            gate, up = h2 @ at("mlp.gate_proj").T, h2 @ at("mlp.up_proj").T
            sigmoid = 1 / (1 + np.exp(-gate))
            x = x + (gate * sigmoid * up) @ at("mlp.down_proj").T
            kept.append((h, norm1, q, k, v, share, mixed, h2, norm2, gate, up, sigmoid))
        h, norm = rms_norm(x, w["model.norm.weight"], m.rms_norm_eps)
        head = "model.embed_tokens.weight" if m.tie_embeddings else "lm_head.weight"
        chances = softmax(h @ w[head].T)
        picked = np.take_along_axis(chances, targets[..., None], -1)
        loss = float(-np.log(picked.astype(np.float64) + 1e-300).mean())
        if with_gradient:
            np.put_along_axis(chances, targets[..., None], picked - 1, -1)
            self.backward(chances / F(targets.size), tokens, h, norm, head, kept, cos, sin)
        return loss

    def backward(self, d, tokens, h, norm, head, kept, cos, sin):
        m, w, g = self.spec, self.views, self.gradients
        self.gradient[:] = 0
        d, dw = linear_back(d, h, w[head])
        g[head] += dw
        d, g["model.norm.weight"][:] = rms_norm_back(d, norm)
        for i in reversed(range(m.layers)):
            h, norm1, q, k, v, share, mixed, h2, norm2, gate, up, sigmoid = kept[i]
            at, to = (lambda name: w[f"model.layers.{i}.{name}.weight"]), (lambda name: g[f"model.layers.{i}.{name}.weight"])
            di, to("mlp.down_proj")[:] = linear_back(d, gate * sigmoid * up, at("mlp.down_proj"))
            dgate, to("mlp.gate_proj")[:] = linear_back(di * up * sigmoid * (1 + gate * (1 - sigmoid)), h2, at("mlp.gate_proj"))
            dup, to("mlp.up_proj")[:] = linear_back(di * gate * sigmoid, h2, at("mlp.up_proj"))
            dx, to("post_attention_layernorm")[:] = rms_norm_back(dgate + dup, norm2)
            d = d + dx
            dmixed, to("self_attn.o_proj")[:] = linear_back(d, mixed, at("self_attn.o_proj"))
            dmixed = self.heads(dmixed, m.heads)
            dshare = dmixed @ v.swapaxes(2, 3)
            dscore = share * (dshare - (dshare * share).sum(-1, keepdims=True)) / F(math.sqrt(m.head_dim))
            together = lambda x: x.reshape(x.shape[0], m.kv_heads, -1, *x.shape[2:]).sum(2)
            parts = {"q": self.rotate(dscore @ k, cos, -sin), "k": self.rotate(together(dscore.swapaxes(2, 3) @ q), cos, -sin),
                     "v": together(share.swapaxes(2, 3) @ dmixed)}
            dh = 0
            for name, part in parts.items():
                part = part.swapaxes(1, 2).reshape(*h.shape[:2], -1)
                one, to(f"self_attn.{name}_proj")[:] = linear_back(part, h, at(f"self_attn.{name}_proj"))
                dh = dh + one
            dx, to("input_layernorm")[:] = rms_norm_back(dh, norm1)
            d = d + dx
        np.add.at(g["model.embed_tokens.weight"], tokens, d)


def schedule(inner, step):
    """The share of the peak at a step of the job clock."""
    s = inner.schedule
    if step < s.warmup_steps:
        return (step + 1) / s.warmup_steps
    begin, end = min(s.warmup_steps, s.total_steps), s.total_steps
    if s.kind == 4:
        begin = end - min(end, s.decay_steps or max(1, end // 5))
    progress = min(1.0, max(0.0, (step - begin) / (end - begin))) if end > begin else 1.0
    fall = 0.0 if s.kind == 1 else (1 - math.cos(math.pi * progress)) / 2 if s.kind == 2 else progress
    return 1 - (1 - s.final_ratio) * fall


class Optimizer:
    """AdamW or SGD over the arena of a model."""

    def __init__(self, inner, model):
        self.inner, self.model, self.steps = inner, model, 0
        self.first, self.second = np.zeros_like(model.arena), np.zeros_like(model.arena)

    def step(self, clock, ramp):
        o, g = self.inner, self.model.gradient
        norm = float(np.sqrt(np.square(g.astype(np.float64)).sum()))
        if o.gradient_clip and norm > o.gradient_clip:
            g *= F(o.gradient_clip / norm)
        rate = o.learning_rate * schedule(o, clock) * ramp
        self.steps += 1
        if o.kind == 2:
            self.model.arena[:] -= F(rate) * g
            return
        self.model.arena[self.model.decays] *= F(1 - rate * o.weight_decay)
        self.first += F(1 - o.beta1) * (g - self.first)
        self.second += F(1 - o.beta2) * (g * g - self.second)
        root = np.sqrt(self.second / F(1 - o.beta2 ** self.steps)) + F(o.epsilon)
        self.model.arena[:] -= F(rate / (1 - o.beta1 ** self.steps)) * self.first / root
