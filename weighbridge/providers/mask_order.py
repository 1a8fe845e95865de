"""Mask order: whether log-probabilities were taken before or after the grammar mask.

Judged by one answer that the grammar forced and the model would never have given: taken before the
mask, tokens that the grammar forbids are listed with their probability; taken after it, the
allowed ones have it all. What proves neither is said to prove neither: numbers that are wrongly
taken for those before the mask would pass for the model's own opinion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from weighbridge.providers.evidence import value_span
from weighbridge.providers.protocol import TokenLogprob
from weighbridge.schemas.finite import Path

Order: TypeAlias = Literal["before_mask", "after_mask"]

_ALL = 0.99  # as much on the allowed tokens is all, but for rounding
_MOST = 0.9  # from here on a model may have wanted to obey
_NEVER = -60.0  # natural log; below it stand masked tokens in the guise of a number
_BLANK = b" \t\n\r"


def mask_order(
    text: str, tokens: Sequence[TokenLogprob], path: Path, options: Sequence[str]
) -> Order | None:
    """The order that an answer proves; None if it proves none.

    Args:
        text: JSON that the grammar forced.
        tokens: all of the text's, with alternatives.
        path: of the field that had to be one of the options.
        options: texts that the model would not have chosen, no two with the same beginning.

    Returns:
        "before_mask" if forbidden tokens are listed and hold some of the probability, "after_mask"
        if the allowed ones hold it all and none of the others is listed.
    """
    span = value_span(text, path)
    raw, joined = text.encode("utf-8", "surrogatepass"), b"".join(token.token for token in tokens)
    if span is None or joined.strip(_BLANK) != raw.strip(_BLANK):
        return None
    start = span[0] + raw.startswith(b'"', span[0])  # behind the quote
    step = _step_at(tokens, start + _num_blanks(joined) - _num_blanks(raw))
    if step is None:
        return None
    token, lead = step
    allowed, is_any_forbidden = 0.0, False
    for spelling, logprob in _listed(token):
        if _is_allowed(spelling, lead, options):
            allowed += math.exp(logprob)
        elif logprob > _NEVER:
            is_any_forbidden = True
    if is_any_forbidden:
        return "before_mask" if allowed < _MOST else None
    return "after_mask" if allowed >= _ALL else None


def _step_at(tokens: Sequence[TokenLogprob], at: int) -> tuple[TokenLogprob, bytes] | None:
    """The token that writes a byte of the joined tokens, and what it writes before that byte."""
    for token in tokens:
        if at < len(token.token):
            return token, token.token[:at]
        at -= len(token.token)
    return None


def _listed(token: TokenLogprob) -> list[tuple[bytes, float]]:
    """The chosen token and its alternatives, each once."""
    best = dict(token.top)
    if token.logprob is not None:
        best.setdefault(token.token, token.logprob)
    return list(best.items())


def _is_allowed(spelling: bytes, lead: bytes, options: Sequence[str]) -> bool:
    """Whether a token can stand where the value begins.

    Args:
        spelling: of the token.
        lead: what the chosen token wrote before the value: the quote, and marks before it.
        options: of the value.
    """
    num_quotes = lead.count(b'"')
    *marks, value = spelling.split(b'"', num_quotes)
    if len(marks) < num_quotes:
        return _without_blanks(lead).startswith(_without_blanks(spelling))
    # Blanks between JSON's marks are free, and any character can be written as an escape.
    if _without_blanks(b'"'.join([*marks, b""])) != _without_blanks(lead):
        return False
    return value.startswith(b"\\") or any(
        option.startswith(value) or value.startswith(option + b'"')
        for option in (option.encode() for option in options)
    )


def _without_blanks(text: bytes) -> bytes:
    return text.translate(None, _BLANK)


def _num_blanks(text: bytes) -> int:
    """At the beginning."""
    return len(text) - len(text.lstrip(_BLANK))
