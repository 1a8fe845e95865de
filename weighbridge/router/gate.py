"""The gate: may software act on a field? One rule for each kind of evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from weighbridge.decision import FieldEvidence, Reason, Ruling

Opinion: TypeAlias = Literal["agrees", "differs", "none"]

# What speaks against an answer whatever its probability, and whatever audits say of its like.
VETOES: Final = frozenset({Reason.LOW_MASS, Reason.LOW_SUPPORT, Reason.DISAGREEMENT})

_KNOWN: Final = frozenset({"exact", "premask", "prior", "combined"})  # what their numbers mean is

_NO_RULING: Final = Ruling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Thresholds, each for the evidence that it applies to.

    Args:
        mass: least lower bound of the raw mass, for a language model's own numbers.
        probability: least probability of the chosen option, and where a calibrator was fitted the
            least probability of being right.
        support: least support, where a label prior was asked.
        without_evidence: what happens to numbers that nobody has calibrated, and to answers
            without numbers. "accept" lets them pass, for those who trust a provider as it is;
            "second_opinion" lets them pass where another provider gives the same answer.
    """

    mass: float = 0.5
    probability: float = 0.8
    support: float = 0.5
    without_evidence: Literal["review", "accept", "second_opinion"] = "review"

    def judge(
        self, evidence: FieldEvidence, *, second: Opinion = "none", ruling: Ruling = _NO_RULING
    ) -> FieldEvidence:
        """The same evidence, with `accepted` and `reason` decided.

        A certificate in force decides by its threshold, else a calibrator by what it makes of the
        probability, else the rule for evidence of that source. Neither outweighs a veto.

        Args:
            evidence: of one field.
            second: what another provider said of it.
            ruling: what audits say of such answers.
        """
        reason = self._veto(evidence, second)
        if reason is None:
            reason = (
                Reason.ALARM if ruling.is_alarmed else self._objection(evidence, second, ruling)
            )
        return replace(evidence, accepted=reason is None, reason=reason)

    def _veto(self, evidence: FieldEvidence, second: Opinion) -> Reason | None:
        match evidence.source:
            case "exact" | "premask":
                lower = evidence.mass and evidence.mass[0]
                return None if _enough(lower, self.mass) else Reason.LOW_MASS
            case "prior" | "combined":
                return None if _enough(evidence.support, self.support) else Reason.LOW_SUPPORT
            case "postmask" | "unknown_mask" | "vendor" | "agreement" | "none":
                has_asked = self.without_evidence == "second_opinion"
                return Reason.DISAGREEMENT if has_asked and second == "differs" else None
            case _:
                assert_never(evidence.source)

    def _objection(self, evidence: FieldEvidence, second: Opinion, ruling: Ruling) -> Reason | None:
        probability, source = evidence.probability, evidence.source
        if ruling.guarantee is not None:
            is_enough = _enough(probability, ruling.guarantee.threshold)
            return None if is_enough else Reason.LOW_PROBABILITY
        if ruling.probability is not None:
            # 0 is no evidence, and no calibrator makes some of it; NaN is not even that.
            is_known = probability is not None and probability > 0
            right = ruling.probability(min(1.0, probability)) if is_known and probability else None
            return None if _enough(right, self.probability) else Reason.LOW_PROBABILITY
        if source in _KNOWN:
            return None if _enough(probability, self.probability) else Reason.LOW_PROBABILITY
        has_asked = self.without_evidence == "second_opinion"
        if self.without_evidence == "accept" or (has_asked and second == "agrees"):
            return None
        return Reason.NO_EVIDENCE if source == "none" else Reason.UNCALIBRATED


def _enough(number: float | None, least: float) -> bool:
    # A missing number is no pass, nor is NaN: what is not known to be enough is too little.
    return number is not None and number >= least
