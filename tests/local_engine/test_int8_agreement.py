"""int8 beside float32 on the development tickets: what is weighed, and what is answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.prior import LabelText
from weighbridge.local_engine.weighing import FieldSpec, FieldWeights
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

TRIAGE = Path(__file__).parents[2] / "bench" / "data" / "triage-dev.jsonl"
EVERY = 5  # tickets; a share of them shows a wrong kernel as well as all


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def labelled(names: Sequence[str]) -> tuple[Task, FieldSpec]:
    """A task with one field, and how it is weighed."""
    task = Task.triage(categories=list(names), priorities=[])
    labels = tuple(LabelText(name=name) for name in names)
    return task, FieldSpec(path=("category",), options=tuple(names), labels=labels)


def built_in() -> tuple[Task, FieldSpec]:
    """The category of the built-in task, with its descriptions and phrases."""
    task = Task.triage()
    field = task.fields[0]
    labels = tuple(
        LabelText(
            name=str(option),
            description=field.labels[option].description,
            phrases=field.labels[option].phrases,
        )
        for option in field.options
    )
    return task, FieldSpec(path=field.path, options=field.options, labels=labels)


def weighed(engine: Engine, task: Task, spec: FieldSpec, row: dict[str, Any]) -> FieldWeights:
    ticket = Ticket.of({"subject": row.get("subject", ""), "body": row["body"]})
    assert task.language is not None
    return engine.weigh(task.system, ticket.text, task.language, [spec]).weights.fields[0]


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Total variation: the largest difference in the probability of any set of options."""
    return sum(abs(p - q) for p, q in zip(one, other, strict=True)) / 2


@pytest.mark.slow
@pytest.mark.models
def test_int8_answers_development_tickets_as_float32_does(models, exact_models, tickets):
    """The same option after the priors for 97 tickets in a hundred; probabilities near."""
    sets = [(*built_in(), rows_of(TRIAGE))]
    for name in ("banking77-draw0", "banking77-draw1", "clinc150-domains"):
        names = json.loads((tickets / name / "labels.json").read_text("utf-8"))
        sets.append((*labelled(names), rows_of(tickets / name / "dev.jsonl")))
    same, distances = list[bool](), list[float]()
    for task, spec, rows in sets:
        for row in rows[::EVERY]:
            one, other = (weighed(engine, task, spec, row) for engine in (models, exact_models))
            same.append(one.value == other.value)
            distances.append(distance(one.posterior, other.posterior))
    assert len(same) > 150
    assert sum(same) >= 0.97 * len(same)
    assert 0 < sum(distances) / len(distances) < 0.02  # not 0: two engines, not one twice
