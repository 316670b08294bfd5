"""Trains the draft to predict what the target would say: draft.py FOLDER, beside or after train.py.

For the first part of the budget the draft learns from the text, then from the target's full
distribution (distillation), so that it agrees with the target and not just with the text. The
target is read again from its checkpoint whenever that is new, so both can be trained at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model import DRAFT, TARGET, Llama
from prime import prime
from tokenizer import Tokenizer
from training import (
    Batch,
    Learner,
    Training,
    log_probabilities,
    option_parser,
    schedule,
    set_up,
    train_step,
)

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
    options = option_parser(__doc__, tokens=10e6).parse_args()

    set_up(seed=2)
    tokenizer = Tokenizer.load(options.folder / "tokenizer.json")
    target = Llama(TARGET)
    model = Llama(DRAFT)
    prime(model, tokenizer)
    learner = Learner(model, matrix_rate=0.02, adam_rate=0.006)
    teacher = options.folder / "checkpoint.pt"
    training = Training(learner, tokenizer, options.folder / "draft.pt", FIRST_DOCUMENT)

    read_at, sums = 0.0, [0.0, 0.0]
    while training.seen < options.tokens:
        progress = training.seen / options.tokens
        batches = training.stream.step(options.step_tokens)
        if progress < TEXT_UNTIL:
            train_step(learner, batches, training.mask, schedule(progress))
        else:
            if teacher.stat().st_mtime > read_at:
                read_at = teacher.stat().st_mtime
                target.load_state_dict(torch.load(teacher)["model"])
            shares = distil_step(target, learner, batches, training.mask, schedule(progress))
            sums = [total + share for total, share in zip(sums, shares, strict=True)]
        if training.count(batches):
            greedy, sampled = (total / training.REPORT_STEPS for total in sums)
            training.report(f"accepted greedy {greedy:.3f} sampled {sampled:.3f}")
            sums = [0.0, 0.0]
    training.save()


if __name__ == "__main__":
    main()
