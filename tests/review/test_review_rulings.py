"""What the gate goes by: in force, alarmed, expired, taken back; in several processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from audited import stock
from labelled import KEY

from weighbridge.decision import Ruling
from weighbridge.errors import QueueUnavailable
from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.kept import Kept
from weighbridge.review.proving.looks import Wanted
from weighbridge.review.proving.rulings import PAUSE_S, Rulings
from weighbridge.store.database import Database


class Clocks:
    """The time of day and the time since the start, moved by a test."""

    def __init__(self) -> None:
        self.wall, self.mono = datetime.now(UTC) + timedelta(minutes=1), 0.0

    def rulings(self, database: Database) -> Rulings:
        return Rulings(database, lambda: self.wall, monotonic=lambda: self.mono)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def rulings(database, clocks) -> Iterator[Rulings]:
    with closing(clocks.rulings(database)) as rulings:
        yield rulings


def certified(database: Database, **wanted: object) -> Kept:
    stock(database, KEY, [(0.97, True)] * 300)
    found = Guarantees(database, audit_rate=0.1).certify(KEY, Wanted(**{"risk": 0.02, **wanted}))
    assert isinstance(found.result, Kept)
    return found.result


def errors(number: int, confidence: float = 0.97) -> list[tuple[float, bool]]:
    return [(confidence, False)] * number


def test_nothing_is_said_of_a_key_without_labels(rulings):
    assert rulings.ruling(KEY) == Ruling()


def test_certificate_is_in_force_for_its_own_key(database, rulings):
    kept = certified(database)
    rulings.refresh()
    assert rulings.ruling(KEY) == Ruling(guarantee=kept.guarantee)
    assert rulings.ruling(replace(KEY, model="m-2")) == Ruling()


def test_other_processes_see_it_within_seconds(database, clocks, rulings):
    """A ticket asks for nothing but what is in memory; a thread looks when the time has come."""
    kept = certified(database)
    assert rulings.ruling(KEY) == Ruling()
    clocks.mono += PAUSE_S
    rulings.ruling(KEY)
    rulings.close()  # waits for the look
    assert rulings.ruling(KEY).guarantee == kept.guarantee


def test_certificate_ends_when_it_says_though_nobody_looks_again(database, clocks, rulings):
    kept = certified(database)
    rulings.refresh()
    clocks.wall = kept.proof.expires_at - timedelta(microseconds=1)
    assert rulings.ruling(KEY).guarantee is not None
    clocks.wall = kept.proof.expires_at
    assert rulings.ruling(KEY) == Ruling()


def test_clock_that_jumps_back_revives_nothing(database, clocks, rulings):
    """Time stands still until the clock has caught up."""
    kept = certified(database)
    rulings.refresh()
    clocks.wall = kept.proof.expires_at
    assert rulings.ruling(KEY) == Ruling()
    clocks.wall = kept.made_at
    assert rulings.ruling(KEY) == Ruling()


def test_clock_before_the_making_knows_no_certificate(database, clocks):
    """It is wrong, and nobody knows by how much."""
    kept = certified(database)
    clocks.wall = kept.made_at - timedelta(days=365)
    with closing(clocks.rulings(database)) as rulings:
        assert rulings.ruling(KEY) == Ruling()


def test_audits_that_got_worse_raise_an_alarm_that_everybody_sees(database, clocks, rulings):
    """Right answers afterwards do not end it, nor does a certificate's end, nor a person."""
    kept = certified(database)
    stock(database, KEY, errors(2))
    rulings.refresh()
    assert not rulings.ruling(KEY).is_alarmed
    stock(database, KEY, errors(1))  # 3 x 3 x 3 > 1/0.05
    rulings.refresh()
    assert rulings.ruling(KEY) == Ruling(is_alarmed=True)
    stock(database, KEY, [(0.97, True)] * 100)
    Guarantees(database, audit_rate=0.1).revoke(kept.guarantee.certificate)
    rulings.refresh()
    clocks.wall = kept.proof.expires_at
    with closing(clocks.rulings(database)) as other:
        for seen in (rulings, other):
            assert seen.ruling(KEY) == Ruling(is_alarmed=True)
    (stored,) = Guarantees(database, audit_rate=0.1).certificates().values()
    assert stored.alarm_position == 303


