"""The chain: asks one provider after the other until one gives an answer that is good enough.

One deadline and one budget of attempts cover everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from weighbridge.decision import Attempt, FailureKind
from weighbridge.providers.protocol import Approach, Failure, Provider
from weighbridge.router.actions import Action
from weighbridge.router.order import Strategy, ordered
from weighbridge.router.outcome import Answered, Outcome
from weighbridge.router.visit import Allowance, Asked, Surroundings, Visit, planned, skipped


class Wanted(Enum):
    """What an answer still lacks before it can be judged."""

    NOTHING = auto()
    SECOND_OPINION = auto()  # another provider's answer beside it
    STRONGER = auto()  # the answer of a stronger provider in its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the chain goes through its providers.

    Args:
        strategy: the order.
        max_attempts: requests for one ticket, over all providers.
        stronger: names of those who are asked where an answer is unsure.
        hedge_after: share of a provider's own answers, such as 0.95: one that takes longer than
            that many of them is joined by the next provider, and the first answer counts. None:
            never, which costs least.
    """

    strategy: Strategy = "configured"
    max_attempts: int = 8
    stronger: Collection[str] = ()
    hedge_after: float | None = None


class Chain:
    """Providers, and how they are gone through.

    Args:
        providers: in the configured order.
        around: what is shared by all tickets of a router.
        policy: how they are gone through.
    """

    def __init__(
        self, providers: Sequence[Provider], *, around: Surroundings, policy: Policy
    ) -> None:
        self._providers, self._around, self._policy = providers, around, policy

    async def run(
        self, asked: Asked, *, deadline: float, lacks: Callable[[Answered], Wanted]
    ) -> Outcome:
        """Ask until somebody answers, `deadline` (on the clock) comes, or nobody is left.

        Args:
            asked: what is asked.
            deadline: on the clock.
            lacks: what a first answer still lacks.
        """
        run = _Run(self._candidates(asked), asked, self._around, self._policy, deadline)
        return await run.outcome(lacks)

    def _candidates(self, asked: Asked) -> list[_Candidate]:
        """Planned ahead: no time is kept back, and no other put off, for one who cannot answer."""
        order = ordered(
            self._providers,
            self._policy.strategy,
            latencies=self._around.latencies,
            draw=self._around.jitter,
        )
        return [_Candidate(p, planned(p, asked.task, asked.ticket)) for p in order]


@dataclass(frozen=True, slots=True)
class _Candidate:
    provider: Provider
    way: Approach | Failure


