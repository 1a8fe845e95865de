"""The queue's database is locked, or its file is gone: an error in time, and the decision in it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from scene import ANSWER, GRACE_S, Scene, failures
from servers import answers, hangs, slowly
from sqlalchemy import func, select

from weighbridge import Router
from weighbridge.decision import Decision
from weighbridge.errors import QueueUnavailable
from weighbridge.review.queue import ReviewQueue
from weighbridge.router.queueing import LEAST_S
from weighbridge.store.database import Database
from weighbridge.store.decision_tables import decision_table
from weighbridge.store.queue_tables import event_table, item_table, slot_table


@pytest.fixture
def queued(scene: Scene, database_url: str) -> Scene:
    """A stage on which a person must see every ticket; the queue is in either kind of database."""
    scene.queue_url, scene.without_evidence, scene.deadline_s = database_url, "review", 1.0
    return scene


@contextmanager
def held(url: str) -> Iterator[None]:
    """Somebody else has the lock that every writer of the queue needs."""
    with closing(Database(url)) as other, other.writing() as connection:
        if other.is_postgresql:
            connection.exec_driver_sql("LOCK TABLE item IN EXCLUSIVE MODE")
        yield


def ticket(number: int) -> dict[str, str]:
    return {"id": f"t-{number}", "body": f"I was charged twice, case {number}"}


def in_tables(url: str) -> dict[str, int]:
    """Rows of all that belongs to an item, which come together or not at all."""
    with closing(Database(url)) as database, database.reading() as connection:
        return {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (item_table, slot_table, event_table, decision_table)
        }


def waiting(url: str) -> set[str]:
    with closing(ReviewQueue(Database(url))) as queue:
        return {item.ticket_id for item in queue.waiting(1000)}


def check_in_hand(lost: QueueUnavailable, number: int) -> Decision:
    """The caller has all that it takes to put the ticket before a person."""
    decision = lost.decision
    assert decision is not None
    assert decision.ticket_id == f"t-{number}"
    assert (decision.status, decision.review_id) == ("review", None)
    assert decision.reasons
    return decision


def test_locked_database_costs_no_more_than_the_deadline(queued: Scene) -> None:
    """Nothing is half-written, and when the lock is gone the queue is as before."""
    a = queued.add("a", answers())
    with queued.router() as router:
        queued.ask(router, ticket(1))
        before = in_tables(queued.database)
        with held(queued.database):
            started = time.monotonic()
            with pytest.raises(QueueUnavailable, match="lock") as lost:
                router.triage(ticket(2))
            took_s = time.monotonic() - started
            assert took_s < queued.deadline_s + LEAST_S + GRACE_S
            decision = check_in_hand(lost.value, 2)
            assert (decision.value, decision.provider) == (ANSWER, "a")
            assert in_tables(queued.database) == before
        for number in (2, 3):
            queued.ask(router, ticket(number))
    assert waiting(queued.database) == {"t-1", "t-2", "t-3"}
    assert in_tables(queued.database) == {name: 3 * rows for name, rows in before.items()}
    assert a.hits == 4


def test_deadline_that_has_passed_leaves_the_queue_a_moment(queued: Scene) -> None:
    """A decision is made and must not be lost, so a lock that is let go within it is waited for."""
    queued.deadline_s = 0.3
    queued.add("a", hangs, timeout="5s")
    with queued.router() as router, ExitStack() as stack:
        stack.enter_context(held(queued.database))
        threading.Timer(queued.deadline_s + LEAST_S / 4, stack.pop_all().close).start()
        decision = queued.ask(router, ticket(1))
    assert decision.reasons == ("no_answer",)
    assert failures(decision) == ["transient"]


def test_deadline_that_has_passed_leaves_the_queue_no_more_than_that(queued: Scene) -> None:
    queued.add("a", slowly(0.9, answers()), timeout="5s")
    with queued.router() as router, held(queued.database):
        started = time.monotonic()
        with pytest.raises(QueueUnavailable, match="lock") as lost:
            router.triage(ticket(1))
        took_s = time.monotonic() - started
    assert took_s < queued.deadline_s + LEAST_S + GRACE_S
    check_in_hand(lost.value, 1)
    assert set(in_tables(queued.database).values()) == {0}


async def test_many_tickets_at_a_locked_database_wait_together(queued: Scene) -> None:
    """Not one after the other, for there are fewer threads than tickets; each has its decision."""
    queued.add("a", answers())
    async with Router.from_config(queued.config) as router:
        with held(queued.database):
            started = time.monotonic()
            ended = await asyncio.gather(
                *(router.atriage(ticket(number)) for number in range(40)), return_exceptions=True
            )
            took_s = time.monotonic() - started
        again = await asyncio.gather(*(router.atriage(ticket(number)) for number in range(40)))
    assert took_s < queued.deadline_s + LEAST_S + 2 * GRACE_S
    for number, error in enumerate(ended):
        assert isinstance(error, QueueUnavailable)
        check_in_hand(error, number)
    assert all(decision.review_id for decision in again)
    assert waiting(queued.database) == {f"t-{number}" for number in range(40)}


def test_ticket_is_not_lost_in_a_file_that_was_deleted(scene: Scene) -> None:
    """It would be written, and gone with the process; instead the caller has the decision."""
    scene.without_evidence = "review"
    scene.add("a", answers())
    file, aside = scene.folder / "queue.db", scene.folder / "aside.db"
    with scene.router() as router:
        scene.ask(router, ticket(1))
        file.rename(aside)
        with pytest.raises(QueueUnavailable, match=r"deleted or moved.*restart") as lost:
            router.triage(ticket(2))
        assert check_in_hand(lost.value, 2).value == ANSWER
        assert not file.exists()
        aside.rename(file)
        scene.ask(router, ticket(2))
    assert waiting(scene.database) == {"t-1", "t-2"}


def test_restart_after_a_backup_was_put_in_the_place_goes_on_with_it(scene: Scene) -> None:
    scene.without_evidence = "review"
    scene.add("a", answers())
    file = scene.folder / "queue.db"
    with scene.router() as router:
        scene.ask(router, ticket(1))
        back_up(scene, scene.folder / "backup.db").replace(file)
        with pytest.raises(QueueUnavailable, match=r"another file.*restart"):
            router.triage(ticket(2))
    with scene.router() as router:
        scene.ask(router, ticket(2))
    assert waiting(scene.database) == {"t-1", "t-2"}


def back_up(scene: Scene, to: Path) -> Path:
    with closing(Database(scene.database)) as database, database.reading() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("VACUUM INTO ?", (str(to),))
        connection.exec_driver_sql("BEGIN")
    return to
