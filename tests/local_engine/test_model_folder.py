"""Folders from the Hub: read as `transformers` reads them, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_model import SPECIALS, tiny_tokenizer
from tokenizers import AddedToken, Tokenizer

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.chat_template import ChatTemplate, Message
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.folder import read_folder
from weighbridge.local_engine.models.load import load_generator

VOCABULARY = tiny_tokenizer().vocab_size
PADDED = VOCABULARY + 5
NUMBERS = {
    "vocab_size": PADDED,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
}
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"


@pytest.fixture(scope="module")
def reference() -> Any:
    """A model of `transformers`, and the rotary base that makes its positions matter."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(**NUMBERS, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    return LlamaForCausalLM(config).eval()


@pytest.fixture
def folder(reference: Any, tmp_path: Path) -> Path:
    """It, saved as the Hub would have it."""
    path = tmp_path / "model"
    reference.save_pretrained(path)
    whole = Tokenizer.from_str(tiny_tokenizer()._tokenizer.to_str())
    whole.add_special_tokens([AddedToken(token) for token in SPECIALS])
    whole.save(str(path / "tokenizer.json"))
    settings = {
        "bos_token": "<|im_start|>",
        "eos_token": {"content": "<|im_end|>"},
        "chat_template": TEMPLATE,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def change(path: Path, **values: Any) -> None:
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, **values}))


def logits(folder: Path, cache: Path, ids: torch.Tensor) -> torch.Tensor:
    model = load_generator(converted(folder, cache, "float32")).model
    return model.logits(model.forward(ids, model.empty_cache())[0])


IDS = torch.arange(3, 80)


@pytest.mark.filterwarnings("default")  # transformers' own
@pytest.mark.parametrize("form", ["whole", "sharded", "old config", "float16", "mistral"])
def test_folder_reads_like_its_own_library(reference, folder, tmp_path, form):
    """One file or several, old names or new, in the precision it was saved in."""
    if form == "sharded":
        (folder / "model.safetensors").unlink()
        reference.save_pretrained(folder, max_shard_size="40KB")
        assert len(list(folder.glob("*.safetensors"))) > 2
    elif form == "old config":
        found = json.loads((folder / "config.json").read_text())
        del found["rope_parameters"], found["head_dim"]
        more = {"rope_theta": 500.0, "rope_scaling": None, "pretraining_tp": 1}
        (folder / "config.json").write_text(json.dumps({**found, **more}))
    elif form == "float16":
        file = folder / "model.safetensors"
        halves = {name: tensor.half() for name, tensor in load_file(file).items()}
        save_file(halves, file)
        reference = type(reference)(reference.config).eval()
        reference.load_state_dict({name: tensor.float() for name, tensor in halves.items()})
    elif form == "mistral":
        change(folder / "config.json", model_type="mistral", sliding_window=128)
    with torch.inference_mode():
        wanted = reference(IDS[None]).logits[0]
    torch.testing.assert_close(logits(folder, tmp_path, IDS), wanted, atol=1e-4, rtol=1e-4)


def test_tied_head_is_the_embedding_whatever_else_the_file_holds(folder, tmp_path):
    change(folder / "config.json", tie_word_embeddings=True)
    stored = load_file(converted(folder, tmp_path, "float32") / "model.safetensors")
    assert "lm_head.weight" not in stored


def test_head_that_is_neither_tied_nor_there_is_corrupt(folder):
    file = folder / "model.safetensors"
    save_file({n: t for n, t in load_file(file).items() if n != "lm_head.weight"}, file)
    with pytest.raises(ModelCorrupt, match="lm_head"):
        read_folder(folder)


def test_padded_vocabulary_is_as_wide_as_the_embedding(folder, tmp_path):
    generator = load_generator(converted(folder, tmp_path, "float32"))
    assert generator.model.vocab_size == generator.tokenizer.vocab_size == PADDED
    assert generator.tokenizer.token_bytes[VOCABULARY:] == [b""] * 5


def test_ends_are_those_of_every_file(folder):
    """The config's, the generation settings', and control tokens known to end a turn."""
    change(folder / "config.json", eos_token_id=7)
    (folder / "generation_config.json").write_text('{"eos_token_id": [8, 9]}')
    assert read_folder(folder).eos_ids == {0, 2, 7, 8, 9}


