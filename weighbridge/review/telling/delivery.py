"""Delivery: brings events from the outbox to their webhooks, as often as it takes."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from weighbridge.errors import QueueUnavailable
from weighbridge.review.telling.outbox import Outbox, Taken
from weighbridge.review.telling.webhooks import Resolve, Webhook, resolve, send

MAX_ATTEMPTS: Final = 18  # more than a day
_FIRST_WAIT_S, _LONGEST_WAIT_S = 10.0, 6 * 3600.0
_LEASE_S: Final = 60.0  # beyond the time limit of an attempt: somebody else delivers then
_PATIENCE_S: Final = 30.0  # with a database that is away

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What came of a round.

    Args:
        num_delivered: events that webhooks took.
        num_failed: attempts that failed and will be made again.
        num_parked: events that were given up.
    """

    num_delivered: int = 0
    num_failed: int = 0
    num_parked: int = 0


class Deliverer:
    """Delivers for all webhooks; as many processes as you like may do so at once.

    An event is delivered at least once: whoever dies between sending it and noting so leaves it to
    be sent again, with the same id.

    Args:
        outbox: to deliver from.
        webhooks: to deliver to; events for others stay where they are.
        max_attempts: until an event is given up, and only tried again when somebody asks for it.
        resolve: see `webhooks`.
        clock: seconds since 1970.
        jitter: 0 to 1.
    """

    def __init__(
        self,
        outbox: Outbox,
        webhooks: Iterable[Webhook],
        *,
        max_attempts: int = MAX_ATTEMPTS,
        resolve: Resolve = resolve,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._outbox, self._webhooks = outbox, {webhook.name: webhook for webhook in webhooks}
        self._max_attempts, self._resolve = max_attempts, resolve
        self._clock, self._jitter = clock, jitter

    async def deliver_due(self, *, concurrency: int = 4) -> Delivered:
        """Deliver all that is due now.

        Args:
            concurrency: requests at once.

        Raises:
            QueueUnavailable: the database failed.
        """
        ends: Counter[str] = Counter()
        failure: BaseException | None = None

        async def work() -> None:
            while taken := await self._take():
                ends[await self._deliver(taken)] += 1

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())
        except* QueueUnavailable as errors:
            failure = errors.exceptions[0]
        if failure is not None:
            raise failure
        return Delivered(
            num_delivered=ends["delivered"], num_failed=ends["failed"], num_parked=ends["parked"]
        )

    async def run(
        self,
        *,
        poll_s: float = 2.0,
        concurrency: int = 4,
        watch: Callable[[Delivered], None] = lambda _: None,
    ) -> None:
        """Deliver until this is cancelled; what is under way then is delivered again later.

        Args:
            poll_s: how often to look whether something is due.
            concurrency: requests at once.
            watch: told what came of each round in which there was something to do.
        """
        while True:
            try:
                done = await self.deliver_due(concurrency=concurrency)
            except QueueUnavailable as error:
                _logger.warning("webhooks wait for the database: %s", error)
                await asyncio.sleep(_PATIENCE_S)
            else:
                if done != Delivered():
                    watch(done)
                await asyncio.sleep(poll_s)

    async def _take(self) -> Taken | None:
        longest = max((webhook.timeout_s for webhook in self._webhooks.values()), default=0.0)
        return await asyncio.to_thread(
            self._outbox.take, list(self._webhooks), lease_s=longest + _LEASE_S
        )

    async def _deliver(self, taken: Taken) -> str:
        event, webhook = taken.event, self._webhooks[taken.event.target]
        problem = await send(webhook, event, resolve=self._resolve, clock=self._clock)
        if not problem:
            await asyncio.to_thread(self._outbox.delivered, taken)
            return "delivered"
        attempt = event.attempts + 1
        wait_s = wait_before(attempt + 1, self._jitter()) if attempt < self._max_attempts else None
        await asyncio.to_thread(self._outbox.failed, taken, problem, wait_s=wait_s)
        end = "failed" if wait_s is not None else "parked"
        _logger.warning("webhook %s, event %s: %s (%s)", event.target, event.event_id, problem, end)
        return end


def wait_before(attempt: int, jitter: float) -> float:
    """Seconds between two attempts: twice as long each time, and never the same for everybody.

    Args:
        attempt: which one is waited for, from 2 on.
        jitter: 0 to 1.

    >>> wait_before(2, 0.0), wait_before(3, 1.0), wait_before(99, 1.0)
    (5.0, 20.0, 21600.0)
    """
    longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(attempt - 2, 50))
    return longest * (1 + jitter) / 2
