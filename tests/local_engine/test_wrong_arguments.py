"""What cannot be meant is refused at once, in words that say what was wanted."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import BaseModel
from toy_models import TINY, exact_engine, exact_llama, toy

from weighbridge import errors
from weighbridge.errors import EngineError, ExtraMissing, ModelUnknown, TaskInvalid, Truncated
from weighbridge.local_engine import (
    ByteTokenizer,
    Engine,
    Message,
    ModuleModel,
    Sampling,
    TableVocabulary,
    TransformersModel,
    guides,
)
from weighbridge.schemas.finite import language

CHOICE = guides.choice(["a", "b"])
HALF = "canary-7194 \ud800"
SCHEMA = {"enum": ["a", "b"]}

wrong: Any = lambda value: value  # noqa: E731  # of a type that no checker would let through


def generate(prompt: Any = "a", guide: Any = CHOICE, **how: Any) -> Any:
    return exact_engine().generate(prompt, guide, **how)


class Ticket(BaseModel):
    category: str


TYPES: list[tuple[str, Callable[[], Any]]] = [
    ("options must be a list of texts, not a dict", lambda: exact_engine().posterior("a", SCHEMA)),
    ("options must be a list of texts; number 1 is an int", lambda: guides.choice(["a", 1])),
    ("options must be a list of texts, not one text", lambda: guides.choice("ab")),
    ("language must be a finite language", lambda: exact_engine().posterior("a", CHOICE)),
    ("language must be a finite language", lambda: guides.finite(SCHEMA)),
    ("content of a message must be a text, not None", lambda: Message("user", wrong(None))),
    ("prompt must be a text, .*not None", lambda: generate(None)),
    ("prompt must be .*not a dict", lambda: generate([{"role": "user", "content": "a"}])),
    ("prompt must be .*not a Message", lambda: generate(Message("user", "a"))),
    ("prompt must be .*not of both", lambda: generate([Message("user", "a"), 1])),
    ("prompts must be a list", lambda: exact_engine().generate_many(wrong(None), CHOICE)),
    ("prompt must be", lambda: exact_engine().generate_many(["a", wrong(None)], CHOICE)),
    ("literal must be a text, not an int", lambda: guides.literal(wrong(5))),
    ("stop must be a text, not a list", lambda: guides.free(stop=wrong(["x"]))),
    ("max_tokens must be a whole number", lambda: guides.free("x", wrong("5"))),
    ("max_tokens must be a whole number", lambda: guides.free("x", True)),
    ("texts go into by_text.*a key is a str", lambda: guides.soft(wrong({"refund": 2.0}))),
    ("a value is a str", lambda: guides.soft({1: wrong("2")})),
    ("by_text must be .*a key is an int", lambda: guides.soft(by_text=wrong({1: 2.0}))),
    ("not a list", lambda: guides.biased(CHOICE, wrong([1]))),
    ("log_probs must be .*not a list", lambda: guides.label_prior(wrong(["a"]))),
    ("a value is None", lambda: guides.label_prior({"a": wrong(None)})),
    (r"then\(\*parts\)", lambda: guides.then(wrong([CHOICE, CHOICE]))),
    ("part 1 of then must be made by", lambda: guides.then(CHOICE, wrong("a"))),
    ("second guide of both", lambda: guides.both(CHOICE, wrong(None))),
    ("function must be a function", lambda: guides.allowed(wrong([1]))),
    ("`allowed` returns must be a list", lambda: generate("a", guides.allowed(wrong(len)))),
    ("token id .*not a str", lambda: generate("a", guides.allowed(lambda _: wrong(["a"])))),
    ("json.loads", lambda: guides.json_schema(wrong('{"type": "object"}'))),
    (r"Ticket\.model_json_schema\(\)", lambda: guides.json_schema(wrong(Ticket))),
    ("schema must be .*not None", lambda: guides.json_schema(wrong(None))),
    ("pattern must be a text", lambda: guides.regex(wrong(re.compile("a")))),
    ("grammar must be a text", lambda: guides.lark(wrong(None))),
    ("grammar must be a text", lambda: guides.gbnf(wrong(5))),
    ("guide must be made by", lambda: generate("a", "choice")),
    ("the class", lambda: generate("a", type(CHOICE))),
    ("seed must be a whole number", lambda: Sampling(seed=wrong(1.5))),
    ("seed must be a whole number, not None", lambda: Sampling(seed=wrong(None))),
    ("temperature must be a number", lambda: Sampling(temperature=wrong("hot"))),
    ("top_k must be a whole number", lambda: Sampling(top_k=wrong(1.5))),
    ("top_p must be a number", lambda: Sampling(top_p=wrong(None))),
    ("prefer_long must be True or False", lambda: Sampling(prefer_long=wrong("yes"))),
    ("max_tokens must be a whole number", lambda: generate(max_tokens="5")),
    ("max_tokens must be a whole number", lambda: generate(max_tokens=None)),
    (r"sampling must be Sampling\(", lambda: generate(sampling={"temperature": 1})),
    ("prefill must be a text, not None", lambda: generate(prefill=None)),
    ("stop must be a list of texts; number 0", lambda: generate(stop=[1])),
    ("heal must be True or False", lambda: generate(heal="no")),
    ("on_step must be a function", lambda: generate(on_step="x")),
    ("generator must be a known name or a path", lambda: Engine.load(wrong(None))),
    ("prior must be .*None for none, not a bool", lambda: Engine.load(prior=wrong(False))),
    ("max_ticket_tokens must be", lambda: Engine.load(max_ticket_tokens=wrong("5"))),
    ("model must be a language model", lambda: Engine(wrong(TINY), wrong(exact_llama()))),
    ("vocabulary must be", lambda: Engine(exact_llama(), wrong(None))),
    (r"AutoModelForCausalLM\.from_pretrained", lambda: TransformersModel("gpt2")),
    (r"AutoTokenizer\.from_pretrained", lambda: ByteTokenizer.from_transformers("gpt2")),
    ("module must be", lambda: ModuleModel(wrong("gpt2"), 5, 64)),
    ("vocab_size must be", lambda: ModuleModel(torch.nn.Embedding(5, 5), wrong(5.0), 64)),
    ("token 0 must be bytes", lambda: TableVocabulary([wrong("a")], {0})),
    ("eos_ids must be a list of token ids", lambda: TableVocabulary([b"a"], wrong(0))),
    ("ticket must be a text", lambda: weigh(wrong(5))),
    (
        "count must be a whole number",
        lambda: exact_engine().posterior("a", ["b"]).sample(wrong(1.5)),
    ),
]


def weigh(ticket: str) -> Any:
    from weighbridge.local_engine.chat_template import ChatTemplate

    engine = Engine(exact_llama(), TINY, chat=ChatTemplate("", TINY))
    found = language(SCHEMA)
    assert found is not None
    return engine.weigh("Sort.", ticket, found, [])


@pytest.mark.parametrize(("said", "call"), TYPES)
def test_value_of_another_type_is_refused_with_what_was_wanted(
    said: str, call: Callable[[], Any]
) -> None:
    """Before the model reads anything, and never as an error of some attribute."""
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("precision must be float32, int8", lambda: Engine.load(precision=wrong("int4"))),
        ("threads must be 1 or more", lambda: Engine.load(threads=0)),
        ("max_ticket_tokens must be 1 or more", lambda: Engine.load(max_ticket_tokens=0)),
        ("max_tokens must be 1 or more", lambda: generate(max_tokens=0)),
        ("vocab_size must be 1 or more", lambda: ModuleModel(torch.nn.Embedding(5, 5), 0, 64)),
        ("/prompt: is empty", lambda: generate("")),
        ("/prompt: is empty", lambda: generate([])),
        ("/prompt: has ids", lambda: generate([10**6])),
        ("/max_tokens: must be 0 or more", lambda: guides.free("x", -1)),
    ],
)
def test_value_out_of_range_is_refused_with_its_range(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, said: str, call: Callable[[], Any]
) -> None:
    """Also where the models are not even there."""
    monkeypatch.setattr("weighbridge.local_engine.engine.locate", lambda *_: tmp_path)
    with pytest.raises(ValueError, match=said):
        call()


def test_right_values_are_taken() -> None:
    """The other side of every check: numbers of other libraries, tuples, an unread prompt."""
    import numpy as np

    assert guides.soft({np.int64(1): np.float32(2)}).by_id == ((1, 2.0),)
    assert Sampling(temperature=1, top_k=np.int64(3), seed=2**200).top_k == 3
    assert guides.choice(text for text in "ab") == CHOICE
    assert generate((1, 2), stop=("x",), on_step=lambda *_: None).text in {"a", "b"}
    assert exact_engine().posterior("a", ("a", "b")).best in {"a", "b"}
    assert guides.free("x", 0).max_tokens == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: generate(HALF),
        lambda: generate(stop=[HALF]),
        lambda: generate(prefill=HALF),
        lambda: exact_engine().posterior(HALF, ["a"]),
        lambda: exact_engine().posterior("a", [HALF]),
        lambda: weigh(HALF),
        lambda: TINY.encode(HALF),
        lambda: TableVocabulary([b"a", b""], {1}).encode(HALF),
        lambda: guides.free(HALF),
        lambda: guides.regex(HALF).bind(TINY),
    ],
)
def test_half_a_surrogate_pair_is_refused_without_the_text(call: Callable[[], Any]) -> None:
    """Python's own error would carry all of it."""
    with pytest.raises(TaskInvalid, match="half a surrogate pair") as caught:
        call()
    assert "canary" not in repr(caught.value.args)
    assert caught.value.__context__ is None


