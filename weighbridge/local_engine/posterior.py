"""The exact posterior over a finite language: what the model says, given that it says a member.

Guided decoding, token by token, samples from something else: it renormalises at every step, so a
token that leads to one likely member and many unlikely ones gets too much. Here every member is
scored, and the sum is taken from the ends: q(child) = p(child) M(child) / M(node).

The scaffold between choices is given, not asked for: the probability of a member is that of its
options in turn, each closed, each behind the ones before it as the tokenizer would spell them.
Where a language is too large to score whole, unlikely beginnings are dropped, and the probability
that they could have had is reported.

Source: the exact case of grammar-aligned decoding (Park et al. 2024).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from weighbridge.decision import Json
from weighbridge.errors import EngineError, TaskInvalid
from weighbridge.local_engine.checks import check_whole, distinct_texts, encoded
from weighbridge.local_engine.scoring import Branch, ChoiceScores, Scores
from weighbridge.local_engine.spellings import END_OF_TEXT, Text, has_spelling
from weighbridge.local_engine.vocabulary import Vocabulary
from weighbridge.schemas.finite import Choice, FiniteLanguage, Literal, Option, Path

MAX_BRANCHES = 512  # beginnings that are followed from one choice to the next
_AHEAD = 16  # where there are no more of them, all are scored in one pass with the choice before


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One string of the language.

    Args:
        values: the option at each choice, in order.
        log_prob: natural log of its raw probability, temperature 1, scaffold given.
        probability: given that some member is said.
    """

    values: tuple[Json, ...]
    log_prob: float
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """A distribution over the members of a language.

    Args:
        language: the language.
        members: those scored, likeliest first; their probabilities sum to 1.
        mass: (low, high), certified bounds of the raw probability that any member is said, in any
            spelling, dropped ones included in the upper one: the *language mass*.
        decision_mass: raw probability of the tokens that may begin the first choice.
        dropped: raw probability that what was not followed or looked at could have; 0 where all
            was.
        near_misses: (low, high), bounds of the raw probability that the first choice is answered
            with one of its options in other case, number or spacing: high, where the model means an
            option and writes it wrongly. None if it was not asked for.
    """

    language: FiniteLanguage
    members: tuple[Member, ...]
    mass: tuple[float, float]
    decision_mass: float
    dropped: float
    near_misses: tuple[float, float] | None = None

    @property
    def best(self) -> Json:
        """The likeliest member as a value."""
        return self.value(self.members[0])

    def value(self, member: Member) -> Json:
        """A member as a JSON value."""
        if len(member.values) == 1 and self.language.choices[0].path == ():
            return member.values[0]
        paths = (choice.path for choice in self.language.choices)
        return self.language.value(dict(zip(paths, member.values, strict=True)))

    def joint(self) -> dict[str, float]:
        """The probability of each member by its JSON text, likeliest first."""
        return {
            json.dumps(self.value(member), ensure_ascii=False): member.probability
            for member in self.members
        }

    def marginal(self, path: Path = ()) -> dict[str, float]:
        """The probability of each option of one choice, by its JSON text; sums to 1.

        Args:
            path: property names from the root of the answer.

        Raises:
            KeyError: there is no choice at this path.
        """
        places = [i for i, choice in enumerate(self.language.choices) if choice.path == path]
        if not places:
            known = [choice.path for choice in self.language.choices]
            raise KeyError(f"no choice at {path!r}, but at {known}")
        choice = self.language.choices[places[0]]
        sums = {json.dumps(option.value, ensure_ascii=False): 0.0 for option in choice.options}
        for member in self.members:
            text = json.dumps(member.values[places[0]], ensure_ascii=False)
            sums[text] += member.probability
        return sums

    def sample(self, count: int, seed: int = 0) -> list[Json]:
        """Independent draws, as values; the same seed draws the same.

        Raises:
            ValueError: a negative count.
        """
        check_whole(count, "count", 0)
        check_whole(seed, "seed")
        if count == 0:  # which torch refuses
            return []
        weights = torch.tensor([m.probability for m in self.members], dtype=torch.float64)
        random = torch.Generator().manual_seed(seed % 2**64)
        drawn = torch.multinomial(weights, count, replacement=True, generator=random)
        return [self.value(self.members[i]) for i in drawn.tolist()]


def posterior(
    language: FiniteLanguage,
    scores: Scores,
    encode: Callable[[str], list[int]],
    *,
    max_branches: int = MAX_BRANCHES,
) -> Posterior:
    """Score the members of a language.

    Args:
        language: its first literal must stand at the end of the prompt already.
        scores: at the prompt.
        encode: the model's tokenizer.
        max_branches: beginnings to follow from one choice to the next, the likeliest first.

    Raises:
        EngineError: the model gives no member any probability at all, or see `Scorer.score`.
    """
    followed = [_Beginning(values=(), log_prob=0.0, prefix=())]
    dropped = slack = 0.0
    unseen, mass, decision_mass = 0.0, (1.0, 1.0), 1.0
    for number, (choice, literal) in enumerate(language.turns):
        if len(followed) > max_branches:
            followed.sort(key=lambda place: -place.log_prob)
            dropped += math.fsum(math.exp(place.log_prob) for place in followed[max_branches:])
            del followed[max_branches:]
        is_last = number == len(language.turns) - 1
        tails = [() if is_last else behind(option, literal, encode) for option in choice.options]
        ahead: list[Branch] = []
        if not is_last and len(followed) * len(tails) <= _AHEAD:
            prefixes = [(*place.prefix, *tail) for place in followed for tail in tails]
            ahead = _branches(prefixes, language.turns[number + 1][0])
        scored = scores.of(_branches([place.prefix for place in followed], choice), ahead)
        # Behind another spelling of an option, all could be said or nothing; so it stays open.
        slack += mass[1] - mass[0]
        mass = _mass(followed, scored)
        unseen += math.fsum(
            math.exp(place.log_prob) * scores.dropped
            for place, scores in zip(followed, scored, strict=True)
        )
        if number == 0:
            decision_mass = scored[0].decision_mass
        followed = _continued(followed, scored, choice, tails)
    return Posterior(
        language=language,
        members=_normalised(followed),
        mass=(mass[0], min(1.0, mass[1] + slack + dropped)),
        decision_mass=decision_mass,
        dropped=dropped + unseen,
    )


