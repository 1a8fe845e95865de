"""Labels: how sure the machine was of its answers, and whether a person found them right.

Every statistic of this package is made of them. They must be a uniform sample of the traffic, which
is what the audit coin draws; answers that were reviewed because they looked doubtful are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Shortfall = Literal[
    "too_few_labels",
    "too_many_errors",  # the observed error is above what was asked for
    "too_little_traffic",  # tickets, labelled or not
    "nothing_accepted",  # no traffic reaches any threshold
    "one_outcome",  # all right, or all wrong
    "one_confidence",  # nothing to tell the answers apart by
    "contradicting",  # the surer the machine, the more often wrong
    "separated",  # a threshold parts right from wrong, so an unregularised slope has no end
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Audited answers to one field, in the order in which they were given.

    Args:
        confidences: 0 to 1. An answer without evidence has 0: it is no evidence for anything, and
            leaving it out would make the machine look better than it is.
        correct: whether a person found the answer right. *Unsure* counts as not right; leaving it
            out would void every guarantee.

    Raises:
        ValueError: the lengths differ, or a value is none of these.
    """

    confidences: Sequence[float]
    correct: Sequence[bool]

    def __post_init__(self) -> None:
        confidences = tuple(float(confidence) for confidence in self.confidences)
        if len(confidences) != len(self.correct):
            raise ValueError(
                "want one outcome for each confidence,"
                f" got {len(self.correct)} for {len(confidences)}"
            )
        for place, confidence in enumerate(confidences):
            if not 0 <= confidence <= 1:  # NaN as well
                raise ValueError(f"want confidences from 0 to 1, got {confidence} at {place}")
        for place, outcome in enumerate(self.correct):
            # bool(nan) is True: a missing verdict must not pass for a right answer.
            if outcome is None or not (outcome == 0 or outcome == 1):
                raise ValueError(f"want outcomes that are true or false, got another at {place}")
        object.__setattr__(self, "confidences", confidences)
        object.__setattr__(self, "correct", tuple(bool(outcome) for outcome in self.correct))

    def __len__(self) -> int:
        return len(self.confidences)

    @property
    def num_errors(self) -> int:
        """How many were not right."""
        return len(self) - sum(self.correct)

    def tallies(self, thresholds: Sequence[float]) -> list[tuple[int, int]]:
        """(accepted, wrong among them) at each threshold; accepted is confidence ≥ threshold.

        Args:
            thresholds: falling.

        >>> Labels(confidences=[0.9, 0.7, 0.7], correct=[True, False, True]).tallies([0.8, 0.7])
        [(1, 0), (3, 1)]
        """
        falling = sorted(zip(self.confidences, self.correct, strict=True), reverse=True)
        found, place, wrong = [], 0, 0
        for threshold in thresholds:
            while place < len(falling) and falling[place][0] >= threshold:
                wrong += not falling[place][1]
                place += 1
            found.append((place, wrong))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NotYet:
    """What comes back in place of a number that the labels do not carry.

    Args:
        what: what was asked for, as an adjective: "certifiable", "calibrated", "estimable".
        reason: what is missing.
        needed: labels (of too little traffic: tickets) that must still come, at the least
            and if all goes well; None where no number of them is known to help.

    >>> print(NotYet(what="certifiable", reason="too_few_labels", needed=59))
    not certifiable yet (too few labels): 59 more audited labels needed
    """

    what: Literal["certifiable", "calibrated", "estimable"]
    reason: Shortfall
    needed: int | None = None

    def __str__(self) -> str:
        short = f"not {self.what} yet ({self.reason.replace('_', ' ')})"
        if self.needed is None:
            return short
        least = "" if self.reason.startswith("too_few") else "at least "
        # What people see while they judge, or agree on, is estimated without any audit.
        kind = "label" if self.what == "estimable" else "audited label"
        noun = "ticket" if self.reason == "too_little_traffic" else kind
        return f"{short}: {least}{self.needed} more {noun}{'' if self.needed == 1 else 's'} needed"
