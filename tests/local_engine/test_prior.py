"""The label prior: distributions over options, and how near a ticket is to any of them."""

from __future__ import annotations

import pytest
import torch

from weighbridge.local_engine.prior import LabelText

LABELS = [
    LabelText(name="billing", description="charges, invoices, refunds"),
    LabelText(name="bug", description="something is broken"),
    LabelText(name="account_access"),
]


def asked(prior, text, labels):
    return prior.opinions(prior.embed([text])[0], {"field": prior.points(labels)})["field"]


@pytest.mark.models
@pytest.mark.parametrize("text", ["", "Refund my invoice.", "\x00", "мой счёт", "a " * 3_000])
def test_opinion_is_a_distribution(models, text):
    opinion = asked(models.prior, text, LABELS)
    torch.testing.assert_close(opinion.log_probs.logsumexp(0), torch.zeros((), dtype=torch.float64))
    assert 0 < opinion.support < 1


@pytest.mark.models
def test_opinion_does_not_depend_on_the_order_of_labels(models):
    text = "My invoice is wrong."
    there, back = (asked(models.prior, text, labels) for labels in (LABELS, LABELS[::-1]))
    torch.testing.assert_close(there.log_probs, back.log_probs.flip(0), atol=1e-5, rtol=0)
    assert there.support == pytest.approx(back.support)


@pytest.mark.models
def test_one_label_is_certain_and_still_needs_support(models):
    """That there is no other label says nothing about the ticket."""
    near, far = (asked(models.prior, t, LABELS[:1]) for t in ("Refund my invoice.", "Moo!"))
    assert float(near.log_probs) == float(far.log_probs) == 0.0
    assert far.support < 0.5 < near.support


@pytest.mark.models
def test_phrases_place_a_label(models):
    """Customers' own words count more than the name."""
    labels = [
        LabelText(name="a", phrases=("I was charged twice.", "My invoice is wrong.")),
        LabelText(name="b", phrases=("The app crashes.", "The page is blank.")),
    ]
    opinion = asked(models.prior, "There is a mistake on the bill.", labels)
    assert float(opinion.log_probs[0].exp()) > 0.9


@pytest.mark.models
def test_name_alone_finds_the_ticket_that_it_stands_for(models):
    """Whatever the topic: said in a few ways, a name lies where tickets of its kind lie."""
    tickets = {
        "cancel_transfer": "I sent money to the wrong person, can I still stop it?",
        "exchange_rate": "How much do I get for 100 dollars in euros?",
        "lost_phone": "Somebody stole my mobile yesterday.",
    }
    labels = [LabelText(name=name) for name in tickets]
    for place, text in enumerate(tickets.values()):
        assert int(asked(models.prior, text, labels).log_probs.argmax()) == place


@pytest.mark.models
@pytest.mark.parametrize("name", ["{}", "{0}", "a {b} c", "}{", "%s", "__", "-"])
def test_name_is_text_and_no_pattern(models, name):
    """Braces and the like are read as they are."""
    opinion = asked(models.prior, "Refund my invoice.", [LabelText(name=name), *LABELS])
    assert bool(opinion.log_probs.isfinite().all())
