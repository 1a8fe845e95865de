"""A real server that takes what it does not do: `transformers serve` over our own export."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers_serve import Served, missing_package, serving

from weighbridge import Router
from weighbridge.decision import Decision, label
from weighbridge.errors import JsonInvalid, ModelMissing
from weighbridge.local_engine.catalogue import locate
from weighbridge.schemas.strict_json import loads
from weighbridge.schemas.task import Task
from weighbridge.schemas.triage_labels import CATEGORIES

pytestmark = [pytest.mark.slow, pytest.mark.models]

TICKET = "I was charged twice for the Team plan. Refund please, my card is nearly empty."
MESSAGES = [
    {"role": "system", "content": "You sort support tickets."},
    {"role": "user", "content": TICKET},
]


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """The default generator, exported and served; one process for all tests of this file."""
    if package := missing_package():
        reason = f"NO REAL SERVER IS TESTED: {package} is missing; pip install -e '.[dev]'"
        plugins = request.config.pluginmanager
        with plugins.get_plugin("capturemanager").global_and_fixture_disabled():
            plugins.get_plugin("terminalreporter").write_line(f"\n{reason}", red=True, bold=True)
        pytest.skip(reason)
    from weighbridge.local_engine.models.export import export_model

    # Not in pytest's own folders, which keep half a gigabyte of each of the last three runs.
    with tempfile.TemporaryDirectory() as temporary:
        try:
            export_model(locate("smollm2-135m", "generator"), Path(temporary, "model"))
        except ModelMissing as error:
            pytest.fail(f"{error}; {error.hint}", pytrace=False)
        with serving(Path(temporary, "model"), Path(temporary, "log")) as server:
            yield server
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def post(served: Served, path: str, **body: Any) -> httpx.Response:
    return httpx.post(
        f"{served.base_url}/{path}",
        json={"model": served.model, **body},
        timeout=60.0,
        trust_env=False,
    )


def answered(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    choice: dict[str, Any] = response.json()["choices"][0]
    return choice


def test_schema_is_taken_and_ignored(served):
    """Status 200, a whole answer, prose: only a check of our own can tell."""
    form = {"name": "triage", "strict": True, "schema": Task.triage().schema}
    choice = answered(
        post(
            served,
            "chat/completions",
            messages=MESSAGES,
            temperature=0,
            max_tokens=96,
            response_format={"type": "json_schema", "json_schema": form},
        )
    )
    assert (choice["finish_reason"], choice["message"]["role"]) == ("stop", "assistant")
    with pytest.raises(JsonInvalid):
        loads(choice["message"]["content"])


def test_logprobs_are_taken_and_not_given(served):
    choice = answered(
        post(
            served,
            "chat/completions",
            messages=MESSAGES,
            temperature=0,
            max_tokens=4,
            logprobs=True,
            top_logprobs=5,
        )
    )
    assert choice["message"]["content"]
    assert "logprobs" not in choice


def test_cut_answer_says_so(served):
    choice = answered(
        post(served, "chat/completions", messages=MESSAGES, temperature=0, max_tokens=3)
    )
    assert choice["finish_reason"] == "length"


def test_systemone_weighs_every_category(served):
    """Probabilities over the very options that were asked for; the choice is the likeliest."""
    categories = {name: label.description for name, label in CATEGORIES.items()}
    question = {"type": "choice", "instructions": "Which category?", "criteria": categories}
    response = post(served, "systemone", state=TICKET, questions={"category": question})
    assert response.status_code == 200, response.text
    body = response.json()
    answer = body["answers"]["category"]
    assert answer["probabilities"].keys() == categories.keys()
    assert sum(answer["probabilities"].values()) == pytest.approx(1.0, abs=1e-5)
    assert all(p > 0 for p in answer["probabilities"].values())
    assert answer["choice"] == max(answer["probabilities"], key=answer["probabilities"].get)
    assert body["usage"]["output_tokens"] == 0


def decided(served: Served, folder: Path, task: Task, ticket: str = TICKET) -> Decision:
    """What a router makes of a ticket, with the server as its only provider."""
    provider = {
        "name": "decider",
        "kind": "systemone",
        "base_url": served.base_url,
        "model": served.model,
        "timeout": "60s",
    }
    configuration = {
        "provider": [provider],
        "router": {"deadline": "60s"},
        "gate": {"without_evidence": "accept"},
        "review": {"database": f"sqlite:///{folder}/queue.db", "audit_rate": 0.0},
    }
    with Router.from_config(configuration) as router:
        return router.ask(task, ticket)


def test_router_takes_typed_answers_with_their_numbers(served, tmp_path):
    """Options, levels and yes or no in one request, from the configuration to the decision."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "category": {"enum": list(CATEGORIES)},
            "anger": {"type": "integer", "minimum": 1, "maximum": 5},
            "urgent": {"type": "boolean", "description": "somebody must look within the hour"},
        },
        "required": ["category", "anger", "urgent"],
        "additionalProperties": False,
    }
    labels = {"category": CATEGORIES, "anger": {"1": "calm", "5": "furious"}}
    task = Task.from_schema(schema, instructions="You sort support tickets.", labels=labels)
    decision = decided(served, tmp_path, task)
    assert (decision.status, len(decision.trail)) == ("accepted", 1)
    assert decision.trail[0].prompt_tokens is not None
    assert decision.trail[0].prompt_tokens > 0
    assert decision.fields.keys() == decision.value.keys() == schema["properties"].keys()
    for name, evidence in decision.fields.items():
        assert evidence.source == "vendor"
        assert evidence.mass is None
        assert sum(evidence.options.values()) == pytest.approx(1.0)
        assert evidence.probability == max(evidence.options.values())
        assert evidence.options[label(decision.value[name])] == evidence.probability


def test_questions_that_the_server_cannot_put_are_asked_once(served, tmp_path):
    """It has 26 letters for options: the refusal is no fault of the ticket's, and is remembered."""
    task = Task.triage(categories=[f"topic {n}" for n in range(27)], priorities=[])
    first, second = (decided(served, tmp_path, task, f"{TICKET} {n}") for n in range(2))
    assert [(a.failure, a.status) for a in first.trail] == [("capability", 422)]
    assert [(a.failure, a.status) for a in second.trail] == [("capability", None)]
    assert "refused the questions" in second.trail[0].detail


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("systemone", {"state": "a", "questions": {"q": {"type": "no"}}}, 422),
        ("systemone", {"state": "a", "questions": {"q": {"type": "noul"}}, "more": 1}, 422),
        ("chat/completions", {"messages": MESSAGES, "top_k": 3}, 422),
        ("chat/completions", {"messages": MESSAGES, "model": "another"}, 400),
    ],
)
def test_what_it_refuses_is_a_detail(served, path, body, status):
    """An unknown field or model, in the words of FastAPI: no `error` object."""
    response = post(served, path, **body)
    assert response.status_code == status
    assert response.json().keys() == {"detail"}


def test_server_that_does_not_start_says_why(tmp_path):
    """Not after two minutes of waiting."""
    (tmp_path / "model").mkdir()
    with (
        pytest.raises(RuntimeError, match=r"not up \(status 1\):[\s\S]*Error"),
        serving(tmp_path / "model", tmp_path / "log"),
    ):
        pytest.fail("it is up without a model")
