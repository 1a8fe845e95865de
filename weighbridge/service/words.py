"""Words: reasons, numbers and times as people say them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from weighbridge.decision import Reason
from weighbridge.errors import WeighbridgeError

_REASONS: Final[dict[str, tuple[str, str]]] = {
    Reason.LOW_MASS: ("low mass", "Left to itself, the model would have said something else."),
    Reason.LOW_PROBABILITY: ("no clear label", "No label stood out enough."),
    Reason.LOW_SUPPORT: ("unlike the labels", "The ticket is far from every label it could have."),
    Reason.UNCALIBRATED: ("number unproven", "A number came, and nobody knows yet what it means."),
    Reason.NO_EVIDENCE: ("no number", "The answer came without any number to weigh it by."),
    Reason.NO_ANSWER: ("no answer", "Nobody who was asked gave an answer that could be used."),
    Reason.EMPTY_TICKET: ("empty ticket", "There is no text to go by."),
    Reason.REFUSAL: ("refused", "The model declined to answer."),
    Reason.DISAGREEMENT: ("disagreement", "Two answers were compared, and they differ."),
    Reason.INJECTION_SUSPECTED: (
        "tampering suspected",
        "The text seems to give orders to the machine. Judge it for what the customer wants.",
    ),
    Reason.LANGUAGE: ("language", "The ticket is in a language that was not learned."),
    Reason.AUDIT: (
        "random check",
        "Drawn by lot to measure the machine. Nothing is wrong with it.",
    ),
    Reason.ALARM: ("alarm", "Checks say that such answers have got worse than was promised."),
}

_SOURCES: Final = {
    "exact": "scored exactly by the local model",
    "premask": "the model's own probability, before it was forced",
    "postmask": "taken after the model was forced into the labels",
    "unknown_mask": "taken before or after forcing; nobody knows",
    "prior": "by likeness to the labels alone",
    "combined": "language model and likeness to the labels together",
    "vendor": "the vendor's own figure",
    "agreement": "by how many answers agreed",
    "none": "no number came with it",
}


def reason(code: str) -> str:
    """A reason in a word or two.

    >>> reason("low_mass"), reason("brand_new")
    ('low mass', 'brand new')
    """
    return _REASONS[code][0] if code in _REASONS else code.replace("_", " ")


def reason_hint(code: str) -> str:
    """What a reason means; "" if it is not one of ours."""
    return _REASONS[code][1] if code in _REASONS else ""


def evidence(field: Mapping[str, Any]) -> list[str]:
    r"""What is known about one field of an answer, a sentence each.

    Args:
        field: a `FieldEvidence` as stored in a decision.

    >>> evidence({"source": "exact", "mass": [0.0007, 0.0009], "support": None, "notes": []})[1]
    'Before being forced, the model gave these labels 0.08\xa0% of its probability.'
    """
    said = [f"Source: {_SOURCES.get(str(field.get('source')), 'unknown')}."]
    mass, support = field.get("mass"), field.get("support")
    if mass is not None:
        # The interval is mostly narrow; its middle is what can be said in one breath.
        share = percent((mass[0] + mass[1]) / 2)
        said.append(f"Before being forced, the model gave these labels {share} of its probability.")
    if support is not None:
        said.append(f"Likeness to any label at all: {percent(support)}.")
    return [*said, *map(str, field.get("notes") or ())]


def mistake(error: WeighbridgeError) -> str:
    """What went wrong, and what to do about it.

    >>> from weighbridge.errors import PersonRefused
    >>> mistake(PersonRefused("ann", "there is somebody of this name", "Take another."))
    "'ann': there is somebody of this name. Take another."
    """
    return f"{error}. {error.hint}".strip()


def percent(share: float | None) -> str:
    r"""A share in as many figures as mean something; the space before the sign does not break.

    >>> [percent(share).replace("\xa0", " ") for share in (0.0007, 0.073, 0.912, 1.0, None)]
    ['0.07 %', '7.3 %', '91 %', '100 %', 'unknown']
    >>> [percent(share).replace("\xa0", " ") for share in (0.99999, 1e-9, 0.0)]
    ['more than 99.9 %', 'less than 0.01 %', '0 %']
    """
    if share is None:
        return "unknown"
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}\xa0%"
    if share < 0.0001:
        return "less than 0.01\xa0%"
    if share >= 0.9995:
        return "more than 99.9\xa0%"
    decimals = 2 if share < 0.01 else 1 if share < 0.1 or share > 0.99 else 0
    return f"{100 * share:.{decimals}f}\xa0%"


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units.

    >>> duration(42), duration(3700), duration(200_000), duration(None)
    ('42 s', '1 h 1 min', '2 d 7 h', 'unknown')
    """
    if seconds is None:
        return "unknown"
    left, parts = max(0, round(seconds)), list[str]()
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        num, left = divmod(left, length)
        if num or (unit == "s" and not parts):
            parts.append(f"{num} {unit}")
    return " ".join(parts[:2])


def moment(when: str | None) -> str:
    """A stored time as people read it; always UTC, for a team sits in several zones.

    >>> moment("2026-11-30T13:50:14.250000+00:00"), moment(None)
    ('2026-11-30 13:50 UTC', '')
    """
    if when is None:
        return ""
    return datetime.fromisoformat(when).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(when: str, now: datetime) -> str:
    """How long ago a stored time was.

    >>> ago("2026-11-30T13:00:00+00:00", datetime(2026, 11, 30, 14, 1, tzinfo=UTC))
    '1 h 1 min ago'
    """
    return f"{duration((now - datetime.fromisoformat(when)).total_seconds())} ago"


def clock(when: str) -> str:
    """A stored time of today.

    >>> clock("2026-11-30T13:50:14+00:00")
    '13:50 UTC'
    """
    return datetime.fromisoformat(when).astimezone(UTC).strftime("%H:%M UTC")
