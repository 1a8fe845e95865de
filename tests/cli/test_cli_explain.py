"""`weighbridge explain`, end to end with a tiny model from a file and nothing from the network."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

import weighbridge.cli.explain as explain_module
from weighbridge.config import build_task
from weighbridge.local_engine.picture import drawing
from weighbridge.schemas.ticket import Ticket
from weighbridge.settings import load_settings

# The tiny model is shared with the engine's own tests, and lives there.
sys.path.append(str(Path(__file__).parents[1] / "local_engine"))

import tiny_model

CANARY = "canary-7194"
TEXT = f"I was charged twice. {CANARY}"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `tiny.gguf`, and what is converted from it."""
    folder = tmp_path_factory.mktemp("models")
    tiny_model.write_gguf(folder / "tiny.gguf", tiny_model.tiny_weights())
    return folder


@pytest.fixture
def explain(cli, models, monkeypatch):
    """Runs `weighbridge explain` with the tiny model."""
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(models))
    model = models / "tiny.gguf"

    def run(*arguments, stdin=b""):
        return cli("explain", *arguments, "--model", model, stdin=stdin)

    return run


def spoken(tokens) -> bytes:
    """What tokens of the JSON form spell together."""
    return b"".join(
        bytes.fromhex(t["bytes"]) if "bytes" in t else t["text"].encode() for t in tokens
    )


def test_ticket_is_answered_as_triage_would_be(explain, stub):
    """One of the task's answers, to the task's own prompt, and no provider is asked."""
    ran = explain(TEXT, "--json")
    assert (ran.code, len(ran.lines)) == (0, 1)
    (told,) = ran.lines
    task = build_task(load_settings())
    assert told["text"] in set(task.language.strings())
    assert spoken(told["tokens"]) == told["text"].encode()
    prompt, encode = task.prompt(Ticket.of(TEXT)), tiny_model.tiny_tokenizer().encode
    turns = f"system\n{prompt.system}", "\n", "user\n", prompt.user, "\n", "assistant\n"
    num_control = 5  # each turn opens and closes, but for the assistant's
    assert told["prompt_tokens"] == sum(len(encode(turn)) for turn in turns) + num_control
    assert told["guide"] == "triage"
    assert told["model"].endswith("tiny.gguf")
    assert stub.asked == []


def test_bands_are_shown_without_colour_where_nobody_looks(explain):
    """Standard output is no terminal here."""
    ran = explain(TEXT)
    assert ran.code == 0
    assert '{"category": "' in ran.out
    assert re.search(r"^allowed ", ran.out, re.MULTILINE)
    assert "forced by the guide" in ran.out
    assert CONTROL.search(ran.out + ran.err) is None
    assert max(map(len, ran.out.split("\n"))) <= 100


def test_own_labels_of_the_configuration_are_the_answers(explain, home):
    path = home / "weighbridge.toml"
    path.write_text(path.read_text() + '[task]\ncategories = ["bug", "low"]\npriorities = []\n')
    texts = {
        explain(TEXT, "--json", "--temperature", 3, "--seed", n).lines[0]["text"] for n in "12"
    }
    assert texts <= {'{"category": "bug"}', '{"category": "low"}'}


def test_long_ticket_is_cut_as_triage_cuts_it(explain, home):
    """By the limit of the configured engine; what is all of the prompt is never cut."""
    local = '[[provider]]\nname = "offline"\nkind = "local"\nmax_ticket_tokens = 64\n'
    with (home / "weighbridge.toml").open("a") as config:
        config.write(local)
    long, longer = (
        explain("a bug " * count, "--json", "--html", f"{count}.html").lines[0]["prompt_tokens"]
        for count in (1000, 2000)
    )
    assert "[…]" in (page := (home / "1000.html").read_text("utf-8"))
    assert page.count("a bug") < 100  # the page shows what was read, and no more
    whole = explain("a bug " * 2000, "--choice", "bug,low")
    assert long == longer
    assert (whole.code, whole.out) == (1, "")
    assert "tokens are needed" in whole.err


