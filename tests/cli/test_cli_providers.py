from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

# The loopback speakers of the probes' own tests.
sys.path.append(str(Path(__file__).parents[1] / "providers"))

from profile_servers import KEY, ProfileServer, speaking
from toy_speaker import Speaker

from weighbridge.capability import Fact, Feature, Origin, Status
from weighbridge.config import open_health
from weighbridge.decision import FailureKind
from weighbridge.provider_config import build_provider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.settings import load_settings
from weighbridge.store.database import Database
from weighbridge.store.ledger import CapabilityLedger

VLLM = Speaker(profile="vllm", order="after_mask", bias="honoured", fingerprint="vllm-0.30.1")
LIAR = Speaker(profile="vllm", schema="ignored", logprobs="ignored")


@pytest.fixture
def vllm() -> Iterator[ProfileServer]:
    with speaking(VLLM, "openai") as server:
        yield server


def section(name: str, url: str, *, key: str = "GOOD", kind: str = "openai", **rest: str) -> str:
    more = "".join(f'{field} = "{value}"\n' for field, value in rest.items())
    return (
        f'[[provider]]\nname = "{name}"\nkind = "{kind}"\nbase_url = "{url}"\nmodel = "toy-1"\n'
        f'api_key_env = "{key}"\n{more}'
    )


@pytest.fixture
def configured(home, monkeypatch):
    """Writes a configuration of some sections, and sets a good and a bad key."""
    monkeypatch.setenv("GOOD", KEY)
    monkeypatch.setenv("BAD", "sk-of-nobody")
    monkeypatch.delenv("MISSING", raising=False)

    def write(*sections: str) -> None:
        text = '[review]\ndatabase = "sqlite:///queue.db"\n'
        (home / "weighbridge.toml").write_text("".join(sections) + text)

    return write


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def believed(home: Path, url: str) -> dict[str, Fact]:
    """What the ledger holds afterwards."""
    with (
        closing(Database(f"sqlite:///{home}/queue.db")) as database,
        closing(CapabilityLedger(database)) as ledger,
    ):
        return dict(ledger.facts(url, "toy-1"))


def test_check_tells_reachable_refused_and_down_apart(cli, configured, vllm, nobody):
    """And spends nothing: no model is asked."""
    configured(
        section("good", vllm.url, profile="vllm"),
        section("wrong-key", vllm.url, key="BAD", profile="vllm"),
        section("off", nobody, profile="vllm"),
        section("no-key", vllm.url, key="MISSING"),
    )
    ran = cli("providers", "check", "--json")
    assert ran.code == 0
    assert {line["name"]: line["reach"] for line in ran.lines} == {
        "good": "reachable",
        "wrong-key": "refused",
        "off": "down",
        "no-key": "not_ready",
    }
    told = "api_key_env: the environment variable MISSING is not set"
    assert ran.lines[3]["detail"] == told
    assert vllm.asked == []
    table = cli("providers", "check").out
    words = ("good", "reachable", "the key is not taken", "was refused", "not ready")
    assert all(word in table for word in words)
    assert "left alone" not in table


def test_check_ends_with_failure_if_nobody_can_be_reached(cli, configured, vllm, nobody):
    configured(section("good", vllm.url), section("off", nobody))
    assert cli("providers", "check", "off").code == 1
    assert cli("providers", "check", "good").code == 0
    assert cli("providers", "check").code == 0


def test_check_shows_who_is_left_alone_until_they_answer(cli, home, configured, vllm, nobody):
    """As the routers that share their health know it; who was disabled and is reached is free."""
    configured(
        section("good", vllm.url, profile="vllm"),
        section("off", nobody, profile="vllm"),
        "[router]\nshare_health = true\n",
    )
    settings = load_settings(home / "weighbridge.toml")
    identities = [build_provider(one, MemoryLedger()).identity for one in settings.provider]
    with open_health(settings) as health:
        for identity in identities:
            health.told(identity, 60.0, FailureKind.QUOTA)
    ran = cli("providers", "check", "--json")
    left_alone = {line["name"]: line["left_alone"] for line in ran.lines}
    assert left_alone["good"] is None
    assert left_alone["off"].startswith("quota, ")
    with open_health(settings) as health:
        assert [entry.identity for entry in health.entries()] == identities[1:]
    assert "left alone" in cli("providers", "check").out


def test_check_ends_no_wait_that_a_provider_asked_for(cli, home, configured, vllm):
    """What a check asks is free, and mostly answered in spite of a rate limit."""
    configured(section("busy", vllm.url, profile="vllm"), "[router]\nshare_health = true\n")
    settings = load_settings(home / "weighbridge.toml")
    (identity,) = [build_provider(one, MemoryLedger()).identity for one in settings.provider]
    with open_health(settings) as health:
        health.told(identity, 60.0, FailureKind.RATE_LIMIT, is_asked=True)
    (line,) = cli("providers", "check", "--json").lines
    assert line["reach"] == "reachable"
    assert line["left_alone"].startswith("rate limit, ")
    with open_health(settings) as health:
        assert [entry.identity for entry in health.entries()] == [identity]


