"""Jinja set up as the reference library for chat templates sets it up. Needs python3-jinja2."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class RaisedByTemplate(jinja2.exceptions.TemplateError):
    """What raise_exception throws, apart from the engine's own errors."""


class Generation(jinja2.ext.Extension):
    """{% generation %}: its body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def _raise_exception(message):
    raise RaisedByTemplate(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def make_environment(now):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = now.strftime
    return environment


DEFAULTS = {
    "messages": [],
    "tools": None,
    "documents": None,
    "add_generation_prompt": True,
    "bos_token": "",
    "eos_token": "",
}


class Reference:
    """render() gives ("text", str), ("raised", message) or ("failed", description)."""

    def __init__(self, now="2025-03-07T08:09:10"):
        self.now = now
        self.environment = make_environment(datetime.datetime.fromisoformat(now))
        self.compiled = {}

    def render(self, template, context):
        if template not in self.compiled:
            try:
                self.compiled[template] = self.environment.from_string(template)
            except Exception as error:  # syntax errors come in several classes
                self.compiled[template] = ("failed", f"{type(error).__name__}: {error}")
        compiled = self.compiled[template]
        if isinstance(compiled, tuple):
            return compiled
        try:
            return ("text", compiled.render(**{**DEFAULTS, **context}))
        except RaisedByTemplate as error:
            return ("raised", str(error.message))
        except Exception as error:  # whatever Python code behind an expression throws
            return ("failed", f"{type(error).__name__}: {error}")
