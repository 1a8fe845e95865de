"""Laws of budgets, whatever keeps their books."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure, Reply
from weighbridge.router.budget import (
    Books,
    Budget,
    Caps,
    MemoryBooks,
    Refused,
    Reservation,
    spent_usd,
)
from weighbridge.store.budget import SharedBooks
from weighbridge.store.database import Database
from weighbridge.store.tables import spending_table

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)
KINDS = pytest.mark.parametrize("kind", ["memory", "shared"])


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(scope="module")
def database():
    with closing(Database("sqlite://")) as database:
        yield database


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "shared"])
def books(request, clock, database):
    with closing(empty_books(request.param, clock, database)) as books:
        yield books


def empty_books(kind: str, clock: Clock, database: Database) -> Books:
    if kind == "memory":
        return MemoryBooks(clock)
    with database.writing() as connection:
        connection.execute(delete(spending_table))
    return SharedBooks(database, clock, patience_s=60.0)


async def is_left(budget: Budget, usd: float, *, provider: str = "p", ticket: str = "t") -> bool:
    """Whether that much is left; it still is afterwards."""
    asked = await budget.reserve(provider, ticket, usd)
    if isinstance(asked, Reservation):
        asked.settle(0.0)
    return isinstance(asked, Reservation)


async def reserved(budget: Budget, usd: float, *, provider="p", ticket="t") -> Reservation:
    asked = await budget.reserve(provider, ticket, usd)
    assert isinstance(asked, Reservation)
    return asked


async def test_of_fifty_concurrent_calls_as_many_leave_as_the_budget_covers(books):
    """Each takes its money before it leaves; that the answers cost less comes too late for it."""
    budget = Budget(Caps(usd_per_day=1.0), books)
    sent = 0

    async def call(number: int) -> Reservation | Refused:
        nonlocal sent
        asked = await budget.reserve("p", f"ticket {number}", 0.1)
        if isinstance(asked, Reservation):
            sent += 1
            await asyncio.sleep(0)
        return asked

    ended = await asyncio.gather(*(call(number) for number in range(50)))
    assert sent == 10
    assert sum(each is Refused.DAY for each in ended) == 40
    for each in ended:
        if isinstance(each, Reservation):
            each.settle(0.01)
    assert await is_left(budget, 0.9)
    assert not await is_left(budget, 0.900001)


def test_threads_share_one_budget(books):
    """A router has one event loop for synchronous callers and as many as its others bring."""
    budget = Budget(Caps(usd_per_day=1.0), books)
    sent: list[Reservation] = []

    async def calls() -> None:
        asked = await asyncio.gather(*(budget.reserve("p", "t", 0.1) for _ in range(12)))
        sent.extend(each for each in asked if isinstance(each, Reservation))

    threads = [threading.Thread(target=asyncio.run, args=(calls(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(sent) == 10


@pytest.mark.parametrize(
    ("caps", "refused"),
    [
        (Caps(usd_per_day=1.0), Refused.DAY),
        (Caps(provider_usd_per_day={"p": 1.0}), Refused.PROVIDER_DAY),
        (Caps(usd_per_ticket=1.0), Refused.TICKET),
        (Caps(usd_per_day=9.0, usd_per_ticket=1.0), Refused.TICKET),
        (Caps(usd_per_day=1.0, usd_per_ticket=9.0, provider_usd_per_day={"p": 9.0}), Refused.DAY),
    ],
)
async def test_each_budget_refuses_by_its_own_name(books, caps, refused):
    """All that there is may be taken, and then nothing more."""
    budget = Budget(caps, books)
    await reserved(budget, 1.0)
    assert await budget.reserve("p", "t", 0.000001) is refused


@pytest.mark.parametrize(
    ("caps", "other"),
    [
        (Caps(provider_usd_per_day={"p": 1.0}), ("q", "t")),
        (Caps(provider_usd_per_day={"p": 1.0, "q": 1.0}), ("q", "t")),
        (Caps(usd_per_ticket=1.0), ("p", "u")),
    ],
)
async def test_what_one_spends_another_still_has(books, caps, other):
    budget = Budget(caps, books)
    await reserved(budget, 1.0)
    assert isinstance(await budget.reserve(*other, 1.0), Reservation)


async def test_refused_reservation_takes_nothing_anywhere(books):
    """From all accounts, or from none."""
    caps = Caps(usd_per_day=2.0, usd_per_ticket=1.5, provider_usd_per_day={"p": 1.0})
    budget = Budget(caps, books)
    assert await budget.reserve("p", "t", 1.2) is Refused.PROVIDER_DAY
    await reserved(budget, 1.5, provider="q")
    assert await budget.reserve("q", "u", 0.6) is Refused.DAY
    await reserved(budget, 0.5, provider="p", ticket="u")


@pytest.mark.parametrize(
    ("settled", "left"),
    [(0.0, 1.0), (0.25, 0.75), (0.6, 0.4), (0.8, 0.2), (1.7, 0.0), (None, 0.4)],
)
async def test_settlement_counts_in_place_of_the_reservation(books, settled, left):
    """Whether it was less or more; and where nobody knows, the reservation stays."""
    caps = Caps(usd_per_day=1.0, usd_per_ticket=1.0, provider_usd_per_day={"p": 1.0})
    budget = Budget(caps, books)
    reservation = await reserved(budget, 0.6)
    assert not await is_left(budget, 0.400001)
    reservation.settle(settled)
    reservation.settle(0.0)  # only the first time counts
    assert left == 0.0 or await is_left(budget, left)
    assert not await is_left(budget, left + 0.000001)


async def test_reservation_that_is_forgotten_counts_as_spent(books):
    """Whoever was cancelled or killed in between may have been served."""
    budget = Budget(Caps(usd_per_day=1.0), books)
    reservation = await reserved(budget, 0.6)
    del reservation
    assert not await is_left(budget, 0.5)


@pytest.mark.parametrize("told", [-5.0, -math.inf, math.nan, math.inf, 1e300])
async def test_no_number_of_a_provider_gives_money_away(books, told):
    """A server may report whatever usage it likes."""
    budget = Budget(Caps(usd_per_day=1.0), books)
    (await reserved(budget, 0.6)).settle(told)
    assert await is_left(budget, 1.0) == (told == -5.0)
    assert not await is_left(budget, 1.000001)


@pytest.mark.parametrize(
    "caps", [Caps(usd_per_day=1.0), Caps(usd_per_ticket=1.0), Caps(provider_usd_per_day={"p": 1.0})]
)
@pytest.mark.parametrize("usd", [None, math.nan, math.inf])
async def test_unknown_price_is_refused_where_a_budget_counts_it(books, caps, usd):
    """A budget that does not know cannot hold."""
    refused = await Budget(caps, books).reserve("p", "t", usd)
    assert refused is Refused.NO_PRICE
    assert refused.startswith("no price")


@pytest.mark.parametrize("caps", [Caps(), Caps(provider_usd_per_day={"q": 1.0})])
async def test_unknown_price_passes_where_no_budget_counts_it(books, caps):
    (await reserved(Budget(caps, books), None)).settle(None)


async def test_what_costs_nothing_always_passes(books):
    """The local engine answers when all the money is gone."""
    budget = Budget(Caps(usd_per_ticket=1.0), books)
    (await reserved(budget, 1.0)).settle(2.0)
    assert await budget.reserve("p", "t", 0.000001) is Refused.TICKET
    (await reserved(budget, 0.0)).settle(0.0)


async def test_cap_of_zero_lets_nothing_pass_that_costs(books):
    """Zero is a number, not "unset"."""
    budget = Budget(Caps(usd_per_day=0.0), books)
    assert await budget.reserve("p", "t", 0.000001) is Refused.DAY


async def test_every_day_has_its_own_budget(books, clock):
    """Days are those of UTC, whatever zone the clock speaks in."""
    budget = Budget(Caps(usd_per_day=1.0, usd_per_ticket=1.0), books)
    await reserved(budget, 1.0)
    clock.now = datetime(2026, 12, 1, 1, tzinfo=UTC).astimezone()
    assert await is_left(budget, 1.0)
    clock.now = datetime.fromisoformat("2026-12-01T01:00:00+02:00")  # still the day before
    assert not await is_left(budget, 0.1)


async def test_settlement_after_midnight_belongs_to_the_day_of_its_reservation(books, clock):
    budget = Budget(Caps(usd_per_day=1.0), books)
    reservation = await reserved(budget, 1.0)
    clock.now += DAY
    reservation.settle(0.25)
    assert await is_left(budget, 1.0)
    clock.now -= DAY
    assert await is_left(budget, 0.75)
    assert not await is_left(budget, 0.750001)


@KINDS
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 60), st.booleans())))
def test_clock_that_jumps_back_frees_no_money(kind, database, steps):
    """What was booked on a later day counts on an earlier one too: the past is never fresh."""
    clock = Clock()
    with closing(empty_books(kind, clock, database)) as books:
        budget = Budget(Caps(usd_per_day=100e-6), books)
        booked: list[tuple[int, int]] = []

        async def story() -> None:
            for day, micro_usd, is_settled in steps:
                clock.now = NOW + day * DAY
                used = sum(amount for at, amount in booked if at >= day)
                asked = await budget.reserve("p", "t", micro_usd / 1e6)
                assert isinstance(asked, Reservation) == (used + micro_usd <= 100)
                if isinstance(asked, Reservation):
                    if is_settled:
                        asked.settle(micro_usd // 2 / 1e6)
                    booked.append((day, micro_usd // 2 if is_settled else micro_usd))

        asyncio.run(story())


@given(micro_usd=st.integers(1, 10**7), times=st.integers(1, 20))
def test_cap_covers_as_many_calls_as_it_is_a_multiple_of_their_price(micro_usd, times):
    """Doubles such as 0.1 are taken for the numbers that people meant."""

    async def story() -> int:
        budget = Budget(Caps(usd_per_day=micro_usd * times / 1e6), MemoryBooks())
        asked = [await budget.reserve("p", "t", micro_usd / 1e6) for _ in range(times + 2)]
        return sum(isinstance(each, Reservation) for each in asked)

    assert asyncio.run(story()) == times


@given(usd=st.floats(1e-9, 1e-3), cap=st.integers(1, 2000))
def test_parts_of_a_micro_dollar_are_rounded_up(usd, cap):
    """Never in favour of spending more than there is."""

    async def story() -> int:
        budget = Budget(Caps(usd_per_day=cap / 1e6), MemoryBooks())
        asked = [await budget.reserve("p", "t", usd) for _ in range(30)]
        return sum(isinstance(each, Reservation) for each in asked)

    num_sent = asyncio.run(story())
    assert num_sent * usd * 1e6 <= cap * (1 + 1e-9) + 30e-3  # a thousandth is a double's dust
    assert num_sent == 30 or (num_sent + 1) * (usd * 1e6 + 1) > cap


async def test_tickets_of_long_ago_leave_the_memory(clock):
    """Of those who spent nothing new the sums are gone; a clock put back finds the newest days."""
    books = MemoryBooks(clock)
    budget = Budget(Caps(usd_per_ticket=1.0), books)
    for number in range(20):
        await reserved(budget, 1.0, ticket=f"{number}")
        clock.now += DAY
    assert sum(len(day) for day in books._by_day.values()) == 7
    clock.now = NOW - DAY
    assert not await is_left(budget, 0.1, ticket="19")
    await reserved(budget, 1.0, ticket="0")
    assert not await is_left(budget, 0.1, ticket="0")


REPLY = Reply(text="", finish_reason="stop", status=200)


@pytest.mark.parametrize(
    ("result", "cost", "spent"),
    [
        (REPLY, 0.02, 0.02),
        (REPLY, None, None),
        (Failure(kind=FailureKind.INVALID, detail="", status=200), 0.02, 0.02),
        (Failure(kind=FailureKind.INVALID, detail="", status=200), None, None),
        (Failure(kind=FailureKind.RATE_LIMIT, detail="", status=429), None, 0.0),
        (Failure(kind=FailureKind.QUOTA, detail="", status=402), None, 0.0),
        (Failure(kind=FailureKind.CREDENTIAL, detail="", status=401), None, 0.0),
        (Failure(kind=FailureKind.MODEL_GONE, detail="", status=404), None, 0.0),
        (Failure(kind=FailureKind.RATE_LIMIT, detail="", status=429), 0.01, 0.01),
        (Failure(kind=FailureKind.FILTERED, detail="", status=400), None, None),
        (Failure(kind=FailureKind.TRANSIENT, detail="", status=500), None, None),
        (Failure(kind=FailureKind.TRANSIENT, detail="", status=408), None, None),
        (Failure(kind=FailureKind.TRANSIENT, detail="no response: timeout"), None, None),
    ],
)
def test_cost_of_an_attempt(result, cost, spent):
    """Reported tokens decide; a refusal at the door is free; of all else the worst is assumed."""
    assert spent_usd(result, cost) == spent
