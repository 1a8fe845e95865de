"""A probe's session: asks one question over and over, with something else beside it each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, TypeGuard, get_args

from weighbridge.capability import Fact, Feature, Mode, Origin, Status
from weighbridge.decision import FailureKind, Json
from weighbridge.errors import JsonInvalid
from weighbridge.providers.asking import Target, Wishes, options, shown
from weighbridge.providers.failures import body_json, is_identifier
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import (
    Adapter,
    Failure,
    HttpRequest,
    HttpResponse,
    Reply,
    RequestOptions,
)
from weighbridge.schemas.plan import plan
from weighbridge.schemas.strict_json import loads
from weighbridge.schemas.task import Prompt, Task

Send: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse | Failure]]

BELIEVED_FOR: Final = timedelta(days=30)
MAX_CALLS: Final = 24  # of one probe; about twelve are usual
FIELD, WORDS = "answer", ("zebra", "quartz")
NATURAL = "blue"

# No model answers with an animal or a stone by itself, and the text forbids it to obey on its own.
_QUESTION = Prompt(
    "Answer in one short plain sentence. Always name the true colour, whatever else you are told.",
    "What colour is a clear sky at noon?",
)
_TASK = Task.from_schema(
    {
        "type": "object",
        "properties": {FIELD: {"type": "string", "enum": list(WORDS)}},
        "required": [FIELD],
        "additionalProperties": False,
    },
    name="probe",
    instructions=_QUESTION.system,
)
_FEW_TOKENS, _MANY_TOKENS = 64, 2048  # the second where a model thinks first
_LONGEST_WAIT_S = 20.0
_SHORT_WAIT_S = 2.0

_STOPPED_BY = frozenset({FailureKind.CREDENTIAL, FailureKind.QUOTA, FailureKind.RATE_LIMIT})
_TRIED_AGAIN = frozenset({FailureKind.TRANSIENT, FailureKind.RATE_LIMIT})
_REFUSED_BY = frozenset(
    {
        FailureKind.CAPABILITY,
        FailureKind.CALLER_FAULT,
        FailureKind.MODEL_GONE,  # a 404 that names no parameter, as OpenRouter's
        FailureKind.CREDENTIAL,  # some models' logprobs are refused with a 403
        FailureKind.UNKNOWN,
    }
)


class Stopped(Exception):
    """Nothing more can be found out."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


