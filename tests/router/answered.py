"""Answers without any chain: what a provider said, and what is known about its fields."""

from __future__ import annotations

from stage import TASK

from weighbridge.decision import FieldEvidence, Reason
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Reply
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.router.outcome import Answered, Outcome
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

TICKET = Ticket.of({"id": "t-1", "body": "I was charged twice"})
EMPTY = Ticket.of({"id": "t-2", "body": " \n"})
NOBODY = Outcome(answered=None, refused=False, trail=())
REFUSED = Outcome(answered=None, refused=True, trail=())


PROVIDER = HttpProvider(
    name="a",
    model="m",
    base_url="https://a.test",
    profile=named("openai"),
    adapter=OpenAIAdapter(named("openai")),
    ledger=MemoryLedger(),
)


def outcome(
    *,
    task: Task = TASK,
    text: str = '{"category": "billing", "priority": "high"}',
    concerns: tuple[Reason, ...] = (),
    **evidence: FieldEvidence,
) -> Outcome:
    """An answer and what is known about its fields."""
    reply = Reply(text=text, finish_reason="stop", concerns=concerns)
    accepted = accept(reply, plan(task.schema, "openai"), task)
    assert isinstance(accepted, Accepted)
    answered = Answered(provider=PROVIDER, reply=reply, accepted=accepted, evidence=evidence)
    return Outcome(answered=answered, refused=False, trail=())


def task(*required: str) -> Task:
    return Task.triage(categories=["billing", "bug"], priorities=["low", "high"], required=required)
