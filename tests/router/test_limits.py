"""What a provider's limits let through, and when."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.router.limits import WINDOW_S, Limiter, Limits, _Waiter

START, FAR = 1000.0, 1e9


class Timeline:
    """A clock that sleepers share: it moves to whoever wakes next, once all are asleep."""

    def __init__(self) -> None:
        self.now = START
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.now + seconds, woken))
        await woken

    async def run(self, until: float = FAR) -> None:
        """Let time pass until nobody sleeps, or that moment has come."""
        while True:
            for _ in range(10):
                await asyncio.sleep(0)
            self.sleepers = [each for each in self.sleepers if not each[1].done()]
            if not self.sleepers or min(self.sleepers, key=lambda each: each[0])[0] > until:
                return
            first = min(self.sleepers, key=lambda each: each[0])
            self.now = max(self.now, first[0])
            first[1].set_result(None)


def limiter(timeline: Timeline, **limits: int) -> Limiter:
    return Limiter(Limits(**limits), clock=timeline, sleep=timeline.sleep)


async def begun(limits: Limiter, clock: Timeline, *, tokens: int = 1, until: float = FAR):
    """When a request began, or None; its seat is free again at once."""
    async with limits.acquire(tokens=tokens, until=until) as place:
        return None if place is None else clock()


def most_within(starts: list[tuple[float, int]], window_s: float) -> int:
    """The most that any window of that length holds: one of them ends with a start."""
    return max(
        (sum(amount for at, amount in starts if end - window_s < at <= end) for end, _ in starts),
        default=0,
    )


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "max_concurrency"])
@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_is_refused(name, limit):
    """0 would mean "never", or "not set", according to who reads it."""
    assert getattr(Limits(**{name: 1}), name) == 1
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        Limits(**{name: limit})


async def test_without_limits_nothing_waits():
    timeline = Timeline()
    free = limiter(timeline)
    assert [await begun(free, timeline, tokens=10**9) for _ in range(100)] == [START] * 100


@given(
    requests=st.integers(1, 6),
    tokens=st.integers(20, 200),
    arrivals=st.lists(st.tuples(st.floats(0, 40), st.integers(0, 60)), min_size=1, max_size=40),
)
def test_no_minute_sees_more_than_the_limits(requests, tokens, arrivals):
    """Nor any other span of that length, wherever it begins; and whoever may wait gets through."""

    async def story() -> None:
        timeline = Timeline()
        limits = limiter(timeline, requests_per_minute=requests, tokens_per_minute=tokens)

        async def one(gap_s: float, size: int) -> tuple[float | None, int]:
            await timeline.sleep(gap_s)
            return await begun(limits, timeline, tokens=size), size

        running = [asyncio.ensure_future(one(*each)) for each in arrivals]
        await timeline.run()
        ended = [task.result() for task in running]
        assert [size for at, size in ended if at is None] == [
            size for _, size in arrivals if size > tokens
        ]
        starts = [(at, size) for at, size in ended if at is not None]
        assert most_within([(at, 1) for at, _ in starts], 60.0) <= requests
        assert most_within(starts, 60.0) <= tokens

    asyncio.run(story())


async def test_room_that_is_there_is_used_up():
    """The limit is reached, not only kept."""
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=5)
    running = [asyncio.ensure_future(begun(limits, timeline)) for _ in range(12)]
    await timeline.run()
    at = Counter(int((task.result() - START) // WINDOW_S) for task in running)
    assert at == {0: 5, 1: 5, 2: 2}


async def test_wait_that_cannot_fit_is_never_begun():
    """Of many who want the same room, those for whom there is none in time learn so at once."""
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=2)
    running = [
        asyncio.ensure_future(begun(limits, timeline, until=START + WINDOW_S + 1)) for _ in range(7)
    ]
    await timeline.run(until=START)
    assert [task.result() for task in running if task.done()] == [START, START, None, None, None]
    assert len(timeline.sleepers) == 2
    await timeline.run()
    assert timeline.now == pytest.approx(START + WINDOW_S, abs=0.01)


async def test_time_that_is_up_lets_nothing_begin():
    timeline = Timeline()
    for limits in (limiter(timeline, requests_per_minute=5), limiter(timeline, max_concurrency=5)):
        assert await begun(limits, timeline, until=START) is None
        assert await begun(limits, timeline, until=START + 0.001) == START


async def test_request_larger_than_the_limit_never_begins():
    """It takes no room from the others, neither of requests nor of tokens."""
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=1, tokens_per_minute=100)
    assert await begun(limits, timeline, tokens=101) is None
    assert await begun(limits, timeline, tokens=100) == START


@given(limit=st.integers(1, 300_000), tokens=st.integers(0, 600_000))
def test_what_is_too_large_at_all_is_known_beforehand(limit, tokens):
    """Exactly those that no minute would ever have room for."""

    async def story() -> None:
        timeline = Timeline()
        limits = limiter(timeline, tokens_per_minute=limit)
        assert limits.most_tokens is not None
        assert limits.most_tokens <= limit
        can_begin = await begun(limits, timeline, tokens=tokens) is not None
        assert can_begin is (tokens <= limits.most_tokens)

    asyncio.run(story())


async def test_place_that_is_given_back_is_there_for_the_next():
    """Of both kinds of limits; giving it back twice frees no more."""
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=1, tokens_per_minute=10)
    async with limits.acquire(tokens=10, until=FAR) as place:
        assert place is not None
        place.give_back()
        place.give_back()
    assert await begun(limits, timeline, tokens=10, until=START + 1) == START
    assert await begun(limits, timeline, tokens=10, until=START + 1) is None


@pytest.mark.parametrize("limit", [10_000, 2_000_000, 123_456_789])
async def test_large_token_limits_are_counted_in_coarser_units(limit):
    """Rounded up, so that they are kept; and to within a hundredth, so that they are used."""
    timeline = Timeline()
    limits = limiter(timeline, tokens_per_minute=limit)
    tokens = limit // 500 - 1
    ended = [await begun(limits, timeline, tokens=tokens, until=START + 1) for _ in range(520)]
    num_begun = sum(at is not None for at in ended)
    assert 0.95 * limit <= num_begun * tokens <= limit
    assert limits._minutes._tokens is not None
    assert len(limits._minutes._tokens.items) <= 20_000


@pytest.mark.parametrize("tokens", [10, 0])
async def test_small_request_does_not_overtake_a_large_one(tokens):
    """Where one may, others will: the large one would never begin."""
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=10, tokens_per_minute=100)
    assert await begun(limits, timeline, tokens=60) == START
    large = asyncio.ensure_future(begun(limits, timeline, tokens=60))
    await timeline.run(until=START)
    assert await begun(limits, timeline, tokens=tokens, until=START + 30) is None
    small = asyncio.ensure_future(begun(limits, timeline, tokens=tokens))
    await timeline.run()
    assert large.result() == small.result() == pytest.approx(START + WINDOW_S, abs=0.01)


async def test_cancelled_wait_leaves_its_place_to_others():
    """No place is lost: who comes next gets what the cancelled one would have had."""
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=1, tokens_per_minute=10)
    assert await begun(limits, timeline) == START
    waiting = asyncio.ensure_future(begun(limits, timeline, tokens=10))
    await timeline.run(until=START)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    other = asyncio.ensure_future(begun(limits, timeline, tokens=10, until=START + WINDOW_S + 1))
    await timeline.run()
    assert other.result() == pytest.approx(START + WINDOW_S, abs=0.01)


async def test_wait_that_is_cancelled_long_after_its_time_is_just_cancelled():
    """A machine that was asleep: by then the minute has forgotten that place."""
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=1)
    await begun(limits, timeline)
    waiting = asyncio.ensure_future(begun(limits, timeline))
    await timeline.run(until=START)
    timeline.now += 10 * WINDOW_S
    assert await begun(limits, timeline) == timeline.now
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_waiting_is_reported():
    timeline = Timeline()
    limits = limiter(timeline, requests_per_minute=1)
    await begun(limits, timeline)

    async def waits() -> float:
        async with limits.acquire(tokens=1, until=FAR) as place:
            assert place is not None
            return place.waited_s

    waiting = asyncio.ensure_future(waits())
    await timeline.run()
    assert waiting.result() == pytest.approx(WINDOW_S, abs=0.01)


async def test_seats_are_taken_in_the_order_of_asking():
    """Never more at once than there are; whoever came first is served first."""
    timeline = Timeline()
    limits = limiter(timeline, max_concurrency=2)
    served: list[int] = []

    async def one(number: int) -> None:
        async with limits.acquire(tokens=1, until=FAR) as place:
            assert place is not None
            served.append(number)
            await timeline.sleep(1.0)

    running = [asyncio.ensure_future(one(number)) for number in range(6)]
    await timeline.run(until=START + 1.5)
    assert served == [0, 1, 2, 3]
    await timeline.run(until=START + 3.5)
    assert served == [*range(6)]
    assert all(task.done() for task in running)
    for _, sleeper in timeline.sleepers:
        sleeper.cancel()


async def test_wait_for_a_seat_ends_with_the_time():
    """And leaves the line: the seat goes to those who still want it."""
    timeline = Timeline()
    limits = limiter(timeline, max_concurrency=1)
    async with limits.acquire(tokens=1, until=FAR):
        late = asyncio.ensure_future(begun(limits, timeline, until=START + 5))
        await timeline.run(until=START + 6)
        assert late.result() is None
    assert await begun(limits, timeline) == timeline.now


@pytest.mark.parametrize("when", ["in line", "just called"])
async def test_cancelling_a_wait_for_a_seat_loses_no_seat(when):
    """Not even in the moment between the call and its being heard."""
    timeline = Timeline()
    limits = limiter(timeline, max_concurrency=1)
    async with limits.acquire(tokens=1, until=FAR):
        waiting = asyncio.ensure_future(begun(limits, timeline))
        await timeline.run(until=START)
        if when == "in line":
            waiting.cancel()
    if when == "just called":
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await begun(limits, timeline, until=START + 1) == START


async def test_seat_is_given_back_whatever_ends_the_request():
    timeline = Timeline()
    limits = limiter(timeline, max_concurrency=1)
    with pytest.raises(ZeroDivisionError):
        async with limits.acquire(tokens=1, until=FAR):
            raise ZeroDivisionError
    assert await begun(limits, timeline, until=START + 1) == START


async def test_seat_of_a_request_that_the_minute_holds_back_is_given_back():
    """Who has a seat and then finds no room in time keeps it from nobody."""
    timeline = Timeline()
    limits = limiter(timeline, max_concurrency=1, requests_per_minute=2)
    async with limits.acquire(tokens=1, until=FAR):
        waiting = asyncio.ensure_future(begun(limits, timeline, until=START + 50))
        await timeline.run(until=START)
        limits._minutes.book(1, START, FAR)  # whose room it was counting on
    await timeline.run(until=START)
    assert waiting.result() is None
    later = asyncio.ensure_future(begun(limits, timeline))
    await timeline.run()
    assert later.result() == pytest.approx(START + WINDOW_S, abs=0.01)


def test_one_limiter_serves_event_loops_on_several_threads():
    """A router has one for its synchronous callers, and one for each of the others'."""
    limits = Limiter(
        Limits(max_concurrency=3), clock=lambda: 0.0, sleep=lambda _: asyncio.sleep(60)
    )
    lock, under_way, most, done = threading.Lock(), 0, 0, 0

    async def one() -> None:
        nonlocal under_way, most, done
        async with limits.acquire(tokens=1, until=FAR) as place:
            assert place is not None
            with lock:
                under_way += 1
                most = max(most, under_way)
            await asyncio.sleep(0.0005)
            with lock:
                under_way -= 1
                done += 1

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(40)))

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (done, most, under_way) == (160, 3, 0)


async def test_seat_is_not_handed_to_an_event_loop_that_is_gone():
    """Whoever waited there waits no more; the next one in the line gets it."""
    timeline = Timeline()
    limits = limiter(timeline, max_concurrency=1)
    gone = asyncio.new_event_loop()
    async with limits.acquire(tokens=1, until=FAR):
        assert limits._seats is not None
        limits._seats._line.append(_Waiter(gone.create_future()))
        waiting = asyncio.ensure_future(begun(limits, timeline))
        await timeline.run(until=START)
        gone.close()
    await timeline.run(until=START)
    assert waiting.result() == START
    assert await begun(limits, timeline, until=START + 1) == START