def test_template_and_its_tokens_come_with_the_folder(folder, tmp_path):
    generator = load_generator(converted(folder, tmp_path, "float32"))
    assert (generator.bos_token, generator.eos_token) == ("<|im_start|>", "<|im_end|>")
    chat = ChatTemplate(generator.chat_template, generator.tokenizer)
    assert chat.render([Message("user", "bug")])[::2] == [1, 2]


def test_template_may_be_a_file_or_one_of_several(folder):
    several = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    change(folder / "tokenizer_config.json", chat_template=several)
    assert read_folder(folder).chat_template == "yes"
    (folder / "chat_template.jinja").write_text("file")
    assert read_folder(folder).chat_template == "file"
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").unlink()
    assert read_folder(folder).chat_template == ""


HARMLESS = {"attention_bias": False, "mlp_bias": None, "sliding_window": 8, "use_cache": True}
HARMFUL = {
    "model_type": "qwen2",
    "hidden_act": "gelu",
    "attention_bias": True,
    "mlp_bias": True,
    "rope_scaling": {"type": "linear", "factor": 2.0},
    "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0},
    "partial_rotary_factor": 0.5,
    "quantization_config": {"quant_method": "gptq"},
}


def test_settings_that_change_nothing_are_accepted(folder):
    """A sliding window, too, is no matter of a Llama's."""
    plain = read_folder(folder).llama
    change(folder / "config.json", **HARMLESS)
    assert read_folder(folder).llama == plain


@pytest.mark.parametrize("key", HARMFUL)
def test_setting_that_the_forward_pass_does_not_know_is_refused(folder, key):
    change(folder / "config.json", **{key: HARMFUL[key]})
    with pytest.raises(EngineError, match=f"{key}|llama3") as caught:
        read_folder(folder)
    assert not isinstance(caught.value, ModelCorrupt)


def test_sliding_window_is_refused_where_it_bites(folder):
    change(folder / "config.json", model_type="mistral", sliding_window=64)
    with pytest.raises(EngineError, match="sliding_window = 64"):
        read_folder(folder)


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_proj.bias", "model.extra.weight"])
def test_tensor_of_no_llama_is_refused(folder, tmp_path, name):
    file = folder / "model.safetensors"
    save_file({**load_file(file), name: torch.zeros(32)}, file)
    with pytest.raises(EngineError, match=name):
        converted(folder, tmp_path, "float32")


def test_rotary_tables_of_old_checkpoints_are_passed_over(folder):
    file = folder / "model.safetensors"
    table = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)}
    save_file({**load_file(file), **table}, file)
    assert not read_folder(folder).tensors.keys() & table.keys()


def test_kind_of_number_that_is_not_known_is_refused(folder):
    file = folder / "model.safetensors"
    save_file({**load_file(file), "model.norm.weight": torch.zeros(32, dtype=torch.int64)}, file)
    with pytest.raises(EngineError, match=r"model\.norm\.weight' is stored as I64"):
        read_folder(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_missing_or_damaged_file_is_corrupt(folder, tmp_path, name):
    (folder / name).write_bytes(b"\0" * 50)
    with pytest.raises(ModelCorrupt, match="model"):
        converted(folder, tmp_path, "float32")
    (folder / name).unlink()
    with pytest.raises(ModelCorrupt, match="model"):
        converted(folder, tmp_path, "float32")


@pytest.mark.parametrize(
    "index", ["", "{}", "[]", '{"weight_map": {"model.norm.weight": "../secret.safetensors"}}']
)
def test_index_names_files_of_the_folder_alone(folder, tmp_path, index):
    (tmp_path / "secret.safetensors").write_bytes(b"")
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelCorrupt, match=r"index\.json"):
        converted(folder, tmp_path, "float32")


@pytest.mark.parametrize("name", ["tokenizer_config.json", "model.safetensors"])
def test_any_changed_file_is_another_model(folder, tmp_path, name):
    """Its folder and its fingerprint are others."""
    first = converted(folder, tmp_path, "float32")
    if name == "model.safetensors":
        tensors = load_file(folder / name)
        tensors["model.norm.weight"] += 1
        save_file(tensors, folder / name)
    else:
        change(folder / name, bos_token="<|im_end|>")
    second = converted(folder, tmp_path, "float32")
    assert first != second
    assert load_generator(first).fingerprint != load_generator(second).fingerprint
