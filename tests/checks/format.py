#!/usr/bin/env python3
"""Every C++ file is as clang-format 14 would write it."""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def main() -> int:
    clang_format = shutil.which("clang-format-14")
    if clang_format is None:
        print("skipped: clang-format-14 is not installed (scripts/install-deps --test)")
        return SKIPPED
    files = [
        str(path)
        for folder in ["src", "tests", "bench"]
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".h", ".cpp"} and "node_modules" not in path.parts
    ]
    done = subprocess.run([clang_format, "--dry-run", "--Werror", *files], check=False)
    print(f"{len(files)} files checked")
    return 1 if done.returncode != 0 or not files else 0


if __name__ == "__main__":
    sys.exit(main())
