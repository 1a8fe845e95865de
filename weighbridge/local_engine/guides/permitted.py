"""A guide that asks a function which tokens may come next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from torch import Tensor

from weighbridge.errors import EngineError
from weighbridge.local_engine.checks import check_whole, listed_values, unwanted
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.vocabulary import Vocabulary

Ids: TypeAlias = tuple[int, ...]

_KEPT_STATES = 256
_ANSWER = "what the function of `allowed` returns"


def allowed(function: Callable[[Ids], Iterable[int]]) -> Permitted:
    """Which tokens may come next, as a function of those that have come.

    Args:
        function: given the ids of the answer so far, the ids that it permits. None at all: the
            answer is finished. Any end-of-text token among them: it may end here. It should answer
            the same each time; within a few hundred states it is asked once for each.

    >>> from weighbridge.local_engine.vocabulary import TableVocabulary
    >>> words = TableVocabulary([b"yes", b"no", b""], eos_ids={2})
    >>> guide = allowed(lambda ids: () if ids else (0, 1)).bind(words)
    >>> guide.bias(guide.init())
    tensor([0., 0., -inf])
    """
    if not callable(function):
        raise unwanted("function", "a function from the ids so far to those permitted", function)
    return Permitted(function)


@dataclass(frozen=True, slots=True)
class Permitted:
    """See `allowed`."""

    function: Callable[[Ids], Iterable[int]]

    def bind(self, vocabulary: Vocabulary) -> PermittedGuide:
        """See `Spec.bind`."""
        return PermittedGuide(self.function, Lexicon.of(vocabulary))


class PermittedGuide:
    """Allows what a function permits; a state is the tokens so far."""

    is_hard = True

    def __init__(self, function: Callable[[Ids], Iterable[int]], lexicon: Lexicon) -> None:
        self._function, self._lexicon = function, lexicon
        self._permitted = lru_cache(_KEPT_STATES)(self._ask)

    def init(self) -> Ids:
        """See `Guide.init`."""
        return ()

    def bias(self, state: Ids) -> Tensor:
        """See `Guide.bias`.

        Raises:
            EngineError: the function permits what is no token, or a token that spells nothing.
        """
        ids, may_end = self._permitted(state)
        return self._lexicon.row(ids, ends=may_end)

    def advance(self, state: Ids, token: int) -> Ids:
        """See `Guide.advance`."""
        ids, may_end = self._permitted(state)
        if token not in ids and not (may_end and token in self._lexicon.eos_ids):
            raise ValueError(f"token {token} is banned here: the function does not permit it")
        return state if self.finished(state) else (*state, token)

    def finished(self, state: Ids) -> bool:
        """See `Guide.finished`."""
        ids, _ = self._permitted(state)
        return not ids

    def forced(self, state: Ids) -> Ids:
        """See `Guide.forced`; the function is not asked about more than the next token."""
        ids, may_end = self._permitted(state)
        return ids if len(ids) == 1 and not may_end else ()

    def _ask(self, state: Ids) -> tuple[Ids, bool]:
        """The permitted tokens that spell something, and whether the answer may end."""
        if state and state[-1] in self._lexicon.eos_ids:
            return (), True
        answer = set[int]()
        for token in listed_values(self._function(state), _ANSWER, "token ids"):
            check_whole(token, f"a token id in {_ANSWER}")
            answer.add(int(token))
        for token in answer:
            if not 0 <= token < self._lexicon.vocab_size:
                problem = f"which is no token: there are {self._lexicon.vocab_size}"
            elif self._lexicon.is_control(token):
                problem = "a control or padding token, which no guide ever allows"
            else:
                continue
            raise EngineError(f"the function of `allowed` permits {token}, {problem}")
        ends = answer.intersection(self._lexicon.eos_ids)
        return tuple(sorted(answer - ends)), bool(ends) or not answer
