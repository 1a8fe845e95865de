"""The queue against a model of it, through every order of events that hypothesis thinks of."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from queue_entries import FakeClock, emptied, make_audit, make_entry
from queue_model import REVIEWERS, QueueModel
from sqlalchemy import select

from weighbridge.errors import ChangeRefused, LeaseLost, VerdictInvalid
from weighbridge.review.overviews import Search
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.rows import microseconds, moment
from weighbridge.store.queue_tables import event_table, item_table, slot_table, verdict_table

LEASE_S = 60
reviewers = st.sampled_from(REVIEWERS)
may_adjudicate = st.booleans()
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
        self.history: list[str] = []
        self.verdicts: list[str] = []
        self.exported: dict[str, int] = {}
        self.cursor = 0

    @rule(
        ticket=st.sampled_from("abcd"),
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

    @rule(seconds=st.sampled_from([1, 30, 61, 3 * 86_400, -5, -2 * 86_400]))
    def let_the_clock_run_or_jump(self, seconds):
        self.clock.advance(seconds)

    @rule(target=leases, reviewer=reviewers, may=may_adjudicate)
    def claim(self, reviewer, may):
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

    @precondition(lambda self: self.model.items)
    @rule(target=leases, reviewer=reviewers, may=may_adjudicate, data=st.data())
    def claim_by_name(self, reviewer, may, data):
        known = self.any_item(data)
        expected = self.model.by_name(known, reviewer, may_adjudicate=may)
        try:
            item = self.queue.claim(reviewer, lease_s=LEASE_S, item_id=known.id, may_adjudicate=may)
        except LeaseLost:
            assert expected is None
            return multiple()
        assert expected is not None
        return self.leased(item, expected, reviewer)

    @rule(lease=leases)
    def renew(self, lease):
        slot = self.model.held(*lease)
        try:
            item = self.queue.renew(lease[0], reviewer=lease[1], token=lease[2], lease_s=LEASE_S)
        except LeaseLost:
            assert slot is None
        else:
            assert item.lease_token == slot.token
            slot.until = self.clock.now_s + LEASE_S

    @rule(lease=leases, is_skip=st.booleans())
    def hand_back(self, lease, is_skip):
        item_id, reviewer, token = lease
        slot = self.model.held(*lease)
        give = self.queue.skip if is_skip else self.queue.release
        try:
            give(item_id, reviewer=reviewer, token=token)
        except LeaseLost:
            assert slot is None
        else:
            self.model.hand_back(slot, is_skip=is_skip)

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
        before = len(self.verdicts)
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
            assert len(item.verdicts) >= 1
            assert before == len(self.verdicts)

    @precondition(lambda self: self.model.items)
    @rule(target=leases, reviewer=reviewers, data=st.data(), key=st.sampled_from([None, "u"]))
    def undo(self, reviewer, data, key):
        known = self.any_item(data)
        key = key and f"{key}-{known.id}-{reviewer}"
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

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), to=st.sampled_from([None, *REVIEWERS]))
    def assign(self, data, to):
        known = self.any_item(data)
        try:
            self.queue.assign(known.id, to=to, by="boss")
        except ChangeRefused:
            assert not known.is_unsettled
        else:
            assert known.is_unsettled
            self.model.assign(known, to)

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), days=st.sampled_from([None, 1, 10]), hidden_s=st.sampled_from([None, 45]))
    def set_due(self, data, days, hidden_s):
        known, now = self.any_item(data), self.clock.now_s
        due_s = days and now + days * 86_400
        try:
            self.queue.set_due(
                known.id,
                due_at=due_s and moment(round(due_s * 1e6)),
                not_before=hidden_s and moment(round((now + hidden_s) * 1e6)),
                by="boss",
            )
        except ChangeRefused:
            assert not known.is_unsettled
        else:
            self.model.set_due(known, due_s, now + hidden_s if hidden_s else 0.0)

    @precondition(lambda self: self.model.items)
    @rule(data=st.data())
    def cancel(self, data):
        known = self.any_item(data)
        try:
            self.queue.cancel(known.id, by="boss", reason="spam")
        except ChangeRefused:
            assert known.state == "done"
        else:
            assert known.state != "done"
            known.cancel()

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), needed=st.sampled_from([1, 2]))
    def reopen(self, data, needed):
        known = self.any_item(data)
        try:
            self.queue.reopen(known.id, by="boss", reason="wrong", needed=needed)
        except ChangeRefused:
            assert known.is_unsettled
        else:
            assert not known.is_unsettled
            self.model.reopen(known, needed)

    @invariant()
    def rows_are_what_the_model_says(self):
        with self.database.reading() as connection:
            items = connection.execute(select(item_table)).all()
            slots = connection.execute(select(slot_table)).all()
        assert {(row.id, row.state, row.round, row.needed) for row in items} == {
            (item.id, item.state, item.round, item.needed) for item in self.model.items.values()
        }
        assert sorted(
            (row.item_id, row.round, row.kind, row.state, row.owner or "", row.lease_token or "")
            for row in slots
        ) == sorted(
            (slot.item.id, slot.round, slot.kind, slot.state, slot.owner or "", slot.token or "")
            for slot in self.model.slots
        )

    @invariant()
    def every_lease_has_its_own_token(self):
        live = [slot.token for slot in self.model.slots if slot.state == "leased"]
        assert None not in live
        assert len(set(live)) == len(live)

    @invariant()
    def verdicts_and_history_only_grow(self):
        for table, known in ((verdict_table, self.verdicts), (event_table, self.history)):
            with self.database.reading() as connection:
                found = [str(row) for row in connection.execute(select(table).order_by(table.c.id))]
            assert found[: len(known)] == known
            known[:] = found
        assert len(self.verdicts) == self.model.num_verdicts

    @invariant()
    def item_is_done_exactly_when_its_round_is_settled(self):
        """Judged from the stored verdicts alone; nobody judges twice in a round."""
        for item in self.all_items():
            said = item.standing
            voices = [(verdict.reviewer, verdict.is_adjudication) for verdict in said]
            assert len(set(voices)) == len(voices)
            kinds = {(v.kind == "unclassifiable", str(v.values)) for v in said}
            agree = len(kinds) == 1 and all(v.kind != "unsure" for v in said)
            is_settled = any(v.is_adjudication for v in said) or (
                len(said) == item.needed and agree
            )
            if item.state != "cancelled":
                assert (item.state == "done") == is_settled
            assert (item.resolved_kind is None) == (item.state != "done")
            if item.state == "done" and any(v.is_adjudication for v in said):
                assert item.resolution == (said[-1].values or None)

    @invariant()
    def whoever_follows_the_settlings_misses_none(self):
        for item in self.queue.settled(self.cursor, 100):
            assert item.settled_no > self.cursor
            self.cursor = item.settled_no
            self.exported[item.id] = item.settled_no
        done = [item for item in self.all_items() if item.state == "done"]
        assert all(self.exported[item.id] == item.settled_no for item in done)

    @rule(reviewer=reviewers)
    def look_at_what_is_offered(self, reviewer):
        """In the order in which they would be claimed."""
        offered = self.queue.waiting(100, reviewer, may_adjudicate=True)
        assert [item.id for item in offered] == self.model.offered(reviewer)

    def all_items(self):
        items = self.queue.search(Search(), limit=100)
        assert {item.id for item in items} == set(self.model.items)
        return items

    def any_item(self, data):
        items = list(self.model.items.values())
        return items[data.draw(st.integers(0, len(items) - 1))]

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
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
