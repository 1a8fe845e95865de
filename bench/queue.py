"""The review queue with many items: what claim, answer and enqueue take, and a race of processes.

`python -m bench.queue --items 1000000`, on SQLite and on a PostgreSQL server of our own, both with
commits that reach the disk. All items wait, so the claim has everything to choose from. In the race
every process claims what it can as many people; an item that two of them get is a defect.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
from rich.progress import Progress
from sqlalchemy import (
    BigInteger,
    Insert,
    Table,
    Text,
    bindparam,
    cast,
    insert,
    literal,
    select,
    text,
    true,
)

from bench.common import finish, parser, show
from bench.postgresql_server import NotInstalled, Server
from weighbridge.decision import Decision, FieldEvidence, Question, Reason, ReviewEntry
from weighbridge.errors import WeighbridgeError
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database
from weighbridge.store.decision_tables import decision_table
from weighbridge.store.queue_tables import event_table, item_table, skip_table, slot_table

OPTIONS = ("billing", "bug", "how_to", "account", "feature_request", "other")
CALLS, WARM_UP = 2000, 100
PASSED_OVER = 1000  # items at the head of the queue that one person has skipped
AT_ONCE = 50_000  # rows of one INSERT
SPREAD_US = 3 * 86_400 * 10**6


def main() -> None:
    """Measure, print; end with 1 if the race handed an item out twice, or failed."""
    made = parser(__doc__ or "")
    made.add_argument("--items", type=int, default=1_000_000, help="that wait (default 1000000)")
    made.add_argument("--processes", type=int, default=8, help="in the race (default 8)")
    made.add_argument("--claims", type=int, default=2000, help="of each process (default 2000)")
    made.add_argument("--only", choices=("sqlite", "postgresql"), help="one kind of database")
    options = made.parse_args()
    needed = WARM_UP + CALLS + PASSED_OVER + options.processes * options.claims
    if options.items < needed:
        made.error(f"--items must be {needed} at least, or the last claims find nothing")
    result: dict[str, Any] = {}
    for kind in ("sqlite", "postgresql") if options.only is None else (options.only,):
        try:
            with _database(kind) as url:
                result[kind] = _measure(url, options)
            _show(kind, result[kind])  # at once: the next one takes minutes
        except NotInstalled as missing:
            print(f"left out: {kind}, which needs {missing}", file=sys.stderr)
    finish(result, as_json=options.json)
    races = [measured["race"] for measured in result.values()]
    if any(race["errors"] or race["distinct"] < race["claims"] for race in races):
        raise SystemExit(1)


@contextmanager
def _database(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/queue.db"
        return
    server = Server(is_durable=True)
    try:
        with server.database() as url:
            yield url
    finally:
        server.stop()


def _measure(url: str, options: argparse.Namespace) -> dict[str, Any]:
    database = Database(url)
    queue = ReviewQueue(database)
    with database.reading() as connection:
        version = (
            connection.exec_driver_sql("SHOW server_version").scalar_one().split()[0]
            if database.is_postgresql
            else sqlite3.sqlite_version
        )
    began = time.perf_counter()
    _fill(database, queue, options.items)
    filled_s = time.perf_counter() - began
    claims, answers = _work(queue)
    result = {
        "version": version,
        "items": options.items,
        "fill_s": filled_s,
        "claim_ms": _percentiles(claims),
        "answer_ms": _percentiles(answers),
        "enqueue_ms": _percentiles(_enqueue(queue)),
        "passing_over_ms": _percentiles(_pass_over(database, queue)),
    }
    result["race"] = _race(url, options.processes, options.claims)
    queue.close()
    return result


def _fill(database: Database, queue: ReviewQueue, number: int) -> None:
    """Multiply one item, with what belongs to it, into many of the same form."""
    kind = "PostgreSQL" if database.is_postgresql else "SQLite"
    first = queue.enqueue(_entry("first"))
    with Progress(transient=True) as progress:
        bar = progress.add_task(f"items into {kind}", total=number)
        for start in range(1, number, AT_ONCE):
            end = min(number, start + AT_ONCE)
            with database.writing() as connection:
                for table in (item_table, slot_table, event_table, decision_table):
                    connection.execute(_multiplied(table, first), {"start": start, "end": end})
            progress.advance(bar, end - start)
    _settle(database)


def _settle(database: Database) -> None:
    """Let all that was filled in reach the disk, as it had long before in a queue that grew."""
    tables = (item_table, slot_table, event_table, decision_table)
    if database.is_postgresql:
        with database.writing() as connection:
            for table in tables:
                connection.execute(text(f"ANALYZE {table.name}"))
            connection.execute(text("CHECKPOINT"))
    else:
        with database.reading() as connection:
            connection.exec_driver_sql("COMMIT")  # no checkpoint is made within a transaction
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.exec_driver_sql("BEGIN")
    os.sync()


def _multiplied(table: Table, first: str) -> Insert:
    """An INSERT that copies the rows of an item for each number from `start` up to `end`."""
    start, end = (cast(bindparam(name), BigInteger) for name in ("start", "end"))
    numbers = select(start.label("i")).cte("n", recursive=True)
    numbers = numbers.union_all(select(numbers.c.i + 1).where(numbers.c.i + 1 < end))
    number = numbers.c.i
    name = literal("bench-") + cast(number, Text)
    new: dict[str, Any] = dict.fromkeys(("id", "item_id", "dedupe_key", "ticket_id"), name)
    new["group_key"] = name
    if "sort_key" in table.c:
        # Spread over some days, in no order.
        new["sort_key"] = table.c.sort_key - number * 2_654_435_761 % SPREAD_US
    columns = [column for column in table.columns if column is not table.autoincrement_column]
    copies = select(*(new.get(column.name, column).label(column.name) for column in columns))
    of_first = (table.c.id if table is item_table else table.c.item_id) == first
    return insert(table).from_select(
        columns, copies.join_from(table, numbers, true()).where(of_first)
    )


def _work(queue: ReviewQueue) -> tuple[list[float], list[float]]:
    """Seconds of each claim and each answer, by fifty people in turn."""
    claims, answers = [], []
    for number in range(WARM_UP + CALLS):
        name = f"person {number % 50}"
        item, claim_s = _timed(queue.claim, name)
        _, answer_s = _timed(
            queue.answer,
            item.id,
            reviewer=name,
            token=item.lease_token,
            values={"category": "bug"},
            idem_key=f"form {number}",
        )
        claims.append(claim_s)
        answers.append(answer_s)
    return claims[WARM_UP:], answers[WARM_UP:]


def _enqueue(queue: ReviewQueue) -> list[float]:
    entries = [_entry(f"new {number}") for number in range(WARM_UP + CALLS)]
    return [_timed(queue.enqueue, entry)[1] for entry in entries][WARM_UP:]


def _pass_over(database: Database, queue: ReviewQueue) -> list[float]:
    """Seconds of each claim of somebody who has skipped all that comes first."""
    head = (
        select(slot_table.c.item_id, literal("picky"), literal(0), literal(""))
        .where(slot_table.c.state == "open")
        .order_by(slot_table.c.sort_key, slot_table.c.id)
        .limit(PASSED_OVER)
    )
    with database.writing() as connection:
        connection.execute(
            insert(skip_table).from_select(["item_id", "reviewer", "at", "reason"], head)
        )
    seconds = []
    for _ in range(WARM_UP + CALLS // 4):
        item, claim_s = _timed(queue.claim, "picky")
        queue.release(item.id, reviewer="picky", token=item.lease_token)
        seconds.append(claim_s)
    return seconds[WARM_UP:]


def _race(url: str, processes: int, claims: int) -> dict[str, Any]:
    """Everybody claims at once; nobody gives back."""
    spawn = multiprocessing.get_context("spawn")
    line, results = spawn.Barrier(processes + 1), spawn.SimpleQueue()
    racers = [
        spawn.Process(target=_racer, args=(url, number, claims, line, results))
        for number in range(processes)
    ]
    for racer in racers:
        racer.start()
    line.wait()
    began = time.perf_counter()
    said = [results.get() for _ in racers]
    seconds = time.perf_counter() - began
    for racer in racers:
        racer.join()
    ids = [item_id for got, _, _ in said for item_id in got]
    return {
        "processes": processes,
        "claims": processes * claims,
        "distinct": len(set(ids)),
        "errors": sorted({error for _, _, errors in said for error in errors}),
        "per_s": len(ids) / seconds,
        "claim_ms": _percentiles([each for _, times, _ in said for each in times]),
    }


def _racer(url: str, number: int, claims: int, line: Barrier, results: Any) -> None:
    queue = ReviewQueue(Database(url))
    got, seconds, errors = [], [], []
    line.wait()
    for claim in range(claims):
        # Whoever holds an item gets it again, so each claim is another person's.
        try:
            item, claim_s = _timed(queue.claim, f"racer {number}.{claim}")
        except WeighbridgeError as error:
            errors.append(str(error))
        else:
            got.append(item.id)
            seconds.append(claim_s)
    results.put((got, seconds, errors))
    queue.close()


def _timed(call: Callable[..., Any], *given: Any, **named: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    result = call(*given, **named)
    return result, time.perf_counter() - began


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    return {"p50": float(p50), "p99": float(p99)}


def _entry(name: str) -> ReviewEntry:
    body = f"{name}: I was charged twice for the same month and cannot reach anybody. " * 6
    decision = Decision(
        ticket_id=name,
        task="triage",
        status="review",
        value={"category": "billing", "priority": 2},
        fields={
            "category": FieldEvidence(value="billing", source="exact", probability=0.4),
            "priority": FieldEvidence(
                value=2, source="exact", probability=0.3, required=False, accepted=True
            ),
        },
        reasons=(Reason.LOW_PROBABILITY,),
    )
    return ReviewEntry(
        dedupe_key=name,
        decision=decision,
        ticket={"id": name, "subject": "Charged twice", "body": body, "metadata": {}},
        questions=(Question(field="category", options=OPTIONS, machine="billing"),),
    )


def _show(kind: str, result: dict[str, Any]) -> None:
    def both(said: dict[str, float]) -> str:
        return f"{said['p50']:.2f}, {said['p99']:.2f} ms"

    race = result["race"]
    show(
        f"the review queue on {kind} {result['version']}",
        ("what", "value"),
        [
            ("items that wait", f"{result['items']:,}, filled in {result['fill_s']:.0f} s"),
            ("claim: median, 99th percentile (goal 10 ms)", both(result["claim_ms"])),
            (f"claim past {PASSED_OVER} skipped ones", both(result["passing_over_ms"])),
            ("answer", both(result["answer_ms"])),
            ("enqueue", both(result["enqueue_ms"])),
            ("claim in the race", both(race["claim_ms"])),
            ("the race", f"{race['processes']} processes, {race['distinct']} different items for"
             f" {race['claims']} claims, {len(race['errors'])} errors,"
             f" {race['per_s']:.0f} claims a second"),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
