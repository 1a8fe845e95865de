"""Settings: what the file may say, and how mistakes are answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weighbridge.config import build_router, build_task
from weighbridge.errors import ConfigError
from weighbridge.provider_config import read_key
from weighbridge.setting_sections import RemoteSettings
from weighbridge.settings import find_file, load_settings

ENDPOINT = {"name": "a", "kind": "openai", "base_url": "https://a.test/v1", "model": "m"}


def problem(content: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_settings(content)
    return caught.value


@pytest.mark.parametrize(
    ("content", "key", "nearest"),
    [
        ({"routr": {}}, "routr", "router"),
        ({"gate": {"probabilty": 0.5}}, "gate.probabilty", "probability"),
        ({"router": {"deadlin": "5s"}}, "router.deadlin", "deadline"),
        ({"provider": [{"kind": "local", "modle": "x"}]}, "provider.0.modle", "model"),
        ({"provider": [ENDPOINT | {"api_key": "canary"}]}, "provider.a.api_key", "api_key_env"),
        ({"task": {"categorys": []}}, "task.categorys", "categories"),
        ({1: {}}, "1", "telemetry"),
        ({"_env_file": "canary"}, "_env_file", ""),
    ],
)
def test_unknown_key_is_an_error_that_names_the_nearest(
    content: dict[str, Any], key: str, nearest: str
) -> None:
    """A misspelt setting must not become a silent default; what it holds is not shown."""
    error = problem(content)
    assert (error.key, error.problem) == (key, "unknown key")
    assert nearest in error.hint
    assert "canary" not in str(error) + error.hint + repr(error)


@pytest.mark.parametrize(
    "content",
    [
        {"provider": []},
        {"provider": [ENDPOINT, ENDPOINT]},
        {"provider": [ENDPOINT], "router": {"order": ["b"]}},
        {"provider": [ENDPOINT | {"base_url": "a.test/v1"}]},
        {"provider": [ENDPOINT | {"base_url": "https://user:canary@a.test/v1"}]},
        {"provider": [ENDPOINT | {"base_url": "https://a.test/v1\ncanary"}]},
        {"provider": [ENDPOINT | {"base_url": " https://a.test/v1"}]},
        {"provider": [ENDPOINT | {"base_url": "file:///canary"}]},
        {"provider": [ENDPOINT | {"price": {"prompt": 1.0, "completion": float("nan")}}]},
        {"provider": [ENDPOINT | {"api_key_env": "sk-canary"}]},
        {"provider": [ENDPOINT | {"api_key_env": "A", "api_key_file": "b"}]},
        {"provider": [ENDPOINT | {"name": "a b"}]},
        {"provider": [ENDPOINT | {"kind": "opnai"}]},
        {"gate": {"mass": 1.5}},
        {"gate": {"mass": float("nan")}},
        {"gate": {"mass": "canary"}},
        {"router": {"deadline": "0s"}},
        {"router": {"max_attempts": 0}},
    ],
)
def test_value_that_cannot_work_is_refused_before_anything_starts(content: dict[str, Any]) -> None:
    assert "canary" not in str(problem(content))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20", 20.0), ("20s", 20.0), ("500ms", 0.5), ("2m", 120.0), ("1.5s", 1.5), (3, 3.0)],
)
def test_duration_is_read_with_its_unit(text: str | int, seconds: float) -> None:
    assert load_settings({"router": {"deadline": text}}).router.deadline == seconds


@pytest.mark.parametrize("text", ["s", "20 parsecs", "-1s", "1h30m", ""])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    assert problem({"router": {"deadline": text}}).key == "router.deadline"


def test_environment_goes_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_ROUTER__DEADLINE", "5s")
    settings = load_settings({"router": {"deadline": "20s", "max_attempts": 3}})
    assert (settings.router.deadline, settings.router.max_attempts) == (5.0, 3)


def test_nearest_file_upward_is_found_and_the_variable_goes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weighbridge.toml").write_text("[gate]\nmass = 0.1\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "other.toml").write_text("[gate]\nmass = 0.2\n")
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert load_settings().gate.mass == 0.1
    monkeypatch.setenv("WEIGHBRIDGE_CONFIG", str(tmp_path / "other.toml"))
    assert load_settings().gate.mass == 0.2
    monkeypatch.setenv("WEIGHBRIDGE_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        find_file()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"provider": ENDPOINT}, "[[section]]"),
        ({"provider": [{"name": "a"}]}, "needs a `kind`"),
        ({"router": {"order": "a"}}, "must be a list"),
    ],
)
def test_usual_slip_is_answered_with_what_to_write(content: dict[str, Any], said: str) -> None:
    """`[provider]` for `[[provider]]`, no `kind`, a text for a list."""
    assert said in problem(content).problem


def test_second_opinion_of_nobody_is_refused() -> None:
    """Every answer without evidence would wait for a person, whatever the setting says."""
    wanted = {"gate": {"without_evidence": "second_opinion"}}
    other, local = {**ENDPOINT, "name": "b"}, {"kind": "local"}
    assert "'a' alone is asked" in problem({"provider": [ENDPOINT], **wanted}).problem
    only = {"router": {"order": ["a"]}}
    assert (
        "'a' alone is asked" in problem({"provider": [ENDPOINT, other], **wanted, **only}).problem
    )
    assert load_settings({"provider": [ENDPOINT, other], **wanted})
    assert load_settings({"provider": [ENDPOINT, local], **wanted})
    assert load_settings({"provider": [ENDPOINT]})


def test_deadline_that_leaves_no_time_before_the_last_resort_is_refused() -> None:
    """What is kept back for it would silently leave the others unasked."""
    chain = {"provider": [ENDPOINT, {"kind": "local", "reserve": "8s"}]}
    assert "leaves 'a' no time" in problem(chain | {"router": {"deadline": "8s"}}).problem
    assert load_settings(chain | {"router": {"deadline": "9s"}})
    alone = {"router": {"deadline": "8s", "order": ["local"]}}
    assert load_settings(chain | alone)
    assert load_settings({"provider": [*reversed(chain["provider"])]} | {"router": alone["router"]})


def test_provider_that_is_left_out_of_the_order_needs_no_key(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "provider": [ENDPOINT | {"api_key_env": "NOT_SET"}, ENDPOINT | {"name": "b"}],
            "router": {"order": ["b"]},
            "review": {"database": f"sqlite:///{tmp_path}/queue.db"},
        }
    )
    assert [provider.name for provider in settings.asked] == ["b"]
    build_router(settings).close()


@pytest.mark.parametrize("content", [b"[gate\n", b"gate = \xff"])
def test_file_that_is_no_toml_is_an_error_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        load_settings(path)


def test_folder_instead_of_a_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=tmp_path.name):
        load_settings(tmp_path)


def test_key_comes_from_environment_or_file_and_never_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", " sk-canary \n")
    (tmp_path / "key").write_text("sk-canary\n")
    for source in ({"api_key_env": "SOME_KEY"}, {"api_key_file": str(tmp_path / "key")}):
        settings = load_settings({"provider": [ENDPOINT | source]})
        (chosen,) = settings.provider
        assert isinstance(chosen, RemoteSettings)
        key = read_key(chosen)
        assert key is not None
        assert key.get_secret_value() == "sk-canary"
        assert "canary" not in repr(settings) + repr(key)


@pytest.mark.parametrize("source", [{"api_key_env": "NOT_SET"}, {"api_key_file": "/no/such/file"}])
def test_missing_key_is_an_error_that_names_where_it_was_sought(source: dict[str, str]) -> None:
    (chosen,) = load_settings({"provider": [ENDPOINT | source]}).provider
    assert isinstance(chosen, RemoteSettings)
    with pytest.raises(ConfigError, match=r"NOT_SET|/no/such/file"):
        read_key(chosen)


@pytest.mark.parametrize(
    "labels",
    [
        ["one"],
        ["bug", "bug_report"],
        ['say "hi"', "emoji 🚀", "with space", "back\\slash"],
        {"billing": "charges", "outage": {"description": "down", "phrases": ["Nothing loads."]}},
        [f"topic {number}" for number in range(200)],
    ],
)
def test_labels_of_your_own_become_the_options(labels: Any) -> None:
    task = build_task(load_settings({"task": {"categories": labels, "priorities": []}}))
    (field,) = task.fields
    assert list(field.options) == list(labels)


@pytest.mark.parametrize("labels", [[], ["a", "a"], ["Bug", "bug"], [""], [" a"], ["a\x00"]])
def test_labels_that_cannot_be_told_apart_are_refused(labels: list[str]) -> None:
    with pytest.raises(ConfigError, match="categories"):
        build_task(load_settings({"task": {"categories": labels}}))


def test_priority_can_be_made_required() -> None:
    task = build_task(load_settings({"task": {"fields": {"priority": {"required": True}}}}))
    assert {field.name: field.required for field in task.fields} == {
        "category": True,
        "priority": True,
    }


@pytest.mark.parametrize(
    ("content", "key", "nearest"),
    [
        (
            {"provider": [ENDPOINT | {"price": {"promt": 1, "prompt": 1, "completion": 1}}]},
            "provider.a.price.promt",
            "prompt",
        ),
        ({"task": {"categories": {"a": {"phrase": []}}}}, "task.categories.a.phrase", "phrases"),
        (
            {"task": {"priorities": {"local": {"phrase": []}}}},
            "task.priorities.local.phrase",
            "phrases",
        ),
        (
            {"task": {"fields": {"priority": {"required": True, "requird": True}}}},
            "task.fields.priority.requird",
            "required",
        ),
    ],
)
def test_unknown_key_deep_inside_is_compared_with_its_neighbours(
    content: dict[str, Any], key: str, nearest: str
) -> None:
    """Also inside tables that may be missing, and below names that somebody chose."""
    error = problem(content)
    assert (error.key, error.hint) == (key, f"The nearest is {nearest!r}.")


def test_key_that_speaks_to_the_settings_library_is_unknown() -> None:
    """`Settings(_env_file=…)` would be obeyed."""
    assert problem({"_env_file": ".env"}).problem == "unknown key"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"router": 5}, "router"),
        ({"gate": {"mass": float("nan")}}, "gate.mass"),
        ({"provider": ENDPOINT}, "provider"),
        ({"provider": [{"name": "kindless"}]}, "provider.kindless"),
        ({"provider": [ENDPOINT, {"name": "canary key", "kind": "local"}]}, "provider.1.name"),
        ({"provider": [ENDPOINT | {"model": ""}]}, "provider.a.model"),
        ({"task": {"fields": {"priorty": {"required": True}}}}, "task.fields.priorty"),
        ({"task": {"categories": 5}}, "task.categories"),
        ({"task": {"categories": {"a": 5}}}, "task.categories.a"),
        ({"task": {"categories": ["a", 5]}}, "task.categories.1"),
    ],
)
def test_bad_value_is_named_by_its_key_in_the_file(content: dict[str, Any], key: str) -> None:
    """Without the names that pydantic gives to the branches of a union."""
    assert problem(content).key == key


@pytest.mark.parametrize(
    "value", ["2h", "1e3s", "inf", "nan", 0, -1, True, None, [], float("inf"), float("nan")]
)
def test_duration_is_above_zero_and_at_most_an_hour(value: Any) -> None:
    assert problem({"router": {"deadline": value}}).key == "router.deadline"


@pytest.mark.parametrize("key", ["certificate_validity", "retention"])
@pytest.mark.parametrize(("days", "is_fine"), [("36500d", True), ("36501d", False), (1e20, False)])
def test_long_durations_end_within_what_calendars_know(
    key: str, days: str | float, is_fine: bool
) -> None:
    """Counted from now they become times, and those must be storable."""
    content = {"review": {key: days}}
    if is_fine:
        assert getattr(load_settings(content).review, key) == 36_500 * 86_400
    else:
        assert key in str(problem(content))


@pytest.mark.parametrize(
    "url",
    [
        "host/v1",
        "ftp://host/v1",
        "http://",
        "https://user:canary@host/v1",
        "https://canary@host/v1",
        "user:canary@host/v1",
        "https://host/v1?key=canary",
        "https://host/v1#canary",
    ],
)
def test_base_url_that_may_hold_a_secret_is_refused_and_not_repeated(url: str) -> None:
    error = problem({"provider": [ENDPOINT | {"base_url": url}]})
    assert error.key == "provider.a.base_url"
    assert "canary" not in f"{error!r} {error} {error.__cause__!r} {error.hint}"


@pytest.mark.parametrize("variable", ["sk-canary", "gsk_canary0123", "$KEY", "", "KEY=x"])
def test_key_in_the_place_of_its_variable_is_refused_and_not_repeated(variable: str) -> None:
    """The commonest way to paste a secret into the file."""
    error = problem({"provider": [ENDPOINT | {"api_key_env": variable}]})
    assert error.key == "provider.a.api_key_env"
    assert "canary" not in f"{error!r} {error} {error.__cause__!r} {error.hint}"


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (["b"], "router.order names 'b'; there are a"),
        (["a", "a"], "router.order names 'a' twice"),
    ],
)
def test_order_names_each_provider_once_at_most(order: list[str], said: str) -> None:
    assert problem({"provider": [ENDPOINT], "router": {"order": order}}).problem == said


@pytest.mark.parametrize(("key", "value"), [("DEADLINE", "5 parsecs"), ("DEDLINE", "5s")])
def test_mistake_in_the_environment_is_blamed_on_its_variable(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    """Nobody should search the file for it."""
    monkeypatch.setenv(f"WEIGHBRIDGE_ROUTER__{key}", value)
    assert problem({}).source == f"WEIGHBRIDGE_ROUTER__{key}"


def test_section_in_the_environment_that_is_no_json_is_a_config_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_ROUTER", "canary")
    error = problem({})
    assert error.source == "environment"
    assert "canary" not in f"{error!r} {error} {error.__cause__!r}"


@pytest.mark.parametrize("variable", ["WEIGHBRIDGE_ROUTR__DEADLINE", "weighbridge_routr__order"])
def test_section_that_is_misspelt_in_the_environment_is_an_error(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Nobody looks for such a variable, so it would be a silent default."""
    monkeypatch.setenv(variable, "canary")
    error = problem({})
    assert (error.source, error.problem) == (variable, "unknown key")
    assert error.hint == "The nearest is 'router'."
    assert "canary" not in str(error)


