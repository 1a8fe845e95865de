"""Evidence: bytes of tokens against bytes of the answer, and what the numbers then prove."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import WIRE, replay

from weighbridge.providers.evidence import Alignment, value_span
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import TokenLogprob

needs_wire = pytest.mark.skipif(not WIRE.is_dir(), reason=f"no recorded traffic at {WIRE}")
OPEN = '{"category":"'


def token(text, probability=1.0, /, **others):
    """One token; keywords are its alternatives."""
    return with_top(text, probability, others)


def with_top(text, probability, others):
    pairs = {text: probability, **others}
    top = tuple((part.encode(), math.log(p)) for part, p in pairs.items()) if others else ()
    raw = text if isinstance(text, bytes) else text.encode()
    return TokenLogprob(token=raw, logprob=math.log(probability), top=top)


def evidence(tokens, options, value, *, text=None, path=("category",), source="premask"):
    written = b"".join(t.token for t in tokens).decode() if text is None else text
    alignment = Alignment.of(written, tokens)
    return alignment and alignment.evidence(path, options, value, source=source)


def test_the_check_values_of_the_mass_interval():
    """Top 5 {bill .62, how .20, The .10, bug .04, I .02}: mass in [0.86, 0.88] (review.md 3.2)."""
    tokens = [token(OPEN), token("bill", 0.62, how=0.20, The=0.10, bug=0.04, I=0.02)]
    found = evidence([*tokens, token("ing"), token('"}')], ("billing", "how_to", "bug"), "billing")
    assert found.mass == pytest.approx((0.86, 0.88))
    assert found.probability == pytest.approx(0.62 / 0.88)
    assert found.options == pytest.approx(
        {"billing": 0.62 / 0.86, "how_to": 0.20 / 0.86, "bug": 0.04 / 0.86}
    )


def test_the_check_values_of_the_trie_bound_what_is_found():
    """Only the emitted path is known to its end: .30·.98 + .20 up to .5; q = .6164 is not reached.

    The whole trie of review.md 3.1 has m = .4770, which no single answer shows.
    """
    tokens = [token(OPEN), token("bill", 0.30, bug=0.12, how=0.06, acc=0.02, other=0.50)]
    rest = [token("ing", 0.98, s=0.02), token('"}')]
    options = ("billing", "bugend", "how_to", "account")
    found = evidence([*tokens, *rest], options, "billing")
    assert found.mass == pytest.approx((0.494, 0.494))
    assert found.probability == pytest.approx(0.294 / 0.494)
    assert found.probability <= 0.6164


@pytest.mark.parametrize(
    "pieces",
    [
        [OPEN, "bug", '"}'],
        ['{"category', '":"bug', '"}'],
        [OPEN, "b", "u", 'g"}'],
        ['{"category":', '"', "bug", '"', "}"],
        ['{"category":"bug"}'],
    ],
)
def test_where_the_value_stands_does_not_depend_on_the_tokens(pieces):
    """A token that straddles a quote counts whole; what is outside does not count."""
    tokens = [
        token(p, 0.5 if set("bug") <= set(p) or p in ("b", "u", 'g"}') else 1) for p in pieces
    ]
    found = evidence(tokens, ("bug", "billing"), "bug")
    assert found.probability == pytest.approx(0.125 if len(pieces) == 4 else 0.5)


def test_half_a_character_is_a_token_of_its_own():
    """By characters, "café" in these tokens would be longer than the text (structured-logprobs)."""
    parts = [b'{"category":"', b"caf", b"\xc3", b"\xa9", b'"}']
    tokens = [
        TokenLogprob(token=raw, logprob=math.log(p))
        for raw, p in zip(parts, (0.1, 0.9, 0.8, 0.5, 0.1), strict=True)
    ]
    found = evidence(tokens, ("café", "cafeteria"), "café")
    assert found.probability == pytest.approx(0.9 * 0.8 * 0.5)


def test_an_escaped_spelling_is_the_same_option():
    """Emitted with an escape, offered as an alternative without."""
    tokens = [token(OPEN), token("caf"), token("\\u00e9", 0.7, é=0.2, e=0.1), token('"}')]
    found = evidence(tokens, ("café", "tee"), "café")
    assert found.mass == pytest.approx((0.9, 0.9))
    assert found.options == {"café": 1.0, "tee": 0.0}


def test_options_that_share_a_beginning_are_told_apart_where_they_part():
    """`account` says nothing yet, but what it left undone belongs to the mass."""
    tokens = [token(OPEN), token("account", 0.6, bug=0.4), token("_", 1.0)]
    tokens += [token("access", 0.75, closed=0.25), token('"}')]
    found = evidence(tokens, ("account_access", "account_closed"), "account_access")
    assert found.mass == pytest.approx((0.6, 0.6))
    assert found.probability == pytest.approx(0.75)
    assert found.options == pytest.approx({"account_access": 0.75, "account_closed": 0.25})


def test_a_beginning_that_several_options_have_is_nobodys():
    """It is mass, but no option's: little of it is tolerated, more leaves `options` empty."""
    options = ("billing", "bug", "how_to")
    clear, vague = (
        evidence(
            [token(OPEN), token("billing", 1 - p - 0.1, b=p, how=0.1), token('"}')],
            options,
            "billing",
        )
        for p in (0.01, 0.3)
    )
    assert clear.mass == pytest.approx((1, 1))
    assert clear.options == pytest.approx({"billing": 0.89 / 0.99, "bug": 0, "how_to": 0.1 / 0.99})
    assert (vague.mass, vague.options) == (pytest.approx((1, 1)), {})
    assert vague.probability == pytest.approx(0.6)


