"""Dialects: what each wire format of a JSON Schema can say, and how much of it, as data.

Facts are those of the vendors' pages and sources of autumn 2026; what nobody documents is left
off the wire, where it would be an error or be skipped in silence, and is checked locally.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

__all__ = ["DIALECTS", "Dialect", "Limits", "dialect_named", "has_lookaround"]

_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_ITEMS = frozenset({"minItems", "maxItems"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_TEXTS = frozenset({"pattern", "format"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

# What a regular expression may hold where it becomes an automaton of bytes or a grammar rule.
_PLAIN_ESCAPES = re.compile(r"\\[^dwsDWSnrt\W]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one schema may hold as it is sent; None where nobody says.

    Args:
        depth: objects and arrays in each other.
        properties: of all objects together.
        enum_values: of all enums together.
        chars: of all property names, definition names and enum strings together.
        long_enum_chars: of the strings of one enum with more than 250 of them.
        optional: properties that may be absent, in all.
        unions: places with more than one type, in all.
    """

    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    chars: int | None = None
    long_enum_chars: int | None = None
    optional: int | None = None
    unions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One wire format. A `const` is an enum of one and oneOf is anyOf everywhere: all take that.

    Args:
        name: for `plan`, for refusals and for trails.
        source: where the facts stand.
        is_confirmed: whether the vendor or its source says so; else it is a careful guess.
        enforces: whether the wire schema binds at all. Where it is only shown to the model it is
            the original, whatever that says, and local validation does everything.
        keywords: restrictions that are sent, beside those that give the shape.
        formats: values of `format` that are sent.
        patterns: which regular expressions are sent: all without lookaround, those that are also
            without back references and word boundaries, or of these only the ones that are
            anchored at both ends, where the server anchors every one.
        texts_combine: whether pattern, format and lengths all count beside each other; else the
            first of them does.
        bounds_of_numbers: whether bounds reach beyond integers.
        most_items: the largest minItems and maxItems that are sent; None for any.
        optional: how a property can be left out: absent, or null in its place.
        open_objects: whether `additionalProperties` may be a schema, or true.
        tuples: whether there is `prefixItems`.
        any_value: how to permit every value: not at all, by an empty schema, or by all six types.
        type_lists: whether `type` may be a list; else it becomes anyOf.
        enum_types: of the values in an enum.
        root_object: whether the whole answer must be an object, and no union.
        recursion: a schema that contains itself is sent with its references, written out a few
            levels deep, or refused.
        order: property order on the wire: the schema's, required ones first, or told apart.
        limits: how much may be sent.
    """

    name: str
    source: str
    is_confirmed: bool = True
    enforces: bool = True
    keywords: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    patterns: Literal["searched", "plain", "anchored"] = "plain"
    texts_combine: bool = False
    bounds_of_numbers: bool = True
    most_items: int | None = None
    optional: Literal["absent", "null"] = "absent"
    open_objects: bool = False
    tuples: bool = False
    any_value: Literal["no", "empty", "spelled"] = "no"
    type_lists: bool = False
    enum_types: frozenset[str] = _SCALARS
    root_object: bool = True
    recursion: Literal["kept", "unrolled", "refused"] = "refused"
    order: Literal["schema", "required_first", "property_ordering"] = "schema"
    limits: Limits = Limits()

    def sends_pattern(self, pattern: str) -> bool:
        r"""Whether the wire can carry a regular expression.

        >>> [DIALECTS["anthropic"].sends_pattern(p) for p in ("^a", r"^a\b", "^(?!a)")]
        [True, False, False]
        """
        if "pattern" not in self.keywords or has_lookaround(pattern):
            return False
        if self.patterns == "searched":
            return True
        is_plain = not _PLAIN_ESCAPES.search(pattern) and "(?" not in pattern.replace("(?:", "")
        return is_plain and (self.patterns == "plain" or _is_anchored(pattern))

    def sends_count(self, keyword: str, count: int) -> bool:
        """Whether the wire can carry that minItems or maxItems."""
        return keyword in self.keywords and (
            count <= self.most_items if self.most_items is not None else True
        )


def dialect_named(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        ValueError: there is none; the message names the nearest.

    >>> dialect_named("anthropic").recursion
    'refused'
    """
    if name in DIALECTS:
        return DIALECTS[name]
    nearest = difflib.get_close_matches(name, DIALECTS, n=1)
    meant = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(DIALECTS)}"
    raise ValueError(f"no dialect is called {name!r}; {meant}")


def has_lookaround(pattern: str) -> bool:
    """Whether a regular expression looks ahead or behind, which automata cannot do.

    >>> has_lookaround("^(?!x)"), has_lookaround("^(?:x)")
    (True, False)
    """
    return re.search(r"\(\?<?[=!]", pattern) is not None


def _is_anchored(pattern: str) -> bool:
    """Whether a match is always a match of the whole text: no alternative escapes the anchors."""
    inside = _outside_groups(pattern[1:-1])
    ends = pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith(r"\$")
    return ends and not set("|^$") & set(inside)


