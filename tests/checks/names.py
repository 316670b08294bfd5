#!/usr/bin/env python3
"""No two types of src/ outside of anonymous namespaces have the same name: a linker keeps one of their
destructors for both."""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "src"
OPENED = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{")
CLOSED = re.compile(r"\}  // namespace")
TYPE = re.compile(r"(?:struct|class|union|enum class|enum) (?:\w+ )*?([\w:]+)(?: final)?(?: :[^:;]*)? ?\{")


def types_of(text: str) -> list[str]:
    """The types that begin a line, as style has it outside of other types."""
    names, inside = [], []
    for line in text.splitlines():
        if opened := OPENED.match(line):
            inside.append(opened.group(1))
        elif CLOSED.match(line) and inside:
            inside.pop()
        elif (found := TYPE.match(line)) and "" not in inside:
            names.append("::".join([*inside, found.group(1)]))
    return names


def main() -> int:
    places = collections.defaultdict(list)
    for path in sorted(ROOT.rglob("*")):
        if path.suffix in {".h", ".cpp", ".cu"}:
            for name in types_of(path.read_text()):
                places[name].append(f"src/{path.relative_to(ROOT)}")
    faults = [f"{name} is in {' and in '.join(files)}" for name, files in places.items() if len(files) > 1]
    print("\n".join(faults) or f"{len(places)} types have names of their own")
    return 1 if faults or not places else 0


if __name__ == "__main__":
    sys.exit(main())
