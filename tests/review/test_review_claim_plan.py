"""How the database finds what is claimed: by short walks through indexes, whatever lies there."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select

from weighbridge.review.queueing import statements
from weighbridge.store.dialect import is_postgresql
from weighbridge.store.queue_tables import item_table, skip_table, slot_table

PARAMETERS = {"reviewer": "ann", "token": "t", "now": 1, "until": 2}
TABLES = [table.name for table in (item_table, skip_table, slot_table)]


def plan(connection, statement, **parameters) -> list[str]:
    """What the database would do, line by line."""
    compiled = statement.compile(dialect=connection.dialect)
    values = compiled.construct_params(parameters)
    if is_postgresql(connection):
        explain = "EXPLAIN (COSTS OFF)"
    else:
        explain, values = "EXPLAIN QUERY PLAN", tuple(map(values.get, compiled.positiontup))
    return [row[-1] for row in connection.exec_driver_sql(f"{explain} {compiled}", values)]


@pytest.mark.parametrize("may_adjudicate", [False, True])
def test_claim_sorts_nothing_and_reads_no_whole_table(database, may_adjudicate):
    """Each lane is read from its index in order, and ends with the first slot that fits."""
    claim = statements.claim(may_adjudicate=may_adjudicate)
    with database.reading() as connection:
        lines = plan(connection, claim, **PARAMETERS)
    assert not [line for line in lines if "TEMP B-TREE" in line or "Sort" in line]
    assert not [line for line in lines if "Seq Scan" in line or "Bitmap" in line]
    assert not [line for line in lines if line.startswith("SCAN") and line.split()[1] in TABLES]
    lanes = [line for line in lines if "ix_slot_open" in line or "ix_slot_leased" in line]
    assert len(lanes) == (6 if may_adjudicate else 4)


def test_claim_in_a_long_queue_looks_at_one_slot_after_the_other(any_database):
    """To statistics of slots that nobody owns a join seems cheap, which would read them all."""
    item = {"item_id": "i", "round": 1, "kind": "review", "state": "open", "assignee": ""}
    slot = item | {"sort_key": 1, "not_before": 0, "skips": 0}
    with any_database.writing() as connection:
        if any_database.is_postgresql:  # no item is needed to plan for its slots
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        else:
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        connection.execute(insert(slot_table), [slot | {"item_id": f"{n}"} for n in range(20_000)])
        connection.exec_driver_sql("ANALYZE")
        claim = statements.claim(may_adjudicate=False)
        lines = plan(connection, claim, **PARAMETERS)
        connection.rollback()
    assert not [line for line in lines if "Seq Scan on slot" in line or "Join" in line]
    assert not [line for line in lines if line.startswith("SCAN") and line.split()[1] in TABLES]


def test_sorting_and_scanning_would_be_seen(database):
    """The same look at a statement that does both."""
    with database.reading() as connection:
        lines = plan(connection, select(slot_table).order_by(slot_table.c.skips))
    assert [line for line in lines if "TEMP B-TREE" in line or "Sort" in line]
    assert [line for line in lines if "Seq Scan" in line or line.startswith("SCAN slot")]