@pytest.mark.parametrize(
    ("sections", "state"),
    [
        ([section("one", "https://api.groq.com/openai/v1")], "ready"),
        (
            [section("one", "https://api.groq.com/openai/v1", key="MISSING")],
            "api_key_env: the environment variable MISSING is not set",
        ),
        (
            ['[[provider]]\nname = "one"\nkind = "gemini"\nmodel = "m"\n'],
            "ready, but names no key: api_key_env is missing",
        ),
        (['[[provider]]\nname = "one"\nkind = "ollama"\nmodel = "m"\n'], "base_url: is missing"),
        (['[[provider]]\nname = "one"\nkind = "openai"\nmodel = "m"\n'], "api.openai.com/v1"),
        (
            [section("one", "http://127.0.0.1:1/v1"), "usd_per_day = 1\n"],
            "not asked: no price is known, and a budget is set",
        ),
        (
            [section("one", "http://127.0.0.1:1/v1"), "[budget]\nusd_per_ticket = 1\n"],
            "not asked: no price is known, and a budget is set",
        ),
        (
            [
                section("one", "http://127.0.0.1:1/v1"),
                "price = { prompt = 0, completion = 0 }\n[budget]\nusd_per_day = 1\n",
            ],
            "ready",
        ),
    ],
)
def test_list_says_what_keeps_a_provider_from_being_asked(cli, configured, sections, state):
    """Before the first ticket finds it out, and without calling anybody."""
    configured(*sections)
    (line,) = cli("providers", "list", "--json").lines
    assert state in line["state"]
    assert (state == "ready") == (line["state"] == "ready")
    table = cli("providers", "list").out
    assert "this machine" not in table
    assert "[[provider]]" not in table


def test_local_engine_is_listed_as_on_this_machine(cli, home):
    (home / "weighbridge.toml").write_text('[[provider]]\nname = "off"\nkind = "local"\n')
    assert "this machine" in cli("providers", "list").out


@pytest.mark.parametrize(
    ("profile", "wire", "kind"),
    [
        ("vllm", "openai", "openai"),
        ("ollama_native", "ollama", "ollama"),
        ("gemini_native", "gemini", "gemini"),
        ("anthropic", "anthropic", "anthropic"),
    ],
)
@pytest.mark.parametrize(("key", "reach"), [("GOOD", "reachable"), ("BAD", "refused")])
def test_check_speaks_every_wire(cli, configured, profile, wire, kind, key, reach):
    """Where the free request is not there, for 16 tokens."""
    with speaking(Speaker(profile=profile), wire) as server:
        configured(section("one", server.url, kind=kind, key=key, profile=profile))
        assert cli("providers", "check", "--json").lines[0]["reach"] == reach


@pytest.mark.parametrize(("status", "reach"), [(503, "down"), (429, "reachable"), (402, "refused")])
def test_check_says_what_a_status_means(cli, configured, status, reach):
    with speaking(VLLM, "openai", status=status) as server:
        configured(section("one", server.url))
        ran = cli("providers", "check", "--json")
    assert (ran.lines[0]["reach"], ran.code) == (reach, 0 if reach == "reachable" else 1)


def test_probe_writes_the_ledger_and_shows_what_the_table_had_wrong(cli, configured, home):
    """Facts of the table that are confirmed are no news."""
    with speaking(LIAR, "openai") as server:
        configured(section("liar", server.url, profile="vllm"))
        ran = cli("providers", "probe", "--json")
        facts = ran.lines[0]["facts"]
        assert ran.code == 0
        assert facts["json_schema_strict"]["status"] == "ignored"
        assert facts["json_schema_strict"]["declared"]["status"] == "supported"
        changed = {feature for feature, fact in facts.items() if fact["is_changed"]}
        assert {"json_schema_strict", "logprobs"} <= changed
        assert "temperature" not in changed
        assert all(fact["is_believed"] for fact in facts.values())
        held = believed(home, server.url)
        assert {f: fact.status.value for f, fact in held.items()} == {
            feature: fact["status"] for feature, fact in facts.items()
        }
        table = cli("providers", "probe").out
    (line,) = [line for line in table.splitlines() if "strict JSON schema" in line]
    assert [word in line for word in ("taken, no effect", "yes", "changed")] == [True] * 3


def test_probe_asks_those_named_alone(cli, configured, vllm):
    with speaking(LIAR, "openai") as other:
        configured(section("one", vllm.url, profile="vllm"), section("two", other.url))
        ran = cli("providers", "probe", "one", "--json")
        assert [line["name"] for line in ran.lines] == ["one"]
        assert other.asked == []
    assert ran.lines[0]["calls"] >= len(vllm.asked) > 5


