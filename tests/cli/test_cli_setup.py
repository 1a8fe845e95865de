from __future__ import annotations

import json

import pytest

from weighbridge import __version__
from weighbridge.cli import init
from weighbridge.settings import load_settings

CANARY = "sk-canary-0123456789"


@pytest.fixture
def alone(monkeypatch):
    """No key in the environment and no server on the usual ports."""
    for endpoint in init._ENDPOINTS:
        if endpoint.key_env:
            monkeypatch.delenv(endpoint.key_env, raising=False)
    monkeypatch.setattr(init, "_ENDPOINTS", init._ENDPOINTS[:3])


def test_providers_are_listed_in_order_without_their_keys(cli, home, monkeypatch):
    path = home / "weighbridge.toml"
    path.write_text(
        """
        router.order = ["two", "three", "one"]
        [[provider]]
        name = "one"
        kind = "openai"
        base_url = "http://[::1]/v1"
        model = "[/]"
        api_key_env = "ONE_KEY"
        [[provider]]
        name = "two"
        kind = "openai"
        base_url = "https://h/v1"
        model = "m"
        api_key_env = "TWO_KEY"
        [[provider]]
        name = "three"
        kind = "local"
        model = "no-such-model"
        """
    )
    monkeypatch.setenv("ONE_KEY", CANARY)
    monkeypatch.delenv("TWO_KEY", raising=False)
    ran = cli("providers", "list", "--json")
    assert [line["name"] for line in ran.lines] == ["two", "three", "one"]
    assert "TWO_KEY is not set" in ran.lines[0]["state"]
    assert ran.lines[2]["state"] == "ready"
    table = cli("providers", "list")
    assert table.code == 0
    assert "[/]" in table.out
    assert CANARY not in ran.out + ran.err + table.out + table.err


def test_missing_key_stops_triage_and_says_what_to_set(cli, home, monkeypatch):
    path = home / "weighbridge.toml"
    path.write_text(path.read_text().replace('model = "m"', 'model = "m"\napi_key_env = "NO_KEY"'))
    monkeypatch.delenv("NO_KEY", raising=False)
    ran = cli("triage", stdin=b"hello")
    assert ran.code == 2
    assert "hint:  Set NO_KEY to the API key." in ran.err


def test_what_init_writes_loads(cli, home, alone, monkeypatch):
    """With the services whose key is set, in order, and the local engine last."""
    monkeypatch.setenv("GROQ_API_KEY", CANARY)
    ran = cli("init", "new.toml")
    assert (ran.code, ran.out) == (0, "")
    assert load_settings(home / "new.toml").router.order == ("groq", "offline")
    assert CANARY not in (home / "new.toml").read_text() + ran.err


def test_init_tells_what_it_looked_for_and_what_comes_next(cli, home, alone, stub, monkeypatch):
    """Nobody should have to guess the name of a variable or the port of a server."""
    monkeypatch.setenv("GROQ_API_KEY", CANARY)
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(home / "no models"))
    server = init._Endpoint(name="mine", base_url=stub.url, models=init._LISTED)
    monkeypatch.setattr(init, "_ENDPOINTS", (*init._ENDPOINTS, server))
    lines = cli("init", "my file.toml").err.splitlines()
    assert "openai: OPENAI_API_KEY is not set" in lines
    assert "groq: GROQ_API_KEY is set" in lines
    assert f"mine: nobody at {stub.url}" in lines
    (offline,) = [line for line in lines if line.startswith("offline: ")]
    assert "weighbridge model pull" in offline or "pip install 'weighbridge[local]'" in offline
    assert lines[-1].endswith("weighbridge providers check --config 'my file.toml'")


def test_init_never_overwrites_unasked(cli, home, alone):
    before = (home / "weighbridge.toml").read_text()
    refused = cli("init")
    assert refused.code == 2
    assert "--force" in refused.err
    assert (home / "weighbridge.toml").read_text() == before
    assert cli("init", "--force").code == 0
    assert load_settings().router.order == ("offline",)


@pytest.mark.parametrize("path", ["none/new.toml", "."])
def test_init_that_cannot_write_is_a_usage_error(cli, alone, path):
    ran = cli("init", path, "--force")
    assert ran.code == 2
    assert "cannot be written" in ran.err


@pytest.mark.parametrize("model", ['a "quoted" \\ name', "[/] {x}", "ü"])
def test_section_of_a_found_server_keeps_the_name_of_its_model(tmp_path, model):
    endpoint = init._ENDPOINTS[-1]
    (path := tmp_path / "new.toml").write_text(init._section(endpoint, model), "utf-8")
    assert load_settings(path).provider[0].model == model


def test_models_are_listed(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    listed = cli("model", "list", "--json").lines
    table = cli("model", "list").out
    assert {"generator", "encoder"} <= {model["role"] for model in listed}
    assert all(model["name"] in table for model in listed)


@pytest.mark.parametrize("command", [("path",), ("pull", "smollm2-135m")])
def test_unknown_model_is_refused_before_anything_is_done(cli, monkeypatch, tmp_path, command):
    """Also behind a known one, and the known ones are named, whatever they are for."""
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(tmp_path))
    ran = cli("model", *command, "smollm3")
    assert "downloading" not in ran.err
    assert "smollm2-135m, all-minilm-l6-v2" in ran.err
    assert (ran.code, ran.out) == (1, "")
    assert "Known models: " in ran.err


def test_version_is_printed_alone(cli):
    assert cli("--version").out == f"{__version__}\n"


def test_no_command_shows_the_commands(cli):
    ran = cli()
    assert ran.code == 2
    assert "triage" in ran.out + ran.err


def test_model_that_is_no_printable_name_is_not_found(stub, monkeypatch):
    """A server that names its model with a line end could write settings of its own."""
    import httpx

    def get(url: str, **_: object) -> httpx.Response:
        return httpx.Response(200, text=json.dumps({"data": [{"id": 'x"\n[gate]'}]}))

    monkeypatch.setattr(httpx, "get", get)
    assert init._found(init._ENDPOINTS[-1]) is None
