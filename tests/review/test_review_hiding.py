"""What the queue's own redaction takes out, and that it puts nothing back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_entries import make_entry
from sqlalchemy import select

from weighbridge.decision import Question
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.queueing.hiding import hide_texts
from weighbridge.schemas.redaction import Redactor
from weighbridge.store.schema import metadata

MAIL = "ann.canary@mail.example"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def redact(text: str) -> str:
    return Redactor().redact(text).text


def hide(ticket, *, value=None, machine=None, options=(), using=redact):
    question = {"field": "f", "options": list(options), "machine": machine, "required": True}
    decision = {"reasoning": "", "value": value, "provider": "p"}
    return hide_texts(ticket, decision, [question], using)


@given(st.dictionaries(st.text(), JSON, max_size=4), JSON)
def test_shape_stays_and_nothing_found_changes_nothing(ticket, value):
    """Whatever the texts, even some that hold what parts them from each other."""
    hidden = hide(ticket, value=value, using=lambda text: text)
    assert hidden[0] == ticket
    assert hidden[1]["value"] == value


@given(st.lists(st.text(max_size=5), max_size=5), st.sampled_from(["", "\0", "a\0b"]))
def test_each_text_is_redacted_wherever_it_stands(texts, more):
    """Also where they cannot be shown to the recogniser all together."""
    ticket = {"body": more, "metadata": {"list": texts}}
    hidden, *_ = hide(ticket, using=lambda text: "".join("x" if c != "\0" else c for c in text))
    expected = [["x" if c != "\0" else c for c in text] for text in texts]
    assert [list(text) for text in hidden["metadata"]["list"]] == expected


def test_one_address_has_one_placeholder_in_all_texts():
    """So that a reviewer sees that two messages are of one person."""
    ticket, decision, (question,) = hide(
        {"id": MAIL, "subject": f"from {MAIL}", "body": f"{MAIL} or bob@mail.example"},
        value={"contact": MAIL},
        machine=MAIL,
    )
    assert ticket == {
        "id": MAIL,  # answers are filed under it
        "subject": "from [EMAIL_1]",
        "body": "[EMAIL_1] or [EMAIL_2]",
    }
    assert (decision["value"], question["machine"]) == ({"contact": "[EMAIL_1]"}, "[EMAIL_1]")
    assert decision["provider"] == "p"


def test_options_stay_so_that_they_can_be_answered():
    """They stand in the configuration, and are nobody's."""
    _, decision, (question,) = hide({}, value=MAIL, machine=MAIL, options=[MAIL, "other"])
    assert (decision["value"], question["machine"]) == (MAIL, MAIL)


@pytest.mark.parametrize("is_hiding", [True, False])
def test_no_table_holds_what_was_hidden(database, is_hiding):
    """Without a redaction all of it is there; with one the queue works as before."""
    queue = ReviewQueue(database, redact=redact if is_hiding else None)
    plain = make_entry()
    entry = replace(
        plain,
        ticket={**plain.ticket, "body": MAIL, "metadata": {"from": [MAIL]}, "quoted": MAIL},
        decision=replace(plain.decision, reasoning=MAIL),
        questions=(
            *plain.questions,
            Question(field="contact", options=(), machine=MAIL, required=False),
        ),
    )
    item = queue.claim("ann", item_id=queue.enqueue(entry))
    queue.answer(item.id, reviewer="ann", token=item.lease_token, values={"category": "bug"})
    with database.reading() as connection:
        rows = [
            list(map(tuple, connection.execute(select(table)))) for table in metadata.sorted_tables
        ]
    stored = json.dumps(rows, default=str)
    assert ("canary@" in stored) is not is_hiding
    assert ("[EMAIL_1]" in stored) is is_hiding