def test_a_beginning_of_the_chosen_option_is_not_yet_the_option():
    """`ref` may have become `reflection`: it is mass, but no certain probability."""
    tokens = [token(OPEN), token("refund", 0.6, ref=0.3, bug=0.1), token('"}')]
    found = evidence(tokens, ("refund", "bug"), "refund")
    assert found.mass == pytest.approx((1, 1))
    assert found.probability == pytest.approx(0.6)
    assert found.options == pytest.approx({"refund": 0.9, "bug": 0.1})


def test_an_option_that_goes_on_is_not_the_option_that_ended():
    """`bug` was closed by force: the model wanted `bug_report`, an option or not."""
    closing = with_top('"}', 0.01, {"_report": 0.98, '",': 0.01})
    tokens = [token(OPEN), token("bug", 0.9, how=0.1), closing]
    both = evidence(tokens, ("bug", "bug_report", "how_to"), "bug")
    assert both.options == pytest.approx({"bug": 0.018, "bug_report": 0.882, "how_to": 0.1})
    assert both.probability == pytest.approx(0.018)
    alone = evidence(tokens, ("bug", "how_to"), "bug")
    assert alone.mass == pytest.approx((0.118, 0.118))


def test_a_closing_token_without_alternatives_is_not_held_against_the_option():
    """`"}` or `",` is a matter of style, and its number may even be missing."""
    end = TokenLogprob(token=b'"}', logprob=None)
    for closing in (token('"}', 0.3), end):
        found = evidence([token(OPEN), token("bug", 0.9), closing], ("bug", "how"), "bug")
        assert found.probability == pytest.approx(0.9)


def test_what_closes_an_option_counts_where_another_one_goes_on():
    """Then it is no matter of style, alternatives or not."""
    tokens = [token(OPEN), token("bug", 0.9), token('"}', 0.3)]
    assert evidence(tokens, ("bug", "bug_report"), "bug").probability == pytest.approx(0.27)
    tokens[-1] = TokenLogprob(token=b'"}', logprob=None)
    assert evidence(tokens, ("bug", "bug_report"), "bug") is None


