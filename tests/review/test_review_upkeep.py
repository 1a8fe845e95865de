"""What goes on beside the review page, and ends with it."""

from __future__ import annotations

import threading
import time

from queue_entries import make_entry
from webhook_receiver import SECRET, receiving

from weighbridge.errors import QueueUnavailable
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.retention import Retention
from weighbridge.review.telling import upkeep
from weighbridge.review.telling.subscriptions import Subscription
from weighbridge.review.telling.upkeep import kept_up
from weighbridge.review.telling.webhooks import Webhook


def wait_until(holds) -> None:
    while not holds():
        time.sleep(0.01)


def test_webhooks_are_told_and_texts_removed_while_the_block_runs(database):
    """What comes while it runs, too."""
    queue = ReviewQueue(database, subscriptions=[Subscription(target="hook")])
    with receiving() as receiver:
        hook = Webhook(name="hook", url=receiver.url, secret=SECRET, allow_private=True)
        with kept_up(database, webhooks=[hook], retention_s=0.001, poll_s=0.01, purge_every_s=0.01):
            item_id = queue.enqueue(make_entry())
            queue.cancel(item_id, by="ann", reason="")
            receiver.wait_for(1)
            wait_until(lambda: queue.get(item_id).erased_at is not None)
    assert "weighbridge-upkeep" not in [thread.name for thread in threading.enumerate()]


def test_nothing_runs_where_nothing_is_to_be_done(database):
    with kept_up(database):
        assert "weighbridge-upkeep" not in [thread.name for thread in threading.enumerate()]


def test_purge_goes_on_after_a_database_that_failed(database, monkeypatch, caplog):
    """It says so once each time, and texts are removed as soon as it can be, not a day later."""
    queue = ReviewQueue(database)
    item_id = queue.enqueue(make_entry())
    queue.cancel(item_id, by="ann", reason="")
    purge, failures = Retention.purge, [QueueUnavailable("sqlite://", "it is away")]

    def failing(self, before, **options):
        if failures:
            raise failures.pop()
        return purge(self, before, **options)

    monkeypatch.setattr(Retention, "purge", failing)
    monkeypatch.setattr(upkeep, "_PATIENCE_S", 0.01)
    with kept_up(database, retention_s=0.001):
        wait_until(lambda: queue.get(item_id).erased_at is not None)
    assert "it is away" in caplog.text
