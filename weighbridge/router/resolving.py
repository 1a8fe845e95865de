"""Resolution: what people made of a ticket, as the value that its caller waits for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from pydantic import ValidationError

from weighbridge.decision import Json, ReviewId
from weighbridge.schemas.finite import Path
from weighbridge.schemas.task import Task


class SettledItem(Protocol):
    """What is read of an item of the queue; the last four are None until it is settled."""

    @property
    def id(self) -> ReviewId: ...  # noqa: D102
    @property
    def ticket_id(self) -> str: ...  # noqa: D102
    @property
    def task(self) -> str: ...  # noqa: D102
    @property
    def decision(self) -> Mapping[str, Json]: ...  # noqa: D102
    @property
    def resolved_kind(self) -> Literal["answer", "unsure", "unclassifiable"] | None: ...  # noqa: D102
    @property
    def resolution(self) -> Mapping[str, Json] | None: ...  # noqa: D102
    @property
    def done_at(self) -> datetime | None: ...  # noqa: D102
    @property
    def settled_no(self) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What people made of one ticket.

    Args:
        review_id: of its item in the queue, and of its decision.
        ticket_id: of the ticket.
        task: name of the task.
        kind: "answer"; or "unclassifiable": the ticket fits no option; or "unsure": even who was
            to settle it could not.
        fields: the answer, by field; empty unless there is one.
        value: the whole answer, as the task's pydantic model if it has one. What nobody was asked
            about is as the machine had it. None without an answer, and where the task has become
            another one that the answer does not fit.
        settled_at: UTC.
        number: larger than that of anything settled before; see `Router.resolved`.
    """

    review_id: ReviewId
    ticket_id: str
    task: str
    kind: Literal["answer", "unsure", "unclassifiable"]
    fields: Mapping[str, Json] = field(repr=False)
    value: Any = field(repr=False)
    settled_at: datetime
    number: int


def resolution_of(item: SettledItem, task: Task) -> Resolution | None:
    """What came of an item; None while it waits, and where it was cancelled.

    Args:
        item: of the queue.
        task: that was asked; of an item of another task the value is plain JSON.
    """
    if item.resolved_kind is None or item.done_at is None or item.settled_no is None:
        return None
    fields = item.resolution or {}
    return Resolution(
        review_id=item.id,
        ticket_id=item.ticket_id,
        task=item.task,
        kind=item.resolved_kind,
        fields=fields,
        value=_value(item, fields, task) if item.resolved_kind == "answer" else None,
        settled_at=item.done_at,
        number=item.settled_no,
    )


def _value(item: SettledItem, fields: Mapping[str, Json], task: Task) -> Any:
    if item.task != task.name:
        return dict(fields)
    paths = {judged.name: judged.path for judged in task.fields}
    if not paths and "answer" in fields:  # nothing is judged by itself: the whole was asked about
        value = fields["answer"]
    else:
        value = copy.deepcopy(item.decision.get("value"))
        for name, given in fields.items():
            if name in paths:
                value = _placed(value, paths[name], given)
    if task.violations(value):
        return None
    try:
        return task.typed(value)
    except ValidationError:
        return None


def _placed(value: Json, path: Path, given: Json) -> Json:
    """The same value with another one at a path of property names."""
    if not path:
        return given
    first, *rest = path
    whole = dict(value) if isinstance(value, dict) else {}
    whole[first] = _placed(whole.get(first), tuple(rest), given)
    return whole
