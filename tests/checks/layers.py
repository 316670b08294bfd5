#!/usr/bin/env python3
"""Every include in src/ points to the module itself or to a module on an earlier line of src/LAYERS,
and no header is read twice."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def read_layers() -> dict[str, int]:
    lines = (ROOT / "LAYERS").read_text().splitlines()
    layers = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {module: level for level, modules in enumerate(layers) for module in modules}


def main() -> int:
    levels = read_layers()
    faults = []
    n_files = 0
    for path in sorted(ROOT.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu"}:
            continue
        n_files += 1
        place = path.relative_to(ROOT)
        module = place.parts[0] if len(place.parts) > 1 else None
        if module is not None and module not in levels:
            faults.append(f"src/{place}: module {module} is not in src/LAYERS")
            continue
        text = path.read_text()
        if path.suffix == ".h" and not text.startswith("#pragma once\n"):
            faults.append(f"src/{place}: the first line is not #pragma once")
        for target in INCLUDE.findall(text):
            other = target.split("/")[0]
            if "/" not in target or other not in levels:
                faults.append(f'src/{place}: "{target}" is not rooted at a module of src/')
            elif module is not None and other != module and levels[other] >= levels[module]:
                faults.append(f"src/{place}: {module} may not include {other} ({target})")
    print("\n".join(faults) or f"{n_files} files keep to src/LAYERS")
    return 1 if faults or n_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