def test_prompt_that_is_none_leaves_the_others_of_its_batch_alone() -> None:
    """Each error stands in its place, and steps are told under the answer's own index."""
    engine, seen = exact_engine(), set[int]()
    prompts = ["a", "", "b", HALF, [10**6], [Message("user", "a")]]
    answers = engine.generate_many(
        prompts, CHOICE, samples=2, on_step=lambda index, _: seen.add(index)
    )
    kinds = [type(answer).__name__ for answer in answers]
    good, bad = ["Generation"] * 2, ["TaskInvalid"] * 2
    assert kinds == [*good, *bad, *good, *bad, *bad, *["EngineError"] * 2]
    assert seen == {0, 1, 4, 5}
    alone = [exact_engine().generate(prompt, CHOICE) for prompt in ("a", "b")]
    assert [answers[0], answers[4]] == alone


def test_schema_without_a_list_of_answers_is_said_in_words() -> None:
    """`language` returns None for it, and whoever hands that on is told what it means."""
    endless = language({"type": "string"})
    assert endless is None
    for call in (
        lambda: exact_engine().posterior("a", wrong(endless)),
        lambda: guides.finite(wrong(endless)),
    ):
        with pytest.raises(TaskInvalid, match="found no answers to list") as caught:
            call()
        assert "guides.json_schema(schema)" in caught.value.hint


