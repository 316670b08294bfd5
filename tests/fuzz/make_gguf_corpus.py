#!/usr/bin/python3
"""Writes tests/fuzz/corpus/gguf: small broken files, and expected.tsv with the error each must give.

Every file is a seed for the fuzzer and a case of gguf_corpus_test.cpp. A line of expected.tsv: file
name, error code ("ok" when the file is sound), words that the message must contain. Deterministic:
running it again changes nothing.
"""

import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus/gguf"

U8, U16, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 2, 4, 5, 6, 7, 8, 9, 10
GGML_F32, GGML_Q8_0, GGML_Q4_K = 0, 8, 12


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n % 2**64)


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return u64(len(data)) + data


def entry(key, kind, payload):
    return text(key) + u32(kind) + payload


def array(key, kind, count, payload):
    return entry(key, ARRAY, u32(kind) + u64(count) + payload)


def tensor(name, dims, ggml_type=GGML_F32, offset=0, n_dims=None):
    count = len(dims) if n_dims is None else n_dims
    return text(name) + u32(count) + b"".join(map(u64, dims)) + u32(ggml_type) + u64(offset)


ARCHITECTURE = entry("general.architecture", STRING, text("llama"))
FOUR = tensor("w", [4])


def header(n_tensors, n_entries, version=3):
    return b"GGUF" + u32(version) + u64(n_tensors) + u64(n_entries)


def build(entries=(ARCHITECTURE,), tensors=(FOUR,), data=16, version=3, alignment=32):
    out = header(len(tensors), len(entries), version) + b"".join(entries) + b"".join(tensors)
    out += b"\0" * (-len(out) % alignment)
    return out + bytes(i % 251 for i in range(data))


def sound_files():
    # A block of each type, its size as the format defines it.
    sizes = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24),
             8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176),
             14: (256, 210)}  # fmt: skip
    tensors, offset = [], 0
    for ggml_type, (n, size) in sizes.items():
        tensors.append(tensor(f"t{ggml_type}", [n, 2], ggml_type, offset))
        offset += (2 * size + 31) // 32 * 32
    scalars = [
        entry(f"scalar.{kind}", kind, b"\x01" * size)
        for kind, size in enumerate([1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8])
        if size
    ]
    words = array("words", STRING, 3, text("") + text("a") + text("\u00e9"))
    floats = array("floats", F32, 2, struct.pack("<2f", 0.5, float("nan")))
    yield "sound_empty", build([], [], 0), "ok", ""
    yield "sound_small", build(), "ok", ""
    yield "sound_version_2", build(version=2), "ok", ""
    yield "sound_all_types", build([ARCHITECTURE], tensors, offset), "ok", ""
    yield "sound_all_scalars", build([ARCHITECTURE, *scalars, words, floats]), "ok", ""
    aligned = [ARCHITECTURE, entry("general.alignment", U32, u32(64))]
    yield "sound_alignment_64", build(aligned, alignment=64), "ok", ""
    unknown = [entry("general.architecture", STRING, text("hyena"))]
    yield "sound_unknown_architecture", build(unknown), "ok", ""
    no_end = [array("empty", STRING, 0, b"")]
    yield "sound_empty_array_at_the_end", header(0, 1) + no_end[0], "ok", ""


def foreign_files():
    yield "empty", b"", "corrupt", "is empty"
    yield "magic_wrong", b"GGUX" + build()[4:], "corrupt", "does not start with"
    yield "magic_cut", b"GGU", "corrupt", "does not start with"
    for version in (0, 1, 4, 0xFFFF):
        words = f"version {version}"
        yield f"version_{version}", build(version=version), "unsupported", words
    yield "big_endian", b"GGUF" + struct.pack(">IQQ", 3, 1, 1), "unsupported", "big endian"


def truncated_files():
    whole = build([ARCHITECTURE, array("words", STRING, 2, text("ab") + text("cd"))])
    ends = {"version": 6, "tensor_count": 12, "entry_count": 20, "key_length": 28, "key": 40,
            "type": 54, "value": 66, "array_type": 90, "array_count": 98, "array_text": 110,
            "tensor_name": 130, "tensor_dims": 140, "tensor_offset": 150, "padding": 157,
            "data": len(whole) - 1}  # fmt: skip
    for name, end in ends.items():
        yield f"truncated_in_{name}", whole[:end], "corrupt", "truncated"
    large = build(tensors=[tensor("big", [1024, 1024])], data=1000)
    yield "truncated_large_tensor", large, "corrupt", "'big' needs 4194304 bytes"


