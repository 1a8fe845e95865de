"""The local engine: writes under guides, weighs finite languages exactly, and shows its work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict, Unpack

import torch

from weighbridge.errors import EngineError
from weighbridge.local_engine.catalogue import cache_folder, locate
from weighbridge.local_engine.chat_template import ChatTemplate, Message
from weighbridge.local_engine.decoding.decoder import OnStep, Request, decode
from weighbridge.local_engine.decoding.generation import Generation
from weighbridge.local_engine.decoding.healing import taken_back
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.local_engine.encoder import Encoder
from weighbridge.local_engine.guides.logit_bias import soft
from weighbridge.local_engine.guides.protocol import Guide, Spec
from weighbridge.local_engine.models.convert import Precision, converted
from weighbridge.local_engine.models.load import best_device, load_generator, precision_for
from weighbridge.local_engine.models.protocol import LanguageModel
from weighbridge.local_engine.posterior import (
    Posterior,
    near_miss_mass,
    of_texts,
    opening,
    posterior,
)
from weighbridge.local_engine.prefix_cache import PrefixCache
from weighbridge.local_engine.prior import LabelPrior
from weighbridge.local_engine.scoring import Prompt, Scorer, Scores
from weighbridge.local_engine.tickets import TicketWeigher, Weighed
from weighbridge.local_engine.vocabulary import Vocabulary
from weighbridge.local_engine.weighing import FieldSpec
from weighbridge.schemas.finite import FiniteLanguage

if TYPE_CHECKING:
    from weighbridge.local_engine.picture.explanation import Explanation

# Plain text to go on with, a conversation, or token ids.
PromptLike: TypeAlias = str | Sequence[Message] | Sequence[int]

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


class Engine:
    """A language model, its vocabulary, and what they can do together.

    One call at a time: a second thread must wait or have an engine of its own.

    Args:
        model: the generator.
        vocabulary: of it, in the width of its logits.
        chat: how it writes conversations; None for a model that knows none.
        bos_id: a token that plain text is read after; None for models that read it as it is.
        name: what people call the model; without one, its class.
        fingerprint: of weights and precision; what is calibrated for one holds for no other.
        prior: a label prior for `weigh`; None leaves the generator alone.
        max_ticket_tokens: `weigh` cuts longer tickets in the middle.

    Raises:
        EngineError: model and vocabulary do not fit together.
        ValueError: max_ticket_tokens below 1.
    """

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        *,
        chat: ChatTemplate | None = None,
        bos_id: int | None = None,
        name: str = "",
        fingerprint: str = "",
        prior: LabelPrior | None = None,
        max_ticket_tokens: int = 1024,
    ) -> None:
        if vocabulary.vocab_size != model.vocab_size:
            raise EngineError(
                f"the vocabulary has {vocabulary.vocab_size} tokens, the model's logits are "
                f"{model.vocab_size} wide; give the vocabulary the width of the logits"
            )
        if max_ticket_tokens < 1:
            raise ValueError(f"max_ticket_tokens must be 1 or more, not {max_ticket_tokens}")
        self.model, self.vocabulary, self.chat, self.prior = model, vocabulary, chat, prior
        self.name, self.fingerprint = name or type(model).__name__, fingerprint
        self._bos = [] if bos_id is None else [bos_id]
        self._scorer, self._prompts = Scorer(model, vocabulary), PrefixCache(model)
        self._tickets = None
        if chat is not None:
            self._tickets = TicketWeigher(
                model, vocabulary, chat, self._scorer, prior, max_ticket_tokens
            )

    @classmethod
    def load(
        cls,
        generator: str = "smollm2-135m",
        *,
        prior: str | None = "all-minilm-l6-v2",
        precision: Precision | None = None,
        threads: int | None = None,
        max_ticket_tokens: int = 1024,
    ) -> Engine:
        """Load models by known name or by path.

        Args:
            generator: a known name, a GGUF file, or a folder of safetensors.
            prior: a known name or the folder of a sentence encoder; None for none.
            precision: of the generator; None for int8 on a CPU, bfloat16 on a GPU.
            threads: torch threads, for the whole process; None leaves torch's own choice.
            max_ticket_tokens: longer tickets are cut in the middle.

        Raises:
            ModelUnknown, ModelMissing, ModelCorrupt, EngineError: see `weighbridge.errors`.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        encoder = None if prior is None else Encoder.load(locate(prior, "encoder"))
        device = best_device()
        source = locate(generator, "generator")
        folder = converted(source, cache_folder(), precision_for(device, precision))
        loaded = load_generator(folder, device)
        return cls(
            loaded.model,
            loaded.tokenizer,
            chat=loaded.chat(),
            bos_id=loaded.bos_id,
            name=generator,
            fingerprint=loaded.fingerprint,
            prior=None if encoder is None else LabelPrior(encoder, cache_folder() / "embeddings"),
            max_ticket_tokens=max_ticket_tokens,
        )

    def generate(
        self, prompt: PromptLike, guide: Spec | None = None, **how: Unpack[Writing]
    ) -> Generation:
        """Write one answer.

        Args:
            prompt: plain text to go on with, a conversation, or token ids.
            guide: what the answer must look like, from `weighbridge.local_engine.guides`; None lets
                the model write freely.
            how: `sampling`, `max_tokens`, `stop`, `prefill` and more, see `Writing`.

        Raises:
            SchemaRefused, TaskInvalid: the guide cannot be had; nothing has been read then.
            DeadEnd: the guide allows no token.
            Truncated: max_tokens came before a guided answer was whole.
            ContextTooLong: prompt and answer are longer than what the model can read.
            EngineError: anything else that is wrong with the model.
            ValueError, TypeError: an argument outside its range, or of another kind.

        Every token is accounted for, premask:

        >>> import torch
        >>> from weighbridge.local_engine import guides
        >>> from weighbridge.local_engine.models.module import ModuleModel
        >>> from weighbridge.local_engine.vocabulary import TableVocabulary
        >>> words = TableVocabulary([b"yes", b"no", b"perhaps", b"?", b""], eos_ids={4})
        >>> table = torch.tensor([[0.0, 1.0, 3.0, 0.0, 0.0]]).expand(5, 5)
        >>> model = ModuleModel(torch.nn.Embedding.from_pretrained(table), 5, 64)
        >>> answer = Engine(model, words).generate("?", guides.choice(["yes", "no"]), heal=False)
        >>> answer.text, answer.steps[0].rank, round(answer.steps[0].mass, 3)
        ('no', 2, 0.144)
        """
        (answer,) = self._write([prompt], guide, 1, **how)
        if isinstance(answer, EngineError):
            raise answer
        return answer

    def generate_many(
        self,
        prompts: Sequence[PromptLike],
        guide: Spec | None = None,
        *,
        samples: int = 1,
        **how: Unpack[Writing],
    ) -> list[Generation | EngineError]:
        """Write answers to several prompts at once; each is what `generate` would have written.

        Args:
            prompts: any number.
            guide: for all of them; bound once.
            samples: answers to each prompt, the seed going up by one from each to the next.
            how: see `Writing`.

        Returns:
            The answers to the first prompt, then those to the second, and so on; where there is
            none, the error that `generate` would have raised.

        Raises:
            SchemaRefused, TaskInvalid, ValueError, TypeError: see `generate`.
        """
        return self._write(prompts, guide, samples, **how)

    def posterior(
        self,
        prompt: PromptLike,
        language: FiniteLanguage | Sequence[str],
        *,
        with_near_misses: bool = False,
    ) -> Posterior:
        """Score every member of a finite language exactly; nothing is sampled.

        Args:
            prompt: what stands before the answer.
            language: from `weighbridge.schemas.finite.language`, its first literal being given; or
                texts, each closed by end of text.
            with_near_misses: also weigh the options in other case, number and spacing.

        Raises:
            TaskInvalid: no texts, or one twice.
            ContextTooLong, EngineError: see `generate`.
        """
        if not isinstance(language, FiniteLanguage):
            language = of_texts(language)
        ids = [*self._ids(prompt), *self.vocabulary.encode(opening(language))]
        scores = Scores(partial(self._scorer.score, self._prompts.prompt(ids)))
        found = posterior(language, scores, self.vocabulary.encode)
        if with_near_misses:
            found = replace(found, near_misses=near_miss_mass(language, scores, self.vocabulary))
        return found

    def explain(
        self, prompt: PromptLike, guide: Spec | None = None, **how: Unpack[Writing]
    ) -> Explanation:
        """Write one answer and show, token by token, what was allowed and what the model thought.

        Args:
            prompt: see `generate`, which also says what is raised.
            guide: the same.
            how: the same; five candidates are listed beside each token unless you say otherwise.

        Returns:
            What has `text()`, `html()` and `png(path)`, and prints itself with rich.
        """
        from weighbridge.local_engine.picture.explanation import Explanation
        from weighbridge.local_engine.picture.guide_names import guide_name

        how.setdefault("num_candidates", 5)
        answer, ids = self.generate(prompt, guide, **how), self._ids(prompt)
        read = b"".join(self.vocabulary.token_bytes[token] for token in ids)
        return Explanation(
            generation=answer,
            prompt_tokens=len(ids),
            model=self.name,
            guide="" if guide is None else guide_name(guide),
            prompt=read.decode(errors="replace"),
        )

    def weigh(
        self, system: str, ticket: str, language: FiniteLanguage, fields: Sequence[FieldSpec]
    ) -> Weighed:
        """Weigh every answer to one ticket, the label prior included.

        Args:
            system: the instructions, equal for every ticket of a task; read once.
            ticket: plain text; what looks like a control token in it is plain text too.
            language: the answers.
            fields: the fields to report.

        Raises:
            EngineError: the model knows no conversations, or see `generate`.
        """
        if self._tickets is None:
            raise EngineError("tickets are weighed in a conversation; the model has no template")
        return self._tickets.weigh(system, ticket, language, fields)

    def _write(
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
    ) -> list[Generation | EngineError]:
        """See `generate_many`."""
        for name, texts in (("prompts", prompts), ("stop", stop)):
            if isinstance(texts, str):  # else each of its letters would be one
                raise TypeError(f"{name} must be a list, not one text")
        for name, number, least in (("samples", samples, 1), ("num_candidates", num_candidates, 0)):
            if number < least:
                raise ValueError(f"{name} must be {least} or more, not {number}")
        bound = self._bound(guide)
        jobs = [self._job(prompt, bound, prefill, heal=heal) for prompt in prompts]
        requests = [
            Request(
                prompt=job.prompt,
                guide=job.guide,
                sampling=replace(sampling, seed=(sampling.seed + sample) % _SEEDS),
                max_tokens=max_tokens,
                stop=tuple(stop),
                num_candidates=num_candidates,
                skip_bytes=job.skip_bytes,
            )
            for job in jobs
            for sample in range(samples)
        ]
        answers = decode(self.model, self.vocabulary, requests, on_step)
        return [
            answer
            if isinstance(answer, EngineError)
            else replace(answer, text=prefill + answer.text)
            for answer in answers
        ]

    def _bound(self, guide: Spec | None) -> Guide:
        if guide is None:
            guide = soft()
        if not hasattr(guide, "bind"):
            raise TypeError("guides are made by `weighbridge.local_engine.guides`")
        return guide.bind(self.vocabulary)

    def _ids(self, prompt: PromptLike) -> list[int]:
        """The tokens of a prompt; at least one."""
        if isinstance(prompt, str):
            ids = [*self._bos, *self.vocabulary.encode(prompt)]
        else:
            # Neither bytes, which are numbers too, nor truth values were meant as token ids.
            ids = [] if isinstance(prompt, bytes) else [p for p in prompt if type(p) is int]
            messages = [part for part in prompt if isinstance(part, Message)]
            if len(prompt) not in (len(ids), len(messages)):
                raise TypeError("a prompt is a text, `Message`s, or token ids as whole numbers")
            if messages:
                ids = self._rendered(messages)
        if not ids:
            raise ValueError("the prompt is empty; give the model at least one token to read")
        if not all(0 <= token < self.vocabulary.vocab_size for token in ids):
            raise ValueError(f"token ids are from 0 to {self.vocabulary.vocab_size - 1}")
        return ids

    def _rendered(self, messages: Sequence[Message]) -> list[int]:
        if self.chat is None:
            raise EngineError("the model knows no conversations; give it plain text")
        return self.chat.render(messages)

    def _job(self, prompt: PromptLike, guide: Guide, prefill: str, *, heal: bool) -> _Job:
        before, owed = self._ids(prompt), b""
        ids = [*before, *self.vocabulary.encode(prefill)]
        # A conversation ends where its template says: nothing to heal but the prefill's end.
        if heal and (prefill or isinstance(prompt, str)):
            ids, guide, owed = taken_back(ids, guide, self.vocabulary)
        num_given = max(0, len(ids) - len(before))
        return _Job(self._prompts.prompt(ids, num_given), guide, len(owed))


class _Job(NamedTuple):
    """A prompt, the guide of what comes behind it, and how many bytes of it are written again."""

    prompt: Prompt
    guide: Guide
    skip_bytes: int
