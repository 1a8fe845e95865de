"""Tickets out of help desks' files: which column is what, and that no row is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.cli.columns import Columns
from weighbridge.cli.inputs import InputFormat, read_tickets
from weighbridge.errors import TicketInvalid

names = st.text("ab.", min_size=1, max_size=3)
rows = st.recursive(st.integers(), lambda inner: st.dictionaries(names, inner, max_size=3))


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, asked=None, form=InputFormat.AUTO):
    notes = []
    return list(read_tickets(path, form, asked, notes.append)), notes


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_and_encodings_are_recognised(tmp_path, separator, encoding):
    """By the header alone: the cells hold every other separator, quotes and line ends."""
    head = separator.join(["id", '"the\nplan, or; so"', "subject", "body"])
    text = f'{head}\r\n1{separator}x{separator}é{separator}"a, b; c\t""d""\ne"\r\n\r\n'
    ((ticket,), notes) = read(written(tmp_path, "in.csv", text.encode(encoding)))
    assert (ticket.id, ticket.subject, ticket.body) == ("1", "é", 'a, b; c\t"d"\ne')
    assert ticket.metadata == {"the\nplan, or; so": "x"}
    assert notes == []


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
def test_one_column_is_a_table_too(tmp_path, name):
    ((ticket,), _) = read(written(tmp_path, name, "body\nhello; you\n"))
    assert ticket.body == "hello; you"


@pytest.mark.parametrize(
    ("header", "export"),
    [
        ("id,subject,description", "Zendesk or Freshdesk"),
        ("Ticket ID,Status,Subject,Description", "Freshdesk"),
        ("Ticket ID,Ticket name,Ticket description", "HubSpot"),
        ("Summary,Issue key,Issue id,Description", "Jira"),
        ("Case Number,Subject,Description", "Salesforce"),
    ],
)
def test_a_known_export_is_read_and_said(tmp_path, header, export):
    """Each column that is none of a ticket's travels along."""
    columns = header.split(",")
    ((ticket,), (note,)) = read(written(tmp_path, "in.csv", f"{header}\n{header}\n"))
    texts = {ticket.id, ticket.subject, ticket.body}
    assert ticket.body in ("description", "Description", "Ticket description")
    assert len(texts) == 3
    assert texts | set(ticket.metadata) == set(columns)
    assert f"read as a file of {export}: id = {ticket.id!r}" in note


@pytest.mark.parametrize(
    "value",
    [
        {"id": 7, "subject": "s", "description": "b", "status": "open"},
        {"id": 7, "properties": {"subject": "s", "content": "b"}},
        {"key": "7", "fields": {"summary": "s", "description": "b"}},
        {"id": "7", "source": {"subject": "s", "body": "b", "type": "email"}},
        {"id": 7, "Subject": "s", "Body": "b"},
    ],
)
def test_a_known_object_is_read_and_said(tmp_path, value):
    ((ticket,), notes) = read(written(tmp_path, "in.jsonl", json.dumps(value)))
    assert (ticket.id, ticket.subject, ticket.body) == ("7", "s", "b")
    assert len(notes) == 1


@pytest.mark.parametrize(
    "header",
    ["subject,description", "text", "Ticket ID,Case Number,Subject,Description", "Body,BODY"],
)
def test_nothing_is_guessed_that_could_be_meant_otherwise(tmp_path, header):
    """The error lists the columns, and says how to name one."""
    ((error,), notes) = read(written(tmp_path, "in.csv", f"{header}\n{header}\n"))
    assert isinstance(error, TicketInvalid)
    assert "--map body=COLUMN" in str(error)
    assert all(repr(column) in str(error) for column in header.split(","))
    assert notes == []


def test_columns_are_mapped_as_told(tmp_path):
    """Whatever else would have been guessed; in JSON through nested keys too."""
    path = written(tmp_path, "in.csv", "id,body,note,text\n1,b,n,t\n")
    ((ticket,), notes) = read(path, {"body": "text", "id": "note"})
    assert (ticket.id, ticket.body, notes) == ("n", "t", [])
    assert ticket.metadata == {"id": "1", "body": "b"}
    lines = [{"comment": {"body": "b", "by": "al"}, "n": 1}, {"comment": None}, "a text", {"n": 2}]
    path = written(tmp_path, "in.jsonl", "\n".join(map(json.dumps, lines)))
    tickets, _ = read(path, {"body": "comment.body"})
    assert [ticket.body for ticket in tickets] == ["b", "", "a text", ""]
    assert tickets[0].metadata == {"comment": {"by": "al"}, "n": 1}


@given(row=st.dictionaries(names, rows, max_size=3), name=names)
def test_mapping_a_key_takes_it_and_nothing_else(row, name):
    """What is not taken is metadata, letter by letter."""
    fields = Columns(by_field={"body": name}).fields(row)
    if "body" not in fields:
        assert fields["metadata"] == row
    elif name in row:
        assert {**fields["metadata"], name: fields["body"]} == row
    else:
        key, _, below = name.partition(".")
        inner = Columns(by_field={"body": below}).fields(row[key])
        assert fields == {"body": inner["body"], "metadata": {**row, key: inner["metadata"]}}


