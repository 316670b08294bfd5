# ruff: noqa: E501 (prose is easier to read in one line)
"""Stories of 80 to 200 words, the prompts that ask for them, and questions about them."""

from __future__ import annotations

import random
from dataclasses import dataclass

import lexicon
from lexicon import Character, with_article
from plots import CLOSE, DETAIL, OPENING, PLOTS, Beat, Plot

PLAIN_PROMPTS = [
    "Tell me a story.", "Tell me a short story.", "Please tell me a story.",
    "Can you tell me a story?", "Write a story.", "Write a short story.",
    "I would like to hear a story.", "A story, please.", "Tell me a bedtime story.",
    "Could you write me a story?", "Do you know a story?", "Tell me a new story.",
    "Write me a little story.", "Tell me a tale.",
]  # fmt: skip
ABOUT_PROMPTS = [
    "Tell me a story about {topic}.", "Tell me a short story about {topic}.",
    "Please tell me a story about {topic}.", "Can you tell me a story about {topic}?",
    "Write a story about {topic}.", "Write a short story about {topic}.",
    "I would like to hear a story about {topic}.", "A story about {topic}, please.",
    "Tell me a bedtime story about {topic}.", "Could you write me a story about {topic}?",
    "Do you know a story about {topic}?", "Story about {topic}.", "Tell a story about {topic}.",
]  # fmt: skip
TOPICS = [
    "{a_kind}", "{a_kind}", "{a_trait_kind}", "{a_kind} named {A}", "{a_kind} called {A}",
    "{a_trait_kind} named {A}", "{A}", "{A} the {kind}", "{A} and {B}", "{a_kind} and {a_bkind}",
    "{A} the {kind} and {B} the {bkind}", "{theme}", "{a_kind} {clause}", "{a_trait_kind} {clause}",
    "{a_kind} named {A} {clause}", "{A}, {a_kind} {clause}",
]  # fmt: skip
THING_TOPICS = ["{a_thing}", "{a_noun}", "{a_kind} and {a_thing}", "{a_kind} and {a_noun}"]
THING_THEMES = {"friendship", "patience", "giving", "adventure", "sharing"}


@dataclass(frozen=True)
class Story:
    """A finished story with the fields that filled it and questions that it answers."""

    text: str
    fields: dict[str, str]
    plot: Plot
    questions: list[tuple[str, str]]


def cast_fields(rng: random.Random, hero: Character, friend: Character) -> dict[str, str]:
    """The values of all fields that the plots use."""
    colour, noun = rng.choice(lexicon.COLOURS), rng.choice(lexicon.THINGS)
    other = f"{rng.choice(lexicon.COLOURS)} {rng.choice(lexicon.THINGS)}"
    home, machine = lexicon.make_home(rng), rng.choice(lexicon.MACHINES)
    values = {
        "kind": hero.kind, "trait": hero.trait, "he": hero.he, "his": hero.his, "him": hero.him,
        "himself": hero.him + "self", "bkind": friend.kind, "bhe": friend.he, "bhis": friend.his,
        "bhim": friend.him, "thing": f"{colour} {noun}", "noun": noun, "other": other,
        "trait_kind": f"{hero.trait} {hero.kind}", "btrait_bkind": f"{friend.trait} {friend.kind}",
        "in_home": f"{lexicon.home_preposition(home)} {home}", "machine": machine,
        "hiding": rng.choice(lexicon.HIDING), "outside": rng.choice(lexicon.OUTSIDE),
        "fear": rng.choice(lexicon.FEARS), "contest": rng.choice(lexicon.CONTESTS),
        "food": rng.choice(lexicon.FOODS), "weather": rng.choice(lexicon.WEATHERS),
        "season": rng.choice(lexicon.SEASONS), "day": rng.choice(lexicon.DAYS),
        "feeling": rng.choice(lexicon.FEELINGS),
    }  # fmt: skip
    for name in ("he", "his", "machine"):
        values[name.capitalize()] = values[name].capitalize()
    for name in ("kind", "bkind", "thing", "noun", "other", "trait_kind", "btrait_bkind"):
        values["a_" + name] = with_article(values[name])
    return values | {"A": hero.name, "B": friend.name}


def make_story(rng: random.Random, plot: Plot | None = None) -> Story:
    """A story with a hero and a friend drawn from the world."""
    plot = plot or rng.choice(PLOTS)
    hero = lexicon.make_character(rng)
    fields = cast_fields(rng, hero, lexicon.make_character(rng, (hero,)))
    fields["theme"], fields["clause"] = plot.theme, plot.clause.format_map(fields)

    def tell(beats: list[Beat]) -> str:
        return " ".join(rng.choice(beat) for beat in beats).format_map(fields)

    paragraphs = [tell([OPENING, DETAIL])] + [tell(beats) for beats in plot.paragraphs]
    moral = rng.choice(plot.morals).format_map(fields)
    if rng.random() < 0.5:
        paragraphs[-1] += " " + moral
    else:
        paragraphs.append(moral)
    return Story("\n\n".join(paragraphs), fields, plot, story_questions(rng, plot, fields, moral))


def story_questions(
    rng: random.Random, plot: Plot, fields: dict[str, str], moral: str
) -> list[tuple[str, str]]:
    """Questions that the story answers, each with its one right answer, in random order."""
    facts = plot.facts + [
        (["Who is the story about?", "Who is the hero of the story?"], "It is about {A}, {a_trait_kind}."),
        (["Where did {A} live?", "Where does {A} live?"], "{A} lived {in_home}."),
        (["Who was {A}'s friend?", "Who is {A}'s best friend?"], "{A}'s friend was {B} the {bkind}."),
        (["What kind of animal is {A}?", "What was {A}?"], "{A} was {a_kind}."),
        (["What is the moral of the story?", "What can we learn from it?"], moral),
    ]  # fmt: skip
    if plot.paragraphs[-1][-1] is CLOSE:
        facts.append((["What did they eat?", "What did they eat in the end?"], "They ate {food}."))
    chosen = [
        (rng.choice(questions).format_map(fields), answer.format_map(fields))
        for questions, answer in facts
    ]
    rng.shuffle(chosen)
    return chosen


def story_prompt(rng: random.Random, story: Story) -> str:
    """What a user might have written to get this story."""
    if rng.random() < 0.2:
        return rng.choice(PLAIN_PROMPTS)
    topics = TOPICS
    if story.plot.theme in THING_THEMES:
        topics = TOPICS + THING_TOPICS
    topic = rng.choice(topics).format_map(story.fields)
    return rng.choice(ABOUT_PROMPTS).format(topic=topic)
