"""Measures the model on held-out samples, from the quantised weights in the GGUF files.

Prints, per task, how many greedy answers equal the right one exactly, and how many of the target's
tokens the draft would have proposed (acceptance, greedy).
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import torch
from torch import Tensor

import chat
import gguf
import world
from model import Cache, Config, Llama
from tokenizer import Tokenizer

TASKS = ["question", "json", "tool", "arithmetic", "talk", "story"]
HERE = Path(__file__).parent


def load(path: Path) -> tuple[Llama, Tokenizer]:
    """The model with dequantised weights and the tokenizer, both from the file alone."""
    values, tensors = gguf.read(path)
    config = Config(
        vocab=values["llama.vocab_size"],
        width=values["llama.embedding_length"],
        layers=values["llama.block_count"],
        heads=values["llama.attention.head_count"],
        kv_heads=values["llama.attention.head_count_kv"],
        hidden=values["llama.feed_forward_length"],
        context=values["llama.context_length"],
        rope_base=values["llama.rope.freq_base"],
        norm_epsilon=values["llama.attention.layer_norm_rms_epsilon"],
    )
    model = Llama(config)
    model.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in tensors.items()})
    merges = [tuple(line.split(" ")) for line in values["tokenizer.ggml.merges"]]
    return model.eval(), Tokenizer(merges)


def causal(length: int) -> Tensor:
    """The additive mask of a prompt."""
    return torch.full((length, length), float("-inf")).triu(1)


def generate(model: Llama, tokenizer: Tokenizer, prompt: list[int], limit: int = 400) -> list[int]:
    """Greedy continuation up to and with the end token."""
    stops = {tokenizer.end, tokenizer.end_of_text}
    cache: Cache = []
    states = model.hidden(torch.tensor([prompt]), causal(len(prompt)), cache)
    output: list[int] = []
    while len(output) < limit:
        output.append(int(model.logits(states[0, -1]).argmax()))
        if output[-1] in stops:
            break
        states = model.hidden(torch.tensor([output[-1:]]), torch.zeros(1, 1), cache)
    return output


def agreement(draft: Llama, prompt: list[int], output: list[int]) -> int:
    """For how many tokens of the output the draft has the same first choice."""
    ids = prompt + output
    states = draft.hidden(torch.tensor([ids[:-1]]), causal(len(ids) - 1))
    choices = draft.logits(states[0, len(prompt) - 1 :]).argmax(-1)
    return int((choices == torch.tensor(output)).sum())


def is_good_story(prompt: str, story: str) -> bool:
    """Whether the story is complete, of the right length and about whom the prompt names."""
    names = re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", prompt)
    return (
        story.endswith(chat.END)
        and 80 <= len(story.split()) <= 220
        and story.count('"') % 2 == 0
        and all(story.count(name) > 1 for name in names)
    )


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="samples a task")
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--show", type=int, default=0, help="print this many wrong answers a task")
    parser.add_argument("--prompt", help="answer this prompt instead")
    options = parser.parse_args()

    torch.set_num_threads(1)
    model, tokenizer = load(HERE / "demo.gguf")
    draft, _ = load(HERE / "demo-draft.gguf")
    if options.prompt:
        text = chat.prompt_text([{"role": "user", "content": options.prompt}])
        print(tokenizer.decode(generate(model, tokenizer, tokenizer.encode(text))))
        return
    print("| task | right | of | acceptance |\n|---|---|---|---|")
    for task in options.tasks:
        right = tokens = accepted = shown = 0
        start = time.time()
        for number in range(options.count):
            sample = world.sample(task, number)
            prompt = tokenizer.encode(chat.prompt_text(sample.messages, sample.tools))
            output = generate(model, tokenizer, prompt)
            answer = tokenizer.decode(output)
            if task == "story":
                good = is_good_story(sample.messages[0]["content"], answer)
            else:
                good = answer == sample.answer + chat.END
            right += good
            tokens += len(output)
            accepted += agreement(draft, prompt, output)
            if not good and shown < options.show:
                shown += 1
                print(f"\n{sample.messages[-1]['content']}\n-> {answer}\nnot {sample.answer}\n")
        seconds = time.time() - start
        print(
            f"| {task} | {right / options.count:.1%} | {options.count} | {accepted / tokens:.1%} |"
            f" <!-- {tokens / seconds:.0f} tokens/s -->",
            flush=True,
        )


if __name__ == "__main__":
    main()
