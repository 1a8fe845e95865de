"""SharedHealth: which providers are cooling down, as all processes know it.

The table tells times of the wall clock, for processes have no other in common; each process turns
them into its own monotonic time when it first sees them, and decides on that alone. So

- a wall clock that jumps afterwards changes nothing;
- one that has jumped back since the row was written, or is behind the writer's, makes a process
  wait the cooldown's own length at most, from when it first sees it; it dates the row anew, so that
  processes to come do not each wait that long;
- one that has jumped ahead frees a provider by as much too early, at most.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import Connection, delete, insert, select

from weighbridge.decision import FailureKind
from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database
from weighbridge.store.dialect import lock
from weighbridge.store.exchanger import Exchanger
from weighbridge.store.tables import cooldown_table
from weighbridge.store.times import microseconds, moment

BUSY_S: Final = 1.0  # between two looks at the database while somebody is cooling
QUIET_S: Final = 5.0  # otherwise
FORGOTTEN_AFTER_S: Final = 3600.0  # past a cooldown that no answer has ended
_AHEAD_US: Final = 1_000_000  # by which the clocks of two machines may differ unnoticed

# Why a provider is left alone, as the table has it: the failure, and whether the provider asked.
_WORDS: Final[Mapping[tuple[FailureKind, bool], str]] = {
    **{(kind, False): kind.value for kind in FailureKind},
    **{(kind, True): f"{kind.value}:asked" for kind in FailureKind},
}
_CAUSES: Final = {word: cause for cause, word in _WORDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """A provider that is left alone.

    Args:
        identity: of the provider; without secrets.
        kind: of the failure that it follows.
        is_asked: the provider itself named the time.
        began: about when.
        left_s: until it may be asked again, above 0.
    """

    identity: str
    kind: FailureKind
    is_asked: bool
    began: datetime
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The longest cooldown of a provider, in monotonic seconds of this process; see `Cooldown`.

    One that is over is known until somebody has been answered: one ticket should try it first.
    """

    kind: FailureKind
    is_asked: bool
    began: float
    until: float


