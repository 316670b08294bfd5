#!/usr/bin/python3
"""Reference logits in double precision, and the golden files of tests/goldens.

    golden_logits.py make tests/goldens          rewrite every golden file
    golden_logits.py gguf DIR                    write the same models as GGUF with a byte tokenizer
    golden_logits.py logits FILE.gguf 1,15,7     logits of the last token, as JSON
    golden_logits.py all-logits (FILE.gguf 1,15,7 OUT.f32)...     of every token, f32

The decoder is written from the model families' papers and published configurations, on PyTorch,
and shares nothing with the C++ code. Weights of the golden models are a pure function of (seed,
tensor name, index) that src/model/golden_testing_test.cpp computes again, so only logits are stored.
"""

import base64
import json
import math
import os
import sys

import numpy as np
import torch

from gguf_file import TYPES, GgufFile, decode, write_gguf

torch.set_num_threads(1)


# ---------------------------------------------------------------------------------- the decoder


def inverse_frequencies(meta, arch, n_rot, factors):
    """Radians per position of each rotated pair, and the factor on cosine and sine."""
    base = meta.get(f"{arch}.rope.freq_base", 10000.0)
    exponent = torch.arange(0, n_rot, 2, dtype=torch.float64) / n_rot
    frequency = base**-exponent
    kind = meta.get(f"{arch}.rope.scaling.type", "none")
    factor = meta.get(f"{arch}.rope.scaling.factor", 1.0)
    if factors is not None:
        return frequency / factors, 1.0
    if kind == "linear":
        return frequency / factor, 1.0
    if kind == "yarn":
        window = meta[f"{arch}.rope.scaling.original_context_length"]
        fast = meta.get(f"{arch}.rope.scaling.yarn_beta_fast", 32.0)
        slow = meta.get(f"{arch}.rope.scaling.yarn_beta_slow", 1.0)

        def pair_of(rotations):  # the pair that turns this often within the original window
            return n_rot * math.log(window / (rotations * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(pair_of(fast)), 0)
        high = min(math.ceil(pair_of(slow)), n_rot - 1)
        pairs = torch.arange(n_rot // 2, dtype=torch.float64)
        ramp = ((pairs - low) / max(high - low, 0.001)).clamp(0, 1)
        attention = meta.get(f"{arch}.rope.scaling.attn_factor", 1.0)
        return (
            frequency * (1 - ramp) + frequency / factor * ramp,
            attention * (0.1 * math.log(factor) + 1) if factor > 1 else attention,
        )
    assert kind == "none", kind
    return frequency, 1.0


class Decoder:
    def __init__(self, file):
        self.meta, self.file = file.metadata, file
        self.arch = self.meta["general.architecture"]
        self.n_layers = self._get("block_count")
        self.n_heads = self._get("attention.head_count")
        self.n_kv_heads = self._get("attention.head_count_kv", self.n_heads)
        n_embd = self._get("embedding_length")
        self.head_dim = self._get("attention.key_length", n_embd // self.n_heads)
        self.eps = self._get("attention.layer_norm_rms_epsilon")
        factors = self._weight("rope_freqs.weight")
        self.frequency, self.rope_gain = inverse_frequencies(
            self.meta, self.arch, self.head_dim, factors
        )

    def _get(self, key, default=None):
        return self.meta.get(f"{self.arch}.{key}", default)

    def _weight(self, name):
        if name not in self.file.tensors:
            return None
        return torch.from_numpy(self.file.tensor(name)).double()

    def _linear(self, name, x):
        y = x @ self._weight(f"{name}.weight").T
        bias = self._weight(f"{name}.bias")
        return y if bias is None else y + bias

    def _norm(self, name, x):
        weight = self._weight(f"{name}.weight")
        if weight is None:
            return x
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * weight

    def _rotate(self, x):
        """x [tokens, heads, head_dim]."""
        angle = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * self.frequency
        turn = torch.polar(torch.full_like(angle, self.rope_gain), angle)[:, None, :]
        if self.arch == "llama":  # neighbours are a complex number
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
            return torch.view_as_real(pairs * turn).reshape(x.shape)
        half = x.shape[-1] // 2
        turned = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * turn
        return torch.cat([turned.real, turned.imag], -1)

    def _attention(self, layer, x):
        n = x.shape[0]
        block = f"blk.{layer}"
        q = self._linear(f"{block}.attn_q", x).view(n, self.n_heads, self.head_dim)
        k = self._linear(f"{block}.attn_k", x).view(n, self.n_kv_heads, self.head_dim)
        v = self._linear(f"{block}.attn_v", x).view(n, self.n_kv_heads, self.head_dim)
        q = self._rotate(self._norm(f"{block}.attn_q_norm", q))
        k = self._rotate(self._norm(f"{block}.attn_k_norm", k))
        repeat = self.n_heads // self.n_kv_heads
        k, v = (t.repeat_interleave(repeat, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)
        return self._linear(f"{block}.attn_output", mixed.reshape(n, -1))

    def logits(self, tokens):
        """[tokens] -> [tokens, vocabulary]."""
        x = self._weight("token_embd.weight")[torch.tensor(tokens)]
        for layer in range(self.n_layers):
            block = f"blk.{layer}"
            x = x + self._attention(layer, self._norm(f"{block}.attn_norm", x))
            h = self._norm(f"{block}.ffn_norm", x)
            gate = torch.nn.functional.silu(self._linear(f"{block}.ffn_gate", h))
            x = x + self._linear(f"{block}.ffn_down", gate * self._linear(f"{block}.ffn_up", h))
        x = self._norm("output_norm", x)
        head = "output" if "output.weight" in self.file.tensors else "token_embd"
        return self._linear(head, x)


# --------------------------------------------------------------------------- the golden models

GOLDEN_RATIO = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def hash_words(seed, name, n):
    """n 64-bit words: SplitMix64 started from the FNV-1a hash of the name and the seed."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    state ^= seed
    with np.errstate(over="ignore"):
        x = np.uint64(state) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GOLDEN_RATIO)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def uniform(seed, name, n):
    """n float32 values in [-1, 1)."""
    return (hash_words(seed, name, n) >> np.uint64(40)).astype(np.float32) / np.float32(
        1 << 23
    ) - np.float32(1)


# Of a block of random bytes: (offset of d, standard deviation of a value at d = 1,
# offset of the second f16, its value relative to d).
BLOCK_SCALES = {
    "Q4_0": (0, 4.6, None, 0), "Q4_1": (0, 4.6, 2, -7.5), "Q5_0": (0, 9.2, None, 0),
    "Q5_1": (0, 9.2, 2, -15.5), "Q8_0": (0, 74, None, 0), "Q2_K": (80, 13.5, 82, 1.5),
    "Q3_K": (108, 42.5, None, 0), "Q4_K": (0, 260, 2, 7.5), "Q5_K": (0, 528, 2, 15.5),
    "Q6_K": (208, 1367, None, 0),
}  # fmt: skip


def tensor_bytes(seed, tensor):
    """A tensor of the golden file's list -> its bytes. src/model/golden_testing_test.cpp does the same."""
    name, kind = tensor["name"], tensor["type"]
    n, scale, center = int(np.prod(tensor["shape"])), tensor["scale"], tensor["center"]
    if "values" in tensor:
        return np.array(tensor["values"], "<f4").tobytes()
    if kind in ("F32", "F16", "BF16"):
        values = np.float32(center) + np.float32(scale) * uniform(seed, name, n)
        if kind == "F32":
            return values.astype("<f4").tobytes()
        if kind == "F16":
            return values.astype("<f2").tobytes()
        return (values.view("<u4") >> 16).astype("<u2").tobytes()
    _, block_values, block_bytes, _ = TYPES[kind]
    n_bytes = n // block_values * block_bytes
    raw = hash_words(seed, name, (n_bytes + 7) // 8).astype("<u8").view(np.uint8)[:n_bytes].copy()
    blocks = raw.reshape(-1, block_bytes)
    d_at, deviation, m_at, relative = BLOCK_SCALES[kind]
    d = np.float32(scale) / np.float32(deviation)
    blocks[:, d_at : d_at + 2] = np.array([d], "<f2").view(np.uint8)
    if m_at is not None:
        blocks[:, m_at : m_at + 2] = np.array([d * np.float32(relative)], "<f2").view(np.uint8)
    return raw.tobytes()


def golden_case(name, arch="llama", kind="F32", head_kind=None, layers=2, n_embd=64, heads=4,
                kv_heads=4, head_dim=None, n_ff=96, vocab=96, tied=False, bias=(), qk_norm=False,
                meta=None, factors=None, n_tokens=70, seed=1):  # fmt: skip
    head_dim_given = head_dim is not None
    head_dim = head_dim or n_embd // heads
    metadata = {
        "general.architecture": arch,
        "general.name": name,
        f"{arch}.block_count": layers,
        f"{arch}.context_length": 512,
        f"{arch}.embedding_length": n_embd,
        f"{arch}.feed_forward_length": n_ff,
        f"{arch}.attention.head_count": heads,
        f"{arch}.attention.head_count_kv": kv_heads,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
    }
    if head_dim_given:
        metadata[f"{arch}.attention.key_length"] = head_dim
        metadata[f"{arch}.attention.value_length"] = head_dim
    metadata.update(meta or {})
    tensors = []

    def add(tensor, type_name, shape, scale, center=0.0):
        row = {"name": tensor, "type": type_name, "shape": shape, "scale": scale, "center": center}
        tensors.append(row)

    def matrix(tensor, rows, columns, gain=1.0, type_name=kind):
        # a uniform value has deviation scale / sqrt(3), a block's the scale itself
        unit = math.sqrt(3) if type_name in ("F32", "F16", "BF16") else 1
        add(f"{tensor}.weight", type_name, [rows, columns], gain * unit / math.sqrt(columns))

    def norm(tensor, width):
        add(f"{tensor}.weight", "F32", [width], 0.25, 1.0)

    head_kind = head_kind or kind
    matrix("token_embd", vocab, n_embd, 3.0 if tied else 8.0, head_kind if tied else kind)
    for layer in range(layers):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm", n_embd)
        for part, width in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            # sharper attention than plain random weights have
            matrix(f"{block}.attn_{part}", width * head_dim, n_embd, 1.0 if part == "v" else 1.4)
            if "qkv" in bias:
                add(f"{block}.attn_{part}.bias", "F32", [width * head_dim], 0.5)
        if qk_norm:
            norm(f"{block}.attn_q_norm", head_dim)
            norm(f"{block}.attn_k_norm", head_dim)
        matrix(f"{block}.attn_output", n_embd, heads * head_dim)
        if "output" in bias:
            add(f"{block}.attn_output.bias", "F32", [n_embd], 0.5)
        norm(f"{block}.ffn_norm", n_embd)
        matrix(f"{block}.ffn_gate", n_ff, n_embd)
        matrix(f"{block}.ffn_up", n_ff, n_embd)
        matrix(f"{block}.ffn_down", n_embd, n_ff)
    norm("output_norm", n_embd)
    if not tied:
        matrix("output", vocab, n_embd, 3.0, head_kind)
    if factors is not None:
        row = {"name": "rope_freqs.weight", "type": "F32", "shape": [len(factors)]}
        tensors.append({**row, "scale": 0.0, "center": 0.0, "values": factors})
    tokens = (hash_words(seed, "tokens", n_tokens) % np.uint64(vocab)).astype(int).tolist()
    return {"name": name, "seed": seed, "metadata": metadata, "tensors": tensors, "tokens": tokens}


def llama3_factors(head_dim, base, factor, low, high, window):
    """How much slower each pair turns: all of `factor` for wavelengths that never close within
    the original window, none for short ones, a ramp between."""
    result = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * base ** (2 * pair / head_dim)
        if wavelength < window / high:
            result.append(1.0)
        elif wavelength > window / low:
            result.append(factor)
        else:
            smooth = (window / wavelength - low) / (high - low)
            result.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(result, np.float32).tolist()


def golden_cases():
    scaling = "llama.rope.scaling"
    yield golden_case("llama2", n_tokens=140)
    yield golden_case("llama2_bf16", kind="BF16", n_tokens=70)
    yield golden_case(
        "llama3_2", kv_heads=2, head_dim=16, tied=True, meta={"llama.rope.freq_base": 500000.0},
        factors=llama3_factors(16, 500000.0, 32.0, 1.0, 4.0, 32),
    )  # fmt: skip
    yield golden_case(
        "llama_linear", kv_heads=1, meta={f"{scaling}.type": "linear", f"{scaling}.factor": 4.0}
    )
    yield golden_case(
        "llama_yarn", kv_heads=2, head_dim=32,
        meta={f"{scaling}.type": "yarn", f"{scaling}.factor": 4.0,
              f"{scaling}.original_context_length": 32},
    )  # fmt: skip
    yield golden_case("llama_bias", kv_heads=2, bias=("qkv", "output"))
    yield golden_case("mistral_q8_0", kind="Q8_0", heads=4, kv_heads=2, head_dim=32)
    yield golden_case("smollm2_f16", kind="F16", n_embd=72, heads=9, kv_heads=3, tied=True)
    qwen2 = {"arch": "qwen2", "kv_heads": 2, "bias": ("qkv",)}
    yield golden_case("qwen2", **qwen2, meta={"qwen2.rope.freq_base": 1000000.0})
    qwen3 = {"arch": "qwen3", "kv_heads": 2, "head_dim": 24, "qk_norm": True, "tied": True}
    yield golden_case("qwen3", **qwen3, meta={"qwen3.rope.freq_base": 1000000.0})
    for kind in BLOCK_SCALES:
        # K types need rows of 256; Q4_K files keep a Q6_K head
        wide = {"n_embd": 256, "n_ff": 512, "heads": 4, "kv_heads": 2, "layers": 1, "n_tokens": 24}
        head = "Q6_K" if kind == "Q4_K" else None
        yield golden_case(f"llama_{kind.lower()}", kind=kind, head_kind=head, **wide)
    yield golden_case(
        "qwen2_q4_k", kind="Q4_K", head_kind="Q6_K", n_embd=256, n_ff=512, layers=1,
        heads=4, kv_heads=2, arch="qwen2", bias=("qkv",), n_tokens=24,
    )  # fmt: skip
    yield golden_case(
        "qwen3_q6_k", kind="Q6_K", n_embd=256, n_ff=512, layers=1, heads=4, kv_heads=2,
        head_dim=128, arch="qwen3", qk_norm=True, tied=True, n_tokens=24,
    )  # fmt: skip


class MemoryFile:
    """What Decoder needs of a GgufFile, for a golden case that is not on disk."""

    def __init__(self, case):
        self.metadata = case["metadata"]
        self.tensors = {
            t["name"]: (t["type"], tuple(t["shape"]), tensor_bytes(case["seed"], t))
            for t in case["tensors"]
        }

    def tensor(self, name):
        kind, shape, data = self.tensors[name]
        return decode(kind, data, int(np.prod(shape))).reshape(shape)


def make_goldens(folder):
    os.makedirs(folder, exist_ok=True)
    for case in golden_cases():
        logits = Decoder(MemoryFile(case)).logits(case["tokens"])
        n = len(case["tokens"])
        rows = sorted({0, 1, n // 2, min(64, n - 2), n - 1})
        case["rows"] = rows
        packed = logits[rows].numpy().astype("<f4").tobytes()
        case["logits_f32_base64"] = base64.b64encode(packed).decode()
        lines = [f'"{key}": {json.dumps(value)}' for key, value in case.items()]
        with open(f"{folder}/{case['name']}.json", "w") as file:
            file.write("{" + ",\n ".join(lines) + "}\n")
        top2 = logits.topk(2, -1).values
        margin = (top2[:, 0] - top2[:, 1]).median()
        print(f"{case['name']:16} logits std {logits.std():.2f} median margin {margin:.2f}")


def byte_tokenizer(vocab):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [f"tok{i}" for i in range(len(tokens), vocab)]
    types = [2, 3, 3] + [6] * 256 + [1] * (vocab - 259)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * vocab,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def write_models(folder, vocab=288):
    os.makedirs(folder, exist_ok=True)
    for case in golden_cases():
        for tensor in case["tensors"]:
            if tensor["name"] in ("token_embd.weight", "output.weight"):
                tensor["shape"][0] = vocab
        file = MemoryFile(case)
        path = f"{folder}/{case['name']}.gguf"
        write_gguf(path, {**case["metadata"], **byte_tokenizer(vocab)}, file.tensors)
        print(path)


def print_logits(path, tokens):
    logits = Decoder(GgufFile.open(path)).logits([int(t) for t in tokens.split(",")])
    print(json.dumps(logits[-1].tolist()))


def write_logits(*jobs):
    for path, tokens, out_path in zip(jobs[::3], jobs[1::3], jobs[2::3]):
        logits = Decoder(GgufFile.open(path)).logits([int(t) for t in tokens.split(",")])
        logits.numpy().astype("<f4").tofile(out_path)


if __name__ == "__main__":
    commands = {
        "make": make_goldens,
        "gguf": write_models,
        "logits": print_logits,
        "all-logits": write_logits,
    }
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
