"""The forward pass: against `transformers`, against itself with a cache, and as a packed tree."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import CONFIG, INNER_SIZE, fused, tiny_llama, tiny_weights

from weighbridge.errors import ContextTooLong, ModelCorrupt
from weighbridge.local_engine.catalogue import model_folder
from weighbridge.local_engine.logprobs import log_probs
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.models.protocol import Read

token_ids = st.lists(st.integers(0, CONFIG.vocab_size - 1), min_size=1, max_size=40)


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_transformers(tied):
    """Same random weights, grouped queries, tied head or not."""
    from transformers import LlamaConfig, LlamaForCausalLM

    weights = tiny_weights(3, tied=tied)
    config = LlamaConfig(
        vocab_size=CONFIG.vocab_size,
        hidden_size=CONFIG.hidden_size,
        intermediate_size=INNER_SIZE,
        num_hidden_layers=CONFIG.num_layers,
        num_attention_heads=CONFIG.num_heads,
        num_key_value_heads=CONFIG.num_kv_heads,
        max_position_embeddings=CONFIG.max_positions,
        rms_norm_eps=CONFIG.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": CONFIG.rope_base},
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    reference = LlamaForCausalLM(config).eval()
    missing, unexpected = reference.load_state_dict(weights, strict=False)
    assert (set(missing), unexpected) == ({"lm_head.weight"} if tied else set(), [])
    ids = torch.arange(0, CONFIG.vocab_size, 3)
    with torch.inference_mode():
        wanted = reference(ids[None]).logits[0].log_softmax(-1)
    ours = Llama(CONFIG, fused(weights))
    hidden, _ = ours.forward(ids, ours.empty_cache())
    torch.testing.assert_close(log_probs(ours.logits(hidden)), wanted, atol=1e-4, rtol=1e-4)


@given(ids=token_ids, cuts=st.lists(st.integers(0, 40), max_size=3))
def test_cached_text_reads_like_whole_text(ids, cuts):
    """However the text is cut, the parts read one after the other give the same states."""
    model = tiny_llama(1)
    whole, cache = model.forward(torch.tensor(ids), model.empty_cache())
    parts, past = [], model.empty_cache()
    edges = sorted({0, len(ids), *(cut for cut in cuts if cut < len(ids))})
    for start, end in pairwise(edges):
        hidden, past = model.forward(torch.tensor(ids[start:end]), past)
        parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-4, rtol=1e-4)
    assert past.num_tokens == cache.num_tokens == len(ids)
    for layer in range(CONFIG.num_layers):
        for one, other in zip(past.layer(layer), cache.layer(layer), strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@given(data=st.data(), ids=token_ids, before=token_ids)
@settings(max_examples=50)
def test_branch_of_a_packed_tree_reads_like_its_own_text(data, ids, before):
    """A token sees the tokens before the tree and its ancestors, and nothing of other branches."""
    model = tiny_llama(2)
    parents = [data.draw(st.integers(-1, index - 1)) for index in range(len(ids))]
    _, past = model.forward(torch.tensor(before), model.empty_cache())
    packed, _ = model.forward(torch.tensor(ids), past, parents=torch.tensor(parents))
    node = data.draw(st.integers(0, len(ids) - 1))
    path = []
    while node >= 0:
        path.insert(0, node)
        node = parents[node]
    alone, _ = model.forward(torch.tensor([*before, *(ids[n] for n in path)]), model.empty_cache())
    torch.testing.assert_close(packed[path], alone[len(before) :], atol=1e-4, rtol=1e-4)


def test_reading_leaves_the_cache_as_it_was():
    """Branches share one cache."""
    model = tiny_llama()
    _, past = model.forward(torch.tensor([5, 6, 7]), model.empty_cache())
    before = [tensor.clone() for tensor in past.layer(1)]
    _, one = model.forward(torch.tensor([8, 9]), past)
    own = [tensor.clone() for tensor in one.layer(1)]
    model.forward(torch.tensor([10, 11, 12]), past)
    model.forward(torch.tensor([13, 14]), past, parents=torch.tensor([-1, -1]))
    model.forward(torch.tensor([15]), one)
    for kept, cache in ((before, past), (own, one)):
        assert all(map(torch.equal, cache.layer(1), kept))


@given(texts=st.lists(token_ids, min_size=1, max_size=5), before=token_ids)
@settings(max_examples=30)
def test_texts_read_together_are_read_like_alone(texts, before):
    """A batch is ragged and unpadded; some texts may go on from one and the same cache."""
    model = tiny_llama(3)
    _, past = model.forward(torch.tensor(before), model.empty_cache())
    pasts = [past if index % 2 else model.empty_cache() for index in range(len(texts))]
    reads = [Read(torch.tensor(ids), cache) for ids, cache in zip(texts, pasts, strict=True)]
    together = model.forward_batch(reads)
    for read, (hidden, cache) in zip(reads, together, strict=True):
        alone, own = model.forward(read.ids, read.past)
        torch.testing.assert_close(hidden, alone, atol=1e-4, rtol=1e-4)
        for one, other in zip(cache.layer(1), own.layer(1), strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@given(
    data=st.data(),
    before=st.lists(st.integers(0, 90), max_size=5),
    chain=st.integers(0, 20),
    num_more=st.integers(0, 6),
    part=st.integers(1, 8),
)
@settings(max_examples=60)
def test_text_read_in_parts_is_read_like_whole(data, before, chain, num_more, part):
    """Also where a tree of options grows out of the text, at its end or before."""
    parents = [i - 1 for i in range(chain)]
    for index in range(chain, chain + num_more + (chain == 0)):
        parents.append(data.draw(st.integers(-1, index - 1)))
    ids = torch.arange(len(parents)) * 7 % CONFIG.vocab_size
    results = []
    for size in (part, 1000):
        model = tiny_llama(2, part_tokens=size)
        past = model.empty_cache()
        if before:
            _, past = model.forward(torch.tensor(before), past)
        results.append(model.forward(ids, past, parents=torch.tensor(parents)))
    (hidden, cache), (wanted, whole) = results
    torch.testing.assert_close(hidden, wanted, atol=1e-4, rtol=1e-4)
    assert cache.num_tokens == whole.num_tokens
    for one, other in zip(cache.layer(1), whole.layer(1), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_text_that_is_too_long_is_refused_before_any_of_it_is_read(tiny):
    """The positions that are needed are those of the longest branch, however it is read."""
    parents = [*range(-1, 4099), 4098, 4099]
    with pytest.raises(ContextTooLong, match="4101 tokens are needed; the model has 4096"):
        tiny.forward(
            torch.zeros(len(parents), dtype=torch.long),
            tiny.empty_cache(),
            parents=torch.tensor(parents),
        )


def test_more_text_than_positions_is_an_error(tiny):
    """A text is never read at wrong positions."""
    ids = torch.zeros(CONFIG.max_positions + 1, dtype=torch.long)
    with pytest.raises(ContextTooLong, match="4097 tokens are needed; the model has 4096"):
        tiny.forward(ids, tiny.empty_cache())


def test_probabilities_sum_to_one(tiny):
    hidden, _ = tiny.forward(torch.arange(50), tiny.empty_cache())
    total = log_probs(tiny.logits(hidden)).double().logsumexp(-1)
    torch.testing.assert_close(total, torch.zeros(50, dtype=torch.float64), atol=1e-5, rtol=0)


@pytest.mark.parametrize("change", ["missing", "shape"])
def test_weights_that_do_not_fit_are_refused(change):
    """By name: whoever reads the message can look into the file."""
    weights = fused(tiny_weights())
    name = "model.layers.1.self_attn.o_proj.weight"
    if change == "missing":
        del weights[name]
    else:
        weights[name] = weights[name][1:]
    with pytest.raises(ModelCorrupt, match=r"model\.layers\.1\.self_attn\.o_proj"):
        Llama(CONFIG, weights)


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.filterwarnings("default")  # transformers' own
def test_real_model_is_that_of_transformers(exact_models, tickets):
    """The same GGUF file through our converter and through the one of `transformers`."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    path = str(model_folder("smollm2-135m") / "model.gguf")
    reference = LlamaForCausalLM(LlamaConfig(**load_gguf_checkpoint(path)["config"])).eval()
    # The tensors one level below `from_pretrained`, which would need another package for them.
    loaded = load_gguf_checkpoint(path, return_tensors=True, model_to_load=reference)
    missing, unexpected = reference.load_state_dict(loaded["tensors"], strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])  # tied
    rows = (tickets / "banking77-draw0" / "dev.jsonl").read_text("utf-8").splitlines()[:20]
    for row in rows:
        ids = torch.tensor(exact_models.vocabulary.encode(json.loads(row)["body"]))
        with torch.inference_mode():
            wanted = reference(ids[None]).logits[0].log_softmax(-1)
        hidden, _ = exact_models.model.forward(ids, exact_models.model.empty_cache())
        ours = log_probs(exact_models.model.logits(hidden))
        torch.testing.assert_close(ours, wanted, atol=1e-3, rtol=1e-3)
