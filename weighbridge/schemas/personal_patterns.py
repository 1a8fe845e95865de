"""Pattern: how one kind of personal datum is written, and how it is checked.

Each expression takes a bounded number of steps at any place, so that a hostile text costs time in
proportion to its length. Words end where scripts change that write no spaces between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# A letter, digit or underscore, but not of a script without spaces (Thai, Lao, Khmer, Kana, Han,
# Hangul, full-width forms): there, a number may follow a word directly.
_WORD = (
    r"[^\W\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\uff00-\uffef]"
)
_BEGINS, _ENDS = rf"(?<!{_WORD})", rf"(?!{_WORD})"
_DIGITS = frozenset("0123456789")
_SPACE = r"[ \u00a0\u2007\u202f]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One kind of finding.

    Args:
        name: capital letters, digits and underscores; it is part of the placeholder.
        expression: finds candidates.
        is_genuine: decides about each.
    """

    name: str
    expression: re.Pattern[str]
    is_genuine: Callable[[str], bool] = lambda _: True

    @classmethod
    def of(cls, name: str, expression: str) -> Pattern:
        """From the text of an expression.

        Raises:
            ValueError: it is no regular expression.
        """
        try:
            return cls(name=name, expression=re.compile(expression))
        except re.error as error:
            raise ValueError(f"{name}: not a regular expression: {error.msg}") from None

    def findings(self, text: str) -> Iterator[tuple[int, int]]:
        """Begin and end of each finding, from left to right; none overlaps another."""
        at = 0
        # Beyond the end, an expression that matches nothing would match there for ever.
        while at < len(text) and (found := self.expression.search(text, at)):
            begin, end = found.span()
            if end > begin and self.is_genuine(found[0]):
                yield begin, end
                at = end
            else:
                at = begin + 1  # a genuine one may begin within


def has_luhn_check(text: str) -> bool:
    """Whether the digits in a text pass the check of ISO/IEC 7812-1, annex B.

    >>> has_luhn_check("4111 1111 1111 1111"), has_luhn_check("4111 1111 1111 1112")
    (True, False)
    """
    digits = [int(character) for character in text if character in _DIGITS]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(doubled) + sum(digits[::-2])) % 10 == 0


def has_iban_check(text: str) -> bool:
    """Whether letters and digits pass the check of ISO 13616: modulo 97 it is 1.

    >>> has_iban_check("DE89 3704 0044 0532 0130 00"), has_iban_check("DE88370400440532013000")
    (True, False)
    """
    plain = "".join(character for character in text if character.isalnum() and character.isascii())
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1


def _is_telephone(text: str) -> bool:
    num_digits = sum(character in _DIGITS for character in text)
    # "05/2024 …" and "01-2024 …" are months.
    return 8 <= num_digits <= 17 and not re.match(r"0[1-9][/-](?:19|20)[0-9]{2}(?![0-9])", text)


# Country codes by the length of their IBANs. Source: SWIFT, IBAN Registry;
# compared with the copy in python-stdnum 2.2.
_IBAN_LENGTHS = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
_IBANS = "|".join(
    rf"(?:{'|'.join(countries.split())})[0-9]{{2}}(?:(?:{_SPACE}|-)?[0-9A-Z]){{{length - 4}}}"
    for length, countries in _IBAN_LENGTHS.items()
)

_LABEL = rf"{_WORD}(?:(?:{_WORD}|-){{0,61}}{_WORD})?"
_EMAIL = rf"{_BEGINS}{_WORD}(?:{_WORD}|[.%+'-]){{0,63}}@(?:{_LABEL}\.){{1,8}}"
_TOP_LEVEL = rf"(?:[Xx][Nn]--[A-Za-z0-9-]{{1,59}}|(?:(?![0-9_]){_WORD}){{2,24}})"