def test_label_prior_alone_is_refused_and_beside_a_choice_it_is_not() -> None:
    """Alone it would let the model write anything at all."""
    prior = guides.label_prior({"a": -1.0, "b": 0.0})
    with pytest.raises(TaskInvalid, match="demands none of its labels") as caught:
        generate("a", prior)
    assert "guides.both(guides.choice(labels)" in caught.value.hint
    assert generate("a", guides.both(CHOICE, prior)).text in {"a", "b"}


@pytest.mark.parametrize(
    ("guide", "advice"),
    [
        (guides.json_schema({"type": "string"}), "maxLength"),
        (guides.regex("[a-z]{50}"), "{1,40}"),
        (guides.lark('start: "a"~50'), "in the grammar"),
        (guides.gbnf('root ::= "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"'), "in the grammar"),
        (guides.allowed(lambda _: [70]), "allowed"),
        (guides.free("!!!"), "free"),
        (guides.literal("the end of it all"), "shorten the texts"),
    ],
)
def test_answer_cut_short_is_advised_by_its_own_guide(guide: Any, advice: str) -> None:
    """A pattern has no maxLength, and a schema no function."""
    with pytest.raises(Truncated) as caught:
        generate("a", guide, max_tokens=2)
    assert caught.value.hint.startswith("Raise max_tokens, or ")
    assert advice in caught.value.hint
    assert ("maxLength" in caught.value.hint) == (advice == "maxLength")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"\bfoo", "not supported: it has the escape"),
        ("(?=a)b", "not supported: it looks around"),
        (r"(a)\1", "not supported: it has the escape"),
        ("[a-", "no regular expression: unterminated character set at character 0"),
        ("(a", r"no regular expression: missing \)"),
        ("*", "no regular expression: nothing to repeat"),
        ("a{5,2}", "no regular expression"),
    ],
)
def test_pattern_is_refused_with_a_verdict(pattern: str, said: str) -> None:
    """What nobody can read is told from what only this engine lacks, and that has a hint."""
    from weighbridge.local_engine.guides.regex_text import check_pattern

    for call in (lambda: guides.regex(pattern).bind(TINY), lambda: check_pattern(pattern)):
        with pytest.raises(TaskInvalid, match=said) as caught:
            call()
        assert bool(caught.value.hint) == said.startswith("not supported")


