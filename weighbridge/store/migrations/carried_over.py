"""Carried over: what the queue held when it became one for teams, there and back; see 0005."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from alembic import op

_HEAD_START_US: Final = 3 * 86_400 * 10**6  # what full uncertainty is worth, by default


def set_aside(tables: Sequence[str]) -> None:
    """Copy tables, and drop them: other names would leave their indexes and keys in the way."""
    for table in tables:
        op.execute(f"CREATE TABLE {table}_before AS SELECT * FROM {table}")  # noqa: S608
    for table in tables:
        op.drop_table(table)


def drop_copies(tables: Sequence[str]) -> None:
    """Drop what was set aside."""
    for table in tables:
        op.drop_table(f"{table}_before")


def fill_forward() -> None:
    """Give each item one slot, and number the settled ones."""
    # The event of the last verdict serves as the number of the settling.
    op.execute(
        f"""
        INSERT INTO item (id, dedupe_key, ticket_id, task, state, reasons, is_audit, needed, round,
          uncertainty, sort_key, group_key, version, created_at, done_at, settled_no, resolved_kind,
          resolution_json, ticket_json, decision_json, questions_json)
        SELECT id, dedupe_key, ticket_id, task, CASE state WHEN 'done' THEN 'done' ELSE 'open' END,
          replace(replace(replace(replace(CAST(reasons AS TEXT), '["', ''), '"]', ''),
            '", "', ','), '[]', ''),
          false, 1, 1, priority, created_at - CAST(priority * {_HEAD_START_US} AS BIGINT), '',
          version, created_at, done_at,
          CASE state WHEN 'done' THEN (SELECT coalesce(max(e.id), 0) FROM event_before e
            WHERE e.item_id = i.id AND e.kind = 'answered') END,
          CASE state WHEN 'done' THEN 'answer' END,
          CASE state WHEN 'done' THEN (SELECT v.values_json FROM verdict_before v
            WHERE v.item_id = i.id ORDER BY v.id DESC LIMIT 1) END,
          ticket_json, decision_json, questions_json
        FROM item_before i
        """  # noqa: S608 - a constant of ours
    )
    op.execute(
        """
        INSERT INTO slot (item_id, round, kind, state, owner, lease_token, lease_until, opened_at,
          sort_key, not_before, assignee, skips)
        SELECT i.id, 1, 'review', b.state,
          CASE b.state WHEN 'done' THEN coalesce((SELECT v.reviewer FROM verdict_before v
            WHERE v.item_id = i.id ORDER BY v.id DESC LIMIT 1), '') ELSE b.lease_owner END,
          b.lease_token, b.lease_until,
          CASE b.state WHEN 'leased' THEN coalesce((SELECT max(e.at) FROM event_before e
            WHERE e.item_id = i.id AND e.kind = 'claimed'), i.created_at) END,
          i.sort_key, b.not_before, '', 0
        FROM item i JOIN item_before b ON b.id = i.id ORDER BY i.created_at, i.id
        """
    )
    op.execute(
        """
        INSERT INTO verdict (id, item_id, slot_id, round, reviewer, kind, values_json, machine_json,
          was_shown, is_adjudication, idem_key, lease_token, opened_at, submitted_at, note)
        SELECT v.id, v.item_id, s.id, 1, v.reviewer, v.kind, v.values_json, v.machine_json,
          true, false, v.idem_key, v.lease_token,
          coalesce((SELECT max(e.at) FROM event_before e
            WHERE e.item_id = v.item_id AND e.kind = 'claimed'), v.submitted_at),
          v.submitted_at, v.note
        FROM verdict_before v JOIN slot s ON s.item_id = v.item_id ORDER BY v.id
        """
    )
    _copy_events()


def fill_back() -> None:
    """Keep of slots and verdicts what the old form can say."""
    # SQLite would take the text for a number if it were told to make JSON of it.
    as_json = "CAST({} AS JSON)" if _is_postgresql() else "{}"
    reasons = as_json.format(
        "CASE i.reasons WHEN '' THEN '[]' ELSE '[\"' || replace(i.reasons, ',', '\", \"')"
        " || '\"]' END"
    )
    op.execute(
        f"""
        INSERT INTO item (id, dedupe_key, ticket_id, task, ticket_json, decision_json,
          questions_json, reasons, state, priority, not_before, version, lease_owner, lease_token,
          lease_until, created_at, done_at)
        SELECT i.id, i.dedupe_key, i.ticket_id, i.task, i.ticket_json, i.decision_json,
          i.questions_json, {reasons},
          CASE WHEN i.state IN ('done', 'cancelled') THEN 'done'
            WHEN s.id IS NOT NULL THEN 'leased' ELSE 'open' END,
          i.uncertainty, 0, i.version, s.owner, s.lease_token, s.lease_until, i.created_at,
          CASE WHEN i.state IN ('done', 'cancelled') THEN coalesce(i.done_at, i.created_at) END
        FROM item_before i LEFT JOIN slot_before s ON s.id = (SELECT min(h.id) FROM slot_before h
          WHERE h.item_id = i.id AND h.state = 'leased')
        """  # noqa: S608 - words of ours
    )
    op.execute(
        """
        INSERT INTO verdict (id, item_id, reviewer, kind, values_json, machine_json, idem_key,
          lease_token, submitted_at, note)
        SELECT id, item_id, reviewer, kind, values_json, machine_json, idem_key, lease_token,
          submitted_at, note
        FROM verdict_before v WHERE kind IN ('correct', 'corrected')
          AND NOT EXISTS (SELECT 1 FROM verdict_before u WHERE u.supersedes = v.id) ORDER BY id
        """
    )
    _copy_events()


def _copy_events() -> None:
    columns = "id, item_id, at, actor, kind, detail_json"
    op.execute(f"INSERT INTO event ({columns}) SELECT {columns} FROM event_before")  # noqa: S608
    if _is_postgresql():  # let the counters go on behind the ids that were copied
        for table in ("verdict", "event"):
            number = f"pg_get_serial_sequence('{table}', 'id')"
            op.execute(f"SELECT setval({number}, max(id)) FROM {table}")  # noqa: S608


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"
