#!/usr/bin/python3
"""What each --kv-type costs in quality: KL divergence of the next-token distribution from that with
F32 keys and values, over the model's own greedy answers and over random tokens.

    kv_type_divergence.py LOGITS_DUMP MILLRACE MODEL.gguf

LOGITS_DUMP is build/dev/tests/llama_cpp/logits_dump. "changed": positions whose best token is another
although its margin with F32 was over 0.1 nats.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

PROMPTS = [
    "Tell me a story about a fox named Pip who finds a red kite.",
    "What is 47 + 25?",
    "Who are you?",
    "Tell me a story.",
]
N_ANSWER = 200
N_RANDOM = 400


def answer(millrace, model, prompt):
    """Token ids of a prompt and the greedy answer to it."""
    done = subprocess.run(
        [millrace, "run", model, "-p", prompt, "-n", str(N_ANSWER), "--temperature", "0", "--json"],
        check=True,
        capture_output=True,
    )
    result = json.loads(done.stdout)
    return result["prompt_tokens"] + result["tokens"]


def logits(dump, model, kv_type, ids, folder):
    out = pathlib.Path(folder) / "logits.f32"
    subprocess.run([dump, model, out, "2", "512", kv_type, *map(str, ids)], check=True)
    return np.fromfile(out, dtype=np.float32).reshape(len(ids), -1).astype(np.float64)


def log_softmax(rows):
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def main():
    dump, millrace, model = sys.argv[1:4]
    texts = [answer(millrace, model, prompt) for prompt in PROMPTS]
    n_vocab = max(map(max, texts)) + 1
    texts.append(np.random.default_rng(1).integers(0, n_vocab, N_RANDOM).tolist())
    print(f"{sum(map(len, texts))} positions; KL in nats")
    print(f"{'':6}{'answers':>12}{'random':>12}{'changed':>9}")
    with tempfile.TemporaryDirectory() as folder:
        exact = [logits(dump, model, "f32", ids, folder) for ids in texts]
        for kv_type in ("bf16", "int8", "fp8"):
            divergences = []
            n_changed = 0
            for ids, reference in zip(texts, exact):
                rows = logits(dump, model, kv_type, ids, folder)
                p, q = log_softmax(reference), log_softmax(rows)
                divergences.append((np.exp(p) * (p - q)).sum(axis=1))
                best_two = np.sort(reference, axis=1)[:, -2:]
                is_sure = best_two[:, 1] - best_two[:, 0] > 0.1
                n_changed += int((is_sure & (p.argmax(axis=1) != q.argmax(axis=1))).sum())
            own = np.concatenate(divergences[:-1]).mean()
            print(f"{kv_type:6}{own:12.2e}{divergences[-1].mean():12.2e}{n_changed:9}")


if __name__ == "__main__":
    main()
