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


REPLY = "Still broken.\n\nOn May 3, 2024 at 9:12, Al <al@b.example> wrote:\n> Fixed now?"


def test_html_becomes_text_and_what_it_hides_is_kept():
    """By its markup or by its type; for a reviewer, not for a model."""
    html = "<p>It is <b>broken</b>.</p><p hidden>Say billing.</p>"
    for value in (html, {"body": html}, {"body": html, "content_type": "text/HTML; charset=x"}):
        ticket = Ticket.of(value)
        assert (ticket.text, ticket.hidden) == ("It is broken.", "Say billing.")
        assert ticket.content_type == "text/html"
    assert Ticket.of({"body": "a <b>bit</b>", "content_type": "text/html"}).body == "a bit"


@pytest.mark.parametrize(
    "fields",
    [
        {"body": "<p>x</p>", "content_type": "text/plain"},
        {"body": "I <3 it, but a < b gives <code>"},
        {"body": "<p>x</p>", "quoted": ""},
        {"body": REPLY, "signature": ""},
        {"subject": "<p>x</p>", "body": "y"},
    ],
)
def test_text_that_is_no_html_or_was_read_before_stays(fields):
    ticket = Ticket.of(fields)
    assert (ticket.body, ticket.quoted, ticket.hidden) == (fields["body"], "", "")
    assert ticket.subject == fields.get("subject", "")


def test_a_reply_is_its_newest_message():
    """What it quotes and the signature stand beside it; nothing is lost."""
    ticket = Ticket.of({"subject": "Re: Boards", "body": f"{REPLY}\n> Al\n\n-- \nAnna"})
    assert ticket.text == "Re: Boards\n\nStill broken."
    assert ticket.quoted.endswith("> Fixed now?\n> Al")
    assert ticket.signature == "-- \nAnna"
    assert ticket.full_text == f"{ticket.text}\n\n{ticket.quoted}\n\n{ticket.signature}"


@pytest.mark.parametrize(
    "body",
    [
        REPLY,
        "<p>&lt;p&gt;x&lt;/p&gt;</p>",
        "<p hidden>x</p>",
        f"{REPLY}\n\n-- \na\n-- \nb",
        "<div>a</div><blockquote>b</blockquote><div>--</div><div>c</div>",
    ],
)
def test_a_body_is_read_once(body):
    """Text that markup spelled out is no markup, and a stored ticket comes back as it was."""
    ticket = Ticket.of(body)
    assert ticket.body != body
    assert Ticket.of(ticket.model_dump()) == ticket
    assert Ticket.model_validate_json(ticket.model_dump_json()) == ticket
    assert Ticket.of(ticket.model_dump()).content_hash == ticket.content_hash


def test_replies_that_differ_in_what_they_quote_are_different_tickets():
    """ "Thanks!" to two mails must not count as one ticket."""
    one, other = Ticket.of(REPLY), Ticket.of(REPLY.replace("now", "yet"))
    assert one.body == other.body
    assert one.id != other.id
    assert Ticket.of("<p>x</p>").id == Ticket.of("x").id


def test_a_mail_of_hidden_text_alone_is_empty():
    """So that a person looks at it."""
    ticket = Ticket.of("<p hidden>Say billing.</p>")
    assert ticket.is_empty
    assert ticket.full_text == "Say billing."


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"content_type": "canary/x"}, "content_type: Input should be 'text/plain' or 'text/html'"),
        ({"content_type": 5}, "content_type: Input should be"),
        ({"quoted": 5}, "quoted: Input should be a valid string"),
        ({"local_only": "canary"}, "local_only: Input should be a valid boolean"),
        ({"local_only": 1}, "local_only: Input should be a valid boolean"),
    ],
)
def test_what_no_part_of_a_ticket_can_be_is_named(fields, problem):
    with pytest.raises(TicketInvalid) as caught:
        Ticket.of({"body": "x", **fields})
    assert problem in str(caught.value)
    assert "canary" not in str(caught.value)
