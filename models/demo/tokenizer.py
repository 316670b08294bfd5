"""Byte-level BPE: training, encoding and decoding.

The pre-tokeniser is Qwen2's pattern, in which every digit stands alone. Python's `re` has no
\\p{L}; `[^\\W\\d_]` and `\\d` take its place, which is the same on the ASCII text of this world.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import chat

PRE_TOKENIZER = re.compile(
    r"'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
    r"|(?:[^\r\n\w]|_)?[^\W\d_]+"
    r"|\d"
    r"| ?(?:[^\s\w]|_)+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)


# No merge joins a quotation mark or bracket with a word: a quoted word is the same token as it is
# at the start of a line.
MARK = re.compile(r"(?<=^[^\w\s'])(?=[^\W\d_])")


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for each byte value."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(value if value in printable else next(others)) for value in range(256)]


def train(texts: Iterable[str], vocab_size: int) -> list[tuple[str, str]]:
    """The merges that make the bytes into `vocab_size` tokens; most frequent pair first."""
    alphabet = byte_alphabet()
    counts = Counter(
        part for text in texts for piece in PRE_TOKENIZER.findall(text) for part in MARK.split(piece)
    )
    words = [[alphabet[byte] for byte in piece.encode()] for piece in counts]
    weights = list(counts.values())
    pairs: Counter[tuple[str, str]] = Counter()
    where: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += weights[index]
            where[pair].add(index)
    merges = []
    while len(merges) < vocab_size - 256:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for index in where.pop(best):
            word, weight = words[index], weights[index]
            for pair in zip(word, word[1:]):
                pairs[pair] -= weight
            word = words[index] = merge(word, best)
            for pair in zip(word, word[1:]):
                pairs[pair] += weight
                where[pair].add(index)
        pairs.pop(best)
    return merges


def merge(word: list[str], pair: tuple[str, str]) -> list[str]:
    """The word with every occurrence of the pair joined, from left to right."""
    result, index = [], 0
    while index < len(word):
        if word[index : index + 2] == list(pair):
            result.append(pair[0] + pair[1])
            index += 2
        else:
            result.append(word[index])
            index += 1
    return result


class Tokenizer:
    """Encodes text with a vocabulary of bytes, merges and added tokens, in this order."""

    def __init__(self, merges: list[tuple[str, str]]):
        self.merges = merges
        self.added = chat.CONTROL_TOKENS + chat.TAG_TOKENS
        self.tokens = byte_alphabet() + [left + right for left, right in merges] + self.added
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        self._alphabet = byte_alphabet()
        self._bytes = {char: value for value, char in enumerate(self._alphabet)}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._split = re.compile("(" + "|".join(re.escape(token) for token in self.added) + ")")
        self._cache: dict[str, list[int]] = {}
        self.end_of_text, self.end = self.ids[chat.END_OF_TEXT], self.ids[chat.END]

    def __len__(self) -> int:
        return len(self.tokens)

    def _encode_piece(self, piece: str) -> list[int]:
        word = [self._alphabet[byte] for byte in piece.encode()]
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda pair: self._ranks.get(pair, len(self)))
            if best not in self._ranks:
                break
            word = merge(word, best)
        return [self.ids[token] for token in word]

    def encode(self, text: str) -> list[int]:
        """Token ids; the added tokens are recognised in the text."""
        ids: list[int] = []
        for part in self._split.split(text):
            if part in self.added:
                ids.append(self.ids[part])
                continue
            for piece in PRE_TOKENIZER.findall(part):
                if piece not in self._cache:
                    self._cache[piece] = self._encode_piece(piece)
                ids += self._cache[piece]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the tokens, control tokens included."""
        parts = []
        for index in ids:
            token = self.tokens[index]
            ordinary = index < len(self) - len(self.added)
            parts.append(bytes(self._bytes[c] for c in token) if ordinary else token.encode())
        return b"".join(parts).decode(errors="replace")

    def save(self, path: Path) -> None:
        """Writes the merges as JSON."""
        path.write_text(json.dumps(self.merges))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """The tokenizer that `save` wrote."""
        return cls([tuple(pair) for pair in json.loads(path.read_text())])


def main() -> None:
    """Trains the tokenizer: tokenizer.py OUT.json."""
    import sys

    import lexicon
    import tools
    import world

    size = 2080 - len(chat.CONTROL_TOKENS + chat.TAG_TOKENS)
    added = re.compile("|".join(re.escape(t) for t in chat.CONTROL_TOKENS + chat.TAG_TOKENS))
    words = lexicon.BOY_NAMES + lexicon.GIRL_NAMES + lexicon.ANIMALS + lexicon.COLOURS
    words += lexicon.THINGS + lexicon.FOODS + lexicon.CITIES + lexicon.DAYS
    words += tools.ROOMS + tools.GOODS + tools.SONGS
    texts = [f"{word} {word}" for word in words] * 100  # known with and without a space before them
    texts += [
        part
        for index in range(8_000)
        for text, _ in world.document(index, world.MIX | {"long": 0})  # these say nothing new
        for part in added.split(text)
    ]
    tokenizer = Tokenizer(train(texts, size))
    tokenizer.save(Path(sys.argv[1]))
    print(f"{len(tokenizer)} tokens")


if __name__ == "__main__":
    main()
