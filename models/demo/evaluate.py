"""Measures the model on held-out samples, from the quantised weights in the GGUF files.

Prints, per task, how many greedy answers equal the right one exactly, and how many of the draft's
proposals the target would accept along these answers: at temperature 0 (the same first choice) and
at temperature 1 (the overlap of the two distributions).
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import torch
from torch import Tensor

import chat
import gguf
import world
from model import Cache, Config, Llama
from tokenizer import Tokenizer

TASKS = ["question", "json", "json-syntax", "tool", "arithmetic", "talk", "story"]
BATCH = 40
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


def generate(
    model: Llama, tokenizer: Tokenizer, prompts: list[list[int]], limit: int = 400
) -> list[list[int]]:
    """Greedy continuations up to and with the end token, of all prompts at once.

    Shorter prompts are padded on the left; the rotary embedding only knows distances.
    """
    stops = {tokenizer.end, tokenizer.end_of_text}
    longest = max(map(len, prompts))
    pads = [longest - len(prompt) for prompt in prompts]
    tokens = torch.tensor([[0] * pad + prompt for pad, prompt in zip(pads, prompts, strict=True)])
    padding = torch.arange(longest)[None] < torch.tensor(pads)[:, None]
    hidden = torch.zeros(padding.shape).masked_fill_(padding, float("-inf"))[:, None, None, None]
    mask = hidden + causal(longest)
    mask[..., range(longest), range(longest)] = 0
    cache: Cache = []
    states = model.hidden(tokens, mask, cache)
    outputs: list[list[int]] = [[] for _ in prompts]
    for step in range(limit):
        choices = model.logits(states[:, -1]).argmax(-1)
        for output, choice in zip(outputs, choices.tolist(), strict=True):
            if not output or output[-1] not in stops:
                output.append(choice)
        if all(output[-1] in stops for output in outputs):
            break
        mask = torch.cat([hidden, hidden.new_zeros(len(prompts), 1, 1, 1, step + 1)], -1)
        states = model.hidden(choices[:, None], mask, cache)
    return outputs


def acceptance(
    model: Llama, draft: Llama, prompt: list[int], output: list[int]
) -> tuple[float, float]:
    """How many tokens of the output the draft would get accepted at temperature 0 and at 1."""
    ids = torch.tensor([prompt + output[:-1]])
    mask = causal(ids.shape[1])
    p, q = (
        part.logits(part.hidden(ids, mask)[0, len(prompt) - 1 :]).softmax(-1)
        for part in (model, draft)
    )
    greedy = (q.argmax(-1) == torch.tensor(output)).sum()
    return greedy.item(), torch.minimum(p, q).sum().item()


def is_good_story(prompt: str, story: str) -> bool:
    """Whether the story is complete, of the right length and about whom the prompt names."""
    names = re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", prompt)
    return (
        story.endswith(chat.END)
        and 80 <= len(story.split()) <= 220
        and story.count('"') % 2 == 0
        and all(story.count(name) > 1 for name in names)
    )


def is_json(answer: str) -> bool:
    """Whether the answer parses."""
    try:
        json.loads(answer.removesuffix(chat.END))
    except ValueError:
        return False
    return True


def is_right(task: str, sample: world.Sample, answer: str) -> bool:
    """Whether the answer, which should end with the end token, is the expected one."""
    if task == "story":
        return is_good_story(sample.messages[0]["content"], answer)
    if task == "json-syntax":
        return is_json(answer)
    return answer == sample.answer + chat.END


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
        print(tokenizer.decode(generate(model, tokenizer, [tokenizer.encode(text)])[0]))
        return
    print("| task | right | of | accepted at 0 | accepted at 1 |\n|---|---|---|---|---|")
    for task in options.tasks:
        right = tokens = shown = 0
        accepted = [0.0, 0.0]
        samples = [world.sample(task, number) for number in range(options.count)]
        prompts = [
            tokenizer.encode(chat.prompt_text(sample.messages, sample.tools)) for sample in samples
        ]
        outputs = []
        for first in range(0, options.count, BATCH):
            outputs += generate(model, tokenizer, prompts[first : first + BATCH])
        for sample, prompt, output in zip(samples, prompts, outputs, strict=True):
            answer, question = tokenizer.decode(output), sample.messages[-1]["content"]
            good = is_right(task, sample, answer)
            right += good
            tokens += len(output)
            found = acceptance(model, draft, prompt, output)
            accepted = [total + part for total, part in zip(accepted, found, strict=True)]
            if not good and shown < options.show:
                shown += 1
                print(f"\n{question}\n-> {answer}\nnot {sample.answer}\n")
        shares = " | ".join(f"{total / tokens:.1%}" for total in accepted)
        print(f"| {task} | {right / options.count:.1%} | {options.count} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
