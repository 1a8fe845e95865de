"""Learned heads: what they change, what they leave alone, and the files that they travel in."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import LearnedUnfit
from weighbridge.local_engine.learned.artefact import Models, pack, unpack
from weighbridge.local_engine.learned.head import Head, option_key
from weighbridge.local_engine.learned.hidden import HiddenReader
from weighbridge.local_engine.prior import PriorOpinion, without_opinion

MODELS = Models(encoder="e1", generator="g1")
OPTIONS = ("bug", "billing", 'say "hi"', "how_to")
EMBEDDING, HIDDEN = 3, 4


def head(options=OPTIONS, seed=0, **changes) -> Head:
    made = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=made)

    weight, bias = random(len(options), EMBEDDING + HIDDEN), random(len(options))
    whole = {
        "keys": tuple(option_key(option) for option in options),
        "mean": random(EMBEDDING + HIDDEN),
        "scale": random(EMBEDDING + HIDDEN).abs() + 0.1,
        "weight": weight - weight.mean(0),
        "bias": bias - bias.mean(),
        "zero_shot_share": 0.6,
        "centroids": random(len(options), EMBEDDING),
        "temperature": 1.25,
        "model_weight": 0.1,
        "cut": 1.5,
        "spread": 0.2,
    }
    return Head(**{**whole, **changes})


def zero_shot(num=4, seed=1, support=0.3) -> PriorOpinion:
    logits = torch.randn(num, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return PriorOpinion(log_probs=logits.log_softmax(0), support=support)


def asked(of: Head, options=OPTIONS, prior=None, seed=2) -> PriorOpinion:
    made = torch.Generator().manual_seed(seed)
    vectors = torch.randn(EMBEDDING, generator=made), torch.randn(HIDDEN, generator=made)
    return of.opinion(prior or zero_shot(len(options)), options, *vectors)


def test_head_that_learned_nothing_is_the_zero_shot_prior() -> None:
    """Without verdicts the opinion is the label prior's own, to the last bit."""
    nothing = head(
        (),
        weight=torch.zeros(0, EMBEDDING + HIDDEN),
        bias=torch.zeros(0),
        centroids=torch.zeros(0, EMBEDDING),
        temperature=1.0,
    )
    prior = zero_shot()
    found = asked(nothing, prior=prior)
    torch.testing.assert_close(found.log_probs, prior.log_probs, rtol=0, atol=1e-12)
    assert found.support == prior.support


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_probabilities_sum_to_one(seed: int, ticket: int) -> None:
    """Whatever was learned, and whatever the ticket."""
    found = asked(head(seed=seed), seed=ticket)
    assert float(found.log_probs.exp().sum()) == pytest.approx(1.0)
    assert 0.0 <= found.support <= 1.0


@given(st.permutations(OPTIONS), st.integers(0, 100))
def test_order_of_the_options_does_not_matter(options: list[str], seed: int) -> None:
    """An option is found by what it is, not by where it stands."""
    prior = zero_shot(seed=seed)
    moved = PriorOpinion(
        log_probs=prior.log_probs[[OPTIONS.index(option) for option in options]],
        support=prior.support,
    )
    one, other = asked(head(), prior=prior), asked(head(), options, moved)
    expected = one.log_probs[[OPTIONS.index(option) for option in options]]
    torch.testing.assert_close(other.log_probs, expected)
    assert other.support == one.support


@given(st.integers(0, 100), st.integers(0, 100))
def test_added_label_leaves_the_others_in_their_order(seed: int, ticket: int) -> None:
    """How much likelier one old label is than another stays as it was."""
    prior = zero_shot(len(OPTIONS) + 1, seed=seed)
    before = PriorOpinion(log_probs=prior.log_probs[:-1].log_softmax(0), support=prior.support)
    old = asked(head(), prior=before, seed=ticket).log_probs
    new = asked(head(), (*OPTIONS, "fresh"), prior, seed=ticket).log_probs
    torch.testing.assert_close(new[:-1].log_softmax(0), old)


