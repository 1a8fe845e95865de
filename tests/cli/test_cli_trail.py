"""The trail for people: complete, within the terminal, and out of hostile hands."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider_stub import ANSWER
from rich.cells import cell_len
from rich.console import Console

from weighbridge.cli.trail import WORDS, outcome, print_trails
from weighbridge.decision import Attempt, Decision, FailureKind

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
ANSWERED = Attempt(
    provider="groq",
    model="openai/gpt-oss-20b",
    status=200,
    seconds=0.52,
    waited_s=2.0,
    prompt_tokens=812,
    completion_tokens=14,
    cost_usd=0.00007,
    mode="native",
    dropped=("seed", "logit_bias"),
    losses=("maxLength at /reply",),
)
BUSY = Attempt(
    provider="groq",
    model="openai/gpt-oss-20b",
    failure=FailureKind.RATE_LIMIT,
    status=429,
    seconds=0.31,
    mode="native",
    detail="status 429",
)


def shown(*trail: Attempt, width: int = 120, ticket_id: str = "t-17") -> str:
    decision = Decision(
        ticket_id=ticket_id, task="triage", status="review", value=None, trail=tuple(trail)
    )
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    print_trails(console, [decision])
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def words(text: str) -> str:
    """Without line ends, indents and the table's rules."""
    return " ".join(text.split())


def test_every_kind_of_failure_has_words_of_its_own() -> None:
    """Nobody who reads the table needs to know our enum."""
    assert set(WORDS) == set(FailureKind)
    assert len(set(WORDS.values())) == len(FailureKind)


def test_attempts_are_rows_with_all_that_is_known() -> None:
    """What is too long for a column stands below, by number."""
    lines = shown(BUSY, ANSWERED).splitlines()
    assert lines[1] == "ticket t-17: review"
    assert [words(line) for line in (lines[2], *lines[4:6])] == [
        "# provider model mode outcome status seconds waited tokens cost",
        "1 groq openai/gpt-oss-20b native rate limited 429 0.31",
        "2 groq openai/gpt-oss-20b native answered 200 0.52 2.00 812+14 $0.00007",
    ]
    assert [line.strip() for line in lines[6:]] == [
        "1: status 429",
        "2: left out, since it lacks them: seed; logit_bias",
        "2: not enforced by it, checked here: maxLength at /reply",
    ]


def test_column_that_is_empty_is_left_out() -> None:
    """The local engine has neither status nor price."""
    local = Attempt(provider="offline", model="smollm2-135m", seconds=0.16, mode="native")
    header = shown(local).splitlines()[2].split()
    assert header == ["#", "provider", "model", "mode", "outcome", "seconds"]


def test_wait_that_would_be_shown_as_none_is_left_out() -> None:
    """A place within the limits is looked for in microseconds, and that is no wait."""
    assert "waited" not in shown(replace(BUSY, waited_s=0.0049))
    assert "0.01" in shown(replace(BUSY, waited_s=0.0051))


def test_narrow_terminal_gets_a_list_with_the_same() -> None:
    text = shown(BUSY, ANSWERED, width=44)
    assert "#" not in text
    told = words(text)
    assert "1. groq, openai/gpt-oss-20b, native rate limited, 0.31 s, status 429" in told
    assert (
        "2. groq, openai/gpt-oss-20b, native answered, 0.52 s, status 200, waited 2.00 s, "
        "tokens 812+14, costs $0.00007 left out, since it lacks them: seed; logit_bias "
        "not enforced by it, checked here: maxLength at /reply"
    ) in told


def test_what_only_weighed_says_so() -> None:
    weighed = Attempt(
        provider="groq", model="m", seconds=1.0, detail="2 more requests to weigh the answer"
    )
    assert outcome(weighed) == "2 more requests to weigh the answer"
    assert shown(weighed).count("to weigh the answer") == 1
    assert outcome(ANSWERED) == "answered"


def test_ticket_without_attempts_says_so() -> None:
    assert "nobody was asked" in shown()


HOSTILE = [
    "\x1b[31mred\x9b2J\x07",
    "[red]x[/]",
    ":bomb:",
    "\u202eevil",
    "\x1b]0;t\x07",
    "a\nb",
    "漢字",
]
names = st.text(min_size=1, max_size=60) | st.sampled_from(HOSTILE)
attempts = st.builds(
    Attempt,
    provider=st.from_regex(r"[a-z]{1,12}", fullmatch=True),
    model=names,
    failure=st.none() | st.sampled_from(FailureKind),
    status=st.none() | st.integers(100, 599),
    seconds=st.floats(0.0, 1e4),
    waited_s=st.floats(0.0, 1e4),
    detail=names | st.just(""),
    prompt_tokens=st.none() | st.integers(0, 10**7),
    completion_tokens=st.none() | st.integers(0, 10**7),
    cost_usd=st.none() | st.floats(0.0, 1e3),
    mode=st.sampled_from(["native", "tool", "json_mode", "prompted", None]),
    dropped=st.lists(names, max_size=3).map(tuple),
    losses=st.lists(names, max_size=3).map(tuple),
)


@settings(deadline=None)  # the first table of a process loads what draws it
@given(trail=st.lists(attempts, min_size=1, max_size=4), width=st.integers(24, 160), name=names)
def test_no_trail_leaves_the_terminal_or_takes_it_over(
    trail: list[Attempt], width: int, name: str
) -> None:
    """Every line fits, nothing controls the terminal, and every attempt is there."""
    text = shown(*trail, width=width, ticket_id=name)
    assert not CONTROL.search(text)
    assert all(cell_len(line) <= width for line in text.split("\n"))
    told = words(text)
    for attempt in trail:
        assert attempt.provider in told
        if attempt.failure is not None:
            assert WORDS[attempt.failure] in told


@pytest.mark.parametrize("model", ["[red]x[/]", ":bomb: [/] [bold]"])
def test_markup_in_a_models_name_is_shown_as_it_is(model: str) -> None:
    text = shown(Attempt(provider="a", model=model, mode="native"))
    assert model in text


def test_option_shows_the_trail_below_the_decisions(cli) -> None:
    """And only where it is given."""
    with_trail = cli("triage", "--trail", stdin=b"I was charged twice")
    without = cli("triage", stdin=b"I was charged twice")
    assert (with_trail.code, without.code) == (0, 0)
    assert re.search(r"1\s+stub\s+m\s+\w+\s+answered\s+200", with_trail.out)
    assert "10+5" in with_trail.out
    assert "answered" not in without.out


def test_json_is_the_same_with_the_option(cli) -> None:
    """It has the trail anyway."""
    with_trail, without = (
        cli("triage", "--json", *option, stdin=b"I was charged twice").lines
        for option in (["--trail"], [])
    )
    assert len(with_trail) == len(without) == 1
    for line in (*with_trail, *without):
        (attempt,) = line["trail"]
        assert attempt.pop("seconds") >= 0.0
        assert (attempt["provider"], attempt["prompt_tokens"]) == ("stub", 10)
        assert line["value"] == ANSWER
        line.pop("review_id")
    assert with_trail == without
