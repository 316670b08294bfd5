# ruff: noqa: E501 (prose is easier to read in one line)
"""Short factual passages about two characters, with questions and JSON extraction over them."""

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
    """A character with the facts a passage may tell; a fact that it does not tell is None."""

    character: Character
    age: int | None
    home: str | None
    colour: str | None
    thing: str | None
    food: str | None


@dataclass(frozen=True)
class Passage:
    """A text and everything that can be asked about it."""

    text: str
    people: tuple[Person, Person]
    questions: Turns
    event: dict[str, str]


def make_person(rng: random.Random, taken: tuple[Person, ...]) -> Person:
    """A person whose facts differ from those of the people in `taken`."""

    def fresh(draw, name: str):
        while True:
            value = draw()
            if all(value != getattr(other, name) for other in taken):
                return value if rng.random() < 0.7 else None

    character = lexicon.make_character(rng, tuple(other.character for other in taken))
    thing = fresh(lambda: rng.choice(lexicon.THINGS), "thing")
    return Person(
        character,
        fresh(lambda: rng.randint(3, 99) if rng.random() < 0.5 else rng.randint(3, 12), "age"),
        fresh(lambda: lexicon.make_home(rng), "home"),
        rng.choice(lexicon.COLOURS) if thing else None,
        thing,
        fresh(lambda: rng.choice(lexicon.FOODS), "food"),
    )


def person_sentences(rng: random.Random, person: Person, past: bool) -> list[str]:
    """The facts of one person in prose; the first sentence names the person and the kind."""
    who, be = person.character, "was" if past else "is"
    name, kind = who.name, who.kind
    if person.home and rng.random() < 0.4:
        live = "lived" if past else "lives"
        where = f"{home_preposition(person.home)} {person.home}"
        first, home_told = f"{name} the {kind} {live} {where}.", True
    else:
        trait = f"{who.trait} {kind}" if rng.random() < 0.4 else kind
        first, home_told = f"{name} {be} {with_article(trait)}.", False
    rest = []
    if person.age:
        rest.append(f"{{He}} {be} {person.age} years old.")
    if person.home and not home_told:
        live = "lived" if past else "lives"
        rest.append(f"{{He}} {live} {home_preposition(person.home)} {person.home}.")
    if person.thing:
        thing = with_article(f"{person.colour} {person.thing}")
        rest.append(
            rng.choice(
                [f"{{He}} {'had' if past else 'has'} {thing}.", f"{{He}} {'owned' if past else 'owns'} {thing}.",
                 f"{{His}} favourite thing {be} {thing}."]
            )
        )  # fmt: skip
    if person.food:
        rest.append(
            rng.choice(
                [f"{{He}} {'liked' if past else 'likes'} {person.food}.",
                 f"{{His}} favourite food {be} {person.food}.",
                 f"{{He}} {'loved' if past else 'loves'} to eat {person.food}."]
            )
        )  # fmt: skip
    rng.shuffle(rest)
    sentences = [first]
    for sentence in rest:
        by_name = rng.random() < 0.3
        he = name if by_name else who.he.capitalize()
        his = f"{name}'s" if by_name else who.his.capitalize()
        sentences.append(sentence.replace("{He}", he).replace("{His}", his))
    return sentences


