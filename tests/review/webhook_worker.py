"""A process that settles an item, delivers its first event, and hangs before it can note so."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import closing

from queue_entries import make_entry
from webhook_receiver import SECRET

from weighbridge.review.queue import ReviewQueue
from weighbridge.review.telling.delivery import Deliverer
from weighbridge.review.telling.outbox import Outbox, Taken
from weighbridge.review.telling.subscriptions import Subscription
from weighbridge.review.telling.webhooks import Webhook
from weighbridge.store.database import Database


class Hanging(Outbox):
    def delivered(self, taken: Taken) -> None:
        sys.stdout.write("sent\n")
        sys.stdout.flush()
        time.sleep(600)


def main(url: str, receiver: str) -> None:
    with closing(Database(url)) as database:
        queue = ReviewQueue(database, subscriptions=[Subscription(target="hook")])
        queue.enqueue(make_entry())
        item = queue.claim("ann")
        assert item
        assert item.lease_token
        queue.answer(item.id, reviewer="ann", token=item.lease_token, values={"category": "bug"})
        hook = Webhook(name="hook", url=receiver, secret=SECRET, allow_private=True)
        asyncio.run(Deliverer(Hanging(database), [hook]).deliver_due(concurrency=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
