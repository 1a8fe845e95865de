"""Agreement: how many of several answers to one question are the same. Pure.

A model that repeats itself is not right for that: the share says how sure it is, roughly, and is
compared with no other kind of number without a calibration.

Source: self-consistency, Wang et al. 2022.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from weighbridge.decision import FieldEvidence, Json, label
from weighbridge.errors import JsonInvalid
from weighbridge.providers.protocol import Failure, Reply
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.strict_json import loads, unwrap
from weighbridge.schemas.task import REASONING, Task, value_at


def agreement(task: Task, value: Json, others: Sequence[Json]) -> Mapping[str, FieldEvidence]:
    """Evidence for each judged field from the accepted answer and further ones.

    Args:
        task: what was asked.
        value: the accepted answer.
        others: further answers; None for one that was none.

    Returns:
        `probability` is the share of all answers that say the same in the field, those that failed
        counted against it.
    """
    found = {}
    for field in task.fields:
        said = value_at(value, field.path)
        names = [label(value_at(answer, field.path)) for answer in (value, *others) if answer]
        known = {label(option) for option in field.options}
        votes = Counter(name for name in names if name in known)
        total = sum(votes.values())
        found[field.name] = FieldEvidence(
            value=said,
            source="agreement",
            probability=votes[label(said)] / (1 + len(others)),
            options={name: votes[name] / total for name in map(label, field.options)},
            notes=(f"agreement: {votes[label(said)]} of {1 + len(others)} answers",),
        )
    return found


def answer_in(result: Reply | Failure, schema: SchemaPlan, task: Task) -> Json:
    """The valid answer in a reply; None if there is none."""
    if isinstance(result, Failure):
        return None
    try:
        value = schema.reverse(loads(unwrap(result.text)))
    except JsonInvalid:
        return None
    if task.reasoning and isinstance(value, dict):
        value = {name: part for name, part in value.items() if name != REASONING}
    return None if task.violations(value) else value
