"""What goes wrong on the wire: bodies that are no bodies, connections that are no connections."""

from __future__ import annotations

import json
from concurrent.futures import Future

import pytest
from scene import ANSWER, Met, Row, Scene, failures
from servers import (
    CERTIFICATE,
    RIGHT,
    answers,
    completion,
    drips,
    half_closes,
    hangs,
    packed,
    raw,
    resets,
    response,
    says,
)

from weighbridge.schemas.task import Task

MIB = 1024 * 1024
WHOLE = response(200, completion())
SOME = WHOLE[: len(WHOLE) // 2]
WITHOUT_LENGTH = WHOLE.replace(b"content-length", b"x-length")
CHUNKED = b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE_CHARACTER = json.dumps(json.loads(completion(note="é")), ensure_ascii=False).encode()
HALF_A_CHARACTER = WHOLE_CHARACTER.replace("é".encode(), b"\xc3")
PLAIN_TO_TLS = {"certificate": CERTIFICATE, "scheme": "http"}
TOO_SHORT = response(200, completion(), {"content-length": str(len(completion()) + 100)})


ROWS = [
    Row("slow_drip", drips(completion()), "transient"),
    Row("reset_mid_body", resets(SOME), "transient", 3),
    Row("reset_at_once", resets(b""), "transient", 3),
    Row("half_closed", half_closes(SOME), "transient", 3),
    Row("hangs_up_at_once", raw(hang_up=True), "transient", 3),
    Row("too_short_then_gone", raw(TOO_SHORT, hang_up=True), "transient", 3),
    Row("too_short_then_silent", raw(TOO_SHORT), "transient"),
    Row("no_http", raw(b"SSH-2.0-OpenSSH_9\r\n", hang_up=True), "transient", 3),
    Row("headers_without_end", raw(b"HTTP/1.1 200 x\r\n" + b"a: b\r\n" * 99), "transient"),
    Row("header_of_a_megabyte", raw(b"HTTP/1.1 200 x\r\nx: " + b"x" * MIB), "transient", 3),
    Row("broken_chunks", raw(CHUNKED + b"zz\r\n"), "transient", 3),
    Row("chunks_without_end", raw(CHUNKED + b"1\r\n{\r\n", hang_up=True), "transient", 3),
    Row("only_continue", raw(b"HTTP/1.1 100 Continue\r\n\r\n"), "transient"),
    Row("no_text", says(200, b"\xff\xfe\x00"), "invalid", 2),
    Row("half_a_character", says(200, HALF_A_CHARACTER), "invalid", 2),
    Row("half_a_body", says(200, completion()[:-20]), "invalid", 2),
    Row("nested_without_end", says(200, b"[" * 100_000), "invalid", 2),
    Row("nested_answer", answers("[" * 100_000), "invalid", 2),
    Row("ten_megabytes", says(200, completion() + b" " * (10 * MIB)), "invalid", 2),
    Row("gzip_bomb", packed(completion() + b" " * (16 * MIB)), "invalid", 2),
    Row("no_gzip", says(200, completion(), content_encoding="gzip"), "invalid", 2),
    Row("odd_packing", says(200, completion(), content_encoding="br"), "invalid", 2),
    # Where there is no connection, or none that can be trusted, nobody is told anything. Port 1 is
    # nobody's, and the name never resolves (RFC 6761).
    Row("refused", answers(), "transient", 3, hits=0, settings={"base_url": "http://127.0.0.1:1"}),
    Row(
        "no_address", answers(), "transient", 3, hits=0, settings={"base_url": "https://x.invalid"}
    ),
    Row("tls_to_a_plain_port", answers(), "transient", hits=0, settings={"scheme": "https"}),
    Row("self_signed", answers(), "transient", hits=0, settings={"certificate": CERTIFICATE}),
    Row("plain_to_a_tls_port", answers(), "transient", 3, hits=0, settings=PLAIN_TO_TLS),
    # The cases above prove little without these: a whole answer counts however it comes.
    Row("wrong_content_type", says(200, completion(), content_type="text/html"), None, by="a"),
    Row("byte_order_mark", says(200, b"\xef\xbb\xbf" + completion()), None, by="a"),
    Row("closes_each_time", says(200, completion(), connection="close"), None, by="a"),
    Row("byte_by_byte", drips(completion(), every_s=0.0), None, by="a"),
    Row("whole_then_half_closed", half_closes(WHOLE), None, by="a"),
    Row("processing", raw(b"HTTP/1.1 102 Processing\r\n\r\n" + WHOLE), None, by="a"),
    Row("ends_by_closing", raw(WITHOUT_LENGTH, hang_up=True), None, by="a"),
    Row("gzip", packed(completion()), None, by="a"),
    Row("whole_character", says(200, WHOLE_CHARACTER), None, by="a"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_only_a_whole_answer_counts(met: dict[str, Future[Met]], row: Row) -> None:
    """And never more than the limits of time and size is waited for or kept."""
    row.check(met[row.name].result())


def test_silence_of_everybody_ends_with_the_deadline(scene: Scene) -> None:
    """Each takes its own timeout, all together no more than the ticket's."""
    scene.deadline_s = 0.9
    a, b, c = (scene.add(name, hangs, timeout="600ms") for name in "abc")
    decision = scene.decide()
    assert (decision.status, decision.reasons) == ("review", ("no_answer",))
    assert failures(decision) == failures(decision, "b") == ["transient"]
    assert failures(decision, "c") == ["deadline"]
    assert (a.hits, b.hits, c.hits) == (1, 1, 0)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 + 1, -(2**53) - 1])
def test_large_number_is_kept_exactly(scene: Scene, number: int) -> None:
    """It never passes through a float, which would round it, neither here nor in the queue."""
    task = Task.from_schema(
        {
            "type": "object",
            "properties": {"account": {"type": "integer"}},
            "required": ["account"],
            "additionalProperties": False,
        },
        instructions="Which account?",
    )
    scene.add("a", answers(json.dumps({"account": number})))
    with scene.router() as router:
        decision = scene.ask(router, task=task)
    assert decision.value == {"account": number}
    assert type(decision.value["account"]) is int


def test_answer_is_the_same_in_any_unicode_spelling(scene: Scene) -> None:
    """Escapes in the text and in the body around it are JSON's own business."""
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in "billing")
    scene.add("a", answers(f'{{"category": "{spelled}", "priority": "high"}}'))
    assert scene.decide().value == ANSWER
    assert RIGHT["category"] == "billing"
