"""Exchanges with a part of the body replaced: whatever comes, a reply or a failure comes out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from corpus import EXCHANGES, Exchange, adapter_for, replay, why_not_read
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.providers.evidence import Alignment
from weighbridge.providers.protocol import Failure, HttpResponse
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Task

READ = [e for e in EXCHANGES.values() if why_not_read(e) is None and "json" in e["response"]]
OPTIONS = ("refund", "billing")
TASK = Task.from_schema(
    {
        "type": "object",
        "properties": {"label": {"enum": [*OPTIONS]}},
        "required": ["label"],
        "additionalProperties": False,
    },
    instructions="Sort it.",
)
PLAN = plan(TASK.schema, "openai")
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1e308, float("nan"), float("inf"), 2**70, -9999.0),
    *("", "x", "\ud83d", "{}", "429", "stop", '{"label":"refund"}'),
    *([], {}, [None], [[]], [1, 256, -1], {"a": None}),
    *({"error": {"message": "x", "code": "429"}}, {"message": {"message": "x"}}),
]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Exchange, HttpResponse]:
    """An exchange, and its response with one to three parts that are something else, or gone."""
    exchange = draw(st.sampled_from(READ))
    body = copy.deepcopy(exchange["response"]["json"])
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from([*places(body)] or [([None], 0)]))
        if draw(st.booleans()):
            holder[key] = copy.deepcopy(draw(st.sampled_from(JUNK)))
        else:
            del holder[key]
    status = draw(st.sampled_from([exchange["response"]["status"], 200, 400, 429, 500]))
    whole = replay({**exchange, "response": {**exchange["response"], "json": {}}})
    raw = json.dumps(body).encode("utf-8", "surrogatepass")
    return exchange, HttpResponse(status=status, headers=whole.headers, body=raw)


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every object and array inside, with each of its keys and its first indices."""
    keys = [*part] if isinstance(part, dict) else range(len(part[:4]))
    for key in keys:
        yield part, key
        if isinstance(part[key], dict | list):
            yield from places(part[key])


@settings(max_examples=500, deadline=None)
@given(damaged())
def test_damage_is_no_exception(case: tuple[Exchange, HttpResponse]) -> None:
    """Neither in the adapter, nor in what reads its reply; and no damage makes an answer valid."""
    exchange, response = case
    result = adapter_for(exchange).parse(response)
    if isinstance(result, Failure):
        assert result.detail
        return
    checked = accept(result, PLAN, TASK)
    assert not isinstance(checked, Accepted) or checked.value in [{"label": o} for o in OPTIONS]
    if result.logprobs is not None:
        alignment = Alignment.of(result.text, result.logprobs)
        if alignment is not None:
            alignment.evidence(("label",), OPTIONS, "refund", source="premask")
