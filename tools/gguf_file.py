"""GGUF files in numpy: a reader that decodes every tensor type Millrace knows, and a small writer.

Written from the format's description, apart from the C++ reader, so that each checks the other.
"""

import struct

import numpy as np

SCALARS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8",
    11: "<i8", 12: "<f8",
}
STRING, ARRAY = 8, 9


def _f16(raw):
    """[n, 2] bytes -> [n, 1] float32."""
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(qs):
    return np.concatenate([qs & 15, qs >> 4], axis=-1).astype(np.float32)


def _bits32(qh):
    """[n, 4] bytes -> [n, 32] bits, least significant first."""
    return np.unpackbits(qh, axis=-1, bitorder="little").astype(np.float32)


def _q4_0(b):
    return _f16(b[:, :2]) * (_nibbles(b[:, 2:]) - 8)


def _q4_1(b):
    return _f16(b[:, :2]) * _nibbles(b[:, 4:]) + _f16(b[:, 2:4])


def _q5_0(b):
    return _f16(b[:, :2]) * (_nibbles(b[:, 6:]) + 16 * _bits32(b[:, 2:6]) - 16)


def _q5_1(b):
    return _f16(b[:, :2]) * (_nibbles(b[:, 8:]) + 16 * _bits32(b[:, 4:8])) + _f16(b[:, 2:4])


def _q8_0(b):
    return _f16(b[:, :2]) * b[:, 2:].view(np.int8).astype(np.float32)


def _crumbs(qs):
    """[n, 64] bytes of 2-bit fields -> [n, 256] in value order."""
    halves = qs.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    return (halves & 3).reshape(-1, 256)


def _q2_k(b):
    scales = b[:, :16]
    q = _crumbs(b[:, 16:80]).reshape(-1, 16, 16).astype(np.float32)
    d, dmin = _f16(b[:, 80:82]), _f16(b[:, 82:84])
    scale = (d * (scales & 15))[:, :, None]
    low = (dmin * (scales >> 4))[:, :, None]
    return (scale * q - low).reshape(-1, 256)


def _q3_k(b):
    hmask, packed = b[:, :32], b[:, 96:108]
    high = (hmask[:, None, :] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1)) & 1
    q = _crumbs(b[:, 32:96]).astype(np.int32) + 4 * high.reshape(-1, 256) - 4
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    shifts = np.repeat(np.array([0, 2, 4, 6], np.uint8), 4)
    top = (np.tile(packed[:, 8:12], (1, 4)) >> shifts) & 3
    scale = (low | (top << 4)).astype(np.float32) - 32
    scale = (_f16(b[:, 108:110]) * scale)[:, :, None]
    return (scale * q.reshape(-1, 16, 16)).reshape(-1, 256).astype(np.float32)


def _scales_mins(packed):
    """The 12 bytes of Q4_K and Q5_K -> eight scales, eight minima."""
    low, mid, high = packed[:, :4], packed[:, 4:8], packed[:, 8:12]
    scale = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=1)
    minimum = np.concatenate([mid & 63, (high >> 4) | ((mid >> 6) << 4)], axis=1)
    return scale.astype(np.float32), minimum.astype(np.float32)


def _nibble_groups(qs):
    """[n, 128] bytes -> [n, 8, 32]: the low nibbles of a 32-byte run, then its high ones."""
    runs = qs.reshape(-1, 4, 1, 32)
    return np.concatenate([runs & 15, runs >> 4], axis=2).reshape(-1, 8, 32)


def _k_affine(b, q):
    scale, minimum = _scales_mins(b[:, 4:16])
    d, dmin = _f16(b[:, :2]), _f16(b[:, 2:4])
    value = (d * scale)[:, :, None] * q.astype(np.float32) - (dmin * minimum)[:, :, None]
    return value.reshape(-1, 256)


def _q4_k(b):
    return _k_affine(b, _nibble_groups(b[:, 16:]))


def _q5_k(b):
    high = (b[:, 16:48][:, None, :] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1)) & 1
    return _k_affine(b, _nibble_groups(b[:, 48:]) + 16 * high)


def _q6_k(b):
    ql = b[:, :128].reshape(-1, 2, 1, 64)
    low = np.concatenate([ql & 15, ql >> 4], axis=2).reshape(-1, 256)  # order 32 j + l per half
    high = _crumbs(b[:, 128:192])
    q = (low | (high << 4)).astype(np.float32) - 32
    scale = _f16(b[:, 208:210]) * b[:, 192:208].view(np.int8).astype(np.float32)
    return (scale[:, :, None] * q.reshape(-1, 16, 16)).reshape(-1, 256)


