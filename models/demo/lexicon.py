"""Word lists of the story world and the seeded sampling of its characters, homes and things."""

from __future__ import annotations

import random
from dataclasses import dataclass

BOY_NAMES = (
    "Pip Milo Otto Finn Leo Max Sam Tom Ben Hugo Oscar Toby Felix Gus Jasper Rufus Theo Bruno Ned "
    "Ollie Basil Jack Teddy Linus"
).split()
GIRL_NAMES = (
    "Mia Luna Ivy Nora Ruby Lily Rosa Daisy Clara Poppy Hazel Willa Stella Maya Zoe Ella Anna Lucy "
    "Penny Tess Olive Molly Bella Emma"
).split()
ANIMALS = (
    "fox rabbit bear mouse owl hedgehog squirrel duck frog cat dog goat pony otter badger turtle "
    "penguin robot dragon beaver"
).split()
TRAITS = (
    "little young curious brave shy clever kind cheerful quiet gentle patient clumsy"
).split()
COLOURS = "red blue green yellow white black golden silver purple orange brown pink".split()
THINGS = (
    "kite boat drum key scarf bell lantern ball hat basket umbrella whistle button coat cup ribbon "
    "book flute blanket clock"
).split()
FOODS = [
    "apple pie", "warm soup", "honey cake", "plum jam", "fresh bread", "carrot stew", "cherry tart",
    "pancakes", "berry pudding", "cheese and crackers", "hot chocolate", "mint tea", "lemon cake",
    "roasted nuts",
]  # fmt: skip
HOME_ADJECTIVES = "quiet small sunny windy old snowy green tidy".split()
HOME_NOUNS = "village town farm cottage mill house valley garden cabin".split()
HOME_NEAR = [
    "by the sea", "near the forest", "on a hill", "by the river", "under the mountains",
    "beside a lake", "near the old bridge",
]  # fmt: skip
HIDING = [
    "under the old bridge", "behind the mill", "in a hollow tree", "between two stones",
    "beside the pond", "in the tall grass", "under a bench", "behind the well",
    "under a pile of leaves", "in a flower pot", "near the fountain", "under the stairs",
]  # fmt: skip
OUTSIDE = [
    "under the old bridge", "behind the mill", "beside the pond", "in the tall grass",
    "behind the well", "near the fountain", "at the foot of the hill", "by the waterfall",
]  # fmt: skip
FEARS = [
    "the dark", "deep water", "the old forest", "the black cave", "the cold river",
    "the long tunnel", "the shaky bridge", "the thick fog",
]  # fmt: skip
CONTESTS = [
    "the great race", "the baking contest", "the singing contest", "the boat race",
    "the spelling contest", "the swimming race", "the dancing contest", "the jumping contest",
]  # fmt: skip
MACHINES = [
    "the town clock", "the old mill", "the water pump", "the lighthouse lamp",
    "the village fountain", "the little train", "the music box", "the sawmill",
]  # fmt: skip
WEATHERS = "sunny rainy windy foggy snowy cloudy stormy warm cold".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
SEASONS = "spring summer autumn winter".split()
FEELINGS = "happy proud glad thankful calm cheerful hopeful excited surprised relieved".split()
CITIES = (
    "Paris London Berlin Rome Oslo Madrid Tokyo Cairo Lisbon Vienna Dublin Athens Prague Boston "
    "Chicago Toronto Sydney Delhi Seoul Lima"
).split()
_ONSETS = "b br d dr f fl g gr h j k kl l m n p pl r s sh st t tr v w z".split()
_VOWELS = "a e i o u oo ee ai".split()
_CODAS = "n l r m k p b ble x t ndo ra lo na mi ".split() + [""]


def invented_name(rng: random.Random) -> str:
    """A made-up name of one or two syllables, so that copying does not depend on known names."""
    name = rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
    if rng.random() < 0.5:
        name = rng.choice(_ONSETS) + rng.choice(_VOWELS) + name
    return name.capitalize()


def with_article(phrase: str) -> str:
    """The phrase behind its indefinite article."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


@dataclass(frozen=True)
class Character:
    """Somebody in a story: a name, a kind, a trait and the matching pronouns."""

    name: str
    kind: str
    trait: str
    female: bool

    @property
    def he(self) -> str:
        return "she" if self.female else "he"

    @property
    def his(self) -> str:
        return "her" if self.female else "his"

    @property
    def him(self) -> str:
        return "her" if self.female else "him"


def make_character(rng: random.Random, taken: tuple[Character, ...] = ()) -> Character:
    """A character who shares neither name nor kind with those in `taken`."""
    while True:
        female = rng.random() < 0.5
        if rng.random() < 0.06:
            name = invented_name(rng)
        else:
            name = rng.choice(GIRL_NAMES if female else BOY_NAMES)
        kind = rng.choice(ANIMALS)
        if rng.random() < 0.08:
            kind = "girl" if female else "boy"
        if all(name != other.name and kind != other.kind for other in taken):
            return Character(name, kind, rng.choice(TRAITS), female)


def make_home(rng: random.Random) -> str:
    """A home as a noun phrase: "a quiet village by the sea"."""
    adjective, noun = rng.choice(HOME_ADJECTIVES), rng.choice(HOME_NOUNS)
    return f"{with_article(adjective)} {noun} {rng.choice(HOME_NEAR)}"


def home_preposition(home: str) -> str:
    """The preposition that fits the home: people live on farms and in villages."""
    return "on" if " farm " in home else "in"


def listed(words: list[str]) -> str:
    """The words as an English list: "a, b and c"."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
