"""`weighbridge review reweigh` from the command on: a real router, queue and certificate."""

from __future__ import annotations

import json
from contextlib import closing

from page_world import entry
from typer.testing import CliRunner

from weighbridge.cli import app
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database

EMPTY = """
[review]
database = "sqlite:///{folder}/wb.db"
[[provider]]
name = "hosted"
kind = "openai"
base_url = "http://127.0.0.1:9"
model = "m"
{more}
"""


def run(tmp_path, *arguments: str, more: str = ""):
    config = tmp_path / "weighbridge.toml"
    config.write_text(EMPTY.format(folder=tmp_path, more=more), "utf-8")
    return CliRunner().invoke(app, ["review", "reweigh", *arguments, "--config", str(config)])


def test_without_audits_nobody_is_asked(tmp_path):
    """And nobody has to say yes to it."""
    result = run(tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"audits": 0, "reweighed": 0}
    assert "No audit is judged yet." in run(tmp_path).output


def test_providers_that_are_paid_are_not_asked_unless_somebody_says_yes(tmp_path):
    """Where nobody can be asked, the message names the option."""
    assert run(tmp_path).exit_code == 0
    with closing(ReviewQueue(Database(f"sqlite:///{tmp_path}/wb.db"))) as queue:
        item_id = queue.enqueue(entry("a", is_audit=True))
        token = queue.claim("ann").lease_token
        queue.answer(item_id, reviewer="ann", token=token, values={"category": "bug"})
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "this asks the providers about 1 tickets; say --yes" in result.output


def test_redacted_texts_are_refused_with_the_reason(tmp_path):
    """Other texts weigh otherwise, and a certificate over them would be about other tickets."""
    result = run(tmp_path, more="[redaction]\nqueue = true")
    assert result.exit_code == 2
    assert "only new audits count" in result.output