def _outside_groups(pattern: str) -> str:
    """What of a regular expression stands in no group, and in no character class."""
    pattern = re.sub(r"\\.", "", pattern)
    pattern = re.sub(r"\[\^?\]?[^\]]*\]", "", pattern)
    while (shorter := re.sub(r"\([^()]*\)", "", pattern)) != pattern:
        pattern = shorter
    return pattern


_OPENAI = Dialect(
    name="openai",
    source="platform.openai.com/docs/guides/structured-outputs#supported-schemas, August 2026;"
    " lookaround: pydantic-ai, profiles/openai.py",
    keywords=_TEXTS | _BOUNDS | _ITEMS | {"multipleOf"},
    formats=_FORMATS,
    patterns="searched",
    texts_combine=True,
    optional="null",
    type_lists=True,
    recursion="kept",
    limits=Limits(
        depth=10, properties=5000, enum_values=1000, chars=120_000, long_enum_chars=15_000
    ),
)

_LLAMA_CPP = Dialect(
    name="llama_cpp",
    source="ggml-org/llama.cpp, grammars/README.md and common/json-schema-to-grammar.cpp;"
    " Ollama since 0.30 and LM Studio (GGUF) hand the schema to it",
    # What it does not know it skips in silence, so nothing else is sent.
    keywords=_TEXTS | _LENGTHS | _ITEMS | _BOUNDS,
    formats=frozenset({"date", "time", "date-time", "uuid"}),
    patterns="anchored",
    bounds_of_numbers=False,
    open_objects=True,
    any_value="spelled",  # {} is any object there
    # A list of types loses what stands beside it.
    enum_types=_SCALARS | {"array", "object"},
    root_object=False,
    order="required_first",
    recursion="unrolled",  # references inside references are broken there
)

_ALL = (
    _OPENAI,
    replace(
        _OPENAI,
        name="azure",
        source="learn.microsoft.com, Azure OpenAI structured outputs: still quoted with the limits"
        " of 2024 and without keywords of single types; OpenAI raised both since",
        is_confirmed=False,
        keywords=frozenset(),
        formats=frozenset(),
        limits=Limits(depth=5, properties=100, enum_values=500, chars=15_000, long_enum_chars=7500),
    ),
    replace(
        _OPENAI,
        name="groq",
        source="console.groq.com/docs/structured-outputs, autumn 2026; keywords of single types"
        " and limits are undocumented, and minItems has been answered with a 400",
        keywords=frozenset(),
        formats=frozenset(),
        limits=Limits(),
    ),
    replace(
        _OPENAI,
        name="mistral",
        source="docs.mistral.ai names no subset: taken to be OpenAI's",
        is_confirmed=False,
    ),
    Dialect(
        name="deepseek",
        source="api-docs.deepseek.com, strict mode of function calling, July 2026; null and"
        " references are not mentioned",
        optional="null",
    ),
    Dialect(
        name="gemini",
        source="ai.google.dev/gemini-api/docs/structured-output (responseJsonSchema);"
        " googleapis/python-genai, types.py",
        keywords=_ITEMS | {"format", "minimum", "maximum"},
        formats=frozenset({"date-time", "date", "time"}),
        # Ours: counts multiply the states of the grammar, and maxItems 20 was enough for a 400.
        most_items=10,
        open_objects=True,
        tuples=True,
        enum_types=frozenset({"string", "integer", "number"}),
        root_object=False,
        # The server would unroll it too, to a depth that it keeps to itself.
        recursion="unrolled",
        order="property_ordering",
    ),
    Dialect(
        name="anthropic",
        source="platform.claude.com/docs, structured outputs; anthropics/anthropic-sdk-python",
        keywords=_TEXTS | {"minItems"},
        formats=_FORMATS | {"uri"},
        texts_combine=True,
        most_items=1,
        order="required_first",
        limits=Limits(optional=24, unions=16),
    ),
    _LLAMA_CPP,
    replace(_LLAMA_CPP, name="ollama"),
    replace(_LLAMA_CPP, name="lm_studio"),
    Dialect(
        name="vllm",
        source="vLLM 0.26 to 0.30, has_xgrammar_unsupported_json_features; xgrammar 0.2.9",
        keywords=_TEXTS | _BOUNDS | _LENGTHS | _ITEMS | {"minProperties", "maxProperties"},
        formats=_FORMATS
        | {"uri", "uri-reference", "uri-template", "json-pointer", "relative-json-pointer"},
        patterns="anchored",
        open_objects=True,
        tuples=True,
        any_value="empty",
        type_lists=True,
        enum_types=_SCALARS | {"array", "object"},
        root_object=False,
        recursion="kept",
    ),
    Dialect(
        name="prompt",
        source="no server reads it: the model is shown the schema",
        enforces=False,
        root_object=False,
    ),
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType({dialect.name: dialect for dialect in _ALL})