@pytest.mark.parametrize(
    ("content", "asked", "problem"),
    [
        (
            "id,text\n",
            {"body": "txt"},
            "no column 'txt'; the nearest is 'text'; columns: 'id', 'text'",
        ),
        ("", {"body": "text"}, "no column 'text'; columns: none"),
        ("text,text\na,b\n", {"body": "text"}, "the column 'text' is there twice"),
        ("text,note\n", {"id": "note"}, "no column `body`"),
    ],
)
def test_a_mapping_that_does_not_fit_is_an_error_at_once(tmp_path, content, asked, problem):
    with pytest.raises(TicketInvalid) as caught:
        read(written(tmp_path, "in.csv", content), asked)
    assert problem in str(caught.value)


def test_a_key_that_no_line_has_is_an_error(tmp_path):
    path = written(tmp_path, "in.jsonl", '{"comment": {"text": "x"}}\n')
    with pytest.raises(TicketInvalid, match=r"no column 'comment\.body'; .*columns: 'comment'"):
        read(path, {"body": "comment.body"})


def test_columns_of_one_name_keep_all_their_cells(tmp_path):
    """Jira writes one for each comment."""
    header = "Issue key,Summary,Description,Comment,Comment"
    ((ticket,), _) = read(written(tmp_path, "in.csv", f"{header}\nA-1,s,d,one,two\n"))
    assert ticket.metadata == {"Comment": ["one", "two"]}


@pytest.mark.parametrize(
    ("cell", "value"),
    [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False), ("", False)],
)
@pytest.mark.parametrize("column", ["local_only", "Local Only", "LOCAL-ONLY"])
def test_a_table_says_what_stays_on_the_machine(tmp_path, cell, value, column):
    """In whatever capitals: a flag that is not recognised would let a ticket out."""
    ((ticket,), _) = read(written(tmp_path, "in.csv", f"body,{column}\nx,{cell}\n"))
    assert ticket.local_only is value


@pytest.mark.parametrize("cell", ["yes", "2", "canary"])
def test_a_flag_that_says_something_else_is_an_error(tmp_path, cell):
    ((error,), _) = read(written(tmp_path, "in.csv", f"body,local_only\nx,{cell}\n"))
    assert str(error).endswith("in.csv:2: local_only: Input should be a valid boolean")


@pytest.mark.parametrize("value", [True, 1, "true", "1"])
def test_a_line_says_what_stays_on_the_machine(tmp_path, value):
    ((ticket,), _) = read(
        written(tmp_path, "in.jsonl", json.dumps({"body": "x", "local_only": value}))
    )
    assert ticket.local_only is True


def test_html_in_a_column_is_read_as_html(tmp_path):
    path = written(tmp_path, "in.csv", 'text,type\n"a <b>bit</b>",text/html\n"a <b>bit</b>",\n')
    tickets, _ = read(path, {"body": "text", "content_type": "type"})
    assert [ticket.body for ticket in tickets] == ["a bit", "a <b>bit</b>"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--map", "body"], "is not FIELD=COLUMN"),
        (["--map", "=x"], "is not FIELD=COLUMN"),
        (["--map", "boddy=x"], "no field 'boddy' to map; the nearest is 'body'"),
        (["--map", "body=x", "--map", "body=y"], "two columns for one field"),
        (["--map", "body=x", "--map", "subject=x"], "one column for two fields"),
        (["--map", "body=nothing"], "the nearest is 'note'"),
        (["--map", "body=note", "--format", "text"], "plain text has no columns to map"),
    ],
)
def test_a_wrong_mapping_is_a_usage_error_before_anything_is_asked(cli, stub, arguments, problem):
    (path := Path("in.csv")).write_text("id,note\n1,x\n")
    ran = cli("triage", path, *arguments)
    assert (ran.code, ran.out, stub.asked) == (2, "", [])
    assert problem in ran.err


def test_an_export_goes_through_from_the_command_line(cli, stub):
    Path("in.csv").write_text("Ticket ID;Subject;Description\n7;Hi;<p>It is <b>broken</b></p>\n")
    ran = cli("triage", "in.csv", "--json")
    assert [line["ticket_id"] for line in ran.lines] == ["7"]
    assert "in.csv: read as a file of Freshdesk: id = 'Ticket ID'" in ran.err
    assert stub.tickets() == ["Hi\n\nIt is broken"]
    ran = cli("triage", "--map", "body=a.b", "--json", stdin=b'{"a": {"b": "from a pipe"}}\n')
    assert stub.tickets()[1:] == ["from a pipe"]


def test_tickets_of_one_id_are_all_decided_and_resumed(cli, stub, home):
    """Each has a line of its own, however often the run is stopped."""
    output = home / "out.jsonl"
    tickets = "".join(json.dumps({"id": "a", "body": f"ticket {n}"}) + "\n" for n in range(3))
    ran = cli("triage", "--output", output, stdin=tickets.encode())
    assert "2 have the id of an earlier ticket" in ran.err
    whole = output.read_bytes().splitlines(keepends=True)
    assert len(whole) == 3
    for kept in range(4):
        output.write_bytes(b"".join(whole[:kept]))
        stub.asked.clear()
        cli("triage", "--output", output, "--concurrency", 1, stdin=tickets.encode())
        assert stub.tickets() == [f"ticket {n}" for n in range(kept, 3)]
        assert output.read_bytes().count(b"\n") == 3
