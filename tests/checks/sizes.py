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

# What must not be read as code: comments, preprocessor lines, texts, characters.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|^[ \t]*#(?:[^\n\\]|\\.)*'
    r'|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'',
    re.DOTALL | re.MULTILINE,
)
# The words before a brace that opens a scope of declarations; "struct X f() {" is a function.
CONTAINER = re.compile(
    r'^\s*(?:(?:inline\s+)?namespace\b|extern\b[^(]*$'
    r'|(?:typedef\s+)?(?:template\s*<.*>\s*)?(?:class|struct|union|enum)\b)',
    re.DOTALL,
)
FUNCTION = re.compile(r"\)[^=;]*$|\boperator\b", re.DOTALL)


def functions(code: str) -> list[tuple[int, int]]:
    """(first line, lines) of every function in namespaces and classes; what a function holds is its own."""
    code = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), code)
    found = []
    open_braces: list[tuple[str, int]] = []  # kind, line of its head
    head_start = 0
    for at, char in enumerate(code):
        if char == "{" and not code[at - 1].isspace():
            open_braces.append(("initialiser", 0))  # of a member: x_{1}; its head goes on
        elif char == "{":
            head = code[head_start:at]
            inside = all(kind == "container" for kind, _ in open_braces)
            # Access labels come before a member and are not its head.
            head = re.sub(r"^\s*(?:public|protected|private):", "", head).lstrip()
            line = code.count("\n", 0, at - len(head)) + 1
            if not inside:
                kind = "block"
            elif CONTAINER.match(head) and not re.search(r"\w\s*\([^()]*\)\s*(?:const|noexcept)*\s*$", head):
                kind = "container"
            elif FUNCTION.search(head):
                kind = "function"
            else:
                kind = "block"  # the values of a variable
            open_braces.append((kind, line))
            head_start = at + 1
        elif char == "}":
            kind, line = open_braces.pop() if open_braces else ("block", 0)
            if kind == "function":
                found.append((line, code.count("\n", 0, at) + 2 - line))
            if kind != "initialiser":
                head_start = at + 1
        elif char == ";":
            head_start = at + 1
    return found


def long_functions(path: pathlib.Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: a function of {n_lines} lines, at most {MAX_FUNCTION_LINES}"
        for line, n_lines in functions(path.read_text())
        if n_lines > MAX_FUNCTION_LINES
    ]


def check_the_checker() -> None:
    body = "  f();\n" * 3
    code = (
        "namespace a {\nint top(int x = 3) {\n" + body + "}\nconstexpr int kTable[] = {\n1,\n2};\n"
        'class B : public C {\n public:\n  B() : x_{1}, y_("}") {\n' + body + "  }\n"
        "  int method() const noexcept {\n    if (x) {\n" + body + "    }\n  }\n"
        "  struct D {\n    // {\n    D operator+(const D& o) {\n" + body + "    }\n  };\n int x_ = '{';\n};\n"
        "struct E make() {\n" + body + "}\n}\n"
    )
    lengths = sorted(n_lines for _, n_lines in functions(code))
    if lengths != [5, 5, 5, 5, 7]:
        sys.exit(f"this check reads functions wrongly: {functions(code)}")


def main() -> int:
    check_the_checker()
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
