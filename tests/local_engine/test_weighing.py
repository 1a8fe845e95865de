"""Weighing: marginals, priors, branches; the model is a table, so that everything is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.local_engine import weighing
from weighbridge.local_engine.prior import LabelText, PriorOpinion
from weighbridge.local_engine.scoring import Branch, ChoiceScores, Scores
from weighbridge.local_engine.weighing import (
    MAX_BRANCHES,
    FieldSpec,
    Weights,
    weigh,
)
from weighbridge.schemas.finite import Choice, FiniteLanguage, Option, language

Table = Mapping[str, float]  # probability by answer

CATEGORIES = ("bug", "bug_report", 'say "hi"')
PRIORITIES = ("low", "high")
CATEGORY = FieldSpec(
    path=("category",), options=CATEGORIES, labels=tuple(LabelText(name=c) for c in CATEGORIES)
)
PRIORITY = FieldSpec(
    path=("priority",), options=PRIORITIES, labels=tuple(LabelText(name=p) for p in PRIORITIES)
)
FIELDS = (CATEGORY, PRIORITY)


def schema(*, required: Sequence[str] = ("category", "priority"), categories=CATEGORIES):
    return {
        "type": "object",
        "properties": {
            "category": {"enum": list(categories)},
            "priority": {"enum": list(PRIORITIES)},
        },
        "required": list(required),
        "additionalProperties": False,
    }


PRODUCT = language(schema())
WHOLE = FiniteLanguage(
    (Choice((), tuple(Option(json.loads(s), s, "}") for s in PRODUCT.strings())),)
)
OPTIONAL = language(schema(required=["category"]))


def encode(text: str) -> list[int]:
    return list(text.encode())


def table_scorer(words: FiniteLanguage, table: Table) -> Callable:
    """A model that writes answers with the probabilities of a table and is sure of all else."""
    first = words.parts[0]
    start = "" if isinstance(first, Choice) else first.text
    mass = sum(table.values())

    def scorer(branches: Sequence[Branch]) -> list[ChoiceScores]:
        results = []
        for branch in branches:
            before = start + bytes(branch.prefix).decode()
            total = sum(p for answer, p in table.items() if answer.startswith(before))
            each = [
                sum(p for a, p in table.items() if a.startswith(before + t.stem + t.closer)) / total
                for t in branch.texts
            ]
            log_probs = torch.tensor(each, dtype=torch.float64).log()
            results.append(
                ChoiceScores(log_probs=log_probs, mass=(mass * 0.5, mass), decision_mass=mass)
            )
        return results

    return scorer


def even(words: FiniteLanguage) -> Table:
    """A model without favourites: against it, a lift is the probability itself."""
    return dict.fromkeys(words.strings(), 1 / words.count)


def opinion(*probabilities: float, support: float = 0.7) -> PriorOpinion:
    return PriorOpinion(
        log_probs=torch.tensor(probabilities, dtype=torch.float64).log(), support=support
    )


def weighed(
    words, table, opinions=None, empty: Table | None = None, fields=FIELDS, model_weight=1.0
) -> Weights:
    """With the model's opinion in full; the default weight is too small to see much of it."""
    with mock.patch.object(weighing, "MODEL_WEIGHT", model_weight):
        return weigh(
            words,
            fields,
            opinions or {},
            encode=encode,
            scores=Scores(table_scorer(words, table)),
            baseline=Scores(table_scorer(words, empty or even(words))),
        )


positive = st.floats(0.01, 1.0)


def tables(words: FiniteLanguage) -> st.SearchStrategy[dict[str, float]]:
    answers = list(words.strings())
    return st.lists(positive, min_size=len(answers), max_size=len(answers)).map(
        lambda values: {a: v / sum(values) for a, v in zip(answers, values, strict=True)}
    )


def marginal(table: Table, name: str, options: Sequence[object]) -> list[float]:
    return [sum(p for a, p in table.items() if json.loads(a).get(name) == o) for o in options]


