"""What the router and the providers say to each other.

An adapter turns a plan and a prompt into bytes and bytes into a reply; it holds no state and does
no I/O. A provider is a configured endpoint with an adapter, or the local engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol, TypeAlias

import httpx

from weighbridge.capability import Feature, Mode
from weighbridge.decision import FailureKind, FieldEvidence, Json, Reason
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Prompt, Task
from weighbridge.schemas.ticket import Ticket

Thinking: TypeAlias = Literal["off", "low", "medium", "high"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request without its transport and without its key.

    Args:
        method: of HTTP.
        path: below the provider's base URL; may carry a query.
        headers: names in lower case; the key is added by the transport.
        body: of the request.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response as it came: header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TransportFault(StrEnum):
    """Why no response came over a connection."""

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
        parameter: the request parameter that a capability failure is about, by the name that
            `Feature` has for it where it has one.
        is_schema: a capability failure is about this one schema, and not about schemas at all;
            an invalid answer breaks what the wire schema itself would have enforced.
        is_unsent: no model can have read the request: there was no connection.
        is_path: nothing seems to be where the request went; of the model nothing is said.
        limit: the largest value that the parameter takes, where the refusal names it.
        prompt_tokens: usage of an answer that was paid for and not accepted.
        completion_tokens: the same.
    """

    kind: FailureKind
    detail: str
    status: int | None = None
    wait_s: float | None = None
    retry: bool | None = None
    parameter: str | None = None
    is_schema: bool = False
    is_unsent: bool = False
    is_path: bool = False
    limit: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class TokenLogprob(NamedTuple):
    """One token of an answer.

    Args:
        token: its bytes.
        logprob: natural log, ≤ 0; None where the provider gave a stand-in such as -9999.
        top: alternatives at this place, the chosen token usually among them.
    """

    token: bytes
    logprob: float | None
    top: Sequence[tuple[bytes, float]] = ()


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
    """What a request asks for beside the answer; only what the provider is believed to take.

    Args:
        model: name at the provider.
        mode: how the schema is enforced.
        max_output_tokens: limit of the answer, thinking included.
        num_alternatives: how many log-probabilities to ask for at each token; 0: of the written
            token alone; None: do not ask.
        seed: None: do not send one.
        temperature: None: do not send one.
        logit_bias: -100 to 100, by token id or, where the provider takes texts, by text.
        thinking: "off", or how much: "low", "medium", "high"; None: as the server does by itself.
        length_feature: which of the two fields for the limit the provider reads.
    """

    model: str
    mode: Mode = "native"
    max_output_tokens: int = 1024
    num_alternatives: int | None = None
    seed: int | None = None
    temperature: float | None = None
    logit_bias: Mapping[int | str, float] = field(default_factory=dict)
    thinking: Thinking | None = None
    length_feature: Feature = Feature.MAX_COMPLETION_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Approach:
    """How one provider will be asked one task.

    Args:
        mode: how the schema is enforced.
        schema: what the wire gets, and the way back.
        schema_hash: of what the task asks for; see `Task.schema_hash`.
        dropped: tuning parameters that are left out because the provider lacks them.
    """

    mode: Mode
    schema: SchemaPlan
    schema_hash: str = ""
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What one provider is asked about one ticket.

    Args:
        task: what.
        approach: how.
        ticket: about what, as the provider may read it.
        feedback: where its last answer broke the schema, in our words; "" if it did not.
        output_factor: how many times the usual limit the answer may take.
    """

    task: Task
    approach: Approach
    ticket: Ticket
    feedback: str = ""
    output_factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What the numbers of a reply, and further calls where they are needed, say about its fields.

    Args:
        evidence: by name of the judged field; fields about which nothing is known are left out.
        num_calls: how many further requests were sent.
        prompt_tokens: of those.
        completion_tokens: of those.
    """

    evidence: Mapping[str, FieldEvidence]
    num_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


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

    @property
    def identity(self) -> str:
        """Endpoint, model and credential in one word without secrets: what health belongs to."""
        ...

    @property
    def weight(self) -> float:
        """Its share where providers are chosen by chance; 0: only when no other is left."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether what is asked leaves this machine."""
        ...

    def approach(self, task: Task) -> Approach:
        """How the task will be asked, from what is known of the provider by now.

        Raises:
            SchemaRefused: the provider can neither enforce the schema nor be shown it.
            CapabilityMissing: it lacks something that the task cannot do without.
        """
        ...

    def learn(self, failure: Failure, inquiry: Inquiry) -> bool:
        """Note what a failed attempt says about the provider's capabilities.

        Returns:
            Whether the task would now be asked otherwise than `inquiry` was.
        """
        ...

    async def ask(
        self, client: httpx.AsyncClient, inquiry: Inquiry, *, timeout_s: float
    ) -> Reply | Failure:
        """One attempt. Never raises for what a provider or a network does."""
        ...

    async def weigh(
        self,
        client: httpx.AsyncClient,
        inquiry: Inquiry,
        reply: Reply,
        value: Json,
        *,
        timeout_s: float,
    ) -> Weighed:
        """What is known about the judged fields of `value`, the accepted answer as it was sent.

        Most replies carry their numbers; further calls are made where the provider is configured
        for them. Never raises for what a provider or a network does: then less is known.
        """
        ...

    def worst_case(self, inquiry: Inquiry) -> tuple[int, int]:
        """Tokens that one attempt can read and write at most, those that weigh it included.

        An estimate, and rather too high: it is asked before anything is sent.
        """
        ...

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Price of one attempt; None where nobody knows."""
        ...

    def close(self) -> None:
        """Let go of what the provider holds."""
        ...