# name -> (ggml id, values in a block, bytes in a block, decode of [n, bytes] to [n, values])
TYPES = {
    "F32": (0, 1, 4, lambda b: b.view("<f4")),
    "F16": (1, 1, 2, _f16),
    "Q4_0": (2, 32, 18, _q4_0),
    "Q4_1": (3, 32, 20, _q4_1),
    "Q5_0": (6, 32, 22, _q5_0),
    "Q5_1": (7, 32, 24, _q5_1),
    "Q8_0": (8, 32, 34, _q8_0),
    "Q2_K": (10, 256, 84, _q2_k),
    "Q3_K": (11, 256, 110, _q3_k),
    "Q4_K": (12, 256, 144, _q4_k),
    "Q5_K": (13, 256, 176, _q5_k),
    "Q6_K": (14, 256, 210, _q6_k),
    "BF16": (30, 1, 2, lambda b: (b.view("<u2").astype("<u4") << 16).view("<f4")),
}
NAME_OF_ID = {row[0]: name for name, row in TYPES.items()}


def decode(type_name, data, n_values):
    """Bytes of a tensor -> float32 [n_values]."""
    _, block_values, block_bytes, decoder = TYPES[type_name]
    blocks = np.frombuffer(data, np.uint8, n_values // block_values * block_bytes)
    return decoder(blocks.reshape(-1, block_bytes)).reshape(-1).astype(np.float32)


class GgufFile:
    """metadata: dict of Python values; tensors: name -> (type name, shape as in numpy, bytes)."""

    def __init__(self, data):
        self.data, self.at = data, 0
        magic, version, n_tensors, n_entries = struct.unpack("<4sIQQ", self._take(24))
        assert magic == b"GGUF" and version in (2, 3), (magic, version)
        self.metadata = {}
        for _ in range(n_entries):
            key = self._string()
            self.metadata[key] = self._value(self._u32())
        infos = []
        for _ in range(n_tensors):
            name = self._string()
            dims = [self._u64() for _ in range(self._u32())]
            infos.append((name, dims, self._u32(), self._u64()))
        alignment = self.metadata.get("general.alignment", 32)
        start = (self.at + alignment - 1) // alignment * alignment
        self.tensors = {}
        for name, dims, type_id, offset in infos:
            type_name = NAME_OF_ID[type_id]
            _, block_values, block_bytes, _ = TYPES[type_name]
            n_bytes = int(np.prod(dims)) // block_values * block_bytes
            begin = start + offset
            self.tensors[name] = (type_name, tuple(dims[::-1]), data[begin : begin + n_bytes])

    @classmethod
    def open(cls, path):
        with open(path, "rb") as file:
            return cls(file.read())

    def tensor(self, name):
        type_name, shape, data = self.tensors[name]
        return decode(type_name, data, int(np.prod(shape))).reshape(shape)

    def _take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def _u32(self):
        return struct.unpack("<I", self._take(4))[0]

    def _u64(self):
        return struct.unpack("<Q", self._take(8))[0]

    def _string(self):
        return self._take(self._u64()).decode("utf-8", "surrogateescape")

    def _value(self, kind):
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            element, count = self._u32(), self._u64()
            if element == STRING:
                return [self._string() for _ in range(count)]
            dtype = np.dtype(SCALARS[element])
            return np.frombuffer(self._take(count * dtype.itemsize), dtype).tolist()
        dtype = np.dtype(SCALARS[kind])
        return np.frombuffer(self._take(dtype.itemsize), dtype)[0].item()


def _pack_string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _pack_value(value):
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _pack_string(value)
    if isinstance(value[0], str):
        body = b"".join(_pack_string(text) for text in value)
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + body
    kind, dtype = (6, "<f4") if isinstance(value[0], float) else (5, "<i4")
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + np.array(value, dtype).tobytes()


def write_gguf(path, metadata, tensors):
    """metadata: str, bool, int (u32), float (f32), lists of str, int (i32), float.
    tensors: name -> (type name, numpy shape, bytes)."""
    head, body, offset = [], [], 0
    for name, (type_name, shape, data) in tensors.items():
        dims = shape[::-1]
        info = _pack_string(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        head.append(info + struct.pack("<IQ", TYPES[type_name][0], offset))
        padding = -len(data) % 32
        body.append(data + bytes(padding))
        offset += len(data) + padding
    entries = [_pack_string(key) + _pack_value(value) for key, value in metadata.items()]
    front = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries))
    front += b"".join(entries) + b"".join(head)
    with open(path, "wb") as file:
        file.write(front + bytes(-len(front) % 32) + b"".join(body))