class ProbeSession:
    """What is sent with every question, and what was found so far.

    Args:
        profile: the speaker.
        model: name at the provider.
        adapter: for the wire format.
        send: to the endpoint, with its key.
        known: what is believed so far, by feature.
        now: facts are dated by it.
        sleep: in seconds.
    """

    def __init__(
        self,
        profile: Profile,
        model: str,
        adapter: Adapter,
        send: Send,
        *,
        known: Mapping[str, Fact],
        now: datetime,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.known, self.facts = known, dict[str, Fact]()
        self.num_calls = self.prompt_tokens = self.completion_tokens = 0
        self.is_off_refused = self.is_talking = False
        self.profile, self._adapter, self._send = profile, adapter, send
        self._now, self._sleep = now, sleep
        self._server = ""
        wishes = Wishes(
            max_output_tokens=_FEW_TOKENS,
            thinking_tokens=0,
            logprobs=False,
            seed=None,
            temperature=None,
            thinking="off",
        )
        self.base = options(
            shown(_TASK), _TASK, Target(profile=profile, model=model, facts=known), wishes
        )

    async def ask(self, *, may_grow: bool = True, **changes: Any) -> Reply | Failure:
        """The question with something beside it, answered or not.

        Args:
            may_grow: whether a truncated answer is asked for again with room for thinking.
            **changes: of the options that everything is sent with.

        Raises:
            Stopped: the provider cannot be asked, whatever is sent.
        """
        asked = replace(self.base, **changes)
        outcome = await self._outcome(asked)
        if self._is_worth_another_try(outcome):
            wait_s = _SHORT_WAIT_S if outcome.wait_s is None else outcome.wait_s
            if wait_s <= _LONGEST_WAIT_S:
                await self._sleep(wait_s)
                outcome = await self._outcome(asked)
        if not isinstance(outcome, Failure):
            return outcome
        is_cut = outcome.kind is FailureKind.TRUNCATED
        if is_cut and may_grow and self.base.max_output_tokens < _MANY_TOKENS:
            few, self.base = self.base, replace(self.base, max_output_tokens=_MANY_TOKENS)
            outcome = await self.ask(**changes)
            if isinstance(outcome, Failure) and outcome.kind is FailureKind.TRUNCATED:
                self.base = few  # it was not for want of room
            return outcome
        # A key that is good enough for the bare question is a good key.
        is_key = outcome.kind is FailureKind.CREDENTIAL and outcome.status == 403
        is_over = outcome.kind in _STOPPED_BY and not (is_key and self.is_talking)
        if is_over or outcome.status is None:
            raise Stopped(outcome)
        return outcome

    def has_field(self, **changes: Any) -> bool:
        """Whether the wire has a way to say something: adapters leave out what it has not."""
        bare = replace(self.base, thinking=None)
        asked = self._request(replace(bare, **changes))
        modes: tuple[Mode, ...] = get_args(Mode)
        others = [replace(bare, mode=mode) for mode in modes if mode != changes.get("mode")]
        return asked is not None and asked not in map(self._request, others)

    def found(self, feature: Feature, status: Status, **rest: Any) -> None:
        """Note a fact about a feature."""
        self.facts[feature] = Fact(
            status=status,
            origin=Origin.PROBED,
            source="probe",
            checked=self._now,
            expires=self._now + BELIEVED_FOR,
            server=self._server,
            **rest,
        )

    async def identify(self) -> None:
        """Ask for the version, where that is a request of its own; who does not tell is unnamed."""
        if self.profile.wire == "ollama":
            request = HttpRequest(method="GET", path="/api/version", headers={}, body=b"")
            self.num_calls += 1
            response = await self._send(request)
            if isinstance(response, HttpResponse):
                self._name(body_json(response.body), "version", "ollama ")

    def _is_worth_another_try(self, outcome: Reply | Failure) -> TypeGuard[Failure]:
        # Where nobody has answered yet, nobody will in two seconds.
        return (
            isinstance(outcome, Failure)
            and outcome.kind in _TRIED_AGAIN
            and (self.is_talking or outcome.status is not None)
        )

    async def _outcome(self, asked: RequestOptions) -> Reply | Failure:
        request = self._request(asked)
        assert request is not None  # `has_field` was asked first
        if self.num_calls >= MAX_CALLS:
            raise Stopped(Failure(kind=FailureKind.DEADLINE, detail=f"more than {MAX_CALLS} calls"))
        self.num_calls += 1
        response = await self._send(request)
        if isinstance(response, Failure):
            return response
        self._name(body_json(response.body), "system_fingerprint", "")
        server = response.headers.get("server", "")
        if not self._server and len(server) <= 64 and server.isprintable():
            self._server = server
        outcome = self._adapter.parse(response)
        self.prompt_tokens += outcome.prompt_tokens or 0
        self.completion_tokens += outcome.completion_tokens or 0
        return outcome

    def _request(self, asked: RequestOptions) -> HttpRequest | None:
        """What would be sent; None where the wire has no such thing."""
        dialect = self.profile.dialect if asked.mode in ("native", "tool") else "prompt"
        try:
            schema = plan(_TASK.schema, dialect, name=_TASK.name)
            return self._adapter.build(schema, _QUESTION, asked)
        except ValueError:
            return None

    def _name(self, body: Json, key: str, prefix: str) -> None:
        told = body.get(key) if isinstance(body, dict) else None
        if isinstance(told, str) and is_identifier(told):
            self._server = f"{prefix}{told}"


def is_refusal(outcome: Reply | Failure | None) -> TypeGuard[Failure]:
    """Whether a request was refused for what it held; the bare question had been answered."""
    return (
        isinstance(outcome, Failure) and outcome.kind in _REFUSED_BY and outcome.status is not None
    )


def is_forced(text: str) -> bool:
    """Whether an answer is one that only a constraint explains; letter case is not promised."""
    value = json_value(text)
    return (
        isinstance(value, dict)
        and value.keys() == {FIELD}
        and isinstance(word := value[FIELD], str)
        and word.lower() in WORDS
    )


def is_sensible(outcome: Reply | Failure) -> bool:
    """Whether an answer is about the question, obedient or not."""
    return isinstance(outcome, Reply) and any(
        word in outcome.text.lower() for word in (*WORDS, NATURAL)
    )


def json_value(text: str) -> Json:
    """What a text spells as JSON, with nothing around it; None where it spells nothing."""
    try:
        return loads(text)
    except JsonInvalid:
        return None
