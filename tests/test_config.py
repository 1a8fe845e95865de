from __future__ import annotations

from pathlib import Path

import pytest

from weighbridge.config import build_router, build_task, open_queue
from weighbridge.errors import ConfigError, QueueUnavailable
from weighbridge.provider_config import build_provider, endpoint, read_key
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.protocol import Failure
from weighbridge.router.visit import planned
from weighbridge.schemas.ticket import Ticket
from weighbridge.settings import load_settings
from weighbridge.webhook_config import build_webhooks

CANARY = "sk-canary-0123456789"

HOOK = {"name": "desk", "url": "https://hook.example/in"}
OPENAI = {"name": "a", "kind": "openai", "base_url": "https://host/v1", "model": "m"}


def chosen(**changes):
    return load_settings({"provider": [{**OPENAI, **changes}]}).provider[0]


def hooked(**given):
    return load_settings({"review": {"webhook": [{**HOOK, **given}]}})


def task(**given):
    return build_task(load_settings({"task": given}))


def test_key_comes_from_the_environment_or_a_file(tmp_path, monkeypatch):
    """Without the line end that editors add."""
    monkeypatch.setenv("SOME_KEY", f" {CANARY}\n")
    path = tmp_path / "key"
    path.write_text(f"{CANARY}\n")
    for named in (chosen(api_key_env="SOME_KEY"), chosen(api_key_file=str(path))):
        key = read_key(named)
        assert key is not None
        assert key.get_secret_value() == CANARY
        assert CANARY not in f"{key!r} {named!r} {vars(build_provider(named, MemoryLedger()))!r}"
    assert read_key(chosen()) is None


@pytest.mark.parametrize("value", [None, "", "  ", f"{CANARY}\nx: y", f"{CANARY}é", f"{CANARY}\0"])
def test_key_that_is_missing_or_fits_no_header_is_refused_and_not_repeated(
    tmp_path, monkeypatch, value
):
    path = tmp_path / "key"
    monkeypatch.delenv("SOME_KEY", raising=False)
    sources = [("api_key_file", str(path))]
    if value is not None:
        path.write_text(value, "utf-8")
    if value is None or "\0" not in value:  # no environment can hold that
        sources.append(("api_key_env", "SOME_KEY"))
        if value is not None:
            monkeypatch.setenv("SOME_KEY", value)
    for name, source in sources:
        with pytest.raises(ConfigError) as refused:
            read_key(chosen(**{name: source}))
        assert refused.value.key == name
        assert CANARY not in f"{refused.value!r} {refused.value} {refused.value.hint}"


@pytest.mark.parametrize("path", [".", "/none/such", "~nobody-of-this-name/key"])
def test_key_file_that_cannot_be_read_is_refused(path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_key(chosen(api_key_file=path))


def test_secret_of_a_webhook_comes_from_the_environment_or_a_file(tmp_path, monkeypatch):
    """One of them; what they hold is never repeated."""
    monkeypatch.setenv("SOME_SECRET", CANARY)
    path = tmp_path / "secret"
    path.write_text(f"{CANARY}\n")
    for named in ({"secret_env": "SOME_SECRET"}, {"secret_file": str(path)}):
        [hook] = build_webhooks(hooked(**named))
        assert hook.secret == CANARY
        assert CANARY not in repr(hook)
    for named in ({}, {"secret_env": "SOME_SECRET", "secret_file": str(path)}):
        with pytest.raises(ConfigError, match="one of them"):
            build_webhooks(hooked(**named))


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (None, "cannot be read: No such file"),
        (" \n", "is empty"),
        (f"whsec_{CANARY}", "is no secret: want base 64"),
    ],
)
def test_webhook_without_a_secret_is_refused_and_says_what_a_secret_is(tmp_path, written, problem):
    """As keys of providers are."""
    path = tmp_path / "secret"
    if written is not None:
        path.write_text(written)
    with pytest.raises(ConfigError, match=problem) as refused:
        build_webhooks(hooked(secret_file=str(path)))
    assert refused.value.key == "secret_file"
    assert CANARY not in f"{refused.value!r} {refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    "labels",
    [
        ["only"],
        [f"label {number}" for number in range(200)],
        ["🧾 billing", "🐞 bug"],
        ["feature request", 'the "other"', "it's", "[red]", "a=b", "Straße", "description", "list"],
    ],
)
def test_labels_are_the_options_in_their_order(labels):
    """Whether they come as a list, with descriptions, or with phrases."""
    forms = (
        labels,
        {name: "about" for name in labels},  # noqa: C420  # a mapping as the file has it
        {name: {"description": "about", "phrases": ["Say."]} for name in labels},
    )
    for form in forms:
        assert task(categories=form).fields[0].options == tuple(labels)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (["bug", "bug"], "occurs twice"),
        (["bug", "Bug"], "only in case"),
        ({"bug": "x", "BUG": "y"}, "only in case"),
        (["STRASSE", "straße"], "only in case"),
        ([""], "needs a name"),
        (["   "], "needs a name"),
        (["bug "], "surrounding"),
        (["b\x1b[31mug"], "invisible"),
        ([], "at least one"),
        ({}, "at least one"),
        ({"bug": {"phrases": [" "]}}, "described by"),
    ],
)
def test_labels_that_cannot_be_told_apart_are_refused(labels, problem):
    with pytest.raises(ConfigError, match=problem):
        task(categories=labels)


