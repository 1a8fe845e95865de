"""Redaction: nothing that is found stays, and every original comes back to its place."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.schemas.personal_patterns import BUILT_IN, Pattern, has_iban_check, has_luhn_check
from weighbridge.schemas.redaction import Redacted, Redaction, Redactor

EMAILS = [
    "al@b.example",
    "AL.x+y@sub.d-e.museum",
    "o'brien@b.co.uk",
    "jürgen@müller.de",
    "a@xn--mnchen-3ya.de",
    "a@b.xn--p1ai",
]
CARDS = [
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "4111111111111111",
    "5555.5555.5555.4444",
    "3782 822463 10005",
    "4222222222222",
    "6304\u00a00000\u00a00000\u00a00000",
    "2223000048400011",
    "6212 3456 7890 0000 003",
]
IBANS = [
    "DE89 3704 0044 0532 0130 00",
    "GB82WEST12345698765432",
    "fr14 2004 1010 0505 0001 3M02 606",
    "NO93-8601-1117-947",
    "MT84MALT011000012345MTLCAST001S",
]
PHONES = [
    "+49 30 1234567",
    "+1 (555) 123-4567",
    "+14155552671",
    "+44.20.7946.0958",
    "+49 (0)30 12345-67",
    "0049 30 1234567",
    "(030) 123456",
    "030/123456",
    "0171-1234567",
    "01711234567",
    "020 7946 0958",
    "01 23 45 67 89",
    "01.23.45.67.89",
    "555-123-4567",
    "(555) 123-4567",
    "1-800-555-1234",
]
FOUND = [
    *(("EMAIL", one) for one in EMAILS),
    *(("CARD", one) for one in CARDS),
    *(("IBAN", one) for one in IBANS),
    *(("PHONE", one) for one in PHONES),
]
KEPT = [
    "a@b",
    "@b.example",
    "a@@b.example",
    "a@.example",
    "a@b.c",
    "al at b.example",
    "4111 1111 1111 1112",
    "0000 0000 0000 0000",
    "4111 1111-1111 1111",
    "20240503123000",
    "X4111111111111111",
    "DE88370400440532013000",
    "DE893704004405320130",
    "XX89370400440532013000",
    "ADE89370400440532013000",
    "order 1234567890",
    "order 12345678",
    "INV-2024-0012",
    "112-3456789-1234567",
    "#555-123-4567",
    "AB-0171-1234567",
    "0012345678",
    "2024-05-03 10:30",
    "01.02.2024 10:30",
    "01-02-2024",
    "05/2024 12345",
    "192.168.100.200",
    "v1.2.3.4",
    "1 000 000 000",
    "1,000,000.00",
    "00:11:22:33:44:55",
    "ISBN 978-3-16-148410-0",
    "+3 items",
    "155-123-4567",
    "[EMAIL_1]",
    "[PHONE_2] and [CARD_0]",
]
personal = st.sampled_from([value for _, value in FOUND])
texts = st.lists(
    personal
    | st.sampled_from(
        [*KEPT, " ", ", ", "\n", "(", "+", "0", "1", "[", "]", "[EMAIL_1]", "_1]", "é", "は"]
    )
    | st.text(max_size=4)
).map("".join)


@given(text=texts)
def test_what_was_redacted_can_be_restored(text):
    """Letter by letter, whatever the ticket itself has in brackets."""
    redacted = Redactor().redact(text)
    assert redacted.restore(redacted.text) == text
    assert redacted.restore({"a": [redacted.text, 1, None]}) == {"a": [text, 1, None]}


@given(text=texts)
def test_no_finding_survives(text):
    """What is redacted holds nothing more to redact."""
    redacted = Redactor().redact(text)
    assert Redactor().redact(redacted.text) == Redacted(text=redacted.text)
    for pattern in BUILT_IN:
        assert list(pattern.findings(redacted.text)) == []


@given(text=texts)
def test_one_value_has_one_placeholder(text):
    """And no two values share one; none is a word of the ticket's own."""
    originals = Redactor().redact(text).originals
    kinds = {(placeholder.rpartition("_")[0], value) for placeholder, value in originals.items()}
    assert len(kinds) == len(originals)
    assert not any(placeholder in text for placeholder in originals)


@pytest.mark.parametrize(("name", "value"), FOUND, ids=lambda one: one)
@pytest.mark.parametrize(
    "around", ["{}", "Call {}, or not.", "({})", "電話は{}です", "is: {}\nand"]
)
def test_what_is_personal_is_found(name, value, around):
    """At the edges, in brackets, before a full stop, in scripts without spaces."""
    redacted = Redactor().redact(around.format(value))
    assert redacted.text == around.format(f"[{name}_1]")
    assert redacted.originals == {f"[{name}_1]": value}