@pytest.mark.parametrize("variable", ["WEIGHBRIDGE_CACHE", "WEIGHBRIDGE_PORT_80_TCP", "OTHER__A"])
def test_variable_that_is_no_section_of_ours_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Kubernetes, for one, sets variables for a service of our name."""
    monkeypatch.setenv(variable, "x")
    load_settings({})


def test_providers_of_the_environment_are_not_called_like_those_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_PROVIDER", '[{"kind": "local", "threads": 0}]')
    error = problem({"provider": [ENDPOINT]})
    assert (error.source, error.key) == ("WEIGHBRIDGE_PROVIDER", "provider.0.threads")


def test_variable_below_a_list_is_blamed_for_what_it_spoils(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Single keys of a provider cannot be set so, and the file is in order."""
    monkeypatch.setenv("WEIGHBRIDGE_PROVIDER__0__MODEL", "x")
    assert problem({"provider": [ENDPOINT]}).source == "WEIGHBRIDGE_PROVIDER__0__MODEL"
    assert problem({"provider": [ENDPOINT], "router": {"ordr": []}}).source == "configuration"


def test_list_of_the_environment_that_is_no_json_is_answered_with_how_to_write_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_ROUTER__ORDER", "canary")
    error = problem({})
    assert "WEIGHBRIDGE_ROUTER__ORDER" in error.problem
    assert "JSON" in error.hint
    monkeypatch.setenv("WEIGHBRIDGE_ROUTER__ORDER", '["local"]')
    assert load_settings({}).router.order == ("local",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"provider": [ENDPOINT | {"requests_per_minute": 0}]}, "must be at least 1"),
        ({"provider": [ENDPOINT | {"requests_per_minute": 1.5}]}, "must be a whole number"),
        ({"provider": [ENDPOINT | {"usd_per_day": -1}]}, "must be at least 0"),
        ({"provider": [ENDPOINT | {"usd_per_day": "$2"}]}, "must be a number"),
        ({"provider": [ENDPOINT | {"price": 3}]}, "must be a table: { key = value }"),
        ({"provider": [ENDPOINT | {"price": {"prompt": 1}}]}, "is missing"),
        ({"provider": [ENDPOINT | {"kind": "opnai"}]}, "needs a `kind`: openai, gemini, "),
        ({"provider": [ENDPOINT | {"model": ""}]}, "must not be empty"),
        ({"provider": [ENDPOINT | {"allow_http": "never"}]}, "must be true or false"),
        ({"provider": [ENDPOINT | {"base_url": "host:80/v1"}]}, "must begin with https:// or"),
        ({"provider": [ENDPOINT | {"base_url": "host"}]}, "is no address such as https://"),
        ({"provider": [ENDPOINT | {"timeout": "15 sec"}]}, "ms, s, m, h or d"),
        ({"router": {"strategy": "cheap"}}, "must be 'configured', 'cheapest', "),
        ({"router": {"hedge_after": 95}}, "must be less than 1"),
        ({"gate": {"probability": 80}}, "must be at most 1"),
        ({"task": {"instructions": 5}}, "must be a text in quotes"),
        ({"router": []}, "must be a table: { key = value }"),
        ({"provider": ["local"]}, "must be a table: { key = value }"),
    ],
)
def test_problem_says_what_to_write_in_the_words_of_the_file(
    content: dict[str, Any], said: str
) -> None:
    """Nobody who writes TOML knows the classes and tags of a Python library."""
    assert said in problem(content).problem


