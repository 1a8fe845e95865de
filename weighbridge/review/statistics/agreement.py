"""Agreement: how far two reviewers, or two providers, say the same; and what that is worth.

Two who agree can be wrong together. If errors were independent that would be rare; they are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from weighbridge.review.statistics.checks import check_share
from weighbridge.review.statistics.labels import NotYet


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two raters over the same items.

    Args:
        num_items: judged by both.
        raw: share that both gave the same label.
        by_chance: share that they would, each keeping to how often they use a label.
        kappa: (raw - by_chance) / (1 - by_chance): 1 is perfect, 0 is chance. `NotYet` where both
            only ever gave one and the same label, which says nothing about either.
    """

    num_items: int
    raw: float
    by_chance: float
    kappa: float | NotYet


def agreement_of(pairs: Iterable[tuple[Hashable, Hashable]]) -> Agreement | NotYet:
    """Raw agreement and Cohen's kappa.

    Args:
        pairs: the two labels of each item. Labels are the same where they are equal.

    Returns:
        `NotYet` without any item.

    Source: Cohen 1960.
    """
    counts = Counter(pairs)
    num_items = counts.total()
    if not num_items:
        return NotYet(what="estimable", reason="too_few_labels", needed=1)
    first: Counter[Hashable] = Counter()
    second: Counter[Hashable] = Counter()
    for (one, other), count in counts.items():
        first[one] += count
        second[other] += count
    same = sum(count for (one, other), count in counts.items() if one == other)
    # In integers, so that "always by chance" is met exactly.
    chances = sum(count * second[label] for label, count in first.items())
    raw, by_chance = same / num_items, chances / num_items**2
    return Agreement(
        num_items=num_items,
        raw=raw,
        by_chance=by_chance,
        kappa=NotYet(what="estimable", reason="one_outcome", needed=1)
        if chances == num_items**2
        else (raw - by_chance) / (1 - by_chance),
    )


def wrong_though_independent(accuracy: float, num_options: int) -> float:
    """P(wrong | two agree) if errors were independent and spread evenly: a bound to hope for.

    Args:
        accuracy: of each of the two.
        num_options: at least 2.

    Raises:
        ValueError: an accuracy not in (0, 1], or fewer than two options.
    """
    if not 0 < accuracy <= 1 or num_options < 2:
        raise ValueError("want an accuracy above 0 and at most 1, and at least two options")
    return wrong_though_agreed(
        both_right=accuracy**2, both_wrong=(1 - accuracy) ** 2, same_error=1 / (num_options - 1)
    )


def wrong_though_agreed(*, both_right: float, both_wrong: float, same_error: float) -> float:
    """P(wrong | two agree), from how often they are wrong together.

    Args:
        both_right: share of answers that both get right.
        both_wrong: share that both get wrong.
        same_error: share of these in which both give the same label.

    Raises:
        ValueError: a share outside 0 to 1, more than one in sum, or two that never agree.
    """
    for name, share in (
        ("both_right", both_right),
        ("both_wrong", both_wrong),
        ("same_error", same_error),
    ):
        check_share(name, share)
    agreed_wrong = both_wrong * same_error
    if both_right + both_wrong > 1 + 1e-9 or not both_right + agreed_wrong:
        raise ValueError("want shares of one whole, and two that agree at times")
    return agreed_wrong / (both_right + agreed_wrong)
