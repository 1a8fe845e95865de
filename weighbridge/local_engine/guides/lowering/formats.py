"""Formats: for each, patterns that every value of the format's RFC-conforming core matches.

What a pattern accepts is valid; a few rare valid spellings are left out where a regular expression
could not tell them from invalid ones: leap seconds, internationalised host names, quoted local
parts of addresses.
"""

from __future__ import annotations

# Years 0001 to 9999: the year 0 is in RFC 3339, but in few calendars.
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP}-02-29)"
)
_MINUTES = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_MINUTES}:[0-5][0-9](?:\.[0-9]+)?(?:[zZ]|[+\-]{_MINUTES})"

_CLOCK = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:{_DAYS}(?:{_CLOCK})?|{_CLOCK}|[0-9]+W)"

# RFC 5891 reserves labels with "--" in the third and fourth place; those with a meaning need
# tables that no regular expression holds.
_A, _H = "[0-9A-Za-z]", r"[\-0-9A-Za-z]"
_LABEL = rf"{_A}(?:{_A}|{_H}{_A}|{_H}{_H}{_A}|{_H}(?:{_A}{_H}|\-{_A}){_H}{{0,58}}{_A})?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"
_H16 = "[0-9a-fA-F]{1,4}"
_LS32 = f"(?:{_H16}:{_H16}|{_IPV4})"
_IPV6 = (
    "(?:"
    + "|".join(
        [
            f"(?:{_H16}:){{6}}{_LS32}",
            f"::(?:{_H16}:){{5}}{_LS32}",
            *(
                f"(?:(?:{_H16}:){{0,{before}}}{_H16})?::(?:{_H16}:){{{4 - before}}}{_LS32}"
                for before in range(5)
            ),
            f"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
            f"(?:(?:{_H16}:){{0,6}}{_H16})?::",
        ]
    )
    + ")"
)

_ATOM = r"[0-9A-Za-z!#$%&'*+\-/=?\^_`{|}~]"
_EMAIL = rf"{_ATOM}+(?:\.{_ATOM}+)*@(?:{_HOST}|\[(?:{_IPV4}|IPv6:{_IPV6})\])"

_SAFE = r"0-9A-Za-z\-._\~!$\&'()*+,;="
_UCS = r"\x{a0}-\x{d7ff}\x{f900}-\x{fdcf}\x{fdf0}-\x{ffef}" + "".join(
    rf"\x{{{plane:x}0000}}-\x{{{plane:x}fffd}}" for plane in range(1, 14)
)
_PRIVATE = r"\x{e000}-\x{f8ff}\x{f0000}-\x{ffffd}\x{100000}-\x{10fffd}"


def _resource(more: str, in_query: str, *, relative: bool) -> str:
    """RFC 3986, and RFC 3987 where `more` characters are safe."""
    percent = "%[0-9a-fA-F]{2}"
    char = f"(?:[{_SAFE}:@{more}]|{percent})"
    no_colon = f"(?:[{_SAFE}@{more}]|{percent})"
    host = (
        rf"(?:\[(?:{_IPV6}|[vV][0-9a-fA-F]+\.[{_SAFE}:]+)\]"
        rf"|{_IPV4}|(?:[{_SAFE}{more}]|{percent})*)"
    )
    authority = f"(?:(?:[{_SAFE}:{more}]|{percent})*@)?{host}(?::[0-9]*)?"
    rest = f"(?:/{char}*)*"
    absolute = f"/(?:{char}+{rest})?"
    query = rf"(?:\?(?:{char}|[/?{in_query}])*)?(?:\#(?:{char}|[/?])*)?"
    whole = rf"[A-Za-z][0-9A-Za-z+\-.]*:(?://{authority}{rest}|{absolute}|{char}+{rest}|){query}"
    if not relative:
        return whole
    return f"(?:{whole}|(?://{authority}{rest}|{absolute}|{no_colon}+{rest}|){query})"


_POINTER = r"(?:/(?:[^/\~]|\~[01])*)*"
_NAME = "(?:[0-9A-Za-z_]|%[0-9a-fA-F]{2})"
_VARIABLE = rf"{_NAME}(?:\.?{_NAME})*(?::[1-9][0-9]{{0,3}}|\*)?"
# Operators that RFC 6570 keeps for later are no part of it.
_EXPRESSION = rf"\{{[+\#./;?\&]?{_VARIABLE}(?:,{_VARIABLE})*\}}"
_TEMPLATE_TEXT = (
    rf"[!\#$\&-;=?-\[\]_a-z\~{_UCS}{_PRIVATE}]|%[0-9a-fA-F]{{2}}"  # not %, <, >, \, ^, `, {, |, }
)


def _whole(pattern: str) -> str:
    return f"^(?:{pattern})$"


_LENGTH_OF_HOST = r"^(?s:.{1,253})$"
_LENGTH_OF_LOCAL = r"^[^@]{1,64}@(?s:.{1,255})$"

FORMATS: dict[str, tuple[str, ...]] = {
    "date": (_whole(_DATE),),
    "time": (_whole(_TIME),),
    "date-time": (_whole(f"{_DATE}[tT]{_TIME}"),),
    "duration": (_whole(_DURATION),),
    "email": (_whole(_EMAIL), _LENGTH_OF_LOCAL),
    "idn-email": (_whole(_EMAIL), _LENGTH_OF_LOCAL),
    "hostname": (_whole(_HOST), _LENGTH_OF_HOST),
    "idn-hostname": (_whole(_HOST), _LENGTH_OF_HOST),
    "ipv4": (_whole(_IPV4),),
    "ipv6": (_whole(_IPV6),),
    "uuid": (_whole("[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),),
    "uri": (_whole(_resource("", "", relative=False)),),
    "uri-reference": (_whole(_resource("", "", relative=True)),),
    "iri": (_whole(_resource(_UCS, _PRIVATE, relative=False)),),
    "iri-reference": (_whole(_resource(_UCS, _PRIVATE, relative=True)),),
    "uri-template": (_whole(f"(?:{_TEMPLATE_TEXT}|{_EXPRESSION})*"),),
    "json-pointer": (_whole(_POINTER),),
    "relative-json-pointer": (_whole(rf"(?:0|[1-9][0-9]*)(?:\#|{_POINTER})"),),
}
