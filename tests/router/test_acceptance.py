"""Acceptance: nothing that breaks the schema gets through, nothing is repaired."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, model_validator
from stage import TASK, VALID

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure, Reply
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.schemas.plan import plan_openai
from weighbridge.schemas.task import Task


def check(text: str, task: Task = TASK) -> Accepted | Failure:
    return accept(Reply(text=text, finish_reason="stop"), plan_openai(task.schema), task)


@pytest.mark.parametrize(
    "text",
    [
        VALID,
        f"  {VALID}\n",
        f"```json\n{VALID}\n```",
        f"<think>is it a bug? {{}}</think>\n{VALID}",
        '{"priority": "high", "category": "billing"}',
    ],
)
def test_valid_answer_is_accepted(text: str) -> None:
    accepted = check(text)
    assert isinstance(accepted, Accepted)
    assert accepted.typed.model_dump() == {"category": "billing", "priority": "high"}


@pytest.mark.parametrize(
    "text",
    [
        "I think it is canary-value.",
        f"Sure! {VALID}",
        f"```json\n{VALID}\n``` canary-value",
        '{"category": "billing", "category": "bug", "priority": "low"}',
        '{"category": "billing", "priority": NaN}',
        '{"category": "billing"}',
        '{"category": "canary-value", "priority": "low"}',
        '{"category": "billing", "priority": "low", "canary-value": 1}',
        '{"category": "billing", "priority": "\\ud800"}',
        '["billing", "low"]',
        "null",
        "",
    ],
)
def test_answer_that_breaks_the_schema_is_a_failure_without_its_words(text: str) -> None:
    """The detail says where, never with what: it goes into logs and into the next prompt."""
    failure = check(text)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.INVALID
    assert failure.detail
    assert "canary-value" not in failure.detail


def test_option_in_another_letter_case_is_put_right_and_noted() -> None:
    accepted = check('{"category": "BILLING", "priority": "high"}')
    assert isinstance(accepted, Accepted)
    assert accepted.value == {"category": "billing", "priority": "high"}
    assert set(accepted.notes) == {"category"}


class _Picky(BaseModel):
    category: Literal["billing", "bug"]

    @model_validator(mode="after")
    def _no_bugs(self) -> _Picky:
        if self.category == "bug":
            raise ValueError("canary-value")
        return self


def test_what_the_pydantic_model_refuses_is_a_failure() -> None:
    """A validator can know more than its schema says."""
    task = Task.from_model(_Picky, instructions="Choose.")
    failure = check('{"category": "bug"}', task)
    assert isinstance(failure, Failure)
    assert "canary-value" not in failure.detail
