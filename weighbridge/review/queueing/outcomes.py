"""Outcomes: what the verdicts of a round come to, once everybody who was asked has judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weighbridge.decision import Json
from weighbridge.review.items import Kind, Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One verdict, as far as it matters here."""

    kind: Kind
    values: Mapping[str, Json] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a round ends.

    Args:
        kind: what came out.
        values: the answer, by field; None unless `kind` is "answer".
    """

    kind: Said
    values: Mapping[str, Json] | None = field(default=None, repr=False)


def agreed(opinions: Sequence[Opinion]) -> Outcome | None:
    """What all of them say; None if they differ or somebody is unsure.

    Answers agree when no field has two values. Values are compared as JSON, so `1` and `"1"`
    differ; an optional field that somebody left out contradicts nobody.
    """
    kinds = {opinion.kind for opinion in opinions}
    if kinds == {"unclassifiable"}:
        return Outcome(kind="unclassifiable")
    if not kinds or not kinds <= {"correct", "corrected"}:
        return None
    whole: dict[str, Json] = {}
    for opinion in opinions:
        for name, value in opinion.values.items():
            if name in whole and canonical(whole[name]) != canonical(value):
                return None
            whole[name] = value
    return Outcome(kind="answer", values=whole)


def adjudicated(opinion: Opinion) -> Outcome:
    """What an adjudicator's verdict comes to: it is the last word, even where it is unsure."""
    if opinion.kind == "unsure":
        return Outcome(kind="unsure")
    outcome = agreed([opinion])
    assert outcome is not None  # one alone cannot differ
    return outcome


def canonical(value: Json) -> str:
    """The same text for the same JSON value: `1`, `1.0`, `"1"` and `true` are four.

    Raises:
        ValueError, TypeError, RecursionError: it is no JSON.
    """
    return json.dumps(value, sort_keys=True, allow_nan=False)
