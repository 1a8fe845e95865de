"""The comparison with other engines asks all of them the same, and counts right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_model
import torch

from bench.contenders import workloads
from bench.contenders.checkpoint import write_checkpoint
from bench.contenders.course import run
from bench.contenders.job import Answers, Job, Report, Workload, Writing
from bench.contenders.summary import Run, ratios, same_prompts, summary
from weighbridge.local_engine import guides
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.load import load_generator
from weighbridge.local_engine.vocabulary import TableVocabulary
from weighbridge.schemas.finite import language

TOKENS = [bytes([byte]) for byte in range(0x20, 0x7F)]
VOCABULARY = TableVocabulary([*TOKENS, b""], {len(TOKENS)})
TRIAGE = workloads.triage(2)


def accepts(guide: Any, text: str) -> bool:
    """Whether a guide lets the text be written and ended."""
    state = guide.init()
    for token in [*VOCABULARY.encode(text), len(TOKENS)]:
        if guide.bias(state)[token] == -torch.inf:
            return False
        state = guide.advance(state, token)
    return True


def strings(workload: Workload) -> list[str]:
    found = language(workload["schema"])
    assert found is not None
    return list(found.strings())


@pytest.mark.parametrize("notation", ["schema", "pattern", "gbnf"])
def test_each_notation_permits_the_language_and_nothing_else(notation: str) -> None:
    """Otherwise the contenders would answer different questions."""
    specs: dict[str, Spec] = {
        "schema": guides.json_schema(TRIAGE["schema"]),
        "pattern": guides.regex(TRIAGE["pattern"]),
        "gbnf": guides.gbnf(TRIAGE["gbnf"]),
    }
    guide = specs[notation].bind(VOCABULARY)
    members = strings(TRIAGE)
    assert len(members) == 24
    for text in members:
        assert accepts(guide, text)
        for wrong in (text.upper(), text.replace(" ", ""), text[:-1], f"{text} ", text + text):
            assert not accepts(guide, wrong)


def test_members_are_told_from_other_answers() -> None:
    """The check that every answer must pass can fail."""
    member = strings(TRIAGE)[0]
    assert workloads.is_member(TRIAGE, member)
    for wrong in ("", member[1:], member + "\n", member.replace("billing", "bill")):
        assert not workloads.is_member(TRIAGE, wrong)


def test_no_ticket_is_answered_twice() -> None:
    """A prompt that was read before would cost nothing the second time."""
    most = workloads.triage(20)
    assert len(set(most["users"])) == len(most["users"]) == 21
    with pytest.raises(SystemExit, match="ask for as many or fewer"):
        workloads.triage(1000)


def test_text_to_take_masks_along_is_valid() -> None:
    """And no answer of its schema ends within the tokens that are counted."""
    writing = workloads.writing("It is broken.")
    guide = guides.json_schema(writing["schema"]).bind(VOCABULARY)
    assert accepts(guide, writing["valid"])
    short = {name: text[:99] for name, text in json.loads(writing["valid"]).items()}
    assert not accepts(guide, json.dumps(short))


def test_checkpoint_for_the_peers_computes_what_ours_does(tmp_path: Path) -> None:
    """The same logits, by the other library's own loader and forward pass."""
    from transformers import AutoModelForCausalLM

    source = tmp_path / "tiny.gguf"
    tiny_model.write_gguf(source, tiny_model.tiny_weights(5))
    folder = converted(source, tmp_path / "cache", "float32")
    target = tmp_path / "checkpoint"
    target.mkdir()
    write_checkpoint(folder, target)
    theirs = AutoModelForCausalLM.from_pretrained(target)
    ours = load_generator(folder).model
    ids = torch.arange(0, tiny_model.CONFIG.vocab_size, 3)
    hidden, _ = ours.forward(ids, ours.empty_cache())
    with torch.inference_mode():
        wanted = theirs(ids[None]).logits[0]
    torch.testing.assert_close(ours.logits(hidden), wanted, atol=1e-4, rtol=1e-4)
    assert {file.name for file in target.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


class Scripted:
    """A contender that notes what it is asked."""

    version = "scripted"

    def __init__(self, job: Job) -> None:
        self.calls: list[str] = []

    def prepare(self, workload: Workload) -> None:
        self.calls.append(f"prepare {workload['name']}")

    def answer(self, workload: Workload, user: str) -> str:
        self.calls.append(f"answer {workload['users'].index(user)}")
        return f"answer to {user}"

    def prompt_ids(self) -> list[int]:
        return [len(self.calls)]

    def write_json(self, writing: Writing, num_tokens: int) -> int:
        self.calls.append(f"json {num_tokens}")
        return num_tokens

    def write_plain(self, writing: Writing, num_tokens: int) -> int:
        self.calls.append(f"plain {num_tokens}")
        return num_tokens - 1

    def masks(self, writing: Writing) -> dict[str, list[float]]:
        return {"toy": [1.0]}

    def rates(self, job: Job) -> dict[str, float]:
        return {}


def job(writing: Writing | None) -> Job:
    return Job(
        threads=1,
        gguf="",
        checkpoint="",
        shapes=[],
        num_layers=0,
        workloads=[TRIAGE, {**TRIAGE, "name": "other"}],
        writing=writing,
    )


def test_course_warms_up_before_it_takes_times() -> None:
    """The first ticket of each task, and a few tokens of each text, are not counted."""
    scripted: list[Scripted] = []

    def load(given: Job) -> Scripted:
        scripted.append(Scripted(given))
        return scripted[0]

    report = run(lambda: load, job(workloads.writing("It is broken.")))
    once = ["answer 0", "answer 1", "answer 2"]
    written = ["json 2", "json 60", "plain 2", "plain 100"]
    assert scripted[0].calls == ["prepare triage", *once, "prepare other", *once, *written]
    timed = TRIAGE["users"][1:]
    assert report["answers"]["other"]["texts"] == [f"answer to {user}" for user in timed]
    assert report["answers"]["triage"]["ids"] == [2]  # of the warm-up, before anything else is read
    assert {kind: tokens for kind, (tokens, _) in report["written"].items()} == {
        "json": 60,
        "plain": 99,
    }
    assert json.loads(json.dumps(report))["masks"] == {"toy": [1.0]}


def test_course_asks_for_answers_alone_where_nothing_is_to_be_written() -> None:
    """What was not measured is not in the report."""
    report = run(lambda: Scripted, job(None))
    assert (report["written"], report["masks"]) == ({}, {})
    assert "json_tokens_per_s" not in summary([Run(0.0, report)], job(None))


def reported(
    seconds: list[float], texts: list[str], *, answered_at: float, ids: list[int], rate: float = 1.0
) -> Report:
    answers = {name: Answers(seconds=seconds, texts=texts, ids=ids) for name in ("triage", "other")}
    return Report(
        version="1",
        import_s=1.0,
        load_s=rate,
        prepare_s=0.0,
        answered_at=answered_at,
        peak_mb=100.0,
        answers=answers,
        written={"json": (60, 60 / rate), "plain": (100, 10.0)},
        masks={"toy": [0.001, 0.003, 0.002]},
        rates={"matmul": 4e9, "prefill": 3e9},
    )


def test_summary_takes_medians_over_all_rounds() -> None:
    """Every time counts once; a first answer is counted from the start of its own process."""
    right, wrong = strings(TRIAGE)[0], "{}"
    first = reported([0.1, 0.5], [right, wrong], answered_at=103.0, ids=[1])
    second = reported([0.2, 0.9], [right, right], answered_at=209.0, ids=[1], rate=3.0)
    found = summary([Run(100.0, first), Run(200.0, second)], job(None))
    assert found["triage_ms"] == pytest.approx(350)
    assert found["triage_invalid"] == 1
    assert (found["load_s"], found["first_answer_s"]) == (2.0, 6.0)
    assert (found["json_tokens"], found["json_tokens_per_s"]) == (60, 2.0)
    assert found["masks"]["toy"] == pytest.approx(
        {"median_us": 2000, "per_s": 500, "share_of_step": 0.02}
    )
    assert found["gops"] == pytest.approx({"matmul": 4, "prefill": 3, "share": 0.75})


def test_ratios_are_ours_over_the_peer() -> None:
    """Below one, ours takes less time; what one of the two has not done is left out."""
    found = ratios(
        {
            "ours-int8": {"triage_ms": 100.0, "json_tokens_per_s": 30.0},
            "peer": {"triage_ms": 400.0, "json_tokens_per_s": 60.0, "plain_tokens_per_s": 9.0},
            "ours-prior": {"triage_ms": 200.0},
        }
    )
    assert found == {"triage": {"peer": 0.25, "ours-prior": 0.5}, "json": {"peer": 0.5}}
    assert ratios({"peer": {"triage_ms": 400.0}}) == {}


def test_another_prompt_is_found_out() -> None:
    """One token more, in one task, and the contenders have not been asked the same."""
    one = Run(0.0, reported([1.0], [], answered_at=1.0, ids=[1, 2]))
    other = Run(0.0, reported([1.0], [], answered_at=1.0, ids=[1, 2]))
    other.report["answers"]["other"]["ids"] = [1, 2, 3]
    found = same_prompts({"a": [one], "b": [one], "c": [other]})
    assert [name for name, is_same in found.items() if is_same] == ["a", "b"]
    assert same_prompts({}) == {}


@pytest.mark.slow
@pytest.mark.models
def test_command_ends_with_one_json_object(tmp_path: Path) -> None:
    """On the real model, one ticket, ours alone; nothing about the numbers but that they are."""
    command = [sys.executable, "-m", "bench.engine", "--json", "--rounds", "1", "--tickets", "1"]
    command += ["--contenders", "ours-int8", "--shared", str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    assert "no tickets" in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["absent"], result["failed"], result["skipped"]) == ({}, {}, ["banking77"])
    ours = result["contenders"]["ours-int8"]
    assert (ours["triage_invalid"], ours["same_prompt"]) == (0, True)
    assert (ours["json_tokens"], ours["plain_tokens"]) == (60, 100)
    measured = ("import_s", "load_s", "first_answer_s", "peak_mb", "triage_ms", "json_tokens_per_s")
    assert all(ours[key] > 0 for key in measured)
    assert ours["gops"]["share"] > 0
    assert ours["masks"]["llguidance"]["per_s"] > 0
    assert result["cli"]["process_s"] > 0
    assert set(result["machine"]) == {"cores", "cpu_capability", "threads", "busy", "pins"}
