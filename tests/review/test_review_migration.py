"""A queue of the version before teams goes on where it stood, and can go back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from alembic import command
from alembic.config import Config
from databases import server
from sqlalchemy import create_engine

from weighbridge.review.items import State
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database

BUG = {"category": "bug"}
QUESTION = (
    '[{"field": "category", "options": ["bug", "billing"], "descriptions": {}, "machine": "bug",'
    ' "required": true}]'
)


def item(name: str, reasons: str, rest: str) -> str:
    return f"""INSERT INTO item (id, dedupe_key, ticket_id, task, ticket_json, decision_json,
    questions_json, reasons, state, priority, version, lease_owner, lease_token, lease_until,
    created_at, done_at) VALUES ('{name}', 'key-{name}', 't-{name}', 'triage',
    '{{"body": "Help"}}', '{{}}', '{QUESTION}', '{reasons}', {rest})"""


OLD = [
    item("sure", '["low_mass", "language"]', "'open', 0.25, 1, NULL, NULL, NULL, 10, NULL"),
    item("unsure", "[]", "'open', 1.0, 1, NULL, NULL, NULL, 11, NULL"),
    item("leased", '["audit"]', "'leased', 0.5, 2, 'ann', 'secret', 99, 12, NULL"),
    item("done", "[]", "'done', 0.5, 3, NULL, NULL, NULL, 13, 50"),
    """INSERT INTO verdict (item_id, reviewer, kind, values_json, machine_json, idem_key,
    lease_token, submitted_at, note) VALUES ('done', 'bob', 'corrected', '{"category": "billing"}',
    '{"category": "bug"}', 'form-1', 'old', 50, 'hm')""",
    *(
        f"INSERT INTO event (item_id, at, actor, kind, detail_json) VALUES ({line}, '{{}}')"
        for line in (
            "'leased', 20, 'ann', 'claimed'",
            "'done', 40, 'bob', 'claimed'",
            "'done', 50, 'bob', 'answered'",
        )
    ),
]


@pytest.fixture(autouse=True, scope="module")
def migrations() -> None:
    """Are made in earnest here."""


def moved(url: str, move: Callable[[Config, str], None], *statements: str) -> None:
    """Bring a database to the version before teams, and run statements there."""
    engine = create_engine(url)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "weighbridge.store:migrations")
        config.set_main_option("path_separator", "os")
        move(config, "0004")
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture
def old_url(database_kind, tmp_path) -> Iterator[str]:
    """Of a database that version 0004 has filled."""
    if database_kind == "sqlite":
        url = f"sqlite:///{tmp_path}/old.db"
        moved(url, command.upgrade, *OLD)
        yield url
        return
    with server().database() as url:
        moved(url, command.upgrade, *OLD)
        yield url


def test_old_queue_goes_on_where_it_stood(old_url):
    """The order, the lease and its token, the verdict and its key, and the history."""
    with closing(ReviewQueue(Database(old_url), clock=lambda: 60e-6)) as queue:
        assert [item.id for item in queue.waiting()] == ["unsure", "sure"]
        assert queue.get("sure").reasons == ("low_mass", "language")
        assert queue.alike("sure") == []
        item = queue.answer("leased", reviewer="ann", token="secret", values=BUG)
        assert item.state is State.DONE
        assert item.verdicts[0].opened_at == queue.history("leased")[0].at
        done = queue.get("done")
        assert (done.state, done.resolution) == (State.DONE, {"category": "billing"})
        (verdict,) = done.verdicts
        assert (verdict.reviewer, verdict.kind, verdict.was_shown) == ("bob", "corrected", True)
        assert [event.kind for event in queue.history("done")] == ["claimed", "answered"]
        assert [item.id for item in queue.settled()] == ["done", "leased"]
        assert queue.undo("done", reviewer="bob", idem_key="u").state is State.OPEN
        assert queue.reopen("leased", by="boss", reason="").round == 2


def test_queue_for_teams_can_go_back_to_the_old_form_and_forward_again(old_url):
    """What the old form knows of is kept: states, the lease, plain verdicts and the history."""
    with closing(ReviewQueue(Database(old_url), clock=lambda: 60e-6)) as queue:
        queue.cancel("sure", by="boss", reason="spam")
        unsure = queue.claim("eve", item_id="unsure")
        queue.answer("unsure", reviewer="eve", token=unsure.lease_token, values={}, kind="unsure")
    moved(old_url, command.downgrade)
    engine = create_engine(old_url)
    with engine.connect() as connection:
        items = connection.exec_driver_sql(
            "SELECT id, state, lease_owner, lease_token, lease_until, done_at FROM item ORDER BY id"
        ).all()
        verdicts = connection.exec_driver_sql("SELECT item_id, reviewer, kind FROM verdict").all()
        reasons = connection.exec_driver_sql(
            "SELECT CAST(reasons AS TEXT) FROM item ORDER BY id"
        ).scalars()
        assert list(reasons) == ["[]", '["audit"]', '["low_mass", "language"]', "[]"]
        kinds = connection.exec_driver_sql("SELECT kind FROM event ORDER BY id").scalars().all()
    engine.dispose()
    assert [tuple(item) for item in items] == [
        ("done", "done", None, None, None, 50),
        ("leased", "leased", "ann", "secret", 99, None),
        ("sure", "done", None, None, None, 10),
        ("unsure", "open", None, None, None, None),
    ]
    assert [tuple(verdict) for verdict in verdicts] == [("done", "bob", "corrected")]
    assert kinds == [
        "claimed",
        "claimed",
        "answered",
        "cancelled",
        "claimed",
        "answered",
        "disputed",
    ]
    with closing(ReviewQueue(Database(old_url), clock=lambda: 60e-6)) as queue:
        assert [item.id for item in queue.waiting()] == ["unsure"]
        assert queue.renew("leased", reviewer="ann", token="secret").state is State.OPEN