def test_without_alternatives_only_the_chosen_option_is_known():
    """The interval is then as wide as it must be, and no distribution is made up."""
    found = evidence([token(OPEN), token("bug", 0.98), token('"}')], ("bug", "how"), "bug")
    assert (found.probability, found.options) == (pytest.approx(0.98), {})
    assert found.mass == pytest.approx((0.98, 1))


def test_after_a_mask_there_is_no_mass():
    """vLLM: the numbers were made to sum to 1 over the options before they were told."""
    tokens = [token(OPEN), token("bug", 0.75, how=0.25), token('"}')]
    found = evidence(tokens, ("bug", "how"), "bug", source="postmask")
    assert (found.mass, found.source) == (None, "postmask")
    assert found.options == pytest.approx({"bug": 0.75, "how": 0.25})


def test_a_forced_answer_shows_its_lack_of_mass():
    """Before a mask: the model wanted something else altogether."""
    tokens = [token(OPEN), token("bug", 0.001, The=0.6, I=0.398, how=0.001), token('"}')]
    found = evidence(tokens, ("bug", "how"), "bug")
    assert found.mass == pytest.approx((0.002, 0.002))
    assert found.probability == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("pieces", "options", "value", "expected"),
    [
        (
            ['{"category":', ("true", 0.8, {"false": 0.1, "null": 0.1}), "}"],
            (True, False),
            True,
            {"true": 8 / 9, "false": 1 / 9},
        ),
        (
            ['{"category":', ("1", 0.9, {"2": 0.1}), ("}", 0.5, {"0": 0.4, " }": 0.1})],
            (1, 2, 10),
            1,
            {"1": 0.54, "2": 0.1, "10": 0.36},
        ),
        (
            ['{"category":', ('"', 0.6, {"null": 0.4}), "bug", ('"', 1.0, {}), "}"],
            ("bug", None),
            "bug",
            {"bug": 0.6, "null": 0.4},
        ),
        (
            ['{"category":', ("null", 0.6, {'"bug"': 0.3, '"': 0.1}), "}"],
            ("bug", None),
            None,
            {"bug": 0.4, "null": 0.6},
        ),
        (
            [OPEN, ('"}', 0.7, {"bug": 0.2, '",': 0.1})],
            ("", "bug"),
            "",
            {"": 0.8, "bug": 0.2},
        ),
    ],
)
def test_options_need_not_be_texts(pieces, options, value, expected):
    """true, null and numbers end where something else begins: 1 is not 10."""
    tokens = [with_top(*((p, 1.0, {}) if isinstance(p, str) else p)) for p in pieces]
    assert evidence(tokens, options, value).options == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        '{"category":"bug"}',
        ' \n{"category": "bug"} ',
        '```json\n{"category": "bug"}\n```',
        '<think>{"category": "how"}</think>{"category":"bug"}',
        '{"note": "\\"category\\": \\"how\\", é", "category": "bug"}',
        '{"category": "Bug"}',
    ],
)
def test_the_value_is_found_in_what_counts_as_the_answer(text):
    """Fences, think blocks, escapes and quoted JSON move it; case alone is forgiven."""
    at = text.lower().rindex("bug")
    tokens = [token(text[:at]), token(text[at : at + 3], 0.5), token(text[at + 3 :])]
    assert evidence(tokens, ("bug", "how"), "bug").probability == pytest.approx(0.5)


def test_blanks_around_the_answer_may_be_missing_on_either_side():
    """Servers trim the text and keep the tokens, or the other way round."""
    tokens = [token("\n\n" + OPEN), token("bug", 0.5), token('"}\n')]
    for text in (OPEN + 'bug"}', f'  {OPEN}bug"}} \n'):
        assert evidence(tokens, ("bug", "how"), "bug", text=text).probability == pytest.approx(0.5)


WHOLE = [token(OPEN), token("bug", 0.5), token('"}')]


