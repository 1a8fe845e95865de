"""What the router and the providers say to each other.

An adapter turns a plan and a prompt into bytes and bytes into a reply; it holds no state and does
no I/O. A provider is a configured endpoint with an adapter, or the local engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import httpx

from weighbridge.decision import FailureKind, FieldEvidence, Json, Reason
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Prompt, Task
from weighbridge.schemas.ticket import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request without its transport and without its key."""

    method: str
    path: str  # below the provider's base URL
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response as it came: header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TransportFault(StrEnum):
    """Why no response came."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    BROKEN = "broken"  # the connection ended, or what came was not HTTP


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt did not count.

    Args:
        kind: decides what happens next.
        detail: for the trail; our words and the vendor's codes, never the vendor's sentences.
        status: HTTP status, or the status that stood in the body of a 200.
        wait_s: how long the provider asks to be left alone; None if it does not say.
        retry: False where asking again is known not to help: the provider says so
            (`x-should-retry`), or the attempt has used up all its time. None where nobody knows.
        parameter: the request parameter that a capability failure is about.
        prompt_tokens: usage of an answer that was paid for and not accepted.
        completion_tokens: the same.
    """

    kind: FailureKind
    detail: str
    status: int | None = None
    wait_s: float | None = None
    retry: bool | None = None
    parameter: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One token of an answer.

    Args:
        token: its bytes.
        logprob: natural log, ≤ 0; None where the provider gave a stand-in such as -9999.
        top: alternatives at this place, the chosen token usually among them.
    """

    token: bytes
    logprob: float | None
    top: tuple[tuple[bytes, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer, not yet checked against the schema.

    Args:
        text: the answer.
        finish_reason: the provider's own word.
        status: HTTP status; None for the local engine.
        model: what the provider says it used.
        logprobs: one for each token; None if the provider gave none.
        prompt_tokens: None if not reported.
        completion_tokens: None if not reported.
        evidence: by field, where the provider weighed its answer itself.
        concerns: reasons to ask a person, whatever the numbers.
    """

    text: str
    finish_reason: str
    status: int | None = None
    model: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    evidence: Mapping[str, FieldEvidence] | None = None
    concerns: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """What a request asks for beside the answer.

    Args:
        model: name at the provider.
        max_output_tokens: limit of the answer, thinking included.
        logprobs: whether to ask for log-probabilities of tokens and alternatives.
        seed: for providers that take one; a tuning parameter.
        temperature: a tuning parameter.
        without: parameters that this provider refused before and that must not be sent.
    """

    model: str
    max_output_tokens: int = 1024
    logprobs: bool = True
    seed: int | None = 0
    temperature: float | None = 0.0
    without: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendments:
    """What earlier attempts at the same ticket taught about asking this provider.

    Args:
        without: request parameters that it refused.
        feedback: where its last answer broke the schema, in our words; "" if it did not.
        output_factor: how many times the usual limit the answer may take.
    """

    without: frozenset[str] = frozenset()
    feedback: str = ""
    output_factor: int = 1


class Adapter(Protocol):
    """The sans-IO code for one wire format."""

    def build(self, plan: SchemaPlan, prompt: Prompt, options: RequestOptions) -> HttpRequest:
        """The request for one ticket."""
        ...

    def parse(self, response: HttpResponse) -> Reply | Failure:
        """The reply in a response, or why there is none."""
        ...


class Provider(Protocol):
    """Somebody who can be asked."""

    @property
    def name(self) -> str:
        """The configured name."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked."""
        ...

    @property
    def reserve_s(self) -> float:
        """Time that providers before this one leave over for it."""
        ...

    @property
    def timeout_s(self) -> float:
        """The longest that one attempt may take."""
        ...

    def plan(self, task: Task) -> SchemaPlan:
        """The task's schema as this provider takes it.

        Raises:
            SchemaRefused: the provider cannot enforce it.
        """
        ...

    async def ask(
        self,
        client: httpx.AsyncClient,
        task: Task,
        plan: SchemaPlan,
        ticket: Ticket,
        *,
        amendments: Amendments,
        timeout_s: float,
    ) -> Reply | Failure:
        """One attempt. Never raises for what a provider or a network does."""
        ...

    def evidence(self, task: Task, reply: Reply, value: Json) -> Mapping[str, FieldEvidence]:
        """What the reply's numbers say about the judged fields of `value`, the parsed answer.

        Fields about which they say nothing are left out.
        """
        ...

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Price of one attempt; None where nobody knows."""
        ...

    def close(self) -> None:
        """Let go of what the provider holds."""
        ...
