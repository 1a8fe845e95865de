"""The gate: may software act on a field? One rule for each kind of evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never

from weighbridge.decision import FieldEvidence, Reason

Opinion: TypeAlias = Literal["agrees", "differs", "none"]

_UNTRIED = frozenset({Reason.UNCALIBRATED, Reason.NO_EVIDENCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Thresholds, each for the evidence that it applies to.

    Args:
        mass: least lower bound of the raw mass, for a language model's own numbers.
        probability: least probability of the chosen option.
        support: least support, where a label prior was asked.
        without_evidence: what happens to numbers that nobody has calibrated, and to answers
            without numbers. "accept" lets them pass, for those who trust a provider as it is;
            "second_opinion" lets them pass where another provider gives the same answer.
    """

    mass: float = 0.5
    probability: float = 0.8
    support: float = 0.5
    without_evidence: Literal["review", "accept", "second_opinion"] = "review"

    def judge(self, evidence: FieldEvidence, *, second: Opinion = "none") -> FieldEvidence:
        """The same evidence, with `accepted` and `reason` decided.

        Args:
            evidence: of one field.
            second: what another provider said of it.
        """
        reason = self._objection(evidence)
        if self.without_evidence == "second_opinion" and reason in _UNTRIED:
            reason = {"agrees": None, "differs": Reason.DISAGREEMENT, "none": reason}[second]
        return replace(evidence, accepted=reason is None, reason=reason)

    def _objection(self, evidence: FieldEvidence) -> Reason | None:
        match evidence.source:
            case "exact" | "premask":
                if not _enough(evidence.mass and evidence.mass[0], self.mass):
                    return Reason.LOW_MASS
                return self._too_improbable(evidence)
            case "prior" | "combined":
                if not _enough(evidence.support, self.support):
                    return Reason.LOW_SUPPORT
                return self._too_improbable(evidence)
            case "postmask" | "unknown_mask" | "vendor" | "agreement":
                return None if self.without_evidence == "accept" else Reason.UNCALIBRATED
            case "none":
                return None if self.without_evidence == "accept" else Reason.NO_EVIDENCE
            case _:
                assert_never(evidence.source)

    def _too_improbable(self, evidence: FieldEvidence) -> Reason | None:
        enough = _enough(evidence.probability, self.probability)
        return None if enough else Reason.LOW_PROBABILITY


def _enough(number: float | None, least: float) -> bool:
    # A missing number is no pass, nor is NaN: what is not known to be enough is too little.
    return number is not None and number >= least
