"""Answers that can be written down: one text, a choice between texts, a finite language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine.checks import check_kind, check_text, distinct_texts, encoded
from weighbridge.local_engine.guides.byte_language import ByteLanguage
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.guides.spelled import SpelledGuide
from weighbridge.local_engine.vocabulary import Vocabulary
from weighbridge.schemas.finite import FiniteLanguage, Literal


@dataclass(frozen=True, slots=True)
class Texts:
    """One text out of each part, written one after the other.

    Any tokenization is allowed, and a token may reach over the end of a part.

    Args:
        parts: the texts of each part, at least one.

    Raises:
        TaskInvalid: a part without texts, or a text with half a surrogate pair.
    """

    parts: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for part, texts in enumerate(self.parts):
            if not texts:
                raise TaskInvalid(self._pointer(part), "there is nothing to choose between")
            for place, text in enumerate(texts):
                encoded(text, self._pointer(part, place))

    def bind(self, vocabulary: Vocabulary) -> SpelledGuide:
        """See `Spec.bind`.

        Raises:
            TaskInvalid: the vocabulary cannot spell a text; the pointer names it.
        """
        parts = [[text.encode() for text in texts] for texts in self.parts]
        refuse_unspellable(parts, Lexicon.of(vocabulary), self._pointer)
        return SpelledGuide(ByteLanguage(parts), vocabulary)

    def _pointer(self, part: int, *place: int) -> str:
        """Where a text is; its part is named where there are several."""
        path = (part, *place) if len(self.parts) > 1 else place
        return "".join(f"/{step}" for step in path)


def literal(text: str) -> Texts:
    """Exactly this text.

    >>> literal("Answer: ").parts
    (('Answer: ',),)
    """
    check_text(text, "a literal")
    return Texts(((text,),))


def choice(options: Iterable[str]) -> Texts:
    """One of these texts.

    An empty option means that the answer may be empty. Where one option is the beginning of
    another, the model ends the text or goes on as it likes.

    Raises:
        TaskInvalid: no option, or one that was there before: a list with an option twice is a
            mistake somewhere, and would be read as one option with two places in it.

    >>> choice(["bug", "bugfix"]).parts
    (('bug', 'bugfix'),)
    """
    return Texts((distinct_texts(options, "options"),))


def finite(language: FiniteLanguage) -> Texts:
    """Every string of a finite language; the product of its choices is never listed.

    Raises:
        TaskInvalid: None, which is what `weighbridge.schemas.finite.language` makes of a schema
            whose answers it cannot list.
    """
    check_language(language)
    return Texts(
        tuple(
            (part.text,)
            if isinstance(part, Literal)
            else tuple(option.text for option in part.options)
            for part in language.parts
        )
    )


def check_language(language: object) -> None:
    """See that something is a finite language; raises like `finite`."""
    if language is None:
        raise TaskInvalid(
            "/language",
            "is None: `language(schema)` found no answers to list, since the schema is not finite, "
            "has too many or none",
            "Bound the schema (enum, const, boolean, required, additionalProperties: false), or "
            "write one answer with guides.json_schema(schema).",
        )
    wanted = "a finite language, as weighbridge.schemas.finite.language(schema) makes one"
    check_kind(language, FiniteLanguage, "language", wanted)


def refuse_unspellable(
    parts: Sequence[Sequence[bytes]], lexicon: Lexicon, pointer: Callable[[int, int], str]
) -> None:
    """See that every text of every part can be written in some way.

    `Vocabulary.encode` is not asked: it may put stand-ins where a vocabulary lacks a byte.

    Raises:
        TaskInvalid: no tokens spell it.
    """
    used = set[int]().union(*(set(text) for texts in parts for text in texts))
    suspect = used - lexicon.single_bytes(used)
    if not suspect:
        return
    for part, texts in enumerate(parts):
        for place, text in enumerate(texts):
            # Without its byte as a token, a text may still be spelled by longer ones, and they may
            # reach into the parts beside it.
            if not suspect.isdisjoint(text) and not _can_be_written(
                ByteLanguage([*parts[:part], [text], *parts[part + 1 :]]), lexicon
            ):
                raise TaskInvalid(
                    pointer(part, place),
                    "the vocabulary of the model has no tokens that spell this text",
                    "Leave out rare characters, or take another model.",
                )


def _can_be_written(language: ByteLanguage, lexicon: Lexicon) -> bool:
    waiting, seen = [language.start], {language.start}
    while waiting:
        state = waiting.pop()
        if language.is_whole(state):
            return True
        for _, after in lexicon.walk(state, language.branches):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return False
