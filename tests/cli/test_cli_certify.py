"""`weighbridge certify`, the statistics, and what a certificate changes for a ticket."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from audited import stock

from weighbridge.decision import CalibrationKey
from weighbridge.store.database import Database

KEY = CalibrationKey(
    provider="groq", model="m-1", prompt="p-1", schema="s-1", field="category", source="combined"
)


@pytest.fixture
def database(home: Path) -> Database:
    with closing(Database(f"sqlite:///{home}/queue.db")) as database:
        yield database


def audits(number: int, wrong: int = 0) -> list[tuple[float, bool]]:
    return [(0.97, False)] * wrong + [(0.97, True)] * (number - wrong)


def test_threshold_that_labels_prove_is_certified(cli, database):
    """The tests are shown, then what they prove and what ends it."""
    stock(database, KEY, audits(300), [0.97] * 200)
    ran = cli("certify", "--risk", "0.02")
    assert ran.code == 0
    assert "category: groq, m-1 (combined)" in ran.out
    assert re.search(r"0\.5 +100% +300 +0 +1\.22% .*passed", ran.out)
    assert "certified: from 0.5 on, ≤2 % at 95 % wrong; 100% of the traffic, until" in ran.out
    (line,) = cli("certify", "--risk", "0.02", "--json").lines
    assert line["certificate"]["threshold"] == 0.5
    assert (line["round"], line["num_labels"], line["missing"]) == (2, 300, None)


def test_too_few_labels_say_how_many_more_and_how_long(cli, database, home):
    stock(database, KEY, audits(100), [0.97] * 900)
    (home / "weighbridge.toml").write_text(
        (home / "weighbridge.toml").read_text().replace("audit_rate = 0", "audit_rate = 0.05")
    )
    ran = cli("certify", "--risk", "0.02")
    assert ran.code == 1
    said = "not certifiable yet (too few labels): 83 more audited labels needed, about 2 days"
    assert f"{said} at 1000 tickets a day and an audit rate of 5.0%" in ran.out
    (line,) = cli("certify", "--risk", "0.02", "--json").lines
    assert (line["certificate"], line["num_missing"], line["round"]) == (None, 83, 1)


def test_nothing_is_drawn_at_an_audit_rate_of_zero_and_certify_says_so(cli, database):
    stock(database, KEY, audits(10))
    ran = cli("certify", "--risk", "0.02")
    assert "set [review] audit_rate" in ran.out
    assert "about" not in ran.out


def test_dry_run_tells_the_plan_and_no_outcome(cli, database):
    """How many of the labels may be wrong, not how many are; nothing is kept."""
    stock(database, KEY, audits(300, wrong=60))
    ran = cli("certify", "--risk", "0.02", "--dry-run")
    assert ran.code == 0
    assert "may be wrong" in ran.out
    assert "60" not in ran.out
    (line,) = cli("certify", "--risk", "0.02", "--json").lines
    assert (line["round"], line["tested"][0]["num_errors"]) == (1, 60)


def test_one_field_can_be_certified_alone(cli, database):
    stock(database, KEY, audits(300))
    stock(database, replace(KEY, field="priority"), audits(300))
    (line,) = cli("certify", "--risk", "0.02", "--field", "priority", "--json").lines
    assert line["key"]["field"] == "priority"
    ran = cli("certify", "--risk", "0.02", "--field", "prio")
    assert ran.code == 1
    assert "No answer was weighed of late in such a field." in ran.err


def test_starter_mode_promises_less(cli, database):
    stock(database, KEY, audits(60))
    ran = cli("certify", "--risk", "0.02", "--joint")
    assert ran.code == 0
    assert "≤2 % of all tickets on average" in ran.out


@pytest.mark.parametrize("risk", ["0", "1", "1.5", "nan"])
def test_risk_that_means_nothing_is_refused(cli, risk):
    ran = cli("certify", "--risk", risk)
    assert ran.code == 2
    assert "want the risk above 0 and below 1" in ran.err


def test_plot_is_a_picture(cli, database, home):
    """One row for each kind of answer; a folder cannot be one."""
    stock(database, KEY, [(c / 100, c % 7 > 0) for c in range(60, 100)] * 4)
    cli("certify", "--risk", "0.3", "--plot", home / "plot.png")
    assert (home / "plot.png").read_bytes().startswith(b"\x89PNG")
    ran = cli("certify", "--risk", "0.3", "--plot", home)
    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_statistics_tell_what_audits_found_and_what_is_promised(cli, database):
    stock(database, KEY, audits(300, wrong=1), [0.97] * 100)
    cli("certify", "--risk", "0.03")
    ran = cli("review", "stats")
    assert "triage.category  0.3% of 300 blind audits wrong (Wilson 0.1%" in ran.out
    assert "certificate 1: at most 0.03 of the accepted wrong, with confidence 0.95" in ran.out
    stock(database, KEY, [(0.97, False)] * 10)
    metrics = json.loads(cli("review", "stats", "--json").out)["metrics"]
    (key,) = metrics["keys"]
    assert (key["certificate"], key["num_labels"]) == ("1", 310)
    assert metrics["triggers"]["audit"]["num_decisions"] == 310


def test_statistics_of_an_empty_queue_are_short(cli):
    ran = cli("review", "stats")
    assert ran.code == 0
    assert "0 items wait" in ran.out
