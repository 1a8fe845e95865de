"""The attempt loop: asks one provider after the other until one gives a valid answer.

One deadline and one budget of attempts cover everything. What follows a failure is decided in
`actions`; this module obeys, keeps the trail, and tells `health`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_never

from weighbridge.decision import Attempt, FailureKind, FieldEvidence
from weighbridge.errors import CapabilityMissing, SchemaRefused
from weighbridge.providers.protocol import (
    Amendments,
    Approach,
    Failure,
    Provider,
    Reply,
    Weighed,
)
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.router.actions import MAX_TRIES, Action, Amend, Health, next_action
from weighbridge.router.health import ProviderHealth
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

_REFUSALS = frozenset({FailureKind.REFUSAL, FailureKind.FILTERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A valid answer, whose it is, what its numbers say, and what another provider answered."""

    provider: Provider
    reply: Reply
    accepted: Accepted
    evidence: Mapping[str, FieldEvidence]
    second: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the chain ended.

    Args:
        answered: None if nobody gave a valid answer.
        refused: somebody declined to answer.
        trail: every attempt in order.
    """

    answered: Answered | None
    refused: bool
    trail: tuple[Attempt, ...]


class AttemptLoop:
    """Providers in the order of asking, and what is known about them.

    Args:
        providers: best first.
        health: shared by all tickets of a router.
        clock: monotonic seconds.
        sleep: seconds.
        jitter: 0 to 1, drawn for each wait.
        max_attempts: requests for one ticket, over all providers.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        health: ProviderHealth,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        jitter: Callable[[], float],
        max_attempts: int,
    ) -> None:
        self._providers = providers
        self._health, self._max_attempts = health, max_attempts
        self._clock, self._sleep, self._jitter = clock, sleep, jitter

    async def run(
        self,
        client: httpx.AsyncClient,
        task: Task,
        ticket: Ticket,
        *,
        deadline: float,
        wants_second: Callable[[Answered], bool],
    ) -> Outcome:
        """Ask until somebody answers, `deadline` (on the clock) comes, or nobody is left.

        Where `wants_second` says so of an answer, those who come after are asked as well.
        """
        trail: list[Attempt] = []
        first: Answered | None = None
        refusals, budget = 0, self._max_attempts
        # Planned ahead: no time is kept back, and no other put off, for one who cannot answer.
        planned = [(provider, _planned(provider, task, ticket)) for provider in self._providers]
        for position, (provider, approach) in enumerate(planned, start=1):
            if isinstance(approach, Failure):
                trail.append(_skipped(provider, approach.kind, approach.detail))
                continue
            later = [p for p, its in planned[position:] if isinstance(its, Approach)]
            visit = _Visit(
                provider=provider,
                approach=approach,
                task=task,
                ticket=ticket,
                client=client,
                end=deadline - sum(p.reserve_s for p in later),
                budget=budget,
                trail=trail,
            )
            if not await self._may_ask(visit, later):
                continue
            step = await self._visit(visit)
            budget -= visit.tries
            if isinstance(step, Answered):
                if first is not None or not wants_second(step):
                    step = step if first is None else replace(first, second=step)
                    return Outcome(answered=step, refused=refusals > 0, trail=tuple(trail))
                first = step
                if budget == 0:
                    break
                continue
            refusals += trail[-1].failure in _REFUSALS
            # What one provider refuses one other may answer; what two refuse is for a person.
            if not step.onward or refusals == 2 or budget == 0:
                break
        return Outcome(answered=first, refused=refusals > 0, trail=tuple(trail))

    async def _may_ask(self, visit: _Visit, later: Sequence[Provider]) -> bool:
        """Whether the provider may be asked; where all are cooling, waits for the first one."""
        cooling_s = self._health.left_s(visit.provider.name)
        if cooling_s > 0.0:
            if any(self._health.left_s(p.name) < cooling_s for p in later):
                visit.skip(FailureKind.COOLING, f"cooling down for {cooling_s:.1f} s")
                return False
            if cooling_s < visit.end - self._clock():
                visit.waited_s = cooling_s
                await self._sleep(cooling_s)
        if visit.end <= self._clock():
            visit.skip(FailureKind.DEADLINE, "no time was left")
            return False
        return True

    async def _visit(self, visit: _Visit) -> Answered | Action:
        """Ask one provider, again where that can help."""
        retrying = AsyncRetrying(
            retry=retry_if_result(lambda step: isinstance(step, Action) and step.again),
            wait=lambda state: _action(state).wait_s,
            stop=stop_never,  # `next_action` stops
            sleep=self._sleep,
        )
        step: Answered | Action = await retrying(self._attempt, visit)
        if isinstance(step, Action) and step.health is not Health.UNTOUCHED:
            self._health.cool(visit.provider.name, step.wait_s)
        return step

    async def _attempt(self, visit: _Visit) -> Answered | Action:
        started = self._clock()
        allowed_s = max(0.001, min(visit.provider.timeout_s, visit.end - started))
        result = await visit.provider.ask(
            visit.client,
            visit.task,
            visit.approach,
            visit.ticket,
            amendments=visit.amendments,
            timeout_s=allowed_s,
        )
        took_s = self._clock() - started
        checked = (
            accept(result, visit.approach.schema, visit.task)
            if isinstance(result, Reply)
            else result
        )
        visit.record(result, checked, took_s)
        if isinstance(checked, Accepted):
            assert isinstance(result, Reply)
            self._health.recovered(visit.provider.name, started)
            evidence = await self._weighed(visit, result, checked, allowed_s - took_s)
            return Answered(
                provider=visit.provider, reply=result, accepted=checked, evidence=evidence
            )
        assert isinstance(checked, Failure)
        # Also where this ticket does not ask again: the next would pay for the same refusal.
        can_replan = visit.provider.learn(checked, visit.approach)
        action = next_action(
            checked,
            # Where the budget ends, the tries end: what is remembered stays the same.
            tries=visit.tries if visit.tries < visit.budget else MAX_TRIES,
            amended=visit.amended,
            took_s=took_s,
            left_s=visit.end - self._clock(),
            jitter=self._jitter(),
            can_replan=can_replan,
        )
        if action.again and not visit.amend(action, checked):
            action = Action()
        if allowed_s <= took_s and allowed_s < visit.provider.timeout_s:
            # The ticket's time was up, not the provider's: that is no outage.
            action = replace(action, health=Health.UNTOUCHED)
        return action

    async def _weighed(
        self, visit: _Visit, reply: Reply, accepted: Accepted, left_s: float
    ) -> Mapping[str, FieldEvidence]:
        """The evidence for an accepted answer; what it took is noted where it took requests."""
        started = self._clock()
        weighed = await visit.provider.weigh(
            visit.client,
            visit.task,
            visit.approach,
            visit.ticket,
            reply,
            accepted.wire,
            timeout_s=max(0.001, left_s),
        )
        if weighed.num_calls:
            visit.record_weighing(weighed, self._clock() - started)
        return weighed.evidence


