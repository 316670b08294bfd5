#!/usr/bin/python3
"""Writes a tiny model with random weights as Hugging Face's transformers would: tiny_folder.py FOLDER"""

import array
import json
import os
import random
import struct
import sys

WIDTH, HEADS, KV_HEADS, HIDDEN, END = 32, 2, 1, 48, 256
VOCAB = END + 1

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": 1,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": VOCAB, "tie_word_embeddings": True,
    "torch_dtype": "float32",
}  # fmt: skip

LAYER = {
    "self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (WIDTH // HEADS * KV_HEADS, WIDTH),
    "self_attn.v_proj": (WIDTH // HEADS * KV_HEADS, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
    "mlp.gate_proj": (HIDDEN, WIDTH), "mlp.up_proj": (HIDDEN, WIDTH), "mlp.down_proj": (WIDTH, HIDDEN),
    "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,),
}  # fmt: skip


def byte_alphabet():
    """The characters that stand for the 256 bytes in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte if byte in printable else 256 + others.index(byte)): byte for byte in range(256)}


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def write_tensors(path, shapes):
    random.seed(1)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes.items():
        n = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = [1.0] * n if len(shape) == 1 else [random.uniform(-1, 1) for _ in range(n)]
        raw = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main(folder):
    os.makedirs(folder)
    write_json(folder, "config.json", CONFIG)
    shapes = {f"model.layers.0.{name}.weight": shape for name, shape in LAYER.items()}
    shapes.update({"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)})
    write_tensors(os.path.join(folder, "model.safetensors"), shapes)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    end = {"id": END, "content": "<|end|>", "special": True}
    write_json(folder, "tokenizer.json", {
        "added_tokens": [end], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": byte_alphabet(), "merges": []},
    })  # fmt: skip
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
    write_json(folder, "tokenizer_config.json", {"eos_token": "<|end|>", "chat_template": template})


main(sys.argv[1])
