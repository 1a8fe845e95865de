"""Between the queue's values and its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Row

from weighbridge.decision import Decision, Json, Question, ReviewEntry, ReviewId
from weighbridge.review.items import Item, State, Verdict

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def item_row(entry: ReviewEntry, item_id: ReviewId, now: int) -> dict[str, Any]:
    """The row of a new item; the decision in it knows its own review id."""
    return {
        "id": item_id,
        "dedupe_key": entry.dedupe_key,
        "ticket_id": entry.decision.ticket_id,
        "task": entry.decision.task,
        "ticket_json": dict(entry.ticket),
        "decision_json": replace(entry.decision, review_id=item_id).to_json(),
        "questions_json": [_question_json(question) for question in entry.questions],
        "reasons": [reason.value for reason in entry.decision.reasons],
        "state": State.OPEN,
        "priority": priority(entry.decision),
        "created_at": now,
    }


def priority(decision: Decision) -> float:
    """How unsure the machine was about the first required field, 0 to 1; 1 if that is unknown."""
    for evidence in decision.fields.values():
        if evidence.required:
            probability = evidence.probability
            if probability is None or not math.isfinite(probability):
                return 1.0
            return min(1.0, max(0.0, 1.0 - probability))
    return 1.0


def item_from(row: Row[Any], verdicts: Iterable[Row[Any]], *, with_token: bool = False) -> Item:
    """An item and its verdicts as they were read."""
    return Item(
        id=ReviewId(row.id),
        ticket_id=row.ticket_id,
        task=row.task,
        state=State(row.state),
        ticket=row.ticket_json,
        decision=row.decision_json,
        questions=tuple(questions_from(row)),
        reasons=tuple(row.reasons),
        priority=row.priority,
        created_at=_moment(row.created_at),
        done_at=None if row.done_at is None else _moment(row.done_at),
        lease_owner=row.lease_owner,
        lease_until=None if row.lease_until is None else _moment(row.lease_until),
        lease_token=row.lease_token if with_token else None,
        verdicts=tuple(_verdict_from(verdict) for verdict in verdicts),
    )


def questions_from(row: Row[Any]) -> list[Question]:
    """The questions of an item's row."""
    return [
        Question(**{**stored, "options": tuple(stored["options"])}) for stored in row.questions_json
    ]


def _verdict_from(row: Row[Any]) -> Verdict:
    return Verdict(
        reviewer=row.reviewer,
        kind=row.kind,
        values=row.values_json,
        machine=row.machine_json,
        submitted_at=_moment(row.submitted_at),
        note=row.note,
    )


def _question_json(question: Question) -> dict[str, Json]:
    return {
        "field": question.field,
        "options": list(question.options),
        "descriptions": dict(question.descriptions),
        "machine": question.machine,
        "required": question.required,
    }


def _moment(us: int) -> datetime:
    # Not fromtimestamp: a float of seconds does not hold every microsecond.
    return _EPOCH + timedelta(microseconds=us)