def of_texts(texts: Sequence[str]) -> FiniteLanguage:
    """The language of some texts, each closed by end of text.

    Raises:
        TaskInvalid: no texts, one twice, or one with half a surrogate pair.
    """
    options = distinct_texts(texts, "options")
    if not options:
        raise TaskInvalid("", "there is nothing to choose from")
    for place, text in enumerate(options):
        encoded(text, f"/{place}")
    return FiniteLanguage((Choice((), tuple(Option(text, text, END_OF_TEXT) for text in options)),))


def opening(language: FiniteLanguage) -> str:
    """The text before the first choice, which stands at the end of the prompt; "" for none."""
    first = language.parts[0] if language.parts else None
    return first.text if isinstance(first, Literal) else ""


def near_miss_mass(
    language: FiniteLanguage, scores: Scores, vocabulary: Vocabulary
) -> tuple[float, float]:
    """Bounds of the raw probability that the first choice is answered, but spelled otherwise.

    Args:
        language: where there is nothing to choose, nothing can be spelled wrongly.
        scores: at the prompt.
        vocabulary: of the model; what it cannot spell is never said.
    """
    if not language.choices:
        return 0.0, 0.0
    choice = language.choices[0]
    right = {Text(option.stem, option.closer) for option in choice.options}
    wrong = {Text(stem, o.closer): None for o in choice.options for stem in _misspelled(o.stem)}
    texts = tuple(t for t in wrong if t not in right and has_spelling(vocabulary, t.stem))
    return scores.of([Branch(prefix=(), texts=texts)])[0].mass if texts else (0.0, 0.0)


def _misspelled(stem: str) -> list[str]:
    """A text in other case, number and spacing."""
    spaced, hyphened = stem.replace("_", " "), stem.replace("_", "-")
    number = stem[:-1] if stem.endswith("s") else f"{stem}s"
    cases = stem.lower(), stem.upper(), stem.capitalize(), spaced.title()
    forms = *cases, spaced, hyphened, number, f" {stem}", f"{stem} "
    return [form for form in forms if form.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beginning:
    """Options chosen so far: their raw log-probability, and their tokens after the prompt."""

    values: tuple[Json, ...]
    log_prob: float
    prefix: tuple[int, ...]


def behind(option: Option, literal: str, encode: Callable[[str], list[int]]) -> tuple[int, ...]:
    """The tokens of an option and of the literal behind it.

    The closing character begins the second run of tokens, as the tokenizer itself would have it.
    """
    closing = option.text.removeprefix(option.stem) + literal
    return (*encode(option.stem), *encode(closing))


def _branches(prefixes: Sequence[tuple[int, ...]], choice: Choice) -> list[Branch]:
    texts = tuple(Text(option.stem, option.closer) for option in choice.options)
    return [Branch(prefix=prefix, texts=texts) for prefix in prefixes]


def _mass(followed: Sequence[_Beginning], scored: Sequence[ChoiceScores]) -> tuple[float, float]:
    """Bounds of the probability that a followed beginning goes on with any option."""
    low, high = (
        math.fsum(
            math.exp(place.log_prob) * scores.mass[side]
            for place, scores in zip(followed, scored, strict=True)
        )
        for side in (0, 1)
    )
    return low, high


def _continued(
    followed: Sequence[_Beginning],
    scored: Sequence[ChoiceScores],
    choice: Choice,
    tails: Sequence[tuple[int, ...]],
) -> list[_Beginning]:
    return [
        _Beginning(
            values=(*place.values, option.value),
            log_prob=place.log_prob + log_prob,
            prefix=(*place.prefix, *tail),
        )
        for place, scores in zip(followed, scored, strict=True)
        for option, tail, log_prob in zip(
            choice.options, tails, scores.log_probs.tolist(), strict=True
        )
    ]


def _normalised(followed: Sequence[_Beginning]) -> tuple[Member, ...]:
    log_probs = torch.tensor([place.log_prob for place in followed], dtype=torch.float64)
    if not bool((log_probs > -torch.inf).any()):
        raise EngineError("the model gives no answer of the language any probability at all")
    probabilities = log_probs.softmax(0).tolist()
    members = [
        Member(values=place.values, log_prob=place.log_prob, probability=probability)
        for place, probability in zip(followed, probabilities, strict=True)
    ]
    return tuple(sorted(members, key=lambda member: -member.log_prob))