@pytest.mark.parametrize("text", KEPT)
def test_what_only_resembles_it_is_kept(text):
    """Orders, dates, versions, numbers that fail their check."""
    assert Redactor().redact(text) == Redacted(text=text)


def test_a_card_is_found_beside_its_date():
    redacted = Redactor().redact("4111 1111 1111 1111 12/27 123, 1234 4111 1111 1111 1111")
    assert redacted.text == "[CARD_1] 12/27 123, 1234 [CARD_1]"


def test_a_ticket_with_placeholders_of_its_own_is_not_confused():
    """Its words are never given a meaning, and ours have other numbers."""
    redacted = Redactor().redact("[EMAIL_1] [EMAIL_3] al@b.example bo@b.example")
    assert redacted.text == "[EMAIL_1] [EMAIL_3] [EMAIL_2] [EMAIL_4]"
    assert redacted.restore("[EMAIL_1] [EMAIL_2]") == "[EMAIL_1] al@b.example"


def test_only_whole_placeholders_are_restored():
    redacted = Redactor().redact("al@b.example")
    for text in ("EMAIL_1", "[EMAIL_10]", "[EMAIL_1", "[email_1]", "[EMAIL_01]"):
        assert redacted.restore(text) == text
    answer = {"[EMAIL_1]": ["to [EMAIL_1]!"]}
    assert redacted.restore(answer) == {"[EMAIL_1]": ["to al@b.example!"]}


def test_originals_are_not_shown():
    """A log of the object says nothing."""
    assert "al@" not in repr(Redactor().redact("al@b.example"))


def test_patterns_of_ones_own_come_after_the_built_in():
    """What they find around an earlier finding is one placeholder, put back in one step."""
    redactor = Redaction(extra={"NAME": r"Name: [^\n]*", "ORDER": "A-[0-9]+"}).redactor()
    text = "Name: Al, al@b.example\nA-17, A-18, A-17, bo@b.example"
    redacted = redactor(text)
    assert redacted.text == "[NAME_1]\n[ORDER_1], [ORDER_2], [ORDER_1], [EMAIL_2]"
    assert redacted.restore(redacted.text) == text


@given(
    text=texts, expression=st.sampled_from(["[A-Z]+", "[0-9]+", ".", "_", r"\[.*?\]", "", "L_1"])
)
def test_no_pattern_breaks_a_placeholder(text, expression):
    """One's own pattern may match anything; what comes back is still the text."""
    redacted = Redaction(extra={"X": expression}).redactor().redact(text)
    assert redacted.restore(redacted.text) == text


def test_only_the_patterns_named_are_used():
    text = "al@b.example +14155552671"
    assert Redaction(built_in=("PHONE",)).redactor()(text).text == "al@b.example [PHONE_1]"
    assert Redaction(built_in=()).redactor()(text).text == text


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"built_in": ("EMIAL",)}, "no built-in pattern is called 'EMIAL'; the nearest is 'EMAIL'"),
        ({"built_in": ("phone",)}, "the nearest is 'PHONE'"),
        ({"extra": {"order": "x"}}, "'order' cannot name a pattern"),
        ({"extra": {"A]": "x"}}, "cannot name a pattern"),
        ({"extra": {"A": "("}}, "A: not a regular expression"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, problem):
    with pytest.raises(ValueError, match=problem.replace("(", r"\(")):
        Redaction(**settings).redactor()


def test_checks_know_the_published_examples():
    """ISO/IEC 7812 and ISO 13616."""
    assert has_luhn_check("79927398713")
    assert not any(has_luhn_check(f"7992739871{digit}") for digit in "012456789")
    assert has_iban_check("GB82 WEST 1234 5698 7654 32")
    assert not has_iban_check("GB82 WEST 1234 5698 7654 23")


def test_a_pattern_is_asked_again_within_what_it_refused():
    pattern = Pattern(name="X", expression=BUILT_IN[0].expression, is_genuine="b@".__contains__)
    assert list(pattern.findings("a@b.example")) == []
    assert list(Pattern.of("X", "aa|a").findings("aaa")) == [(0, 2), (2, 3)]


@pytest.mark.parametrize(
    "piece",
    [
        *("4", "41", "4111 ", "a@", "a@a.", "a.", "0", "0171 ", "+4", "+49 30 12345 ", "(0"),
        *("DE89 3704 ", "[EMAIL_1]", "al@b.example ", "al@b.example+49301234567", "555-", "a-"),
        "x@" + "a" * 62 + ".",
    ],
)
def test_time_grows_as_the_text_does(piece):
    """Four times the text takes nowhere near sixteen times as long."""
    redactor, used = Redactor(), []
    for length in (10_000, 40_000):
        begun = time.process_time()
        redactor.redact(piece * (length // len(piece)))
        used.append(time.process_time() - begun)
    assert used[1] < 11 * used[0] + 0.2
