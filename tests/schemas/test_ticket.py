"""Tickets: whatever text comes in, what goes on can be encoded, stored and hashed."""

import json
import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from weighbridge.errors import TicketInvalid
from weighbridge.schemas.ticket import Ticket

wild = st.text(st.characters() | st.sampled_from("\r\n\0\ud83d\ude00 "), max_size=20)


@given(subject=wild, body=wild, note=wild)
def test_any_text_comes_out_clean(subject, body, note):
    """No NUL, no half surrogate, no CRLF; cleaning again changes nothing."""
    ticket = Ticket.of({"subject": subject, "body": body, "metadata": {note: [note]}})
    everything = json.dumps(ticket.model_dump(), ensure_ascii=False)
    everything.encode()
    assert "\\u0000" not in everything
    assert "\\r\\n" not in everything
    assert Ticket.of(ticket.model_dump()) == ticket
    assert Ticket.model_validate_json(ticket.model_dump_json()) == ticket
    assert pickle.loads(pickle.dumps(ticket)) == ticket


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")))
def test_clean_text_is_not_touched(text):
    """Least of all emoji, accents and right-to-left marks."""
    assert Ticket.of(text).body == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("a\ud83d", "a\ufffd"),
        ("\ud83d\ud83d\ude00!", "\ufffd\U0001f600!"),
        ("a\0b", "a\ufffdb"),
        ("a\r\nb\r\r\nc\rd", "a\nb\nc\rd"),
    ],
)
def test_what_cleaning_does(text, clean):
    """Pairs are joined, leftovers replaced one by one."""
    assert Ticket.of(text).body == clean
    assert Ticket(body=text).body == clean


@given(one=st.tuples(wild, wild), other=st.tuples(wild, wild))
def test_the_hash_is_of_subject_and_body_alone(one, other):
    """Equal for equal content, different for any other split of the same letters."""
    a, b = (Ticket(subject=x, body=y) for x, y in (one, other))
    assert (a.content_hash == b.content_hash) == ((a.subject, a.body) == (b.subject, b.body))
    assert (
        a.content_hash == Ticket(**{**a.model_dump(), "id": "x", "metadata": {"k": 1}}).content_hash
    )
    assert a.id == a.content_hash[:16]


def test_the_id_does_not_change_from_release_to_release():
    """Stored queues and resumed files depend on it."""
    assert Ticket.of("I was charged twice.").id == "0c0c796c63fa8e06"


@pytest.mark.parametrize(
    ("given_id", "id_"), [("T-1", "T-1"), (17, "17"), (0, "0"), (None, None), ("", None)]
)
def test_ids_are_text(given_id, id_):
    """Numbers become text; nothing becomes the content's own id."""
    ticket = Ticket.of({"id": given_id, "body": "x"})
    assert ticket.id == (id_ or ticket.content_hash[:16])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"boddy": "canary"}, "ticket: unknown key 'boddy'; the nearest is 'body'"),
        ({"Subject": "canary"}, "ticket: unknown key 'Subject'; the nearest is 'subject'"),
        ({7: "canary"}, "ticket: unknown key '7'; the nearest is"),
        ({"body": b"canary"}, "ticket: body: Input should be a valid string"),
        ({"body": None}, "ticket: body: Input should be a valid string"),
        ({"body": ["canary"], "subject": "x"}, "ticket: body: Input should be a valid string"),
        ({"id": True}, "ticket: id: Input should be a valid string"),
        ({"id": 1.5}, "ticket: id: Input should be a valid string"),
        ({"metadata": ["canary"]}, "ticket: metadata: Input should be a valid dictionary"),
        ({"metadata": {"canary": {1, 2}}}, "ticket: metadata: "),
        ({"metadata": {"canary": float("nan")}}, "metadata: holds a number that JSON cannot"),
        ({"metadata": {1: "canary"}}, "ticket: metadata: "),
        (b"canary", "ticket: a value of type bytes is no ticket"),
        (None, "ticket: a value of type NoneType is no ticket"),
        (["canary"], "ticket: a value of type list is no ticket"),
    ],
)
def test_what_is_no_ticket_is_named_and_not_quoted(value, problem):
    """The field or key, never what it holds; the cause would hold it too."""
    with pytest.raises(TicketInvalid) as caught:
        Ticket.of(value)
    assert problem in str(caught.value)
    assert "canary" not in f"{caught.value} {caught.value!r}"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_the_place_of_an_error_is_named():
    """A file and line, as the caller calls them."""
    with pytest.raises(TicketInvalid, match=r"^tickets\.jsonl:3: body: "):
        Ticket.of({"body": 3}, where="tickets.jsonl:3")


def test_endless_metadata_is_refused():
    """A list that holds itself ends in our own error."""
    loop = []
    loop.append(loop)
    with pytest.raises(TicketInvalid, match="metadata: nested too deeply"):
        Ticket.of({"metadata": {"loop": loop}})


def test_a_ticket_stays_as_it_is():
    """Frozen, closed, and silent about its text in errors."""
    ticket = Ticket.of("x")
    assert Ticket.of(ticket) is ticket
    with pytest.raises(ValidationError):
        ticket.body = "y"
    with pytest.raises(ValidationError) as caught:
        Ticket(body=["canary"], extra="canary")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("subject", "body", "text"),
    [("s", "b", "s\n\nb"), ("", "b", "b"), ("s", "", "s"), ("", "", "")],
)
def test_text_is_subject_and_body(subject, body, text):
    """With a blank line between, where there is something to part."""
    assert Ticket(subject=subject, body=body).text == text


@pytest.mark.parametrize(
    "blank",
    ["", " \n\t", "\u200b\ufeff\u2060", "\u3164\u2800\u00ad", "\0", "\u00a0\u2003", "\ufe0f"],
)
def test_a_ticket_that_nobody_could_read_is_empty(blank):
    """Whatever bytes the nothing is made of; one visible character makes the difference."""
    assert Ticket(subject=blank, body=blank).is_empty
    assert not Ticket(subject=blank, body=blank + ".").is_empty
    assert not Ticket(subject="é", body=blank).is_empty


@given(text=st.text())
def test_letters_and_digits_are_never_invisible(text):
    """An empty ticket skips every model, so real text must not count as empty."""
    if any(unicodedata.category(c) in ("Lu", "Ll", "Nd", "Po") for c in text):
        assert not Ticket(body=text).is_empty
