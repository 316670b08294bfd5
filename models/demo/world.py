"""The seeded generator of all training and evaluation text.

A document is a list of segments (text, written by the model or not). `document(index)` gives the
same document for the same index everywhere; training counts up from 0, evaluation starts at
`HELD_OUT`, so the two never share a seed.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import chat
import drills
import passages
import stories
import talk
import tools
from chat import Message, Segment

HELD_OUT = 1_000_000_000

# How many documents of each kind, relative to the others. Stories are long, so that they still make
# up a quarter of all tokens. The second mix leaves more room for what is learned last.
MIX = {
    "story": 160, "raw": 15, "passage": 320, "tools": 105, "arithmetic": 120, "talk": 70,
    "drill": 110, "long": 12,
}  # fmt: skip
LATE_MIX = {
    "story": 120, "raw": 10, "passage": 640, "tools": 50, "arithmetic": 60, "talk": 30,
    "drill": 30, "long": 10,
}  # fmt: skip
LATE_FROM = 41_500
SYSTEMS = [
    "You are a helpful assistant.", "You are a friendly storyteller.", "Answer briefly.",
    "You are a helpful assistant. Answer from the text.", "You are the Millrace demo model.",
    "You are an assistant.", "Be concise.", "You are a helpful AI assistant.",
]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One evaluation item: a conversation up to the user's turn, and the right answer."""

    messages: list[Message]
    tools: list[Message] | None
    answer: str


def _casual(rng: random.Random, text: str) -> str:
    """The prompt as it is, or now and then typed carelessly."""
    draw = rng.random()
    if draw < 0.06:
        text = text[0].lower() + text[1:]
    if draw < 0.12 and text[-1] in ".?":
        text = text[:-1]
    return text


def _messages(turns: list[tuple[str, str]]) -> list[Message]:
    return [
        {"role": role, "content": content}
        for turn in turns
        for role, content in zip(("user", "assistant"), turn, strict=True)
    ]


def _story_turns(rng: random.Random) -> list[tuple[str, str]]:
    story = stories.make_story(rng)
    turns = [(_casual(rng, stories.story_prompt(rng, story)), story.text)]
    if rng.random() < 0.4:
        turns += story.questions[: rng.randint(1, 3)]
    return turns


def _passage_turns(rng: random.Random) -> list[tuple[str, str]]:
    passage = passages.make_passage(rng, alike=rng.random() < 0.5)
    if rng.random() < 0.3:
        turns = passages.question_turns(rng, passage, rng.randint(2, 9))
        if rng.random() < 0.3:
            turns.append(passages.json_request(rng, passage))
    else:
        turns = passages.json_turns(rng, passage, rng.randint(2, 4))
        if rng.random() < 0.3:
            turns += passage.questions[:2]
    return turns


def _tool_document(rng: random.Random) -> list[Segment]:
    schemas, messages = tools.tool_conversation(rng, rng.choice([1, 2, 3, 4, 5]))
    if rng.random() < 0.15:  # a turn that needs no tool
        turn = _messages([talk.talk_turn(rng) if rng.random() < 0.8 else _story_turns(rng)[0]])
        messages = turn + messages if rng.random() < 0.7 else messages + turn
    if rng.random() < 0.1:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEMS)})
    return chat.render(messages, schemas)


def _turns(rng: random.Random, kind: str) -> list[tuple[str, str]]:
    if kind == "story":
        return _story_turns(rng)
    if kind == "passage":
        return _passage_turns(rng)
    if kind == "arithmetic":
        return [talk.arithmetic_turn(rng) for _ in range(rng.choice([2, 4, 6, 8]))]
    if kind == "long":
        kinds = ["story", "passage", "arithmetic", "talk", "drill"]
        kinds = rng.choices(kinds, k=rng.randint(4, 8))
        return [turn for part in kinds for turn in _turns(rng, part)]
    if kind == "drill":
        return [drills.drill_turn(rng) for _ in range(rng.randint(2, 5))]
    return [talk.talk_turn(rng) for _ in range(rng.randint(1, 4))]


def _conversation(rng: random.Random, turns: list[tuple[str, str]]) -> list[Segment]:
    messages = _messages(turns)
    if rng.random() < 0.1:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEMS)})
    return chat.render(messages)


def document(index: int, mix: dict[str, int] | None = None) -> list[Segment]:
    """Training document number `index`."""
    mix = mix or (MIX if index < LATE_FROM else LATE_MIX)
    rng = random.Random(index)
    kind = rng.choices(list(mix), mix.values())[0]
    if kind == "tools":
        return _tool_document(rng)
    if kind == "drill" and rng.random() < 0.5:
        line, again = drills.chant(rng)
        return [(line, False), (again + chat.END_OF_TEXT, True)]
    if kind == "raw":
        text = stories.make_story(rng).text + chat.END_OF_TEXT
        return [(chat.END_OF_TEXT, False), (text, True)] if rng.random() < 0.5 else [(text, True)]
    return _conversation(rng, _turns(rng, kind))


def sample(task: str, number: int) -> Sample:
    """Evaluation item `number` of a task."""
    rng = random.Random(HELD_OUT + number)
    if task in ("question", "json", "json-syntax"):
        passage = passages.make_passage(rng)
        make = passages.question_turns if task == "question" else passages.json_turns
        prompt, answer = make(rng, passage, 1)[0]
    elif task == "arithmetic":
        prompt, answer = talk.arithmetic_turn(rng, held_out=True)
    elif task == "talk":
        prompt, answer = talk.talk_turn(rng)
    elif task == "tool":
        schemas, messages = tools.tool_conversation(rng, 1)
        answer = chat.render(messages[1:2])[1][0].removesuffix(chat.END)
        return Sample(messages[:1], schemas, answer)
    else:
        story = stories.make_story(rng)
        prompt, answer = stories.story_prompt(rng, story), story.text
    return Sample([{"role": "user", "content": prompt}], None, answer)


def main() -> None:
    """Prints some documents: world.py [first [count]]."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    for index in range(first, first + (int(sys.argv[2]) if len(sys.argv) > 2 else 5)):
        print("".join(text for text, _ in document(index)), end="\n-----\n")


if __name__ == "__main__":
    main()