@pytest.mark.parametrize(
    ("tokens", "text", "value"),
    [
        (WHOLE, '{"category":"how"}', "how"),  # tokens of another text
        (WHOLE[1:], '{"category":"bug"}', "bug"),  # tokens that begin too late
        ([token("Hm. "), *WHOLE], '{"category":"bug"}', "bug"),  # thinking among the tokens
        ([], '{"category":"bug"}', "bug"),
        (WHOLE, '{"category":"bug"}', "how"),  # the text says something else
        (WHOLE, '{"category":"bug"}', None),  # the field is absent from the value
        (WHOLE, '{"category":"bug"}', "wish"),  # no option
        ([token("bug")], "bug", "bug"),  # no JSON
        ([token('{"category":"bug')], '{"category":"bug', "bug"),  # cut
        ([token('{"a":"bug"}')], '{"a":"bug"}', "bug"),  # no such field
        ([token('["bug"]')], '["bug"]', "bug"),
        ([token('{"category":"how","category":"bug"}')], None, "bug"),  # which one?
        (
            [token(OPEN), TokenLogprob(token=b"bug", logprob=None), token('"}')],
            None,
            "bug",
        ),  # -9999 on the way
    ],
)
def test_what_does_not_fit_together_is_no_evidence(tokens, text, value):
    """Never a guess."""
    assert evidence(tokens, ("bug", "how"), value, text=text) is None


@pytest.mark.parametrize(
    ("written", "options", "value"),
    [
        ("BUG", ("bug", "how"), "bug"),
        ("BUG", ("bug", "BUG"), "BUG"),  # said exactly it is one of them
        ("Bug", ("bug", "BUG"), None),  # it could be both
    ],
)
def test_the_option_is_meant_whatever_its_letter_case(written, options, value):
    """As acceptance has it: the answer counts, so its numbers do."""
    tokens = [token(OPEN), token(written, 0.5, how=0.5), token('"}')]
    found = evidence(tokens, options, written)
    assert (found and found.value) == value
    assert found is None or found.probability == pytest.approx(0.5 if "how" in options else 1.0)


def test_a_special_token_is_no_option():
    """The end of the answer has no text, and no text begins every option."""
    bug = TokenLogprob(token=b"bug", logprob=math.log(0.5), top=((b"", math.log(0.5)),))
    end = TokenLogprob(token=b"", logprob=None)
    found = evidence([token(OPEN), bug, token('"}'), end], ("bug", "how"), "bug")
    assert found.mass == pytest.approx((0.5, 0.5))


@needs_wire
def test_numbers_of_llama_server_read_as_documented():
    """Synthetic: before the grammar; `ref` is on the way to `refund`."""
    case = json.loads(
        (WIRE / "synthetic/llama-server-schema-logprobs-before-mask.json").read_text()
    )
    reply = OpenAIAdapter(named("llama_cpp_server")).parse(replay(case))
    found = evidence(reply.logprobs, ("refund", "billing"), "refund", path=("label",))
    refund = math.exp(-0.105) * (math.exp(-0.08) + math.exp(-2.7)) + math.exp(-4.1)
    assert found.mass[0] == pytest.approx(refund + math.exp(-2.62))
    assert found.options["refund"] == pytest.approx(refund / found.mass[0])


@needs_wire
def test_numbers_of_a_recorded_answer_are_aligned():
    """Recorded: gpt-4o with a strict schema, tokens straddling, no alternatives."""
    case = json.loads((WIRE / "recorded/openai/logprobs-strict-schema.json").read_text())
    reply = OpenAIAdapter(named("openai")).parse(replay(case))
    found = evidence(
        reply.logprobs, ("Friday", "Sunday"), "Friday", path=("date",), text=reply.text
    )
    assert found.probability == pytest.approx(math.exp(-0.09504829))


words = st.text(st.sampled_from('abé"\\'), max_size=4)


