"""A small reader and writer of GGUF version 3 with F32 and Q8_0 tensors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
F32, Q8_0 = 0, 8
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
_FORMATS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}

Q8_BLOCK = np.dtype([("scale", "<f2"), ("values", "i1", 32)])

Value = str | bool | int | float | list[str] | list[int]


def quantise(matrix: np.ndarray) -> np.ndarray:
    """Q8_0 blocks of a matrix whose rows are multiples of 32 long."""
    groups = matrix.astype(np.float32).reshape(-1, 32)
    scale = np.abs(groups).max(1) / 127
    blocks = np.zeros(len(groups), Q8_BLOCK)
    blocks["scale"] = scale
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    blocks["values"] = np.rint(groups * inverse[:, None])
    return blocks


def dequantise(blocks: np.ndarray) -> np.ndarray:
    """The values of Q8_0 blocks, flat."""
    return (blocks["scale"].astype(np.float32)[:, None] * blocks["values"]).reshape(-1)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    """Type tag and payload of a metadata value; integers are unsigned outside of arrays."""
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _string(value)
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    kind = STRING if isinstance(value[0], str) else INT32
    items = [_string(item) if kind == STRING else struct.pack("<i", item) for item in value]
    return struct.pack("<IIQ", ARRAY, kind, len(items)) + b"".join(items)


def write(path: Path, metadata: dict[str, Value], tensors: dict[str, np.ndarray]) -> None:
    """Writes the file; matrices become Q8_0, vectors stay F32."""
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    head += [_string(key) + _value(value) for key, value in metadata.items()]
    bodies, offset = [], 0
    for name, tensor in tensors.items():
        kind = Q8_0 if tensor.ndim == 2 else F32
        body = (quantise(tensor) if kind == Q8_0 else tensor.astype("<f4")).tobytes()
        extents = tensor.shape[::-1]  # innermost first
        shape = struct.pack(f"<I{len(extents)}Q", len(extents), *extents)
        head.append(_string(name) + shape + struct.pack("<IQ", kind, offset))
        bodies.append(body + bytes(-len(body) % ALIGNMENT))
        offset += len(bodies[-1])
    data = b"".join(head)
    path.write_bytes(data + bytes(-len(data) % ALIGNMENT) + b"".join(bodies))


def _read(file: BinaryIO, form: str) -> tuple:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _read_string(file: BinaryIO) -> str:
    return file.read(_read(file, "<Q")[0]).decode()


def _read_value(file: BinaryIO, kind: int) -> Value:
    if kind == STRING:
        return _read_string(file)
    if kind == ARRAY:
        item, count = _read(file, "<IQ")
        return [_read_value(file, item) for _ in range(count)]
    return _read(file, _FORMATS[kind])[0]


def read(path: Path) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Metadata and dequantised tensors of a file that `write` wrote."""
    with path.open("rb") as file:
        magic, version, n_tensors, n_values = _read(file, "<4sIQQ")
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError(f"{path}: expected GGUF version 3, found {magic!r} {version}")
        metadata = {}
        for _ in range(n_values):
            key = _read_string(file)
            metadata[key] = _read_value(file, _read(file, "<I")[0])
        infos = []
        for _ in range(n_tensors):
            name, rank = _read_string(file), _read(file, "<I")[0]
            extents = _read(file, f"<{rank}Q")
            infos.append((name, extents[::-1], *_read(file, "<IQ")))
        start = -(-file.tell() // ALIGNMENT) * ALIGNMENT
        tensors = {}
        for name, shape, kind, offset in infos:
            file.seek(start + offset)
            count = int(np.prod(shape))
            if kind == Q8_0:
                blocks = np.frombuffer(file.read(count // 32 * Q8_BLOCK.itemsize), Q8_BLOCK)
                flat = dequantise(blocks)
            else:
                flat = np.frombuffer(file.read(4 * count), "<f4").copy()
            tensors[name] = flat.reshape(shape)
    return metadata, tensors
