from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.providers.mask_order import mask_order
from weighbridge.providers.protocol import TokenLogprob

PATH, OPTIONS = ("answer",), ("zebra", "quartz")


def reply(*tokens: str, listed: dict[str, float], at: int) -> tuple[str, list[TokenLogprob]]:
    """An answer whose token `at` has alternatives, with their probabilities."""
    top = tuple((token.encode(), math.log(p) if p else -9000.0) for token, p in listed.items())
    chosen = dict(top)
    return "".join(tokens), [
        TokenLogprob(
            token=token.encode(),
            logprob=chosen[token.encode()] if i == at else -0.01,
            top=top if i == at else (),
        )
        for i, token in enumerate(tokens)
    ]


PLAIN = ('{"answer":"', "z", "ebra", '"}')
BEFORE = {"blue": 0.9, "Blue": 0.05, "z": 1e-4, "qu": 1e-5}
AFTER = {"z": 0.7, "qu": 0.3}


@pytest.mark.parametrize(
    ("tokens", "at", "listed", "expected"),
    [
        pytest.param(PLAIN, 1, BEFORE, "before_mask", id="forbidden words have the mass"),
        pytest.param(PLAIN, 1, AFTER, "after_mask", id="allowed words have it all"),
        pytest.param(PLAIN, 1, {**AFTER, "blue": 0}, "after_mask", id="masked in a number's guise"),
        pytest.param(PLAIN, 1, {"z": 1.0}, "after_mask", id="one word has it all"),
        pytest.param(PLAIN, 1, {"z": 0.93, "blue": 0.05}, None, id="the model wanted to obey"),
        pytest.param(PLAIN, 1, {"z": 0.6, "qu": 0.2}, None, id="nobody knows where the rest is"),
        pytest.param(PLAIN, 1, {"z": 0.6, "\\u007a": 0.399}, "after_mask", id="an escape is free"),
        pytest.param(
            ('{"answer":', ' "z', "ebra", '"}'),
            1,
            {' "z': 0.6, ' "qu': 0.2, '"z': 0.1, " ": 0.05, '"': 0.05},
            "after_mask",
            id="quote and blanks in the same token",
        ),
        pytest.param(
            ('{"answer', '":"z', "ebra", '"}'),
            1,
            {'":"z': 0.5, '": "z': 0.3, '":': 0.2},
            "after_mask",
            id="more marks in the same token",
        ),
        pytest.param(
            ('{"answer":', ' "z', "ebra", '"}'),
            1,
            {' "z': 0.1, ' "blue': 0.8},
            "before_mask",
            id="a forbidden word behind the quote",
        ),
        pytest.param(
            ('{"answer":', ' "z', "ebra", '"}'),
            1,
            {' "z': 0.1, " blue": 0.8},
            "before_mask",
            id="a word without its quote is forbidden",
        ),
        pytest.param(
            ('{"answer":', ' "z', "ebra", '"}'),
            1,
            {' "z': 0.1, ' " z': 0.8},
            "before_mask",
            id="a blank behind the quote is forbidden",
        ),
        pytest.param(
            ('{"answer":"', "zebra", '"}'),
            1,
            {"zebra": 0.5, "zeb": 0.2, 'zebra"}': 0.29, "q": 0.01},
            "after_mask",
            id="longer and shorter spellings",
        ),
        pytest.param(
            ('{"answer":"', "zebra", '"}'),
            1,
            {"zebra": 0.5, "zebras": 0.49},
            "before_mask",
            id="a word that goes on is another one",
        ),
        pytest.param(
            (' \n{"answer":"', "z", "ebra", '"} '), 1, AFTER, "after_mask", id="blanks around"
        ),
    ],
)
def test_order_is_told_by_what_stands_beside_the_first_token(tokens, at, listed, expected):
    text, spelled = reply(*tokens, listed=listed, at=at)
    assert mask_order(text, spelled, PATH, OPTIONS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The sky is blue.",
        '{"answer":"quartz"}',
        '{"answer":"z',
        '{"colour":"zebra"}',
        '{"answer":"\ud800"}',
        "",
    ],
)
def test_tokens_of_another_text_prove_nothing(text):
    """Nor does a text that is no JSON, or lacks the field."""
    _, tokens = reply(*PLAIN, listed=AFTER, at=1)
    assert mask_order(text, tokens, PATH, OPTIONS) is None


def test_text_is_not_stripped_before_it_is_told():
    """The tokens may lack blanks that the text has."""
    text, tokens = reply(*PLAIN, listed=AFTER, at=1)
    assert mask_order(f"\n {text}\n", tokens, PATH, OPTIONS) == "after_mask"


@given(
    words=st.lists(st.sampled_from(["blue", "sky", "Z", "ze", "q", "the"]), unique=True),
    masses=st.lists(st.floats(0.001, 1), min_size=8, max_size=8),
)
def test_masking_what_is_forbidden_turns_one_order_into_the_other(words, masses):
    """Whatever the model thought, as long as some of it was forbidden and most was seen."""
    candidates = ["z", "qu", "green", *words]
    raw = dict(zip(candidates, masses, strict=False))
    scaled = {word: mass / sum(raw.values()) for word, mass in raw.items()}
    legal = {word: scaled[word] for word in scaled if word in ("z", "qu", "ze", "q")}
    masked = {word: mass / sum(legal.values()) for word, mass in legal.items()}
    assert mask_order(*reply(*PLAIN, listed=masked, at=1), PATH, OPTIONS) == "after_mask"
    found = mask_order(*reply(*PLAIN, listed=scaled, at=1), PATH, OPTIONS)
    assert found == ("before_mask" if sum(legal.values()) < 0.9 else None)