@dataclass(slots=True, kw_only=True)
class _Visit:
    """One provider and one ticket: what was tried so far."""

    provider: Provider
    approach: Approach
    task: Task
    ticket: Ticket
    client: httpx.AsyncClient
    end: float
    budget: int
    trail: list[Attempt]
    tries: int = 0
    waited_s: float = 0.0
    amended: frozenset[Amend] = frozenset()
    amendments: Amendments = field(default_factory=Amendments)

    def skip(self, kind: FailureKind, detail: str) -> None:
        """Note that the provider was not asked."""
        self.trail.append(_skipped(self.provider, kind, detail))

    def record(self, result: Reply | Failure, checked: Accepted | Failure, took_s: float) -> None:
        """Note one attempt."""
        self.tries += 1
        failure = checked if isinstance(checked, Failure) else None
        cost = self.provider.cost_usd(result.prompt_tokens, result.completion_tokens)
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
                mode=self.approach.mode,
                dropped=self.approach.dropped,
                losses=tuple(str(loss) for loss in self.approach.schema.losses),
            )
        )

    def record_weighing(self, weighed: Weighed, took_s: float) -> None:
        """Note the requests that only weighed an answer: they are paid for as well."""
        tokens = weighed.prompt_tokens, weighed.completion_tokens
        self.trail.append(
            Attempt(
                provider=self.provider.name,
                model=self.provider.model,
                seconds=took_s,
                detail=f"{weighed.num_calls} more requests to weigh the answer",
                prompt_tokens=weighed.prompt_tokens,
                completion_tokens=weighed.completion_tokens,
                cost_usd=self.provider.cost_usd(*tokens),
            )
        )

    def amend(self, action: Action, failure: Failure) -> bool:
        """Prepare the next attempt; False where there is no way to ask again."""
        self.waited_s = action.wait_s
        self.amended |= {action.amend} - {Amend.NOTHING}
        match action.amend:
            case Amend.REPLAN:
                approach = _planned(self.provider, self.task, self.ticket)
                if isinstance(approach, Failure):
                    return False
                self.approach = approach
            case Amend.GIVE_FEEDBACK:
                feedback = f"Your last answer was not accepted: {failure.detail}."
                self.amendments = replace(self.amendments, feedback=feedback)
            case Amend.RAISE_LIMIT:
                self.amendments = replace(self.amendments, output_factor=4)
            case Amend.NOTHING:
                pass
        return True


def _planned(provider: Provider, task: Task, ticket: Ticket) -> Approach | Failure:
    """How a provider would be asked, or why it is not."""
    if ticket.local_only and provider.is_remote:
        return Failure(kind=FailureKind.CAPABILITY, detail="the ticket must not leave the machine")
    try:
        return provider.approach(task)
    except (SchemaRefused, CapabilityMissing) as refusal:
        return Failure(kind=FailureKind.CAPABILITY, detail=str(refusal))


def _skipped(provider: Provider, kind: FailureKind, detail: str) -> Attempt:
    return Attempt(provider=provider.name, model=provider.model, failure=kind, detail=detail)


def _action(state: RetryCallState) -> Action:
    assert state.outcome is not None
    action = state.outcome.result()
    assert isinstance(action, Action)
    return action
