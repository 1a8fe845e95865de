"""Answers to prompts: what is asked for is checked, bound to the vocabulary, and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypedDict

from weighbridge.errors import EngineError, TaskInvalid, Truncated
from weighbridge.local_engine.checks import (
    check_kind,
    check_whole,
    encoded,
    listed_texts,
    listed_values,
    unwanted,
)
from weighbridge.local_engine.decoding.decoder import OnStep, Request, decode
from weighbridge.local_engine.decoding.generation import Generation
from weighbridge.local_engine.decoding.healing import taken_back
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.local_engine.guides.advice import when_truncated
from weighbridge.local_engine.guides.label_priors import LabelPrior
from weighbridge.local_engine.guides.logit_bias import soft
from weighbridge.local_engine.guides.protocol import Guide, Spec, check_spec
from weighbridge.local_engine.models.protocol import LanguageModel
from weighbridge.local_engine.prefix_cache import PrefixCache
from weighbridge.local_engine.prompts import PromptEncoder, PromptLike
from weighbridge.local_engine.scoring import Prompt
from weighbridge.local_engine.vocabulary import Vocabulary

# What becomes of one prompt among several.
Answer: TypeAlias = Generation | EngineError | TaskInvalid

_GREEDY = Sampling()
_SEEDS = 2**64  # as many as torch can tell apart


class Writing(TypedDict, total=False):
    """How an answer is written: what `generate`, `generate_many` and `explain` all take.

    Keys:
        sampling: how tokens are chosen; greedy unless you say otherwise.
        max_tokens: of the answer, prefill excluded; 256 unless you say otherwise.
        stop: the answer ends before the first of these strings, even where the guide would go on;
            `finish` says so.
        prefill: the answer's first words, given; the guide begins behind them.
        heal: let the last token of a plain prompt or of the prefill merge with what follows; it may
            unless you say otherwise.
        num_candidates: to list beside each token, as a trace; 0 for none, as `generate` has it.
        on_step: called with the index of an answer and its newest token, as soon as it is there.
    """

    sampling: Sampling
    max_tokens: int
    stop: Sequence[str]
    prefill: str
    heal: bool
    num_candidates: int
    on_step: OnStep | None


class AnswerWriter:
    """Writes answers under guides.

    Args:
        model: the model.
        vocabulary: of it.
        encoder: of its prompts.
        prompts: those that it has read already.
    """

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        encoder: PromptEncoder,
        prompts: PrefixCache,
    ) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._encoder, self._prompts = encoder, prompts

    def write(
        self,
        prompts: Sequence[PromptLike],
        guide: Spec | None,
        samples: int,
        *,
        sampling: Sampling = _GREEDY,
        max_tokens: int = 256,
        stop: Sequence[str] = (),
        prefill: str = "",
        heal: bool = True,
        num_candidates: int = 0,
        on_step: OnStep | None = None,
    ) -> list[Answer]:
        """See `Engine.generate_many`."""
        check_kind(sampling, Sampling, "sampling", "Sampling(temperature=…, …)")
        check_kind(heal, bool, "heal", "True or False")
        for name, number, least in (
            ("max_tokens", max_tokens, 1),
            ("samples", samples, 1),
            ("num_candidates", num_candidates, 0),
        ):
            check_whole(number, name, least)
        for place, text in enumerate(stop := listed_texts(stop, "stop")):
            encoded(text, f"/stop/{place}")
        encoded(prefill, "/prefill")
        if on_step is not None and not callable(on_step):
            raise unwanted("on_step", "a function of an index and a step", on_step)
        if guide is None:
            guide = soft()
        bound = self._bound(guide)
        jobs = [
            self._job(prompt, bound, prefill, heal=heal)
            for prompt in listed_values(prompts, "prompts", "prompts")
        ]
        slots = [(job, sample) for job in jobs for sample in range(samples)]
        requests = {
            place: Request(
                prompt=job.prompt,
                guide=job.guide,
                sampling=replace(sampling, seed=(sampling.seed + sample) % _SEEDS),
                max_tokens=max_tokens,
                stop=stop,
                num_candidates=num_candidates,
                skip_bytes=job.skip_bytes,
            )
            for place, (job, sample) in enumerate(slots)
            if isinstance(job, _Job)
        }
        places = [*requests]  # among all answers, those without a prompt included
        told = None if on_step is None else lambda index, step: on_step(places[index], step)
        written = decode(self._model, self._vocabulary, [*requests.values()], told)
        answers = dict(zip(places, written, strict=True))
        return [
            _told(answers[place], guide, prefill) if isinstance(job, _Job) else job
            for place, (job, _) in enumerate(slots)
        ]

    def _bound(self, guide: Spec) -> Guide:
        check_spec(guide, "guide")
        if isinstance(guide, LabelPrior):
            problem = "a label prior by itself demands none of its labels"
            hint = "Choose between them: guides.both(guides.choice(labels), label_prior(…))."
            raise TaskInvalid("/guide", problem, hint)
        return guide.bind(self._vocabulary)

    def _job(
        self, prompt: PromptLike, guide: Guide, prefill: str, *, heal: bool
    ) -> _Job | EngineError | TaskInvalid:
        """What is to be written behind a prompt, or why there is nothing."""
        try:
            before, owed = self._encoder.ids(prompt), b""
        except (EngineError, TaskInvalid) as error:
            return error
        ids = [*before, *self._vocabulary.encode(prefill)]
        # A conversation ends where its template says: nothing to heal but the prefill's end.
        if heal and (prefill or isinstance(prompt, str)):
            ids, guide, owed = taken_back(ids, guide, self._vocabulary)
        num_given = max(0, len(ids) - len(before))
        return _Job(self._prompts.prompt(ids, num_given), guide, len(owed))


def _told(answer: Generation | EngineError, guide: Spec, prefill: str) -> Generation | EngineError:
    """An answer with its given words, or why there is none, with what to do about it."""
    if isinstance(answer, Truncated):
        answer.hint = when_truncated(guide)
    if isinstance(answer, EngineError):
        return answer
    return replace(answer, text=prefill + answer.text)


class _Job(NamedTuple):
    """A prompt, the guide of what comes behind it, and how many bytes of it are written again."""

    prompt: Prompt
    guide: Guide
    skip_bytes: int
