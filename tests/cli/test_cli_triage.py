from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from provider_stub import configure

HOSTILE = "\x1b[31mred\x9b2J\x07 [red]x[/] [/] :bomb: \u202eevil \x1b]0;title\x07"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def jsonl(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


@pytest.mark.parametrize(
    "text",
    [
        "I was charged twice.\n",
        "one\ntwo\n",
        '{"id": "7", "text": "no ticket of ours"}',
        '{"ticket_id": "7", "status": "accepted", "value": {"category": "bug"}}',
        '{"body": "half a tick',
        '{"body": "one"}\nand a line of text',
        '"a JSON text"',
        "a,b\n1,2\n",
    ],
)
def test_text_on_standard_input_is_one_ticket(cli, stub, text):
    """Also when it is itself JSON, such as a decision of ours: nothing in it is believed."""
    ran = cli("triage", "--json", stdin=text.encode())
    assert (ran.code, len(ran.lines)) == (0, 1)
    assert ran.lines[0]["value"] == {"category": "billing", "priority": "high"}
    assert len(stub.tickets()) == 1
    assert text in stub.tickets()[0]


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (b"\xef\xbb\xbfhello", "hello"),
        (b"caf\xe9", "caf\ufffd"),
        (b"a\0b", "a\ufffdb"),
        (b"a\r\nb", "a\nb"),
        ("😀 ü".encode(), "😀 ü"),
        (b"a long story. " * 75_000, "a long story. " * 75_000),
    ],
)
def test_no_byte_costs_the_ticket(cli, stub, raw, read):
    """What is no UTF-8 becomes U+FFFD."""
    ran = cli("triage", "--json", stdin=raw)
    assert (ran.code, len(ran.lines)) == (0, 1)
    assert stub.tickets()[0] == read


@pytest.mark.parametrize("raw", [b"", b" \n\t\n", b"\xef\xbb\xbf", "\u200b\u00a0".encode()])
def test_empty_input_goes_to_a_person_and_to_no_provider(cli, stub, raw):
    ran = cli("triage", "--json", stdin=raw)
    assert [line["reasons"][0] for line in ran.lines] == ["empty_ticket"]
    assert (ran.code, stub.asked) == (0, [])


def test_bad_lines_are_named_and_the_others_decided(cli):
    """A run with bad lines ends with 1."""
    bad = [
        b'{"body": "cut',
        b"[1]",
        b"7",
        b'{"boddy": "x"}',
        b'{"body": "x", "body": "y"}',
        b'{"body": NaN}',
        b'{"body": "\\ud83d"}',
        b'{"body": 5}',
        b'{"id": true, "body": "x"}',
    ]
    good = jsonl({"id": 1, "body": "x"}, "a text", {"id": "3", "subject": "s"})
    (path := Path("in.jsonl")).write_bytes(b"\n".join([*bad, b"", good]))
    ran = cli("triage", path, "--json")
    assert ran.code == 1
    assert [line["ticket_id"] for line in ran.lines][::2] == ["1", "3"]
    assert re.findall(r"in\.jsonl:(\d+)", ran.err) == [str(n) for n in range(1, len(bad) + 1)]
    assert "the nearest is 'body'" in ran.err


def test_table_of_comma_separated_values_keeps_every_cell(cli, stub):
    """Quotes, line ends, and columns that are not ours."""
    (path := Path("in.csv")).write_bytes(
        b"\xef\xbb\xbfid,subject,body,plan\r\n"
        b'1,"He said ""no""","two\nlines, and a comma",Team\r\n'
        b"2,too,few\r\n"
        b"3,one,too,many,cells\r\n"
        b"\r\n"
        b",,no id,\r\n"
    )
    ran = cli("triage", path, "--json", "--concurrency", 1)
    assert (ran.code, len(ran.lines)) == (1, 2)
    assert ran.err.count("not as many cells as columns") == 2
    assert stub.tickets()[0] == 'He said "no"\n\ntwo\nlines, and a comma'
    items = cli("review", "show", "--json").lines
    assert [item["ticket"]["metadata"] for item in items] == [{"plan": "Team"}, {"plan": ""}]