@given(table=tables(PRODUCT))
def test_without_prior_and_favourites_the_posterior_is_the_models_own(table):
    """Marginals of the model's joint distribution."""
    weights = weighed(PRODUCT, table)
    for field, spec in zip(weights.fields, FIELDS, strict=True):
        wanted = marginal(table, spec.path[0], spec.options)
        assert field.posterior == pytest.approx(field.model)
        assert field.posterior == pytest.approx(field.lift)
        assert (field.prior, field.support) == (None, None)
        assert field.options == spec.options
        # Branches that carry less than 1 % together may be left out.
        assert field.posterior == pytest.approx(wanted, abs=weights.dropped + 1e-9)
    assert weights.dropped <= 0.01


@given(table=tables(PRODUCT), empty=tables(PRODUCT), model_weight=st.floats(0, 2))
def test_without_a_prior_the_posterior_is_the_weighted_lift(table, empty, model_weight):
    """What the model would say to anything is taken out; its own opinion stays beside it."""
    field = weighed(PRODUCT, table, empty=empty, model_weight=model_weight).fields[0]
    given_ticket, given_none = (marginal(t, "category", CATEGORIES) for t in (table, empty))
    ratios = [p / q for p, q in zip(given_ticket, given_none, strict=True)]
    assert field.lift == pytest.approx([ratio / sum(ratios) for ratio in ratios])
    raised = [ratio**model_weight for ratio in ratios]
    assert field.posterior == pytest.approx([ratio / sum(raised) for ratio in raised])
    assert field.model == pytest.approx(given_ticket)


@given(table=tables(PRODUCT))
def test_whole_values_weigh_like_their_parts(table):
    """One choice between whole objects says the same as a choice after the other."""
    parts, whole = weighed(PRODUCT, table), weighed(WHOLE, table)
    for one, other in zip(parts.fields, whole.fields, strict=True):
        assert one.posterior == pytest.approx(other.posterior, abs=parts.dropped + 1e-9)
        assert one.model == pytest.approx(other.model, abs=parts.dropped + 1e-9)


@given(table=tables(PRODUCT), first=st.tuples(*[positive] * 3), second=st.tuples(*[positive] * 2))
def test_priors_of_whole_values_are_those_of_their_parts(table, first, second):
    """Where the ticket tells the model nothing, the prior alone is left, in both forms."""
    opinions = {
        ("category",): opinion(*(p / sum(first) for p in first)),
        ("priority",): opinion(*(p / sum(second) for p in second)),
    }
    for words in (PRODUCT, WHOLE):
        weights = weighed(words, table, opinions, empty=table)
        for field, spec in zip(weights.fields, FIELDS, strict=True):
            prior = opinions[spec.path].log_probs.exp().tolist()
            assert field.posterior == pytest.approx(prior, abs=1e-9)
            assert field.prior == pytest.approx(prior)
            assert field.support == 0.7


@given(
    table=tables(PRODUCT),
    empty=tables(PRODUCT),
    prior=st.tuples(*[positive] * 3),
    model_weight=st.floats(0, 2),
)
def test_posterior_is_prior_times_weighted_lift(table, empty, prior, model_weight):
    """Of the first choice: log prior plus the weighted change that the ticket makes."""
    log_prior = torch.tensor(prior, dtype=torch.float64).log_softmax(0)
    opinions = {("category",): PriorOpinion(log_probs=log_prior, support=0.5)}
    weights = weighed(PRODUCT, table, opinions, empty=empty, model_weight=model_weight)
    field = weights.fields[0]
    given_ticket = torch.tensor(marginal(table, "category", CATEGORIES), dtype=torch.float64)
    given_none = torch.tensor(marginal(empty, "category", CATEGORIES), dtype=torch.float64)
    lift = given_ticket.log() - given_none.log()
    wanted = (log_prior + model_weight * lift).softmax(0).tolist()
    assert field.posterior == pytest.approx(wanted)
    assert field.model == pytest.approx(given_ticket.tolist())
    assert field.lift == pytest.approx(lift.softmax(0).tolist())


