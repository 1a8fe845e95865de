"""Models of others: whatever they do with caches and trees, the logits are those of the text."""

from __future__ import annotations

import inspect
import itertools
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from weighbridge.errors import ContextTooLong, EngineError
from weighbridge.local_engine.models.module import ModuleModel
from weighbridge.local_engine.models.transformers_model import TransformersModel
from weighbridge.local_engine.models.tree import chain_length, leaf_paths, visibility

VOCABULARY, POSITIONS = 31, 40
pytestmark = pytest.mark.filterwarnings("default")  # transformers' own


class Bigrams(nn.Module):
    """The next token depends on the last one alone."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.table = nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, generator=generator))

    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids]


class Sums(Bigrams):
    """The next token depends on all before it, in no order; wrapped as `transformers` does."""

    def forward(self, ids: Tensor) -> Any:
        from types import SimpleNamespace

        return SimpleNamespace(logits=self.table[ids].cumsum(1))


@cache
def library_model(kind: str) -> Any:
    """A tiny random model with strong opinions."""
    import transformers as t

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"vocab_size": VOCABULARY, "eos_token_id": 0, "bos_token_id": 0, "pad_token_id": None}
    llama = {
        "intermediate_size": 48,
        "num_key_value_heads": 2,
        "max_position_embeddings": POSITIONS,
    }
    config = {
        "llama": lambda: t.LlamaConfig(**shape, **llama),
        "gpt2": lambda: t.GPT2Config(**shape, n_positions=POSITIONS),
        "sliding": lambda: t.MistralConfig(**shape, **llama, sliding_window=5),
        "alibi": lambda: t.BloomConfig(**shape),
        "scaled head": lambda: t.CohereConfig(**shape, **llama, logit_scale=0.1),
        "capped head": lambda: t.Gemma2Config(
            **shape, **llama, head_dim=8, final_logit_softcapping=1e4
        ),
    }[kind]()
    model = t.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.mul_(6)
    return model


KINDS = ("llama", "gpt2", "sliding", "alibi", "scaled head", "capped head")


@cache
def adapter(kind: str) -> Any:
    if kind in KINDS:
        return TransformersModel(library_model(kind), max_positions=POSITIONS)
    return ModuleModel({"bigrams": Bigrams, "sums": Sums}[kind](), VOCABULARY, POSITIONS)


@torch.inference_mode()
def alone(kind: str, text: Tensor) -> Tensor:
    """The last logits of a text, read by itself and without any cache."""
    if kind in KINDS:
        logits: Tensor = library_model(kind)(input_ids=text[None], use_cache=False).logits
        return logits[0, -1]
    found = {"bigrams": Bigrams, "sums": Sums}[kind]()(text[None])
    rows: Tensor = getattr(found, "logits", found)
    return rows[0, -1]


TOKENS = st.integers(0, VOCABULARY - 1)
TREES = st.integers(1, 8).flatmap(
    lambda size: st.tuples(*(st.integers(-1, node - 1) for node in range(size)))
)


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [*KINDS, "bigrams", "sums"])
@settings(max_examples=15)
@given(prefix=st.lists(TOKENS, max_size=10), parents=TREES, data=st.data())
def test_every_node_of_a_tree_reads_like_its_own_text(kind, prefix, parents, data):
    """Whatever lies beside it, behind a prefix of any length."""
    model = adapter(kind)
    ids = torch.tensor(data.draw(st.lists(TOKENS, min_size=len(parents), max_size=len(parents))))
    past = model.empty_cache()
    if prefix:
        _, past = model.forward(torch.tensor(prefix), past)
    rows, longer = model.forward(ids, past, parents=torch.tensor(parents))
    found = model.logits(rows)
    assert found.shape == (len(ids), VOCABULARY)
    assert found.dtype == torch.float32
    sees, _ = visibility(parents)
    texts = [torch.tensor([*prefix, *ids[seen].tolist()]) for seen in sees]
    close(found, torch.stack([alone(kind, text) for text in texts]))
    assert (past.num_tokens, longer.num_tokens) == (
        len(prefix),
        len(prefix) + chain_length(parents),
    )


@pytest.mark.parametrize("kind", [*KINDS, "bigrams", "sums"])
@settings(max_examples=15)
@given(pieces=st.lists(st.lists(TOKENS, min_size=1, max_size=5), min_size=1, max_size=4))
def test_text_in_pieces_reads_like_the_whole(kind, pieces):
    model = adapter(kind)
    past = model.empty_cache()
    for piece in pieces:
        rows, past = model.forward(torch.tensor(piece), past)
    close(model.logits(rows)[-1], alone(kind, torch.tensor(list(itertools.chain(*pieces)))))


@pytest.mark.parametrize("kind", [*KINDS, "bigrams", "sums"])
def test_cache_is_a_value(kind):
    """Branches that grow from one cache do not see each other, in any order."""
    model, ids = adapter(kind), torch.arange(9)
    _, trunk = model.forward(ids[:4], model.empty_cache())
    for _ in range(2):
        for branch in ([7], [8, 3], [1, 2, 3]):
            rows, grown = model.forward(torch.tensor(branch), trunk)
            close(model.logits(rows)[-1], alone(kind, torch.tensor([0, 1, 2, 3, *branch])))
            more, _ = model.forward(torch.tensor([5]), grown)
            close(model.logits(more)[-1], alone(kind, torch.tensor([0, 1, 2, 3, *branch, 5])))
        model.forward(ids[:3], trunk, parents=torch.tensor([-1, 0, 0]))
    assert trunk.num_tokens == 4


@pytest.mark.parametrize("kind", [*KINDS, "bigrams"])
def test_context_that_is_too_long_is_refused(kind):
    """A tree counts as long as its longest path."""
    model = adapter(kind)
    full = torch.zeros(POSITIONS, dtype=torch.int64)
    _, past = model.forward(full[:-1], model.empty_cache())
    model.forward(full[:3], past, parents=torch.tensor([-1, -1, -1]))
    for parents in (None, torch.tensor([-1, 0])):
        with pytest.raises(ContextTooLong) as caught:
            model.forward(full[:2], past, parents=parents)
        assert (caught.value.needed_tokens, caught.value.max_positions) == (41, 40)
    with pytest.raises(ContextTooLong):
        model.forward(torch.zeros(POSITIONS + 1, dtype=torch.int64), model.empty_cache())


@pytest.mark.parametrize(
    ("kind", "keeps_cache", "packs_trees"),
    [
        ("llama", True, True),
        ("gpt2", True, True),
        ("scaled head", True, True),
        ("sliding", True, False),  # a tree's own mask would reach past the window
        ("alibi", True, False),  # the library takes no mask of the kind
    ],
)
def test_model_is_read_in_the_quickest_way_that_is_right(kind, keeps_cache, packs_trees):
    model = adapter(kind)
    assert (model.keeps_cache, model.packs_trees) == (keeps_cache, packs_trees)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_hidden_states_only_where_nothing_follows_the_head(kind):
    """A cap that hardly shows on small logits is a cap all the same."""
    rows, _ = adapter(kind).forward(torch.arange(3), adapter(kind).empty_cache())
    assert rows.shape == (3, VOCABULARY if kind.endswith("head") else 32)


@pytest.mark.parametrize("broken", ["mask", "cache"])
def test_model_that_passes_over_its_arguments_is_read_text_by_text(broken, monkeypatch):
    """Nothing that is wrong is taken because it is quick."""
    model = library_model("llama")
    read = type(model.base_model).forward

    def careless(self: Any, **arguments: Any) -> Any:
        if broken == "mask":
            arguments["attention_mask"] = None
        else:
            arguments |= {"cache": None, "use_cache": False}
        return read(self, **arguments)

    careless.__signature__ = inspect.signature(read)  # type: ignore[attr-defined]
    monkeypatch.setattr(type(model.base_model), "forward", careless)
    wrapped = TransformersModel(model, fingerprint="")
    assert (wrapped.keeps_cache, wrapped.packs_trees) == (broken == "mask", False)
    parents = torch.tensor([-1, 0, 0, -1])
    _, past = wrapped.forward(torch.tensor([1, 2]), wrapped.empty_cache())
    rows, _ = wrapped.forward(torch.tensor([3, 4, 5, 6]), past, parents=parents)
    close(wrapped.logits(rows)[2], alone("llama", torch.tensor([1, 2, 3, 5])))


class LooksAhead(Bigrams):
    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids].flip(1).cumsum(1).flip(1)


class Narrow(Bigrams):
    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids][..., :-1]


@pytest.mark.parametrize(("module", "named"), [(LooksAhead, "causal"), (Narrow, r"\(2, 4, 30\)")])
def test_module_that_is_no_language_model_is_refused(module, named):
    with pytest.raises(EngineError, match=named):
        ModuleModel(module(), VOCABULARY, POSITIONS)


def test_module_is_put_into_evaluation_mode():
    """Dropout would give other logits at each call."""
    module = nn.Sequential(Bigrams(), nn.Dropout(0.5))
    model = ModuleModel(module, VOCABULARY, POSITIONS)
    rows, _ = model.forward(torch.arange(5), model.empty_cache())
    close(model.logits(rows), module[0].table[:5].detach())


def test_fingerprint_tells_weights_and_precision_apart():
    """What is calibrated for one model holds for no other."""
    fingerprints = {
        ModuleModel(module, VOCABULARY, POSITIONS).fingerprint
        for module in (Bigrams(), Sums(), Bigrams().double(), Bigrams().bfloat16())
    }
    changed = Bigrams()
    changed.table.data[0, 0] += 1
    fingerprints.add(ModuleModel(changed, VOCABULARY, POSITIONS).fingerprint)
    assert len(fingerprints) == 4  # the sums have the weights of the bigrams
    assert ModuleModel(Bigrams(), VOCABULARY, POSITIONS, fingerprint="mine").fingerprint == "mine"
    with pytest.raises(EngineError, match="fingerprint"):
        _ = ModuleModel(Bigrams().forward, VOCABULARY, POSITIONS).fingerprint


def test_model_without_a_longest_sequence_must_be_given_one():
    with pytest.raises(EngineError, match="max_positions"):
        TransformersModel(library_model("alibi"))
    assert TransformersModel(library_model("llama")).max_positions == POSITIONS


@given(parents=TREES)
def test_paths_cover_a_tree_and_end_in_its_leaves(parents):
    paths = leaf_paths(parents)
    assert {node for path in paths for node in path} == set(range(len(parents)))
    assert len({path[-1] for path in paths}) == len(paths)
    for path in paths:
        assert [parents[node] for node in path] == [-1, *path[:-1]]
