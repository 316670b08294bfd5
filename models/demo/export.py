"""Writes the trained pair as GGUF: export.py FOLDER, which holds checkpoint.pt and draft.pt."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import chat
import gguf
from model import DRAFT, TARGET, Config
from tokenizer import Tokenizer

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


def metadata(config: Config, name: str, tokenizer: Tokenizer) -> dict[str, gguf.Value]:
    """Everything a reader of the file needs to know besides the tensors."""
    plain = len(tokenizer) - len(tokenizer.added)
    types = [NORMAL] * plain
    types += [CONTROL] * len(chat.CONTROL_TOKENS) + [USER_DEFINED] * len(chat.TAG_TOKENS)
    return {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": name,
        "general.license": "apache-2.0",
        "general.description": "Trained from scratch on generated text; see models/demo/README.md",
        "general.file_type": 7,  # mostly Q8_0
        "general.quantization_version": 2,
        "llama.vocab_size": config.vocab,
        "llama.context_length": config.context,
        "llama.embedding_length": config.width,
        "llama.block_count": config.layers,
        "llama.feed_forward_length": config.hidden,
        "llama.attention.head_count": config.heads,
        "llama.attention.head_count_kv": config.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": config.norm_epsilon,
        "llama.rope.dimension_count": config.width // config.heads,
        "llama.rope.freq_base": config.rope_base,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokenizer.tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer.merges],
        "tokenizer.ggml.bos_token_id": tokenizer.end_of_text,
        "tokenizer.ggml.eos_token_id": tokenizer.end,
        "tokenizer.ggml.padding_token_id": tokenizer.end_of_text,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": chat.jinja_template(),
    }


def main() -> None:
    folder, here = Path(sys.argv[1]), Path(__file__).parent
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    pairs = [
        ("checkpoint.pt", TARGET, "Millrace Demo", "demo.gguf"),
        ("draft.pt", DRAFT, "Millrace Demo Draft", "demo-draft.gguf"),
    ]
    for checkpoint, config, name, file_name in pairs:
        state = torch.load(folder / checkpoint)["model"]
        tensors = {key: value.numpy() for key, value in state.items()}
        path = here / file_name
        gguf.write(path, metadata(config, name, tokenizer), tensors)
        count = sum(tensor.size for tensor in tensors.values())
        print(f"{path.name}: {count} parameters, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