def person_questions(rng: random.Random, person: Person, past: bool) -> Turns:
    """One question for each fact of a person, some of them asking from the fact to the name."""
    name, kind = person.character.name, person.character.kind
    do, be = ("did", "was") if past else ("does", "is")

    def verb(base: str) -> str:
        return (base + "d" if past else base + "s").replace("haves", "has").replace("haved", "had")

    found = [
        (f"What {be} {name}?", f"{name} {be} {with_article(kind)}."),
        (f"What kind of animal {be} {name}?", f"{name} {be} {with_article(kind)}."),
        (f"Who {be} {with_article(kind)}?", f"{name} {be} {with_article(kind)}."),
    ]
    questions = [rng.choice(found)]
    age = f"{name} {be} {person.age} years old."
    forms = [f"How old {be} {name}?", f"How old {be} {name}?", f"Who {be} {person.age} years old?"]
    questions.append((rng.choice(forms), age) if person.age else (forms[0], UNKNOWN))
    forms = [f"Where {do} {name} live?", f"Where {be} the home of {name}?"]
    if person.home:
        where = f"{home_preposition(person.home)} {person.home}"
        forms.append(f"Who {verb('live')} {where}?")
        questions.append((rng.choice(forms), f"{name} {verb('live')} {where}."))
    else:
        questions.append((rng.choice(forms), UNKNOWN))
    if person.thing:
        thing = f"{person.colour} {person.thing}"
        spelling = rng.choice(["colour", "color"])
        questions.append(
            rng.choice(
                [(f"What {do} {name} have?", f"{name} {verb('have')} {with_article(thing)}."),
                 (f"Who {verb('have')} the {person.thing}?", f"{name} {verb('have')} the {person.thing}."),
                 (f"Who {verb('have')} {with_article(thing)}?", f"{name} {verb('have')} {with_article(thing)}."),
                 (f"What {spelling} {be} the {person.thing}?", f"The {person.thing} {be} {person.colour}."),
                 (f"What {spelling} {be} {name}'s {person.thing}?", f"The {person.thing} {be} {person.colour}.")]
            )
        )  # fmt: skip
    else:
        questions.append((f"What {do} {name} have?", UNKNOWN))
    forms = [f"What {do} {name} like to eat?", f"What {be} {name}'s favourite food?"]
    if person.food:
        forms.append(f"Who {verb('like')} {person.food}?")
        questions.append((rng.choice(forms), f"{name} {verb('like')} {person.food}."))
    else:
        questions.append((rng.choice(forms), UNKNOWN))
    return questions


def make_event(
    rng: random.Random, people: tuple[Person, Person]
) -> tuple[list[str], Turns, dict[str, str]]:
    """What happened to the two: sentences, questions and the facts by their JSON key."""
    first, second = (person.character for person in rng.sample(people, 2))
    both = f"{people[0].character.name} and {people[1].character.name}"
    day, weather = rng.choice(lexicon.DAYS), rng.choice(lexicon.WEATHERS)
    owned = [person.thing for person in people]
    colour = rng.choice(lexicon.COLOURS)
    thing = rng.choice([thing for thing in lexicon.THINGS if thing not in owned])
    place, food = rng.choice(lexicon.HIDING), rng.choice(lexicon.FOODS)
    feeling = rng.choice(lexicon.FEELINGS)
    facts: dict[str, str] = {}
    sentences, questions = [], []
    if rng.random() < 0.7:
        facts |= {"day": day, "weather": weather}
        sentences.append(
            rng.choice(
                [f"One {weather} {day}, they went for a walk.", f"They met on a {weather} {day}.",
                 f"Last {day} it was {weather}, and they played outside."]
            )
        )  # fmt: skip
        questions.append((rng.choice(["What day was it?", "Which day was it?"]), f"It was {day}."))
        questions.append((rng.choice(["What was the weather like?", "How was the weather?"]), f"It was {weather}."))
    if rng.random() < 0.7:
        facts |= {"lost": f"{colour} {thing}", "place": place, "finder": second.name}
        sentences.append(
            rng.choice(
                [f"{first.name} lost {with_article(f'{colour} {thing}')}, and {second.name} found it {place}.",
                 f"{second.name} found {with_article(f'{colour} {thing}')} {place}. {first.name} had lost it there."]
            )
        )  # fmt: skip
        questions += [
            rng.choice(
                [(f"Who found the {thing}?", f"{second.name} found the {thing}."),
                 (f"Who lost the {thing}?", f"{first.name} lost the {thing}."),
                 (f"What did {second.name} find?", f"{second.name} found {with_article(f'{colour} {thing}')}."),
                 (f"What did {first.name} lose?", f"{first.name} lost {with_article(f'{colour} {thing}')}.")]
            ),
            (rng.choice([f"Where was the {thing}?", f"Where did {second.name} find the {thing}?"]),
             f"The {thing} was {place}."),
        ]  # fmt: skip
    if rng.random() < 0.5:
        facts |= {"meal": food, "feeling": feeling}
        sentences.append(f"Then {rng.choice([both, 'they'])} ate {food} and felt {feeling}.")
        questions.append(("What did they eat?", f"They ate {food}."))
        questions.append(("How did they feel?", f"They felt {feeling}."))
    return sentences, questions, facts


