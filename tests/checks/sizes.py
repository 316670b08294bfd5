#!/usr/bin/env python3
"""No source over 800 lines, no function over 100. Exceptions are listed here with a reason."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100
EXCEPTIONS: dict[str, str] = {}  # path -> reason
SUFFIXES = {".h", ".cpp", ".cu", ".py", ".mjs"}

# clang-format puts what is defined at namespace level in column 0. A function is the lines from the
# last line there to a lone closing brace; types end in "};" and namespaces in a comment.
STARTS = re.compile(r"^[A-Za-z_~].*")


def long_functions(path: pathlib.Path) -> list[str]:
    faults = []
    start = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line == "}" and start > 0:
            if number - start + 1 > MAX_FUNCTION_LINES:
                faults.append(f"{path.relative_to(ROOT)}:{start}: {number - start + 1} lines")
            start = 0
        elif STARTS.match(line) and not line.startswith(("template", "namespace")):
            start = number
    return faults


def main() -> int:
    faults = []
    n_files = 0
    for folder in ["src", "tests", "bench", "tools", "models"]:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in SUFFIXES or "node_modules" in path.parts:
                continue
            n_files += 1
            name = str(path.relative_to(ROOT))
            n_lines = len(path.read_text().splitlines())
            if n_lines > MAX_FILE_LINES and name not in EXCEPTIONS:
                faults.append(f"{name}: {n_lines} lines, at most {MAX_FILE_LINES}")
            # A kernel may be longer, but stands alone in its file.
            if path.suffix in {".h", ".cpp"} and "kernels/cpu" not in name:
                faults += long_functions(path)
    print("\n".join(faults) or f"{n_files} files are within the limits")
    return 1 if faults or n_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
