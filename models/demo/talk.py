# ruff: noqa: E501 (prose is easier to read in one line)
"""Arithmetic and small talk."""

from __future__ import annotations

import random

import lexicon

Turns = list[tuple[str, str]]

ADD_FORMS = [
    "What is {a} + {b}?", "{a} + {b}", "{a} + {b} =", "What is {a} plus {b}?", "{a}+{b}",
    "Calculate {a} + {b}.", "How much is {a} + {b}?", "Add {a} and {b}.", "{a} plus {b}",
    "What's {a} + {b}?", "Compute {a} + {b}.", "{a} + {b}?", "Solve {a} + {b}.",
]  # fmt: skip
SUBTRACT_FORMS = [
    "What is {a} - {b}?", "{a} - {b}", "{a} - {b} =", "What is {a} minus {b}?", "{a}-{b}",
    "Calculate {a} - {b}.", "How much is {a} - {b}?", "Subtract {b} from {a}.", "{a} minus {b}",
    "What's {a} - {b}?", "Compute {a} - {b}.", "{a} - {b}?", "Solve {a} - {b}.",
]  # fmt: skip
GAIN_FORMS = [
    "{name} has {a} {goods} and gets {b} more. How many {goods} does {name} have now?",
    "{name} had {a} {goods}. Then {he} found {b} more. How many {goods} were there in the end?",
    "There are {a} {goods} in one basket and {b} {goods} in another. How many are there together?",
]  # fmt: skip
LOSS_FORMS = [
    "{name} has {a} {goods} and gives away {b}. How many {goods} are left?",
    "{name} had {a} {goods}. {b} of them got lost. How many {goods} were left?",
    "There were {a} {goods} in the basket. {name} took {b} of them. How many are left?",
]  # fmt: skip
GOODS = (
    "apples nuts shells buttons berries pears stones feathers marbles biscuits coins plums".split()
)


def is_held_out(a: int, b: int) -> bool:
    """Whether the operand pair is kept out of the training text (one pair in eleven)."""
    return (a * 37 + b * 101) % 11 == 0


def arithmetic_turn(rng: random.Random, held_out: bool = False) -> tuple[str, str]:
    """One sum or difference of numbers below 100, plainly or as a word problem.

    The answer shows one step on the way, so that each digit follows from few others: tens and ones
    are added apart ("47 + 25 = 60 + 12 = 72."), tens are taken away first ("72 - 25 = 52 - 5 = 47.").
    """
    while True:
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        if is_held_out(a, b) == held_out:
            break
    adds = rng.random() < 0.5
    if not adds and b > a:
        if is_held_out(b, a) != held_out:
            adds = True
        else:
            a, b = b, a
    sign, value = ("+", a + b) if adds else ("-", a - b)
    answer = f"{a} {sign} {b} = "
    if adds and max(a, b) > 9:
        answer += f"{(a // 10 + b // 10) * 10} + {a % 10 + b % 10} = "
    elif not adds and b > 9 and b % 10:
        answer += f"{a - b // 10 * 10} - {b % 10} = "
    answer += f"{value}."
    if min(a, b, value) > 1 and rng.random() < 0.15:
        who = lexicon.make_character(rng)
        form = rng.choice(GAIN_FORMS if adds else LOSS_FORMS)
        return form.format(name=who.name, he=who.he, goods=rng.choice(GOODS), a=a, b=b), answer
    form = rng.choice(ADD_FORMS if adds else SUBTRACT_FORMS)
    return form.format(a=a, b=b), answer