def count_files():
    many = 2**64 - 1
    yield "count_tensors_huge", header(many, 0) + b"\0" * 64, "corrupt", "tensors"
    yield "count_entries_huge", header(0, many) + b"\0" * 64, "corrupt", "metadata entries"
    yield "count_tensors_2_61", header(2**61, 1) + ARCHITECTURE, "corrupt", "tensors"
    yield "count_one_too_many", header(1, 2) + ARCHITECTURE + FOUR, "corrupt", ""


def text_files():
    for name, length in {"1_gib": 2**30, "int32_max": 2**31 - 1, "uint32_max": 2**32 - 1,
                         "int64_max": 2**63 - 1, "uint64_max": 2**64 - 1}.items():  # fmt: skip
        claim = u64(length)
        yield f"text_length_{name}", build([entry("k", STRING, claim)]), "corrupt", "truncated"
        yield f"key_length_{name}", header(0, 1) + claim + b"\0" * 64, "corrupt", "truncated"
        tokens = array("tokenizer.ggml.tokens", STRING, 2, text("a") + claim)
        yield f"token_length_{name}", build([tokens]), "corrupt", "text 1 of metadata key"
        name_claim = header(1, 0) + claim + b"\0" * 64
        yield f"tensor_name_length_{name}", name_claim, "corrupt", "truncated"


def key_files():
    one = u32(1)
    yield "key_empty", build([entry("", U32, one)]), "corrupt", "is empty"
    yield "key_bad_utf8", build([entry(b"a\xff\xfe", U32, one)]), "corrupt", "not UTF-8"
    yield "key_surrogate", build([entry(b"\xed\xa0\x80", U32, one)]), "corrupt", "not UTF-8"
    yield "key_newline", build([entry("a\nb", U32, one)]), "corrupt", "control"
    yield "key_nul", build([entry(b"a\0b", U32, one)]), "corrupt", "control"
    yield "key_65536_bytes", build([entry("k" * 65536, U32, one)]), "corrupt", "more than 65535"
    twice = build([entry("k", U32, one), entry("k", U32, one)])
    yield "key_twice", twice, "corrupt", "'k' appears twice"


def value_files():
    for kind in (13, 255, 2**32 - 1):
        yield f"value_type_{kind}", build([entry("k", kind, u64(0))]), "corrupt", f"type {kind}"
        words = f"type {kind}"
        yield f"array_type_{kind}", build([array("k", kind, 1, u64(0))]), "corrupt", words
    nested = array("k", ARRAY, 1, u32(U32) + u64(1) + u32(1))
    yield "array_nested", build([nested]), "unsupported", "array of arrays"
    for name, count in {"1_gib": 2**30, "wraps_times_8": 2**61, "wraps_times_4": 2**62,
                        "uint64_max": 2**64 - 1}.items():  # fmt: skip
        for kind in (U8, U32, U64, STRING):
            data = build([array("k", kind, count, u64(0))])
            yield f"array_{name}_of_type_{kind}", data, "corrupt", "truncated"
    yield "bool_is_2", build([entry("k", BOOL, b"\x02")]), "corrupt", "bool"
    yield "bool_array_with_255", build([array("k", BOOL, 2, b"\x01\xff")]), "corrupt", "bool"
    for alignment in (0, 1, 3, 4, 33, 2**31):
        entries = [entry("general.alignment", U32, u32(alignment))]
        yield f"alignment_{alignment}", build(entries), "corrupt", "general.alignment"
    entries = [entry("general.alignment", STRING, text("32"))]
    yield "alignment_is_text", build(entries), "corrupt", "general.alignment"


