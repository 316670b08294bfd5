#!/usr/bin/env python3
"""Writes goldens.json: what Jinja makes of each hand-written snippet. Run after changing them."""

import json
import pathlib

import differential_test
import reference
import snippets


def main():
    jinja = reference.Reference()
    cases = []
    for template in [*snippets.FEATURES, *snippets.BLOCKS]:
        kind, text = jinja.render(template, snippets.CONTEXT)
        if kind == "text" and differential_test.OBJECT.search(text):
            continue
        # What a failure says is Python's own, except for raise_exception.
        cases.append([template, kind, "" if kind == "failed" else text])
    document = {"now": jinja.now, "context": snippets.CONTEXT, "cases": cases}
    path = pathlib.Path(__file__).parent / "goldens.json"
    path.write_text(
        json.dumps(document, ensure_ascii=True, indent=0, separators=(",", ":")) + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
