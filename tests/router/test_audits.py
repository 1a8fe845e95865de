"""Audits end to end: the coin, the queue, people, a certificate, its alarm, and the way back."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from stage import Fixed, MemoryQueue, Stage, answer

from weighbridge.decision import Decision, Ruling, Toss
from weighbridge.errors import ItemNotFound
from weighbridge.review.proving.audit import AuditCoin
from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.kept import Kept
from weighbridge.review.proving.looks import Wanted
from weighbridge.review.proving.rulings import Rulings
from weighbridge.review.queue import ReviewQueue
from weighbridge.router.cache import DecisionCache, MemoryCache
from weighbridge.router.chain import Policy
from weighbridge.router.gate import Gate
from weighbridge.router.recording import Recorder
from weighbridge.router.router import Router
from weighbridge.schemas.task import Task, Triage
from weighbridge.store.database import Database

TASK = Task.triage(categories=["billing", "bug"], priorities=[])


@dataclass
class Coin:
    """Draws the tickets that a test names."""

    drawn: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)

    def toss(self, ticket_id: str) -> Toss:
        self.asked.append(ticket_id)
        return Toss(u=0.0 if ticket_id in self.drawn else 0.9, rate=0.1)


def ticket(number: object, text: str = "I was charged twice") -> dict[str, str]:
    return {"id": f"t-{number}", "body": text}


# --- the router and the coin -----------------------------------------------------------------


def test_coin_is_asked_once_for_each_ticket_by_its_id_alone() -> None:
    """Before anybody else is: also where nobody answers, and for an empty ticket."""
    coin = Coin()

    def respond(request: httpx.Request) -> httpx.Response:
        assert coin.asked, "the coin comes first"
        return answer()

    router = Stage({"a": respond}).router(coin=coin)
    for number, text in ((1, "one"), (2, "two"), (3, " ")):
        router.triage(ticket(number, text))
    router.triage(ticket(1, "another text"))
    assert coin.asked == ["t-1", "t-2", "t-3", "t-1"]


def test_drawn_ticket_is_queued_blind_and_the_others_are_written_down() -> None:
    stage = Stage({"a": [answer()]})
    with stage.router(coin=Coin(("t-1",))) as router:
        first, second = (router.triage(ticket(number)) for number in (1, 2))
    assert (first.status, first.reasons, first.review_id) == ("review", ("audit",), "item-0")
    assert first.value is not None
    assert (second.status, second.review_id) == ("accepted", None)
    (entry,) = stage.queue.entries.values()
    assert entry.is_audit
    (recorded,) = stage.queue.recorded
    assert (recorded.decision, recorded.ticket, recorded.questions) == (second, {}, ())
    assert recorded.toss == Toss(u=0.9, rate=0.1)
    assert set(recorded.weighings) == {"category", "priority"}


def cached(stage: Stage, rulings: Fixed) -> DecisionCache:
    return DecisionCache(
        MemoryCache(),
        providers=stage.router()._providers,
        gate=Gate(without_evidence="accept"),
        policy=Policy(),
        rulings=rulings,
    )


def test_answer_from_the_cache_is_tossed_too() -> None:
    """A drawn ticket never comes from the cache unseen, and one that is not is written down."""
    stage, rulings = Stage({"a": [answer()]}), Fixed()
    cache = cached(stage, rulings)
    with stage.router(coin=Coin(("t-2",)), cache=cache, rulings=rulings) as router:
        first, drawn, third = (router.triage(ticket(number)) for number in (1, 2, 3))
    assert stage.hits("a") == 1
    assert [d.status for d in (first, drawn, third)] == ["accepted", "review", "accepted"]
    assert drawn.reasons == ("audit",)
    (entry,) = stage.queue.entries.values()
    assert [(q.field, q.machine) for q in entry.questions] == [
        ("category", "billing"),
        ("priority", "high"),
    ]
    assert entry.weighings == stage.queue.recorded[0].weighings
    assert [e.decision.ticket_id for e in stage.queue.recorded] == ["t-1", "t-3"]


def test_kept_answer_is_not_used_once_audits_say_otherwise() -> None:
    """An alarm ends what was accepted before it."""
    stage, rulings = Stage({"a": [answer()]}), Fixed()
    with stage.router(cache=cached(stage, rulings), rulings=rulings) as router:
        assert router.triage(ticket(1)).status == "accepted"
        rulings.ruling_, rulings.version = Ruling(is_alarmed=True), "2"
        decision = router.triage(ticket(2))
    assert (decision.status, decision.reasons, stage.hits("a")) == ("review", ("alarm",), 2)


# --- writing down in the background ----------------------------------------------------------


def entry_of(number: int) -> Any:
    stage = Stage({"a": [answer()]})
    with stage.router() as router:
        router.triage(ticket(number))
    return stage.queue.recorded[0]


def test_decisions_are_written_down_many_at_once_and_none_is_lost_at_the_end() -> None:
    written: list[list[Any]] = []
    recorder = Recorder(lambda entries: written.append(list(entries)), pause_s=60.0)
    entry = entry_of(1)
    for _ in range(1200):
        recorder.put(entry)
    assert written == []
    recorder.close()
    recorder.close()
    assert [len(batch) for batch in written] == [500, 500, 200]


def test_what_cannot_be_written_is_kept_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    queue = MemoryQueue(is_broken=True)
    recorder = Recorder(queue.record, pause_s=0.005)
    entries = [replace(entry_of(1), dedupe_key=str(n)) for n in range(3)]
    with caplog.at_level(logging.WARNING):
        for entry in entries:
            recorder.put(entry)
        wait_for(lambda: bool(caplog.records))
        time.sleep(0.05)
        queue.is_broken = False
        wait_for(lambda: len(queue.recorded) == 3)
    recorder.close()
    assert queue.recorded == entries
    assert len(caplog.records) == 1


def test_forked_process_writes_down_only_its_own() -> None:
    """What the parent had taken the parent writes, once."""
    queue = MemoryQueue()
    recorder = Recorder(queue.record, pause_s=60.0)
    entry = entry_of(1)
    recorder.put(entry)
    if (child := os.fork()) == 0:
        recorder.put(entry)
        recorder.close()
        os._exit(len(queue.recorded))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    recorder.close()
    assert len(queue.recorded) == 1


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- a person's answer back to the caller ----------------------------------------------------


@pytest.fixture
def database() -> Iterator[Database]:
    with closing(Database("sqlite://")) as database:
        yield database


def judge(queue: ReviewQueue, item_id: str, **values: str) -> None:
    item = queue.claim("ann", item_id=item_id)
    assert item is not None
    token = item.lease_token
    said: dict[str, Any] = {"values": values} if values else {"values": {}, "kind": "unsure"}
    queue.answer(item_id, reviewer="ann", token=token, **said)


def test_answer_of_a_person_comes_back_as_the_tasks_own_value(database: Database) -> None:
    """What nobody was asked about is as the machine had it; while it waits there is nothing."""
    stage = Stage({"a": [answer()]}, queue=ReviewQueue(database))
    with stage.router(gate=Gate()) as router:
        decision = router.triage(ticket(1))
        assert decision.review_id is not None
        assert router.result(decision.review_id) is None
        assert router.resolved() == []
        judge(stage.queue, decision.review_id, category="bug")
        found = router.result(decision.review_id)
        assert found is not None
        assert found.value == Triage(category="bug", priority="high")
        assert (found.ticket_id, found.kind, found.fields) == ("t-1", "answer", {"category": "bug"})
        assert router.resolved() == [found]
        assert router.resolved(since=found.number) == []
        assert asyncio.run(router.aresult(decision.review_id)) == found
        assert asyncio.run(router.aresolved()) == [found]
        assert "bug" not in repr(found)
        with pytest.raises(ItemNotFound):
            router.result("nothing")


def test_unsure_person_gives_no_value_and_another_task_gives_plain_json(
    database: Database,
) -> None:
    stage = Stage({"a": [answer()]}, queue=ReviewQueue(database))
    other = Task.from_schema(
        {"type": "object", "properties": {"category": {"enum": ["billing", "bug"]}}},
        instructions="Sort.",
        name="sorting",
    )
    with stage.router(gate=Gate()) as router:
        first = router.triage(ticket(1)).review_id
        stage.scripts["a"] = [answer('{"category": "billing"}')]
        second = router.ask(other, ticket(2)).review_id
        judge(stage.queue, first)
        unsure = stage.queue.claim("eve", item_id=first, may_adjudicate=True)
        stage.queue.answer(
            first, reviewer="eve", token=unsure.lease_token, values={}, kind="unsure"
        )
        judge(stage.queue, second, category="bug")
        nothing, plain = router.resolved()
        assert (nothing.kind, nothing.value, nothing.fields) == ("unsure", None, {})
        assert plain.value == {"category": "bug"}
        assert router.result(second, task=other).value == {"category": "bug"}


# --- the whole story -------------------------------------------------------------------------


@dataclass
class Machine:
    """A provider that is right as often as it says, until its answers get worse."""

    rng: random.Random
    wrong: float = 0.0  # share of its sure answers that are wrong

    def truth(self, number: int) -> str:
        return "billing" if random.Random(number).random() < 0.5 else "bug"

    def respond(self, request: httpx.Request) -> httpx.Response:
        said = json.loads(request.content)["messages"][-1]["content"]
        number = int(said.rsplit("number ", 1)[1].split()[0].rstrip('".}'))
        sure = self.rng.random() < 0.8
        is_right = self.rng.random() >= (self.wrong if sure else 0.4)
        right = self.truth(number)
        option = right if is_right else {"billing": "bug", "bug": "billing"}[right]
        return weighed(option, 0.97 if sure else 0.55)


def weighed(option: str, probability: float) -> httpx.Response:
    """An answer whose log-probabilities were taken before any mask."""
    text = json.dumps({"category": option})
    begin, end = text.split(option)
    rest = {"billing": "bug", "bug": "billing"}[option]
    top = [
        {"token": option, "logprob": math.log(probability)},
        {"token": rest, "logprob": math.log(1 - probability)},
    ]
    content = [
        {"token": begin, "logprob": 0.0, "top_logprobs": []},
        {"token": option, "logprob": math.log(probability), "top_logprobs": top},
        {"token": end, "logprob": 0.0, "top_logprobs": []},
    ]
    body = json.loads(answer(text).content)
    body["choices"][0]["logprobs"] = {"content": content}
    return httpx.Response(200, json=body)


class Desk:
    """Tickets, the machine, and people who know the truth."""

    def __init__(self, database: Database, seed: int) -> None:
        self.machine = Machine(random.Random(seed))
        self.database, self.queue = database, ReviewQueue(database)
        self.rulings = Rulings(database)
        stage = Stage({"a": self.machine.respond}, queue=self.queue, profile="llama_cpp_server")
        # A probability that the gate alone never accepts: certificates decide.
        self.router: Router = stage.router(
            task=TASK,
            gate=Gate(probability=0.99),
            coin=AuditCoin(secret=bytes(32), rate=0.5),
            rulings=self.rulings,
        )
        self.number, self.guarantees = 0, Guarantees(database, audit_rate=0.5)

    def triage(self, num_tickets: int) -> list[Decision]:
        first, self.number = self.number, self.number + num_tickets
        tickets = [
            {"id": str(n), "body": f"Something is wrong with number {n}"}
            for n in range(first, self.number)
        ]
        return list(self.router.triage_many(tickets, concurrency=1))

    def review(self) -> None:
        """People judge every audit, and see what became of the certificate."""
        while items := [i for i in self.queue.waiting(1000) if i.is_audit]:
            for item in items:
                assert item.is_blind
                judge(self.queue, item.id, category=self.machine.truth(int(item.ticket_id)))
        self.rulings.refresh()

    def certify(self) -> Kept | None:
        (key,) = self.guarantees.keys()
        found = self.guarantees.certify(key, Wanted(risk=0.10, confidence=0.9)).result
        self.rulings.refresh()
        return found if isinstance(found, Kept) else None

    def wrong_among(self, decisions: list[Decision]) -> float:
        wrong = [d.value.category != self.machine.truth(int(d.ticket_id)) for d in decisions]
        return sum(wrong) / len(wrong)


def test_promise_holds_until_answers_get_worse_and_is_given_anew(database: Database) -> None:
    """Uncertified, certified, alarmed, certified again; each as the audits have it."""
    desk = Desk(database, seed=1)
    with desk.router:
        before = desk.triage(160)
        assert {d.status for d in before} == {"review"}
        assert {r for d in before for r in d.reasons} == {"low_probability"}
        desk.review()
        kept = desk.certify()
        assert kept is not None
        assert 0.55 < kept.proof.threshold <= 0.97

        after = desk.triage(80)
        accepted = [d for d in after if d.status == "accepted"]
        assert len(accepted) > 20
        assert {d.guarantee for d in accepted} == {kept.guarantee}
        assert {d.reasons for d in after} == {(), ("audit",), ("low_probability",)}
        assert desk.wrong_among(accepted) <= 0.10

        desk.machine.wrong = 0.7
        desk.triage(90)
        desk.review()
        desk.machine.wrong = 0.0
        worse = desk.triage(20)
        assert {d.status for d in worse} == {"review"}
        assert {d.reasons[0] for d in worse} == {"alarm"}
        desk.review()
        assert desk.certify() is None  # earlier labels no longer count

        assert {d.reasons[0] for d in desk.triage(140)} == {"alarm"}
        desk.review()
        again = desk.certify()
        assert again is not None
        assert again.guarantee != kept.guarantee
        accepted = [d for d in desk.triage(30) if d.status == "accepted"]
        assert {d.guarantee for d in accepted} == {again.guarantee}
        assert desk.wrong_among(accepted) <= 0.10