def shape_files():
    top = 2**64 - 1
    shapes = {
        "dims_wrap_2_42": ([2**22, 2**42 + 1], "2^63"),
        "dims_wrap_all_ones": ([top, 2], "length"),
        "dims_product_2_64": ([2**32, 2**32], "2^63"),
        "dims_bytes_wrap": ([2**31, 2**31], "2^63"),
        "dims_just_below_2_63": ([2**61 - 1], "truncated"),
        "dim_zero": ([0], "length 0"),
        "dim_zero_last": ([4, 0], "length 0"),
        "dim_negative": ([2**63], "length"),
    }
    for name, (dims, words) in shapes.items():
        yield name, build(tensors=[tensor("w", dims)]), "corrupt", words
    for n_dims in (0, 5, 2**32 - 1):
        data = build(tensors=[tensor("w", [4] * 5, n_dims=n_dims)])
        yield f"n_dims_{n_dims}", data, "corrupt", f"{n_dims} dimensions"
    for name, ggml_type, n in (("q8_0", GGML_Q8_0, 33), ("q4_k", GGML_Q4_K, 32)):
        data = build(tensors=[tensor("w", [n, 8], ggml_type)], data=4096)
        yield f"row_no_whole_block_{name}", data, "corrupt", "not a multiple"


def tensor_files():
    named = {"IQ2_XS": 17, "TQ1_0": 34, "MXFP4": 39, "Q8_1": 9, "I32": 26, "Q4_2": 4}
    for name, number in named.items():
        data = build(tensors=[tensor("w", [256], number)], data=1024)
        yield f"tensor_type_{name.lower()}", data, "unsupported", name
    for number in (1000, 2**32 - 1):
        data = build(tensors=[tensor("w", [4], number)])
        yield f"tensor_type_{number}", data, "corrupt", "not a known tensor type"
    offsets = {
        "beyond_the_end": (64, "truncated"),
        "near_2_64": (2**64 - 32, "truncated"),
        "misaligned": (8, "alignment"),
        "uint64_max": (2**64 - 1, "alignment"),
    }
    for name, (offset, words) in offsets.items():
        data = build(tensors=[tensor("w", [4], offset=offset)])
        yield f"offset_{name}", data, "corrupt", words
    pair = [tensor("a", [16]), tensor("b", [16], offset=32)]
    yield "tensors_overlap", build(tensors=pair, data=96), "corrupt", "'a' and 'b' overlap"
    same = [tensor("a", [8]), tensor("b", [8])]
    yield "tensors_share_bytes", build(tensors=same, data=32), "corrupt", "overlap"
    twice = [tensor("w", [8]), tensor("w", [8], offset=32)]
    yield "tensor_twice", build(tensors=twice, data=64), "corrupt", "'w' appears twice"
    yield "tensor_name_empty", build(tensors=[tensor("", [4])]), "corrupt", "is empty"
    yield "tensor_name_bad_utf8", build(tensors=[tensor(b"\xc0\x80", [4])]), "corrupt", "not UTF-8"
    yield "tensor_name_long", build(tensors=[tensor("n" * 257, [4])]), "corrupt", "more than 256"
    # Sizes whose sum with padding passes 2^64: no running total may wrap.
    huge = [tensor(f"t{i}", [2**60], offset=i * 2**62) for i in range(4)]
    yield "sizes_sum_wraps", build(tensors=huge), "corrupt", "truncated"


def joined_files():
    yield "joined_with_cat", build() + b"\0" * 16 + build(), "unsupported", "cat"
    yield "joined_without_padding", build(data=16) + build(), "unsupported", "cat"
    shard = [entry("split.no", U16, b"\x01\0"), entry("split.count", U16, b"\x03\0")]
    yield "shard_alone", build([ARCHITECTURE, *shard]), "unsupported", "shard 2 of 3"
    wrong = [entry("split.count", STRING, text("3"))]
    yield "split_count_is_text", build([ARCHITECTURE, *wrong]), "corrupt", "split.count"


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for old in HERE.iterdir():
        old.unlink()
    groups = (sound_files, foreign_files, truncated_files, count_files, text_files, key_files,
              value_files, shape_files, tensor_files, joined_files)  # fmt: skip
    lines = []
    for group in groups:
        for name, data, code, words in group():
            (HERE / f"{name}.gguf").write_bytes(data)
            lines.append(f"{name}.gguf\t{code}\t{words}\n")
    (HERE / "expected.tsv").write_text("".join(lines))
    total = sum(file.stat().st_size for file in HERE.iterdir())
    print(f"{HERE}: {len(lines)} files, {total} bytes")


if __name__ == "__main__":
    main()