class _Run:
    """One ticket's way through the chain."""

    def __init__(
        self,
        candidates: list[_Candidate],
        asked: Asked,
        around: Surroundings,
        policy: Policy,
        deadline: float,
    ) -> None:
        self._left, self._asked, self._around = candidates, asked, around
        self._policy, self._deadline = policy, deadline
        self._trail: list[Attempt] = []
        self._allowance = Allowance(policy.max_attempts)
        self._refusals = 0

    async def outcome(self, lacks: Callable[[Answered], Wanted]) -> Outcome:
        first = await self._next_answer(lambda _: True)
        match Wanted.NOTHING if first is None else lacks(first):
            case Wanted.NOTHING:
                answered = first
            case Wanted.SECOND_OPINION:
                assert first is not None
                answered = replace(first, second=await self._next_answer(lambda _: True))
            case Wanted.STRONGER:
                stronger = self._policy.stronger
                better = await self._next_answer(lambda provider: provider.name in stronger)
                answered = first if better is None else replace(better, weaker=first)
        return Outcome(answered=answered, refused=self._refusals > 0, trail=tuple(self._trail))

    async def _next_answer(self, fits: Callable[[Provider], bool]) -> Answered | None:
        """The answer of the next provider that fits and gives one."""
        while self._allowance.left > 0 and (visit := await self._next_visit(fits)) is not None:
            step = await self._joined(visit, fits)
            if isinstance(step, Answered):
                return step
            # What one provider refuses one other may answer; what two refuse is for a person.
            if not step.onward or self._refusals >= 2:
                break
        return None

    async def _next_visit(
        self, fits: Callable[[Provider], bool], *, may_wait: bool = True
    ) -> Visit | None:
        """A visit to the next provider that fits and may be asked; the others are passed over."""
        waiting, self._left = self._left, []
        while waiting:
            candidate, *waiting = waiting
            provider, way = candidate.provider, candidate.way
            if not fits(provider):
                self._left.append(candidate)
                continue
            if isinstance(way, Failure):
                self._trail.append(skipped(provider, way.kind, way.detail))
                continue
            # Those who are not asked now need no time, and are nobody to be passed over for.
            able = [c.provider for c in waiting if isinstance(c.way, Approach)]
            later = [other for other in able if fits(other)]
            visit = Visit(
                later=later,
                around=self._around,
                asked=self._asked,
                provider=provider,
                approach=way,
                end=self._deadline - sum(p.reserve_s for p in later),
                allowance=self._allowance,
                trail=self._trail,
            )
            if not may_wait and self._must_wait(visit):
                self._left += [candidate, *waiting]
                return None
            if await self._may_begin(visit):
                self._left += waiting
                return visit
        return None

    def _must_wait(self, visit: Visit) -> bool:
        health, identity = self._around.health, visit.provider.identity
        return health.left_s(identity) > 0.0 or health.is_on_trial(identity)

    async def _may_begin(self, visit: Visit) -> bool:
        """Whether the provider may be asked; where all are cooling, waits for the first one."""
        health = self._around.health
        while (turn := visit.look()).wait_s > 0.0:
            visit.waited_s += turn.wait_s
            await self._around.sleep(turn.wait_s)
        if turn.passes_over:
            return False
        if health.is_on_trial(visit.provider.identity) and any(
            health.left_s(p.identity) == 0.0 and not health.is_on_trial(p.identity)
            for p in visit.later
        ):
            visit.skip(FailureKind.COOLING, "another ticket is trying it after a cooldown")
            return False
        if visit.end <= self._around.clock():
            visit.skip(FailureKind.DEADLINE, "no time was left")
            return False
        return True

    async def _joined(self, visit: Visit, fits: Callable[[Provider], bool]) -> Answered | Action:
        """How a visit ends, or the next provider's, where the first takes unusually long."""
        share = self._policy.hedge_after
        usual_s = None
        if share is not None:
            usual_s = self._around.latencies.quantile(visit.provider.identity, share)
        if usual_s is None:
            step = await visit.run()
            self._refusals += visit.has_refused
            return step
        return await self._hedged(visit, usual_s, fits)

    async def _hedged(
        self, visit: Visit, usual_s: float, fits: Callable[[Provider], bool]
    ) -> Answered | Action:
        """The first answer of two; what failed leaves the other alone, and the loser is ended."""
        running = {asyncio.ensure_future(visit.run()): visit}
        pause = asyncio.ensure_future(self._around.sleep(usual_s))
        try:
            await asyncio.wait({*running, pause}, return_when=asyncio.FIRST_COMPLETED)
            (first,) = running
            if not first.done() and self._allowance.left > 0:
                other = await self._next_visit(fits, may_wait=False)
                if other is not None:
                    running[asyncio.ensure_future(other.run())] = other
            ended = [Action()]
            pending = set(running)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    step = task.result()
                    if isinstance(step, Answered):
                        return step
                    ended.append(step)
            return next((step for step in ended if not step.onward), ended[-1])
        finally:
            pause.cancel()
            losers = {task: its for task, its in running.items() if task.cancel()}
            # Waits for both, hides no cancellation of the ticket itself.
            await asyncio.gather(*running, return_exceptions=True)
            for its in losers.values():
                its.skip(FailureKind.CANCELLED, "another provider was quicker")
            self._refusals += sum(its.has_refused for its in running.values())
