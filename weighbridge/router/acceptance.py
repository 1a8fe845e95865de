"""Acceptance: from a reply's text to a value that the original schema allows, or a failure.

What stands before it (status, error in the body, finish reason, refusal, emptiness) the adapter has
checked. The order here is fixed: unwrap, strict JSON, reverse map, original schema, pydantic model.
Nothing is ever repaired, but for the letter case of an option, which is put right and noted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from weighbridge.decision import FailureKind, Json
from weighbridge.errors import JsonInvalid
from weighbridge.providers.protocol import Failure, Reply
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.strict_json import loads, unwrap
from weighbridge.schemas.task import REASONING, JudgedField, Task, value_at
from weighbridge.schemas.validation import AnswerValidator

# Some 64,000 tokens, which no limit on answers reaches; to check more would hold up other tickets.
MAX_ANSWER_CHARS = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A valid answer.

    Args:
        wire: the value as the provider sent it.
        value: the value that the original schema allows.
        typed: as the task's pydantic model, if it has one.
        notes: by field, what was put right.
        reasoning: the reasons before the answer, where the task asks for them.
    """

    wire: Json
    value: Json
    typed: Any
    notes: dict[str, str]
    reasoning: str = ""


def accept(
    reply: Reply, plan: SchemaPlan, task: Task, *, restore: Callable[[Json], Json] | None = None
) -> Accepted | Failure:
    """Check an answer; a failure says where it broke the schema, never with what.

    Args:
        reply: what came.
        plan: what was asked for.
        task: what the answer must be.
        restore: puts back what was hidden from the provider, before the original schema is asked;
            None where nothing was.
    """
    if len(reply.text) > MAX_ANSWER_CHARS:
        return _invalid(reply, f"longer than {MAX_ANSWER_CHARS} characters", is_schema=True)
    try:
        wire = loads(unwrap(reply.text))
    except JsonInvalid as error:
        return _invalid(reply, str(error), is_schema=True)
    value = plan.reverse(wire)
    if restore is not None:
        value = restore(value)
    value, notes = _restore_case(value, task.fields)
    value, reasoning = _without_reasons(value, task)
    if broken := task.violations(value):
        detail = f"breaks the schema: {', '.join(broken[:3])}"
        return _invalid(reply, detail, is_schema=not _permits(plan.wire, wire))
    try:
        typed = task.typed(value)
    except ValidationError as error:
        where = {task.pointer(e["loc"]) for e in error.errors(include_input=False)}
        return _invalid(reply, f"the model refuses what is at {', '.join(sorted(where))}")
    return Accepted(wire=wire, value=value, typed=typed, notes=notes, reasoning=reasoning)


def _permits(wire_schema: dict[str, Json], value: Json) -> bool:
    """Whether an answer keeps what a provider that enforces the schema would have enforced."""
    try:
        return bool(AnswerValidator(wire_schema).is_valid(value))
    except RecursionError:
        return True  # too deep to say that it does not


def _without_reasons(value: Json, task: Task) -> tuple[Json, str]:
    """The value as the task's own schema has it, and the reasons that stood before it."""
    if not task.reasoning or not isinstance(value, dict):
        return value, ""
    reasons = value.get(REASONING)
    rest = {name: part for name, part in value.items() if name != REASONING}
    return rest, reasons if isinstance(reasons, str) else ""


def _invalid(reply: Reply, detail: str, *, is_schema: bool = False) -> Failure:
    return Failure(
        kind=FailureKind.INVALID,
        detail=detail,
        status=reply.status,
        is_schema=is_schema,
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
