"""A provider behind HTTP: an adapter, an endpoint, and what is known of both."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
from pydantic import SecretStr

from weighbridge.capability import NOTHING_KNOWN, Fact, Feature, Ledger, Mode, Origin, Status
from weighbridge.decision import FailureKind, FieldEvidence, Json
from weighbridge.errors import CapabilityMissing, SchemaRefused
from weighbridge.providers.agreement import agreement, answer_in
from weighbridge.providers.asking import (
    MODE_FEATURES,
    Target,
    Wishes,
    approach,
    options,
    shown,
    takes,
)
from weighbridge.providers.evidence import Alignment, LogprobSource
from weighbridge.providers.prices import Price
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import (
    Adapter,
    Approach,
    Failure,
    HttpRequest,
    HttpResponse,
    Inquiry,
    Reply,
    RequestOptions,
    Weighed,
)
from weighbridge.providers.token_estimate import estimate_tokens
from weighbridge.providers.transport import send
from weighbridge.schemas.task import Prompt, Task, value_at

DEFAULT_WISHES = Wishes()

_REFUSED_FOR = timedelta(days=30)  # a refusal is believed so long: servers are updated
_IGNORED_FOR = timedelta(days=1)  # that a schema is ignored is a guess from two answers
_STRIKES = 2
_SUSPECTS = (Feature.LOGPROBS, Feature.TEMPERATURE, Feature.SEED)  # the rarest first
_UNSEEN_TOKENS = 500  # what vendors put before a prompt, most of all where there is a tool
_SAMPLING = 0.7  # temperature of further answers: at 0 a model only repeats itself

_SOURCES: Mapping[str, LogprobSource] = {
    "before_mask": "premask",
    "after_mask": "postmask",
}


def identity(base_url: str, model: str, key: SecretStr | None) -> str:
    """What the health of an endpoint belongs to: another key has another quota.

    >>> identity("https://a.test/v1", "m", None)
    'https://a.test/v1 m -'
    """
    secret = "" if key is None else key.get_secret_value()
    digest = hashlib.sha256(secret.encode()).hexdigest()[:8] if secret else "-"
    return f"{base_url} {model} {digest}"


class HttpProvider:
    """One configured endpoint and model.

    Args:
        name: the configured name.
        model: name of the model at the endpoint.
        base_url: what the adapter's path is appended to.
        profile: who speaks there.
        adapter: for its wire format.
        ledger: what was probed and learned.
        key: goes to `base_url` and nowhere else: redirects are not followed.
        wishes: what is asked for beside the answer.
        timeout_s: limit of one attempt.
        logprobs: whether log-probabilities are taken before or after the mask; None: as the ledger
            has it.
        price: None if nobody knows.
        weight: see `Provider.weight`.
        chance: 0 to 1, drawn for each ticket that may be probed.
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
        adapter: Adapter,
        ledger: Ledger,
        key: SecretStr | None = None,
        wishes: Wishes = DEFAULT_WISHES,
        timeout_s: float = 15.0,
        logprobs: LogprobSource | None = None,
        price: Price | None = None,
        weight: float = 1.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name, self.model, self.timeout_s = name, model, timeout_s
        self.base_url, self.profile, self.adapter = base_url.rstrip("/"), profile, adapter
        self.identity, self.weight = identity(self.base_url, model, key), weight
        self._key, self._ledger, self._wishes = key, ledger, wishes
        self._logprobs, self._price, self._chance = logprobs, price, chance
        self._declared = profile.declared(model)
        self._facts: Mapping[str, Fact] = self._declared
        self._learned: Mapping[str, Fact] | None = None
        self._approaches: dict[str, Approach] = {}
        self._wanted: dict[tuple[str, Mode, int], RequestOptions] = {}
        self._strikes = 0

    def approach(self, task: Task) -> Approach:
        """How the task will be asked; see `Provider.approach`."""
        self.facts()  # forgets what follows from older ones
        known = self._approaches.get(task.fingerprint)
        if known is None:
            known = approach(task, self._target(), self._wishes)
            self._approaches[task.fingerprint] = known
        return known

    def facts(self) -> Mapping[str, Fact]:
        """What is believed of this endpoint and model, by feature."""
        learned = self._ledger.facts(self.base_url, self.model)
        if learned is not self._learned:
            self._learned, self._facts = learned, {**self._declared, **learned}
            self._approaches.clear()
            self._wanted.clear()
        return self._facts

    def learn(self, failure: Failure, inquiry: Inquiry) -> bool:
        """Note what a failure says about capabilities; see `Provider.learn`."""
        sent = self._options(inquiry)
        self._note(failure, inquiry.approach)
        try:
            now = replace(inquiry, approach=self.approach(inquiry.task))
        except (SchemaRefused, CapabilityMissing):
            return False
        # What was refused may be no part of the request at all. What another ticket has learned
        # since this one was planned helps it as well.
        return now.approach != inquiry.approach or self._options(now) != sent

    async def ask(
        self, client: httpx.AsyncClient, inquiry: Inquiry, *, timeout_s: float
    ) -> Reply | Failure:
        """Send one request; see `Provider.ask`."""
        return await self._reply(client, inquiry, self._options(inquiry), timeout_s)

    async def send(
        self, client: httpx.AsyncClient, request: HttpRequest, *, timeout_s: float
    ) -> HttpResponse | Failure:
        """Send any request to this endpoint, with its key."""
        return await send(
            client,
            request,
            base_url=self.base_url,
            key=self._key,
            auth=self.profile.auth,
            timeout_s=timeout_s,
        )

    async def weigh(
        self,
        client: httpx.AsyncClient,
        inquiry: Inquiry,
        reply: Reply,
        value: Json,
        *,
        timeout_s: float,
    ) -> Weighed:
        """What the log-probabilities say, or further answers; see `Provider.weigh`."""
        self._strikes = 0
        task, wishes, source = inquiry.task, self._wishes, self._source()
        evidence = self._aligned(task, reply, value, source)
        replies: list[Reply | Failure] = []
        is_measured = bool(evidence) and source != "premask"
        if is_measured and self._chance() < wishes.mass_probe_rate:
            free = Inquiry(task=task, approach=shown(task), ticket=inquiry.ticket)
            replies = [await self._reply(client, free, self._options(free), timeout_s)]
            evidence = self._measured(task, evidence, free.approach, replies[0], value)
        elif len(evidence) < len(task.fields) and wishes.samples > 1:
            again = replace(inquiry, feedback="", output_factor=1)
            wanted = replace(self._options(again), num_alternatives=None)
            warm = [
                replace(wanted, temperature=_SAMPLING, seed=seed)
                if wanted.temperature is not None
                else wanted
                for seed in range(1, wishes.samples)
            ]
            asked = (self._reply(client, again, each, timeout_s) for each in warm)
            replies = list(await asyncio.gather(*asked))
            schema = inquiry.approach.schema
            others = [answer_in(each, schema, task) for each in replies]
            evidence = {**agreement(task, schema.reverse(value), others), **evidence}
        return Weighed(
            evidence=evidence,
            num_calls=len(replies),
            prompt_tokens=sum(each.prompt_tokens or 0 for each in replies),
            completion_tokens=sum(each.completion_tokens or 0 for each in replies),
        )

    def worst_case(self, inquiry: Inquiry) -> tuple[int, int]:
        """What one attempt can read and write; see `Provider.worst_case`."""
        schema = json.dumps(inquiry.approach.schema.wire)
        texts = (*_prompt(inquiry), schema)
        read = _UNSEEN_TOKENS + sum(map(estimate_tokens, texts))
        written = self._options(inquiry).max_output_tokens
        num_calls = max(self._wishes.samples, 2 if self._wishes.mass_probe_rate else 1)
        return num_calls * read, num_calls * written

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Price of one attempt; see `Provider.cost_usd`."""
        price = self._price
        return None if price is None else price.cost_usd(prompt_tokens, completion_tokens)

    def close(self) -> None:
        """Nothing to let go of: connections belong to the router's client."""

    def _note(self, failure: Failure, approach: Approach) -> None:
        feature = MODE_FEATURES[approach.mode]
        match failure.kind:
            case FailureKind.CAPABILITY if failure.is_schema and feature is not None:
                self._record(f"{feature}:{approach.schema_hash}", Status.UNSUPPORTED)
            case FailureKind.CAPABILITY if failure.parameter is not None:
                # Vendors say "response_format" of a schema and of any JSON object alike.
                is_mode = failure.parameter in MODE_FEATURES.values()
                refused = feature if is_mode and feature is not None else failure.parameter
                self._record(refused, Status.UNSUPPORTED, limit=failure.limit)
            case FailureKind.CAPABILITY:
                # Some routes only say that one of the parameters is too much.
                if suspect := next(filter(self._sends, _SUSPECTS), None):
                    self._record(suspect, Status.UNSUPPORTED)
            case FailureKind.INVALID if failure.is_schema and feature is not None:
                self._strikes += 1
                if self._strikes >= _STRIKES:
                    self._strikes = 0
                    self._record(feature, Status.IGNORED)

    def _options(self, inquiry: Inquiry) -> RequestOptions:
        self.facts()
        key = inquiry.task.fingerprint, inquiry.approach.mode, inquiry.output_factor
        known = self._wanted.get(key)
        if known is None:
            factor = inquiry.output_factor
            known = options(
                inquiry.approach, inquiry.task, self._target(), self._wishes, output_factor=factor
            )
            self._wanted[key] = known
        return known

    def _sends(self, feature: Feature) -> bool:
        """Whether requests carry a feature that they could do without."""
        is_wished = {
            Feature.LOGPROBS: self._wishes.logprobs,
            Feature.SEED: self._wishes.seed is not None,
            Feature.TEMPERATURE: self._wishes.temperature is not None,
        }
        return is_wished[feature] and takes(feature, self._target(), self._wishes)

    def _target(self) -> Target:
        return Target(profile=self.profile, model=self.model, facts=self.facts())

    async def _reply(
        self,
        client: httpx.AsyncClient,
        inquiry: Inquiry,
        wanted: RequestOptions,
        timeout_s: float,
    ) -> Reply | Failure:
        request = self.adapter.build(inquiry.approach.schema, _prompt(inquiry), wanted)
        response = await self.send(client, request, timeout_s=timeout_s)
        return response if isinstance(response, Failure) else self.adapter.parse(response)

    def _aligned(
        self, task: Task, reply: Reply, value: Json, source: LogprobSource
    ) -> dict[str, FieldEvidence]:
        alignment = reply.logprobs and Alignment.of(reply.text, reply.logprobs)
        if not alignment:
            return {}
        found = {
            field.name: alignment.evidence(
                field.path, field.options, value_at(value, field.path), source=source
            )
            for field in task.fields
        }
        return {name: evidence for name, evidence in found.items() if evidence is not None}

    def _measured(
        self,
        task: Task,
        evidence: Mapping[str, FieldEvidence],
        free: Approach,
        result: Reply | Failure,
        value: Json,
    ) -> dict[str, FieldEvidence]:
        """The evidence with that of an answer that nothing forced, where it says the same.

        Its numbers are taken before any mask, since there was none.
        """
        answer = answer_in(result, free.schema, task)
        if not isinstance(result, Reply) or answer is None:
            note = "mass_probe: without the constraint no valid answer came"
            return {name: replace(e, notes=(*e.notes, note)) for name, e in evidence.items()}
        measured = self._aligned(task, result, answer, "premask")
        both = {}
        for name, forced in evidence.items():
            unforced = measured.get(name)
            if unforced is not None and unforced.value == forced.value:
                both[name] = replace(unforced, notes=("mass_probe: of an unconstrained answer",))
            else:
                note = "mass_probe: without the constraint the answer is another one"
                both[name] = replace(forced, notes=(*forced.notes, note))
        return both

    def _source(self) -> LogprobSource:
        order = self.facts().get(Feature.MASK_ORDER, NOTHING_KNOWN).value
        return self._logprobs or _SOURCES.get(order or "", "unknown_mask")

    def _record(self, feature: str, status: Status, *, limit: float | None = None) -> None:
        now = datetime.now(UTC)
        fact = Fact(
            # A limit that is named is no refusal of the feature.
            status=status if limit is None else Status.CONDITIONAL,
            origin=Origin.LEARNED,
            limit=limit,
            checked=now,
            expires=now + (_IGNORED_FOR if status is Status.IGNORED else _REFUSED_FOR),
        )
        self._ledger.record(self.base_url, self.model, feature, fact)


def _prompt(inquiry: Inquiry) -> Prompt:
    prompt = inquiry.task.prompt(inquiry.ticket)
    if not inquiry.feedback:
        return prompt
    return prompt._replace(system=f"{prompt.system}\n\n{inquiry.feedback}")
