"""Further requests that weigh an answer: a free one beside a forced one, and several of a kind."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from weighbridge.capability import Fact, Feature, Origin, Status
from weighbridge.providers.asking import Wishes
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Inquiry, Reply, Weighed
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

TASK = Task.triage(categories=["billing", "bug"], priorities=[])
TICKET = Ticket.of("I was charged twice")


def completion(option: str, probabilities: dict[str, float] | None = None) -> dict[str, Any]:
    """An answer whose option is one token, with that token's alternatives."""
    text = json.dumps({"category": option})
    choice: dict[str, Any] = {"finish_reason": "stop", "message": {"content": text}}
    if probabilities is not None:
        begin, end = text.split(option)
        top = [{"token": name, "logprob": math.log(p)} for name, p in probabilities.items()]
        content = [
            {"token": begin, "logprob": 0.0, "top_logprobs": []},
            {"token": option, "logprob": math.log(probabilities[option]), "top_logprobs": top},
            {"token": end, "logprob": 0.0, "top_logprobs": []},
        ]
        choice["logprobs"] = {"content": content}
    return {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 7}}


async def weighed(
    bodies: Sequence[dict[str, Any] | int], *, order: str = "after_mask", **wishes: Any
) -> tuple[Weighed, list[dict[str, Any]]]:
    """Ask once and weigh; what was found, and the bodies of all requests."""
    sent: list[dict[str, Any]] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        body = bodies[len(sent) - 1]
        return httpx.Response(body) if isinstance(body, int) else httpx.Response(200, json=body)

    ledger = MemoryLedger()
    for feature in (Feature.MASK_ORDER, Feature.JSON_SCHEMA):
        fact = Fact(status=Status.SUPPORTED, origin=Origin.PROBED, value=order)
        ledger.record("https://a.test/v1", "m", feature, fact)
    provider = HttpProvider(
        name="a",
        model="m",
        base_url="https://a.test/v1",
        profile=named("openai_compatible"),
        adapter=OpenAIAdapter(named("openai_compatible")),
        ledger=ledger,
        wishes=Wishes(**wishes),
        chance=lambda: 0.5,
    )
    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        inquiry = Inquiry(task=TASK, approach=provider.approach(TASK), ticket=TICKET)
        reply = await provider.ask(client, inquiry, timeout_s=5.0)
        assert isinstance(reply, Reply)
        value = json.loads(reply.text)
        return await provider.weigh(client, inquiry, reply, value, timeout_s=5.0), sent


FORCED = completion("billing", {"billing": 0.999, "bug": 0.001})
FREE = completion("billing", {"billing": 0.6, "Billing question": 0.3, "bug": 0.05})


async def test_mass_after_a_mask_comes_from_an_answer_without_one() -> None:
    """The forced numbers say 1; the free ones say how much of that was the model's own."""
    found, sent = await weighed([FORCED, FREE], mass_probe_rate=1.0)
    evidence = found.evidence["category"]
    assert evidence.source == "premask"
    assert evidence.mass == pytest.approx((0.65, 0.70))
    assert ["response_format" in body for body in sent] == [True, False]
    assert (found.num_calls, found.prompt_tokens, found.completion_tokens) == (1, 100, 7)


@pytest.mark.parametrize(
    ("free", "note"),
    [
        (completion("bug", {"bug": 0.9, "billing": 0.1}), "another one"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": "Billing."}}]}, "no valid"),
        (500, "no valid"),
    ],
)
async def test_free_answer_that_says_otherwise_lends_no_numbers(free: Any, note: str) -> None:
    """What was forced stays what it is, with a note for the reader."""
    found, _ = await weighed([FORCED, free], mass_probe_rate=1.0)
    evidence = found.evidence["category"]
    assert (evidence.source, evidence.mass) == ("postmask", None)
    assert note in evidence.notes[-1]


@pytest.mark.parametrize(("order", "rate"), [("before_mask", 1.0), ("after_mask", 0.4)])
async def test_no_probe_where_numbers_are_good_or_the_coin_says_so(order: str, rate: float) -> None:
    found, sent = await weighed([FORCED], order=order, mass_probe_rate=rate)
    assert (found.num_calls, len(sent)) == (0, 1)


async def test_answers_without_numbers_are_weighed_by_asking_again() -> None:
    """At a temperature, each with a seed of its own; a failed one counts against the answer."""
    answers = [completion(o) for o in ("billing", "billing", "bug")]
    found, sent = await weighed([*answers, 503], samples=4)
    evidence = found.evidence["category"]
    assert (evidence.source, evidence.probability, evidence.mass) == ("agreement", 0.5, None)
    assert evidence.options == pytest.approx({"billing": 2 / 3, "bug": 1 / 3})
    assert found.num_calls == 3
    assert [body.get("seed") for body in sent] == [0, 1, 2, 3]
    assert {body["temperature"] for body in sent[1:]} == {0.7}


async def test_numbers_that_came_make_further_answers_needless() -> None:
    _, sent = await weighed([FORCED], samples=4)
    assert len(sent) == 1