@pytest.mark.parametrize("content", ["", "text\nx\n", 'id,body\n1,"never closed\n'])
def test_table_that_is_none_is_refused(cli, content):
    (path := Path("in.csv")).write_text(content)
    ran = cli("triage", path)
    assert (ran.code, ran.out) == (1, "")
    assert "in.csv" in ran.err


def test_format_goes_before_the_suffix(cli, stub):
    (path := Path("in.jsonl")).write_text('{"body": "x"}')
    cli("triage", path, "--format", "text")
    assert stub.tickets() == ['{"body": "x"}']


def test_file_that_cannot_be_read_is_a_usage_error_before_anything_is_asked(cli, stub, home):
    for path in ("none.txt", home):
        ran = cli("triage", "-", path, stdin=b"hello")
        assert (ran.code, ran.out, stub.asked) == (2, "", [])
        assert "error: " in ran.err


def test_json_lines_are_ascii_and_one_a_ticket(cli):
    """Line separators of Unicode, C1 controls and locales cannot break them."""
    ids = ["a\u2028b", "c\u0085d", "ü", "😀", "\x9b31m", "\u202e"]
    ran = cli("triage", "--json", stdin=jsonl(*({"id": i, "body": "x"} for i in ids)))
    assert [line["ticket_id"] for line in ran.lines] == ids
    assert ran.out.isascii()
    assert not CONTROL.search(ran.out)


def test_hostile_ticket_cannot_reach_the_terminal(cli, monkeypatch):
    """Neither as escape sequences nor as markup; what it wrote stays visible."""
    monkeypatch.setenv("NO_COLOR", "1")
    tickets = [{"id": HOSTILE, "subject": HOSTILE, "body": HOSTILE}, {"id": "[/]", "body": "[/b]"}]
    ran = cli(
        "triage",
        "--trail",
        "--concurrency",
        1,
        stdin=jsonl(*tickets, {"id": "x\naccepted", "body": "y"}),
    )
    assert ran.code == 0
    assert "[/]" in ran.out
    assert "x accepted" in ran.out
    item = cli("review", "next").out.split()[1]
    shown = cli("review", "show", item)
    assert "[red]x[/] [/] :bomb:" in shown.out
    for one in (ran, cli("review", "show"), cli("review", "next"), shown):
        assert one.code == 0
        assert not CONTROL.search(one.out + one.err)


def test_hostile_key_in_an_error_is_shown_harmless(cli):
    ran = cli("triage", "--format", "jsonl", stdin=jsonl({HOSTILE: 1, "body": "x"}))
    assert ran.code == 1
    assert not CONTROL.search(ran.err)
    assert "[red]" in ran.err


