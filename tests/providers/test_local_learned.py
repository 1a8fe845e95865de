"""What the local provider makes of learned versions: which count, and which do not fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from weighbridge.local_engine.learned.artefact import Models, pack
from weighbridge.local_engine.learned.head import Head, option_key
from weighbridge.providers.local import LocalProvider
from weighbridge.schemas.task import Task

MODELS = Models(encoder="e", generator="g")
TASK = Task.triage(categories=["bug", "billing"])


class Source:
    """Versions that a test hands out."""

    def __init__(self, used: dict[str, tuple[int, bytes]]) -> None:
        self.versions, self.num_closed = used, 0

    def used(self, task: str) -> dict[str, tuple[int, bytes]]:
        assert task == "triage"
        return self.versions

    def close(self) -> None:
        self.num_closed += 1


def artefact(models: Models = MODELS) -> bytes:
    head = Head(
        keys=(option_key("bug"), option_key("billing")),
        mean=torch.zeros(5),
        scale=torch.ones(5),
        weight=torch.zeros(2, 5),
        bias=torch.zeros(2),
        zero_shot_share=1.0,
        centroids=torch.zeros(2, 3),
        temperature=1.0,
        model_weight=0.05,
        cut=None,
        spread=1.0,
    )
    return pack(head, models)


def heads(used: dict[str, tuple[int, bytes]], models: Models | None = MODELS) -> Any:
    engine: Any = SimpleNamespace(models=models)
    return LocalProvider(learned=Source(used))._heads_for(TASK, engine)


def test_versions_in_use_are_part_of_the_models_name() -> None:
    """What is calibrated for one version holds for no other."""
    found = heads({"priority": (7, artefact()), "category": (3, artefact())})
    assert found.suffix == "+learned.3.7"
    assert found.by_field.keys() == {"category", "priority"}
    assert found.notes == {}


def test_without_versions_the_name_stays() -> None:
    """And nothing is applied."""
    found = heads({})
    assert (found.suffix, dict(found.by_field)) == ("", {})
    none = LocalProvider()._heads_for(TASK, SimpleNamespace(models=MODELS))  # type: ignore[arg-type]  # all that it looks at
    assert none.suffix == ""


def test_version_of_other_models_is_passed_over_with_a_note() -> None:
    """The label prior still answers; a ticket is not lost over it."""
    other = Models(encoder="e", generator="another")
    found = heads({"category": (3, artefact(other)), "priority": (4, artefact())})
    assert found.suffix == "+learned.4"
    assert found.by_field.keys() == {"priority"}
    [note] = found.notes["category"]
    assert note.startswith("learned_unused: version 3")
    assert "generator" in note


def test_damaged_version_is_passed_over_with_a_note() -> None:
    """As one of other models is."""
    found = heads({"category": (3, artefact()[:50])})
    assert (found.suffix, dict(found.by_field)) == ("", {})
    assert "learned_unused" in found.notes["category"][0]


def test_without_a_label_prior_nothing_learned_is_used() -> None:
    """Heads change its opinion, and there is none."""
    assert heads({"category": (3, artefact())}, models=None).suffix == ""


def test_heads_are_read_once_for_each_version() -> None:
    """And anew as soon as another counts."""
    source = Source({"category": (3, artefact())})
    provider, engine = LocalProvider(learned=source), SimpleNamespace(models=MODELS)
    first = provider._heads_for(TASK, engine)  # type: ignore[arg-type]  # all that it looks at
    assert provider._heads_for(TASK, engine) is first  # type: ignore[arg-type]  # as above
    source.versions = {"category": (4, artefact())}
    assert provider._heads_for(TASK, engine).suffix == "+learned.4"  # type: ignore[arg-type]  # as above


def test_closing_the_provider_closes_the_source() -> None:
    """It holds a thread."""
    source = Source({})
    LocalProvider(learned=source).close()
    assert source.num_closed == 1
