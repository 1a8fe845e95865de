"""Other clients for the same call, as far as they are installed: never required."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel


class Category(StrEnum):
    """The labels of the built-in task."""

    BILLING = "billing"
    BUG = "bug"
    CANCELLATION = "cancellation"
    HOW_TO = "how_to"
    ACCOUNT_ACCESS = "account_access"
    FEATURE_REQUEST = "feature_request"


class Priority(StrEnum):
    """Its levels."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class Answer(BaseModel):
    """What the others validate."""

    category: Category
    priority: Priority


@dataclass(frozen=True, slots=True)
class Peer:
    """A client and one call of it."""

    name: str
    call: Callable[[int], Awaitable[Any]]


def peers(base_url: str) -> list[Peer]:
    """Those that can be imported, each asking `base_url` alone or first of two."""
    return [peer for make in (_openai, _instructor, _pydantic_ai) for peer in make(base_url)]


def _messages(number: int) -> list[Any]:
    system = "Sort the ticket. Answer with one JSON object."
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": f"I was charged twice, case {number}"},
    ]


def _openai(base_url: str) -> Iterator[Peer]:
    try:
        from openai import AsyncOpenAI
    except ImportError:
        return
    client = AsyncOpenAI(base_url=base_url, api_key="k")

    async def call(number: int) -> Any:
        return await client.chat.completions.parse(
            model="stub", messages=_messages(number), response_format=Answer
        )

    yield Peer("openai, parse", call)


def _instructor(base_url: str) -> Iterator[Peer]:
    try:
        import instructor
        from openai import AsyncOpenAI
    except ImportError:
        return
    client = instructor.from_openai(
        AsyncOpenAI(base_url=base_url, api_key="k"), mode=instructor.Mode.JSON_SCHEMA
    )

    async def call(number: int) -> Any:
        return await client.chat.completions.create(
            model="stub", messages=_messages(number), response_model=Answer
        )

    yield Peer("instructor", call)


def _pydantic_ai(base_url: str) -> Iterator[Peer]:
    try:
        from pydantic_ai import Agent, NativeOutput
        from pydantic_ai.models.fallback import FallbackModel
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError:
        return
    model = OpenAIChatModel("stub", provider=OpenAIProvider(base_url=base_url, api_key="k"))
    agent = Agent(
        FallbackModel(model, model),
        output_type=NativeOutput(Answer),
        instructions="Sort the ticket. Answer with one JSON object.",
    )

    async def call(number: int) -> Any:
        return await agent.run(f"I was charged twice, case {number}")

    yield Peer("pydantic-ai, FallbackModel", call)
