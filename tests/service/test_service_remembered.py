from __future__ import annotations

import threading

import pytest

from weighbridge.errors import QueueUnavailable
from weighbridge.service.remembered import Remembered


class Count:
    """A value that says how often it was made, and can be made to wait or fail."""

    def __init__(self) -> None:
        self.num, self.may_go, self.now_s = 0, threading.Event(), 0.0
        self.problem: Exception | None = None
        self.may_go.set()
        self.kept = Remembered(self.make, fresh_s=5, stale_s=60, clock=lambda: self.now_s)

    def make(self) -> int:
        assert self.may_go.wait(10)
        if self.problem:
            raise self.problem
        self.num += 1
        return self.num

    def settle(self) -> None:
        """Wait for a thread that makes it anew."""
        with self.kept._making:
            pass


@pytest.fixture
def count() -> Count:
    return Count()


def test_young_value_is_given_again(count):
    assert [count.kept.get() for _ in range(3)] == [1, 1, 1]
    count.now_s = 5
    assert count.kept.get() == 1
    assert count.num == 1


def test_aged_value_is_given_while_it_is_made_anew_once(count):
    """Nobody waits, and many who ask do not count many times."""
    count.kept.get()
    count.now_s = 6
    count.may_go.clear()
    assert [count.kept.get() for _ in range(5)] == [1] * 5
    count.may_go.set()
    count.settle()
    assert count.kept.get() == 2
    assert count.num == 2


def test_stale_value_is_waited_for(count):
    count.kept.get()
    count.now_s = 61
    assert count.kept.get() == 2


def test_failure_in_the_background_shows_once_the_value_is_stale(count, caplog):
    """Old numbers are better than none, for a while; the log knows."""
    count.kept.get()
    count.now_s, count.problem = 6, QueueUnavailable("sqlite://", "it is locked")
    assert count.kept.get() == 1
    count.settle()
    assert "it is locked" in caplog.text
    count.now_s = 61
    with pytest.raises(QueueUnavailable):
        count.kept.get()
    count.problem = None
    assert count.kept.get() == 2


def test_first_ask_of_many_threads_makes_it_once(count):
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(count.kept.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 8
