"""A Llama decoder in the GGUF convention: adjacent-pair rotary, grouped queries, tied output."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The shape of a model; head size is width / heads."""

    vocab: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    context: int = 2048
    rope_base: float = 10_000.0
    norm_epsilon: float = 1e-5


TARGET = Config(vocab=2080, width=256, layers=5, heads=4, kv_heads=2, hidden=448)
DRAFT = Config(vocab=2080, width=96, layers=3, heads=2, kv_heads=1, hidden=96)

Cache = list[tuple[Tensor, Tensor]]  # per layer: keys and values [rows, kv_heads, past, head]


def rope_table(config: Config) -> Tensor:
    """Unit complex numbers [context, head / 2] that turn adjacent pairs."""
    head = config.width // config.heads
    frequency = config.rope_base ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    angles = torch.outer(torch.arange(config.context, dtype=torch.float64), frequency)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Rotary embedding of x [rows, positions, heads, head] with table [positions, head / 2]."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table[:, None, :]).flatten(-2)


class RMSNorm(nn.Module):
    """x / rms(x) * weight."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight)


def _matrix(rows: int, columns: int, scale: float) -> nn.Linear:
    layer = nn.Linear(columns, rows, bias=False)
    nn.init.normal_(layer.weight, std=scale * columns**-0.5)
    return layer


class Block(nn.Module):
    """Attention and SwiGLU with their norms; names follow the GGUF tensors."""

    def __init__(self, config: Config):
        super().__init__()
        width, self.head = config.width, config.width // config.heads
        self.kv_heads, self.group = config.kv_heads, config.heads // config.kv_heads
        self.attn_norm = RMSNorm(width, config.norm_epsilon)
        self.attn_q = _matrix(width, width, 0.7)
        self.attn_k = _matrix(self.kv_heads * self.head, width, 0.7)
        self.attn_v = _matrix(self.kv_heads * self.head, width, 0.7)
        self.attn_output = _matrix(width, width, 0.0)
        self.ffn_norm = RMSNorm(width, config.norm_epsilon)
        self.ffn_gate = _matrix(config.hidden, width, 0.7)
        self.ffn_up = _matrix(config.hidden, width, 0.7)
        self.ffn_down = _matrix(width, config.hidden, 0.0)

    def forward(
        self, x: Tensor, table: Tensor, mask: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rows, length, _ = x.shape
        normed = self.attn_norm(x)
        q = rotate(self.attn_q(normed).view(rows, length, -1, self.head), table)
        k = rotate(self.attn_k(normed).view(rows, length, -1, self.head), table).transpose(1, 2)
        v = self.attn_v(normed).view(rows, length, -1, self.head).transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        # The query heads of a group stand below each other, so that k and v are not repeated.
        q = q.view(rows, length, self.kv_heads, self.group, self.head).permute(0, 2, 3, 1, 4)
        q = q.reshape(rows, self.kv_heads, self.group * length, self.head)
        scores = (q * self.head**-0.5) @ k.transpose(2, 3)
        scores = scores.view(rows, self.kv_heads, self.group, length, -1) + mask
        mixed = torch.softmax(scores, -1).flatten(2, 3) @ v
        mixed = mixed.view(rows, self.kv_heads, self.group, length, self.head)
        x = x + self.attn_output(mixed.permute(0, 3, 1, 2, 4).reshape(rows, length, -1))
        normed = self.ffn_norm(x)
        x = x + self.ffn_down(F.silu(self.ffn_gate(normed)) * self.ffn_up(normed))
        return x, (k, v)


class Llama(nn.Module):
    """The decoder; the output matrix is the token embedding."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocab, config.width)
        nn.init.normal_(self.token_embd.weight)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_norm = RMSNorm(config.width, config.norm_epsilon)
        nn.init.constant_(self.output_norm.weight, 0.05)
        self.register_buffer("table", rope_table(config), persistent=False)

    def hidden(self, tokens: Tensor, mask: Tensor, cache: Cache | None = None) -> Tensor:
        """Normed last states [rows, length, width]; mask is added to the scores.

        `cache`, when given, holds the past keys and values and is extended in place.
        """
        past = list(cache) if cache else [None] * len(self.blk)
        start = past[0][0].shape[2] if cache else 0
        table = self.table[start : start + tokens.shape[1]]
        x = self.token_embd(tokens)
        pairs = []
        for block, before in zip(self.blk, past, strict=True):
            x, pair = block(x, table, mask, before)
            pairs.append(pair)
        if cache is not None:
            cache[:] = pairs
        return self.output_norm(x)

    def logits(self, states: Tensor) -> Tensor:
        """Logits over the vocabulary for states [..., width]."""
        return F.linear(states, self.token_embd.weight)
