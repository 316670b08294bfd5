# ruff: noqa: E501 (prose is easier to read in one line)
"""The plots of the story world: beats with alternative wordings, as data.

A plot is a list of paragraphs, a paragraph a list of beats, a beat a list of alternatives of which
one is drawn. The fields in braces are filled from the cast (`stories.cast_fields`): A is the hero,
B the friend; he/his/him belong to A, bhe/bhis/bhim to B; a capital letter starts a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Beat = list[str]

OPENING: Beat = [
    "Once upon a time, {a_trait_kind} named {A} lived {in_home}.",
    "Once upon a time there was {a_trait_kind} called {A}, who lived {in_home}.",
    "There was once {a_trait_kind} named {A}. {He} lived {in_home}.",
    "Long ago, {in_home}, there lived {a_trait_kind} named {A}.",
    "{A} was {a_trait_kind} who lived {in_home}.",
    "In a land not far from here, {a_trait_kind} called {A} lived {in_home}.",
    "Not so long ago, {a_trait_kind} named {A} lived {in_home}.",
]
DETAIL: Beat = [
    "{His} best friend was {a_bkind} named {B}.",
    "Every day {he} played with {his} friend {B}, {a_btrait_bkind}.",
    "{He} had one very good friend, {a_btrait_bkind} called {B}.",
    "Next door lived {B}, {a_btrait_bkind}, and the two were best friends.",
    "{He} liked {food}, long walks and {his} friend {B}, {a_btrait_bkind}.",
    "Most of all {he} liked to sit with {his} friend {B} the {bkind} and talk about the clouds.",
]
CLOSE: Beat = [
    "That evening they ate {food} together and watched the stars come out.",
    "Then they shared {food} by the fire and told each other stories.",
    "When the sun went down, they sat on the doorstep and ate {food}.",
    "They went home together, and everyone had some {food}.",
    "That night {A} and {B} ate {food} until they were full and sleepy.",
]


@dataclass(frozen=True)
class Plot:
    """One plot: how a prompt asks for it, its paragraphs after the first, and its moral."""

    theme: str
    clause: str
    paragraphs: list[list[Beat]]
    morals: Beat
    facts: list[tuple[list[str], str]] = field(default_factory=list)


LOST = Plot(
    theme="friendship",
    clause="who loses {a_thing}",
    paragraphs=[
        [
            ["One {weather} morning, {A} could not find {his} {thing}.",
             "One {weather} day, {A} saw that {his} {thing} was gone.",
             "On a {weather} morning in {season}, {A} woke up and {his} {thing} was missing."],
            ["{He} looked under the bed, behind the door and in every cupboard, but it was not there.",
             "{He} searched the whole house from top to bottom and found nothing but dust.",
             "{He} turned every pocket inside out, but it was no use."],
            ['"Oh no," said {A}. "I have had that {noun} since I was very small."',
             '"Where can it be?" {he} cried, and a tear ran down {his} nose.',
             "{He} sat down on the floor and felt very sad."],
        ],
        [
            ["{B} heard about it and came at once.", "Then {B} knocked on the door.",
             "Luckily, {B} came by."],
            ['"Do not worry," said {B}. "We will look for it together."',
             '"Two pairs of eyes see more than one," said {B}. "Let us go and look."',
             '"Tell me where you went yesterday," said {B}, "and we will walk the same way again."'],
            ["They asked the baker, the postman and even the old crow, but nobody had seen it.",
             "They walked down the lane and looked behind every tree.",
             "They walked and walked until their feet were tired."],
            ["At last {B} stopped and pointed. There it was, the {thing}, {hiding}!",
             "Then something shone in the light. The {thing} was {hiding}!",
             "Just when {A} wanted to give up, {B} gave a shout. The {thing} was {hiding}!"],
        ],
        [
            ['{A} hugged {B} and laughed. "Thank you," {he} said. "I would never have found it alone."',
             '{A} jumped for joy. "You are the best friend in the world," {he} told {B}.',
             "{A} was so {feeling} that {he} danced all the way home."],
            CLOSE,
        ],
    ],
    morals=["From that day on, {A} knew that a good friend is worth more than any {noun}.",
            "And {A} learned that every search is easier with a friend.",
            "After that, {A} always took good care of {his} {noun}, and even better care of {his} friend."],
    facts=[(["What did {A} lose?", "What was missing?"], "{A} lost {his} {thing}."),
           (["Where was the {noun}?", "Where did they find the {noun}?"], "The {noun} was {hiding}.")],
)  # fmt: skip

STORM = Plot(
    theme="helping each other",
    clause="whose roof is broken by a storm",
    paragraphs=[
        [
            ["One night in {season}, a great storm came over the hills.",
             "One evening the sky turned black and the wind began to howl.",
             "One {season} night there was a storm, the biggest that anyone could remember."],
            ["The rain fell like a river, and the wind tore a hole in {A}'s roof.",
             "With a loud crash, half of {A}'s roof flew away.",
             "The wind shook the house until a piece of the roof broke off."],
            ["{A} hid under the table with {his} {thing} and waited for the morning.",
             "{A} held {his} {thing} tight and did not sleep at all.",
             "Water dripped on the bed, on the books and on {his} {thing}."],
        ],
        [
            ["In the morning {A} looked at the hole and sighed.",
             "When the sun came up, {A} stood in a puddle and looked at the sky through the roof."],
            ['"I can never mend this alone," {he} said.',
             '"It will take me a hundred days," {he} said sadly.'],
            ['"You do not have to," said {B}, who stood at the gate with a hammer and a bag of nails.',
             'But {B} was already coming up the path with a ladder. "Then we will do it in one," {bhe} said.'],
            ["{B} held the ladder, and {A} hammered. Neighbours came with wood and straw.",
             "They worked side by side, and soon the neighbours came to help as well.",
             "{A} carried the boards and {B} put them in place, one after the other."],
        ],
        [
            ["By sunset the roof was better than before.",
             "Before the day was over, the house had a new roof, strong and dry.",
             "When the last nail was in, they all cheered."],
            ['"How can I ever thank you?" asked {A}. "You would do the same for me," said {B}.',
             "{A} looked up at the new roof and felt very {feeling}.",
             '"Let it rain now," said {A}, and everybody laughed.'],
            CLOSE,
        ],
    ],
    morals=["And {A} learned that many hands make light work.",
            "From then on, whenever the wind blew, {A} was not afraid, because {he} had good friends.",
            "No storm is too big when friends stand together."],
    facts=[(["What did the storm break?", "What was broken?"], "The storm broke {A}'s roof.")],
)  # fmt: skip

FEAR = Plot(
    theme="courage",
    clause="who is afraid of {fear}",
    paragraphs=[
        [
            ["{A} was afraid of only one thing in the world: {fear}.",
             "There was one thing that {A} did not like at all, and that was {fear}.",
             "But {A} had a secret. {He} was afraid of {fear}."],
            ["{He} never told anyone about it, not even {B}.",
             "When the others laughed and played, {he} stayed at home and said {he} was tired.",
             "Just to think of it made {his} knees shake."],
        ],
        [
            ["One {weather} evening, {B} did not come home.",
             "Then, one {weather} day, {A} heard a small voice calling for help.",
             "One {weather} afternoon, somebody cried for help."],
            ["It was {B}, who had hurt {bhis} foot {outside}.",
             "{B} was stuck {outside} and could not move.",
             "{B} had fallen down {outside} and was too weak to get up."],
            ["To get there, {A} had to face {fear}. {His} heart beat like a drum.",
             "The only way led through {fear}. {A} stopped and shivered."],
            ['"I am scared," {he} whispered, "but my friend needs me." Then {he} took a deep breath and went.',
             "{He} thought of {B}, closed {his} eyes, counted to three and went on.",
             'Then {he} held {his} {thing} tight and said, "One step, and then one more."'],
        ],
        [
            ["It was not half as bad as {he} had thought.",
             "Step by step {he} came closer, and with every step {he} felt a little braver."],
            ['{A} helped {B} up and brought {bhim} home. "You are a hero," said {B}.',
             '"You came!" said {B}, and {bhis} eyes shone. "That was the bravest thing I ever saw."'],
            CLOSE,
        ],
    ],
    morals=["And {A} learned that being brave does not mean that you have no fear. It means that you go on anyway.",
            "From that day on, {A} was not afraid of {fear} any more.",
            "{A} still felt a little fear sometimes, but now {he} knew that it grows smaller when you walk towards it."],
    facts=[(["What was {A} afraid of?", "What did {A} fear?"], "{A} was afraid of {fear}."),
           (["Where was {B}?", "Where did {A} find {B}?"], "{B} was {outside}.")],
)  # fmt: skip

CONTEST = Plot(
    theme="patience",
    clause="who wants to win {contest}",
    paragraphs=[
        [
            ["Every {season} there was {contest}, and {A} wanted to win it more than anything.",
             "In {season} everybody talked about {contest}. {A} dreamed of winning it.",
             "One day a sign hung on the old tree. There would be {contest}, and the prize was {a_thing}."],
            ['"You are much too small," said the others, and they laughed.',
             '"I have never won anything," {A} said to {B}.',
             "But on the first try everything went wrong, and {A} wanted to give up."],
        ],
        [
            ['"Then let us practise," said {B}. "A little every day."',
             '"Nobody is good at the start," said {B}. "Try again tomorrow, and I will help you."'],
            ["So {A} practised in the sun and in the rain, in the morning and in the evening.",
             "Day after day they practised until the moon came up.",
             "They practised before breakfast and after supper, and slowly it got better."],
            ["When the great day came, it was {weather}, and {A} was as nervous as a leaf in the wind.",
             "At last the day came. It was {weather}, and the whole village stood and watched."],
            ["{A} looked at {B}, smiled and did {his} very best.",
             "{A} remembered every lesson, and this time nothing went wrong.",
             "{A} was not the fastest at first, but {he} did not stop."],
        ],
        [
            ["The crowd clapped and cheered, and {A} won {a_thing}.",
             "In the end {A} won, and the prize was {a_thing}.",
             'The judge, a very old goose, called {his} name. {A} had won {a_thing}!'],
            ['"It is for both of us," {A} said to {B}.',
             "{A} was so {feeling} that {he} could not speak.",
             '{A} gave the {noun} to {B}. "Without you I would have stopped," {he} said.'],
            CLOSE,
        ],
    ],
    morals=["And {A} learned that patience takes you further than luck.",
            "Ever since then, when something is hard, {A} just says: a little every day.",
            "The best prize, {he} thought, was a friend who believed in {him}."],
    facts=[(["What did {A} win?", "What was the prize?"], "{A} won {a_thing}."),
           (["What did {A} want to win?"], "{A} wanted to win {contest}.")],
)  # fmt: skip

GIFT = Plot(
    theme="giving",
    clause="who makes a gift for a friend",
    paragraphs=[
        [
            ["It was {B}'s birthday, and {A} had no gift.",
             "The next day was {B}'s birthday, but {A} had not a single coin.",
             "On {day} it would be {B}'s birthday, and {A} wanted to give {bhim} something special."],
            ["In the shop {he} saw {a_other}, but it cost far too much.",
             "{He} looked at the shop window for a long time, but everything was too dear."],
            ['"What can I do?" {he} said to {himself}.', "{He} walked home with {his} head down."],
        ],
        [
            ["Then {A} had an idea. {He} would make a gift with {his} own hands.",
             'Then {he} remembered what {his} grandmother always said: "The best gifts are made, not bought."',
             "On the way {he} found a piece of wood and some string {hiding}, and that gave {him} an idea."],
            ["All night {he} cut and glued and painted, and in the morning there was {a_thing} on the table.",
             "{He} worked until the candle burned low. When {he} was done, {he} had made {a_thing}.",
             "It took many hours, and once {he} hurt {his} thumb, but in the end it was a beautiful {thing}."],
            ["It was not perfect, but it was made with love.",
             "One side was a little crooked, but it shone like the sun."],
        ],
        [
            ["When {B} opened the parcel, {bhis} eyes grew wide.",
             "{B} unwrapped it slowly and then did not say a word for a while."],
            ['"Did you make this {noun} just for me?" {bhe} asked. "It is the best gift I ever had."',
             '"A {thing}!" {bhe} cried. "I will keep it for ever."',
             "{B} was so {feeling} that {bhe} hugged {A} three times."],
            CLOSE,
        ],
    ],
    morals=["And {A} learned that a gift from the heart is worth more than gold.",
            "From that day on, {A} made all {his} gifts {himself}.",
            "It is not the price that makes a gift great, but the love that goes into it."],
    facts=[(["What did {A} make?", "What was the gift?"], "{A} made {a_thing}."),
           (["Who had a birthday?", "Whose birthday was it?"], "It was {B}'s birthday.")],
)  # fmt: skip

MAP = Plot(
    theme="adventure",
    clause="who finds an old map",
    paragraphs=[
        [
            ["One {weather} day, {A} found an old map {hiding}.",
             "One {weather} morning, while {he} was playing, {A} found a piece of paper {hiding}. It was a map!"],
            ["There was a red cross on it, and next to the cross somebody had drawn a star.",
             "It showed a path, a river, a hill and a big red cross."],
            ['"A treasure!" cried {A}, and ran to tell {B}.',
             '"We must go and see," said {B}, who loved nothing more than an adventure.'],
        ],
        [
            ["They packed {food} and set off before the others were awake.",
             "They took {food}, a rope and a lamp, and off they went."],
            ["First they came to a river, and {B} built a raft out of branches.",
             "First they had to cross a dark wood, and they sang so that they would not be afraid.",
             "First they climbed a steep hill, and {B} pulled {A} up with the rope."],
            ["Then they met an old toad who asked a riddle, but {A} knew the answer.",
             "Then they got lost in the fog, but {A} heard the bells of the village and found the way.",
             "Then it began to rain, and they waited in a cave until it was over."],
            ["At the red cross they dug and dug until they hit a small chest.",
             "At last they stood at the place with the cross, and there was a box under the moss."],
        ],
        [
            ["Inside there was no gold. There was only {a_thing} and a note.",
             "They opened it with shaking hands. Inside lay {a_thing} and a letter."],
            ['"The real treasure is the one who came with you," it said.',
             'On it was written: "You have found a friend who walks with you. That is the treasure."'],
            ["{A} and {B} looked at each other and laughed. They were very {feeling}.",
             "{A} took {B} by the hand, and they walked home as the stars came out."],
        ],
    ],
    morals=["The {noun} still stands on {A}'s shelf and reminds {him} of that day.",
            "And {A} learned that the way is the best part of every adventure.",
            "They have had many adventures since then, and always together."],
    facts=[(["What was in the box?", "What did they find?"], "They found {a_thing}."),
           (["Where did {A} find the map?", "Where was the map?"], "The map was {hiding}.")],
)  # fmt: skip

SHARE = Plot(
    theme="sharing",
    clause="who learns to share",
    paragraphs=[
        [
            ["{A} had {a_thing}, and {he} loved it so much that nobody else was allowed to touch it.",
             "For {his} birthday {A} got {a_thing}. It was the finest {noun} in the whole land."],
            ['"May I play with it?" asked {B}. "No," said {A}. "It is mine."',
             'When {B} asked for a turn, {A} shook {his} head and said, "You might break it."'],
            ["{B} went away without a word.", "{B} looked sad and went home."],
        ],
        [
            ["So {A} played alone. But after a while it was not fun any more.",
             "All day {A} sat there alone with {his} {noun}, and the day was very long."],
            ["It was {weather} outside, and {he} heard the others laughing {outside}.",
             "Then it grew {weather}, and there was nobody to talk to."],
            ['"What good is a {noun}," {he} thought, "if there is nobody to share it with?"',
             '"I have the {noun}," {he} thought, "but I have lost my friend."'],
            ["{He} took the {thing} and ran to {B}'s house as fast as {he} could.",
             "The next morning {he} stood at {B}'s door with the {thing} in {his} hands."],
        ],
        [
            ['"I am sorry," said {A}. "Will you play with me?"',
             '"You go first," said {A}, and held it out to {B}.'],
            ["{B} smiled, and all was well again. They took turns and laughed until it was dark.",
             '"Of course," said {B}. They played all afternoon, and it was twice as much fun.'],
            CLOSE,
        ],
    ],
    morals=["And {A} learned that joy grows when you share it.",
            "Since that day the {noun} has belonged to both of them.",
            "A thing you share is a thing you can enjoy twice."],
    facts=[(["What did {A} have?", "What did {A} not want to share?"], "{A} had {a_thing}."),
           (["Who wanted to play with the {noun}?"], "{B} wanted to play with it.")],
)  # fmt: skip

MEND = Plot(
    theme="learning",
    clause="who mends {machine}",
    paragraphs=[
        [
            ["One {weather} morning, {machine} stopped working, and nobody knew why.",
             "One day in {season}, something was wrong. {Machine} had stopped!"],
            ["The wise old owl looked at it and shook her head. The strong ox kicked it, but that did not help.",
             "The mayor pushed and pulled, but nothing moved.",
             "Everybody had an idea, and every idea was wrong."],
            ['"May I try?" asked {A}. The others laughed, but {B} did not laugh.',
             '"I think I can mend it," said {A}. "You?" they said. "You are only a {kind}!"'],
        ],
        [
            ["{A} sat down, looked at every wheel and listened.",
             "First {A} only watched and thought for a long time, while {B} held the lamp."],
            ["Then {he} saw it. A tiny screw was missing!",
             "Deep inside {he} found a small wheel that was stuck.",
             "And there, between two wheels, {he} saw {a_thing} that somebody had lost."],
            ["{B} ran to fetch some oil, and {A} turned the wheel with care.",
             "{He} asked {B} for a bit of wire, and then {he} worked until {his} hands were black.",
             "It took all day, and twice {he} had to start again, but {he} did not give up."],
        ],
        [
            ["Then there was a click and a whirr, and it ran again!",
             "Suddenly it went tick, and tock, and everyone cheered."],
            ['"How did you do it?" they asked. "I just looked," said {A}.',
             "The mayor shook {A}'s hand, and {A} felt very {feeling}."],
            CLOSE,
        ],
    ],
    morals=["And they all learned that it is better to look closely than to push hard.",
            "Since then, when something is broken, everybody asks {A} and {B}.",
            "You do not have to be big to do great things."],
    facts=[(["What did {A} mend?", "What stopped working?"], "{A} mended {machine}.")],
)  # fmt: skip

PLOTS = (LOST, STORM, FEAR, CONTEST, GIFT, MAP, SHARE, MEND)
