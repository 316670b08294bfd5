#!/usr/bin/env python3
"""Runs `millrace simulate` with one variant of its options after another and prints a table.

    sweep.py MILLRACE --trace FILE [OPTION...] -- VARIANT...

What stands before -- goes to every run; each variant is one argument with options of its own, ""
for none:

    sweep.py build/release/src/millrace --trace trace.jsonl --rate-scale 0.1 -- \\
        "" "--max-overtakings 0" "--max-step-ms 50" "--max-step-ms 200"
"""

import json
import shlex
import subprocess
import sys

COLUMNS = {
    "finished": lambda r: r["finished"],
    "found %": lambda r: shown(r["hit_rate"], 100, ".1f"),
    "preempted": lambda r: r["preemptions"],
    "again": lambda r: r["recomputed_tokens"],
    "overtaken": lambda r: r["overtakings"],
    "TTFT p50 s": lambda r: seconds(r["first_token_seconds"]["p50"]),
    "p90": lambda r: seconds(r["first_token_seconds"]["p90"]),
    "p99": lambda r: seconds(r["first_token_seconds"]["p99"]),
    "gap p50 ms": lambda r: shown(r["inter_token_seconds"]["p50"], 1e3, ".0f"),
    "p99 ms": lambda r: shown(r["inter_token_seconds"]["p99"], 1e3, ".0f"),
    "good": lambda r: r["good"],
    "goodput /s": lambda r: shown(r["goodput"], 1, ".4f"),
    "tokens/s": lambda r: shown(r["tokens_per_second"], 1, ".1f"),
}


def shown(value: float | None, factor: float, form: str) -> str:
    return "-" if value is None else format(factor * value, form)  # null: nothing came to it


def seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def simulate(millrace: str, options: list[str]) -> dict:
    done = subprocess.run(
        [millrace, "simulate", *options, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{shlex.join(options)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> int:
    arguments = sys.argv[1:]
    if "--" not in arguments or arguments.index("--") < 2:
        sys.stderr.write(__doc__)
        return 1
    end = arguments.index("--")
    millrace, common, variants = arguments[0], arguments[1:end], arguments[end + 1 :]
    print("| | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    report = {}
    for variant in variants:
        report = simulate(millrace, common + shlex.split(variant))
        cells = [f"`{variant}`" if variant else "defaults", *(str(f(report)) for f in COLUMNS.values())]
        print("| " + " | ".join(cells) + " |", flush=True)
    if report:
        cost = {name: value for name, value in report["cost"].items() if name != "largest_error"}
        print(f"\n{report['requests']} requests, {report['virtual_seconds']:.0f} virtual seconds; cost {cost}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
