"""What each quantised kind of GGUF means, weight by weight, as the format is defined in C.

Source: `ggml-quants.c` and `ggml-common.h` of ggml; written here to be compared with, not fast.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from gguf import GGMLQuantizationType as Kind


def weights(kind: Kind, data: bytes) -> list[float]:
    """The weights of consecutive blocks."""
    size, decode = BLOCKS[kind]
    return [
        weight
        for start in range(0, len(data), size)
        for weight in decode(data[start : start + size])
    ]


def _half(data: bytes, at: int) -> float:
    value: float = struct.unpack_from("<e", data, at)[0]
    return value


def _f16(block: bytes) -> list[float]:
    return [_half(block, 0)]


def _bf16(block: bytes) -> list[float]:
    return list(struct.unpack("<f", b"\0\0" + block))


def _f32(block: bytes) -> list[float]:
    return list(struct.unpack("<f", block))


def _nibbles(data: bytes) -> list[int]:
    """All lower halves, then all upper halves."""
    return [byte & 15 for byte in data] + [byte >> 4 for byte in data]


def _q4_0(block: bytes) -> list[float]:
    return [_half(block, 0) * (q - 8) for q in _nibbles(block[2:])]


def _q4_1(block: bytes) -> list[float]:
    return [_half(block, 0) * q + _half(block, 2) for q in _nibbles(block[4:])]


def _fives(high: bytes, low: bytes) -> list[int]:
    bits = int.from_bytes(high, "little")
    return [q | (bits >> i & 1) << 4 for i, q in enumerate(_nibbles(low))]


def _q5_0(block: bytes) -> list[float]:
    return [_half(block, 0) * (q - 16) for q in _fives(block[2:6], block[6:])]


def _q5_1(block: bytes) -> list[float]:
    return [_half(block, 0) * q + _half(block, 2) for q in _fives(block[4:8], block[8:])]


def _q8_0(block: bytes) -> list[float]:
    return [_half(block, 0) * q for q in struct.unpack_from("<32b", block, 2)]


def _scales_and_minima(packed: bytes) -> Iterator[tuple[int, int]]:
    """Eight pairs of six bits in twelve bytes."""
    for j in range(4):
        yield packed[j] & 63, packed[j + 4] & 63
    for j in range(4):
        both = packed[j + 8]
        yield both & 15 | packed[j] >> 6 << 4, both >> 4 | packed[j + 4] >> 6 << 4


def _q4_k(block: bytes) -> list[float]:
    return _k_weights(block, [0] * 256, block[16:])


def _q5_k(block: bytes) -> list[float]:
    high = [block[16 + i % 32] >> i // 32 & 1 for i in range(256)]
    return _k_weights(block, high, block[48:])


def _k_weights(block: bytes, high: list[int], low: bytes) -> list[float]:
    factor, minimum = _half(block, 0), _half(block, 2)
    pairs = list(_scales_and_minima(block[4:16]))
    quants = [q for start in range(0, 128, 32) for q in _nibbles(low[start : start + 32])]
    return [
        factor * pairs[i // 32][0] * (q + 16 * high[i]) - minimum * pairs[i // 32][1]
        for i, q in enumerate(quants)
    ]


def _q6_k(block: bytes) -> list[float]:
    low, high, factor = block[:128], block[128:192], _half(block, 208)
    scales = struct.unpack_from("<16b", block, 192)
    values = []
    for i in range(256):
        part, quarter, column = i // 128, i % 128 // 32, i % 32
        four = low[64 * part + 32 * (quarter % 2) + column] >> 4 * (quarter // 2) & 15
        two = high[32 * part + column] >> 2 * quarter & 3
        values.append(factor * scales[i // 16] * ((four | two << 4) - 32))
    return values


# Bytes of a block, and what they decode to.
BLOCKS: dict[Kind, tuple[int, Callable[[bytes], list[float]]]] = {
    Kind.F32: (4, _f32),
    Kind.F16: (2, _f16),
    Kind.BF16: (2, _bf16),
    Kind.Q8_0: (34, _q8_0),
    Kind.Q4_0: (18, _q4_0),
    Kind.Q4_1: (20, _q4_1),
    Kind.Q5_0: (22, _q5_0),
    Kind.Q5_1: (24, _q5_1),
    Kind.Q4_K: (144, _q4_k),
    Kind.Q5_K: (176, _q5_k),
    Kind.Q6_K: (210, _q6_k),
}
# Where in a block the half-precision factors are.
FACTORS = {kind: [0] for kind in BLOCKS} | {
    Kind.Q4_1: [0, 2],
    Kind.Q5_1: [0, 2],
    Kind.Q4_K: [0, 2],
    Kind.Q5_K: [0, 2],
    Kind.Q6_K: [208],
}
