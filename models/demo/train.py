"""Trains the target and, at the same time, the draft on the target's predictions.

Matrices are updated by Muon (momentum orthogonalised by Newton-Schulz steps, Jordan 2024), the
embedding and the norms by Adam. Training resumes from the checkpoint in the output folder.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import world
from model import DRAFT, TARGET, Llama
from tokenizer import Tokenizer

LONG_FROM = 0.6  # from this share of the budget on, one step in LONG_EVERY has the full context
LONG_EVERY = 20
PROMPT_SHARE = 0.25  # share of the tokens not written by the model that are trained on
PROMPT_WEIGHT = 0.4
LONG_TEXT, LONG_TEXT_WEIGHT = 80, 0.5  # a story's tokens count less than those of short answers
DRAFT_FULL_FROM = 0.7  # before this share of the budget the draft learns in every second step
Document = tuple[list[int], list[float]]  # token ids, weight of predicting each


class Stream:
    """Packs whole documents into rows of a fixed length."""

    def __init__(self, tokenizer: Tokenizer, index: int):
        self.tokenizer, self.index = tokenizer, index
        self.pool: list[Document] = []

    def _next(self, long: bool) -> Document:
        segments = (world.long_document if long else world.document)(self.index)
        self.index += 1
        ids: list[int] = []
        weights: list[float] = []
        for text, written in segments:
            part = self.tokenizer.encode(text)
            ids += part
            weight = LONG_TEXT_WEIGHT if len(part) > LONG_TEXT else 1.0
            weights += [weight if written else 0.0] * len(part)
        return ids, weights

    def row(self, length: int, long: bool) -> list[Document]:
        """Documents of together at most `length` tokens; a long row starts with a long one."""
        picked: list[Document] = []
        room = length
        if long:
            ids, weights = self._next(True)
            picked.append((ids[:length], weights[:length]))
            room -= len(picked[0][0])
        while True:
            while len(self.pool) < 48:
                document = self._next(False)
                if len(document[0]) <= length:
                    self.pool.append(document)
            fits = [i for i, document in enumerate(self.pool) if len(document[0]) <= room]
            if not fits:
                return picked
            best = max(fits, key=lambda i: len(self.pool[i][0])) if picked else fits[0]
            picked.append(self.pool.pop(best))
            room -= len(picked[-1][0])

    def batch(self, rows: int, length: int, long: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens [rows, length], weights of predicting them, and the attention mask."""
        tokens = torch.zeros(rows, length, dtype=torch.long)
        weights = torch.zeros(rows, length)
        owner = torch.full((rows, length), -1)
        for row in range(rows):
            at = 0
            for number, (ids, weight) in enumerate(self.row(length, long)):
                end = at + len(ids)
                tokens[row, at:end] = torch.tensor(ids)
                weights[row, at + 1 : end] = torch.tensor(weight[1:])
                owner[row, at:end] = number
                at = end
        allowed = (owner[:, :, None] == owner[:, None, :]).tril()
        mask = torch.zeros(rows, 1, 1, length, length)
        mask.masked_fill_(~allowed[:, None, None], float("-inf"))
        prompts = (weights == 0) & (owner >= 0) & (torch.rand(rows, length) < PROMPT_SHARE)
        prompts[:, 1:] &= owner[:, 1:] == owner[:, :-1]
        prompts[:, 0] = False
        return tokens, weights + PROMPT_WEIGHT * prompts, mask


