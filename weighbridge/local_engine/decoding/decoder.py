"""The decode loop: several answers grow at once, each under its own guide, none seeing another.

One pass of the model takes each answer a token further, or a whole forced run. Which token comes is
decided from raw logits and the guide's bias alone; see `sampling` for the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from weighbridge.errors import ContextTooLong, DeadEnd, EngineError, Truncated
from weighbridge.local_engine.decoding.account import Accountant
from weighbridge.local_engine.decoding.generation import Finish, Generation, Step
from weighbridge.local_engine.decoding.sampling import Sampling, distribution, preferring_long
from weighbridge.local_engine.guides.protocol import Guide, State
from weighbridge.local_engine.logprobs import log_total
from weighbridge.local_engine.models.protocol import LanguageModel, Read, read_batch
from weighbridge.local_engine.scoring import Prompt, read_all
from weighbridge.local_engine.vocabulary import Vocabulary

MAX_ANSWERS = 16  # that grow at once

OnStep = Callable[[int, Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One answer to be written.

    Args:
        prompt: what stands before it; with the first words of it, where they are given.
        guide: what the answer must look like, bound to the model's vocabulary.
        sampling: how tokens are chosen.
        max_tokens: of the answer, forced ones included; those that were given, or that only
            repeat the prompt, do not count.
        stop: the answer ends before the first of these strings.
        num_candidates: listed beside each token; 0 for none.
        skip_bytes: so many at the beginning repeat the prompt, see `healing`.

    Raises:
        ValueError: no tokens at all, or an empty stop string.
    """

    prompt: Prompt
    guide: Guide
    sampling: Sampling
    max_tokens: int
    stop: tuple[str, ...] = ()
    num_candidates: int = 0
    skip_bytes: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be 1 or more, not {self.max_tokens}")
        if not all(self.stop):
            raise ValueError("a stop string must not be empty")


def decode(
    model: LanguageModel,
    vocabulary: Vocabulary,
    requests: Sequence[Request],
    on_step: OnStep | None = None,
) -> list[Generation | EngineError]:
    """Write the answers to all requests.

    Args:
        model: the model that has read the prompts.
        vocabulary: of it.
        requests: any number.
        on_step: called with the index of a request and its newest token, as soon as it is there.

    Returns:
        For each request its answer, or why there is none: `DeadEnd`, `Truncated`, `ContextTooLong`,
        or another `EngineError`. An answer never depends on the other requests.
    """
    results: list[Generation | EngineError] = []
    for start in range(0, len(requests), MAX_ANSWERS):
        part = requests[start : start + MAX_ANSWERS]
        writers = [
            _Writer(request, vocabulary, start + index, on_step)
            for index, request in enumerate(part)
        ]
        _begin(model, writers)
        while growing := [writer for writer in writers if writer.result is None]:
            _grow(model, growing)
        results += [writer.result for writer in writers if writer.result is not None]
    return results


def _begin(model: LanguageModel, writers: Sequence[_Writer]) -> None:
    """Read the prompts; one that is too long has no answer, and leaves the others alone."""
    fitting = [writer for writer in writers if writer.fits(model.max_positions)]
    read_all(model, [writer.prompt for writer in fitting])
    for writer in fitting:
        writer.begin(writer.prompt.after(model))


def _grow(model: LanguageModel, writers: Sequence[_Writer]) -> None:
    """Take each answer one choice further."""
    reads = [(writer, ids) for writer in writers if (ids := writer.choose(model.max_positions))]
    if not reads:
        return
    passes = read_batch(model, [Read(torch.tensor(ids), writer.cache) for writer, ids in reads])
    logits = model.logits(torch.cat([hidden for hidden, _ in passes]))
    parts = torch.split(logits, [len(ids) for _, ids in reads])
    for (writer, _), (_, cache), rows in zip(reads, passes, parts, strict=True):
        writer.take(rows, cache)


