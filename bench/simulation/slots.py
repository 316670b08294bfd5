#!/usr/bin/env python3
"""How many sequences of a trace lie in memory at once: paged, and with a slot of the window's length for each.

    bench/simulation/slots.py TRACE [--kv-tokens 262144] [--window N] [--block-tokens 64]

TRACE is JSON lines with input_length and output_length, as for `millrace simulate`. From every request of the trace
on, those that follow are let in, each with all the tokens it will have, until the next does not fit; nothing is
shared. The window is by default the longest request of the trace.
"""
import argparse
import json
import statistics
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--kv-tokens", type=int, default=262144)
    parser.add_argument("--window", type=int)
    parser.add_argument("--block-tokens", type=int, default=64)
    options = parser.parse_args()
    with open(options.trace) as lines:
        requests = [json.loads(line) for line in lines if line.strip()]
    lengths = [request["input_length"] + request["output_length"] for request in requests]
    window = options.window or max(lengths)

    def paged(length):
        return -(-length // options.block_tokens) * options.block_tokens

    lengths = [length for length in lengths if length <= window and paged(length) <= options.kv_tokens]
    if not lengths:
        sys.exit("no request fits")
    counts = []
    end, used = 0, 0
    for length in lengths:
        while end < len(lengths) and used + paged(lengths[end]) <= options.kv_tokens:
            used += paged(lengths[end])
            end += 1
        if end == len(lengths):
            break
        counts.append(end - len(counts))
        used -= paged(length)
    if not counts:
        sys.exit("all requests of the trace fit at once")
    slots = options.kv_tokens // window
    print(f"{len(lengths)} requests of {min(lengths)} to {max(lengths)} tokens, median "
          f"{statistics.median(lengths):.0f}; memory for {options.kv_tokens} tokens")
    print(f"slots of {window} tokens: {slots} sequences")
    print(f"blocks of {options.block_tokens} tokens: {statistics.median(counts):.0f} at the median, "
          f"{min(counts)} at least: {statistics.median(counts) / max(slots, 1):.1f} times as many")


if __name__ == "__main__":
    main()
