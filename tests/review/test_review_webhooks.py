"""One request to a webhook: where it goes, what it carries, and what is said of a failure."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from webhook_receiver import SECRET, payload, receiving

from weighbridge.review.telling import webhooks
from weighbridge.review.telling.outbox import OutboxEvent
from weighbridge.review.telling.subscriptions import EventKind
from weighbridge.review.telling.webhooks import Webhook, refusal, send

CERTIFICATE = Path(__file__).with_name("hooks_example.pem")  # nobody has a reason to trust it
PRIVATE = """127.0.0.1 10.0.0.1 192.168.1.1 172.16.0.1 100.64.0.1 0.0.0.0 ::1 :: fd12::1
    ::ffff:10.0.0.1 64:ff9b::a00:1 224.0.0.1 255.255.255.255"""
EVENT = OutboxEvent(
    id=1,
    event_id="evt_1",
    target="hook",
    kind=EventKind.SETTLED,
    item_id="i",
    payload=payload(),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    attempts=0,
    next_at=datetime(2026, 1, 1, tzinfo=UTC),
    done_at=None,
    parked_at=None,
    last_error="",
)


def hook(url: str, **changes: Any) -> Webhook:
    whole = {"name": "hook", "url": url, "secret": SECRET, "allow_private": True, "timeout_s": 30.0}
    return Webhook(**{**whole, **changes})


def resolving(*answers: list[str]):
    """A resolver that gives one answer after the other, and counts."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        resolve.asked.append((host, port))  # type: ignore[attr-defined]
        return left.pop(0)

    resolve.asked = []  # type: ignore[attr-defined]
    return resolve


async def test_event_arrives_signed_and_once():
    with receiving() as receiver:
        assert await send(hook(receiver.url), EVENT) == ""
    assert [event["id"] for event in receiver.events] == ["evt_1"]
    assert receiver.events[0]["data"] == {"item_id": "i"}


@pytest.mark.parametrize("status", [200, 201, 204, 299])
async def test_any_success_is_taken_for_heard(status):
    with receiving(status) as receiver:
        assert await send(hook(receiver.url), EVENT) == ""


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (400, "status 400"),
        (410, "status 410"),
        (500, "status 500"),
        ("away", "status 307, which is not followed"),
        ("hang", "no response within 0.3 s"),
        ("trickle", "no response within 0.3 s"),
        ("break", "the connection broke off, or what came was no HTTP"),
    ],
)
async def test_anything_else_is_a_failure_in_words_of_ours(status, problem):
    """Neither what a server says nor the address is in them; a redirect reaches nobody."""
    with receiving() as elsewhere, receiving(status) as receiver:
        receiver.elsewhere = elsewhere.url
        is_slow = status in ("hang", "trickle")
        said = await send(hook(receiver.url, timeout_s=0.3 if is_slow else 30.0), EVENT)
    assert said.startswith(problem)
    assert said
    assert "canary" not in said
    assert elsewhere.events == []


async def test_connection_goes_to_the_address_that_was_checked():
    """A resolver that says something else the second time is asked once; the name is kept."""
    resolve = resolving(["127.0.0.1"], ["169.254.169.254"])
    with receiving() as receiver:
        url = f"http://hooks.example:{receiver.port}/"
        assert await send(hook(url, allow_http=True), EVENT, resolve=resolve) == ""
    assert resolve.asked == [("hooks.example", receiver.port)]
    assert receiver.hosts == [f"hooks.example:{receiver.port}"]


async def test_second_address_is_asked_where_the_first_takes_no_connection():
    with receiving() as receiver:
        url = f"http://hooks.example:{receiver.port}/"
        two = resolving(["127.0.0.2", "127.0.0.1"])
        assert await send(hook(url, allow_http=True), EVENT, resolve=two) == ""


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "100.100.100.200",
        "fe80::1",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "64:ff9b:1::a9fe:a9fe",
        "::ffff:0:169.254.169.254",
        "::169.254.169.254",
        "168.63.129.16",
    ],
)
def test_addresses_that_hand_out_credentials_are_refused_whatever_is_allowed(address):
    assert "credentials" in refusal(hook("https://hooks.example/"), address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "::",
        "fd12::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "::ffff:0:10.0.0.1",
        "::127.0.0.1",
        "fec0::1",
        "5f00::1",
        "224.0.0.1",
        "255.255.255.255",
    ],
)
def test_private_addresses_need_to_be_allowed(address):
    strict = hook("https://hooks.example/", allow_private=False)
    assert "private" in refusal(strict, address)
    assert refusal(replace(strict, allow_private=True), address) == ""


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_public_addresses_are_allowed(address):
    assert refusal(hook("https://hooks.example/", allow_private=False), address) == ""


@pytest.mark.parametrize("answer", [["10.0.0.1"], ["169.254.169.254"], []])
async def test_nothing_is_sent_where_no_address_is_allowed(answer):
    with receiving() as receiver:
        strict = hook(f"http://h.example:{receiver.port}/", allow_private=False, allow_http=True)
        assert await send(strict, EVENT, resolve=resolving(answer))
    assert receiver.events == []


async def test_host_in_another_notation_is_checked_by_what_it_means():
    """The system's resolver takes decimal numbers for addresses; so does the check behind it."""
    strict = hook("http://2130706433/", allow_private=False, allow_http=True)
    assert "private" in await send(strict, EVENT)


async def test_name_that_nobody_knows_is_a_failure():
    async def nobody(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "canary")

    assert await send(hook("https://h.example/"), EVENT, resolve=nobody) == "the name is not known"


async def test_server_that_is_not_there_is_a_failure():
    with receiving() as receiver:
        url = receiver.url
    assert await send(hook(url), EVENT) == "no connection"


@pytest.fixture
def trusted(monkeypatch):
    """The certificate for hooks.example, which the sender trusts for the time of a test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    webhooks._tls.cache_clear()
    yield CERTIFICATE
    webhooks._tls.cache_clear()


async def test_certificate_is_that_of_the_name_whatever_the_address(trusted):
    """The server has one for hooks.example, and none for the address it is found at."""
    with receiving(certificate=trusted) as receiver:
        url = f"https://hooks.example:{receiver.port}/"
        assert await send(hook(url), EVENT, resolve=resolving(["127.0.0.1"])) == ""
    assert receiver.hosts == [f"hooks.example:{receiver.port}"]


async def test_certificate_of_another_name_is_a_failure(trusted):
    """Whoever answers at the right address without the right certificate hears nothing."""
    with receiving(certificate=trusted) as receiver:
        url = f"https://other.example:{receiver.port}/"
        said = await send(hook(url), EVENT, resolve=resolving(["127.0.0.1"]))
    assert said == "the TLS handshake failed"
    assert receiver.events == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hooks.example/",
        "hooks.example",
        "https://",
        "https://ann:canary@hooks.example/",
        "https://hooks.example/#canary",
        "http://hooks.example/",
        "https://exa mple/",
    ],
)
def test_address_that_cannot_be_used_is_refused_unseen(url):
    with pytest.raises(ValueError, match=r"\w") as caught:
        hook(url)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://hooks.example/x?token=1", "http://127.0.0.1:80/x"])
def test_address_that_can_be_used_is_taken(url):
    assert "token" not in repr(hook(url))
