"""Acceptance: from a reply's text to a value that the original schema allows, or a failure.

What stands before it (status, error in the body, finish reason, refusal, emptiness) the adapter has
checked. The order here is fixed: unwrap, strict JSON, reverse map, original schema, pydantic model.
Nothing is ever repaired, but for the letter case of an option, which is put right and noted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from weighbridge.decision import FailureKind, Json
from weighbridge.errors import JsonInvalid
from weighbridge.providers.protocol import Failure, Reply
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.strict_json import loads, unwrap
from weighbridge.schemas.task import JudgedField, Task, value_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A valid answer.

    Args:
        wire: the value as the provider sent it.
        value: the value that the original schema allows.
        typed: as the task's pydantic model, if it has one.
        notes: by field, what was put right.
    """

    wire: Json
    value: Json
    typed: Any
    notes: dict[str, str]


def accept(reply: Reply, plan: SchemaPlan, task: Task) -> Accepted | Failure:
    """Check an answer; a failure says where it broke the schema, never with what."""
    try:
        wire = loads(unwrap(reply.text))
    except JsonInvalid as error:
        return _invalid(reply, str(error))
    value, notes = _restore_case(plan.reverse(wire), task.fields)
    if broken := task.violations(value):
        return _invalid(reply, f"breaks the schema: {', '.join(broken[:3])}")
    try:
        typed = task.typed(value)
    except ValidationError as error:
        where = {
            f"/{'/'.join(str(part) for part in e['loc'])}"
            for e in error.errors(include_input=False)
        }
        return _invalid(reply, f"the model refuses what is at {', '.join(sorted(where))}")
    return Accepted(wire=wire, value=value, typed=typed, notes=notes)


def _invalid(reply: Reply, detail: str) -> Failure:
    return Failure(
        kind=FailureKind.INVALID,
        detail=detail,
        status=reply.status,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
    )


def _restore_case(value: Json, fields: tuple[JudgedField, ...]) -> tuple[Json, dict[str, str]]:
    """The value with options spelled as their owner spells them; one vendor promises no case."""
    notes: dict[str, str] = {}
    for field in fields:
        said = value_at(value, field.path)
        if not isinstance(said, str) or said in field.options:
            continue
        meant = [o for o in field.options if isinstance(o, str) and o.casefold() == said.casefold()]
        if len(meant) == 1:
            value = _replaced(value, field.path, meant[0])
            notes[field.name] = "case_restored: the option came in another letter case"
    return value, notes


def _replaced(value: Json, path: tuple[str, ...], new: Json) -> Json:
    if not path:
        return new
    assert isinstance(value, dict)
    return {**value, path[0]: _replaced(value[path[0]], path[1:], new)}
