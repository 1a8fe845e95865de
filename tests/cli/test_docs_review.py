"""What docs/review.md says is so."""

from __future__ import annotations

import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from typer.main import get_command

from weighbridge.cli.review import app
from weighbridge.review.telling.delivery import MAX_ATTEMPTS
from weighbridge.review.telling.signing import signed_headers
from weighbridge.settings import load_settings
from weighbridge.store import postgresql

PAGE = (Path(__file__).parents[2] / "docs" / "review.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_every_command_on_the_page_is_one_and_takes_its_options():
    commands: Any = get_command(app)
    named = re.findall(r"weighbridge review (\w+)([^#`\n]*)", PAGE)
    assert len(named) > 20
    for name, arguments in named:
        options = commands.commands[name].params
        known = {option for one in options for option in (*one.opts, *one.secondary_opts)}
        assert set(re.findall(r"--[\w-]+", arguments)) <= known, name


def test_every_command_of_the_queue_is_on_the_page():
    """Those of the page in the browser have pages of their own."""
    commands: Any = get_command(app)
    missing = {name for name in commands.commands if not re.search(rf"review {name}\b", PAGE)}
    assert missing <= {"serve", "people"}


def test_settings_on_the_page_are_valid():
    first, second, third = map(tomllib.loads, blocks("toml"))
    assert load_settings(first).review.retention == 90 * 86_400
    (hook,) = load_settings(second).review.webhook
    assert (hook.events, hook.timeout) == (("settled", "reopened"), 10.0)
    assert f"after {MAX_ATTEMPTS} attempts" in PAGE.replace("\n", " ")
    database = str(load_settings(third).review.database)
    assert postgresql.checked(make_url(database), "").drivername == "postgresql+psycopg"


def test_options_of_postgresql_on_the_page_are_those_that_are_taken():
    """And the one for another schema means that schema."""
    (told,) = re.findall(r"^- \*\*After `\?`\*\* stand.*?\. ", PAGE, re.DOTALL | re.MULTILINE)
    for option in re.findall(r"`(\w+)`", told):
        postgresql.checked(make_url(f"postgresql://a@b/c?{option}=x"), "")
    assert sorted(re.findall(r"`(\w+)`", told)) == sorted(postgresql._OPTIONS)
    (schema,) = re.findall(r"`(\?options=\S+)`", PAGE)
    assert make_url(f"postgresql://a@b/c{schema}").query == {"options": "-csearch_path=review"}


def test_receiver_on_the_page_takes_what_is_signed_and_nothing_else(capsys):
    (code,), (example,) = blocks("python"), blocks("json")
    names: dict[str, Any] = {}
    exec(compile(code, "review.md", "exec", dont_inherit=True), names)
    body = json.dumps(json.loads(example)).encode()
    headers = signed_headers("secret", "evt_1", body, now_s=time.time())
    assert [names["receive"]("secret", headers, body) for _ in range(2)] == [204, 204]
    assert names["receive"]("another", headers, body) == 400
    assert capsys.readouterr().out == "review.item.settled 1m8pdc030km2hyh\n"