def test_probe_that_fails_says_so_and_goes_on(cli, configured, vllm, nobody):
    """One provider's wrong key keeps nobody else from being probed."""
    configured(
        section("wrong-key", vllm.url, key="BAD", profile="vllm"),
        section("no-key", vllm.url, key="MISSING"),
        section("off", nobody),
        section("good", vllm.url, profile="vllm"),
    )
    ran = cli("providers", "probe", "--json")
    assert ran.code == 1
    failures = {line["name"]: line["failure"] for line in ran.lines}
    assert failures["wrong-key"].startswith("credential")
    assert "MISSING is not set" in failures["no-key"]
    assert failures["off"].startswith("transient")
    assert failures["good"] is None
    assert [bool(line["facts"]) for line in ran.lines] == [False, False, False, True]
    told = cli("providers", "probe", "off")
    assert "off: not probed to the end: transient" in told.err


def test_learned_refusal_goes_before_a_probe_and_is_shown(cli, configured, home, vllm):
    refusal = Fact(status=Status.UNSUPPORTED, origin=Origin.LEARNED)
    with (
        closing(Database(f"sqlite:///{home}/queue.db")) as database,
        closing(CapabilityLedger(database)) as ledger,
    ):
        ledger.record(vllm.url, "toy-1", Feature.SEED, refusal)
    configured(section("one", vllm.url, profile="vllm"))
    assert cli("providers", "probe", "--json").lines[0]["facts"]["seed"]["is_believed"] is False
    assert "overridden: no" in " ".join(cli("providers", "probe").out.split())
    assert believed(home, vllm.url)[Feature.SEED].origin is Origin.LEARNED


def test_interrupted_probe_keeps_what_it_found(cli, configured, home, vllm, monkeypatch):
    """In the ledger and on the screen."""
    configured(section("one", vllm.url, profile="vllm"))
    answer, num_answers = vllm.answer, 0

    def stop_after_two(path, body):
        nonlocal num_answers
        num_answers += 1
        if num_answers == 3:
            import _thread

            _thread.interrupt_main()
        return answer(path, body)

    monkeypatch.setattr(vllm, "answer", stop_after_two)
    ran = cli("providers", "probe", "--json")
    assert ran.code == 130
    assert "What was found is kept" in ran.err
    assert "json_schema_strict" in ran.lines[0]["facts"]
    assert believed(home, vllm.url).keys() == ran.lines[0]["facts"].keys()


def test_unknown_name_is_refused_with_the_nearest(cli, configured, vllm):
    configured(section("groq", vllm.url))
    for command in ("check", "probe"):
        ran = cli("providers", command, "grok")
        assert ran.code == 2
        assert "'groq'" in ran.err
    assert vllm.asked == []


def test_local_engine_is_checked_here_and_never_probed(cli, home, monkeypatch):
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(home / "empty"))
    (home / "weighbridge.toml").write_text('[[provider]]\nname = "off"\nkind = "local"\n')
    checked = cli("providers", "check", "--json")
    assert checked.code == 1
    assert checked.lines[0]["reach"] == "not_ready"
    assert cli("providers", "probe").code == 2
    assert cli("providers", "list", "--capabilities").code == 0


def test_capabilities_are_listed_with_their_origin(cli, configured, vllm):
    """What was probed goes before the table, and both say since when."""
    configured(
        section("probed", vllm.url, profile="vllm"),
        section("declared", "https://api.groq.com/openai/v1", key="MISSING"),
    )
    cli("providers", "probe", "probed")
    probed, declared = cli("providers", "list", "--capabilities", "--json").lines
    assert probed["capabilities"]["logprobs_vs_mask"]["origin"] == "probed"
    assert probed["capabilities"]["logprobs_vs_mask"]["server"] == "vllm-0.30.1"
    assert declared["capabilities"]["logit_bias"]["status"] == "unsupported"
    assert declared["capabilities"]["logit_bias"]["origin"] == "declared"
    shown = cli("providers", "list", "--capabilities").out
    assert "after the mask" in shown
    assert "probed 20" in shown
    assert "table 2026-11-30" in shown


def test_capabilities_fit_a_narrow_terminal(cli, configured, vllm, monkeypatch):
    """Providers that do not fit beside each other come below each other."""
    configured(*(section(f"provider-{number}", vllm.url) for number in range(3)))
    monkeypatch.setenv("COLUMNS", "50")
    lines = cli("providers", "list", "--capabilities").out.splitlines()
    assert max(map(len, lines)) <= 50
    assert sum("feature" in line for line in lines) == 3
    monkeypatch.setenv("COLUMNS", "100")
    lines = cli("providers", "list", "--capabilities").out.splitlines()
    assert sum("feature" in line for line in lines) == 1


def test_key_is_shown_nowhere(cli, configured, vllm):
    configured(section("one", vllm.url, profile="vllm"), section("two", vllm.url, key="BAD"))
    for command in ("check", "probe"):
        for more in ((), ("--json",)):
            ran = cli("providers", command, *more)
            assert KEY not in ran.out + ran.err
            assert "sk-of-nobody" not in ran.out + ran.err
