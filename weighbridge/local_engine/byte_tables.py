"""The bytes that each token of a vocabulary stands for: byte-level BPE, and SentencePiece.

A byte-level vocabulary writes every byte as one printable character. A SentencePiece vocabulary
writes text, `▁` for a space, and `<0x0A>` for single bytes: `▁the` stands for ` the`, and a table
that keeps the `▁` could never spell a space.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

SPACE = "\u2581"  # how SentencePiece writes a space

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def byte_level_bytes(token: str) -> bytes:
    """What a token of a byte-level vocabulary stands for; empty where it is no such token.

    >>> byte_level_bytes("Ġthe"), byte_level_bytes("▁the")
    (b' the', b'')
    """
    try:  # the codec does in C what a loop over all tokens' characters takes 0.2 s for
        return token.translate(_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:
        return b""


def sentencepiece_bytes(token: str) -> bytes:
    r"""What a token of a SentencePiece vocabulary with byte fallback stands for.

    >>> sentencepiece_bytes("▁the"), sentencepiece_bytes("<0x0A>")
    (b' the', b'\n')
    """
    single = _BYTE_TOKEN.fullmatch(token)
    return bytes.fromhex(single[1]) if single else token.replace(SPACE, " ").encode()


def byte_tokens(vocabulary: Mapping[str, int]) -> dict[int, int]:
    """The ids of the tokens `<0x00>` to `<0xFF>`, by byte; those that the vocabulary has."""
    names = {byte: f"<0x{byte:02X}>" for byte in range(256)}
    return {byte: vocabulary[name] for byte, name in names.items() if name in vocabulary}


@lru_cache(maxsize=1)
def byte_characters() -> tuple[str, ...]:
    """The printable character that stands for each byte in a byte-level vocabulary.

    Source: the byte encoder of GPT-2: printable Latin-1 stands for itself, the rest is moved
    above U+0100 in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(moved)) for byte in range(256))


# Each character to the Latin-1 one of its byte; what stands for no byte is sent out of Latin-1.
_LATIN_1 = dict.fromkeys(range(256), SPACE) | {
    ord(character): byte for byte, character in enumerate(byte_characters())
}
