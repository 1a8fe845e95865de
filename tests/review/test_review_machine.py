"""The queue against a model of it, through every order of events that hypothesis thinks of."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from queue_entries import FakeClock, make_entry
from sqlalchemy import select

from weighbridge.errors import LeaseLost, VerdictInvalid
from weighbridge.review.items import State
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database
from weighbridge.store.queue_tables import event_table, item_table, verdict_table

reviewers = st.sampled_from(["ann", "bob", "eve"])


@dataclass
class Expected:
    """What the model knows of one item."""

    order: tuple[float, float, str]
    state: State = State.OPEN
    owner: str | None = None
    token: str | None = None
    until_s: float = 0.0


class QueueMachine(RuleBasedStateMachine):
    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.database = Database("sqlite://")
        self.queue = ReviewQueue(self.database, clock=self.clock)
        self.items: dict[str, Expected] = {}
        self.ids: dict[str, str] = {}
        self.history: list[tuple] = []
        self.verdicts: list[tuple] = []

    @rule(key=st.sampled_from("abcdefgh"), probability=st.sampled_from([None, 0.25, 0.5]))
    def enqueue(self, key, probability):
        item_id = self.queue.enqueue(make_entry(key, probability=probability))
        if key in self.ids:
            assert self.ids[key] == item_id
            return
        self.ids[key] = item_id
        self.items[item_id] = Expected((probability or 0.0, self.clock.now_s, item_id))

    @rule(seconds=st.sampled_from([1, 30, 61]))
    def let_time_pass(self, seconds):
        self.clock.advance(seconds)

    @rule(target=tokens, reviewer=reviewers)
    def claim(self, reviewer):
        expected = self._next_for(reviewer)
        item = self.queue.claim(reviewer, lease_s=60)
        assert (item and item.id) == expected
        if item is None:
            return None
        return self._leased(item, reviewer)

    @rule(target=tokens, reviewer=reviewers, data=st.data())
    def claim_by_name(self, reviewer, data):
        if not self.items:
            return None
        item_id = data.draw(st.sampled_from(sorted(self.items)))
        known = self.items[item_id]
        own = known.state is State.LEASED and known.owner == reviewer
        try:
            item = self.queue.claim(reviewer, lease_s=60, item_id=item_id)
        except LeaseLost:
            assert not own
            assert not self._is_free(known)
            return None
        assert own or self._is_free(known)
        return self._leased(item, reviewer)

    @rule(lease=tokens, chosen=st.sampled_from(["bug", "billing", "nonsense"]), key=st.booleans())
    def answer(self, lease, chosen, key):
        """With a token that may be current, overtaken, or used up."""
        if lease is None:
            return
        item_id, reviewer, token = lease
        known = self.items[item_id]
        holds = known.state is State.LEASED and known.token == token
        replays = key and (item_id, token) in [(row[0], row[1]) for row in self.verdicts if row[2]]
        try:
            item = self.queue.answer(
                item_id,
                reviewer=reviewer,
                token=token,
                values={"category": chosen},
                idem_key=token if key else None,
            )
        except LeaseLost:
            assert not holds
            assert not replays
        except VerdictInvalid:
            assert holds
            assert chosen == "nonsense"
        else:
            assert item.state is State.DONE
            assert holds or replays
            if not replays:
                self.items[item_id] = Expected(known.order, State.DONE)

    @invariant()
    def nothing_is_lost(self):
        with self.database.reading() as connection:
            rows = {row.id: row for row in connection.execute(select(item_table))}
        assert {(i, e.state, e.owner, e.token) for i, e in self.items.items()} == {
            (row.id, row.state, row.lease_owner, row.lease_token) for row in rows.values()
        }

    @invariant()
    def every_lease_has_its_own_token(self):
        live = [e.token for e in self.items.values() if e.state is State.LEASED]
        assert None not in live
        assert len(set(live)) == len(live)

    @invariant()
    def verdicts_belong_to_done_items_one_each(self):
        columns = verdict_table.c
        with self.database.reading() as connection:
            found = connection.execute(
                select(columns.item_id, columns.lease_token, columns.idem_key).order_by(columns.id)
            ).all()
        assert found[: len(self.verdicts)] == self.verdicts
        self.verdicts = [tuple(row) for row in found]
        done = [item_id for item_id, e in self.items.items() if e.state is State.DONE]
        assert sorted(row[0] for row in found) == sorted(done)

    @invariant()
    def history_only_grows(self):
        with self.database.reading() as connection:
            statement = select(event_table).order_by(event_table.c.id)
            found = [str(row) for row in connection.execute(statement)]
        assert found[: len(self.history)] == self.history
        self.history = found

    @invariant()
    def waiting_items_are_listed_in_claim_order(self):
        free = sorted((e.order, item_id) for item_id, e in self.items.items() if self._is_free(e))
        assert [item.id for item in self.queue.waiting(100)] == [item_id for _, item_id in free]

    def teardown(self):
        self.queue.close()

    def _is_free(self, known: Expected) -> bool:
        if known.state is State.LEASED:
            return known.until_s < self.clock.now_s
        return known.state is State.OPEN

    def _next_for(self, reviewer: str) -> str | None:
        own = [
            (e.order, item_id)
            for item_id, e in self.items.items()
            if e.state is State.LEASED and e.owner == reviewer and not self._is_free(e)
        ]
        free = [(e.order, item_id) for item_id, e in self.items.items() if self._is_free(e)]
        first = min(own or free, default=None)
        return first and first[1]

    def _leased(self, item, reviewer: str) -> tuple[str, str, str]:
        known = self.items[item.id]
        if known.state is State.LEASED and known.owner == reviewer and not self._is_free(known):
            assert item.lease_token == known.token
        self.items[item.id] = Expected(
            known.order, State.LEASED, reviewer, item.lease_token, self.clock.now_s + 60
        )
        return item.id, reviewer, item.lease_token


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
