"""Models written for `transformers`: the same model there, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf_files
import numpy
import pytest
import torch
from gguf import GGMLQuantizationType, TokenType
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny_model import tiny_weights, write_gguf

from weighbridge.errors import EngineError
from weighbridge.local_engine.catalogue import model_folder
from weighbridge.local_engine.chat_template import CHATML, Message
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.export import export_model
from weighbridge.local_engine.models.folder import read_folder
from weighbridge.local_engine.models.gguf import read_gguf
from weighbridge.local_engine.models.load import Generator, load_generator

LLAMA2 = (
    "{% for m in messages %}{% if m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"
)
PIECES = ("▁", "a", "b", "c", "▁a", "ab", "▁ab", "[", "]", "I", "N", "S", "T", "/", "é")
CONVERSATION = [Message("user", "a bug"), Message("assistant", "bé"), Message("user", "the bill")]


def byte_level(path: Path, *, tied: bool = True) -> Path:
    """ChatML tokens, and no chat template."""
    write_gguf(path, tiny_weights(tied=tied), GGMLQuantizationType.Q8_0)
    return path


def sentencepiece(path: Path) -> Path:
    """Plain text after `<s>`, spaces of its own, a chat template, more rows than tokens."""
    tokens = [
        ("<unk>", 0.0, TokenType.UNKNOWN),
        ("<s>", 0.0, TokenType.CONTROL),
        ("</s>", 0.0, TokenType.CONTROL),
        *((f"<0x{byte:02X}>", 0.0, TokenType.BYTE) for byte in range(256)),
        *((piece, -float(i), TokenType.NORMAL) for i, piece in enumerate(PIECES)),
    ]
    fields = gguf_files.tokenizer_fields(
        tokens, bos_token_id=1, eos_token_id=2, chat_template=LLAMA2, pre=None, merges=None
    )
    random = numpy.random.default_rng(0)
    shapes = {**gguf_files.SHAPES, "token_embd": (len(tokens) + 5, gguf_files.HIDDEN)}
    shapes["output"] = shapes["token_embd"]
    tensors = {
        name: (random.normal(size=shape, scale=0.1).astype("f4"), GGMLQuantizationType.F32)
        for name, shape in shapes.items()
    }
    return gguf_files.write(path, {**fields, "tokenizer.chat_template": LLAMA2}, tensors)


MODELS = {"byte-level": byte_level, "sentencepiece": sentencepiece}


@pytest.fixture(scope="module", params=MODELS)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MODELS[request.param](tmp_path_factory.mktemp("source") / "tiny.gguf")


@pytest.fixture(scope="module")
def exported(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_model(source, folder)
    return folder


@pytest.fixture(scope="module")
def generator(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator:
    """What the engine makes of the same file."""
    return load_generator(converted(source, tmp_path_factory.mktemp("cache"), "float32"))


@pytest.fixture(scope="module")
def fast(exported: Path) -> Any:
    """The tokenizer of `transformers`."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(exported)


def logits(generator: Generator, ids: list[int]) -> torch.Tensor:
    model = generator.model
    return model.logits(model.forward(torch.tensor(ids), model.empty_cache())[0])


def of_transformers(folder: Path) -> Callable[[list[int]], torch.Tensor]:
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    assert (type(model), model.dtype) == (LlamaForCausalLM, torch.float32)

    @torch.inference_mode()
    def logits(ids: list[int]) -> torch.Tensor:
        found: torch.Tensor = model(torch.tensor([ids])).logits[0]
        return found

    return logits


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_are_those_of_the_file_rounded_once(tmp_path, dtype, tied):
    """Nothing is lost in float32; a tied head is written once."""
    source = byte_level(tmp_path / "tiny.gguf", tied=tied)
    export_model(source, tmp_path / "model", dtype)
    wanted = {name: tensor.read() for name, tensor in read_gguf(source).tensors.items()}
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert stored.keys() == wanted.keys()
    assert ("lm_head.weight" in stored) is not tied
    for name, tensor in wanted.items():
        assert torch.equal(stored[name], tensor.to(getattr(torch, dtype)))


def test_export_says_what_its_source_says(source, exported):
    """Numbers, ends, tokens, template and tokenizer; only what it lacked is added."""
    before, after = read_gguf(source), read_folder(exported)
    for name in ("llama", "eos_ids", "bos_token", "eos_token", "adds_bos"):
        assert getattr(after, name) == getattr(before, name)
    assert after.chat_template == (before.chat_template or CHATML)
    added = {"post_processor": json.loads(after.tokenizer)["post_processor"]}
    assert json.loads(after.tokenizer) == {**json.loads(before.tokenizer), **added}
    assert (added["post_processor"] is not None) is before.adds_bos


def test_engine_reads_its_own_export(source, exported, generator, tmp_path):
    """To the last bit, and again when it is exported once more."""
    export_model(exported, tmp_path / "again")
    ids = list(range(3, 60))
    for folder in (exported, tmp_path / "again"):
        read = load_generator(converted(folder, tmp_path / "cache", "float32"))
        assert torch.equal(logits(read, ids), logits(generator, ids))
        assert read.bos_id == generator.bos_id
        assert read.chat().render(CONVERSATION) == generator.chat().render(CONVERSATION)


