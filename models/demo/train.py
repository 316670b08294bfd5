"""Trains the target: train.py FOLDER, where FOLDER holds tokenizer.json and receives checkpoints.

Training resumes from the checkpoint in the folder.
"""

from __future__ import annotations

from model import TARGET, Llama
from prime import prime
from tokenizer import Tokenizer
from training import Learner, Training, option_parser, schedule, set_up, train_step


def main() -> None:
    parser = option_parser(__doc__, tokens=11e6)
    parser.add_argument("--steps", type=int, default=10**9, help="stop early, for measuring")
    options = parser.parse_args()

    set_up(seed=1)
    tokenizer = Tokenizer.load(options.folder / "tokenizer.json")
    model = Llama(TARGET)
    prime(model, tokenizer)
    learner = Learner(model, matrix_rate=0.015, adam_rate=0.004)
    training = Training(learner, tokenizer, options.folder / "checkpoint.pt")

    loss = 0.0
    last = training.step + options.steps
    while training.seen < options.tokens and training.step < last:
        rate = schedule(training.seen / options.tokens)
        batches = training.stream.step(options.step_tokens)
        loss += train_step(learner, batches, training.mask, rate)
        if training.count(batches):
            training.report(f"loss {loss / training.REPORT_STEPS:.4f}")
            loss = 0.0
    training.save()


if __name__ == "__main__":
    main()