@st.composite
def models(draw):
    """A model over whole texts, read byte by byte: its answer, its tokens, and the truth."""
    weights = draw(st.dictionaries(words, st.floats(0.001, 1), min_size=2, max_size=8))
    options = draw(st.lists(st.sampled_from(sorted(weights)), min_size=1, unique=True))
    chosen = draw(st.sampled_from(options))
    spelled = {json.dumps(word, ensure_ascii=False).encode()[1:]: w for word, w in weights.items()}
    num_seen = draw(st.integers(1, 8))
    tokens, done = [TokenLogprob(token=OPEN.encode(), logprob=0.0)], b""
    for byte in json.dumps(chosen, ensure_ascii=False).encode()[1:]:
        following: dict[int, float] = {}
        for text, weight in spelled.items():
            if text.startswith(done):
                following[text[len(done)]] = following.get(text[len(done)], 0) + weight
        total = sum(following.values())
        ranked = sorted(following.items(), key=lambda pair: -pair[1])[:num_seen]
        top = tuple((bytes([b]), min(0.0, math.log(w / total))) for b, w in ranked)
        logprob = min(0.0, math.log(following[byte] / total))
        tokens.append(TokenLogprob(token=bytes([byte]), logprob=logprob, top=top))
        done += bytes([byte])
    tokens.append(TokenLogprob(token=b"}", logprob=0.0))
    mass = sum(weights[option] for option in options)
    return tokens, options, chosen, weights[chosen] / mass, mass / sum(weights.values())


@given(models())
def test_evidence_never_flatters(model):
    """However short the lists: true mass is at most `high`, true probability at least as told.

    Where no list shows what else the closing byte might have been, this cannot hold.
    """
    tokens, options, chosen, probability, mass = model
    found = evidence(tokens, options, chosen)
    low, high = found.mass
    assert 0 <= low <= high <= 1
    assert high >= mass - 1e-9
    assert found.probability <= probability + 1e-9
    if found.options:
        assert math.fsum(found.options.values()) == pytest.approx(1)
        assert found.probability <= found.options[chosen] + 1e-9


logprobs = st.floats(-30, 0)
pieces = st.sampled_from([b"b", b"bu", b"bug", b'bug"', b'bug"}', b"how", b'"', b"", b"\xc3", b"x"])


@given(
    cuts=st.sets(st.integers(1, 17)),
    tops=st.lists(st.lists(st.tuples(pieces, logprobs), max_size=5), min_size=19, max_size=19),
    numbers=st.lists(logprobs, min_size=19, max_size=19),
)
def test_bounds_hold_for_any_numbers(cuts, tops, numbers):
    """Also where a vendor's probabilities sum to more than one."""
    raw = b'{"category":"bug"}'
    edges = [0, *sorted(cuts), len(raw)]
    tokens = [
        TokenLogprob(token=raw[a:b], logprob=number, top=tuple(top))
        for a, b, number, top in zip(edges, edges[1:], numbers, tops, strict=False)
    ]
    found = evidence(tokens, ("bug", "how", "bill"), "bug")
    low, high = found.mass
    assert 0 <= low <= high <= 1
    assert 0 <= found.probability <= 1
    assert not found.options or math.fsum(found.options.values()) == pytest.approx(1)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def paths(value, path=()):
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))


@given(value=values, is_ascii=st.booleans(), indent=st.sampled_from([None, 1]))
def test_spans_slice_to_the_value(value, is_ascii, indent):
    """Of any JSON, however written; and no path leads to where nothing is."""
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    for path, expected in paths(value):
        start, end = value_span(f" \n{text}\t", path)
        assert repr(json.loads(f" \n{text}".encode()[start:end])) == repr(expected)
        missing = (*path, "not there, surely")
        assert value_span(text, missing) is None


@given(text=st.text(st.sampled_from('{}[]":, 01aé\\\n'), max_size=24))
def test_no_text_is_an_exception(text):
    """What is no JSON has no values."""
    for path in ((), ("a",), ("a", "a")):
        span = value_span(text, path)
        assert span is None or 0 <= span[0] < span[1] <= len(text.encode())
