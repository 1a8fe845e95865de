"""Evidence: what the log-probabilities of a written answer say about one of its fields.

Tokens and text are joined by bytes, since a token can be half a character, hold quotes and commas
of the JSON around the value, or spell an option with escapes. Where the tokens' bytes are not the
bytes of the text there is no evidence: an alignment that is guessed is worse than none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from weighbridge.decision import FieldEvidence, Json, label
from weighbridge.providers.protocol import TokenLogprob
from weighbridge.providers.raw_json import span
from weighbridge.schemas.finite import Path
from weighbridge.schemas.strict_json import unwrap

LogprobSource: TypeAlias = Literal["premask", "postmask", "unknown_mask"]

MAX_DOUBT = 0.05  # share of the allowed mass that may be anybody's where `options` is given

_MOST_LISTS = 256  # of options, whose spellings are remembered
_BLANKS = b" \t\n\r"
_CLOSERS = (b'"', b"]", b"}")  # a text, array or object ends with its own last byte
_AFTER_SCALAR = (b" ", b"\t", b"\n", b"\r", b",", b"]", b"}")  # what ends a number, true or null


@dataclass(frozen=True, slots=True)
class Alignment:
    """An answer and the tokens that spell it, joined by bytes; see `of`.

    Args:
        answer: JSON, without what was around it.
        tokens: of the whole text.
        joined: their bytes.
        start: of the answer in them.
    """

    answer: str
    tokens: Sequence[TokenLogprob]
    joined: bytes
    start: int

    @classmethod
    def of(cls, text: str, tokens: Sequence[TokenLogprob]) -> Alignment | None:
        """The alignment; None where tokens and text do not belong together.

        Args:
            text: the raw answer: JSON, perhaps in a fence or behind a think block.
            tokens: of the whole text; blanks at either end may differ.
        """
        raw, joined = _utf8(text), b"".join(token.token for token in tokens)
        if raw.strip() != joined.strip():
            return None
        answer = unwrap(text)
        shift = _num_blanks(joined) - _num_blanks(raw)
        return cls(answer, tokens, joined, shift + len(_utf8(text[: text.rindex(answer)])))

    def evidence(
        self, path: Path, options: Sequence[Json], value: Json, *, source: LogprobSource
    ) -> FieldEvidence | None:
        """What the tokens say about the option that stands in one field.

        The emitted tokens are followed from the value's first byte (between the quotes, where every
        option has them) to its last. At each, an alternative goes an option's way if it begins what
        is left of its spelling or has it whole and goes on behind it. The token that closes the
        value counts where its alternatives are known or another option goes on there; otherwise
        `"}` against `",` would be held against the option.

        * `mass`: low is the emitted option to its end and every alternative that goes some option's
          way; high adds what the lists of alternatives do not show. An alternative that is not
          written counts from its beginning: nobody knows what would have followed. After a mask
          this says nothing, so it is None for "postmask"; for "unknown_mask" it holds if there was
          no mask.
        * `probability`: of the high mass, what the chosen option has to its very end; so the least
          that it can have among the options. Without alternatives, the product over the emitted
          tokens.
        * `options`: the seen mass, scaled to 1; an option that was not seen has 0. Empty where more
          than `MAX_DOUBT` of the high mass is unseen or goes the way of several options at once.

        Args:
            path: of the field.
            options: the permitted values.
            value: the chosen one, perhaps in another letter case than the option.
            source: what is known of the numbers.

        Returns:
            None where a number is missing, or the field's value in the text is not `value`.
        """
        place, chosen = self._place(path), _chosen(options, value)
        if place is None or chosen is None:
            return None
        known = _known(options)
        spellings = list(known.spellings)
        if place.spelling not in spellings[chosen]:
            if not _spells(place.spelling, value):
                return None
            spellings[chosen] |= {place.spelling}
        others = [text for i, its in enumerate(spellings) if i != chosen for text in its]
        stem = self.joined[place.start : place.closer]
        steps = _steps(
            self.tokens,
            place,
            has_quotes=known.has_quotes,
            must_close=any(text.startswith(stem) for text in others),
        )
        if not steps:
            return None
        tally = _weigh(steps, place, spellings, chosen)
        seen = math.fsum(tally.shares)
        low = min(1.0, seen + tally.ambiguous)
        high = min(1.0, low + tally.unseen)
        is_told = (
            any(step.token.top for step in steps)
            and seen > 0
            and tally.ambiguous + tally.unseen <= MAX_DOUBT * high
            and known.are_told_apart
        )
        shares = zip(known.labels, (share / seen for share in tally.shares), strict=True)
        return FieldEvidence(
            value=options[chosen],
            source=source,
            probability=min(1.0, tally.certain / high) if high > 0 else 0.0,
            mass=None if source == "postmask" else (low, high),
            options=dict(shares) if is_told else {},
        )

    def _place(self, path: Path) -> _Place | None:
        span = value_span(self.answer, path)
        if span is None:
            return None
        start, end = self.start + span[0], self.start + span[1]
        spelling = self.joined[start:end]
        return _Place(self.joined, start, end - spelling.endswith(_CLOSERS), spelling)


def value_span(text: str, path: Path) -> tuple[int, int] | None:
    """First byte and end, in UTF-8, of the value under a path of property names.

    None where the text is not JSON, or nothing or more than one thing stands there.

    >>> value_span('{"é": {"b": "x"}}', ("é", "b"))
    (13, 16)
    """
    place = span(text, path, is_sole=True)
    return place and (len(_utf8(text[: place[0]])), len(_utf8(text[: place[1]])))


class _Place(NamedTuple):
    """Where a value stands in the joined bytes of all tokens."""

    joined: bytes
    start: int
    closer: int  # the byte that ends the value: its last, or the one behind a scalar
    spelling: bytes


class _Step(NamedTuple):
    """One emitted token on the way through a value."""

    at: int  # in the joined bytes; before the value where the token begins outside
    token: TokenLogprob
    probability: float


class _Tally(NamedTuple):
    shares: list[float]  # of each option alone
    certain: float  # of the chosen option, to its end
    ambiguous: float  # of several options at once
    unseen: float  # below the alternatives that were listed


def _steps(
    tokens: Sequence[TokenLogprob], place: _Place, *, has_quotes: bool, must_close: bool
) -> list[_Step]:
    """The tokens that spell the value, and the one that closes it where it counts.

    Tokens that begin before or end behind the value count whole. Empty where a number is missing.
    """
    first, closer = place.start + has_quotes, place.closer
    steps: list[_Step] = []
    end = 0
    for token in tokens:
        at, end = end, end + len(token.token)
        if at == end or end <= first or at > closer:
            continue
        is_optional = at == closer and not must_close
        if is_optional and (token.logprob is None or not token.top):
            continue
        if token.logprob is None:
            return []
        steps.append(_Step(at, token, math.exp(token.logprob)))
    return steps


def _weigh(
    steps: Sequence[_Step], place: _Place, spellings: Sequence[frozenset[bytes]], chosen: int
) -> _Tally:
    shares, path = [0.0] * len(spellings), 1.0
    certain = ambiguous = unseen = 0.0
    for at, token, probability in steps:
        lead, done = place.joined[at : place.start].rstrip(_BLANKS), place.joined[place.start : at]
        ways = [  # what is left of each option's spellings
            (i, spelling[len(done) :])
            for i, known in enumerate(spellings)
            for spelling in known
            if spelling.startswith(done)
        ]
        beginnings = {rest[:1] for _, rest in ways}
        listed = probability
        for other, logprob in token.top:
            if other == token.token:
                continue
            other_probability = math.exp(logprob)
            listed += other_probability
            if not other:  # a special token, such as the end of the answer
                continue
            said = _inside(other, lead) if at <= place.start else other
            if said is None or (said and not {said[:1], b""} & beginnings):
                continue
            takers = {
                i
                for i, rest in ways
                if rest.startswith(said) or (said.startswith(rest) and _ends(said, rest))
            }
            if len(takers) == 1:
                (taker,) = takers
                shares[taker] += path * other_probability
                if taker == chosen and any(i == chosen and _ends(said, r) for i, r in ways):
                    certain += path * other_probability
            elif takers:
                ambiguous += path * other_probability
        unseen += path * max(0.0, 1.0 - listed)
        path *= probability
    shares[chosen] += path
    return _Tally(shares, certain + path, ambiguous, unseen)


def _inside(token: bytes, lead: bytes) -> bytes | None:
    """What a token says of the value, in place of one that writes `lead` ahead of it.

    Nothing yet where it ends too early; None where it goes elsewhere. Blanks are free.
    """
    if token.startswith(lead):
        return token[len(lead) :].lstrip(_BLANKS)
    return b"" if lead.startswith(token.rstrip(_BLANKS)) else None


def _ends(said: bytes, rest: bytes) -> bool:
    """Whether a token has all that is left of a spelling, and what closes it."""
    if not said.startswith(rest):
        return False
    return rest.endswith(_CLOSERS) or said[len(rest) :].startswith(_AFTER_SCALAR)


class _Known(NamedTuple):
    """What is known of the options of a field before any answer."""

    spellings: tuple[frozenset[bytes], ...]
    labels: tuple[str, ...]
    has_quotes: bool  # all of them
    are_told_apart: bool  # by their labels


def _known(options: Sequence[Json]) -> _Known:
    """The same few lists of texts come with every answer; others, in which 1 is True, are rare."""
    is_plain = set(map(type, options)) == {str}
    return _known_texts(tuple(options)) if is_plain else _known_now(options)


def _known_now(options: Sequence[Json]) -> _Known:
    labels = tuple(label(option) for option in options)
    return _Known(
        spellings=tuple(_spellings(option) for option in options),
        labels=labels,
        has_quotes=all(isinstance(option, str) for option in options),
        are_told_apart=len(set(labels)) == len(labels),
    )


_known_texts = lru_cache(maxsize=_MOST_LISTS)(_known_now)


def _spellings(option: Json) -> frozenset[bytes]:
    """How an option is commonly written: with and without escapes."""
    texts = (json.dumps(option, ensure_ascii=is_ascii) for is_ascii in (True, False))
    return frozenset(_utf8(text) for one in texts for text in (one, one.replace("/", "\\/")))


def _chosen(options: Sequence[Json], value: Json) -> int | None:
    """Place of the option that a value is, or else of the only one that differs in letter case."""
    for i, option in enumerate(options):
        if _equal(option, value):
            return i
    alike = [
        i
        for i, option in enumerate(options)
        if isinstance(option, str)
        and isinstance(value, str)
        and option.casefold() == value.casefold()
    ]
    return alike[0] if len(alike) == 1 else None


def _spells(spelling: bytes, value: Json) -> bool:
    written: Json = json.loads(spelling.decode("utf-8", "surrogatepass"))
    if isinstance(written, str) and isinstance(value, str):
        return written.casefold() == value.casefold()
    return _equal(written, value)


def _equal(one: Json, other: Json) -> bool:
    """Equality of JSON values: True is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _num_blanks(raw: bytes) -> int:
    return len(raw) - len(raw.lstrip())


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
