"""Teaching: from the verdicts about one field to a version for the local engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weighbridge.errors import LearnedUnfit
from weighbridge.providers.local import field_spec

if TYPE_CHECKING:
    from weighbridge.local_engine.engine import Engine
    from weighbridge.local_engine.prior import PriorOpinion
    from weighbridge.review.learning.examples import Example, Gathered
    from weighbridge.review.learning.fit import Features, Fit
    from weighbridge.review.learning.lesson import Learned, NotLearnable, Previous
    from weighbridge.review.learning.versions import New, Version
    from weighbridge.schemas.task import JudgedField, Task

NUM_LIFTED = 50  # tickets that are weighed in full, which takes the longest
_CHUNK = 32  # tickets between two looks at the keyboard


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What came of the verdicts about one field.

    Args:
        outcome: what was learned and what it is worth, or what is missing.
        gathered: the verdicts.
        version: what could be kept; None if nothing is worth it.
    """

    outcome: Learned | NotLearnable
    gathered: Gathered
    version: New | None


def teach(
    load: Callable[[], Engine],
    task: Task,
    field: JudgedField,
    examples: Sequence[Example],
    *,
    renamed: Mapping[str, str],
    previous: tuple[Version, bytes] | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Lesson:
    """Learn one field from what people said.

    Args:
        load: gives the engine; not called where verdicts are too few.
        task: as it is today.
        field: of the task.
        examples: about the field.
        renamed: old label to new.
        previous: the version in use, and its artefact.
        progress: called with the share that is done.

    Raises:
        ExtraMissing: a package of the extra [learn] is not installed.
        EngineError: the engine cannot be loaded, or has no label prior.
    """
    from weighbridge.review.statistics.learn_extra import learn_module

    for package in ("scipy.optimize", "sklearn.linear_model"):
        learn_module(package)  # before the minutes of reading tickets
    from weighbridge.local_engine.weighing import MODEL_WEIGHT
    from weighbridge.review.learning.examples import gather
    from weighbridge.review.learning.lesson import Learned, learn, shortfall

    gathered = gather(examples, field.options, renamed=renamed)
    if missing := shortfall(gathered):
        return Lesson(outcome=missing, gathered=gathered, version=None)
    engine = load()
    features, opinions = read_features(engine, field, gathered.texts, lambda at: progress(at * 0.5))
    lifted = range(min(NUM_LIFTED, len(gathered)))
    texts = [gathered.texts[row] for row in lifted]
    outcome = learn(
        gathered,
        features,
        model_weight=MODEL_WEIGHT,
        lifts=_lifts(engine, task, field, texts, lambda at: progress(0.5 + at * 0.3)),
        lifted=lifted,
        previous=None
        if previous is None
        else _previous(engine, field, previous, features, opinions),
        progress=lambda at: progress(0.8 + at * 0.2),
    )
    if not isinstance(outcome, Learned) or not outcome.report.is_worth_keeping:
        return Lesson(outcome=outcome, gathered=gathered, version=None)
    version = _version(engine, task, field, outcome, renamed, len(gathered))
    return Lesson(outcome=outcome, gathered=gathered, version=version)


def read_features(
    engine: Engine,
    field: JudgedField,
    texts: Sequence[str],
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[Features, list[PriorOpinion]]:
    """What a head is fitted on, and the zero-shot opinions with their support.

    Args:
        engine: with a label prior.
        field: whose options are judged.
        texts: at least one.
        progress: called with the share that is done.
    """
    import torch

    from weighbridge.review.learning.fit import Features

    spec = field_spec(field)
    embeddings, hidden, opinions = [], [], []
    for start in range(0, len(texts), _CHUNK):
        chunk = engine.zero_shot(texts[start : start + _CHUNK], spec)
        embeddings.append(chunk[0])
        hidden.append(chunk[1])
        opinions += chunk[2]
        progress(min(1.0, (start + _CHUNK) / len(texts)))
    features = Features(
        embeddings=torch.cat(embeddings).double().numpy(),
        hidden=torch.cat(hidden).double().numpy(),
        zero_shot=torch.stack([opinion.log_probs for opinion in opinions]).numpy(),
        has_phrases=all(label.phrases for label in spec.labels),
    )
    return features, opinions


def _lifts(
    engine: Engine,
    task: Task,
    field: JudgedField,
    texts: Sequence[str],
    progress: Callable[[float], None],
) -> Any:
    """Log of the language model's lift, float64 [number of texts, K]."""
    import numpy as np

    assert task.language is not None
    specs = [field_spec(each) for each in task.fields]
    place = [each.name for each in task.fields].index(field.name)
    rows = []
    for number, text in enumerate(texts):
        weighed = engine.weigh(task.system, text, task.language, specs)
        # A field that may be left out has one option more there.
        rows.append(weighed.weights.fields[place].lift[: len(field.options)])
        progress((number + 1) / len(texts))
    return np.log(np.maximum(np.asarray(rows), np.finfo(float).tiny))


def _previous(
    engine: Engine,
    field: JudgedField,
    previous: tuple[Version, bytes],
    features: Features,
    opinions: Sequence[PriorOpinion],
) -> Previous | None:
    """What the version in use says of the same tickets; None if it does not fit the models."""
    import torch

    from weighbridge.local_engine.learned.artefact import unpack
    from weighbridge.review.learning.lesson import Previous

    version, artefact = previous
    assert engine.models is not None
    try:
        head = unpack(artefact, engine.models)
    except LearnedUnfit:
        return None
    said = [
        int(head.opinion(zero_shot, field.options, embedding, hidden).log_probs.argmax())
        for zero_shot, embedding, hidden in zip(
            opinions,
            torch.from_numpy(features.embeddings).float(),
            torch.from_numpy(features.hidden).float(),
            strict=True,
        )
    ]
    return Previous(made_at=version.made_at, places=said)


def _version(
    engine: Engine,
    task: Task,
    field: JudgedField,
    learned: Learned,
    renamed: Mapping[str, str],
    num_examples: int,
) -> New:
    from weighbridge.local_engine.learned.artefact import pack
    from weighbridge.review.learning.versions import New

    assert engine.models is not None
    return New(
        task=task.name,
        field=field.name,
        fingerprint=task.fingerprint,
        encoder=engine.models.encoder,
        generator=engine.models.generator,
        num_examples=num_examples,
        artefact=pack(head_of(learned.head, field), engine.models),
        renamed=renamed,
        report=learned.report.to_json(),
    )


def head_of(fitted: Fit, field: JudgedField) -> Any:
    """The engine's `Head` of what was fitted."""
    import torch

    from weighbridge.local_engine.learned.head import Head, option_key

    return Head(
        keys=tuple(option_key(field.options[place]) for place in fitted.learned),
        mean=torch.from_numpy(fitted.mean).float(),
        scale=torch.from_numpy(fitted.scale).float(),
        weight=torch.from_numpy(fitted.weight).float(),
        bias=torch.from_numpy(fitted.bias).float(),
        zero_shot_share=fitted.zero_shot_share,
        centroids=torch.from_numpy(fitted.centroids).float(),
        temperature=fitted.temperature,
        model_weight=fitted.model_weight,
        cut=fitted.cut,
        spread=fitted.spread,
    )
