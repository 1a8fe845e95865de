"""Agreement between several answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.providers.agreement import agreement, answer_in
from weighbridge.providers.protocol import Reply
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Task

TASK = Task.triage(categories=["billing", "bug", "wish"], priorities=[])
CATEGORIES = st.sampled_from(["billing", "bug", "wish"])


@given(said=CATEGORIES, others=st.lists(st.none() | CATEGORIES, max_size=8))
def test_share_of_an_option_is_that_of_the_answers_that_name_it(
    said: str, others: list[str | None]
) -> None:
    """Answers that failed count against it; the options share what was said."""
    found = agreement(
        TASK, {"category": said}, [None if o is None else {"category": o} for o in others]
    )["category"]
    assert found.source == "agreement"
    assert found.mass is None
    assert found.probability == pytest.approx((1 + others.count(said)) / (1 + len(others)))
    assert sum(found.options.values()) == pytest.approx(1.0)
    assert found.options[said] >= found.probability - 1e-12


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"category": "bug"}', {"category": "bug"}),
        ('```json\n{"category": "bug"}\n```', {"category": "bug"}),
        ('{"category": "bugs"}', None),
        ('{"category": "bug", "category": "bug"}', None),
        ("bug", None),
    ],
)
def test_only_a_valid_answer_has_a_vote(text: str, value: object) -> None:
    reply = Reply(text=text, finish_reason="stop")
    assert answer_in(reply, plan(TASK.schema, "openai"), TASK) == value
