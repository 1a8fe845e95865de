"""How many tokens a text is at most, roughly: for what must be known before anybody counts."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z ]+")


def estimate_tokens(text: str) -> int:
    """More tokens than a text of words has, as a rule; no tokenizer is asked.

    One for every three plain letters and spaces, and one for every other byte in UTF-8: some
    tokenizers write each digit, each sign and each byte of a rare script by itself. English tickets
    have two thirds as many, in other languages there are from half as many to as many. What is no
    words at all can have more: rows of digits a tenth, a key in Base64 twice as many. (Measured
    with the tokenizer of SmolLM2, whose vocabulary is small; larger ones need fewer tokens.)

    >>> estimate_tokens("I was charged twice"), estimate_tokens("2026-11-30"), estimate_tokens("")
    (7, 10, 0)
    """
    special = _PLAIN.sub("", text)
    num_plain = len(text) - len(special)
    return -(-num_plain // 3) + len(special.encode("utf-8", "surrogatepass"))
