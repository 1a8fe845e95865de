"""Acceptance: nothing that breaks the schema gets through, nothing is repaired."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_validator
from stage import TASK, VALID

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.protocol import Failure, Reply
from weighbridge.router.acceptance import MAX_ANSWER_CHARS, Accepted, accept
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Task


def check(text: str, task: Task = TASK) -> Accepted | Failure:
    return accept(Reply(text=text, finish_reason="stop"), plan(task.schema, "openai"), task)


@pytest.mark.parametrize(
    "text",
    [
        VALID,
        f"  {VALID}\n",
        f"```json\n{VALID}\n```",
        f"<think>is it a bug? {{}}</think>\n{VALID}",
        f"<think>money</think>```json\n{VALID}\n```",
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
        f"```json\n{VALID}",
        f"{VALID}\n```",
        f"<think>canary-value {VALID}",
        f"{VALID}<think>canary-value</think>",
        f"{VALID}{VALID}",
        f"{VALID[:-1]},}}",
        VALID.replace('"', "'"),
        "[" * 100_000,
        "9" * 5_000,
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


@given(said=st.text(), level=st.sampled_from(["low", "high"]))
def test_only_an_option_is_ever_accepted(said: str, level: str) -> None:
    """Whatever a model says in a field: an option, its spelling put right, or a failure."""
    result = check(json.dumps({"category": said, "priority": level}))
    meant = {option.casefold(): option for option in ("billing", "bug")}.get(said.casefold())
    if meant is None:
        assert isinstance(result, Failure)
    else:
        assert isinstance(result, Accepted)
        assert result.value == {"category": meant, "priority": level}
        assert result.wire == {"category": said, "priority": level}
        assert set(result.notes) == ({"category"} if said != meant else set())


@given(said=st.text(min_size=1), other=st.text(min_size=1))
def test_failure_is_the_same_whatever_was_said(said: str, other: str) -> None:
    """So nothing of an answer can be in its detail: no value, no key."""
    value = [check(json.dumps({"category": f"?{text}"})) for text in (said, other)]
    key = [check(f"{VALID[:-1]}, {json.dumps(f'?{text}')}: 1}}") for text in (said, other)]
    assert isinstance(value[0], Failure)
    assert isinstance(key[0], Failure)
    assert (value[0], key[0]) == (value[1], key[1])


def test_options_that_differ_in_letter_case_alone_are_never_guessed_between() -> None:
    """Said exactly it is one of them; said otherwise it could be both."""
    task = Task.from_schema(
        {
            "type": "object",
            "properties": {"unit": {"enum": ["m", "M", "K"]}},
            "required": ["unit"],
            "additionalProperties": False,
        },
        instructions="Choose.",
    )
    for said, value in {"m": "m", "M": "M", "k": "K"}.items():
        accepted = check(json.dumps({"unit": said}), task)
        assert isinstance(accepted, Accepted)
        assert accepted.value == {"unit": value}


@pytest.mark.parametrize(
    "text",
    [
        f"{VALID}{' ' * MAX_ANSWER_CHARS}",
        json.dumps({"category": "x" * MAX_ANSWER_CHARS, "priority": "low"}),
    ],
)
def test_answer_that_would_take_long_to_check_is_not_checked(text: str) -> None:
    """Other tickets wait as long."""
    failure = check(text)
    assert isinstance(failure, Failure)
    assert failure.detail == f"longer than {MAX_ANSWER_CHARS} characters"


def test_answer_that_is_nested_deeper_than_the_stack_is_a_failure() -> None:
    """Though JSON allows it, and the schema might."""
    nested: Json = {
        "allOf": [{"anyOf": [{"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/list"}]}]}]
    }
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"deep": {"$ref": "#/$defs/nested"}},
        "required": ["deep"],
        "additionalProperties": False,
        "$defs": {
            "nested": nested,
            "list": {"type": "array", "items": {"$ref": "#/$defs/nested"}},
        },
    }
    task = Task.from_schema(schema, instructions="Nest.")
    shown = plan(schema, "prompt")
    for depth, is_accepted in ((10, True), (120, False)):
        text = f'{{"deep": {"[" * depth}1{"]" * depth}}}'
        result = accept(Reply(text=text, finish_reason="stop"), shown, task)
        assert isinstance(result, Accepted) == is_accepted


def test_failure_keeps_what_was_paid() -> None:
    reply = Reply(
        text="prose", finish_reason="stop", status=200, prompt_tokens=7, completion_tokens=3
    )
    failure = accept(reply, plan(TASK.schema, "openai"), TASK)
    assert isinstance(failure, Failure)
    assert (failure.status, failure.prompt_tokens, failure.completion_tokens) == (200, 7, 3)


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
    assert (failure.kind, failure.detail) == (
        FailureKind.INVALID,
        "the model refuses what is at /",
    )


class _Notes(BaseModel):
    category: Literal["billing", "bug"]
    counts: dict[str, dict[str, int]]

    @field_validator("counts")
    @classmethod
    def _nobody_is_three(cls, counts: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        inner = TypeAdapter(dict[str, dict[str, Annotated[int, Field(lt=3)]]])
        return inner.validate_python(counts)


@pytest.mark.parametrize("number", ['"many"', "3"], ids=["schema", "model"])
def test_keys_that_an_answer_made_up_are_not_told(number: str) -> None:
    """Where anybody's name may be a key, a place names only what the schema names itself."""
    task = Task.from_model(_Notes, instructions="Count.")
    text = f'{{"category": "bug", "counts": {{"ann@canary.example": {{"category": {number}}}}}}}'
    failure = accept(Reply(text=text, finish_reason="stop"), plan(task.schema, "prompt"), task)
    assert isinstance(failure, Failure)
    assert failure.detail.endswith("/counts/*/category")
    good = accept(
        Reply(text=text.replace(number, "2"), finish_reason="stop"),
        plan(task.schema, "prompt"),
        task,
    )
    assert isinstance(good, Accepted)


class _Category(Enum):
    BILLING = "billing"
    BUG = "bug"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    category: _Category


def test_strict_pydantic_model_takes_what_its_schema_allows() -> None:
    """JSON has no enums: strictness is about types that JSON can tell apart."""
    task = Task.from_model(_Strict, instructions="Choose.")
    accepted = check('{"category": "bug"}', task)
    assert isinstance(accepted, Accepted)
    assert accepted.typed == _Strict(category=_Category.BUG)
