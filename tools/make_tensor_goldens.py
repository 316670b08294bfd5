#!/usr/bin/python3
"""Writes src/tensor/testdata/goldens.bin: random blocks of every tensor type with their values.

Decoded here with numpy from the written definition of each format, value by value and independently
of the C++ code, as an oracle for it. Run again only when a type is added.

A record: name (16 bytes, zero padded), n_in and n_out (u32), the input bytes, the output bytes.
Inputs of types are blocks, outputs f32; the f32_to_* records have f32 in and 16-bit out.
"""

import pathlib
import struct

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "src/tensor/testdata/goldens.bin"
F = np.float32


def half(block, offset):
    return F(np.frombuffer(block[offset : offset + 2], "<f2")[0])


def bit(data, i):
    return (data[i // 8] >> (i % 8)) & 1


def nibble32(qs, i):
    return qs[i] & 15 if i < 16 else qs[i - 16] >> 4


def q4_0(b):
    return [half(b, 0) * F(nibble32(b[2:], i) - 8) for i in range(32)]


def q4_1(b):
    return [half(b, 0) * F(nibble32(b[4:], i)) + half(b, 2) for i in range(32)]


def q5_0(b):
    return [half(b, 0) * F((nibble32(b[6:], i) | bit(b[2:6], i) << 4) - 16) for i in range(32)]


def q5_1(b):
    q = [nibble32(b[8:], i) | bit(b[4:8], i) << 4 for i in range(32)]
    return [half(b, 0) * F(x) + half(b, 2) for x in q]


def q8_0(b):
    return [half(b, 0) * F(x) for x in np.frombuffer(b[2:34], np.int8)]


def two_bits(qs, i):
    """Value i of 256: 128 values share 32 bytes, 32 values one bit pair."""
    return (qs[32 * (i // 128) + i % 32] >> 2 * ((i % 128) // 32)) & 3


def q2_k(b):
    scales, qs, d, dmin = b[:16], b[16:80], half(b, 80), half(b, 82)
    out = []
    for i in range(256):
        s = scales[i // 16]
        out.append(d * F(s & 15) * F(two_bits(qs, i)) - dmin * F(s >> 4))
    return out


def q3_k(b):
    hmask, qs, packed, d = b[:32], b[32:96], b[96:108], half(b, 108)
    # The twelve bytes as three little-endian words; spelled out per group instead of with masks.
    scales = []
    for g in range(16):
        low = packed[g] & 15 if g < 8 else packed[g - 8] >> 4
        high = (packed[8 + g % 4] >> [0, 2, 4, 6][g // 4]) & 3
        scales.append(low + 16 * high - 32)
    out = []
    for i in range(256):
        q = two_bits(qs, i) - (0 if (hmask[i % 32] >> (i // 32)) & 1 else 4)
        out.append(d * F(scales[i // 16]) * F(q))
    return out


def scales_and_mins(packed):
    """Eight 6-bit scales and mins in twelve bytes (Q4_K, Q5_K)."""
    out = []
    for g in range(8):
        if g < 4:
            out.append((packed[g] % 64, packed[g + 4] % 64))
        else:
            last = packed[g + 4]
            out.append((last % 16 + packed[g - 4] // 64 * 16, last // 16 + packed[g] // 64 * 16))
    return out


def q4_k(b):
    d, dmin, groups, qs = half(b, 0), half(b, 2), scales_and_mins(b[4:16]), b[16:144]
    out = []
    for i in range(256):
        byte = qs[32 * (i // 64) + i % 32]
        q = byte % 16 if i % 64 < 32 else byte // 16
        scale, low = groups[i // 32]
        out.append(d * F(scale) * F(q) - dmin * F(low))
    return out


def q5_k(b):
    d, dmin, groups = half(b, 0), half(b, 2), scales_and_mins(b[4:16])
    qh, qs = b[16:48], b[48:176]
    out = []
    for i in range(256):
        byte = qs[32 * (i // 64) + i % 32]
        q = (byte % 16 if i % 64 < 32 else byte // 16) + 16 * ((qh[i % 32] >> (i // 32)) & 1)
        scale, low = groups[i // 32]
        out.append(d * F(scale) * F(q) - dmin * F(low))
    return out


def q6_k(b):
    ql, qh, d = b[:128], b[128:192], half(b, 208)
    scales = np.frombuffer(b[192:208], np.int8)
    out = []
    for i in range(256):
        part, r, col = i // 128, i % 128, i % 32
        low = ql[64 * part + r % 64]
        low = low % 16 if r < 64 else low // 16
        high = (qh[32 * part + col] >> 2 * (r // 32)) & 3
        out.append(d * F(scales[i // 16]) * F(low + 16 * high - 32))
    return out


TYPES = {  # name: (bytes, offsets of halves, decoder, blocks)
    "Q4_0": (18, [0], q4_0, 6),
    "Q4_1": (20, [0, 2], q4_1, 6),
    "Q5_0": (22, [0], q5_0, 6),
    "Q5_1": (24, [0, 2], q5_1, 6),
    "Q8_0": (34, [0], q8_0, 6),
    "Q2_K": (84, [80, 82], q2_k, 3),
    "Q3_K": (110, [108], q3_k, 3),
    "Q4_K": (144, [0, 2], q4_k, 3),
    "Q5_K": (176, [0, 2], q5_k, 3),
    "Q6_K": (210, [208], q6_k, 3),
}


def random_half(rng, kind):
    """Normal, subnormal and negative scales."""
    value = rng.uniform(0.001, 2.0) if kind % 3 else rng.uniform(1e-7, 5e-5)
    return np.float16(-value if kind % 4 == 3 else value).tobytes()


def tricky_floats(rng):
    bits = rng.integers(0, 2**32, 300, dtype=np.uint32)
    halves = np.concatenate([rng.integers(0, 0x7C00, 150), np.arange(0, 40), np.arange(0x3F0, 0x410)])
    exact = np.frombuffer(halves.astype("<u2").tobytes(), "<f2").astype(F)
    after = np.frombuffer((halves + 1).astype("<u2").tobytes(), "<f2").astype(np.float64)
    ties = ((exact.astype(np.float64) + after) / 2).astype(F)
    around = [np.nextafter(ties, F(0)), ties, np.nextafter(ties, F(np.inf))]
    edges = np.array([0, -0.0, 65504, 65519.996, 65520, 65536, 1e-8, 2.0**-25, 3e38, np.inf], F)
    all_floats = np.concatenate([bits.view(F), exact, *around, edges, -edges])
    return all_floats[~np.isnan(all_floats)]


def to_bf16(x):
    """Nearest even by comparing the two neighbours in double precision."""
    out = []
    for value in x:
        low = np.uint32(value.view(np.uint32) & np.uint32(0xFFFF0000))
        high = np.uint32(low + np.uint32(0x10000))
        a, b = float(low.view(F)), float(high.view(F))
        if np.isinf(b):  # beyond the largest bf16: halfway to 2^128 goes up
            b = np.copysign(2.0**128, b)
        if np.isinf(value) or abs(float(value) - a) < abs(b - float(value)):
            pick = low
        elif abs(float(value) - a) > abs(b - float(value)):
            pick = high
        else:
            pick = low if (int(low) >> 16) % 2 == 0 else high
        out.append(int(pick) >> 16)
    return np.array(out, "<u2")


def record(name, data, out):
    return struct.pack("<16sII", name.encode(), len(data), len(out)) + data + out


def main():
    rng = np.random.default_rng(20240607)
    records = []
    with np.errstate(all="ignore"):
        for name, (size, halves, decode, n_blocks) in TYPES.items():
            data, values = b"", []
            for kind in range(n_blocks):
                block = bytearray(rng.bytes(size))
                for offset in halves:
                    block[offset : offset + 2] = random_half(rng, kind + offset)
                data += bytes(block)
                values += decode(bytes(block))
            records.append(record(name, data, np.array(values, "<f4").tobytes()))
        floats = tricky_floats(rng)
        records.append(record("f32_to_f16", floats.tobytes(), floats.astype("<f2").tobytes()))
        records.append(record("f32_to_bf16", floats.tobytes(), to_bf16(floats).tobytes()))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_bytes(b"".join(records))
    print(f"{OUT}: {len(records)} records, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
