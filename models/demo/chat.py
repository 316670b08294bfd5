"""The chat format: its Jinja template, as stored in the GGUF file, and the same thing in Python."""

from __future__ import annotations

import json

Message = dict[str, object]
Segment = tuple[str, bool]  # text, and whether the model writes it

END_OF_TEXT = "<|endoftext|>"
START = "<|im_start|>"
END = "<|im_end|>"
CONTROL_TOKENS = [END_OF_TEXT, START, END]
TAG_TOKENS = [
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>",
]  # fmt: skip

TOOLS_HEAD = "# Tools\n\nYou may call these functions:\n<tools>"
TOOLS_TAIL = (
    "</tools>\n\nFor each call, answer with:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <arguments-object>}\n</tool_call>'
)

TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- '%HEAD%' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\\n%TAIL%<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif message.role == 'assistant' and message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for call in message.tool_calls %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
            {%- if call.arguments is string %}
                {{- call.arguments }}
            {%- else %}
                {{- call.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role != 'system' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def jinja_template() -> str:
    """The template with the fixed texts in place."""

    def escape(text: str) -> str:
        return text.replace("\n", "\\n")

    return TEMPLATE.replace("%HEAD%", escape(TOOLS_HEAD)).replace("%TAIL%", escape(TOOLS_TAIL))


def _call_text(call: Message) -> str:
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return (
        f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>'
    )


def render(messages: list[Message], tools: list[Message] | None = None) -> list[Segment]:
    """The conversation as segments; joined they equal the template's output."""
    segments: list[Segment] = []
    if tools:
        head = START + "system\n"
        if messages[0]["role"] == "system":
            head += messages[0]["content"] + "\n\n"
            messages = messages[1:]
        lines = [json.dumps(tool, ensure_ascii=False) for tool in tools]
        segments.append(("\n".join([head + TOOLS_HEAD, *lines, TOOLS_TAIL]) + END + "\n", False))
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "tool":
            before = index > 0 and messages[index - 1]["role"] == "tool"
            after = index + 1 < len(messages) and messages[index + 1]["role"] == "tool"
            text = "" if before else START + "user"
            text += f"\n<tool_response>\n{content}\n</tool_response>"
            segments.append((text + ("" if after else END + "\n"), False))
        elif role == "assistant":
            parts = [content] if content else []
            parts += [_call_text(call) for call in message.get("tool_calls", [])]
            segments += [
                (START + "assistant\n", False),
                ("\n".join(parts) + END, True),
                ("\n", False),
            ]
        else:
            segments.append((f"{START}{role}\n{content}{END}\n", False))
    return segments


def prompt_text(messages: list[Message], tools: list[Message] | None = None) -> str:
    """The text that asks the model for the next assistant message."""
    return "".join(text for text, _ in render(messages, tools)) + START + "assistant\n"
