"""A model of the queue: the same promises, in plain lists, for a machine to compare with."""

from __future__ import annotations

from dataclasses import dataclass, field

REVIEWERS = ("ann", "bob", "eve")
DAY_S = 86_400.0
HEAD_START_S = LEAD_S = 3 * DAY_S


@dataclass(eq=False)
class Slot:
    item: Item
    round: int
    kind: str
    number: int
    not_before: float = 0.0
    state: str = "open"
    owner: str | None = None
    token: str | None = None
    until: float = 0.0
    assignee: str | None = None
    said: str | None = None

    def lease(self, owner, token, until):
        self.state, self.owner, self.token, self.until = "leased", owner, token, until

    def close(self, state):
        self.state, self.token = state, None
        if state != "done":
            self.owner = None


@dataclass(eq=False)
class Item:
    id: str
    key: str
    created_s: float
    uncertainty: float
    needed: int
    state: str = "open"
    round: int = 1
    order_s: float = 0.0
    slots: list[Slot] = field(default_factory=list)
    num_verdicts: int = 0
    assignee: str | None = None

    @property
    def is_unsettled(self) -> bool:
        return self.state in ("open", "needs_adjudication")

    def in_round(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.round == self.round]

    def unjudged(self, kind=None) -> list[Slot]:
        return [
            slot
            for slot in self.in_round()
            if slot.state in ("open", "leased") and kind in (None, slot.kind)
        ]

    def cancel(self):
        self.state = "cancelled"
        for slot in self.unjudged():
            slot.close("cancelled")


class QueueModel:
    def __init__(self, clock) -> None:
        self.clock = clock
        self.items: dict[str, Item] = {}
        self.slots: list[Slot] = []
        self.skipped: set[tuple[str, str]] = set()
        self.keys: set[str] = set()
        self.num_verdicts = 0

    def enqueue(self, item_id, *, key, uncertainty, needed):
        for known in self.items.values():
            if known.key == key:
                assert known.id == item_id
                return
        assert item_id not in self.items
        now = self.clock.now_s
        item = Item(item_id, key, now, uncertainty, needed)
        item.order_s = now - uncertainty * HEAD_START_S
        for older in self.items.values():
            if older.key[0] == key[0] and older.state == "open" and not older.num_verdicts:
                older.cancel()
        self.items[item_id] = item
        self.open_slots(item, "review", needed)

    def nth(self, number):
        items = list(self.items.values())
        return items[number % len(items)]

    def open_slots(self, item, kind, number):
        assignee = item.assignee if kind == "review" else None
        for _ in range(number):
            slot = Slot(item, item.round, kind, len(self.slots), assignee=assignee)
            item.slots.append(slot)
            self.slots.append(slot)

    def unjudged(self):
        return [slot for slot in self.slots if slot.state in ("open", "leased")]

    def is_free(self, slot) -> bool:
        now = self.clock.now_s
        has_ended = slot.until < now or slot.until > now + DAY_S
        return slot.state == "open" or (slot.state == "leased" and has_ended)

    def order(self, slot):
        return slot.item.order_s, slot.number

    def order_in_lane(self, slot):
        return slot.until if slot.state == "leased" else slot.item.order_s, slot.number

    def lane(self, slot, reviewer):
        """Which of the lanes it waits in for the reviewer, the first first; None: in none."""
        others = [other for other in slot.item.in_round() if other is not slot]
        if (
            not self.is_free(slot)
            or slot.not_before > self.clock.now_s
            or (slot.item.id, reviewer) in self.skipped
            or slot.assignee not in (None, reviewer)
            or any(other.owner == reviewer for other in others)
        ):
            return None
        if slot.state == "leased":
            return 0, slot.until > self.clock.now_s
        return 1 if slot.assignee else 2, slot.kind != "adjudicate"

    def free_for(self, reviewer, *, may_adjudicate=True):
        offers = [
            (self.lane(slot, reviewer), self.order_in_lane(slot), slot)
            for slot in self.slots
            if self.lane(slot, reviewer) and (may_adjudicate or slot.kind == "review")
        ]
        return [slot for *_, slot in sorted(offers, key=lambda offer: offer[:2])]

    def offered(self, reviewer) -> list[str]:
        return list(dict.fromkeys(slot.item.id for slot in self.free_for(reviewer)))

    def next_for(self, reviewer, *, may_adjudicate):
        own = [
            slot
            for slot in self.slots
            if slot.state == "leased" and slot.owner == reviewer and not self.is_free(slot)
        ]
        free = self.free_for(reviewer, may_adjudicate=may_adjudicate)
        return min(own, key=self.order, default=None) or next(iter(free), None)

    def by_name(self, item, reviewer, *, may_adjudicate):
        mine = [slot for slot in item.in_round() if slot.owner == reviewer]
        held = [slot for slot in mine if slot.state == "leased"]
        if held:
            return held[0]
        for slot in item.unjudged():
            may_have = may_adjudicate if slot.kind == "adjudicate" else not mine
            if self.is_free(slot) and may_have:
                return slot
        return None

    def held(self, item_id, reviewer, token):
        for slot in self.items[item_id].in_round():
            if (slot.state, slot.owner, slot.token) == ("leased", reviewer, token):
                return slot
        return None

    def hand_back(self, slot, *, is_skip):
        if is_skip:
            self.skipped.add((slot.item.id, slot.owner))
        slot.close("open")

    def answer(self, slot, said, key):
        item = slot.item
        slot.said = said
        slot.close("done")
        item.num_verdicts += 1
        self.num_verdicts += 1
        self.keys |= {key} - {None}
        if slot.kind == "adjudicate":
            item.state = "done"
        elif not item.unjudged():
            said_by_all = {other.said for other in item.in_round() if other.state == "done"}
            if len(said_by_all) == 1 and said_by_all != {"unsure"}:
                item.state = "done"
            else:
                item.state = "needs_adjudication"
                self.open_slots(item, "adjudicate", 1)

    def undoable(self, item, reviewer):
        judged = [slot for slot in item.in_round() if slot.state == "done"]
        final = [slot for slot in judged if slot.kind == "adjudicate"]
        mine = [slot for slot in final or judged if slot.owner == reviewer]
        return None if item.state == "cancelled" or not mine else mine[-1]

    def undo(self, slot, key, token, until):
        item = slot.item
        self.num_verdicts += 1
        item.num_verdicts += 1
        self.keys |= {key} - {None}
        slot.said = None
        slot.lease(slot.owner, token, until)
        if slot.kind == "adjudicate":
            item.state = "needs_adjudication"
        else:
            item.state = "open"
            for other in item.unjudged("adjudicate"):
                other.close("cancelled")

    def assign(self, item, to):
        item.assignee = to
        for slot in item.unjudged():
            slot.assignee = to

    def set_due(self, item, due_s, not_before):
        item.order_s = item.created_s - item.uncertainty * HEAD_START_S
        if due_s is not None:
            item.order_s = min(item.order_s, due_s - LEAD_S)
        for slot in item.unjudged():
            slot.not_before = not_before

    def reopen(self, item, needed):
        item.state, item.round, item.needed = "open", item.round + 1, needed
        self.open_slots(item, "review", needed)
