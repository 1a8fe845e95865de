"""Token log-probabilities, in each of the shapes that OpenAI's wire format has them in.

Nothing here becomes a probability: stand-ins for "unknown" would look like very small ones.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import overload

from weighbridge.decision import Json
from weighbridge.providers.protocol import TokenLogprob

_UNKNOWN = -9999.0  # OpenAI's and vLLM's "not in the list" or "masked"; others go far below
_ROUNDING = 1e-3  # as much above 0 is taken for 0


def read_logprobs(logprobs: Json) -> tuple[TokenLogprob, ...] | None:
    """The tokens of a choice; None where one is missing or unreadable.

    A gap is no small loss: behind it nothing could be aligned with the text.

    Args:
        logprobs: of the choice. `content` lists an object for each token (OpenAI, llama-server,
            vLLM); or `tokens`, `token_logprobs` and `top_logprobs` are lists of equal length
            (the shape of the older completions, still Together's for some models).

    >>> read_logprobs({"tokens": ["bug"], "token_logprobs": [-0.5], "top_logprobs": [{"how": -1}]})
    (TokenLogprob(token=b'bug', logprob=-0.5, top=((b'how', -1.0),)),)
    """
    if not isinstance(logprobs, dict):
        return None
    entries = logprobs.get("content") or _entries(logprobs)
    if not isinstance(entries, list) or not entries:
        return None
    tokens = [_token(entry) for entry in entries]
    whole = tuple(token for token in tokens if token is not None)
    return whole if len(whole) == len(tokens) else None


def of_answer(tokens: Sequence[TokenLogprob], text: str) -> tuple[TokenLogprob, ...]:
    """The tokens that spell the answer, of all that the model wrote.

    Servers that take thoughts and marks of a chat template out of the text may still list their
    tokens. They are left out where the answer begins and ends between two tokens; otherwise the
    tokens stay as they are, and whoever aligns them with the text sees that they do not belong.
    """
    joined = b"".join(token.token for token in tokens)
    answer = text.encode("utf-8", "surrogatepass").strip()
    if not answer or joined.strip() == answer:
        return tuple(tokens)
    bounds = list(itertools.accumulate((len(token.token) for token in tokens), initial=0))
    # From the end: the thoughts may have tried the answer out.
    for first, bound in reversed(list(enumerate(bounds[:-1]))):
        spelling = tokens[first].token
        start = bound + len(spelling) - len(spelling.lstrip())
        if joined.startswith(answer, start):
            end = start + len(answer)
            last = bisect.bisect_left(bounds, end)
            if not joined[end : bounds[last]].strip():
                return tuple(tokens[first:last])
    return tuple(tokens)


def _entries(logprobs: dict[str, Json]) -> Json:
    """The older shape in the newer one; None if it is not that either."""
    tokens, numbers = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(numbers, list):
        return None
    tops = logprobs.get("top_logprobs") or [None] * len(tokens)
    if not isinstance(tops, list) or not len(tokens) == len(numbers) == len(tops):
        return None
    return [
        {"token": token, "logprob": number, "top_logprobs": _listed(top)}
        for token, number, top in zip(tokens, numbers, tops, strict=True)
    ]


def _listed(top: Json) -> Json:
    if not isinstance(top, dict):
        return None
    return [{"token": token, "logprob": number} for token, number in top.items()]


def _token(entry: Json) -> TokenLogprob | None:
    spelled = _spelled(entry)
    if spelled is None or not isinstance(entry, dict):
        return None
    listed = entry.get("top_logprobs")
    return TokenLogprob(
        token=spelled[0],
        logprob=spelled[1],
        top=_Alternatives(listed) if isinstance(listed, list) and listed else (),
    )


class _Alternatives(Sequence[tuple[bytes, float]]):
    """The alternatives of one token, the likeliest first; equal to a tuple of the same.

    Read when somebody looks at them: twenty stand beside each token, and few tokens matter.
    """

    __slots__ = ("_listed", "_read")

    def __init__(self, listed: list[Json]) -> None:
        self._listed = listed
        self._read: tuple[tuple[bytes, float], ...] | None = None

    def _all(self) -> tuple[tuple[bytes, float], ...]:
        if self._read is None:
            best: dict[bytes, float] = {}
            for other in self._listed:
                read = _spelled(other)
                # A token that is listed twice is one token: its mass must not count twice.
                if read and read[1] is not None and read[1] >= best.get(read[0], -math.inf):
                    best[read[0]] = read[1]
            self._read = tuple(sorted(best.items(), key=itemgetter(1), reverse=True))
        return self._read

    @overload
    def __getitem__(self, at: int) -> tuple[bytes, float]: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[tuple[bytes, float]]: ...

    def __getitem__(self, at: int | slice) -> tuple[bytes, float] | Sequence[tuple[bytes, float]]:
        return self._all()[at]

    def __iter__(self) -> Iterator[tuple[bytes, float]]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, _Alternatives) else other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


def _spelled(entry: Json) -> tuple[bytes, float | None] | None:
    """Bytes and logprob of one entry; None if it is no token."""
    if not isinstance(entry, dict) or not isinstance(token := entry.get("token"), str):
        return None
    # Part of a character has no text of its own: there, only `bytes` tells what it is.
    spelling = _joined(entry.get("bytes"))
    if spelling is None:
        spelling = token.encode("utf-8", "surrogatepass")
    logprob = entry.get("logprob")
    if isinstance(logprob, bool) or not isinstance(logprob, (float, int)):
        return spelling, None
    return spelling, min(float(logprob), 0.0) if _UNKNOWN < logprob <= _ROUNDING else None


def _joined(octets: Json) -> bytes | None:
    """The bytes of a list of numbers; None if it is none."""
    if not isinstance(octets, list) or bool in map(type, octets):
        return None
    try:
        return bytes(octets)  # type: ignore[arg-type]  # it refuses all but numbers
    except (TypeError, ValueError):
        return None
