from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import PersonRefused
from weighbridge.store.credentials import Credentials, credential_id
from weighbridge.store.login_throttle import LoginThrottle, wait_s
from weighbridge.store.people import People
from weighbridge.store.people_tables import credential_table, login_failure_table
from weighbridge.store.roles import Role


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def database(any_database):
    return any_database


@pytest.fixture
def people(database, clock):
    return People(database, clock=clock)


@pytest.fixture
def credentials(database, clock, people):
    people.add("ada", Role.REVIEWER)
    return Credentials(database, clock=clock)


@pytest.fixture
def throttle(database, clock):
    return LoginThrottle(database, clock=clock)


def test_name_may_be_a_login_or_an_address(people):
    """What a person calls themselves elsewhere is a name here."""
    for name in ("ada", "ada.lovelace@example.com", "Åsa-1", "x" * 64):
        assert people.add(name, Role.VIEWER) == people.get(name)


def test_name_that_could_be_mistaken_is_refused(people):
    """Names stand in logs, exports and pages."""
    for name in ("", "x" * 65, "a b", "<b>", "a\n", "a\0", "\u202eada", "a'b", "../a", "a/b"):
        with pytest.raises(PersonRefused):
            people.add(name, Role.VIEWER)
    assert people.everybody() == []


def test_name_is_given_once(people):
    """A second person of one name would share the first one's verdicts."""
    people.add("ada", Role.VIEWER, password_hash="x")
    with pytest.raises(PersonRefused, match="already"):
        people.add("ada", Role.ADMIN)
    assert [(p.name, p.role) for p in people.everybody()] == [("ada", Role.VIEWER)]


def test_disabled_person_has_no_password_until_let_in_again(people):
    """Whatever is checked, they stay out; what they were stays."""
    people.add("ada", Role.ADMIN, password_hash="x")
    people.set_disabled("ada", is_disabled=True)
    assert people.password_hash("ada") is None
    people.set_disabled("ada", is_disabled=False)
    assert people.password_hash("ada") == "x"


def test_changes_are_of_one_person_alone(people):
    people.add("ada", Role.VIEWER)
    bob = people.add("bob", Role.VIEWER)
    changed = people.set_role("ada", Role.ADMIN)
    people.set_settings("ada", {"keys": {"skip": "x"}})
    assert changed.role is Role.ADMIN
    assert people.get("ada").settings == {"keys": {"skip": "x"}}
    assert people.get("bob") == bob
    with pytest.raises(PersonRefused, match="nobody"):
        people.set_role("eve", Role.ADMIN)


def test_secret_lets_in_until_it_expires(credentials, clock):
    """To the microsecond, by the injected clock."""
    secret = credentials.issue("session", "ada", scope=Role.VIEWER, lifetime_s=60)
    found = credentials.find("session", secret)
    assert (found.person, found.scope) == ("ada", Role.VIEWER)
    clock.now_s += 59.999
    assert credentials.find("session", secret) == found
    clock.now_s += 0.001
    assert credentials.find("session", secret) is None


def test_secret_of_one_kind_is_none_of_another(credentials):
    """A link that leaked into a log is no API token."""
    secret = credentials.issue("link", "ada", scope=Role.ADMIN, lifetime_s=60)
    assert credentials.find("session", secret) is None
    assert credentials.find("token", secret) is None
    assert credentials.use_up("session", secret) is None
    assert credentials.find("link", secret) is not None


def test_what_is_used_up_is_gone(credentials):
    secret = credentials.issue("link", "ada", scope=Role.ADMIN, lifetime_s=60)
    assert credentials.use_up("link", secret).person == "ada"
    assert credentials.use_up("link", secret) is None


def test_nothing_lets_a_disabled_person_in(credentials, people):
    secrets = {
        kind: credentials.issue(kind, "ada", scope=Role.ADMIN, lifetime_s=60)
        for kind in ("session", "token", "link")
    }
    people.set_disabled("ada", is_disabled=True)
    assert [credentials.find(kind, secret) for kind, secret in secrets.items()] == [None] * 3
    assert credentials.use_up("link", secrets["link"]) is None
    with pytest.raises(PersonRefused):
        credentials.issue("session", "ada", scope=Role.ADMIN, lifetime_s=60)


