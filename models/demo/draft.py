"""Trains the draft to predict what the target would say: draft.py FOLDER, beside or after train.py.

For the first part of the budget the draft learns from the text, then from the target's full
distribution (distillation), so that it agrees with the target and not just with the text. The
target is read again from its checkpoint whenever that is new, so both can be trained at once.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from torch import Tensor

from model import DRAFT, TARGET, Llama
from prime import prime
from tokenizer import Tokenizer
from train import Batch, Learner, Stream, log_probabilities, schedule, train_step

TEXT_UNTIL = 0.5  # share of the budget
FIRST_DOCUMENT = 500_000  # other documents than the target learns from


def distil_step(
    target: Llama, draft: Learner, batches: list[Batch], mask: Tensor, rate: float
) -> tuple[float, float]:
    """One update; returns the acceptance at temperature 0 and at temperature 1."""
    total = sum(weights[:, 1:].sum().item() for _, weights in batches)
    greedy, sampled = [], []
    for batch in batches:
        with torch.no_grad():
            log_p, _, weight = log_probabilities(target, batch, mask)
            p = log_p.exp()
        log_q, _, _ = log_probabilities(draft.model, batch, mask)
        (-(p * log_q).sum(1) @ weight / total).backward()
        with torch.no_grad():
            written = weight >= 0.5
            greedy.append((log_p.argmax(-1) == log_q.argmax(-1))[written])
            sampled.append(torch.minimum(p, log_q.exp()).sum(1)[written])
    draft.step(rate)
    return torch.cat(greedy).float().mean().item(), torch.cat(sampled).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=float, default=10e6, help="the whole budget")
    parser.add_argument("--step-tokens", type=int, default=4400)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(2)
    random.seed(2)
    tokenizer = Tokenizer.load(options.folder / "tokenizer.json")
    target = Llama(TARGET)
    model = Llama(DRAFT)
    prime(model, tokenizer)
    learner = Learner(model, matrix_rate=0.02, adam_rate=0.006)
    mask = torch.full((TARGET.context, TARGET.context), float("-inf")).triu(1)
    teacher, checkpoint = options.folder / "checkpoint.pt", options.folder / "draft.pt"
    seen = step = 0
    index = FIRST_DOCUMENT
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        seen, step, index = saved["seen"], saved["step"], saved["index"]
        learner.restore(saved)
    stream = Stream(tokenizer, index)

    def save() -> None:
        state = learner.state() | {"seen": seen, "step": step, "index": stream.index}
        torch.save(state, checkpoint.with_suffix(".tmp"))
        checkpoint.with_suffix(".tmp").replace(checkpoint)

    start, first, saved_at, read_at, sums = time.time(), seen, time.time(), 0.0, [0.0, 0.0]
    while seen < options.tokens:
        progress = seen / options.tokens
        batches = stream.step(options.step_tokens)
        if progress < TEXT_UNTIL:
            train_step(learner, batches, mask, schedule(progress))
        else:
            if teacher.stat().st_mtime > read_at:
                read_at = teacher.stat().st_mtime
                target.load_state_dict(torch.load(teacher)["model"])
            shares = distil_step(target, learner, batches, mask, schedule(progress))
            sums = [total + share for total, share in zip(sums, shares, strict=True)]
        step += 1
        seen += sum(int((tokens > 0).sum()) for tokens, _ in batches)
        if step % 20 == 0:
            speed, clock = (seen - first) / (time.time() - start), time.strftime("%H:%M:%S")
            print(
                f"{clock} step {step} tokens {seen} accepted greedy {sums[0] / 20:.3f} "
                f"sampled {sums[1] / 20:.3f} {speed:.0f} tokens/s",
                flush=True,
            )
            sums = [0.0, 0.0]
        if time.time() - saved_at > 120:
            save()
            saved_at = time.time()
    save()


if __name__ == "__main__":
    main()
