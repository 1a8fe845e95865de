"""Two guides at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.guides.logit_bias import soft
from weighbridge.local_engine.guides.protocol import Guide, Spec, State, check_spec
from weighbridge.local_engine.vocabulary import Vocabulary

Pair: TypeAlias = tuple[State, State]


def both(first: Spec, second: Spec) -> Conjunction:
    """What both guides allow; their biases add up.

    Guides that allow nothing in common leave no token; decoding then raises `DeadEnd`.

    >>> from weighbridge.local_engine.guides.texts import choice
    >>> from weighbridge.local_engine.vocabulary import TableVocabulary
    >>> words = TableVocabulary([b"bug", b"other", b"refund", b""], eos_ids={3})
    >>> spec = both(choice(["bug", "other"]), choice(["other", "refund"]))
    >>> guide = spec.bind(words)
    >>> guide.bias(guide.init())
    tensor([-inf, 0., -inf, -inf])
    """
    check_spec(first, "the first guide of both")
    check_spec(second, "the second guide of both")
    return Conjunction(first, second)


def biased(
    guide: Spec,
    by_id: Mapping[int, float] | None = None,
    by_text: Mapping[str, float] | None = None,
) -> Conjunction:
    """A guide with opinions on single tokens: `both(guide, soft(by_id, by_text))`."""
    return both(guide, soft(by_id, by_text))


@dataclass(frozen=True, slots=True)
class Conjunction:
    """See `both`."""

    first: Spec
    second: Spec

    def bind(self, vocabulary: Vocabulary) -> ConjunctionGuide:
        """See `Spec.bind`; raises what either raises."""
        return ConjunctionGuide(
            self.first.bind(vocabulary), self.second.bind(vocabulary), Lexicon.of(vocabulary)
        )


class ConjunctionGuide:
    """Adds the biases of two guides; a state is a pair of theirs."""

    def __init__(self, first: Guide, second: Guide, lexicon: Lexicon) -> None:
        self._first, self._second, self._lexicon = first, second, lexicon

    @property
    def is_hard(self) -> bool:
        """See `Guide.is_hard`."""
        return self._first.is_hard or self._second.is_hard

    def init(self) -> Pair:
        """See `Guide.init`."""
        return self._first.init(), self._second.init()

    def bias(self, state: Pair) -> Tensor:
        """See `Guide.bias`."""
        return self._first.bias(state[0]) + self._second.bias(state[1])

    def advance(self, state: Pair, token: int) -> Pair:
        """See `Guide.advance`."""
        after = self._first.advance(state[0], token), self._second.advance(state[1], token)
        is_end = token in self._lexicon.eos_ids
        return state if is_end and self.finished(state) else after

    def finished(self, state: Pair) -> bool:
        """See `Guide.finished`.

        Asked of the sum: it can end where neither guide has finished, because each would go on
        with something else.
        """
        return self._lexicon.ends_only(self.bias(state))

    def forced(self, state: Pair) -> tuple[int, ...]:
        """See `Guide.forced`: what one forces, as far as the other allows it."""
        tokens = self._first.forced(state[0]) or self._second.forced(state[1])
        return tuple(self._taken(state, tokens))

    def _taken(self, state: Pair, tokens: tuple[int, ...]) -> Iterator[int]:
        for token in tokens:
            try:
                state = self.advance(state, token)
            except ValueError:
                return
            yield token
