"""Types of single settings: durations, names, addresses, amounts; each says what it wanted."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, HttpUrl, TypeAdapter

from weighbridge.addresses import is_metadata

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(value: Any) -> Any:
    """Seconds from a number or a text such as "20s", "500ms", "2m"."""
    if isinstance(value, str | bool):
        # Without a unit too: all that the environment can hold is text.
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", str(value).strip())
        if match is None:
            raise ValueError(
                'a duration is a number of seconds, or a text in ms, s, m, h or d: "20s"'
            )
        return float(match[1]) * _UNITS_S[match[2] or "s"]
    return value


def _name(value: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,64}", value):
        raise ValueError("a name is 1 to 64 letters, digits, '.', '_' or '-'")
    return value


def _variable(value: str) -> str:
    # Whoever put the key itself here must not read it again in an error.
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
        raise ValueError("names an environment variable in capitals; it is not the key itself")
    return value


def _base_url(value: str) -> str:
    if not value.isprintable() or " " in value:  # pydantic overlooks them, the first ticket not
        raise ValueError("must hold neither spaces nor control characters")
    url = TypeAdapter(HttpUrl).validate_python(value)
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("must hold neither credentials nor a query; use api_key_env")
    if is_metadata(url.host or ""):
        raise ValueError("is where clouds tell machines their secrets; no model answers there")
    return value


Seconds = Annotated[float, BeforeValidator(seconds), Field(gt=0, le=3600)]
# A hundred years: what is counted from now must stay a time that databases and calendars know.
Days = Annotated[float, BeforeValidator(seconds), Field(gt=0, le=36_500 * 86_400)]
Name = Annotated[str, AfterValidator(_name)]
Variable = Annotated[str, AfterValidator(_variable)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
