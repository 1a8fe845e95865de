"""Advice for an answer that was cut short: what in its guide could be bounded."""

from __future__ import annotations

from collections.abc import Iterator

from weighbridge.local_engine.guides.chain import Chain
from weighbridge.local_engine.guides.conjunction import Conjunction
from weighbridge.local_engine.guides.free_text import FreeText
from weighbridge.local_engine.guides.grammar import Gbnf, JsonSchema, Lark, Regex
from weighbridge.local_engine.guides.permitted import Permitted
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.local_engine.guides.texts import Texts

_GRAMMAR = "bound what repeats in the grammar"
_ADVICE: dict[type, str] = {
    FreeText: "give free(…) a smaller max_tokens",
    Gbnf: _GRAMMAR,
    JsonSchema: "bound lengths in the schema (maxLength, maxItems)",
    Lark: _GRAMMAR,
    Permitted: "let the function of allowed(…) permit end of text earlier",
    Regex: "bound what repeats in the pattern ({1,40} for +)",
    Texts: "shorten the texts",
}


def when_truncated(guide: Spec) -> str:
    """What to do where the tokens ran out before an answer of a guide was whole.

    >>> from weighbridge.local_engine import guides
    >>> when_truncated(guides.then(guides.regex("a+"), guides.choice(["b", "c"])))
    'Raise max_tokens, or bound what repeats in the pattern ({1,40} for +), or shorten the texts.'
    """
    return ", or ".join(dict.fromkeys(["Raise max_tokens", *_advice(guide)])) + "."


def _advice(guide: Spec) -> Iterator[str]:
    match guide:
        case Chain(parts=parts):
            for part in parts:
                yield from _advice(part)
        case Conjunction(first=first, second=second):
            yield from _advice(first)
            yield from _advice(second)
        case _ if type(guide) in _ADVICE:
            yield _ADVICE[type(guide)]