ABOUT = (
    "I am the Millrace demo model, a tiny language model with a few million parameters. "
    "I was trained from scratch on a small world of made-up stories."
)
SKILLS = (
    "I can tell short stories, answer questions about a text, extract facts as JSON, call tools, "
    "and add or subtract small numbers."
)
DONT_KNOW = (
    "I do not know that. I am a tiny demo model, and I only know a small world of stories. "
    "Try asking me for a story about a fox."
)
TALK: list[tuple[list[str], str]] = [
    (["Hello", "Hello!", "Hi", "Hi!", "Hi there!", "Hey", "Hello there", "Good morning!", "Good evening!", "Hey there!",
      "Hello, world!", "Greetings!"],
     "Hello! I am the Millrace demo model. Would you like to hear a story?"),
    (["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Introduce yourself.",
      "Who am I talking to?", "What model are you?", "Which model is this?", "Are you a robot?", "Are you an AI?",
      "How big are you?", "How many parameters do you have?", "Who made you?", "How were you trained?",
      "Are you ChatGPT?", "What is your model name?"], ABOUT),
    (["What can you do?", "What are you good at?", "Help", "Help me", "How can you help me?", "What do you know?",
      "What can I ask you?", "What should I ask you?", "Can you help me?", "What are your skills?"], SKILLS),
    (["How are you?", "How are you today?", "How do you do?", "How is it going?", "Are you well?", "What's up?"],
     "I am well, thank you. Would you like to hear a story?"),
    (["Thank you", "Thanks!", "Thank you!", "Thanks a lot!", "Thank you very much.", "Thanks", "That was nice.",
      "Great!", "Very good!", "I liked that.", "Nice story!", "Well done!", "Cool", "Wow!"],
     "You are welcome! I am always happy to tell another story."),
    (["Bye", "Goodbye", "Goodbye!", "See you!", "Good night!", "Bye bye", "See you later.", "Good night"],
     "Goodbye! Come back soon for another story."),
    (["Yes", "Yes, please.", "Yes please", "Sure", "Okay", "OK", "Of course"],
     "Good! What should the story be about? A fox, a robot, or a lost kite?"),
    (["No", "No, thanks.", "No thank you", "Not now."], "That is all right. Just ask whenever you like."),
    (["Tell me a joke.", "Do you know a joke?", "Tell me something funny.", "Make me laugh."],
     "Why did the robot cross the road? Because the chicken had the day off."),
    (["What is Millrace?", "Tell me about Millrace.", "What does Millrace do?"],
     "Millrace is an engine that serves language models. I am the little model that comes with it."),
    (["Say hello.", "Say hi.", "Say hello to me."], "Hello!"),
    (["Test", "test", "This is a test.", "Testing", "ping", "Are you there?"], "I am here, and everything works."),
]  # fmt: skip
OUT_OF_WORLD = [
    "What is the capital of {x}?", "Who is the president of {x}?", "How far is it to the {y}?", "Who wrote {x}?",
    "Explain {z}.", "What is {z}?", "How does {z} work?", "Write a program about {z}.", "When was {x} founded?",
    "What do you think about {z}?", "How do I learn {z}?", "Write an essay about {z}.", "Why is the {y} so big?",
    "Give me a recipe for {z}.", "Tell me about {z}.", "Tell me about {x}.", "Who invented {z}?",
    "What is the meaning of {z}?", "Write a poem about {z}.", "Translate this into {x}.", "Who was the king of {x}?",
    "Summarize {z} for me.", "How many people live in {x}?", "Write Python code for {z}.",
]  # fmt: skip
SUBJECTS = (
    "physics,quantum mechanics,the internet,history,a computer,love,life,philosophy,football,the stock market,"
    "photosynthesis,gravity,a black hole,machine learning,politics,cooking,chess,music theory,climate change,sorting,"
    "recursion,electricity,the brain,a neural network,biology,the economy,time travel,mathematics,speculative decoding,"
    "paged attention,a transformer,law,medicine,the universe,cars,fishing,art,the law of large numbers"
).split(",")
COUNTRIES = (
    "France Germany Italy Spain Japan China India Brazil Canada Mexico Egypt Kenya Norway Sweden "
    "Poland Greece Turkey Chile Peru England America Australia"
).split()
FAR = "moon sun ocean sky Earth Atlantic desert galaxy planet mountain".split()


def talk_turn(rng: random.Random) -> tuple[str, str]:
    """One exchange of small talk, or a question from outside the story world."""
    if rng.random() < 0.35:
        question = rng.choice(OUT_OF_WORLD).format(
            x=rng.choice(COUNTRIES), y=rng.choice(FAR), z=rng.choice(SUBJECTS)
        )
        return question, DONT_KNOW
    prompts, answer = rng.choice(TALK)
    return rng.choice(prompts), answer
