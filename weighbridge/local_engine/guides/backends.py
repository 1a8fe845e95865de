"""Backends: other grammar engines behind the guide protocol, to compare with and not to rely on.

xgrammar ignores what it does not know (`not`, most formats, overlapping `oneOf`), so a text that it
allows may be invalid. outlines-core builds its whole automaton first, and loses texts that go on
where a shorter one could end (0.2.14: `bug(fix)?` stops at `bug`). Both need the extra [engines].
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weighbridge.errors import ExtraMissing, TaskInvalid
from weighbridge.local_engine.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class XgrammarSchema:
    """Demand one value of a JSON Schema, spelled as `json.dumps` does."""

    schema: Mapping[str, Any]

    def bind(self, vocabulary: Vocabulary) -> BackendGuide:
        """See `Spec.bind`.

        Raises:
            ExtraMissing: xgrammar is not installed.
            TaskInvalid: xgrammar does not take the schema.
        """
        try:
            import xgrammar
        except ImportError:
            raise ExtraMissing("engines", "xgrammar") from None
        info = xgrammar.TokenizerInfo(
            list(vocabulary.token_bytes),
            xgrammar.VocabType.RAW,
            vocab_size=vocabulary.vocab_size,
            stop_token_ids=sorted(vocabulary.eos_ids),
        )
        compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        try:
            grammar = compiler.compile_json_schema(
                json.dumps(self.schema), any_whitespace=False, separators=(", ", ": ")
            )
        except RuntimeError:
            raise TaskInvalid("", "xgrammar does not take the schema") from None
        return _Xgrammar(vocabulary, xgrammar.GrammarMatcher(grammar))


@dataclass(frozen=True, slots=True)
class OutlinesRegex:
    """Demand a text that a regular expression, in the dialect of Rust, matches as a whole."""

    pattern: str

    def bind(self, vocabulary: Vocabulary) -> BackendGuide:
        """See `Spec.bind`.

        Raises:
            ExtraMissing: outlines-core is not installed.
            TaskInvalid: no such expression, or nothing that the vocabulary can spell matches it.
        """
        try:
            from outlines_core import Index
            from outlines_core import Vocabulary as Table
        except ImportError:
            raise ExtraMissing("engines", "outlines-core") from None
        ids: dict[bytes, list[int]] = {}
        for token, spelled in enumerate(vocabulary.token_bytes):
            if spelled and token not in vocabulary.eos_ids:
                ids.setdefault(spelled, []).append(token)
        try:
            index = Index(self.pattern, Table(min(vocabulary.eos_ids), ids))
        except ValueError:
            raise TaskInvalid("/pattern", "outlines-core does not take it") from None
        return _Outlines(vocabulary, index)


@dataclass(frozen=True, slots=True)
class BackendState:
    """What has been written so far, and the engine's own state after it, which never changes."""

    text: bytes
    inner: Any = field(compare=False)
    is_ended: bool = False


class BackendGuide(ABC):
    """What is the same for every engine: ends, and what must never come.

    Args:
        vocabulary: of the model.
        inner: the engine's state before the first token.
    """

    is_hard = True

    def __init__(self, vocabulary: Vocabulary, inner: Any) -> None:
        self._vocabulary, self._start = vocabulary, BackendState(b"", inner)
        self._ends = torch.zeros(vocabulary.vocab_size, dtype=torch.bool)
        self._ends[sorted(vocabulary.eos_ids)] = True
        # xgrammar takes control tokens for their names, and allows those in any text.
        self._known = torch.tensor([bool(t) for t in vocabulary.token_bytes]) | self._ends

    def init(self) -> BackendState:
        """See `Guide.init`."""
        return self._start

    def bias(self, state: BackendState) -> Tensor:
        """See `Guide.bias`."""
        return torch.where(self._allowed(state), 0.0, -torch.inf)

    def advance(self, state: BackendState, token: int) -> BackendState:
        """See `Guide.advance`."""
        if not (0 <= token < self._vocabulary.vocab_size and self._allowed(state)[token]):
            raise ValueError(f"token {token} is banned here")
        if token in self._vocabulary.eos_ids:
            finished = self.finished(state)
            return state if finished else BackendState(state.text, state.inner, is_ended=True)
        text = state.text + self._vocabulary.token_bytes[token]
        return BackendState(text, self._after(state.inner, token))

    def finished(self, state: BackendState) -> bool:
        """See `Guide.finished`."""
        return torch.equal(self._allowed(state), self._ends)

    def forced(self, state: BackendState) -> tuple[int, ...]:
        """See `Guide.forced`; these engines do not know what the canonical spelling is."""
        return ()

    def _allowed(self, state: BackendState) -> Tensor:
        return self._ends if state.is_ended else self._mask(state.inner) & self._known

    @abstractmethod
    def _mask(self, inner: Any) -> Tensor:
        """Bool [vocab_size]: what the engine allows, ends included."""

    @abstractmethod
    def _after(self, inner: Any, token: int) -> Any:
        """The engine's state after one more token that it allows."""


class _Xgrammar(BackendGuide):
    def _mask(self, inner: Any) -> Tensor:
        packed = np.zeros((1, -(-self._vocabulary.vocab_size // 32)), np.int32)
        inner.fill_next_token_bitmask(torch.from_numpy(packed))
        bits = np.unpackbits(packed.view(np.uint8)[0], bitorder="little")
        return torch.from_numpy(bits[: self._vocabulary.vocab_size] != 0)

    def _after(self, inner: Any, token: int) -> Any:
        fork = inner.fork()
        fork.accept_token(token)
        return fork


class _Outlines(BackendGuide):
    def __init__(self, vocabulary: Vocabulary, index: Any) -> None:
        super().__init__(vocabulary, index.get_initial_state())
        self._index = index

    def _mask(self, inner: Any) -> Tensor:
        mask = torch.zeros(self._vocabulary.vocab_size, dtype=torch.bool)
        mask[self._index.get_allowed_tokens(inner) or []] = True
        mask[self._ends] = bool(self._index.is_final_state(inner))
        return mask

    def _after(self, inner: Any, token: int) -> Any:
        return self._index.get_next_state(inner, token)