class _Writer:
    """One answer in the making.

    `choose` decides on tokens, the model reads them, and `take` is told what it says after each.
    """

    def __init__(
        self, request: Request, vocabulary: Vocabulary, index: int, on_step: OnStep | None
    ) -> None:
        self.prompt, self.cache = request.prompt, request.prompt.cache
        self.result: Generation | EngineError | None = None
        self._request, self._vocabulary = request, vocabulary
        self._index, self._on_step = index, on_step
        self._stops = [stop.encode() for stop in request.stop]
        self._account = Accountant(vocabulary, request.num_candidates)
        self._random = torch.Generator().manual_seed(request.sampling.seed)
        self._state: State = request.guide.init()
        self._logits = torch.empty(0)  # of the next token
        self._run: Sequence[int] = ()  # forced, being read, not yet accounted for
        self._was_drawn = False  # whether a token was chosen before the run
        self._written, self._steps = bytearray(), list[Step]()
        self._num_counted = self._passes = 0

    def fits(self, max_positions: int) -> bool:
        """Whether the model can read the prompt; if not, that is the result."""
        needed = self.prompt.num_tokens
        if needed > max_positions:
            self.result = ContextTooLong(needed, max_positions)
        return needed <= max_positions

    def begin(self, logits: Tensor) -> None:
        """Learn what the model says after the prompt, which has been read: float32 [V]."""
        self.cache, self._logits = self.prompt.cache, logits
        if self.prompt.before is None:
            return
        try:
            for token, row in zip(self.prompt.given, self.prompt.before, strict=True):
                alone = torch.full_like(row, -torch.inf).index_fill_(0, torch.tensor(token), 0.0)
                self._add(self._account.step(token, row, alone, "prefill"))
        except EngineError as error:
            self.result = error

    def choose(self, max_positions: int) -> list[int]:
        """The tokens to read next; none where the answer has ended, one way or the other."""
        try:
            tokens = self._choose()
        except EngineError as error:
            self.result = error
            return []
        needed = self.cache.num_tokens + len(tokens)
        if tokens and needed > max_positions:
            self.result = ContextTooLong(needed, max_positions)
            return []
        return tokens

    def take(self, rows: Tensor, cache: Any) -> None:
        """Learn what the model says after each token of the last choice, float32 [N, V]."""
        # Each token of the run is accounted for by the row before it.
        before = rows if self._was_drawn else torch.cat([self._logits[None], rows])
        self.cache, self._logits, self._passes = cache, rows[-1], self._passes + 1
        try:
            self._account_for_run(before)
        except EngineError as error:
            self.result = error

    def _choose(self) -> list[int]:
        tokens = list[int]()
        self._run, is_end = self._forced()
        self._was_drawn = not self._run
        if self._was_drawn:
            bias = self._request.guide.bias(self._state)
            tokens = [self._drawn(bias)]
            self._append(tokens[0], self._logits, bias, "model")
            if self.result is not None:
                return []
            self._run, is_end = self._forced()
        tokens += self._run
        if is_end:
            del tokens[-1]  # nothing comes behind it, so it need not be read
        if not tokens:
            self._account_for_run(self._logits[None])
        return tokens

    def _forced(self) -> tuple[list[int], bool]:
        """What must come next, as far as it will be written, and whether the answer ends there."""
        guide, state, written = self._request.guide, self._state, bytearray(self._written)
        room, run = self._request.max_tokens - self._num_counted, list[int]()
        for token in guide.forced(state)[:room]:
            state = guide.advance(state, token)
            written += self._vocabulary.token_bytes[token]
            run.append(token)
            if self._stop_in(written) is not None:
                return run, True
        return run, bool(run) and (len(run) == room or guide.finished(state))

    def _account_for_run(self, before: Tensor) -> None:
        for token, logits in zip(self._run, before, strict=False):
            if self.result is None:  # a stop string may end the answer within the run
                self._append(token, logits, self._request.guide.bias(self._state), "guide")

    def _drawn(self, bias: Tensor) -> int:
        """A token, chosen among those that the guide allows."""
        sampling, logits = self._request.sampling, self._logits + bias
        if not math.isfinite(float(logits.max())):
            log_total(self._logits[None])  # raises where it is the model that has failed
            raise DeadEnd(len(self._steps))
        if sampling.prefer_long:
            logits = preferring_long(logits, self._request.guide, self._state, self._vocabulary)
        if sampling.temperature == 0:  # nothing is drawn; a whole distribution takes a millisecond
            return int(logits.argmax())
        probabilities = distribution(logits, sampling)
        return int(torch.multinomial(probabilities, 1, generator=self._random))

    def _append(
        self, token: int, logits: Tensor, bias: Tensor, source: Literal["model", "guide"]
    ) -> None:
        step, request = self._account.step(token, logits, bias, source), self._request
        self._add(step)
        self._state = request.guide.advance(self._state, token)
        if token in self._vocabulary.eos_ids:
            self._finish("eos")
            return
        self._written += step.text
        # What only repeats the prompt is no part of the answer.
        self._num_counted += request.skip_bytes == 0 or len(self._written) > request.skip_bytes
        stop_at = self._stop_in(self._written)
        if stop_at is not None:
            del self._written[stop_at:]
            self._finish("stop")
        elif request.guide.finished(self._state):
            self._finish("guide")
        elif self._num_counted >= request.max_tokens:
            if request.guide.is_hard:
                raise Truncated(request.max_tokens)
            self._finish("length")

    def _add(self, step: Step) -> None:
        self._steps.append(step)
        if self._on_step is not None:
            self._on_step(self._index, step)

    def _stop_in(self, written: bytearray) -> int | None:
        """Where the first stop string begins."""
        found = (written.find(stop, self._request.skip_bytes) for stop in self._stops)
        return min((place for place in found if place >= 0), default=None)

    def _finish(self, finish: Finish) -> None:
        text = bytes(self._written[self._request.skip_bytes :])
        self.result = Generation(
            text=text.decode(errors="replace"),
            steps=tuple(self._steps),
            finish=finish,
            forward_passes=self._passes,
        )
