"""A provider that speaks System One: typed questions in, options with probabilities out.

Spoken by hosted decision models and by `transformers serve`. Nothing is written, so there is no
prompt, no mode and no tuning parameter; every answer comes with its numbers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
from pydantic import SecretStr

from weighbridge.capability import NOTHING_KNOWN, Fact, Feature, Ledger, Origin, Status
from weighbridge.decision import FailureKind, Json
from weighbridge.errors import CapabilityMissing, SchemaRefused
from weighbridge.providers.http import identity
from weighbridge.providers.prices import Price
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import Approach, Failure, Inquiry, Reply, Weighed
from weighbridge.providers.systemone_answers import read_response
from weighbridge.providers.systemone_questions import refuse_unless_finite, request
from weighbridge.providers.token_estimate import estimate_tokens
from weighbridge.providers.transport import send
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Task

_REFUSED_FOR = timedelta(days=30)  # a refusal is believed so long: servers are updated


class SystemOneProvider:
    """One configured endpoint and model of `POST {base_url}/v1/systemone`.

    Args:
        name: the configured name.
        model: name of the model at the endpoint.
        base_url: with or without the `/v1` that others want.
        profile: who speaks there.
        ledger: which questions were refused.
        key: goes to `base_url` and nowhere else.
        timeout_s: limit of one attempt.
        price: None if nobody knows.
        weight: see `Provider.weight`.

    Source: TypeSafe's API reference of System One, and `transformers` 5.24.
    """

    reserve_s = 0.0
    is_remote = True

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        profile: Profile,
        ledger: Ledger,
        key: SecretStr | None = None,
        timeout_s: float = 15.0,
        price: Price | None = None,
        weight: float = 1.0,
    ) -> None:
        self.name, self.model, self.timeout_s = name, model, timeout_s
        self.base_url, self.profile = base_url.rstrip("/").removesuffix("/v1"), profile
        self.identity, self.weight = identity(self.base_url, model, key), weight
        self._key, self._ledger, self._price = key, ledger, price

    def approach(self, task: Task) -> Approach:
        """The task's own schema, as questions; reasons before an answer are not for these models.

        Raises:
            SchemaRefused: the task is more than listed fields side by side, or this server has
                refused its questions.
            CapabilityMissing: the task cannot do without a logit bias.
        """
        refuse_unless_finite(task)
        if task.logit_bias is not None and task.logit_bias.required:
            raise CapabilityMissing(self.profile.name, Feature.LOGIT_BIAS)
        facts = self._ledger.facts(self.base_url, self.model)
        if not facts.get(_feature(task.schema_hash), NOTHING_KNOWN).is_usable:
            hint = "It may take fewer fields or options; the refusal is believed for 30 days."
            problem = "this server has refused the questions"
            raise SchemaRefused("System One", "", "properties", problem, hint)
        schema = SchemaPlan(
            dialect="systemone",
            name=task.name,
            original=task.schema,
            wire=dict(task.schema),
            losses=(),
        )
        lacking = {"logit_bias": task.logit_bias is not None, "reasoning": task.reasoning}
        return Approach(
            mode="native",
            schema=schema,
            schema_hash=task.schema_hash,
            dropped=tuple(name for name, is_wanted in lacking.items() if is_wanted),
        )

    def learn(self, failure: Failure, inquiry: Inquiry) -> bool:
        """Note that the questions were refused; there is no other way to ask them here."""
        if failure.kind is FailureKind.CAPABILITY and failure.is_schema:
            now = datetime.now(UTC)
            fact = Fact(
                status=Status.UNSUPPORTED,
                origin=Origin.LEARNED,
                checked=now,
                expires=now + _REFUSED_FOR,
            )
            feature = _feature(inquiry.approach.schema_hash)
            self._ledger.record(self.base_url, self.model, feature, fact)
        return False

    async def ask(
        self, client: httpx.AsyncClient, inquiry: Inquiry, *, timeout_s: float
    ) -> Reply | Failure:
        """Send all questions about a ticket; see `Provider.ask`. No feedback can be given."""
        response = await send(
            client,
            request(self.model, inquiry.task, inquiry.ticket),
            base_url=self.base_url,
            key=self._key,
            auth=self.profile.auth,
            timeout_s=timeout_s,
        )
        return response if isinstance(response, Failure) else read_response(response, inquiry.task)

    async def weigh(
        self,
        client: httpx.AsyncClient,
        inquiry: Inquiry,
        reply: Reply,
        value: Json,
        *,
        timeout_s: float,
    ) -> Weighed:
        """The numbers that came with the answer; see `Provider.weigh`."""
        assert reply.evidence is not None
        return Weighed(evidence=reply.evidence)

    def worst_case(self, inquiry: Inquiry) -> tuple[int, int]:
        """What one attempt reads; nothing is written. See `Provider.worst_case`."""
        body = request(self.model, inquiry.task, inquiry.ticket).body.decode()
        return estimate_tokens(body), 0

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Price of one attempt; see `Provider.cost_usd`."""
        price = self._price
        return None if price is None else price.cost_usd(prompt_tokens, completion_tokens)

    def close(self) -> None:
        """Nothing to let go of: connections belong to the router's client."""


def _feature(schema_hash: str) -> str:
    """What the ledger calls one schema's questions."""
    return f"{Feature.JSON_SCHEMA}:{schema_hash}"
