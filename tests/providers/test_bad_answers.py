"""Bad answers: wire by fault, through transport, adapter and acceptance."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from speaking_wires import SYSTEMONE_ANSWERS, WIRES, WRITERS, SpeakingWire

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure, Inquiry
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

CATEGORY, URGENT = {"enum": ["bug", "billing"]}, {"type": "boolean"}


def object_of(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


LISTED = Task.from_schema(
    object_of(category=CATEGORY, urgent=URGENT), instructions="Sort the ticket."
)
TASK = Task.from_schema(
    object_of(category=CATEGORY, urgent=URGENT, account={"type": "integer", "minimum": 0}),
    instructions="Sort the ticket.",
)
TICKET = Ticket.of("A canary sings in my account.")
RIGHT = '{"category": "bug", "urgent": true, "account": 7}'
INVALID = FailureKind.INVALID


class Chunks(httpx.AsyncByteStream):
    """A body in pieces, with a pause or a break."""

    def __init__(
        self, chunk: bytes, count: int = 1, *, pause_s: float = 0.0, end: Exception | None = None
    ) -> None:
        self.chunk, self.count, self.pause_s, self.end = chunk, count, pause_s, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.count):
            yield self.chunk
            await asyncio.sleep(self.pause_s)
        if self.end:
            raise self.end


async def ask(wire: SpeakingWire, response: httpx.Response | Exception) -> Accepted | Failure:
    """One attempt and what comes of it; whatever happens, no secret is in it."""

    def respond(request: httpx.Request) -> httpx.Response:
        if isinstance(response, Exception):
            raise response
        return response

    provider = wire.provider()
    task = LISTED if wire.profile == "systemone" else TASK
    approach = provider.approach(task)
    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        inquiry = Inquiry(task=task, approach=approach, ticket=TICKET)
        result = await provider.ask(client, inquiry, timeout_s=0.4)
    checked = result if isinstance(result, Failure) else accept(result, approach.schema, task)
    if isinstance(checked, Failure):
        assert "canary" not in repr(checked)
        assert checked.detail
    else:
        Draft202012Validator(dict(task.schema)).validate(checked.value)
    return checked


async def kind(wire: SpeakingWire, response: httpx.Response | Exception) -> FailureKind | None:
    result = await ask(wire, response)
    return result.kind if isinstance(result, Failure) else None


def right(wire: SpeakingWire) -> bytes:
    return wire.answer(json.dumps(SYSTEMONE_ANSWERS) if wire.profile == "systemone" else RIGHT)


def changed(**changes: str) -> str:
    """The right answer with raw JSON in place of some of its values."""
    values = {"category": '"bug"', "urgent": "true", "account": "7", **changes}
    return "{" + ", ".join(f'"{name}": {raw}' for name, raw in values.items()) + "}"


# What a model writes; no envelope can tell.
BAD_TEXTS: dict[str, str] = {
    "prose": "It is a bug, canary.",
    "prose before": f"Sure, canary! {RIGHT}",
    "prose behind": f"{RIGHT} canary",
    "half a fence": f"```json\n{RIGHT}",
    "two answers": f"{RIGHT}\n{RIGHT}",
    "blank": " \n ",
    "null": "null",
    "a text": '"canary"',
    "a list": f"[{RIGHT}]",
    "inside another object": f'{{"answer": {RIGHT}}}',
    "the schema itself": json.dumps(TASK.schema),
    "cut": RIGHT[:-9],
    "cut to a valid object": '{"category": "bug", "urgent": true}',
    "key twice": changed(urgent='true, "category": "billing"'),
    "key twice, escaped": changed(urgent='true, "c\\u0061tegory": "billing"'),
    "further field": changed(canary="1"),
    "unknown option": changed(category='"canary"'),
    "refusal in JSON": changed(category='"I cannot help with the canary."'),
    "refusal as JSON": '{"error": "I cannot help with the canary."}',
    "null for a value": changed(category="null"),
    "text for a number": changed(account='"7"'),
    "true for a number": changed(account="true"),
    "1 for true": changed(urgent="1"),
    "fraction": changed(account="7.5"),
    "NaN": changed(account="NaN"),
    "infinity": changed(account="-Infinity"),
    "infinite by size": changed(account="1e400"),
    "thousands of digits": changed(account="1" * 5000),
    "out of bounds": changed(account="-1"),
    "half a surrogate pair": changed(category='"bug\\ud83d"'),
    "nested without end": "[" * 50_000,
    "nested": changed(account="[" * 3_000 + "]" * 3_000),
    "single quotes": RIGHT.replace('"', "'"),
    "comma too many": RIGHT.replace("}", ",}"),
    "comment": RIGHT.replace("}", "/* canary */}"),
}


@pytest.mark.parametrize("fault", BAD_TEXTS)
@pytest.mark.parametrize("name", WRITERS)
async def test_answer_that_the_schema_refuses_is_invalid(name: str, fault: str) -> None:
    """Though the provider accepted the schema and says that all is well."""
    wire = WIRES[name]
    response = httpx.Response(200, content=wire.answer(BAD_TEXTS[fault]))
    assert await kind(wire, response) is INVALID


GOOD_TEXTS: dict[str, tuple[str, Any]] = {
    "as asked": (RIGHT, 7),
    "larger than a float is exact": (changed(account=str(2**53 + 1)), 2**53 + 1),
    "larger than 64 bits": (changed(account=str(2**80 + 1)), 2**80 + 1),
    "escaped": (changed(category='"\\u0062ug"'), 7),
    "other letter case": (changed(category='"BUG"'), 7),
    "blanks": (f"\n {RIGHT}\t", 7),
}
WRAPPED_TEXTS: dict[str, str] = {
    "fence": f"```json\n{RIGHT}\n```",
    "thoughts": f"<think>canary</think>\n{RIGHT}",
}


@pytest.mark.parametrize("fault", GOOD_TEXTS)
@pytest.mark.parametrize("name", WRITERS)
async def test_unusual_answer_that_means_the_right_thing_counts(name: str, fault: str) -> None:
    """The pair of the above: with numbers as they were sent."""
    wire, (text, account) = WIRES[name], GOOD_TEXTS[fault]
    result = await ask(wire, httpx.Response(200, content=wire.answer(text)))
    assert isinstance(result, Accepted)
    assert result.value == {"category": "bug", "urgent": True, "account": account}
    assert type(result.value["account"]) is int
    assert bool(result.notes) == (fault == "other letter case")


@pytest.mark.parametrize("fault", WRAPPED_TEXTS)
@pytest.mark.parametrize("name", [name for name in WRITERS if not WIRES[name].is_spliced])
async def test_wrapping_of_a_text_is_taken_off(name: str, fault: str) -> None:
    wire = WIRES[name]
    result = await ask(wire, httpx.Response(200, content=wire.answer(WRAPPED_TEXTS[fault])))
    assert isinstance(result, Accepted)


BAD_WEIGHTS: dict[str, dict[str, Any]] = {
    "other letter case": {"choice": "BUG"},
    "unknown option": {"choice": "canary"},
    "no choice": {"choice": None},
    "an option is missing": {"probabilities": {"bug": 1.0}},
    "further option": {"probabilities": {"bug": 0.8, "billing": 0.1, "canary": 0.1}},
    "NaN": {"probabilities": {"bug": float("nan"), "billing": 0.1}},
    "infinity": {"probabilities": {"bug": float("inf"), "billing": 0.1}},
    "texts": {"probabilities": {"bug": "0.9", "billing": "0.1"}},
    "true": {"probabilities": {"bug": True, "billing": 0}},
    "sum": {"probabilities": {"bug": 0.9, "billing": 0.9}},
    "outweighed": {"probabilities": {"bug": 0.1, "billing": 0.9}},
    "other type": {"type": "canary"},
}


@pytest.mark.parametrize("fault", BAD_WEIGHTS)
async def test_weights_that_do_not_add_up_are_invalid(fault: str) -> None:
    wire = WIRES["systemone"]
    category = SYSTEMONE_ANSWERS["category"] | BAD_WEIGHTS[fault]
    body = wire.answer(json.dumps({**SYSTEMONE_ANSWERS, "category": category}))
    assert await kind(wire, httpx.Response(200, content=body)) is INVALID


async def test_weights_that_add_up_count() -> None:
    wire = WIRES["systemone"]
    result = await ask(wire, httpx.Response(200, content=right(wire)))
    assert isinstance(result, Accepted)
    assert result.value == {"category": "bug", "urgent": False}


# The envelope.


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, place) for name, wire in WIRES.items() for place in range(len(wire.hollow))],
)
async def test_success_without_an_answer_is_invalid(name: str, place: int) -> None:
    wire = WIRES[name]
    assert await kind(wire, httpx.Response(200, json=wire.hollow[place])) is INVALID


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (n, r)
        for n, wire in WIRES.items()
        for r in (*wire.reasons, *(["canary word"] if wire.reasons else []))
        if r != "complete"
    ],
)
async def test_valid_answer_does_not_count_if_it_ended_badly(name: str, reason: str) -> None:
    """A cut object can be valid; what an unknown word means, nobody knows."""
    wire = WIRES[name]
    response = httpx.Response(200, content=wire.answer(RIGHT, reason=reason))
    expected = INVALID if reason == "canary word" else FailureKind(reason)
    assert await kind(wire, response) is expected


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for name, wire in WIRES.items() for what in wire.refusals]
)
async def test_refusal_is_one_whatever_stands_beside_it(name: str, what: str) -> None:
    wire = WIRES[name]
    assert await kind(wire, httpx.Response(200, json=wire.refusals[what])) is FailureKind(what)


@pytest.mark.parametrize("name", WIRES)
async def test_error_inside_a_success_is_an_error(name: str) -> None:
    """And `retry-after` of a success is about something else."""
    wire = WIRES[name]
    result = await ask(wire, httpx.Response(200, json=wire.error, headers={"retry-after": "9"}))
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.TRANSIENT
    assert result.wait_s is None


# What comes over HTTP. The expected kind is None where it is the right answer after all.
PAGE = b"<!DOCTYPE html><html><body>canary</body></html>"
BODIES: dict[str, tuple[bytes | None, FailureKind | None]] = {
    "nothing": (b"", INVALID),
    "a page": (PAGE, INVALID),
    "null": (b"null", INVALID),
    "a text": (b'"canary"', INVALID),
    "an empty list": (b"[]", INVALID),
    "lines of JSON": (b'{"canary": 1}\n{"canary": 2}', INVALID),
    "a stream": (b"data: {}\n\ndata: [DONE]\n\n", INVALID),
    "no text": (b"\xff\xfe\x00canary", INVALID),
    "nested without end": (b"[" * 100_000, INVALID),
}
HEADERS: dict[str, tuple[dict[str, str], FailureKind | None]] = {
    "page by content type": ({"content-type": "text/html"}, None),
    "no content type": ({"content-type": ""}, None),
    "stream by content type": ({"content-type": "text/event-stream"}, None),
    "other character set": ({"content-type": "application/json; charset=utf-16"}, None),
    "not gzip": ({"content-encoding": "gzip"}, INVALID),
    "unknown packing": ({"content-encoding": "canary"}, INVALID),
    "far too long a wait": ({"retry-after": "999999999999"}, None),
}
STATUSES: dict[str, tuple[int, Mapping[str, str], bytes, FailureKind]] = {
    "redirect": (302, {"location": "https://canary.test/"}, b"", FailureKind.UNKNOWN),
    "permanent redirect": (308, {"location": "https://canary.test/"}, PAGE, FailureKind.UNKNOWN),
    "redirect without a place": (307, {}, b"", FailureKind.UNKNOWN),
    "redirect to no address": (301, {"location": "canary:\x7f//"}, b"", FailureKind.TRANSIENT),
    "redirect to a mailbox": (302, {"location": "mailto:canary"}, b"", FailureKind.TRANSIENT),
    "redirect to no name": (302, {"location": "http://xn--a/"}, b"", FailureKind.TRANSIENT),
    "packed page of a proxy": (502, {"content-encoding": "br"}, PAGE, FailureKind.TRANSIENT),
    "packed key": (401, {"content-encoding": "gzip"}, PAGE, FailureKind.CREDENTIAL),
    "not modified": (304, {}, b"", FailureKind.UNKNOWN),
    "no content": (204, {}, b"", INVALID),
    "page of a proxy": (502, {}, PAGE, FailureKind.TRANSIENT),
    "page of a firewall": (403, {}, PAGE, FailureKind.UNKNOWN),
    "proxy wants a login": (407, {}, PAGE, FailureKind.UNKNOWN),
    "too busy": (429, {}, b"canary", FailureKind.RATE_LIMIT),
    "gone": (404, {}, b"", FailureKind.MODEL_GONE),
    "key": (401, {}, b"canary", FailureKind.CREDENTIAL),
    "teapot": (418, {}, b"", FailureKind.UNKNOWN),
    "odd status": (599, {}, b"canary", FailureKind.TRANSIENT),
}


@pytest.mark.parametrize("fault", BODIES)
@pytest.mark.parametrize("name", WIRES)
async def test_body_that_is_no_answer_is_invalid(name: str, fault: str) -> None:
    content, expected = BODIES[fault]
    assert await kind(WIRES[name], httpx.Response(200, content=content)) is expected


@pytest.mark.parametrize("name", WIRES)
async def test_body_is_whole_or_nothing(name: str) -> None:
    """Cut anywhere, or with half a character in it, it is no answer."""
    wire = WIRES[name]
    whole = right(wire)
    assert await kind(wire, httpx.Response(200, content=whole)) is None
    for end in range(0, len(whole), 7):
        assert await kind(wire, httpx.Response(200, content=whole[:end])) is INVALID
    half = whole.replace(b"m-1", b"m\xc3").replace(b'"role"', b'"r\xc3"')
    assert half == whole or await kind(wire, httpx.Response(200, content=half)) is INVALID


@pytest.mark.parametrize("fault", HEADERS)
@pytest.mark.parametrize("name", WIRES)
async def test_only_the_packing_is_read_from_headers(name: str, fault: str) -> None:
    headers, expected = HEADERS[fault]
    response = httpx.Response(200, headers=headers, stream=Chunks(right(WIRES[name])))
    assert await kind(WIRES[name], response) is expected


@pytest.mark.parametrize("fault", STATUSES)
@pytest.mark.parametrize("name", WIRES)
async def test_status_decides_where_nothing_else_is_said(name: str, fault: str) -> None:
    status, headers, content, expected = STATUSES[fault]
    response = httpx.Response(status, headers=headers, stream=Chunks(content))
    assert await kind(WIRES[name], response) is expected


def transport_faults(wire: SpeakingWire) -> dict[str, tuple[Any, FailureKind]]:
    whole = right(wire)
    bomb = gzip.compress(bytes(50_000_000), compresslevel=9)
    packed = {"content-encoding": "gzip"}
    lie = httpx.RemoteProtocolError("peer closed connection, canary")
    tls = httpx.ConnectError("canary")
    tls.__cause__ = ssl.SSLCertVerificationError("canary")
    return {
        "bomb": (httpx.Response(200, headers=packed, stream=Chunks(bomb)), INVALID),
        "100 MB": (httpx.Response(200, stream=Chunks(bytes(1_000_000), 100)), INVALID),
        "100 MB of an error": (
            httpx.Response(500, stream=Chunks(bytes(1_000_000), 100)),
            FailureKind.TRANSIENT,
        ),
        "drip": (
            httpx.Response(200, stream=Chunks(b" ", 100_000, pause_s=0.05)),
            FailureKind.TRANSIENT,
        ),
        "shorter than it says": (
            httpx.Response(200, stream=Chunks(whole[:-5], end=lie)),
            FailureKind.TRANSIENT,
        ),
        "reset": (
            httpx.Response(200, stream=Chunks(whole[:9], end=httpx.ReadError("canary"))),
            FailureKind.TRANSIENT,
        ),
        "TLS": (tls, FailureKind.TRANSIENT),
        "no host": (httpx.ConnectError("canary"), FailureKind.TRANSIENT),
        "no HTTP": (httpx.RemoteProtocolError("canary"), FailureKind.TRANSIENT),
        "timeout": (httpx.ReadTimeout("canary"), FailureKind.TRANSIENT),
    }


@pytest.mark.parametrize("name", WIRES)
async def test_transport_that_fails_is_no_answer(name: str) -> None:
    """Never more than the limits of time and size is waited for."""
    wire = WIRES[name]
    for fault, (response, expected) in transport_faults(wire).items():
        assert await kind(wire, response) is expected, fault
