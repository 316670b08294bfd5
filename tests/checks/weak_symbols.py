#!/usr/bin/env python3
"""weak_symbols.py OBJECT...: the units of one instruction set export no weak symbol.

A weak symbol (an inline function, a template of the standard library) compiled for AVX-512 could be
the copy that the linker keeps for everybody, and crash a processor without it.
"""

import subprocess
import sys


def main() -> int:
    prefixes = ("kernels_", "probes_", "row_scan_")
    objects = [path for path in sys.argv[1:] if path.rsplit("/", 1)[-1].startswith(prefixes)]
    faults = []
    for path in objects:
        symbols = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=True)
        for line in symbols.stdout.splitlines():
            kind = line[17:18] if len(line) > 17 else ""
            if kind in "WVuw" and kind:
                faults.append(f"{path}: {line.strip()}")
    print("\n".join(faults) or f"{len(objects)} objects have no weak symbol")
    return 1 if faults or len(objects) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