def test_empty_list_of_priorities_leaves_the_field_out():
    assert [field.name for field in task(priorities=[]).fields] == ["category"]


def test_requiring_a_field_that_was_left_out_is_refused():
    with pytest.raises(ConfigError, match="no judged field"):
        task(priorities=[], fields={"priority": {"required": True}})


def test_required_fields_are_as_configured():
    asked = task(fields={"priority": {"required": True}, "category": {"required": False}})
    assert {f.name: f.required for f in asked.fields} == {"category": False, "priority": True}


def test_router_asks_in_the_configured_order(tmp_path):
    """What `order` leaves out is never asked."""
    names = ("one", "two", "three")
    settings = load_settings(
        {
            "provider": [{**OPENAI, "name": name} for name in names],
            "router": {"order": ["three", "one"]},
            "review": {"database": f"sqlite:///{tmp_path / 'queue.db'}"},
        }
    )
    with build_router(settings) as router:
        assert [p.name for p in router._providers] == ["three", "one"]


@pytest.mark.parametrize("url", ["nonsense", "postgresql://u:canary@host/db", "sqlite:///."])
def test_database_that_cannot_be_opened_is_a_queue_error_with_a_hint(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueueUnavailable) as refused:
        open_queue(load_settings({"review": {"database": url}}))
    assert refused.value.hint
    assert "canary" not in f"{refused.value!r} {refused.value}"


def test_key_file_is_read_relative_to_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    Path(tmp_path, "key").write_text(CANARY)
    key = read_key(chosen(api_key_file="~/key"))
    assert key is not None
    assert key.get_secret_value() == CANARY


@pytest.mark.parametrize(
    ("changes", "profile", "base_url"),
    [
        ({"base_url": "https://api.groq.com/openai/v1"}, "groq", "https://api.groq.com/openai/v1"),
        ({"base_url": "http://localhost:9/v1"}, "openai_compatible", "http://localhost:9/v1"),
        ({"base_url": None, "profile": "mistral"}, "mistral", "https://api.mistral.ai/v1"),
        (
            {"base_url": "https://proxy.test/v1", "profile": "vllm"},
            "vllm",
            "https://proxy.test/v1",
        ),
        (
            {"kind": "anthropic", "base_url": None},
            "anthropic",
            "https://api.anthropic.com",
        ),
    ],
)
def test_speaker_is_the_one_that_is_named_or_known_by_its_address(changes, profile, base_url):
    found, address = endpoint(chosen(**changes))
    assert (found.name, address) == (profile, base_url)


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"profile": "grok"}, "profile", "the nearest is 'groq'"),
        ({"kind": "gemini", "profile": "groq"}, "profile", "no profile 'groq'"),
        ({"base_url": None}, "base_url", "has no address of its own"),
    ],
)
def test_speaker_that_nobody_knows_is_an_error_that_names_the_nearest(changes, key, words):
    with pytest.raises(ConfigError, match=words) as error:
        endpoint(chosen(**changes))
    assert error.value.key == key


@pytest.mark.parametrize(
    ("changes", "usd"),
    [
        ({"base_url": "https://api.openai.com/v1", "model": "gpt-4.1-mini"}, 2.0),
        ({"base_url": "https://api.openai.com/v1", "model": "nobody-knows"}, None),
        ({"base_url": "https://host/v1", "model": "gpt-4.1-mini"}, None),
        ({"price": {"prompt": 3, "completion": 4}, "model": "gpt-4.1-mini"}, 7.0),
    ],
)
def test_price_is_the_configured_one_or_what_the_vendor_published(changes, usd):
    """Nobody else's: the same model costs something else elsewhere."""
    provider = build_provider(chosen(**changes), MemoryLedger())
    assert provider.cost_usd(1_000_000, 1_000_000) == usd


def test_provider_without_its_key_is_passed_over_with_that_reason(tmp_path, monkeypatch):
    """The others go on; where nobody is left, that is an error at once."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    absent = {**OPENAI, "name": "absent", "api_key_env": "SOME_KEY"}
    review = {"database": f"sqlite:///{tmp_path}/a.db"}
    settings = load_settings({"provider": [absent, OPENAI], "review": review})
    with build_router(settings) as router:
        way = planned(router._providers[0], router.task, Ticket.of("x"))
        assert isinstance(way, Failure)
        assert (way.kind, "SOME_KEY is not set" in way.detail) == ("unavailable", True)
    with pytest.raises(ConfigError, match="SOME_KEY is not set"):
        build_router(load_settings({"provider": [absent], "review": review}))


@pytest.mark.parametrize("policy", ["second_opinion", "review"])
def test_second_opinion_that_fails_for_want_of_a_key_is_a_warning(
    tmp_path, monkeypatch, caplog, policy
):
    """The first provider can still be asked; with the key, and without the wish, nobody is told."""
    chain = {
        "provider": [OPENAI, {**OPENAI, "name": "b", "api_key_env": "SOME_KEY"}],
        "review": {"database": f"sqlite:///{tmp_path}/a.db"},
        "gate": {"without_evidence": policy},
    }
    monkeypatch.setenv("SOME_KEY", CANARY)
    build_router(load_settings(chain)).close()
    assert caplog.messages == []
    monkeypatch.delenv("SOME_KEY")
    build_router(load_settings(chain)).close()
    told = [text for text in caplog.messages if "nobody gives a second opinion beside 'a'" in text]
    assert len(told) == (policy == "second_opinion")