def test_revoking_ends_one_or_all(credentials):
    one, two = (credentials.issue("token", "ada", scope=Role.ADMIN, lifetime_s=60) for _ in "ab")
    assert credentials.revoke(credential_id(one))
    assert not credentials.revoke(credential_id(one))
    assert credentials.find("token", one) is None
    assert credentials.find("token", two) is not None
    assert credentials.revoke_all("ada") == 1
    assert credentials.all_of("token") == []


def test_no_secret_is_stored(credentials, database):
    """A stolen database opens no door."""
    secret = credentials.issue("token", "ada", scope=Role.ADMIN, lifetime_s=60, label="ci")
    with database.reading() as connection:
        dump = str(connection.execute(credential_table.select()).all())
    assert "'ci'" in dump
    assert secret not in dump


def test_guesses_wait_longer_each_time_and_nobody_waits_for_ever(throttle, clock):
    """Five are free; then 2 s, 4 s, ... and never more than a quarter of an hour."""
    waits = []
    for _ in range(20):
        wait = throttle.admit("ada", "10.0.0.1")
        waits.append(wait)
        clock.now_s += wait
        assert wait == 0 or throttle.admit("ada", "10.0.0.1") == 0
    assert waits[:5] == [0.0] * 5
    assert waits[5:15] == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 900.0]
    assert max(waits) == 900.0


def test_told_wait_is_true(throttle, clock):
    """A moment before it is over the answer is still no, and asking has not prolonged it."""
    for _ in range(5):
        throttle.admit("ada", "10.0.0.1")
    wait = throttle.admit("ada", "10.0.0.1")
    clock.now_s += wait - 0.5
    assert throttle.admit("ada", "10.0.0.1") == pytest.approx(0.5)
    clock.now_s += 0.5
    assert throttle.admit("ada", "10.0.0.1") == 0


def test_failures_of_one_address_do_not_lock_a_name_out_elsewhere(throttle):
    """Else anybody could keep anybody from working."""
    while throttle.admit("ada", "10.0.0.1") == 0:
        pass
    assert throttle.admit("ada", "10.0.0.2") == 0


def test_one_address_cannot_try_many_names(throttle):
    """Twenty failures are free for an address, whatever the names."""
    admitted = [throttle.admit(f"person-{n}", "10.0.0.1") == 0 for n in range(30)]
    assert admitted == [True] * 20 + [False] * 10


def test_many_addresses_cannot_try_one_name_for_ever(throttle):
    admitted = [throttle.admit("ada", f"10.0.{n}.1") == 0 for n in range(110)]
    assert admitted == [True] * 100 + [False] * 10


def test_addresses_of_one_customer_count_as_one(throttle):
    """Who has an address of IPv6 has a /64 of them."""
    for n in range(20):
        throttle.admit(f"person-{n}", "2001:db8::1")
        throttle.admit(f"person-{n}", "::ffff:10.0.0.1")
    waits = {
        address: throttle.admit("ada", address) > 0
        for address in ("2001:db8::ffff", "2001:db8:0:1::1", "10.0.0.1", "10.0.0.2", "unix")
    }
    assert [address for address, has_to_wait in waits.items() if has_to_wait] == [
        "2001:db8::ffff",
        "10.0.0.1",
    ]


def test_success_gives_back_what_the_attempt_took(throttle, clock):
    """Somebody who always remembers the password never waits."""
    for _ in range(150):
        assert throttle.admit("ada", "10.0.0.1") == 0
        throttle.succeeded("ada", "10.0.0.1")
    for _ in range(5):
        assert throttle.admit("ada", "10.0.0.1") == 0


def test_failures_are_forgotten_and_their_rows_go(throttle, clock, database):
    for n in range(25):
        throttle.admit(f"person-{n}", "10.0.0.1")
    clock.now_s += 3601
    assert throttle.admit("ada", "10.0.0.1") == 0
    with database.reading() as connection:
        assert len(connection.execute(login_failure_table.select()).all()) == 3


def test_clock_that_jumps_back_locks_nobody_out(throttle, clock):
    """The wait is counted from now at the latest."""
    for _ in range(5):
        throttle.admit("ada", "10.0.0.1")
    clock.now_s -= 86_400
    assert throttle.admit("ada", "10.0.0.1") == 2.0


@given(st.integers(-10, 10_000))
def test_more_failures_never_wait_less(num):
    """Monotone, and bounded by the longest wait."""
    assert 0 <= wait_s(num) <= wait_s(num + 1) <= 900