def test_colours_are_for_terminals_that_want_them(cli, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[3" in cli("triage", stdin=b"hello").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in cli("triage", stdin=b"hello").out


def test_output_is_resumed(cli, stub, home):
    """Whatever is in the file is not asked again; a line cut short is."""
    output = home / "out.jsonl"
    tickets = jsonl(*({"id": f"ü{n}", "body": f"ticket {n}"} for n in range(5)))
    first = cli("triage", "--output", output, stdin=tickets)
    assert first.code == 0
    whole = output.read_bytes()
    assert [json.loads(line)["ticket_id"] for line in whole.splitlines()] == [
        f"ü{n}" for n in range(5)
    ]
    lines = whole.splitlines(keepends=True)
    for kept in (b"".join(lines[:3]), b"".join(lines[:3]) + lines[3][:9], whole[:3], b""):
        output.write_bytes(kept)
        stub.asked.clear()
        assert cli("triage", "--output", output, "--json", stdin=tickets).code == 0
        done = kept.count(b"\n")
        assert len(stub.asked) == 5 - done
        again = [json.loads(line)["ticket_id"] for line in output.read_bytes().splitlines()]
        assert again == [f"ü{n}" for n in range(5)]
    assert "5 already done" in cli("triage", "--output", output, stdin=tickets).err


@pytest.mark.parametrize(
    "content",
    [b"my only notes", b"notes\nmore notes", b'{"body": "x"}\n', b"\n", b"\xff\n", b"[]\n"],
)  # fmt: skip
def test_output_file_of_somebody_else_is_refused_and_stays(cli, stub, home, content):
    (path := home / "notes.txt").write_bytes(content)
    ran = cli("triage", "--output", path, stdin=b"hello")
    assert (ran.code, stub.asked) == (2, [])
    assert "not a decision of ours" in ran.err
    assert path.read_bytes() == content


def test_output_that_cannot_be_written_is_a_usage_error(cli, stub, home):
    for path in (home, home / "none" / "out.jsonl"):
        ran = cli("triage", "--output", path, stdin=b"hello")
        assert (ran.code, stub.asked) == (2, [])
        assert "cannot be written" in ran.err


@pytest.mark.parametrize("arguments", [["--concurrency", "0"], ["--format", "xml"], ["--nonsense"]])
def test_wrong_call_is_a_usage_error(cli, arguments):
    assert cli("triage", *arguments, stdin=b"hello").code == 2


def test_wrong_configuration_is_a_usage_error_with_its_hint(cli, home):
    (path := home / "other.toml").write_text("[routr]\n")
    ran = cli("triage", "--config", path, stdin=b"hello")
    assert ran.code == 2
    assert "other.toml: routr: unknown key\n" in ran.err
    assert "The nearest is 'router'." in ran.err


@pytest.mark.parametrize("arguments", [["triage"], ["review", "show"], ["review", "stats"]])
@pytest.mark.parametrize("kind", ["folder", "text"])
def test_database_that_cannot_be_used_fails_with_a_hint(cli, stub, home, arguments, kind):
    path = home / "bad.db"
    path.mkdir() if kind == "folder" else path.write_text("plain text, no database\n" * 50)
    configure(home, stub, database="sqlite:///bad.db")
    ran = cli(*arguments, stdin=b"hello")
    assert (ran.code, ran.out, stub.asked) == (1, "", [])
    assert "error: review database sqlite:///bad.db: " in ran.err
    assert "hint:  Check [review] database" in ran.err


def test_hint_for_reviewers_can_be_pasted(cli, home, stub):
    """A path with a space in it stays one argument."""
    (folder := home / "my files").mkdir()
    configure(folder, stub)
    ran = cli("triage", "--config", folder / "weighbridge.toml", stdin=b"hello")
    assert f"review next --config '{folder / 'weighbridge.toml'}'" in ran.err


def test_summary_says_which_setting_keeps_unweighed_answers_from_being_accepted(cli, home):
    """With a hosted model in front and the default policy, nothing would ever be accepted."""
    ran = cli("triage", stdin=b"I was charged twice")
    assert "1 with an answer that has no numbers to weigh it by" in ran.err
    assert "[gate] without_evidence" in ran.err
    path = home / "weighbridge.toml"
    path.write_text(path.read_text() + '[gate]\nwithout_evidence = "accept"\n')
    assert "without_evidence" not in cli("triage", stdin=b"I was charged twice").err


def test_summary_says_how_to_see_why_nobody_answered(cli, home, stub):
    path = home / "weighbridge.toml"
    path.write_text(path.read_text().replace(stub.url, "http://127.0.0.1:1/v1"))
    path.write_text("[router]\ndeadline = '1s'\n" + path.read_text())
    assert "1 without an answer: --trail shows why." in cli("triage", stdin=b"charged twice").err
    assert "--trail" not in cli("triage", "--trail", stdin=b"charged twice").err


def test_no_empty_line_stands_where_a_progress_bar_would(cli):
    """A log or a pipe has no use for it."""
    ran = cli("triage", stdin=b'{"body": "charged twice"}\n{"body": "charged thrice"}\n')
    assert "\n\n" not in ran.err
    assert not ran.err.startswith("\n")
