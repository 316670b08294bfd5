"""Starts a model with tokens that can be told apart and with an induction circuit in two layers.

Copying ("the token that followed this one before") needs a head that looks one token back and, in
a later layer, a head that matches the current token with what stands before each earlier token
(Olsson et al. 2022, In-context Learning and Induction Heads). Models find it by themselves only
after very many tokens; written down at the start, it is there at once, and training refines it like
everything else.

The residual stream is divided: the first part holds the token embedding, PREVIOUS a random code of
the token before, SPACE whether the token starts with a space, ONE a constant. The word is the same
vector with and without a space, so what is learned of " Pip" holds for "Pip".

Layer 0, KV head 0: keys are constant, so the rotary phase alone decides where the first query head
looks: one token back. Its output writes the code of the token found to PREVIOUS.
Layer 1, KV head 0: keys read PREVIOUS, queries the code of the current token, and the output is the
token found.
"""

from __future__ import annotations

import torch

from model import Llama
from tokenizer import Tokenizer

NEAR = 5  # fast turning pairs that decide on the position
STEEPNESS = 40.0  # product of query and key lengths in each of these pairs
MATCH_SCORE = 14.0  # mean score of equal tokens, after scaling by the head size
LOUDNESS = 0.5  # size of PREVIOUS, relative to the embedding
COPY = 3.0  # size of a copied token, in the dimensions that the head carries
SPACE_SIZE = 3.0


@torch.no_grad()
def prime(model: Llama, tokenizer: Tokenizer) -> None:
    """Overwrites the embedding and KV head 0 of the first two layers of a fresh model."""
    first, second = model.blk[0], model.blk[1]
    width, head, group = model.config.width, first.head, first.group
    n_match = head * 3 // 8 // 2 * 2  # size of the code, which stands in slowly turning pairs
    n_token = width - n_match - 2
    previous = torch.arange(n_token, n_token + n_match)
    space, one = width - 2, width - 1

    embedding = model.token_embd.weight
    embedding.zero_()
    embedding[:, :n_token].normal_()
    for token, index in tokenizer.ids.items():
        bare = tokenizer.ids.get(token[1:])
        if token[0] == "Ġ" and bare is not None:
            embedding[index, :n_token] = embedding[bare, :n_token]
        embedding[index, space] = SPACE_SIZE if token[0] == "Ġ" else -SPACE_SIZE
    embedding[:, one] = 2.0
    norm = embedding.square().mean(-1).sqrt().mean()  # what the first norm divides by

    first.attn_q.weight[: group * head] = 0
    first.attn_k.weight[:head] = 0
    strength = STEEPNESS**0.5 * norm / 2.0
    turned = torch.polar(torch.ones(NEAR), -model.table[1].angle()[:NEAR])
    first.attn_q.weight[: 2 * NEAR, one] = strength * torch.view_as_real(turned).flatten()
    first.attn_k.weight[: 2 * NEAR : 2, one] = strength
    code = torch.randn(n_match, n_token) * n_token**-0.5
    first.attn_v.weight[:head] = 0
    first.attn_v.weight[:n_match, :n_token] = code * norm
    first.attn_output.weight[previous, torch.arange(n_match)] = LOUDNESS

    slow = slice(head - n_match, head)
    strength = (MATCH_SCORE * head**0.5 / n_match) ** 0.5 * norm
    second.attn_k.weight[:head] = 0
    second.attn_k.weight[slow, previous] = torch.eye(n_match) * strength / LOUDNESS
    second.attn_q.weight[: group * head] = 0
    for number in range(group):
        second.attn_q.weight[number * head :][slow, :n_token] = strength * code
    reader = torch.linalg.qr(torch.randn(n_token, head))[0].T
    second.attn_v.weight[:head] = 0
    second.attn_v.weight[:head, :n_token] = reader * norm
    for number in range(group):
        columns = slice(number * head, (number + 1) * head)
        second.attn_output.weight[:n_token, columns] = COPY / group * reader.T
