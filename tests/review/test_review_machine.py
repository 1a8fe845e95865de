"""The queue against a model of it, through every order of events that hypothesis thinks of."""

from __future__ import annotations

from contextlib import contextmanager

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from queue_entries import FakeClock, emptied, make_audit, make_entry
from queue_model import DAY_S, REVIEWERS, QueueModel
from sqlalchemy import select

from weighbridge.errors import ChangeRefused, LeaseLost, VerdictInvalid
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.queue_tables import event_table, item_table, slot_table, verdict_table
from weighbridge.store.times import microseconds, moment

LEASE_S = 60
reviewers = st.sampled_from(REVIEWERS)
may_adjudicate = st.booleans()
which = st.integers(0, 5)
SAID = {
    "bug": {"values": {"category": "bug"}},
    "billing": {"values": {"category": "billing"}},
    "nonsense": {"values": {"category": "nonsense"}},
    "unsure": {"values": {}, "kind": "unsure"},
    "unclassifiable": {"values": {}, "kind": "unclassifiable"},
}


class QueueMachine(RuleBasedStateMachine):
    leases = Bundle("leases")

    def __init__(self, database) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.database = emptied(database)
        self.queue = ReviewQueue(database, clock=self.clock, needed=1, audits_needed=2)
        self.model = QueueModel(self.clock)
        self.rows: dict = {}
        self.history: list[tuple] = []
        self.verdicts: list[tuple] = []
        self.exported: dict[str, int] = {}
        self.cursor = 0

    @initialize()
    def begin_with_some(self):
        """What nobody waits for costs steps in which nothing can happen."""
        self.enqueue("a", "1", None, is_audit=True)
        self.enqueue("b", "1", 0.5, is_audit=False)

    @rule(
        ticket=st.sampled_from("abc"),
        version=st.sampled_from("12"),
        probability=st.sampled_from([None, 0.25, 0.5]),
        is_audit=st.booleans(),
    )
    def enqueue(self, ticket, version, probability, is_audit):
        make = make_audit if is_audit else make_entry
        entry = make(ticket, probability=probability, dedupe_key=ticket + version)
        item_id = self.queue.enqueue(entry)
        self.model.enqueue(
            item_id,
            key=ticket + version,
            uncertainty=1.0 - (probability or 0.0),
            needed=2 if is_audit else 1,
        )

    @rule(seconds=st.sampled_from([30, 61, 3 * DAY_S, -5, -2 * DAY_S]))
    def let_the_clock_run_or_jump(self, seconds):
        self.clock.advance(seconds)

    @rule(target=leases, reviewer=reviewers, may=may_adjudicate, later=st.sampled_from([0, 0, 61]))
    def claim(self, reviewer, may, later):
        self.clock.advance(later)
        expected = self.model.next_for(reviewer, may_adjudicate=may)
        item = self.queue.claim(reviewer, lease_s=LEASE_S, may_adjudicate=may)
        assert (item and item.id) == (expected and expected.item.id)
        if item is None:
            why = self.queue.why_empty(reviewer, may_adjudicate=may)
            places = (
                why.num_judged, why.num_leased, why.num_skipped, why.num_assigned,
                why.num_adjudications, why.num_not_yet,
            )  # fmt: skip
            assert sum(places) == len(self.model.unjudged())
            return multiple()
        return self.leased(item, expected, reviewer)

    @rule(target=leases, reviewer=reviewers, may=may_adjudicate, which=which)
    def claim_by_name(self, reviewer, may, which):
        known = self.model.nth(which)
        expected = self.model.by_name(known, reviewer, may_adjudicate=may)
        try:
            item = self.queue.claim(reviewer, lease_s=LEASE_S, item_id=known.id, may_adjudicate=may)
        except LeaseLost:
            assert expected is None
            return multiple()
        assert expected is not None
        return self.leased(item, expected, reviewer)

    @rule(lease=leases, verb=st.sampled_from(["renew", "release", "skip"]))
    def keep_or_hand_back(self, lease, verb):
        item_id, reviewer, token = lease
        slot = self.model.held(*lease)
        how = {"lease_s": LEASE_S} if verb == "renew" else {}
        try:
            getattr(self.queue, verb)(item_id, reviewer=reviewer, token=token, **how)
        except LeaseLost:
            assert slot is None
        else:
            assert slot is not None
            if verb == "renew":
                slot.until = self.clock.now_s + LEASE_S
            else:
                self.model.hand_back(slot, is_skip=verb == "skip")

    @rule(reviewer=reviewers)
    def unskip(self, reviewer):
        mine = {pair for pair in self.model.skipped if pair[1] == reviewer}
        assert self.queue.unskip(reviewer) == len(mine)
        self.model.skipped -= mine

    @rule(lease=leases, said=st.sampled_from(sorted(SAID)), has_key=st.booleans())
    def answer(self, lease, said, has_key):
        """With a token that may be current, overtaken, or used up."""
        item_id, reviewer, token = lease
        slot = self.model.held(*lease)
        key = f"key-{token}" if has_key else None
        is_replay = key in self.model.keys
        try:
            item = self.queue.answer(
                item_id, reviewer=reviewer, token=token, idem_key=key, **SAID[said]
            )
        except LeaseLost:
            assert slot is None
            assert not is_replay
        except VerdictInvalid:
            assert said == "nonsense"
        else:
            assert is_replay or slot is not None
            if not is_replay:
                self.model.answer(slot, said, key)
            assert item.verdicts

    @rule(target=leases, reviewer=reviewers, which=which, has_key=st.booleans())
    def undo(self, reviewer, which, has_key):
        known = self.model.nth(which)
        key = f"undo-{known.id}-{reviewer}" if has_key else None
        is_replay = key in self.model.keys
        slot = self.model.undoable(known, reviewer)
        try:
            item = self.queue.undo(known.id, reviewer=reviewer, idem_key=key)
        except ChangeRefused:
            assert slot is None
            return multiple()
        if is_replay:
            return multiple()
        assert slot is not None
        self.model.undo(slot, key, item.lease_token, until=self.clock.now_s + 600)
        return item.id, reviewer, item.lease_token

    @rule(which=which, to=st.sampled_from([None, *REVIEWERS]))
    def assign(self, which, to):
        known = self.model.nth(which)
        with self.refused_unless(known.is_unsettled):
            self.queue.assign(known.id, to=to, by="boss")
            self.model.assign(known, to)

    @rule(which=which, days=st.sampled_from([None, 1, 10]), hidden_s=st.sampled_from([0, 45]))
    def set_due(self, which, days, hidden_s):
        known, now = self.model.nth(which), self.clock.now_s
        due_s = days and now + days * DAY_S
        with self.refused_unless(known.is_unsettled):
            self.queue.set_due(
                known.id,
                due_at=due_s and moment(round(due_s * 1e6)),
                not_before=moment(round((now + hidden_s) * 1e6)) if hidden_s else None,
                by="boss",
            )
            self.model.set_due(known, due_s, now + hidden_s if hidden_s else 0.0)

    @rule(which=which)
    def cancel(self, which):
        known = self.model.nth(which)
        with self.refused_unless(known.state != "done"):
            self.queue.cancel(known.id, by="boss", reason="spam")
            known.cancel()

    @rule(which=which, needed=st.sampled_from([1, 2]))
    def reopen(self, which, needed):
        known = self.model.nth(which)
        with self.refused_unless(not known.is_unsettled):
            self.queue.reopen(known.id, by="boss", reason="wrong", needed=needed)
            self.model.reopen(known, needed)

    @rule(reviewer=reviewers)
    def look_at_what_is_offered(self, reviewer):
        """In the order in which they would be claimed."""
        offered = self.queue.waiting(100, reviewer, may_adjudicate=True)
        assert [item.id for item in offered] == self.model.offered(reviewer)

    @rule()
    def follow_the_settlings(self):
        """Whoever reads on from the last number misses none."""
        for item in self.queue.settled(self.cursor, 100):
            assert item.settled_no > self.cursor
            self.cursor = item.settled_no
            self.exported[item.id] = item.settled_no
        for row in self.rows[item_table]:
            assert row.settled_no in (None, self.exported.get(row.id))

    @invariant()
    def all_promises_hold(self):
        tables = (item_table, slot_table, verdict_table, event_table)
        with self.database.reading() as connection:
            self.rows = {
                table: connection.execute(select(table).order_by(*table.primary_key)).all()
                for table in tables
            }
        self.rows_are_what_the_model_says()
        self.every_lease_has_its_own_token()
        self.verdicts_and_history_only_grow()
        self.item_is_done_exactly_when_its_round_is_settled()

    def rows_are_what_the_model_says(self):
        assert {(row.id, row.state, row.round, row.needed) for row in self.rows[item_table]} == {
            (item.id, item.state, item.round, item.needed) for item in self.model.items.values()
        }
        assert sorted(
            (row.item_id, row.round, row.kind, row.state, row.owner or "", row.lease_token or "")
            for row in self.rows[slot_table]
        ) == sorted(
            (slot.item.id, slot.round, slot.kind, slot.state, slot.owner or "", slot.token or "")
            for slot in self.model.slots
        )

    def every_lease_has_its_own_token(self):
        live = [slot.token for slot in self.model.slots if slot.state == "leased"]
        assert None not in live
        assert len(set(live)) == len(live)

    def verdicts_and_history_only_grow(self):
        for table, known in ((verdict_table, self.verdicts), (event_table, self.history)):
            found = [tuple(row) for row in self.rows[table]]
            assert found[: len(known)] == known
            known[:] = found
        assert len(self.verdicts) == self.model.num_verdicts

    def item_is_done_exactly_when_its_round_is_settled(self):
        """Judged from the stored verdicts alone; nobody judges twice in a round."""
        taken_back = {row.supersedes for row in self.rows[verdict_table]}
        for item in self.rows[item_table]:
            said = [
                row
                for row in self.rows[verdict_table]
                if (row.item_id, row.round) == (item.id, item.round)
                and row.kind != "undo"
                and row.id not in taken_back
            ]
            voices = {(row.reviewer, row.is_adjudication) for row in said}
            assert len(voices) == len(said)
            opinions = {(row.kind == "unclassifiable", str(row.values_json)) for row in said}
            agree = len(opinions) == 1 and all(row.kind != "unsure" for row in said)
            final = [row for row in said if row.is_adjudication]
            is_settled = bool(final) or (len(said) == item.needed and agree)
            if item.state != "cancelled":
                assert (item.state == "done") == is_settled
            if item.state == "done":
                assert item.resolution_json == ((final or said)[-1].values_json or None)

    @contextmanager
    def refused_unless(self, is_allowed):
        try:
            yield
        except ChangeRefused:
            assert not is_allowed
        else:
            assert is_allowed

    def leased(self, item, slot, reviewer):
        """Carry a claim over into the model, after looking at what it may give."""
        if slot.state == "leased" and slot.owner == reviewer and slot.token == item.lease_token:
            slot.until = self.clock.now_s + LEASE_S
        else:
            assert self.model.is_free(slot)
            slot.lease(reviewer, item.lease_token, self.clock.now_s + LEASE_S)
        assert microseconds(item.lease.until) == round((self.clock.now_s + LEASE_S) * 1e6)
        return item.id, reviewer, item.lease_token


def test_queue_does_what_its_model_does(database):
    """Every verb, in any order, on a clock that also jumps."""
    run_state_machine_as_test(
        lambda: QueueMachine(database),
        settings=settings(
            # There every question is a journey to the server.
            max_examples=8 if database.is_postgresql else 25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