def test_alarm_ends_with_a_certificate_of_later_labels(database, rulings):
    certified(database)
    stock(database, KEY, errors(3))
    rulings.refresh()
    assert rulings.ruling(KEY).is_alarmed
    new = certified(database)
    rulings.refresh()
    assert rulings.ruling(KEY).guarantee == new.guarantee
    assert new.proof.num_labels == 300


def test_errors_below_the_threshold_raise_no_alarm(database, rulings):
    """A person sees those answers anyway."""
    kept = certified(database)
    assert kept.proof.threshold == 0.5
    stock(database, KEY, errors(50, confidence=0.4))
    rulings.refresh()
    assert rulings.ruling(KEY).guarantee == kept.guarantee


def test_errors_before_the_certificate_are_not_counted_again(database, rulings):
    stock(database, KEY, errors(2))
    stock(database, KEY, [(0.97, True)] * 200)
    kept = certified(database)
    stock(database, KEY, errors(2))
    rulings.refresh()
    assert rulings.ruling(KEY).guarantee == kept.guarantee


def test_certificate_that_is_taken_back_leaves_the_gates_own_rules(database, rulings):
    kept = certified(database)
    rulings.refresh()
    Guarantees(database, audit_rate=0.1).revoke(kept.guarantee.certificate)
    rulings.refresh()
    assert rulings.ruling(KEY) == Ruling()


def test_calibrator_tells_how_likely_an_answer_is_right(database, rulings):
    stock(database, KEY, [(0.9, True), (0.9, False), (0.6, False)] * 40)
    Guarantees(database, audit_rate=0.1).fit_calibrators()
    rulings.refresh()
    ruling = rulings.ruling(KEY)
    assert ruling.guarantee is None
    assert ruling.probability is not None
    assert ruling.probability(0.9) == pytest.approx(0.5, abs=0.05)


def test_version_changes_with_every_ruling_and_with_nothing_else(database, clocks, rulings):
    """A decision that is kept is good only while what accepted it is."""
    seen = [rulings.version]
    kept = certified(database)
    rulings.refresh()
    seen.append(rulings.version)
    stock(database, KEY, [(0.97, True)])
    rulings.refresh()
    assert rulings.version == seen[-1]
    with closing(clocks.rulings(database)) as other:
        assert other.version == rulings.version
    clocks.wall = kept.proof.expires_at
    seen.append(rulings.version)
    Guarantees(database, audit_rate=0.1).revoke(kept.guarantee.certificate)
    rulings.refresh()
    seen.append(rulings.version)
    assert len(set(seen)) == len(seen)


@pytest.fixture
def breakable(tmp_path) -> Iterator[tuple[Database, Path]]:
    """A database in a file, and the file."""
    path = tmp_path / "queue.db"
    with closing(Database(f"sqlite:///{path}")) as database:
        yield database, path


def ruin(database: Database, path: Path) -> None:
    database.close()
    path.write_bytes(b"no database" * 1000)


def test_database_that_cannot_be_read_at_first_is_an_error(breakable):
    """An alarm might be in it."""
    ruin(*breakable)
    with pytest.raises(QueueUnavailable):
        Rulings(breakable[0])


def test_database_that_goes_away_later_leaves_what_is_known(breakable, clocks, caplog):
    kept = certified(breakable[0])
    with closing(clocks.rulings(breakable[0])) as rulings:
        ruin(*breakable)
        clocks.mono += PAUSE_S
        assert rulings.ruling(KEY).guarantee == kept.guarantee
        rulings.close()
        assert rulings.ruling(KEY).guarantee == kept.guarantee
        clocks.wall = kept.proof.expires_at
        assert rulings.ruling(KEY) == Ruling()
    assert "certificates are kept in memory for now" in caplog.text


CERTIFIES = """
import sys
from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.looking import Wanted
from weighbridge.store.database import Database

guarantees = Guarantees(Database(sys.argv[1]), audit_rate=0.1)
(key,) = guarantees.keys()
print(guarantees.certify(key, Wanted(risk=0.02)).result.id)
"""


def test_what_another_process_certifies_is_in_force_here_soon(breakable):
    """And what this one finds out, the other would."""
    database, path = breakable
    stock(database, KEY, [(0.97, True)] * 300)
    with closing(Rulings(database)) as rulings:
        done = subprocess.run(
            [sys.executable, "-c", CERTIFIES, f"sqlite:///{path}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        end = time.monotonic() + 30
        while (known := rulings.ruling(KEY).guarantee) is None:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert known.certificate == done.stdout.strip()
    assert known == Guarantees(database, audit_rate=0.1).certificates()[KEY].guarantee
