"""The guide protocol: pure state machines that say which tokens may come next.

A *spec* is what users write (`guides.choice(["billing", "bug"])`): plain values, no model needed.
Bound to a vocabulary it becomes a *guide*. A guide never changes; its states are values, so a state
can be kept, advanced twice, and compared. Specs go anywhere; a guide serves one thread at a time,
since the engine behind a grammar does.

Laws that every guide keeps (`tests/laws/guide_laws.py`):

* `advance` is pure, and takes exactly the tokens that `bias` does not ban.
* End-of-text tokens are allowed exactly where the text so far is a whole answer.
* `finished(state)`: whole, and nothing can follow. Its bias allows end-of-text tokens alone, and
  advancing by one changes nothing.
* A token that spells nothing (control, padding) is banned everywhere, but for end of text.
* `bias` is byte-complete: a token is allowed if its bytes may come next, whether or not the
  tokenizer itself would have chosen it there. Mass is summed over it.
* `forced(state)` is the canonical spelling of what must come next; each token is allowed in turn.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from torch import Tensor

from weighbridge.local_engine.checks import unwanted
from weighbridge.local_engine.vocabulary import Vocabulary

State: TypeAlias = Any  # each guide's own; opaque to everybody else


class Guide(Protocol):
    """Says, per state, which tokens may come next."""

    @property
    def is_hard(self) -> bool:
        """Whether it demands a shape, so that an answer cut short is no answer."""
        ...

    def init(self) -> State:
        """The state before the first token."""
        ...

    def bias(self, state: State) -> Tensor:
        """float32 [vocab_size] to be added to raw logits: 0 no opinion, -inf banned, finite soft.

        May be shared between calls: never change it in place.

        Raises:
            EngineError: the guide itself has failed; it never answers with a mask that only ends.
        """
        ...

    def advance(self, state: State, token: int) -> State:
        """The state after one more token; `state` itself stays as it is.

        Raises:
            ValueError: the token is banned here.
        """
        ...

    def finished(self, state: State) -> bool:
        """Whether the answer is whole and nothing can follow."""
        ...

    def forced(self, state: State) -> tuple[int, ...]:
        """Tokens that must come next, if the text leaves no choice; () where it does or may."""
        ...


class Spec(Protocol):
    """What to demand, before it is known of which model."""

    def bind(self, vocabulary: Vocabulary) -> Guide:
        """The guide for a vocabulary.

        Raises:
            SchemaRefused: a JSON Schema that cannot be enforced; pointer and keyword say where.
            TaskInvalid: a grammar, regular expression or list that describes no answer.
        """
        ...


def check_spec(spec: object, name: str) -> None:
    """See that something can be bound to a vocabulary.

    Args:
        spec: anything; a class is no guide, and neither is a list of them.
        name: of the argument.

    Raises:
        TypeError: it cannot.
    """
    if isinstance(spec, type) or not callable(getattr(spec, "bind", None)):
        wanted = "made by a function of `weighbridge.local_engine.guides`"
        raise unwanted(name, wanted, spec)
