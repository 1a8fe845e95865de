"""The local engine: writes under guides, weighs finite languages exactly, and shows its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from types import MappingProxyType
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor

from weighbridge.errors import EngineError
from weighbridge.local_engine.answers import Answer, AnswerWriter, Writing
from weighbridge.local_engine.catalogue import cache_folder, locate
from weighbridge.local_engine.chat_template import ChatTemplate
from weighbridge.local_engine.checks import (
    check_kind,
    check_text,
    check_whole,
    encoded,
    unwanted,
)
from weighbridge.local_engine.decoding.generation import Generation
from weighbridge.local_engine.encoder import Encoder
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.local_engine.guides.texts import check_language
from weighbridge.local_engine.learned.artefact import Models
from weighbridge.local_engine.learned.head import Head
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
from weighbridge.local_engine.prior import LabelPrior, PriorOpinion
from weighbridge.local_engine.prompts import PromptEncoder, PromptLike
from weighbridge.local_engine.scoring import Scorer, Scores
from weighbridge.local_engine.tickets import TicketWeigher, Weighed
from weighbridge.local_engine.vocabulary import Vocabulary
from weighbridge.local_engine.weighing import FieldSpec
from weighbridge.schemas.finite import FiniteLanguage, Path

if TYPE_CHECKING:
    from weighbridge.local_engine.picture.explanation import Explanation


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
        TypeError: no model, or no vocabulary.
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
        if not hasattr(model, "forward"):
            raise unwanted("model", "a language model, such as ModuleModel(module, …)", model)
        if not hasattr(vocabulary, "encode"):
            raise unwanted("vocabulary", "a tokenizer or a TableVocabulary", vocabulary)
        check_whole(max_ticket_tokens, "max_ticket_tokens", 1)
        if vocabulary.vocab_size != model.vocab_size:
            raise EngineError(
                f"the vocabulary has {vocabulary.vocab_size} tokens, the model's logits are "
                f"{model.vocab_size} wide; give the vocabulary the width of the logits"
            )
        self.model, self.vocabulary, self.chat, self.prior = model, vocabulary, chat, prior
        self.name, self.fingerprint = name or type(model).__name__, fingerprint
        self._scorer, self._prompts = Scorer(model, vocabulary), PrefixCache(model)
        self._encoder = PromptEncoder(vocabulary, chat, bos_id)
        self._answers = AnswerWriter(model, vocabulary, self._encoder, self._prompts)
        self._tickets = None
        if chat is not None:
            self._tickets = TicketWeigher(
                model, vocabulary, chat, self._scorer, prior, max_ticket_tokens
            )

    @classmethod
    def load(
        cls,
        generator: str | PathLike[str] = "smollm2-135m",
        *,
        prior: str | PathLike[str] | None = "all-minilm-l6-v2",
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
            ValueError, TypeError: an argument outside its range, or of another kind.
        """
        # All that can be wrong without a look into a file comes first: files take seconds.
        check_whole(max_ticket_tokens, "max_ticket_tokens", 1)
        device = best_device()
        precision = precision_for(device, precision)
        check_kind(generator, (str, PathLike), "generator", "a known name or a path")
        source = locate(fspath(generator), "generator")
        encoder = None
        if prior is not None:
            check_kind(prior, (str, PathLike), "prior", "a known name, a path, or None for none")
            encoder = locate(fspath(prior), "encoder")
        if threads is not None:
            check_whole(threads, "threads", 1)
            torch.set_num_threads(threads)
        folder = converted(source, cache_folder(), precision)
        loaded = load_generator(folder, device)
        return cls(
            loaded.model,
            loaded.tokenizer,
            chat=loaded.chat(),
            bos_id=loaded.bos_id,
            name=fspath(generator),
            fingerprint=loaded.fingerprint,
            prior=None
            if encoder is None
            else LabelPrior(Encoder.load(encoder), cache_folder() / "embeddings"),
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
            SchemaRefused, TaskInvalid: the guide cannot be had, or there is no prompt; nothing has
                been read then.
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
        (answer,) = self._answers.write([prompt], guide, 1, **how)
        if not isinstance(answer, Generation):
            raise answer
        return answer

    def generate_many(
        self,
        prompts: Sequence[PromptLike],
        guide: Spec | None = None,
        *,
        samples: int = 1,
        **how: Unpack[Writing],
    ) -> list[Answer]:
        """Write answers to several prompts at once; each is what `generate` would have written.

        Args:
            prompts: any number.
            guide: for all of them; bound once.
            samples: answers to each prompt, the seed going up by one from each to the next.
            how: see `Writing`.

        Returns:
            The answers to the first prompt, then those to the second, and so on; where there is
            none, the error that `generate` would have raised: a prompt that is empty or too long
            leaves the others alone.

        Raises:
            SchemaRefused, TaskInvalid, ValueError, TypeError: see `generate`.
        """
        return self._answers.write(prompts, guide, samples, **how)

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
            TaskInvalid: no texts, one twice, or None for a language.
            ContextTooLong, EngineError: see `generate`.
        """
        if hasattr(language, "bind"):
            raise unwanted("language", "a finite language or texts, which need no guide", language)
        if isinstance(language, FiniteLanguage | None):
            check_language(language)
        else:
            language = of_texts(language)
        ids = [*self._encoder.ids(prompt), *self.vocabulary.encode(opening(language))]
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
        answer, ids = self.generate(prompt, guide, **how), self._encoder.ids(prompt)
        read = b"".join(self.vocabulary.token_bytes[token] for token in ids)
        return Explanation(
            generation=answer,
            prompt_tokens=len(ids),
            model=self.name,
            guide="" if guide is None else guide_name(guide),
            prompt=read.decode(errors="replace"),
        )

    @property
    def models(self) -> Models | None:
        """What heads are bound to; None without a label prior, when there can be none."""
        if self.prior is None:
            return None
        return Models(encoder=self.prior.fingerprint, generator=self.fingerprint)

    def weigh(
        self,
        system: str,
        ticket: str,
        language: FiniteLanguage,
        fields: Sequence[FieldSpec],
        heads: Mapping[Path, Head] = MappingProxyType({}),
    ) -> Weighed:
        """Weigh every answer to one ticket, the label prior included.

        Args:
            system: the instructions, equal for every ticket of a task; read once.
            ticket: plain text; what looks like a control token in it is plain text too.
            language: the answers.
            fields: the fields to report.
            heads: what was learned about some of them, by path; of no use without a label prior.

        Raises:
            EngineError: the model knows no conversations, or see `generate`.
        """
        check_language(language)
        check_text(system, "system")
        encoded(ticket, "/ticket")
        return self._weigher().weigh(system, ticket, language, fields, heads)

    def zero_shot(
        self, texts: Sequence[str], spec: FieldSpec
    ) -> tuple[Tensor, Tensor, list[PriorOpinion]]:
        """What a head is fitted on; see `TicketWeigher.zero_shot`.

        Raises:
            EngineError: there is no label prior, the model knows no conversations, or see
                `generate`.
        """
        return self._weigher().zero_shot(texts, spec)

    def _weigher(self) -> TicketWeigher:
        if self._tickets is None:
            raise EngineError("tickets are weighed in a conversation; the model has no template")
        return self._tickets