def test_misspelt_key_is_told_before_the_right_one_is_missed() -> None:
    section = {key: value for key, value in ENDPOINT.items() if key != "model"}
    error = problem({"provider": [section | {"modle": "m"}]})
    assert (error.key, error.hint) == ("provider.a.modle", "The nearest is 'model'.")
    assert problem({"provider": [section]}).key == "provider.a.model"


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://169.254.169.254:80/v1",
        "https://[fd00:ec2::254]/v1",
        "https://metadata.google.internal/v1",
        "http://2852039166/v1",
        "http://0xa9fea9fe/v1",
        "https://[::ffff:169.254.169.254]/v1",
    ],
)
def test_address_where_clouds_tell_secrets_is_refused_in_every_spelling(url):
    with pytest.raises(ConfigError, match="clouds tell machines their secrets"):
        load_settings({"provider": [{**ENDPOINT, "base_url": url, "allow_http": True}]})


@pytest.mark.parametrize(
    ("url", "is_fine"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:8000/v1", True),
        ("https://llm.example.com/v1", True),
        ("http://llm.example.com/v1", False),
        ("http://10.0.0.7:8000/v1", False),
        ("http://localhost.example.com/v1", False),
    ],
)
def test_ticket_and_key_go_unencrypted_only_where_that_is_permitted(url, is_fine):
    if is_fine:
        load_settings({"provider": [{**ENDPOINT, "base_url": url}]})
    else:
        with pytest.raises(ConfigError, match="allow_http = true permits it"):
            load_settings({"provider": [{**ENDPOINT, "base_url": url}]})
        load_settings({"provider": [{**ENDPOINT, "base_url": url, "allow_http": True}]})


@pytest.mark.parametrize(
    "changes",
    [
        {"requests_per_minute": 0},
        {"tokens_per_minute": -1},
        {"max_concurrency": 0},
        {"usd_per_day": -0.01},
        {"usd_per_day": float("inf")},
        {"usd_per_day": float("nan")},
        {"weight": -1},
        {"samples": 0},
        {"mass_probe_rate": 1.1},
        {"timeout": 0},
        {"timeout": "-1s"},
    ],
)
def test_limit_that_limits_nothing_is_refused(changes):
    """Zero is no way to say "none": leave it out."""
    with pytest.raises(ConfigError):
        load_settings({"provider": [{**ENDPOINT, **changes}]})