@pytest.mark.parametrize("pattern", ["(?i)ab", r"\p{L}+", r"\u{61}b", "(?<name>a)b", "a/b"])
def test_pattern_that_the_engine_takes_passes_the_early_check(pattern: str) -> None:
    """Python may refuse it; that is asked only where the engine has refused."""
    from weighbridge.local_engine.guides.regex_text import check_pattern

    check_pattern(pattern)
    guides.regex(pattern).bind(TINY)


def test_module_that_does_not_fit_is_told_what_is_wrong_with_it() -> None:
    """Neither an IndexError of torch, nor a wrong diagnosis."""
    with pytest.raises(EngineError, match=r"cannot read the ids 0 to 8.*vocab_size"):
        ModuleModel(torch.nn.Embedding(5, 9), 9, 64)
    with pytest.raises(EngineError, match="NaN"):
        ModuleModel(torch.nn.Embedding.from_pretrained(torch.full((5, 5), torch.nan)), 5, 64)
    with pytest.raises(EngineError, match="returned str, wanted logits"):
        ModuleModel(lambda _: "a", 5, 64)
    assert toy([b"a", b"b", b""], [0.0, 1.0, 2.0]).model.vocab_size == 3


def all_errors(kind: type = errors.WeighbridgeError) -> list[type]:
    return [kind, *(below for child in kind.__subclasses__() for below in all_errors(child))]


def test_traceback_shows_the_hint_once_and_pickles_keep_it() -> None:
    """Who uses the library from Python never sees the command line's own line."""
    error = TaskInvalid("/a", "is odd", "Make it even.")
    error.add_note("a note of somebody else")
    copy = pickle.loads(pickle.dumps(error))
    for one in (error, copy):
        shown = "".join(traceback.format_exception(one))
        assert shown.count("hint: Make it even.") == 1
        assert shown.count("a note of somebody else") == 1
        assert "Make it" not in str(one)
    known_later = Truncated(5)
    known_later.hint = "Something better."
    assert "hint: Something better." in "".join(traceback.format_exception(known_later))
    assert "hint" not in "".join(traceback.format_exception(EngineError("nothing to advise")))


@pytest.mark.parametrize("kind", all_errors())
def test_every_error_of_ours_can_carry_notes(kind: type) -> None:
    """No class takes the property away by defining something of that name."""
    assert kind.__notes__ is errors.WeighbridgeError.__notes__


def test_names_of_models_suggest_no_strangers() -> None:
    """A near name is offered, a far one is not."""
    assert "Did you mean" in ModelUnknown("smollm-135m", ("smollm2-135m",)).hint
    assert "Did you mean" not in ModelUnknown("gpt2", ("smollm2-135m",)).hint


HIDDEN = """
    import sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "torch":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())
    from weighbridge.errors import ExtraMissing

    import weighbridge.local_engine as engine
    from weighbridge.local_engine import guides

    for part, names in ((engine, engine.__all__), (guides, guides.__all__)):
        for name in names:
            try:
                getattr(part, name)
            except ExtraMissing as error:
                assert error.package == "torch", error
                assert "weighbridge[local]" in error.hint
                print("missing", name)
            else:
                print("here", name)
"""


def test_engine_without_its_extra_names_the_command_that_installs_it() -> None:
    """The lazy names are where most people meet it; what needs no torch is still there."""
    script = textwrap.dedent(HIDDEN)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = ran.stdout.split("\n")
    assert {"missing Engine", "missing choice", "missing Sampling", "here Message"} <= {*told}
    assert ExtraMissing("local", "torch").hint == "pip install 'weighbridge[local]'"