_SEPARATOR = rf"(?:{_SPACE}|[.-])"
_CARDS = "|".join(
    [
        # Without gaps, by the numbers that issuers have: a date with a time is no card.
        r"4[0-9]{12}|3[0689][0-9]{12}|3[47][0-9]{13}|(?:2[27]|[3-6][0-9])[0-9]{14}|[3-6][0-9]{16,18}",
        rf"[2-6][0-9]{{3}}(?P<a>{_SEPARATOR})[0-9]{{4}}(?P=a)[0-9]{{4}}(?P=a)[0-9]{{4}}",
        rf"3[0-9]{{3}}(?P<b>{_SEPARATOR})[0-9]{{6}}(?P=b)[0-9]{{4,5}}",
    ]
)
# Looked for after those of sixteen digits: what follows a card may be its date.
_LONG_CARDS = "|".join(
    [
        rf"[2-6][0-9]{{3}}(?P<a>{_SEPARATOR})[0-9]{{4}}(?P=a)[0-9]{{4}}(?P=a)[0-9]{{4}}(?P=a)"
        r"[0-9]{1,3}",
        rf"[2-6][0-9]{{3}}(?P<b>{_SEPARATOR})[0-9]{{4}}(?P=b)[0-9]{{5}}",
        rf"[2-6][0-9]{{7}}(?P<c>{_SEPARATOR})[0-9]{{5,11}}",
    ]
)

# Not within a longer number, a date, a path or an order such as "#555-123-4567" and "A-0171-…".
_CALLED = rf"(?<![#./-]){_BEGINS}"
_DONE = rf"{_ENDS}(?![-./][0-9])"
_GAP = rf"(?:{_SPACE}|[./-]){{0,3}}"
_GROUPS = rf"(?:{_GAP}\([0-9]{{1,5}}\)(?:{_GAP}[0-9]){{4,9}}|(?:{_GAP}[0-9]){{4,12}})"
_TELEPHONES = "|".join(
    [
        # E.164, however grouped. The plus is a boundary by itself.
        rf"\+[1-9][0-9]{{0,2}}{_GROUPS}{_ENDS}",
        # With the international prefix, where grouping tells it from a number padded with zeros.
        rf"{_CALLED}00[1-9][0-9]{{0,2}}(?={_SPACE}|[(./-]){_GROUPS}{_DONE}",
        # North America: 3-3-4, the area from 2 up.
        rf"(?:{_CALLED}1(?:{_SPACE}|[.-]))?(?:\([2-9][0-9]{{2}}\){_SPACE}?"
        rf"|{_CALLED}[2-9][0-9]{{2}}(?:{_SPACE}|[.-])|(?<=1[ .-])[2-9][0-9]{{2}}[ .-])"
        rf"[0-9]{{3}}(?:{_SPACE}|[.-])[0-9]{{4}}{_DONE}",
        # In pairs, as in France.
        rf"{_CALLED}0[1-9](?P<p>{_SPACE}|[.-])[0-9]{{2}}(?:(?P=p)[0-9]{{2}}){{3}}{_DONE}",
        # An area code after the trunk prefix 0, set off.
        rf"(?:\(0[1-9][0-9]{{0,4}}\){_SPACE}?|{_CALLED}0[1-9][0-9]{{0,4}}(?:{_SPACE}|[/-]){{1,3}})"
        rf"[0-9]{{3,8}}(?:(?:{_SPACE}|-)[0-9]{{2,6}}){{0,2}}{_DONE}",
        # Mobile numbers without gaps: Germany, France, the United Kingdom.
        rf"{_CALLED}(?:01[5-7][0-9]{{8,9}}|0[67][0-9]{{8}}|07[0-9]{{9}}){_DONE}",
    ]
)

BUILT_IN: tuple[Pattern, ...] = (
    Pattern(
        name="EMAIL",
        expression=re.compile(rf"{_EMAIL}{_TOP_LEVEL}{_ENDS}"),
    ),
    Pattern(
        name="IBAN",
        expression=re.compile(rf"{_BEGINS}(?:{_IBANS}){_ENDS}", re.IGNORECASE | re.ASCII),
        is_genuine=has_iban_check,
    ),
    Pattern(
        name="CARD",
        expression=re.compile(rf"{_BEGINS}(?:{_CARDS}){_ENDS}"),
        is_genuine=has_luhn_check,
    ),
    Pattern(
        name="CARD",
        expression=re.compile(rf"{_BEGINS}(?:{_LONG_CARDS}){_ENDS}"),
        is_genuine=has_luhn_check,
    ),
    Pattern(name="PHONE", expression=re.compile(_TELEPHONES), is_genuine=_is_telephone),
)
