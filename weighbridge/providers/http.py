"""A provider behind HTTP: an adapter, an endpoint, and the key that belongs to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from pydantic import SecretStr

from weighbridge.decision import FailureKind, FieldEvidence, Json
from weighbridge.providers.evidence import LogprobSource, aligned
from weighbridge.providers.failures import from_transport
from weighbridge.providers.protocol import (
    Adapter,
    Amendments,
    Failure,
    HttpResponse,
    Reply,
    RequestOptions,
    TransportFault,
)
from weighbridge.schemas.plan import SchemaPlan, plan_openai
from weighbridge.schemas.task import Prompt, Task, value_at
from weighbridge.schemas.ticket import Ticket

MAX_BODY_BYTES = 4 * 1024 * 1024
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens."""

    prompt: float
    completion: float


class HttpProvider:
    """One configured endpoint and model.

    Args:
        name: the configured name.
        model: name of the model at the endpoint.
        base_url: what the adapter's path is appended to.
        adapter: for its wire format.
        key: sent as a bearer token to `base_url` and nowhere else: redirects are not followed.
        timeout_s: limit of one attempt.
        logprobs: where the endpoint takes its log-probabilities, or None: do not ask for them.
        max_output_tokens: limit of an answer, thinking included.
        price: None if nobody knows.
    """

    reserve_s = 0.0

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        adapter: Adapter,
        key: SecretStr | None = None,
        timeout_s: float = 15.0,
        logprobs: LogprobSource | None = "unknown_mask",
        max_output_tokens: int = 1024,
        price: Price | None = None,
    ) -> None:
        self.name, self.model, self.timeout_s = name, model, timeout_s
        self._base_url, self._key = base_url.rstrip("/"), key
        self._adapter, self._logprobs = adapter, logprobs
        self._max_output_tokens, self._price = max_output_tokens, price

    def plan(self, task: Task) -> SchemaPlan:
        """The task's schema in the dialect of strict mode; see `Provider.plan`."""
        return plan_openai(task.schema, name=task.name)

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
        """Send one request; see `Provider.ask`."""
        options = RequestOptions(
            model=self.model,
            max_output_tokens=self._max_output_tokens * amendments.output_factor,
            logprobs=self._logprobs is not None,
            without=amendments.without,
        )
        system, user = task.prompt(ticket)
        if amendments.feedback:
            system = f"{system}\n\n{amendments.feedback}"
        request = self._adapter.build(plan, Prompt(system, user), options)
        headers = dict(request.headers)
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key.get_secret_value()}"
        try:
            # One limit for the whole: httpx limits each read, which a server that trickles outlasts
            # and one that thinks for long does not. Only a host that takes no connection is given
            # up sooner.
            async with (
                asyncio.timeout(timeout_s),
                client.stream(
                    request.method,
                    self._base_url + request.path,
                    headers=headers,
                    content=request.body,
                    follow_redirects=False,
                    timeout=httpx.Timeout(None, connect=CONNECT_S),
                ) as response,
            ):
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        return Failure(
                            kind=FailureKind.INVALID,
                            detail=f"the body is larger than {MAX_BODY_BYTES} bytes",
                            status=response.status_code,
                        )
        except (TimeoutError, httpx.TimeoutException):
            return from_transport(TransportFault.TIMEOUT)
        except httpx.ConnectError:
            return from_transport(TransportFault.CONNECT)
        except httpx.RequestError:
            return from_transport(TransportFault.BROKEN)
        return self._adapter.parse(
            HttpResponse(
                status=response.status_code,
                headers={name.lower(): text for name, text in response.headers.items()},
                body=bytes(body),
            )
        )

    def evidence(self, task: Task, reply: Reply, value: Json) -> Mapping[str, FieldEvidence]:
        """What the log-probabilities say; see `Provider.evidence`."""
        if self._logprobs is None or reply.logprobs is None:
            return {}
        found = {
            field.name: aligned(
                reply.text,
                reply.logprobs,
                field.path,
                field.options,
                value_at(value, field.path),
                source=self._logprobs,
            )
            for field in task.fields
        }
        return {name: evidence for name, evidence in found.items() if evidence is not None}

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Price of one attempt; see `Provider.cost_usd`."""
        if self._price is None or prompt_tokens is None or completion_tokens is None:
            return None
        spent = prompt_tokens * self._price.prompt + completion_tokens * self._price.completion
        return spent / 1e6

    def close(self) -> None:
        """Nothing to let go of: connections belong to the router's client."""
