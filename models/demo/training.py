"""What the training of target and draft share: documents, loss, optimisers, state on disk.

Matrices are updated by Muon (momentum orthogonalised by Newton-Schulz steps, Jordan 2024), the
embedding and the norms by Adam.
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
from model import TARGET, Llama
from tokenizer import Tokenizer

PROMPT_SHARE = 0.2  # share of the tokens not written by the model that are trained on
PROMPT_WEIGHT = 0.3
LONG_TEXT, LONG_TEXT_WEIGHT = 80, 0.5  # a story's tokens count less than those of short answers
MICRO_BATCH = 1536  # tokens that pass through the model at once: few enough for the cache
Document = tuple[list[int], list[float]]  # token ids, weight of predicting each
Batch = tuple[Tensor, Tensor]  # tokens [rows, length], weights of predicting them


def encode_document(tokenizer: Tokenizer, index: int) -> Document:
    """Training document `index`, cut to the context."""
    ids: list[int] = []
    weights: list[float] = []
    for text, written in world.document(index):
        part = tokenizer.encode(text)
        ids += part
        weight = LONG_TEXT_WEIGHT if len(part) > LONG_TEXT else 1.0
        for _ in part:
            prompt = PROMPT_WEIGHT if random.random() < PROMPT_SHARE else 0.0
            weights.append(weight if written else prompt)
    return ids[: TARGET.context], weights[: TARGET.context]


def pad(documents: list[Document]) -> Batch:
    """The documents as rows, filled up on the right."""
    length = max(len(ids) for ids, _ in documents)
    tokens = torch.zeros(len(documents), length, dtype=torch.long)
    weights = torch.zeros(len(documents), length)
    for row, (ids, weight) in enumerate(documents):
        tokens[row, : len(ids)] = torch.tensor(ids)
        weights[row, 1 : len(ids)] = torch.tensor(weight[1:])
    return tokens, weights


class Stream:
    """Documents from number `index` on, in steps of micro-batches of similar length.

    Documents of many steps are sorted together, which leaves little padding; each step takes its
    micro-batches at even distances, so that it sees short and long documents.
    """

    WINDOW = 8  # steps

    def __init__(self, tokenizer: Tokenizer, index: int):
        self.tokenizer, self.index = tokenizer, index
        self.steps: list[list[Batch]] = []

    def step(self, size: int) -> list[Batch]:
        """The next micro-batches, of together about `size` tokens."""
        if not self.steps:
            documents, total = [], 0
            while total < size * self.WINDOW:
                documents.append(encode_document(self.tokenizer, self.index))
                total += len(documents[-1][0])
                self.index += 1
            documents.sort(key=lambda document: len(document[0]))
            groups: list[list[Document]] = [[]]
            for document in documents:
                if groups[-1] and (len(groups[-1]) + 1) * len(document[0]) > MICRO_BATCH:
                    groups.append([])
                groups[-1].append(document)
            batches = [pad(group) for group in groups]
            self.steps = [batches[first :: self.WINDOW] for first in range(self.WINDOW)]
            random.shuffle(self.steps)
        return self.steps.pop()


def log_probabilities(model: Llama, batch: Batch, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the loss counts: log-probabilities over the vocabulary, right tokens and weights."""
    tokens, weights = batch
    where = weights[:, 1:].flatten().nonzero()[:, 0]
    length = tokens.shape[1]
    states = model.hidden(tokens, mask[:length, :length])[:, :-1]
    states = states.reshape(-1, model.config.width)[where]
    log_p = F.log_softmax(model.logits(states), -1)
    return log_p, tokens[:, 1:].flatten()[where], weights[:, 1:].flatten()[where]


def orthogonalise(gradient: Tensor) -> Tensor:
    """Nearly the closest semi-orthogonal matrix, by four quintic Newton-Schulz steps."""
    x = gradient / (gradient.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    for _ in range(4):
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
        self.adam = torch.optim.Adam(others, lr=adam_rate, betas=(0.9, 0.98), eps=1e-10)
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


def train_step(learner: Learner, batches: list[Batch], mask: Tensor, rate: float) -> float:
    """One update; returns the loss on the short texts that the model writes."""
    total = sum(weights[:, 1:].sum().item() for _, weights in batches)
    losses = []
    for batch in batches:
        log_p, labels, weight = log_probabilities(learner.model, batch, mask)
        loss = F.nll_loss(log_p, labels, reduction="none")
        (loss @ weight / total).backward()
        losses.append(loss.detach()[weight == 1])
    learner.step(rate)
    return torch.cat(losses).mean().item()


def option_parser(description: str, tokens: float) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=float, default=tokens, help="the whole budget")
    parser.add_argument("--step-tokens", type=int, default=4400)
    return parser


def set_up(seed: int) -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(seed)
    random.seed(seed)


class Training:
    """How far a learner has come; goes on from the checkpoint when there is one."""

    REPORT_STEPS = 20
    SAVE_SECONDS = 120

    def __init__(
        self, learner: Learner, tokenizer: Tokenizer, checkpoint: Path, first_document: int = 0
    ):
        self.learner, self.checkpoint = learner, checkpoint
        self.mask = torch.full((TARGET.context, TARGET.context), float("-inf")).triu(1)
        self.seen = self.step = 0
        index = first_document
        if checkpoint.exists():
            saved = torch.load(checkpoint)
            self.seen, self.step, index = saved["seen"], saved["step"], saved["index"]
            learner.restore(saved)
        self.stream = Stream(tokenizer, index)
        self.first, self.start = self.seen, time.time()
        self.saved_at = self.start

    def count(self, batches: list[Batch]) -> bool:
        """One step more; saves now and then. Is it time to report?"""
        self.step += 1
        self.seen += sum(int((tokens > 0).sum()) for tokens, _ in batches)
        if time.time() - self.saved_at > self.SAVE_SECONDS:
            self.save()
            self.saved_at = time.time()
        return self.step % self.REPORT_STEPS == 0

    def report(self, figures: str) -> None:
        speed = (self.seen - self.first) / (time.time() - self.start)
        clock = time.strftime("%H:%M:%S")
        print(
            f"{clock} step {self.step} tokens {self.seen} {figures} {speed:.0f} tokens/s",
            flush=True,
        )

    def save(self) -> None:
        place = {"seen": self.seen, "step": self.step, "index": self.stream.index}
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save(self.learner.state() | place, temporary)
        temporary.replace(self.checkpoint)