class SharedHealth:
    """Told by the router, asked by the router; answers from memory.

    A thread of its own talks to the database, so neither a lock nor a slow disk holds a ticket up.
    What other processes found out is seen within `QUIET_S`, what ends sooner within `BUSY_S`, both
    counted from when somebody asks. What cannot be written is kept in memory and tried again; the
    log says so once.

    Args:
        database: must not be closed before this, which leaves it open.
        clock: the time, with a time zone.
        monotonic: seconds; the router's own clock.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._clock, self._monotonic = database, clock, monotonic
        self._known: dict[_Key, _Span] = {}
        self._unsaved: dict[_Key, _Span] = {}
        self._answered: dict[str, float] = {}  # when the latest answer was asked for, by identity
        self._stored: _Rows = {}
        self._asked_at = monotonic()
        self._lock = threading.Lock()
        self._exchanger = Exchanger(self._exchange, self._lock, "cooldowns")
        self._exchange()

    def told(
        self,
        identity: str,
        wait_s: float,
        kind: FailureKind = FailureKind.TRANSIENT,
        *,
        is_asked: bool = False,
    ) -> None:
        """A provider is left alone for some time; a longer cooldown is never cut short."""
        key = _Key(identity, _WORDS[kind, is_asked])
        with self._lock:
            now = self._monotonic()
            new = _Span(now, now + wait_s)
            self._unsaved[key] = _both(self._unsaved.get(key), new)
            self._known[key] = _both(self._known.get(key), new)
            self._ask_for_exchange(now)

    def recovered(self, identity: str, asked_at: float) -> None:
        """It has answered: all that began before the answer was asked for is over, of any kind.

        Args:
            identity: of the provider.
            asked_at: when the answer was asked for, on the monotonic clock.
        """
        with self._lock:
            if asked_at <= self._answered.get(identity, -math.inf):
                return
            # Kept, for it also ends what others have found out and this process does not know yet.
            self._answered[identity] = asked_at
            before = self._known
            self._known = _unanswered(before, self._answered)
            self._unsaved = _unanswered(self._unsaved, self._answered)
            if len(self._known) < len(before):
                self._ask_for_exchange(self._monotonic())

    def known(self) -> Mapping[str, Known]:
        """What any process knows, this one included, by identity."""
        longest: dict[str, Known] = {}
        with self._lock:
            now = self._monotonic()
            for key, span in self._known.items():
                before = longest.get(key.identity)
                if before is None or span.over > before.until:
                    kind, is_asked = _CAUSES[key.word]
                    longest[key.identity] = Known(
                        kind=kind, is_asked=is_asked, began=span.began, until=span.over
                    )
            pause_s = BUSY_S if any(each.until > now for each in longest.values()) else QUIET_S
            if now - self._asked_at >= pause_s:
                self._ask_for_exchange(now)
        return longest

    def entries(self) -> list[Cooldown]:
        """Who is left alone now and why, by identity and kind; one identity can have both."""
        with self._lock:
            now = self._now()
            known = sorted(self._known.items())
        return [
            Cooldown(
                identity=key.identity,
                kind=_CAUSES[key.word][0],
                is_asked=_CAUSES[key.word][1],
                began=moment(now.wall - _us(now.mono - span.began)),
                left_s=span.over - now.mono,
            )
            for key, span in known
            if span.over > now.mono
        ]

    def close(self) -> None:
        """Wait until everything is written, or cannot be; harmless when repeated."""
        self._exchanger.close()

    def _ask_for_exchange(self, now: float) -> None:
        self._asked_at = now
        self._exchanger.ask()

    def _exchange(self) -> None:
        """Write what is news, and read what everybody knows."""
        with self._lock:
            self._exchanger.begun()
            unsaved, answered = dict(self._unsaved), dict(self._answered)
            before, now = self._stored, self._now()
        stored, is_saved = before, False
        try:
            with self._database.reading() as connection:
                stored = _read(connection, before, now)
            if _settled(stored, unsaved, answered, now).keys() != stored.keys():
                with self._database.writing() as connection:
                    lock(connection, cooldown_table)
                    found = _read(connection, before, now)
                    wanted = _settled(found, unsaved, answered, now)
                    _write(connection, found, wanted)
                stored, is_saved = wanted, True
        except QueueUnavailable as error:
            self._exchanger.failed(error)
        with self._lock:
            if is_saved:
                for key, span in unsaved.items():
                    if self._unsaved.get(key) is span:
                        del self._unsaved[key]
            self._stored = stored
            settled = _settled(stored, self._unsaved, self._answered, now)
            self._known = {row.key: span for row, span in settled.items()}

    def _now(self) -> _Now:
        return _Now(microseconds(self._clock()), self._monotonic())


class _Key(NamedTuple):
    identity: str
    word: str


class _Span(NamedTuple):
    """In monotonic seconds of this process."""

    began: float
    over: float


class _Row(NamedTuple):
    """In microseconds of the wall clock of whoever wrote it.

    The mark stays where a cooldown is only dated anew: who has seen it goes by what it saw first.
    """

    identity: str
    kind: str
    began_at: int
    over_at: int
    mark: str

    @property
    def key(self) -> _Key:
        return _Key(self.identity, self.kind)


class _Now(NamedTuple):
    wall: int
    mono: float


_Rows: TypeAlias = dict[_Row, _Span]
_K = TypeVar("_K", _Key, _Row)


def _settled(
    stored: _Rows, news: Mapping[_Key, _Span], answered: Mapping[str, float], now: _Now
) -> _Rows:
    """What the table should hold; the rows of `stored` where nothing has changed."""
    news = dict(news)
    settled: _Rows = {}
    for row, span in _unanswered(stored, answered).items():
        if span.over + FORGOTTEN_AFTER_S <= now.mono:
            continue
        if row.key in news:
            news[row.key] = _both(span, news[row.key])
            continue
        if row.began_at > now.wall + _AHEAD_US:
            row = _row(row.key, span, now, row.mark)
        settled[row] = span
    return settled | {_row(key, span, now, token_hex(8)): span for key, span in news.items()}


def _unanswered(spans: Mapping[_K, _Span], answered: Mapping[str, float]) -> dict[_K, _Span]:
    """Without what has ended: no answer was asked for since it began."""
    return {
        key: span
        for key, span in spans.items()
        if span.began >= answered.get(key.identity, -math.inf)
    }


def _both(one: _Span | None, other: _Span) -> _Span:
    return other if one is None else _Span(max(one.began, other.began), max(one.over, other.over))


def _span(row: _Row, now: _Now) -> _Span:
    """A row that is seen for the first time; how far to trust it says the top of this file."""
    age_us = max(0, now.wall - row.began_at)
    left_us = min(row.over_at - now.wall, row.over_at - row.began_at)
    return _Span(now.mono - age_us / 1e6, now.mono + left_us / 1e6)


def _row(key: _Key, span: _Span, now: _Now, mark: str) -> _Row:
    began_at, over_at = (now.wall + _us(time - now.mono) for time in span)
    return _Row(*key, began_at, over_at, mark)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _read(connection: Connection, before: _Rows, now: _Now) -> _Rows:
    table = cooldown_table
    columns = [table.c[name] for name in _Row._fields]
    rows = (_Row(*row) for row in connection.execute(select(*columns)))
    spans = {row.mark: span for row, span in before.items()}
    # Words that another version brought are not known here.
    return {row: spans.get(row.mark) or _span(row, now) for row in rows if row.kind in _CAUSES}


def _write(connection: Connection, stored: _Rows, wanted: _Rows) -> None:
    table = cooldown_table
    for row in stored.keys() - wanted.keys():
        same = (table.c.identity == row.identity) & (table.c.kind == row.kind)
        connection.execute(delete(table).where(same))
    if new := [row._asdict() for row in wanted.keys() - stored.keys()]:
        connection.execute(insert(table), new)
