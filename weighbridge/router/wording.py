"""Wording: which concepts a text speaks of, and which rules over them hold in one sentence.

Words are looked up instead of searched for: a text is cut into words once, and each word is asked
for in a table. So the time grows with the text alone, however hostile, and hardly with the table.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_WORD = re.compile(r"\w+")
# Folded texts have no full-width signs but the full stop of Chinese and Japanese.
_PAUSE = re.compile(r"[.!?;]\s|[\u3002\n]")
# What follows an answer that was dictated: the end of the clause, or a word that goes on with more.
_CLAUSE_END = re.compile(
    r"[\"'\u201d\u2019`*)\]_]*\s*(?:$|[.,;:!?)(\]}|&/\u3001\u3002\n]"
    r"|(?:and|with|only|or|nothing|for|in|because|from|until|please|priority|now|whatever|forever"
    r"|und|et|y|e|и|ein|aus)\b|[^\x00-\u024f])"
)
# Scripts that put no space between words: Thai to Khmer, kana and Han, Hangul.
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)

_MOST_WORDS_KEPT = 10_000
_LONGEST_WORD = 40
_RIGHT_BEFORE = 8  # characters: a short word between

Span = tuple[int, int]
Spans = Mapping[str, Sequence[Span]]
_Entry = tuple[list[str], str]  # the words behind the first, and the concept


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Concepts that mean something where they stand together.

    Args:
        sign: what it is a sign of.
        concepts: all must be there; those behind the first stand near it.
        within: characters between the first and each other one, at most.
        ordered: the others stand behind the first.
        glue: only words of the concept `glue` stand between.
        ends: the last concept ends its clause.
        not_after: a concept of which no word stands right before the first: nobody is told to do
            what somebody does himself ("I choose billing").
    """

    sign: str
    concepts: tuple[str, ...]
    within: int = 0
    ordered: bool = False
    glue: bool = False
    ends: bool = False
    not_after: str = ""


class Wording:
    """A table of words by concept.

    Args:
        words: entries by concept. An entry is one word or several in a row; a star behind a word
            stands for any ending.
    """

    def __init__(self, words: Mapping[str, Iterable[str]]) -> None:
        self._exact: dict[str, list[_Entry]] = defaultdict(list)
        self._stems: dict[str, list[_Entry]] = defaultdict(list)
        self._anywhere: list[tuple[str, str]] = []
        for concept, entries in words.items():
            for entry in entries:
                self._add(concept, fold(entry))
        self._stem_lengths = sorted({len(stem) for stem in self._stems})
        # Tickets share most of their words.
        self._beginning_with = lru_cache(maxsize=_MOST_WORDS_KEPT)(self._look_up)

    def _add(self, concept: str, entry: str) -> None:
        if _NO_SPACES.search(entry):
            self._anywhere.append((entry, concept))
            return
        # "ki modell*" is two words, the second with a star; other signs part words as in texts.
        first, *rest = re.findall(r"\w+\*?", entry) or [""]
        if first.endswith("*"):
            self._stems[first[:-1]].append((rest, concept))
        elif first:
            self._exact[first].append((rest, concept))

    def spans(self, text: str) -> dict[str, list[Span]]:
        """Where each concept is named, in the order of the text.

        Args:
            text: as `fold` returns it.
        """
        found: dict[str, list[Span]] = defaultdict(list)
        places = [match.span() for match in _WORD.finditer(text)]
        words = [text[start:end] for start, end in places]
        for at, word in enumerate(words):
            for rest, concept in self._beginning_with(word[:_LONGEST_WORD]):
                if not rest or _follow(words, at + 1, rest):
                    found[concept].append((places[at][0], places[at + len(rest)][1]))
        if not text.isascii() and _NO_SPACES.search(text):
            for entry, concept in self._anywhere:
                found[concept] += [match.span() for match in re.finditer(re.escape(entry), text)]
            for spans in found.values():
                spans.sort()
        return found

    def _look_up(self, word: str) -> tuple[_Entry, ...]:
        found = list(self._exact.get(word, ()))
        for length in self._stem_lengths:
            if length <= len(word):
                found += self._stems.get(word[:length], ())
        return tuple(found)


def signs_of(text: str, spans: Spans, rules: Iterable[Rule]) -> set[str]:
    """The signs of the rules that hold in a text.

    Args:
        text: as `fold` returns it.
        spans: of this text, see `Wording.spans`.
        rules: each is gone through until it holds once.
    """
    signs: set[str] = set()
    named = {concept for concept, where in spans.items() if where}
    for rule in rules:
        if rule.sign not in signs and named.issuperset(rule.concepts):
            first, *others = rule.concepts
            for span in spans[first]:
                if _is_right_after(span, spans.get(rule.not_after, ())):
                    continue
                if all(_is_near(text, span, spans[other], rule, spans) for other in others):
                    signs.add(rule.sign)
                    break
    return signs


def fold(text: str) -> str:
    """A text without what case, accents and typography add; entries and texts are folded alike.

    >>> fold("Ignorez les RÈGLES")
    'ignorez les regles'
    """
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in apart if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFKC", bare).casefold()


def _follow(words: Sequence[str], at: int, wanted: Sequence[str]) -> bool:
    """Whether the wanted words stand in a row, from a place on."""
    if at + len(wanted) > len(words) or not _is(words[at], wanted[0]):
        return False
    return all(map(_is, words[at + 1 : at + len(wanted)], wanted[1:]))


def _is(word: str, wanted: str) -> bool:
    return word.startswith(wanted[:-1]) if wanted.endswith("*") else word == wanted


def _is_near(text: str, span: Span, others: Sequence[Span], rule: Rule, spans: Spans) -> bool:
    """Whether one of the others stands where the rule wants it: the nearest on either side do."""
    start, end = span
    behind = bisect_left(others, (end, 0))
    for other in others[behind : behind + 2]:
        if _is_joined(text, end, other[0], rule, spans) and _ends(text, other, rule):
            return True
    if rule.ordered:
        return False
    before = bisect_left(others, (start, 0)) - 1
    return before >= 0 and _is_joined(text, others[before][1], start, rule, spans)


def _is_joined(text: str, begin: int, end: int, rule: Rule, spans: Spans) -> bool:
    if not 0 <= end - begin <= rule.within:
        return False
    gap = text[begin:end]
    if _PAUSE.search(gap):
        return False
    if not rule.glue:
        return True
    glue = spans.get("glue", ())
    at = bisect_left(glue, (begin, 0))
    inside = {span[0] for span in glue[at : at + rule.within]}
    return all(begin + word.start() in inside for word in _WORD.finditer(gap))


def _ends(text: str, span: Span, rule: Rule) -> bool:
    return not rule.ends or _CLAUSE_END.match(text, span[1]) is not None


def _is_right_after(span: Span, others: Sequence[Span]) -> bool:
    before = bisect_left(others, span) - 1
    return before >= 0 and span[0] - others[before][1] <= _RIGHT_BEFORE
