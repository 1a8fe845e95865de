"""Upkeep: beside the review page, webhooks are told and old texts are removed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from weighbridge.errors import QueueUnavailable
from weighbridge.review.retention import Retention
from weighbridge.review.telling.delivery import Deliverer
from weighbridge.review.telling.outbox import Outbox
from weighbridge.review.telling.webhooks import Webhook
from weighbridge.store.database import Database

DAY_S: Final = 86_400.0

_PATIENCE_S: Final = 60.0  # with a database that is away

_logger = logging.getLogger(__name__)


@contextmanager
def kept_up(
    database: Database,
    *,
    webhooks: Sequence[Webhook] = (),
    retention_s: float | None = None,
    poll_s: float = 2.0,
    purge_every_s: float = DAY_S,
) -> Iterator[None]:
    """For the time of a block, deliver to webhooks and purge once a day, on a thread of its own.

    Any number of processes may do so at once. A database that fails is tried again later.

    Args:
        database: stays open.
        webhooks: who is told; without any nothing is delivered.
        retention_s: how long after settling an item keeps its texts; None: for ever.
        poll_s: see `Deliverer.run`.
        purge_every_s: the first purge is made at once.
    """
    work = []
    if webhooks:
        deliverer = Deliverer(Outbox(database), webhooks)
        work.append(deliverer.run(poll_s=poll_s))
    if retention_s is not None:
        age = timedelta(seconds=retention_s)
        work.append(_purge_again_and_again(Retention(database), age, purge_every_s))
    if not work:
        yield
        return
    # A loop of its own: whatever the page's loop is busy with holds nothing up, nor is held up.
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(each) for each in work]
    thread = threading.Thread(
        target=_run, args=(loop, tasks), name="weighbridge-upkeep", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        for task in tasks:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


async def _purge_again_and_again(retention: Retention, age: timedelta, every_s: float) -> None:
    while True:
        wait_s = every_s
        try:
            removed = await asyncio.to_thread(retention.purge, datetime.now(UTC) - age)
        except QueueUnavailable as error:
            _logger.warning("old texts could not be removed for now: %s", error)
            wait_s = min(every_s, _PATIENCE_S)  # not a day: what was promised is due
        else:
            if removed.num_items:
                _logger.info("the texts of %s old items were removed", removed.num_items)
        await asyncio.sleep(wait_s)


def _run(loop: asyncio.AbstractEventLoop, tasks: Sequence[asyncio.Task[None]]) -> None:
    asyncio.set_event_loop(loop)
    for task in tasks:
        task.add_done_callback(_say_why_it_ended)
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())


def _say_why_it_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (bug := task.exception()) is not None:
        _logger.error("upkeep has ended by a mistake of ours", exc_info=bug)