def test_added_label_keeps_its_zero_shot_logit() -> None:
    """What is learned sums to zero over the old labels, so the new one competes on equal terms."""
    flat = head(temperature=1.0)
    prior = zero_shot(len(OPTIONS) + 1)
    change = asked(flat, (*OPTIONS, "fresh"), prior).log_probs - prior.log_probs
    relative = change - change[-1]
    assert float(relative[:-1].mean()) == pytest.approx(0.0, abs=1e-6)


@given(st.floats(0, 1), st.integers(0, 100))
def test_names_of_learned_labels_count_by_their_share(share: float, seed: int) -> None:
    """Among themselves; to a label without verdicts they stand on average as they did."""
    silent = head(
        weight=torch.zeros(len(OPTIONS), EMBEDDING + HIDDEN),
        bias=torch.zeros(len(OPTIONS)),
        temperature=1.0,
        zero_shot_share=share,
    )
    prior = zero_shot(len(OPTIONS) + 1, seed=seed)
    found = asked(silent, (*OPTIONS, "fresh"), prior).log_probs
    before, after = (each[:-1] - each[:-1].mean() for each in (prior.log_probs, found))
    torch.testing.assert_close(after, share * before)
    before, after = (each[:-1].mean() - each[-1] for each in (prior.log_probs, found))
    torch.testing.assert_close(after, before)


def test_removed_label_takes_nothing_from_the_others() -> None:
    """The others stand to each other as before."""
    prior = zero_shot()
    rest = PriorOpinion(log_probs=prior.log_probs[1:].log_softmax(0), support=0.3)
    found = asked(head(), OPTIONS[1:], rest).log_probs
    torch.testing.assert_close(found, asked(head(), prior=prior).log_probs[1:].log_softmax(0))


def test_unlearned_label_cannot_make_a_ticket_look_out_of_scope() -> None:
    """A ticket of a label without verdicts is far from all verdicts, and rightly so."""
    far = head(cut=-100.0)
    assert asked(far).support < 0.01
    prior = zero_shot(len(OPTIONS) + 1, support=0.7)
    assert asked(far, (*OPTIONS, "fresh"), prior).support == 0.7


def test_support_is_one_half_at_the_cut() -> None:
    """And more for nearer tickets."""
    ticket = torch.zeros(EMBEDDING)
    at = head(centroids=torch.eye(len(OPTIONS), EMBEDDING) + 5, cut=None)
    nearest = float((at.centroids - ticket).norm(dim=1).min())
    found = replace(at, cut=nearest).opinion(zero_shot(), OPTIONS, ticket, torch.zeros(HIDDEN))
    assert found.support == pytest.approx(0.5)
    nearer = replace(at, cut=nearest + 1).opinion(zero_shot(), OPTIONS, ticket, torch.zeros(HIDDEN))
    assert nearer.support > 0.9


def test_too_few_verdicts_leave_support_to_the_prior() -> None:
    """Without a cut nothing is known of distances."""
    assert asked(head(cut=None), prior=zero_shot(support=0.42)).support == 0.42


def test_one_true_and_their_texts_are_different_options() -> None:
    """As in JSON, and not as in Python."""
    assert len({option_key(value) for value in (1, "1", True, 1.0)}) == 4


def test_options_without_topics_start_even() -> None:
    """And without support: nothing was read of their names."""
    even = without_opinion(4)
    assert even.log_probs.exp().tolist() == pytest.approx([0.25] * 4)
    assert even.support == 0.0


@given(st.integers(0, 1000))
def test_artefact_comes_back_bit_for_bit(seed: int) -> None:
    """Every tensor and every number."""
    before = head(seed=seed)
    after = unpack(pack(before, MODELS), MODELS)
    for field in fields(before):
        one, other = getattr(before, field.name), getattr(after, field.name)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("role", ["encoder", "generator"])