@pytest.mark.filterwarnings("default")  # transformers' own
def test_logits_of_transformers_are_ours(exported, generator):
    """Row order, rotary base, norms: one wrong and they would not be near."""
    ids = list(range(3, 64))
    torch.testing.assert_close(
        of_transformers(exported)(ids), logits(generator, ids), atol=1e-3, rtol=1e-3
    )


@pytest.mark.filterwarnings("default")  # transformers' own
@settings(max_examples=60)
@given(text=st.text(" ab\néIbugil", max_size=20))
def test_tokens_of_transformers_are_ours(fast, generator, text):
    """Plain text comes after a begin-of-text token and a space, where the model has them."""
    begin = [] if generator.bos_id is None else [generator.bos_id]
    space = "" if generator.tokenizer.space_prefix == "never" else " "
    assert fast.encode(text) == begin + generator.tokenizer.encode(space + text if text else "")


@pytest.mark.filterwarnings("default")  # transformers' own
def test_conversations_of_transformers_are_ours(fast, generator):
    """By the model's own template, or by the ChatML that the engine writes without one."""
    turns = [{"role": message.role, "content": message.content} for message in CONVERSATION]
    written = fast.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    assert written == generator.chat().render(CONVERSATION)


@pytest.mark.filterwarnings("default")  # transformers' own
def test_transformers_knows_the_tokens_that_end_and_pad(exported, fast, generator):
    """All ends of an answer, the model's own first; and none of them shows in the text."""
    from transformers import AutoConfig, GenerationConfig

    for settings_ in (AutoConfig, GenerationConfig):
        ends = settings_.from_pretrained(exported).eos_token_id
        assert ends[0] == fast.eos_token_id
        assert set(ends) == generator.tokenizer.eos_ids
    padded = fast(["a", "a b c"], padding=True)["input_ids"]
    assert len({len(ids) for ids in padded}) == 1
    assert GenerationConfig.from_pretrained(exported).pad_token_id == padded[0][-1]
    assert fast.decode([*fast.encode("ab"), fast.eos_token_id], skip_special_tokens=True) == "ab"


def test_model_without_bos_is_given_none(tmp_path):
    """Left out of the config, `transformers` would take the token 1."""
    export_model(byte_level(tmp_path / "tiny.gguf"), tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["bos_token_id"] is None
    assert "bos_token" not in json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())


def test_weights_too_large_for_half_precision_are_refused(tmp_path):
    """bfloat16 has room for them."""
    weights = tiny_weights()
    weights["model.layers.0.mlp.down_proj.weight"][3, 5] = 70_000.0
    write_gguf(tmp_path / "tiny.gguf", weights)
    with pytest.raises(EngineError, match=r"layers\.0\.mlp\.down_proj.*too large for .*float16"):
        export_model(tmp_path / "tiny.gguf", tmp_path / "model", "float16")
    assert not (tmp_path / "model").exists()
    export_model(tmp_path / "tiny.gguf", tmp_path / "model", "bfloat16")


def test_layers_of_different_width_are_refused(tmp_path):
    """`transformers` has one number for all of them."""
    weights = tiny_weights()
    for name, dim in (("gate", 0), ("up", 0), ("down", 1)):
        key = f"model.layers.1.mlp.{name}_proj.weight"
        weights[key] = weights[key].narrow(dim, 0, 32).contiguous()
    write_gguf(tmp_path / "tiny.gguf", weights)
    with pytest.raises(EngineError, match="differs by layer"):
        export_model(tmp_path / "tiny.gguf", tmp_path / "model")


TICKETS = [
    "I was charged twice for the Team plan in 2024. Refund please, my card is nearly empty.",
    "  Hi!\n\n\tThe export of 1,024 rows fails: €99,50 “why”? 😀 Añadí el número.",
    "def total(rows):\n    return sum(row['price'] * 2 for row in rows)  # I'M SURE it's right",
]


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.filterwarnings("default")  # transformers' own
def test_real_model_is_the_same_in_transformers(exact_models, tmp_path):
    """Token ids, conversations and logits; and the engine's own again from the export."""
    from transformers import AutoTokenizer

    export_model(model_folder("smollm2-135m") / "model.gguf", tmp_path / "model")
    fast = AutoTokenizer.from_pretrained(tmp_path / "model")
    theirs = of_transformers(tmp_path / "model")
    again = load_generator(converted(tmp_path / "model", tmp_path / "cache", "float32"))
    for ticket in TICKETS:
        ids = exact_models.vocabulary.encode(ticket)
        assert fast.encode(ticket) == ids
        messages = [Message("system", "You sort tickets."), Message("user", ticket)]
        turns = [{"role": m.role, "content": m.content} for m in messages]
        prompt = fast.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
        assert prompt == exact_models.chat.render(messages) == again.chat().render(messages)
        model = exact_models.model
        ours = model.logits(model.forward(torch.tensor(ids), model.empty_cache())[0])
        assert torch.equal(ours, logits(again, ids))
        torch.testing.assert_close(ours, theirs(ids), atol=1e-3, rtol=1e-3)
