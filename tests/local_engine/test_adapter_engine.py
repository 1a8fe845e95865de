"""Models of others in the engine: caches that are cut short, shared prompts, posteriors."""

from __future__ import annotations

import pytest
import torch
from test_adapters import KINDS, POSITIONS, VOCABULARY, adapter, alone, close, library_model

from weighbridge.local_engine import guides
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.models.module import ModuleModel
from weighbridge.local_engine.vocabulary import TableVocabulary

pytestmark = pytest.mark.filterwarnings("default")  # transformers' own
LETTERS = [bytes((code,)) for code in range(ord("a"), ord("z") + 1)]
WORDS = TableVocabulary([b"", *LETTERS, b"ab", b"abc", b"cab", b"bb"], eos_ids={0})


@pytest.mark.parametrize("kind", [*KINDS, "bigrams", "sums"])
def test_first_tokens_of_a_cache_are_a_cache(kind):
    """Read on from any place, beyond a window of attention too; the whole stays as it was."""
    model, ids = adapter(kind), torch.arange(12) % VOCABULARY
    _, whole = model.forward(ids, model.empty_cache())
    for length in (12, 7, 1, 0):
        start = whole.prefix(length)
        assert start.num_tokens == length
        for _ in range(2):
            rows, longer = model.forward(torch.tensor([5, 6]), start)
            close(model.logits(rows)[-1], alone(kind, torch.tensor([*range(length), 5, 6])))
            assert longer.num_tokens == length + 2
    rows, _ = model.forward(torch.tensor([5]), whole)
    close(model.logits(rows)[-1], alone(kind, torch.tensor([*range(12), 5])))


@pytest.mark.parametrize("kind", [*KINDS, "sums"])
def test_engine_over_a_model_of_others_says_what_reading_anew_says(kind):
    """Posteriors and guided answers, after prompts that begin alike."""
    if kind in KINDS:
        library = library_model(kind)
        anew = ModuleModel(lambda ids: library(input_ids=ids, use_cache=False), 31, POSITIONS)
    else:
        anew = adapter(kind)
    found, wanted = Engine(adapter(kind), WORDS), Engine(anew, WORDS)
    shared = "theticketsaysthatitis"
    for tail in ("x", "bad", "cab"):
        one, other = (e.posterior(shared + tail, ["abc", "ab", "cab"]) for e in (found, wanted))
        assert one.joint() == pytest.approx(other.joint(), abs=1e-3)
        assert one.mass == pytest.approx(other.mass, rel=1e-2)
        spec = guides.choice(["abc", "ab", "cab"])
        texts = [e.generate(shared + tail, spec, prefill="bb").text for e in (found, wanted)]
        assert texts[0] == texts[1]
        assert texts[0] in {"bbabc", "bbab", "bbcab"}