@given(words=st.sampled_from([PRODUCT, WHOLE, OPTIONAL]), data=st.data(), with_prior=st.booleans())
@settings(max_examples=50)
def test_every_distribution_sums_to_one(words, data, with_prior):
    table, empty = data.draw(tables(words)), data.draw(tables(words))
    opinions = {("category",): opinion(0.2, 0.3, 0.5), ("priority",): opinion(0.9, 0.1)}
    weights = weighed(words, table, opinions if with_prior else None, empty=empty)
    for field in weights.fields:
        assert math.isclose(sum(field.posterior), 1.0)
        assert math.isclose(sum(field.model), 1.0)
        assert math.isclose(sum(field.lift), 1.0)
        assert len(field.options) == len(field.posterior) == len(field.model) == len(field.lift)
        assert field.mass[0] < field.mass[1]
        assert field.value in field.options


@given(table=tables(OPTIONAL))
def test_field_that_may_be_left_out_has_none_among_its_options(table):
    weights = weighed(OPTIONAL, table)
    _, priority = weights.fields
    assert priority.options == (*PRIORITIES, None)
    assert priority.posterior == pytest.approx(marginal(table, "priority", priority.options))
    assert table[json.dumps(weights.value)] == pytest.approx(max(table.values()), rel=1e-6)


def test_prior_takes_a_left_out_field_for_an_average_option():
    """A prior without an opinion on leaving it out neither favours nor forbids it."""
    for prior in ((0.5, 0.5), (0.9, 0.1)):
        weights = weighed(OPTIONAL, even(OPTIONAL), {("priority",): opinion(*prior)})
        assert weights.fields[1].posterior[-1] == pytest.approx(1 / 3)


def test_branches_that_were_not_followed_are_reported():
    """Twenty equally likely values, more than are followed."""
    names = [f"label{number}" for number in range(20)]
    words = language(schema(categories=names))
    weights = weighed(words, even(words), fields=(PRIORITY,))
    assert weights.dropped == pytest.approx(1 - MAX_BRANCHES / 20)
    assert math.isclose(sum(weights.fields[0].posterior), 1.0)


def test_nothing_is_dropped_where_every_branch_is_followed():
    assert weighed(PRODUCT, even(PRODUCT)).dropped == pytest.approx(0, abs=1e-12)


def test_baseline_is_scored_once_for_each_branch():
    asked: list[Branch] = []

    def scorer(branches: Sequence[Branch]) -> list[ChoiceScores]:
        asked.extend(branches)
        return table_scorer(PRODUCT, even(PRODUCT))(branches)

    baseline = Scores(scorer)
    opinions = {spec.path: opinion(*[1 / len(spec.options)] * len(spec.options)) for spec in FIELDS}
    for _ in range(3):
        weigh(
            PRODUCT,
            FIELDS,
            opinions,
            encode=encode,
            scores=Scores(table_scorer(PRODUCT, even(PRODUCT))),
            baseline=baseline,
        )
    assert len(asked) == len(set(asked)) == 1 + len(CATEGORIES)


def test_values_that_python_takes_for_equal_are_told_apart():
    """1, "1" and true are three options."""
    options = (1, "1", True, 0, False, None)
    words = language(
        {
            "type": "object",
            "properties": {"x": {"enum": list(options)}},
            "required": ["x"],
            "additionalProperties": False,
        }
    )
    spec = FieldSpec(path=("x",), options=options, labels=())
    answers = list(words.strings())
    table = {a: (i + 1) / 21 for i, a in enumerate(answers)}
    (field,) = weighed(words, table, fields=(spec,)).fields
    assert field.posterior == pytest.approx([table[a] for a in answers])
    assert field.value is None
