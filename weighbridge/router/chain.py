"""The chain: asks one provider after the other until one gives a valid answer.

One deadline and one budget of attempts cover everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weighbridge.decision import Attempt, FailureKind
from weighbridge.providers.protocol import Approach, Failure, Provider
from weighbridge.router.outcome import Answered, Outcome
from weighbridge.router.visit import Asked, Surroundings, Visit, planned, skipped

_REFUSALS = frozenset({FailureKind.REFUSAL, FailureKind.FILTERED})


class Chain:
    """Providers in the order of asking.

    Args:
        providers: best first.
        around: what is shared by all tickets of a router.
        max_attempts: requests for one ticket, over all providers.
    """

    def __init__(
        self, providers: Sequence[Provider], *, around: Surroundings, max_attempts: int
    ) -> None:
        self._providers, self._around = providers, around
        self._max_attempts = max_attempts

    async def run(
        self, asked: Asked, *, deadline: float, wants_second: Callable[[Answered], bool]
    ) -> Outcome:
        """Ask until somebody answers, `deadline` (on the clock) comes, or nobody is left.

        Where `wants_second` says so of an answer, those who come after are asked as well.
        """
        trail: list[Attempt] = []
        first: Answered | None = None
        refusals, budget = 0, self._max_attempts
        # Planned ahead: no time is kept back, and no other put off, for one who cannot answer.
        ways = [(p, planned(p, asked.task, asked.ticket)) for p in self._providers]
        for position, (provider, approach) in enumerate(ways, start=1):
            if isinstance(approach, Failure):
                trail.append(skipped(provider, approach.kind, approach.detail))
                continue
            later = [p for p, way in ways[position:] if isinstance(way, Approach)]
            visit = Visit(
                around=self._around,
                asked=asked,
                provider=provider,
                approach=approach,
                end=deadline - sum(p.reserve_s for p in later),
                budget=budget,
                trail=trail,
            )
            if not await self._may_begin(visit, later):
                continue
            step = await visit.run()
            budget -= visit.tries
            if isinstance(step, Answered):
                if first is not None or not wants_second(step):
                    step = step if first is None else replace(first, second=step)
                    return Outcome(answered=step, refused=refusals > 0, trail=tuple(trail))
                first = step
            else:
                refusals += trail[-1].failure in _REFUSALS
                # What one provider refuses one other may answer; what two refuse is for a person.
                if not step.onward or refusals == 2:
                    break
            if budget == 0:
                break
        return Outcome(answered=first, refused=refusals > 0, trail=tuple(trail))

    async def _may_begin(self, visit: Visit, later: Sequence[Provider]) -> bool:
        """Whether the provider may be asked; where all are cooling, waits for the first one."""
        health, clock = self._around.health, self._around.clock
        cooling_s = health.left_s(visit.provider.name)
        if cooling_s > 0.0:
            if any(health.left_s(p.name) < cooling_s for p in later):
                visit.skip(FailureKind.COOLING, f"cooling down for {cooling_s:.1f} s")
                return False
            if cooling_s < visit.end - clock():
                visit.waited_s = cooling_s
                await self._around.sleep(cooling_s)
        if visit.end <= clock():
            visit.skip(FailureKind.DEADLINE, "no time was left")
            return False
        return True
