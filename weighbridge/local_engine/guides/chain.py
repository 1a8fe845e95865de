"""Guides one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

import torch
from torch import Tensor

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.guides.protocol import Guide, Spec, State, check_spec
from weighbridge.local_engine.guides.texts import Texts
from weighbridge.local_engine.vocabulary import Vocabulary


def then(*parts: Spec) -> Spec:
    """One guide, and when its answer is whole, the next.

    Where a part may end or go on, both are kept open: after `bug` of
    `then(choice(["bug", "bugfix"]), literal("!"))` come `f`, `fix` and `!`. Ending a part costs
    what its bias for end of text says.

    Parts begin between tokens, except that texts which follow each other (`literal`, `choice`,
    `finite`) become one language, in which a token may reach over the seam.

    Raises:
        TaskInvalid: there are no parts.
        TypeError: a part is no guide; a list of parts is given as `then(*parts)`.
    """
    for place, part in enumerate(parts):
        if isinstance(part, list | tuple):
            raise TypeError("then takes its parts one by one: then(*parts)")
        check_spec(part, f"part {place} of then")
    if not parts:
        raise TaskInvalid("", "there are no parts to write one after the other")
    fused: list[Spec] = []
    for part in parts:
        before = fused[-1] if fused else None
        if isinstance(before, Texts) and isinstance(part, Texts):
            fused[-1] = Texts(before.parts + part.parts)
        else:
            fused.append(part)
    return Chain(tuple(fused)) if len(fused) > 1 else fused[0]


@dataclass(frozen=True, slots=True)
class Chain:
    """See `then`."""

    parts: tuple[Spec, ...]

    def bind(self, vocabulary: Vocabulary) -> ChainGuide:
        """See `Spec.bind`; raises what any part raises."""
        guides = [part.bind(vocabulary) for part in self.parts]
        return ChainGuide(guides, Lexicon.of(vocabulary))


@dataclass(frozen=True, slots=True)
class Alternative:
    """One place where the answer may be.

    Args:
        part: which one is being written.
        state: of its guide.
        entry: what it cost to end the parts before; added to the first token of this one.
    """

    part: int
    state: State
    entry: float


Alternatives: TypeAlias = tuple[Alternative, ...]


class ChainGuide:
    """Follows every way to divide the text among the parts; a state is all that are open.

    Args:
        guides: of the parts, at least two.
        lexicon: of the vocabulary.
    """

    def __init__(self, guides: list[Guide], lexicon: Lexicon) -> None:
        self._guides, self._lexicon = guides, lexicon
        self._last = len(guides) - 1

    @property
    def is_hard(self) -> bool:
        """See `Guide.is_hard`."""
        return any(guide.is_hard for guide in self._guides)

    def init(self) -> Alternatives:
        """See `Guide.init`."""
        return _distinct(self._at(Alternative(0, self._guides[0].init(), 0.0)))

    def bias(self, state: Alternatives) -> Tensor:
        """See `Guide.bias`; where a token can be read in two ways, the better of the two."""
        return reduce(torch.maximum, map(self._bias, state))

    def advance(self, state: Alternatives, token: int) -> Alternatives:
        """See `Guide.advance`."""
        is_end = token in self._lexicon.eos_ids
        after: list[Alternative] = []
        for way in state:
            if not is_end or way.part == self._last:
                with suppress(ValueError):  # banned in this way; there may be others
                    inner = self._guides[way.part].advance(way.state, token)
                    after += self._at(Alternative(way.part, inner, 0.0))
        if not after:
            raise ValueError(f"token {token} is banned here, in each part that may be open")
        return state if is_end and self.finished(state) else _distinct(after)

    def finished(self, state: Alternatives) -> bool:
        """See `Guide.finished`."""
        return self._lexicon.ends_only(self.bias(state))

    def forced(self, state: Alternatives) -> tuple[int, ...]:
        """See `Guide.forced`; from part to part as long as there is one way only."""
        tokens, part = list[int](), -1
        # A part is asked once: one that forces something for ever would otherwise never return.
        while len(state) == 1 and state[0].part > part:
            [way] = state
            part = way.part
            for token in self._guides[part].forced(way.state):
                state = self.advance(state, token)
                tokens.append(token)
        return tuple(tokens)

    def _at(self, way: Alternative) -> Iterator[Alternative]:
        """A way, and those that lead from it into later parts without a token."""
        guide = self._guides[way.part]
        if way.part == self._last:
            yield way
            return
        if not guide.finished(way.state):
            yield way
        cost = self._lexicon.ends_at(guide.bias(way.state))
        if cost > -math.inf:
            following = self._guides[way.part + 1].init()
            yield from self._at(Alternative(way.part + 1, following, way.entry + cost))

    def _bias(self, way: Alternative) -> Tensor:
        row = self._guides[way.part].bias(way.state) + way.entry
        if way.part < self._last:
            row[self._lexicon.eos_ids] = -math.inf
        return row


def _distinct(ways: Iterable[Alternative]) -> Alternatives:
    """The ways without those that differ only in a higher cost."""
    kept: list[Alternative] = []
    for way in ways:
        for place, other in enumerate(kept):
            if (other.part, other.state) == (way.part, way.state):
                kept[place] = replace(other, entry=max(other.entry, way.entry))
                break
        else:
            kept.append(way)
    return tuple(kept)