@pytest.mark.parametrize(
    ("arguments", "allowed", "guide"),
    [
        (("--choice", "bug, billing"), {"bug", "billing"}, "choice"),
        (("--choice", "low"), {"low"}, "literal"),
        (("--regex", "(ab|ba)!"), {"ab!", "ba!"}, "regex"),
        (("--schema", "schema.json"), {"1", "null", '"bug"'}, "json_schema"),
    ],
)
def test_answer_is_one_that_was_asked_for(explain, home, arguments, allowed, guide):
    """Then the text is the whole prompt."""
    (home / "schema.json").write_text('{"enum": [1, null, "bug"]}')
    told = explain(TEXT, *arguments, "--json").lines[0]
    assert told["text"] in allowed
    assert told["guide"] == guide
    assert told["prompt_tokens"] < 100


def test_free_answer_has_triage_prompt_and_no_guide(explain):
    free = explain(TEXT, "--free", "--max-tokens", "5", "--json").lines[0]
    guided = explain(TEXT, "--json").lines[0]
    assert free["guide"] == ""
    assert free["prompt_tokens"] == guided["prompt_tokens"]
    assert len(free["tokens"]) <= 5
    assert free["forced_share"] == 0


def test_same_seed_writes_the_same(explain):
    hot = ("--free", "--temperature", "2", "--max-tokens", "8", "--json")
    one, same, other = (explain(TEXT, *hot, "--seed", seed).lines[0] for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_ticket_may_come_on_standard_input(explain):
    """What is no UTF-8 costs no ticket."""
    piped = explain("-", "--json", stdin=TEXT.encode())
    assert piped.lines == explain(TEXT, "--json").lines
    assert explain("-", "--json", stdin=b"caf\xe9").code == 0


def test_files_are_written_beside_the_terminal(explain, home):
    ran = explain(f"{TEXT} <script>\u202e", "--html", "a.html", "--png", "a.png")
    assert ran.code == 0
    assert "wrote a.html" in ran.err
    assert "wrote a.png" in ran.err
    page = (home / "a.html").read_text("utf-8")
    assert "<!doctype html>" in page
    assert "<script" not in page
    assert "What the model read" in page
    assert f"{CANARY} &lt;script&gt;⟨U+202E⟩" in page
    assert "\u202e" not in page
    with Image.open(home / "a.png") as image:
        assert len(image.convert("RGB").getcolors(1 << 20)) > 20
        assert image.height > drawing._TOP + drawing._BOTTOM
    assert sorted(path.name for path in home.iterdir()) == ["a.html", "a.png", "weighbridge.toml"]


def test_existing_file_is_overwritten_on_demand_alone(explain, home):
    """The refusal comes first, before the model has worked for nothing."""
    (path := home / "a.html").write_text("mine")
    refused = explain(TEXT, "--html", path, "--png", "a.png")
    assert (refused.code, refused.out) == (2, "")
    assert "--force" in refused.err
    assert path.read_text() == "mine"
    assert not (home / "a.png").exists()
    assert explain(TEXT, "--html", path, "--force").code == 0
    assert path.read_text() != "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--choice", "a", "--free"), "exclude each other"),
        (("--regex", "a", "--schema", "s.json"), "exclude each other"),
        (("--choice", ""), "empty text"),
        (("--choice", "bug,,low"), "empty text"),
        (("--schema", "none.json"), "cannot be read"),
        (("--schema", "half.json"), "not JSON"),
        (("--schema", "list.json"), "a JSON Schema is an object"),
        (("--html", "none/a.html"), "cannot be written"),
        (("--html", ".", "--force"), "cannot be written"),
        (("--html", "a", "--png", "a"), "same file"),
        (("--html", "why.pdf"), "ends in .html"),
        (("--png", "why.jpg"), "ends in .png"),
        (("--png", "why"), "ends in .png"),
        (("--html", f"{'a' * 300}.html"), "cannot be written"),
        (("--temperature", "inf"), "temperature"),
        (("--temperature", "nan"), "temperature"),
        (("--max-tokens", "0"), "max-tokens"),
    ],
)
def test_command_that_cannot_be_meant_is_a_usage_error(explain, home, arguments, said):
    (home / "half.json").write_text('{"enum": [')
    (home / "list.json").write_text("[]")
    before = sorted(home.iterdir())
    ran = explain(TEXT, *arguments)
    assert ran.code == 2
    assert said in ran.err.replace("\n", " ")
    assert CANARY not in ran.err
    assert sorted(home.iterdir()) == before


@pytest.mark.parametrize("text", ["", " \n", "\u200b"])
def test_empty_ticket_is_a_usage_error(explain, text):
    assert explain(text).code == 2
    assert explain("-", stdin=text.encode()).code == 2