def orthogonalise(gradient: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrix, by five quintic Newton-Schulz steps."""
    x = gradient / (gradient.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if tall else x


class Muon:
    """Momentum, orthogonalised, for matrices."""

    def __init__(self, parameters: Iterator[nn.Parameter], rate: float):
        self.parameters, self.rate = list(parameters), rate
        self.momentum = [torch.zeros_like(parameter) for parameter in self.parameters]

    @torch.no_grad()
    def step(self, schedule: float) -> None:
        rate = self.rate * schedule
        for parameter, momentum in zip(self.parameters, self.momentum, strict=True):
            momentum.lerp_(parameter.grad, 0.05)
            update = orthogonalise(parameter.grad.lerp(momentum, 0.95))
            scale = max(1.0, parameter.shape[0] / parameter.shape[1]) ** 0.5
            parameter.mul_(1 - rate * 0.02).add_(update, alpha=-rate * scale)
            parameter.grad = None


class Learner:
    """A model with its two optimisers."""

    def __init__(self, model: Llama, matrix_rate: float, adam_rate: float):
        self.model = model
        matrices = [p for name, p in model.named_parameters() if "blk" in name and p.dim() == 2]
        others = [p for name, p in model.named_parameters() if "blk" not in name or p.dim() != 2]
        self.muon = Muon(matrices, matrix_rate)
        self.adam = torch.optim.Adam(others, lr=adam_rate, betas=(0.9, 0.97), eps=1e-10)
        self.adam_rate = adam_rate

    def step(self, schedule: float) -> None:
        self.muon.step(schedule)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_rate * schedule
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def state(self) -> dict[str, object]:
        return {
            "model": self.model.state_dict(),
            "momentum": self.muon.momentum,
            "adam": self.adam.state_dict(),
        }

    def restore(self, state: dict[str, object]) -> None:
        self.model.load_state_dict(state["model"])
        self.muon.momentum = state["momentum"]
        self.adam.load_state_dict(state["adam"])


def schedule(progress: float) -> float:
    """Learning-rate factor: a short warm-up, a plateau, then linear to zero."""
    return min(progress / 0.015 + 0.02, 1.0, max(0.0, (1 - progress) / 0.55))


def train_step(
    target: Learner, draft: Learner, batch: tuple[Tensor, Tensor, Tensor], rate: float, both: bool
) -> tuple[float, float]:
    """One update of the target, and of the draft when asked for both.

    Returns the losses on the text that the model writes.
    """
    tokens, weights, mask = batch
    where = weights[:, 1:].flatten().nonzero()[:, 0]
    weight = weights[:, 1:].flatten()[where]
    labels = tokens[:, 1:].flatten()[where]
    mask = mask.clone()
    mask[..., range(mask.shape[-1]), range(mask.shape[-1])] = 0  # padding sees itself

    def log_probabilities(model: Llama) -> Tensor:
        states = model.hidden(tokens, mask)[:, :-1].reshape(-1, model.config.width)[where]
        return F.log_softmax(model.logits(states), -1)

    full = weight >= LONG_TEXT_WEIGHT
    log_p = log_probabilities(target.model)
    losses = -log_p.gather(1, labels[:, None])[:, 0]
    (losses @ weight / weight.sum()).backward()
    target.step(rate)
    loss = losses.detach()[full].mean().item()
    if not both:
        return loss, 0.0
    probabilities = log_p.detach().exp()

    log_q = log_probabilities(draft.model)
    (-(probabilities * log_q).sum(1) @ weight / weight.sum()).backward()
    draft.step(rate)
    draft_losses = -log_q.detach().gather(1, labels[:, None])[:, 0]
    return loss, draft_losses[full].mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds tokenizer.json; checkpoints go here")
    parser.add_argument("--tokens", type=float, default=12e6, help="the whole budget")
    parser.add_argument("--rows", type=int, default=6)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--steps", type=int, default=10**9, help="stop early, for measuring")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    random.seed(1)
    tokenizer = Tokenizer.load(options.folder / "tokenizer.json")
    target = Learner(Llama(TARGET), matrix_rate=0.012, adam_rate=0.003)
    draft = Learner(Llama(DRAFT), matrix_rate=0.018, adam_rate=0.005)
    checkpoint = options.folder / "checkpoint.pt"
    seen = step = index = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        seen, step, index = saved["seen"], saved["step"], saved["index"]
        target.restore(saved["target"])
        draft.restore(saved["draft"])
    stream = Stream(tokenizer, index)

    def save() -> None:
        state = {"target": target.state(), "draft": draft.state()}
        state |= {"seen": seen, "step": step, "index": stream.index}
        torch.save(state, checkpoint.with_suffix(".tmp"))
        checkpoint.with_suffix(".tmp").replace(checkpoint)

    start, first, saved_at, sums, n_draft = time.time(), seen, time.time(), [0.0, 0.0], 0
    last = step + options.steps
    while seen < options.tokens and step < last:
        progress = seen / options.tokens
        long = progress >= LONG_FROM and step % LONG_EVERY == 0
        rows, length = (1, TARGET.context) if long else (options.rows, options.length)
        batch = stream.batch(rows, length, long)
        both = progress > DRAFT_FULL_FROM or step % 2 == 0
        losses = train_step(target, draft, batch, schedule(progress), both)
        sums = [total + loss for total, loss in zip(sums, losses, strict=True)]
        n_draft += both
        step += 1
        seen += rows * length
        if step % 20 == 0:
            speed = (seen - first) / (time.time() - start)
            print(
                f"step {step} tokens {seen} target {sums[0] / 20:.4f} "
                f"draft {sums[1] / max(n_draft, 1):.4f} "
                f"{speed:.0f} tokens/s {time.strftime('%H:%M:%S')}",
                flush=True,
            )
            sums, n_draft = [0.0, 0.0], 0
        if time.time() - saved_at > 120:
            save()
            saved_at = time.time()
    save()


if __name__ == "__main__":
    main()
