# ruff: noqa: E501 (prose is easier to read in one line)
"""Short factual passages about one or two characters, with questions and JSON extraction over them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import lexicon
from lexicon import Character, home_preposition, listed, with_article

Turns = list[tuple[str, str]]

UNKNOWN = "The text does not say."


@dataclass(frozen=True)
class Person:
    """A character with the facts a passage tells; a fact that it does not tell is None."""

    character: Character
    age: int | None
    home: str | None
    colour: str | None
    thing: str | None
    food: str | None


@dataclass(frozen=True)
class Passage:
    """A text, the people in it and everything that can be asked about it."""

    text: str
    people: tuple[Person, ...]
    questions: Turns


FACTS = ["age", "home", "thing", "food"]


def make_person(rng: random.Random, taken: tuple[Person, ...], alike: bool) -> Person:
    """A person with two or three told facts, which differ from those of the people in `taken`.

    When alike, it is the same kinds of fact that are told, so that only the name tells them apart.
    """
    told = rng.sample(FACTS, rng.choice([2, 3, 3]))
    if alike and taken:
        told = [name for name in FACTS if getattr(taken[0], name)]

    def fresh(draw, name: str):
        while True:
            value = draw()
            if all(value != getattr(other, name) for other in taken):
                return value if name in told else None

    character = lexicon.make_character(rng, tuple(other.character for other in taken))
    thing = fresh(lambda: rng.choice(lexicon.THINGS), "thing")
    return Person(
        character,
        fresh(lambda: rng.randint(2, 99) if rng.random() < 0.3 else rng.randint(2, 12), "age"),
        fresh(lambda: lexicon.make_home(rng), "home"),
        rng.choice(lexicon.COLOURS) if thing else None,
        thing,
        fresh(lambda: rng.choice(lexicon.FOODS), "food"),
    )


def person_sentences(rng: random.Random, person: Person, past: bool) -> list[str]:
    """The facts of one person in prose; the first sentence names the person and the kind."""
    who, be = person.character, "was" if past else "is"
    kind = f"{who.trait} {who.kind}" if rng.random() < 0.3 else who.kind
    rest = []
    if person.age:
        rest.append(f"{be} {person.age} years old.")
    if person.home:
        live = "lived" if past else "lives"
        rest.append(f"{live} {home_preposition(person.home)} {person.home}.")
    if person.thing:
        have = "had" if past else "has"
        rest.append(f"{have} {with_article(f'{person.colour} {person.thing}')}.")
    if person.food:
        rest.append(f"{rng.choice(['liked', 'loved'] if past else ['likes', 'loves'])} {person.food}.")
    rng.shuffle(rest)
    sentences = [f"{who.name} {be} {with_article(kind)}."]
    if rng.random() < 0.3:
        sentences = [f"{who.name} the {who.kind} {rest.pop(0)}"]
    return sentences + [
        f"{who.name if rng.random() < 0.7 else who.he.capitalize()} {fact}" for fact in rest
    ]


def person_questions(rng: random.Random, person: Person, past: bool) -> Turns:
    """One question for each fact of a person, some of them asking from the fact to the name."""
    name, kind = person.character.name, person.character.kind
    do, be = ("did", "was") if past else ("does", "is")
    live, have, like = ("lived", "had", "liked") if past else ("lives", "has", "likes")
    questions = [
        (rng.choice([f"What {be} {name}?", f"Who {be} {with_article(kind)}?"]), f"{name} {be} {with_article(kind)}.")
    ]
    if person.age:
        ask = rng.choice([f"How old {be} {name}?", f"How old {be} {name}?", f"Who {be} {person.age} years old?"])
        questions.append((ask, f"{name} {be} {person.age} years old."))
    else:
        questions.append((f"How old {be} {name}?", UNKNOWN))
    ask = f"Where {do} {name} live?"
    if person.home:
        where = f"{home_preposition(person.home)} {person.home}"
        ask = rng.choice([ask, ask, f"Who {live} {where}?"])
        questions.append((ask, f"{name} {live} {where}."))
    else:
        questions.append((ask, UNKNOWN))
    ask = f"What {do} {name} have?"
    if person.thing:
        thing = with_article(f"{person.colour} {person.thing}")
        questions.append(
            rng.choice(
                [(ask, f"{name} {have} {thing}."), (f"Who {have} {thing}?", f"{name} {have} {thing}."),
                 (f"What color {be} the {person.thing}?", f"The {person.thing} {be} {person.colour}.")]
            )
        )  # fmt: skip
    else:
        questions.append((ask, UNKNOWN))
    ask = f"What {do} {name} like to eat?"
    if person.food:
        ask = rng.choice([ask, ask, f"Who {like} {person.food}?"])
        questions.append((ask, f"{name} {like} {person.food}."))
    else:
        questions.append((ask, UNKNOWN))
    return questions


def make_event(rng: random.Random, people: tuple[Person, Person]) -> tuple[str, Turns]:
    """A thing that one lost and the other found: a sentence and questions about it."""
    first, second = (person.character.name for person in rng.sample(people, 2))
    colour = rng.choice(lexicon.COLOURS)
    noun = rng.choice([thing for thing in lexicon.THINGS if thing not in [p.thing for p in people]])
    thing, place = with_article(f"{colour} {noun}"), rng.choice(lexicon.HIDING)
    questions = [
        (f"Who lost the {noun}?", f"{first} lost the {noun}."),
        (f"Who found the {noun}?", f"{second} found the {noun}."),
        (f"What did {first} lose?", f"{first} lost {thing}."),
        (f"What did {second} find?", f"{second} found {thing}."),
        (f"Where was the {noun}?", f"The {noun} was {place}."),
    ]
    return f"{first} lost {thing}, and {second} found it {place}.", rng.sample(questions, 3)


def make_passage(rng: random.Random, alike: bool = False) -> Passage:
    """A passage of 15 to 60 words about one or two people."""
    people = (make_person(rng, (), alike),)
    if alike or rng.random() < 0.7:
        people += (make_person(rng, people, alike),)
    past = rng.random() < 0.5
    sentences, questions = [], []
    for person in people:
        sentences += person_sentences(rng, person, past)
        questions += person_questions(rng, person, past)
    if len(people) == 2 and rng.random() < 0.4:
        told, asked = make_event(rng, people)
        sentences.append(told)
        questions += asked
    known = [question for question in questions if question[1] != UNKNOWN]
    unknown = [question for question in questions if question[1] == UNKNOWN]
    questions = known + ([rng.choice(unknown)] if unknown and rng.random() < 0.5 else [])
    rng.shuffle(questions)
    return Passage(" ".join(sentences), people, questions)


ASK_FORMS = [
    "{passage}\n\n{question}", "{passage} {question}", "{passage}\n\nQuestion: {question}",
    "{question}\n\n{passage}", "Answer from the text.\n\n{passage}\n\n{question}",
]  # fmt: skip


def question_turns(rng: random.Random, passage: Passage, count: int) -> Turns:
    """A question with the passage in front, then further questions about it."""
    turns = passage.questions[:count]
    opener = rng.choice(ASK_FORMS).format(passage=passage.text, question=turns[0][0])
    return [(opener, turns[0][1])] + turns[1:]


JSON_FORMS = [
    "Extract {keys} as JSON.", "Return {keys} as JSON.", "Give me {keys} as JSON.",
    "Return a JSON object with {quoted}.", "Extract a JSON object with the keys {quoted}.",
]  # fmt: skip


def json_request(rng: random.Random, passage: Passage) -> tuple[str, str]:
    """An instruction to extract the name and some facts of one person as JSON, and the JSON."""
    person = rng.choice(passage.people)
    record = {
        "name": person.character.name, "animal": person.character.kind, "age": person.age,
        "home": person.home, "color": person.colour, "item": person.thing, "food": person.food,
    }  # fmt: skip
    told = [key for key in record if record[key] is not None and key != "name"]
    keys = ["name"] + rng.sample(told, rng.randint(1, min(3, len(told))))
    plain = listed(["the " + keys[0]] + keys[1:])
    quoted = listed([f'"{key}"' for key in keys])
    request = rng.choice(JSON_FORMS).format(keys=plain, quoted=quoted)
    if len(passage.people) > 1 or rng.random() < 0.3:
        request = f"{request[:-1]} about {person.character.name}."
    return request, json.dumps({key: record[key] for key in keys})


def json_turns(rng: random.Random, passage: Passage, count: int) -> Turns:
    """A JSON request with the passage, then further ones about it."""
    turns = [json_request(rng, passage) for _ in range(count)]
    form = rng.choice(["{request}\n\n{passage}", "{passage}\n\n{request}"])
    return [(form.format(request=turns[0][0], passage=passage.text), turns[0][1])] + turns[1:]
