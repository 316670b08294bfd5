"""Writes an induction circuit into the first two layers of a model.

Copying ("the token that followed this one before") needs a head that looks one token back and, in
a later layer, a head that matches the current token with what stands before each earlier token
(Olsson et al. 2022, In-context Learning and Induction Heads). Models find it by themselves only
after very many tokens; written down, it is there at once. It disturbs what the model knew, which a
few hundred steps mend, and it is refined by training like everything else.

Layer 0, KV head 0: keys are constant, so the rotary phase alone decides where the two query heads
look: the first one token back, the second at the token itself. The values are a random code of the
token, which the heads write to two free subspaces of the residual stream, PREVIOUS and CURRENT.
Layer 1, KV head 0: keys read PREVIOUS, queries read CURRENT, values read CURRENT, and the output is
decoded into the embedding of the token found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from model import DRAFT, TARGET, Llama
from tokenizer import Tokenizer
from train import Stream

NEAR = 5  # fast turning pairs that decide on the position
STEEPNESS = 40.0  # product of query and key lengths in each of these pairs
MATCH_SCORE = 14.0  # mean score of equal tokens, after scaling by the head size
LOUDNESS = 0.05  # length of a written code, relative to the residual stream


@torch.no_grad()
def prime(model: Llama, tokens: Tensor, mask: Tensor) -> None:
    """Overwrites KV head 0 of the first two layers; the tokens [rows, length] set the scales."""
    first, second = model.blk[0], model.blk[1]
    head, group, table = first.head, first.group, model.table[: tokens.shape[1]]
    n_code = model.config.width // 4  # width of the token code
    n_match = n_code * 3 // 8 // 2 * 2  # its leading part that is compared, in slowly turning pairs
    before, _ = first(model.token_embd(tokens), table, mask, None)
    loud = LOUDNESS * before.norm(dim=-1).mean()
    embedding = model.token_embd.weight
    _, sigma, basis = torch.linalg.svd(embedding - embedding.mean(0), full_matrices=False)
    sigma = sigma / len(embedding) ** 0.5
    top = len(sigma) - n_code - n_match - 1
    current, previous, constant = basis[top : top + n_code], basis[top + n_code : -1], basis[-1]
    mix = torch.linalg.qr(torch.randn(top, n_code))[0].T / n_code**0.5
    code = mix @ (basis[:top] / sigma[:top, None])  # [n_code, width], unit codes of the tokens
    decode = (basis[:top] / sigma[:top, None]).T @ mix.T

    # A constant in the embedding; the tied output only shifts all logits by it.
    length = embedding.norm(dim=1).mean()
    size = 1.5 * length
    embedding -= torch.outer(embedding @ constant, constant)
    embedding += size * constant
    ratio = (1 + (size / length) ** 2) ** 0.5
    for matrix in (first.attn_q, first.attn_k, first.attn_v):
        direction = first.attn_norm.weight * constant
        weight = matrix.weight
        weight -= torch.outer(weight @ direction, constant / first.attn_norm.weight)
        weight *= ratio
    x = model.token_embd(tokens)
    normed = first.attn_norm(x)
    scale = first.attn_norm.weight
    reader = constant / scale
    level = (normed @ reader).mean()

    phases = model.table[1].angle()[:NEAR]
    strength = STEEPNESS**0.5 / level
    rows = slice(0, 2 * NEAR)
    first.attn_q.weight[: group * head] = 0
    first.attn_k.weight[:head] = 0
    for number, offset in enumerate((1, 0)):
        pairs = torch.view_as_real(torch.polar(torch.ones(NEAR), -offset * phases)).flatten()
        first.attn_q.weight[number * head :][rows] = strength * torch.outer(pairs, reader)
    ahead = torch.tensor([1.0, 0.0]).repeat(NEAR)
    first.attn_k.weight[rows] = strength * torch.outer(ahead, reader)
    free = torch.cat([current, previous])
    first.attn_v.weight[:head] = 0
    first.attn_v.weight[:n_code] = code / scale
    first.attn_v.weight[:n_code] *= 1 / (normed @ (code / scale).T).norm(dim=-1).mean()
    for matrix in (first.attn_output, first.ffn_down):
        matrix.weight -= free.T @ (free @ matrix.weight)
    first.attn_output.weight[:, : group * head] = 0
    first.attn_output.weight[:, :n_match] = loud * previous.T
    first.attn_output.weight[:, head : head + n_code] = loud * current.T

    x, _ = first(x, table, mask, None)
    normed = second.attn_norm(x)
    scale = second.attn_norm.weight
    slow = slice(head - n_match, head)
    query, key = current[:n_match] / scale, previous / scale
    agree = ((normed[:, :-1] @ query.T) * (normed[:, 1:] @ key.T)).sum(-1).mean()
    strength = (MATCH_SCORE * head**0.5 / agree) ** 0.5
    second.attn_q.weight[: group * head] = 0
    second.attn_k.weight[:head] = 0
    second.attn_k.weight[slow] = strength * key
    for number in range(group):
        second.attn_q.weight[number * head :][slow] = strength * query
    second.attn_v.weight[:head] = 0
    second.attn_v.weight[:n_code] = current / scale
    value = (normed @ (current / scale).T).norm(dim=-1).mean()
    decode *= x.norm(dim=-1).mean() / (value * decode.norm() / n_code**0.5)
    second.attn_output.weight[:, : group * head] = 0
    second.attn_output.weight[:, :n_code] = 0.7 * decode
    second.attn_output.weight[:, head : head + n_code] = 0.3 * decode


def main() -> None:
    """Primes both models of a checkpoint: prime.py FOLDER."""
    folder = Path(sys.argv[1])
    torch.manual_seed(3)
    checkpoint = torch.load(folder / "checkpoint.pt")
    stream = Stream(Tokenizer.load(folder / "tokenizer.json"), 20_000)
    tokens, _, mask = stream.batch(4, 384, long=False)
    mask[..., range(384), range(384)] = 0  # padding sees itself
    for part, config in (("target", TARGET), ("draft", DRAFT)):
        model = Llama(config)
        model.load_state_dict(checkpoint[part]["model"])
        prime(model, tokens, mask)
        checkpoint[part]["model"] = model.state_dict()
        for momentum in checkpoint[part]["momentum"]:
            momentum.zero_()
    torch.save(checkpoint, folder / "checkpoint.pt")


if __name__ == "__main__":
    main()
