"""Signing: proves to a receiver that an event is ours, whole and new.

As Standard Webhooks describes it (version 1, symmetric), so that receivers in any language find a
library: https://www.standardwebhooks.com. Signed is the event's id, the time and the body.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from weighbridge.decision import Json
from weighbridge.errors import WebhookInvalid

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"

_ENCODED: Final = "whsec_"  # in front of a secret that is bytes in base 64
_VERSION: Final = "v1"
_SECONDS: Final = re.compile(r"[0-9]{1,12}")


def signed_headers(secret: str, event_id: str, body: bytes, *, now_s: float) -> dict[str, str]:
    """The headers that go with a body.

    Args:
        secret: shared with the receiver; bytes in base 64 behind "whsec_", or any other text.
        event_id: the same however often the event is sent.
        body: exactly as it is sent.
        now_s: seconds since 1970.

    Raises:
        ValueError: the secret is empty, or no base 64 behind its "whsec_".
    """
    stamp = str(int(now_s))
    signature = _signature(key_of(secret), event_id, stamp, body)
    return {ID: event_id, TIMESTAMP: stamp, SIGNATURE: f"{_VERSION},{signature}"}


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_s: float = 300.0,
    clock: Callable[[], float] = time.time,
) -> dict[str, Json]:
    """What a receiver calls first: the event, if it was signed with the secret and is new.

    An event may come more than once, with the same `webhook-id`: remember those that were handled,
    at least for a day.

    Args:
        secret: as the sender has it.
        headers: of the request; case plays no part.
        body: of the request, as it came and before anything parses it.
        tolerance_s: how far the sender's clock and the network may be off.
        clock: seconds since 1970.

    Returns:
        The event: `type`, `timestamp`, and `data` with the ids.

    Raises:
        WebhookInvalid: do not act on it, and answer with status 400.
        ValueError: see `signed_headers`.

    >>> body = b'{"type": "review.item.settled", "data": {"item_id": "7"}}'
    >>> headers = signed_headers("a shared secret", "evt_1", body, now_s=1_790_000_000)
    >>> event = verify("a shared secret", headers, body, clock=lambda: 1_790_000_002)
    >>> event["data"]
    {'item_id': '7'}
    """
    key = key_of(secret)
    given = {name.lower(): value for name, value in headers.items()}
    try:
        event_id, stamp, signatures = given[ID], given[TIMESTAMP], given[SIGNATURE].split()
    except KeyError as missing:
        raise WebhookInvalid(f"the header {missing} is missing") from None
    if not _SECONDS.fullmatch(stamp):
        raise WebhookInvalid(f"the header {TIMESTAMP!r} is no number of seconds")
    expected = f"{_VERSION},{_signature(key, event_id, stamp, body)}".encode()
    # Several where a secret is being replaced by another one.
    if not any(
        hmac.compare_digest(one.encode(errors="surrogatepass"), expected) for one in signatures
    ):
        raise WebhookInvalid("no signature fits: another secret, or a changed id, time or body")
    if abs(clock() - int(stamp)) > tolerance_s:
        raise WebhookInvalid("it was signed too long ago, or a clock is wrong")
    try:
        event = json.loads(body)
    except ValueError:
        raise WebhookInvalid("the body is no JSON") from None
    if not isinstance(event, dict):
        raise WebhookInvalid("the body is no JSON object")
    return event


def key_of(secret: str) -> bytes:
    """The bytes of a secret.

    Raises:
        ValueError: see `signed_headers`.
    """
    try:
        key = (
            base64.b64decode(secret.removeprefix(_ENCODED), validate=True)
            if secret.startswith(_ENCODED)
            else secret.encode()
        )
    except (binascii.Error, ValueError):
        raise ValueError(f"want base 64 behind {_ENCODED!r}") from None
    if not key:
        raise ValueError("want a secret that is not empty")
    return key


def _signature(key: bytes, event_id: str, stamp: str, body: bytes) -> str:
    signed = b".".join((event_id.encode(errors="surrogatepass"), stamp.encode(), body))
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