def make_passage(rng: random.Random) -> Passage:
    """A passage of 30 to 100 words about two people."""
    first = make_person(rng, ())
    people = (first, make_person(rng, (first,)))
    past = rng.random() < 0.6
    sentences, questions = [], []
    for person in people:
        sentences += person_sentences(rng, person, past)
        questions += person_questions(rng, person, past if rng.random() < 0.8 else not past)
    told, asked, facts = make_event(rng, people)
    known = [question for question in questions + asked if question[1] != UNKNOWN]
    unknown = [question for question in questions if question[1] == UNKNOWN]
    questions = known + ([rng.choice(unknown)] if unknown and rng.random() < 0.4 else [])
    rng.shuffle(questions)
    return Passage(" ".join(sentences + told), people, questions, facts)


ASK_FIRST = [
    "{passage}\n\n{question}", "{passage}\n\nQuestion: {question}", "{passage} {question}",
    "Read this text:\n\n{passage}\n\n{question}", "{question}\n\n{passage}",
    "Answer from the text.\n\n{passage}\n\n{question}", "Text: {passage}\n\nQuestion: {question}",
]  # fmt: skip


def question_turns(rng: random.Random, passage: Passage, count: int) -> Turns:
    """A question with the passage in front, then further questions about it."""
    turns = passage.questions[:count]
    opener = rng.choice(ASK_FIRST).format(passage=passage.text, question=turns[0][0])
    return [(opener, turns[0][1])] + turns[1:]


JSON_FORMS = [
    "Extract {keys} as JSON.", "Return {keys} as JSON.", "Give me {keys} as JSON.",
    "Extract {keys} from the text as JSON.", "Write {keys} as a JSON object.",
    "Return a JSON object with the keys {quoted}.", "Return a JSON object with {quoted}.",
    "Extract a JSON object with the keys {quoted}.", "Answer in JSON with the keys {quoted}.",
]  # fmt: skip
JSON_BOTH = [
    "Return a JSON list with {keys} of each character.", "List {keys} of everyone as JSON.",
    "Give me a JSON array with {keys} for each character.",
]  # fmt: skip


def person_record(person: Person, other: Person) -> dict[str, object]:
    """The facts of one person by JSON key."""
    thing = f"{person.colour} {person.thing}" if person.thing else None
    return {
        "name": person.character.name, "animal": person.character.kind, "age": person.age,
        "home": person.home, "item": thing, "color": person.colour, "food": person.food,
        "friend": other.character.name,
    }  # fmt: skip


def json_request(rng: random.Random, passage: Passage) -> tuple[str, str]:
    """An instruction to extract some facts as JSON, and the JSON."""
    one, two = passage.people
    shape = rng.random()
    if shape < 0.2:
        records = [person_record(one, two), person_record(two, one)]
        keys = ["name"] + rng.sample(["animal", "age", "home", "item", "food"], rng.randint(1, 2))
        value = [{key: record[key] for key in keys} for record in records]
        form = rng.choice(JSON_BOTH)
        return form.format(keys=listed(["the " + keys[0]] + keys[1:])), json.dumps(value)
    if shape < 0.4 and len(passage.event) > 1:
        record: dict[str, object] = dict(passage.event)
        keys = rng.sample(list(record), rng.randint(2, min(4, len(record))))
        about = ""
    else:
        person, other = (one, two) if shape < 0.8 else (two, one)
        record = person_record(person, other)
        told = [key for key in record if record[key] is not None]
        keys = rng.sample(told, rng.randint(2, min(5, len(told))))
        missing = [key for key in record if record[key] is None]
        if missing and rng.random() < 0.12:
            keys.append(rng.choice(missing))
        if "name" in keys and rng.random() < 0.8:
            keys.remove("name")
            keys.insert(0, "name")
        about = f" about {person.character.name}" if person is two or rng.random() < 0.3 else ""
    plain = listed(["the " + keys[0]] + keys[1:]) if rng.random() < 0.6 else ", ".join(keys)
    quoted = listed([f'"{key}"' for key in keys])
    form = rng.choice(JSON_FORMS).format(keys=plain, quoted=quoted)
    if about:
        form = form[:-1] + about + "."
    return form, json.dumps({key: record[key] for key in keys})


def json_turns(rng: random.Random, passage: Passage, count: int) -> Turns:
    """A JSON request with the passage, then further ones about it."""
    turns = [json_request(rng, passage) for _ in range(count)]
    opener = rng.choice(
        ["{request}\n\n{passage}", "{passage}\n\n{request}", "{request}\n\nText: {passage}"]
    ).format(request=turns[0][0], passage=passage.text)
    return [(opener, turns[0][1])] + turns[1:]