def test_answer_that_is_cut_short_is_none(explain, home):
    """Nothing is printed or written; the hint says what to raise."""
    ran = explain(TEXT, "--max-tokens", "2", "--html", "a.html", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert "hint:  Raise max_tokens" in ran.err
    assert CANARY not in ran.err
    assert not (home / "a.html").exists()


def test_schema_that_cannot_be_enforced_is_named_by_its_place(explain, home):
    tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    schema = {"type": "object", "properties": {"tags": tags}, "required": ["tags"]}
    (home / "schema.json").write_text(json.dumps(schema))
    ran = explain(TEXT, "--schema", "schema.json")
    assert (ran.code, ran.out) == (1, "")
    assert "/properties/tags" in ran.err


@pytest.mark.parametrize("arguments", [("--choice", "bug,bug"), ("--regex", "(")])
def test_guide_that_describes_no_answer_fails(explain, arguments):
    ran = explain(TEXT, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert "error: " in ran.err


def test_unknown_model_names_the_known_ones(cli):
    ran = cli("explain", TEXT, "--model", "smollm3")
    assert (ran.code, ran.out) == (1, "")
    assert "hint:  Did you mean smollm2-135m? Known models: " in ran.err


def test_image_without_matplotlib_says_what_to_install(explain, home, monkeypatch):
    """Before the model has worked for nothing; the page needs no such package."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = explain(TEXT, "--png", "a.png")
    assert (ran.code, ran.out) == (1, "")
    assert "weighbridge[plot]" in ran.err
    assert explain(TEXT, "--html", "a.html").code == 0


def test_disk_that_fills_up_leaves_nothing_half_written(explain, home, monkeypatch):
    (home / "a.html").write_text("mine")

    def fail(*_):
        raise OSError(28, "No space left on device")

    explain(TEXT)  # what is converted is in place
    monkeypatch.setattr(os, "replace", fail)
    ran = explain(TEXT, "--html", "a.html", "--force")
    assert ran.code == 2
    assert "No space left" in ran.err
    assert (home / "a.html").read_text() == "mine"
    assert len(list(home.iterdir())) == 2


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no such file system here")
@pytest.mark.parametrize("option", ["html", "png"])
def test_folder_that_takes_no_file_is_found_before_the_model_runs(cli, option):
    """The model is not even there; and no file is left anywhere."""
    ran = cli("explain", TEXT, f"--{option}", f"/proc/self/a.{option}", "--model", "nothing.gguf")
    assert ran.code == 2
    assert f"/proc/self/a.{option} cannot be written" in ran.err


def test_ending_may_be_in_capitals(explain, home):
    assert explain(TEXT, "--html", "A.HTM").code == 0
    assert (home / "A.HTM").is_file()


def test_path_of_a_model_that_is_not_there_is_called_one(cli):
    ran = cli("explain", TEXT, "--model", "./nothing.gguf")
    assert "no such file or folder: './nothing.gguf'" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--regex", "[a-"), "no regular expression"),
        (("--regex", "(a"), "no regular expression"),
        (("--choice", "a,b,a"), "is the same option as /0"),
        (("--schema", "none.json"), "cannot be read"),
        (("--temperature", "inf"), "must be a finite number"),
    ],
)
def test_arguments_are_looked_at_before_torch_is_loaded(cli, monkeypatch, arguments, said):
    """Its import takes seconds, in which nobody learns anything."""
    monkeypatch.setattr(explain_module, "_question", lambda *_: pytest.fail("torch comes next"))
    ran = cli("explain", TEXT, *arguments)
    assert ran.code in {1, 2}
    assert said in ran.err


def test_waiting_is_said_where_somebody_watches(explain, monkeypatch):
    """Which part of the work it is, and in the end how far the answer has come."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    told = explain(TEXT, "--choice", "bug, billing").err
    assert "reading the weights" in told
    assert re.search(r"writing the answer: token \d+", told)


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("explain", TEXT), "weighbridge.cli.explain.load_settings"),
        (("model", "pull"), "weighbridge.cli.model.is_pulled"),
        (("providers", "list"), "weighbridge.cli.providers.load_settings"),
    ],
)
def test_stopped_command_claims_nothing_about_decisions(cli, monkeypatch, arguments, place):
    """Only triage keeps any."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, stop)
    ran = cli(*arguments)
    assert (ran.code, ran.err) == (130, "Stopped.\n")
