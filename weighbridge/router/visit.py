"""One provider and one ticket: asked once, and again where that can help.

What follows a failure is decided in `actions`; a visit obeys, keeps the trail, and tells `health`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_never

from weighbridge.decision import Attempt, FailureKind, FieldEvidence
from weighbridge.errors import CapabilityMissing, ProviderAbsent, SchemaRefused
from weighbridge.providers.protocol import (
    Approach,
    Failure,
    Inquiry,
    Provider,
    Reply,
    Weighed,
)
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.router.actions import MAX_TRIES, Action, Amend, Health, next_action
from weighbridge.router.admission import Admission
from weighbridge.router.budget import spent_usd
from weighbridge.router.health import ProviderHealth
from weighbridge.router.latency import Latencies
from weighbridge.router.outcome import Answered
from weighbridge.router.telemetry import Telemetry
from weighbridge.router.turn import Turn, turn
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

if TYPE_CHECKING:
    from weighbridge.schemas.redaction import RedactedText

_REFUSALS = frozenset({FailureKind.REFUSAL, FailureKind.FILTERED})
_USELESS = frozenset({FailureKind.INVALID, FailureKind.TRUNCATED, FailureKind.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all visits of a router share.

    Args:
        health: of the providers.
        latencies: of their answers.
        clock: monotonic seconds.
        sleep: seconds.
        jitter: 0 to 1, drawn for each wait.
        telemetry: is told of every attempt.
        admission: lets requests be sent.
    """

    health: ProviderHealth
    latencies: Latencies
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    jitter: Callable[[], float]
    telemetry: Telemetry = field(default_factory=Telemetry)
    admission: Admission = field(default_factory=Admission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked, whoever answers.

    Args:
        client: of the running loop.
        task: what is asked.
        ticket: about what.
        redacted: its text as providers away from this machine may read it; None: as it is.
    """

    client: httpx.AsyncClient
    task: Task
    ticket: Ticket
    redacted: RedactedText | None = None


@dataclass(slots=True)
class Allowance:
    """Requests that may still be sent for a ticket; two visits at once share it."""

    left: int


@dataclass(slots=True, kw_only=True)
class Visit:
    """One provider and one ticket, and what was tried so far.

    Args:
        around: what all visits share.
        asked: what is asked.
        provider: of whom.
        later: those who would be asked instead.
        approach: how at first.
        end: on the clock; no attempt goes on beyond it.
        allowance: is used up request by request.
        trail: every attempt is added to it.
        waited_s: pause before the first attempt.
        has_refused: whether the latest answer declined to answer.
    """

    around: Surroundings
    asked: Asked
    provider: Provider
    later: Sequence[Provider]
    approach: InitVar[Approach]
    end: float
    allowance: Allowance
    trail: list[Attempt]
    waited_s: float = 0.0
    has_refused: bool = False
    _began: float = math.inf
    _failed: FailureKind = FailureKind.UNKNOWN
    _tries: int = 0
    _amended: frozenset[Amend] = frozenset()
    _inquiry: Inquiry = field(init=False)

    def __post_init__(self, approach: Approach) -> None:
        ticket = self.asked.ticket
        if self._redacted is not None:
            ticket = ticket.model_copy(update={"subject": "", "body": self._redacted.text})
        self._inquiry = Inquiry(task=self.asked.task, approach=approach, ticket=ticket)

    async def run(self) -> Answered | Action:
        """Ask until there is an answer, or asking again cannot help."""
        health, identity = self.around.health, self.provider.identity
        self._began = self.around.clock()
        with health.trial(identity):
            step = await self._attempt()
            if isinstance(step, Action) and step.again:
                step = await self._asked_again(step)
            if isinstance(step, Action) and step.health is not Health.UNTOUCHED:
                health.cool(identity, step.wait_s, self._failed, is_asked=step.is_asked)
        return step

    def look(self, since: float = -math.inf) -> Turn:
        """Whether the provider may be asked; if it is passed over the trail says why.

        Args:
            since: on the clock; cooldowns that began earlier are known already.
        """
        health = self.around.health
        cooling = health.cooldown(self.provider.identity)
        if cooling is None or cooling.began < since:
            return Turn()
        later = [health.cooldown(other.identity) for other in self.later]
        found = turn(cooling, later, left_s=self.end - self.around.clock())
        if found.passes_over:
            self.skip(FailureKind.COOLING, str(cooling))
        return found

    def skip(self, kind: FailureKind, detail: str) -> None:
        """Note that the provider was not asked."""
        self.trail.append(skipped(self.provider, kind, detail))

    async def _asked_again(self, first: Action) -> Answered | Action:
        """What the last attempt comes to, after one that shall be followed by others."""
        made = [first]

        async def attempt() -> Answered | Action:
            return made.pop() if made else self._heard() or await self._attempt()

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda step: isinstance(step, Action) and step.again),
            wait=lambda state: _action(state).wait_s,
            stop=stop_never,  # `next_action` stops
            sleep=self.around.sleep,
        )
        return await retrying(attempt)

    async def _attempt(self) -> Answered | Action:
        if self.allowance.left < 1:  # a hedge has used it up meanwhile
            return Action()
        self.allowance.left -= 1
        async with self.around.admission.request(
            self.provider, self._inquiry, until=self.end
        ) as admitted:
            if isinstance(admitted, Failure):
                self.allowance.left += 1
                self.skip(admitted.kind, admitted.detail)
                return Action()
            self.waited_s += admitted.waited_s
            if admitted.waited_s > 0.0 and (heard := self._heard()):
                self.allowance.left += 1
                admitted.withdraw()
                return heard
            before = len(self.trail)
            result, step = await self._sent()
            costs = [attempt.cost_usd for attempt in self._own(before)]
            admitted.settle(spent_usd(result, _total(costs)))
            return step

    def _heard(self) -> Action | None:
        """What follows from what other tickets have found out since this visit began."""
        found = self.look(self._began)
        if found.passes_over:
            return Action()
        if found.wait_s == 0.0:
            return None
        self.waited_s += found.wait_s
        return Action(again=True, wait_s=found.wait_s)

    def _own(self, before: int) -> list[Attempt]:
        """What this visit has added to the trail since; others may have added theirs."""
        return [a for a in self.trail[before:] if a.provider == self.provider.name]

    async def _sent(self) -> tuple[Reply | Failure, Answered | Action]:
        """One request, and what follows from it."""
        started = self.around.clock()
        allowed_s = max(0.001, min(self.provider.timeout_s, self.end - started))
        with self.around.telemetry.attempt(self.provider, self.asked.ticket.id) as watch:
            result = await self.provider.ask(self.asked.client, self._inquiry, timeout_s=allowed_s)
            took_s = self.around.clock() - started
            checked = self._checked(result)
            self._record(result, checked, took_s)
            watch.ended(self.trail[-1], result)
        if isinstance(checked, Accepted):
            assert isinstance(result, Reply)
            self.around.health.recovered(self.provider.identity, started)
            self.around.latencies.note(self.provider.identity, took_s)
            evidence = await self._weighed(result, checked, allowed_s - took_s)
            return result, Answered(
                provider=self.provider, reply=result, accepted=checked, evidence=evidence
            )
        if checked.kind in _USELESS:
            self.around.latencies.note_useless(self.provider.identity)
        return result, self._follow(checked, took_s=took_s, allowed_s=allowed_s)

    def _checked(self, result: Reply | Failure) -> Accepted | Failure:
        if isinstance(result, Failure):
            return result
        restore = self._redacted.restore if self._redacted else None
        return accept(result, self._inquiry.approach.schema, self.asked.task, restore=restore)

    def _follow(self, failure: Failure, *, took_s: float, allowed_s: float) -> Action:
        """What to do about a failure; prepares the next attempt if there is one."""
        # Also where this ticket does not ask again: the next would pay for the same refusal.
        can_replan = self.provider.learn(failure, self._inquiry)
        action = next_action(
            failure,
            # Where the budget ends, the tries end: what is remembered stays the same.
            tries=self._tries if self.allowance.left > 0 else MAX_TRIES,
            amended=self._amended,
            took_s=took_s,
            left_s=self.end - self.around.clock(),
            jitter=self.around.jitter(),
            can_replan=can_replan,
        )
        self._failed = failure.kind
        if action.again and not self._amend(action, failure):
            action = Action()
        if action.again and (heard := self._heard()):
            self.waited_s = max(action.wait_s, heard.wait_s)
            action = replace(action, wait_s=self.waited_s) if heard.again else heard
        if allowed_s <= took_s and allowed_s < self.provider.timeout_s:
            # The ticket's time was up, not the provider's: that is no outage.
            action = replace(action, health=Health.UNTOUCHED)
        return action

    async def _weighed(
        self, reply: Reply, accepted: Accepted, left_s: float
    ) -> Mapping[str, FieldEvidence]:
        """The evidence for an accepted answer; what it took is noted where it took requests."""
        started = self.around.clock()
        weighed = await self.provider.weigh(
            self.asked.client,
            self._inquiry,
            reply,
            accepted.wire,
            timeout_s=max(0.001, left_s),
        )
        if weighed.num_calls:
            self._record_weighing(weighed, self.around.clock() - started)
        return weighed.evidence

    @property
    def _redacted(self) -> RedactedText | None:
        return self.asked.redacted if self.provider.is_remote else None

    def _amend(self, action: Action, failure: Failure) -> bool:
        """Prepare the next attempt; False where there is no way to ask again."""
        self.waited_s = action.wait_s
        self._amended |= {action.amend} - {Amend.NOTHING}
        match action.amend:
            case Amend.REPLAN:
                approach = planned(self.provider, self.asked.task, self.asked.ticket)
                if isinstance(approach, Failure):
                    return False
                self._inquiry = replace(self._inquiry, approach=approach)
            case Amend.GIVE_FEEDBACK:
                feedback = f"Your last answer was not accepted: {failure.detail}."
                self._inquiry = replace(self._inquiry, feedback=feedback)
            case Amend.RAISE_LIMIT:
                self._inquiry = replace(self._inquiry, output_factor=4)
            case Amend.NOTHING:
                pass
        return True

    def _record(self, result: Reply | Failure, checked: Accepted | Failure, took_s: float) -> None:
        self._tries += 1
        failure = checked if isinstance(checked, Failure) else None
        self.has_refused = failure is not None and failure.kind in _REFUSALS
        if failure is not None and failure.kind is FailureKind.UNAVAILABLE:
            # It never got as far as being asked in some mode, or at some cost.
            note = skipped(self.provider, failure.kind, failure.detail)
            self.trail.append(replace(note, seconds=took_s, waited_s=self.waited_s))
            return
        cost = self.provider.cost_usd(result.prompt_tokens, result.completion_tokens)
        approach = self._inquiry.approach
        self.trail.append(
            Attempt(
                provider=self.provider.name,
                model=self.provider.model,
                failure=failure.kind if failure else None,
                status=failure.status if failure and failure.status else result.status,
                seconds=took_s,
                waited_s=self.waited_s,
                detail=failure.detail if failure else "",
                prompt_tokens=result.prompt_tokens,
                completion_tokens=result.completion_tokens,
                cost_usd=cost,
                mode=approach.mode,
                dropped=approach.dropped,
                losses=tuple(str(loss) for loss in approach.schema.losses),
            )
        )

    def _record_weighing(self, weighed: Weighed, took_s: float) -> None:
        """Note the requests that only weighed an answer: they are paid for as well."""
        cost = self.provider.cost_usd(weighed.prompt_tokens, weighed.completion_tokens)
        self.trail.append(
            Attempt(
                provider=self.provider.name,
                model=self.provider.model,
                seconds=took_s,
                detail=f"{weighed.num_calls} more requests to weigh the answer",
                prompt_tokens=weighed.prompt_tokens,
                completion_tokens=weighed.completion_tokens,
                cost_usd=cost,
            )
        )
        self.around.telemetry.weighed(self.provider, self.trail[-1])


def planned(provider: Provider, task: Task, ticket: Ticket) -> Approach | Failure:
    """How a provider would be asked, or why it is not."""
    if ticket.local_only and provider.is_remote:
        return Failure(kind=FailureKind.CAPABILITY, detail="the ticket must not leave the machine")
    try:
        return provider.approach(task)
    except ProviderAbsent as absence:
        return Failure(kind=FailureKind.UNAVAILABLE, detail=str(absence))
    except (SchemaRefused, CapabilityMissing) as refusal:
        return Failure(kind=FailureKind.CAPABILITY, detail=str(refusal))


def skipped(provider: Provider, kind: FailureKind, detail: str) -> Attempt:
    """The note that a provider was not asked."""
    return Attempt(provider=provider.name, model=provider.model, failure=kind, detail=detail)


def _total(costs: Sequence[float | None]) -> float | None:
    """The sum; None where one is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _action(state: RetryCallState) -> Action:
    assert state.outcome is not None
    action = state.outcome.result()
    assert isinstance(action, Action)
    return action
