"""Mistakes in settings: what is wrong, in which key, and where it was set, in words of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from weighbridge.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PREFIX = "WEIGHBRIDGE_"  # of environment variables
Location: TypeAlias = tuple[int | str, ...]  # as pydantic gives it

# Below these, and below each provider, the third part of a location names a branch of a union.
_LABELS = {("task", "categories"), ("task", "priorities")}

# By pydantic's type of error. Its own words name its classes, and say less of what to write.
_NEEDS_KIND = "needs a `kind`: openai, gemini, ollama, anthropic, systemone or local"
_IS_TABLE = "must be a table: {{ key = value }}"
_IS_TRUTH = "must be true or false"
_IS_WHOLE = "must be a whole number"
_IS_NUMBER = "must be a number"
_PROBLEMS = {
    "missing": "is missing",
    "tuple_type": 'must be a list: ["a", "b"], or a [[section]] for each entry',
    "dict_type": _IS_TABLE,
    "model_type": _IS_TABLE,
    "model_attributes_type": _IS_TABLE,
    "union_tag_not_found": _NEEDS_KIND,
    "union_tag_invalid": _NEEDS_KIND,
    "literal_error": "must be {expected}",
    "bool_type": _IS_TRUTH,
    "bool_parsing": _IS_TRUTH,
    "string_type": "must be a text in quotes",
    "string_too_short": "must not be empty",
    "int_type": _IS_WHOLE,
    "int_parsing": _IS_WHOLE,
    "int_from_float": _IS_WHOLE,
    "float_type": _IS_NUMBER,
    "float_parsing": _IS_NUMBER,
    "finite_number": _IS_NUMBER,
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "url_parsing": "is no address such as https://api.example.com/v1",
    "url_scheme": "must begin with https:// or http://",
}


def in_words(error: ErrorDetails) -> str:
    """What is wrong, of one of pydantic's errors without its input.

    >>> in_words({"type": "less_than_equal", "ctx": {"le": 1.0}, "loc": (), "msg": "", "input": 0})
    'must be at most 1'
    """
    known = _PROBLEMS.get(error["type"])
    if known is None:
        return error["msg"].removeprefix("Value error, ")
    return known.format_map(error.get("ctx", {}))


def error_at(
    content: Mapping[str, Any], source: str, location: Location, problem: str, hint: str = ""
) -> ConfigError:
    """The error at a location; of one of several providers it gives the name.

    Args:
        content: of the file.
        source: what the file is called; an environment variable that sets the key goes before it.
        location: as pydantic gives it.
        problem: what is wrong.
        hint: what to do.
    """
    has_branch = location[:1] == ("provider",) or location[:2] in _LABELS
    parts = location[:2] + location[3 if has_branch else 2 :]
    keys = [str(part) for part in parts if part != "[key]"]
    variable = _variable(keys)
    if variable is None and keys[:1] == ["provider"] and len(location) > 1:
        keys[1] = _provider_name(content, location[1]) or keys[1]
    return ConfigError(variable or source, ".".join(keys), problem, hint)


def set_variables() -> list[str]:
    """The environment variables that may be settings, by name."""
    return sorted(name for name in os.environ if name.upper().startswith(PREFIX))


def not_json() -> ConfigError:
    """For a variable that should hold a list or a table and does not; nobody knows which."""
    hint = (
        """A list or a table is given as JSON: WEIGHBRIDGE_ROUTER__ORDER='["a", "b"]'. """
        "For all else name the key: WEIGHBRIDGE_ROUTER__DEADLINE=20s."
    )
    return ConfigError("environment", "", f"not JSON: one of {', '.join(set_variables())}", hint)


def _provider_name(content: Mapping[str, Any], index: int | str) -> str | None:
    """The name that a provider of the file has, if it is one."""
    sections = content.get("provider")
    section = sections[index] if isinstance(index, int) and isinstance(sections, list) else None
    name = section.get("name") if isinstance(section, Mapping) else None
    return name if isinstance(name, str) and re.fullmatch(r"[\w.-]{1,64}", name) else None


def _variable(keys: list[str]) -> str | None:
    """The variable that sets a key, or a section above it as JSON, or something below it."""
    wanted = [key.upper() for key in keys]
    for name in set_variables() if keys else ():
        path = name.upper().removeprefix(PREFIX).split("__")
        if wanted[: len(path)] == path[: len(wanted)]:
            return name
    return None
