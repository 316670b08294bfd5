# ruff: noqa: E501 (prose is easier to read in one line)
"""Tool calls: a catalogue of tools, requests that need one of them, results and final answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import lexicon

Arguments = dict[str, object]

SONGS = [
    "Moonlight", "Blue River", "Happy Days", "The Old Mill", "Silent Snow", "Morning Sun",
    "Summer Rain", "Golden Fields", "Little Star", "Over the Hills",
]  # fmt: skip
ROOMS = ["kitchen", "bedroom", "garden", "bathroom", "hall", "living room", "office", "garage"]
MESSAGES = [
    "I will be late", "dinner is ready", "see you tomorrow", "the train is on time", "call me back",
    "happy birthday", "I am at home", "the meeting is at noon", "good luck", "I found the key",
]  # fmt: skip
TASKS = [
    "water the plants", "buy milk", "feed the cat", "call the baker", "post the letter",
    "clean the boat", "pay the bill", "pack the bags", "mend the kite", "lock the door",
]  # fmt: skip
GOODS = ["apples", "eggs", "candles", "pencils", "lemons", "carrots", "plates", "cups", "stamps"]


@dataclass(frozen=True)
class Tool:
    """One tool: its possible names, description, parameters, requests and answers."""

    names: list[str]
    description: str
    parameters: dict[str, tuple[list[str], str]]  # slot -> (possible names, JSON type)
    draw: Callable[[random.Random], Arguments]  # values by slot
    requests: list[str]
    result: Callable[[random.Random, Arguments], Arguments]
    answers: list[str]


def _weather(rng: random.Random, _: Arguments) -> Arguments:
    return {"temperature": rng.randint(2, 35), "condition": rng.choice(lexicon.WEATHERS)}


def _time(rng: random.Random, _: Arguments) -> Arguments:
    return {"time": f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"}


def _done(_: random.Random, __: Arguments) -> Arguments:
    return {"status": "ok"}


TOOLS = [
    Tool(
        ["get_weather", "weather"],
        "Get the weather in a city.",
        {"city": (["city", "location"], "string")},
        lambda rng: {"city": rng.choice(lexicon.CITIES)},
        ["What is the weather in {city}?", "What's the weather like in {city}?", "How is the weather in {city}?",
         "Tell me the weather in {city}.", "What is the weather like in {city} today?"],
        _weather,
        ["It is {condition} in {city}, with {temperature} degrees."],
    ),
    Tool(
        ["get_time", "current_time"],
        "Get the time in a city.",
        {"city": (["city", "location"], "string")},
        lambda rng: {"city": rng.choice(lexicon.CITIES)},
        ["What time is it in {city}?", "Tell me the time in {city}.", "What is the time in {city}?",
         "What time is it in {city} now?"],
        _time,
        ["It is {time} in {city}."],
    ),
    Tool(
        ["set_timer", "start_timer"],
        "Set a timer.",
        {"minutes": (["minutes", "duration"], "integer")},
        lambda rng: {"minutes": rng.randint(2, 99)},
        ["Set a timer for {minutes} minutes.", "Start a timer of {minutes} minutes.",
         "Please set a timer for {minutes} minutes.", "Wake me in {minutes} minutes."],
        _done,
        ["The timer is set for {minutes} minutes."],
    ),
    Tool(
        ["send_message", "send_text"],
        "Send a message to a person.",
        {"to": (["to", "recipient"], "string"), "text": (["text", "message"], "string")},
        lambda rng: {"to": rng.choice(lexicon.BOY_NAMES + lexicon.GIRL_NAMES), "text": rng.choice(MESSAGES)},
        ['Send a message to {to}: {text}', 'Tell {to}: {text}', 'Send {to} the message "{text}".',
         'Write to {to}: {text}', 'Message {to}: {text}'],
        _done,
        ["I sent the message to {to}."],
    ),
    Tool(
        ["play_song", "play_music"],
        "Play a song.",
        {"title": (["title", "song"], "string")},
        lambda rng: {"title": rng.choice(SONGS)},
        ["Play {title}.", "I want to hear {title}.", "Play the song {title}.", "Can you play {title}?"],
        _done,
        ["Now playing {title}."],
    ),
    Tool(
        ["turn_on_light", "light_on"],
        "Turn on the light in a room.",
        {"room": (["room", "place"], "string")},
        lambda rng: {"room": rng.choice(ROOMS)},
        ["Turn on the light in the {room}.", "It is dark in the {room}.", "Please turn on the lights in the {room}."],
        _done,
        ["The light in the {room} is on."],
    ),
    Tool(
        ["add_task", "add_reminder"],
        "Add a task for a day.",
        {"task": (["task", "title"], "string"), "day": (["day", "date"], "string")},
        lambda rng: {"task": rng.choice(TASKS), "day": rng.choice(lexicon.DAYS)},
        ["Remind me to {task} on {day}.", "Add a task for {day}: {task}", "On {day} I have to {task}.",
         "Please remind me on {day} to {task}."],
        _done,
        ["I will remind you to {task} on {day}."],
    ),
    Tool(
        ["order_items", "add_to_cart"],
        "Order some items.",
        {"item": (["item", "product"], "string"), "count": (["count", "quantity"], "integer")},
        lambda rng: {"item": rng.choice(GOODS), "count": rng.randint(2, 99)},
        ["Order {count} {item}.", "Buy {count} {item}, please.", "I need {count} {item}.",
         "Please order {count} {item} for me.", "Put {count} {item} in the cart."],
        _done,
        ["I ordered {count} {item}."],
    ),
]  # fmt: skip


def make_schema(rng: random.Random, tool: Tool) -> tuple[dict[str, object], dict[str, str]]:
    """An OpenAI-style tool definition, and the parameter name chosen for each slot."""
    names = {slot: rng.choice(options) for slot, (options, _) in tool.parameters.items()}
    properties = {names[slot]: {"type": kind} for slot, (_, kind) in tool.parameters.items()}
    function = {
        "name": rng.choice(tool.names),
        "description": tool.description,
        "parameters": {"type": "object", "properties": properties, "required": list(properties)},
    }
    return {"type": "function", "function": function}, names


def tool_conversation(
    rng: random.Random, turns: int
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Tools and a conversation whose every user turn needs a call of one of them."""
    chosen = rng.sample(TOOLS, rng.choice([1, 1, 2, 2, 3]))
    schemas = [make_schema(rng, tool) for tool in chosen]
    messages: list[dict[str, object]] = []
    for _ in range(turns):
        which = rng.randrange(len(chosen))
        tool, (schema, names) = chosen[which], schemas[which]
        values = tool.draw(rng)
        call = {
            "name": schema["function"]["name"],
            "arguments": {names[slot]: value for slot, value in values.items()},
        }
        result = tool.result(rng, values)
        answer = rng.choice(tool.answers).format(**values, **result)
        messages += [
            {"role": "user", "content": rng.choice(tool.requests).format(**values)},
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]},
            {"role": "tool", "content": json.dumps(result)},
            {"role": "assistant", "content": answer[0].upper() + answer[1:]},
        ]
    return [schema for schema, _ in schemas], messages
