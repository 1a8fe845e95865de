"""Signatures: what was signed is accepted, and nothing else is."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import WebhookInvalid
from weighbridge.review.telling.signing import signed_headers, verify

NOW = 1_790_000_000.0
BODY = b'{"type": "review.item.settled", "data": {}}'


@given(
    st.text(min_size=1).filter(lambda text: not text.startswith("whsec_")).filter(str.isprintable),
    st.dictionaries(st.text(), st.integers()),
    st.floats(-300, 300),
)
def test_what_was_signed_is_accepted_while_it_is_new(secret, event, late_s):
    """Whatever the secret and the event."""
    body = json.dumps(event).encode()
    headers = signed_headers(secret, "evt_1", body, now_s=NOW)
    assert verify(secret, headers, body, clock=lambda: int(NOW) + late_s) == event


def test_signature_is_that_of_the_standard():
    """A value computed with openssl: id, time and body with full stops between them."""
    secret = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
    headers = signed_headers(secret, "msg_1", b'{"a":1}', now_s=1_700_000_000.9)
    assert headers["webhook-timestamp"] == "1700000000"
    assert headers["webhook-signature"] == "v1,WUgAXU8H0NQ1/7M+TtMwKma2b74a3/TCgekiM3YUdN8="


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "evt_2"},
        {"webhook-timestamp": "1790000001"},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "-1790000000"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,\ud800"},
    ],
)
def test_changed_header_is_refused(change):
    headers = {**signed_headers("secret", "evt_1", BODY, now_s=NOW), **change}
    with pytest.raises(WebhookInvalid):
        verify("secret", headers, BODY, clock=lambda: NOW)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_missing_header_is_refused_by_its_name(name):
    headers = signed_headers("secret", "evt_1", BODY, now_s=NOW)
    del headers[name]
    with pytest.raises(WebhookInvalid, match=name):
        verify("secret", headers, BODY, clock=lambda: NOW)


@pytest.mark.parametrize(
    ("secret", "body", "late_s"),
    [
        ("Secret", BODY, 0),
        ("secret", BODY + b" ", 0),
        ("secret", BODY, 301),
        ("secret", BODY, -301),
    ],
)
def test_other_secret_other_body_and_old_event_are_refused(secret, body, late_s):
    headers = signed_headers("secret", "evt_1", BODY, now_s=NOW)
    with pytest.raises(WebhookInvalid):
        verify(secret, headers, body, clock=lambda: NOW + late_s)


@pytest.mark.parametrize("body", [b"no", b"[]", b"\xff"])
def test_body_that_is_no_object_is_refused_although_it_is_signed(body):
    headers = signed_headers("secret", "evt_1", body, now_s=NOW)
    with pytest.raises(WebhookInvalid, match="JSON"):
        verify("secret", headers, body, clock=lambda: NOW)


def test_one_of_several_signatures_is_enough_and_case_plays_no_part():
    """While a secret is replaced, both are sent; servers spell headers as they like."""
    headers = signed_headers("secret", "evt_1", BODY, now_s=NOW)
    headers["webhook-signature"] = f"v1,AAAA {headers['webhook-signature']} v2,BBBB"
    shouted = {name.title(): value for name, value in headers.items()}
    assert verify("secret", shouted, BODY, clock=lambda: NOW)["type"] == "review.item.settled"


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!"])
def test_secret_that_is_none_is_refused_before_anything_is_signed(secret):
    with pytest.raises(ValueError, match="want"):
        signed_headers(secret, "evt_1", BODY, now_s=NOW)
