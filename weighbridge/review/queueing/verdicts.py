"""Verdicts: does a person's answer fit the questions, and does it change the machine's?"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Literal

from weighbridge.decision import Json, Question, label
from weighbridge.errors import VerdictInvalid
from weighbridge.review.queueing.outcomes import canonical


def judge(
    item_id: str, questions: Iterable[Question], values: Mapping[str, Json]
) -> Literal["correct", "corrected"]:
    """Check an answer against what was asked and say whether it changes the machine's.

    Values are compared as JSON: `1`, `1.0`, `"1"` and `true` are four different answers.

    Returns:
        "correct" when every given value is the machine's own, else "corrected".

    Raises:
        VerdictInvalid: a field that nobody asked for, a required one left out, no field at all, or
            a value that is not permitted. The message repeats nothing that was given.
    """
    asked = {question.field: question for question in questions}
    for field in values:
        if field not in asked:
            # The name itself is not repeated: a slip can put anything there.
            raise VerdictInvalid(
                item_id, "(unknown)", "it was not asked for", _nearest("field", field, asked)
            )
    if asked and not values:
        raise VerdictInvalid(
            item_id,
            next(iter(asked)),
            "the verdict answers nothing",
            "Answer a field, or say that you are unsure or that the ticket fits no option.",
        )
    unchanged = True
    for field, question in asked.items():
        if field in values:
            given = _permitted(item_id, question, values[field])
            unchanged &= given == canonical(question.machine)
        elif question.required:
            hint = f"Permitted: {_listed(question.options)}." if question.options else ""
            raise VerdictInvalid(item_id, field, "it needs an answer", hint)
    return "correct" if unchanged else "corrected"


def _permitted(item_id: str, question: Question, value: Json) -> str:
    """The canonical text of `value`, if it is one that may be given."""
    try:
        given = canonical(value)
    except (TypeError, ValueError, RecursionError):
        raise VerdictInvalid(item_id, question.field, "the value is not JSON") from None
    if question.options and given not in map(canonical, question.options):
        labels = [label(option) for option in question.options]
        raise VerdictInvalid(
            item_id,
            question.field,
            "the value is not one of the permitted ones",
            _nearest("permitted label", label(value), labels),
        )
    return given


def _nearest(what: str, given: str, known: Iterable[str]) -> str:
    """A hint with the known name most like `given`, however unlike."""
    # The comparison takes time in proportion to both lengths; no name of ours is that long.
    matches = difflib.get_close_matches(given[:100], list(known), n=1, cutoff=0.0)
    return f"The nearest {what} is {matches[0]!r}." if matches else ""


def _listed(options: Iterable[Json]) -> str:
    return ", ".join(repr(label(option)) for option in options)
