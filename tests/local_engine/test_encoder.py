"""Sentence embeddings: against `transformers`, and of texts longer than a window."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from weighbridge.errors import ModelCorrupt
from weighbridge.local_engine.catalogue import locate
from weighbridge.local_engine.encoder import WINDOW_TOKENS, Encoder
from weighbridge.local_engine.kept_embeddings import embed_kept
from weighbridge.local_engine.tokenizer import read_tokenizer

TEXTS = [
    "I was charged twice, refund please.",
    "",
    "café 😀 <b>bold</b> [SEP]",
    "word",
    "Please cancel my subscription and delete all of my data. " * 8,
]


@pytest.fixture(scope="module")
def encoder(models):
    return Encoder.load(locate("all-minilm-l6-v2", "encoder"))


@pytest.mark.models
def test_embeddings_are_those_of_transformers(encoder):
    """BERT with mean pooling over all tokens, on the real weights."""
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    path = locate("all-minilm-l6-v2", "encoder")
    config = BertConfig(**json.loads((path.parent / "config.json").read_text("utf-8")))
    config._attn_implementation = "eager"
    reference = BertModel(config, add_pooling_layer=False).eval()
    missing, _ = reference.load_state_dict(load_file(path), strict=False)
    assert [name for name in missing if "position_ids" not in name] == []
    tokenizer = read_tokenizer(path.parent / "tokenizer.json")  # [SEP] in a text is plain text
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for text, ours in zip(TEXTS, encoder.embed(TEXTS), strict=True):
        ids = torch.tensor([tokenizer.encode(text).ids])
        assert ids.shape[1] <= WINDOW_TOKENS
        with torch.inference_mode():
            mean = reference(ids).last_hidden_state[0].mean(0)
        torch.testing.assert_close(ours, mean / mean.norm(), atol=1e-5, rtol=0)


@pytest.mark.models
def test_embeddings_have_unit_length(encoder):
    """Of short, empty and very long texts alike."""
    lengths = encoder.embed([*TEXTS, "word " * 5_000]).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones(len(TEXTS) + 1))


@pytest.mark.models
def test_middle_of_a_very_long_text_is_not_read(encoder):
    size = WINDOW_TOKENS - 2
    head, tail = "invoice " * (6 * size), "refund " * (2 * size)
    one, other = encoder.embed([head + word * (3 * size) + tail for word in ("cat ", "dog ")])
    torch.testing.assert_close(one, other)


@pytest.mark.models
def test_end_of_a_long_text_is_read(encoder):
    start = "Hello, I hope that you are well. " * 30
    one, other = encoder.embed([start + "Cancel my plan.", start + "The app crashes."])
    assert float(one @ other) < 0.999


@pytest.mark.models
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"[]"])
def test_damaged_encoder_is_corrupt(models, tmp_path, name, content):
    """A file is missing, empty, or something else."""
    folder = tmp_path / "encoder"
    shutil.copytree(locate("all-minilm-l6-v2", "encoder").parent, folder)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(ModelCorrupt):
        Encoder.load(folder / "model.safetensors")


@pytest.mark.models
@pytest.mark.parametrize("damage", ["missing", "narrow", "few words", "few positions", "nan"])
def test_encoder_whose_weights_do_not_fit_is_corrupt_when_it_is_loaded(models, tmp_path, damage):
    """Not only when the first ticket comes."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "encoder"
    shutil.copytree(locate("all-minilm-l6-v2", "encoder").parent, folder)
    weights = load_file(folder / "model.safetensors")
    name = "encoder.layer.5.output.dense.weight"
    match damage:
        case "missing":
            del weights[name]
        case "narrow":
            weights[name] = weights[name][:, :-1].contiguous()
        case "few words" | "few positions":
            table = "word" if damage == "few words" else "position"
            name = f"embeddings.{table}_embeddings.weight"
            weights[name] = weights[name][:120].contiguous()
        case "nan":
            weights[name].fill_(torch.nan)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ModelCorrupt, match="encoder"):
        Encoder.load(folder / "model.safetensors")


@pytest.mark.models
def test_control_tokens_in_a_text_are_plain_text(encoder):
    """A ticket that spells [SEP] or [CLS] ends and begins nothing."""
    plain, tagged = encoder.embed(["[ SEP ] my card", "[SEP] my card"])
    torch.testing.assert_close(plain, tagged, atol=1e-5, rtol=0)


def test_kept_embeddings_are_those_of_the_encoder(tmp_path):
    """Read back from the folder, made anew where it is damaged, and told apart by encoder."""
    asked = []

    class Counting:
        fingerprint = "one"

        def embed(self, texts):
            asked.append(list(texts))
            return torch.full((len(texts), 3), float(len(asked)))

    encoder = Counting()
    first = embed_kept(encoder, ["a", "b"], tmp_path / "kept")
    assert torch.equal(embed_kept(encoder, ["a", "b"], tmp_path / "kept"), first)
    assert len(asked) == 1
    (file,) = (tmp_path / "kept").iterdir()
    file.write_bytes(b"broken")
    embed_kept(encoder, ["a", "b"], tmp_path / "kept")
    embed_kept(encoder, ["a", "c"], tmp_path / "kept")
    encoder.fingerprint = "other"
    embed_kept(encoder, ["a", "b"], tmp_path / "kept")
    (tmp_path / "file").touch()
    embed_kept(encoder, ["a"], tmp_path / "file" / "no folder")
    assert len(asked) == 5
    assert embed_kept(encoder, ["a"], None).shape == (1, 3)
