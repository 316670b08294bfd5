# ruff: noqa: E501 (prose is easier to read in one line)
"""Drills in copying and looking up, which a small model must master before it can answer at all."""

from __future__ import annotations

import json
import random

import lexicon
from lexicon import listed

Turns = list[tuple[str, str]]

REPEAT_FORMS = ["Repeat: {text}", "Say this again: {text}", "Repeat after me: {text}", "{text}\n\nRepeat this."]
LIST_FORMS = ["As a JSON list: {text}", "{text}\n\nReturn this as a JSON list.", "JSON list: {text}"]
OBJECT_FORMS = ["As JSON: {text}", "{text}\n\nReturn this as JSON.", "JSON object: {text}"]
ORDER_FORMS = ["{text}. Tell me {keys}.", "{text}.\n\nWhat are {keys}?", "{keys}?\n\n{text}."]
KEYS = "name animal age home item color food friend day weather city count title place size".split()


def word(rng: random.Random) -> str:
    """Any word of the world, a name, a number or an invented word."""
    draw = rng.randrange(9)
    pools = (lexicon.BOY_NAMES, lexicon.GIRL_NAMES, lexicon.ANIMALS, lexicon.COLOURS,
             lexicon.THINGS, lexicon.TRAITS, lexicon.CITIES)  # fmt: skip
    if draw < len(pools):
        return rng.choice(pools[draw])
    return str(rng.randint(0, 99)) if draw == 7 else lexicon.invented_name(rng)


def words(rng: random.Random, count: int) -> list[str]:
    """Different random words."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[word(rng)] = None
    return list(found)


def chant(rng: random.Random) -> tuple[str, str]:
    """A random line of words, and the same line again, several times."""
    line = " ".join(words(rng, rng.randint(4, 30)))
    return line, f" {line}" * rng.randint(1, 3)


def _value(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def drill_turn(rng: random.Random) -> tuple[str, str]:
    """One drill: repeat, write as a JSON list or object, or look values up by key."""
    shape = rng.randrange(4)
    items = words(rng, rng.randint(3, 10))
    if shape == 0:
        text = " ".join(items)
        return rng.choice(REPEAT_FORMS).format(text=text), text
    if shape == 1:
        text = json.dumps([_value(item) for item in items])
        return rng.choice(LIST_FORMS).format(text=", ".join(items)), text
    if shape == 2:
        keys = rng.sample(KEYS, rng.randint(2, 5))
        record = {key: word(rng) for key in keys}
        text = ", ".join(f"{key} {value}" for key, value in record.items())
        answer = json.dumps({key: _value(value) for key, value in record.items()})
        return rng.choice(OBJECT_FORMS).format(text=text), answer
    keys, values = items[: len(items) // 2], items[len(items) // 2 :]
    pairs = dict(zip(keys, values, strict=False))
    text = ", ".join(f"{key} has {value}" for key, value in pairs.items())
    rng.shuffle(keys)
    answer = ", ".join(f"{key} has {pairs[key]}" for key in keys) + "."
    return rng.choice(ORDER_FORMS).format(text=text, keys=listed(keys)), answer