def test_artefact_of_other_models_is_refused(role: str) -> None:
    """What one model's numbers mean, another's do not; the error says what to do."""
    data = pack(head(), MODELS)
    with pytest.raises(LearnedUnfit, match=f"another {role}") as caught:
        unpack(data, replace(MODELS, **{role: "other"}))
    assert "weighbridge learn" in caught.value.hint


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: b"\x80\x04" + data,
        lambda data: data.replace(b'"bias"', b'"bust"'),
        lambda data: data.replace(b"centroids", b"centrouds"),
        lambda data: data.replace(b'\\"temperature\\": 1.25', b'\\"temperature\\": 0.00'),
        lambda data: data.replace(b'\\"format\\": 2', b'\\"format\\": 1'),
        lambda data: data.replace(b'\\"format\\": 2', b'\\"format\\": 9'),
        lambda data: data.replace(b'\\"zero_shot_share\\": 0.6', b'\\"zero_shot_share\\": 1.6'),
    ],
)
def test_damaged_artefact_is_refused(spoil) -> None:
    """Nothing of it is used, and nothing of it runs."""
    data = pack(head(), MODELS)
    assert unpack(data, MODELS).keys == head().keys
    spoiled = spoil(data)
    assert spoiled != data
    with pytest.raises(LearnedUnfit):
        unpack(spoiled, MODELS)


@pytest.mark.parametrize(
    "changes",
    [
        {"bias": torch.zeros(1)},
        {"mean": torch.zeros(2)},
        {"weight": torch.full((4, 7), float("nan"))},
        {"temperature": 0.0},
        {"spread": 0.0},
        {"zero_shot_share": -0.1},
        {"zero_shot_share": 1.1},
        {"zero_shot_share": float("nan")},
        {"scale": torch.zeros(7)},
        {"centroids": torch.zeros(4, 99)},
    ],
)
def test_head_that_does_not_fit_together_is_refused(changes) -> None:
    """Before it weighs anything."""
    head()
    with pytest.raises(ValueError, match="want"):
        head(**changes)


def test_hidden_states_do_not_depend_on_neighbours(tiny, tiny_tokenizer) -> None:
    """A text read among others has the states that it has alone."""
    reader = HiddenReader(tiny, tiny_tokenizer, 64)
    texts = ["hello", "", "a longer ticket about nothing at all", "x" * 500]
    together = reader.read(texts)
    assert together.shape == (4, together.shape[1])
    assert bool(together.isfinite().all())
    for text, row in zip(texts, together, strict=True):
        torch.testing.assert_close(reader.read([text])[0], row, rtol=1e-3, atol=1e-4)


def test_hidden_states_tell_texts_apart(tiny, tiny_tokenizer) -> None:
    """Otherwise nothing could be learned from them."""
    one, other = HiddenReader(tiny, tiny_tokenizer, 64).read(["hello", "goodbye"])
    assert not torch.allclose(one, other)


@pytest.mark.models
def test_weighing_with_a_head_follows_the_head(models) -> None:
    """A head that is sure decides; without one the engine answers as before."""
    from weighbridge.providers.local import field_spec
    from weighbridge.schemas.task import Task

    task = Task.triage(categories=["bug", "billing"], priorities=[])
    spec = field_spec(task.fields[0])
    text = "I was charged twice, please refund me."
    embeddings, hidden, _ = models.zero_shot([text], spec)
    width = embeddings.shape[1] + hidden.shape[1]
    sure = Head(
        keys=(option_key("bug"), option_key("billing")),
        mean=torch.zeros(width),
        scale=torch.ones(width),
        weight=torch.zeros(2, width),
        bias=torch.tensor([20.0, -20.0]),
        zero_shot_share=1.0,
        centroids=embeddings.repeat(2, 1),
        temperature=1.0,
        model_weight=0.0,
        cut=0.5,
        spread=0.1,
    )

    def answer(**heads):
        found = models.weigh(task.system, text, task.language, [spec], **heads).weights.fields[0]
        return found.value, found.support

    before = answer()
    assert before[0] == "billing"
    value, support = answer(heads={spec.path: sure})
    assert value == "bug"
    assert support == pytest.approx(1 / (1 + torch.tensor(-5.0).exp().item()), abs=1e-3)
    assert answer() == before


def test_metadata_of_an_artefact_names_no_text() -> None:
    """Options and numbers are all that it says of itself."""
    data = pack(head(), MODELS)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    about = json.loads(header["__metadata__"]["weighbridge"])
    assert about.keys() == {"format", "encoder", "generator", "numbers"}
    numbers = {"keys", "zero_shot_share", "temperature", "model_weight", "cut", "spread"}
    assert about["numbers"].keys() == numbers
