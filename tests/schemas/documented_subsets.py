"""What each dialect documents, as strategies: schemas that a caller may expect to be planned.

Written from the vendors' pages and not from the package, so that the two can disagree.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c")
STRINGS = {
    "formats": ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "uuid"),
    "patterns": ("^[a-z]+$", "^(a|b){1,3}$", "[0-9]"),
}
_DEFS = {
    "word": {"enum": ["x", "y"]},
    "inner": {
        "type": "object",
        "properties": {"p": {"type": "string"}, "q": {"$ref": "#/$defs/word"}},
        "required": ["p", "q"],
        "additionalProperties": False,
    },
    "deep/er ~": {"anyOf": [{"$ref": "#/$defs/inner"}, {"type": "integer"}]},
}
_REFERENCES = [
    {"$ref": "#/$defs/word"},
    {"$ref": "#/$defs/inner"},
    {"$ref": "#/$defs/deep~1er%20~0"},
]


def _ranged(name: str, *keywords: str) -> st.SearchStrategy[dict[str, Any]]:
    bounds = {
        keyword: st.sampled_from([0, 1] if keyword.endswith("inimum") else [2.5, 3])
        for keyword in keywords
    }
    return st.fixed_dictionaries({"type": st.just(name)}, optional=bounds)


def _counted(inner: st.SearchStrategy[Any], *counts: str, most: int = 3) -> st.SearchStrategy[Any]:
    ranges = {"minItems": st.integers(0, 1), "maxItems": st.integers(1, most)}
    optional = {name: ranges[name] for name in counts}
    return st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional=optional)


def _objects(
    inner: st.SearchStrategy[Any], *, optional: bool, rest: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda properties, left_out, rest: {
            "type": "object",
            "properties": properties,
            "required": [n for n in properties if not (optional and n in left_out)],
            "additionalProperties": rest,
        },
        st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3),
        st.sets(st.sampled_from(NAMES)),
        rest,
    )


def _unions(inner: st.SearchStrategy[Any], *keywords: str) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda keyword, members: {keyword: members},
        st.sampled_from(keywords),
        st.lists(inner, min_size=1, max_size=3),
    )


def _documents(
    leaves: st.SearchStrategy[Any],
    composites: list[Any],
    *,
    optional: bool = False,
    rest: st.SearchStrategy[Any] | None = None,
) -> st.SearchStrategy[dict[str, Any]]:
    closed = st.just(False)

    def extended(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        further = closed if rest is None else closed | inner
        return st.one_of(
            _objects(inner, optional=optional, rest=further), *(make(inner) for make in composites)
        )

    inner = st.recursive(leaves, extended, max_leaves=5)
    return _objects(inner, optional=optional, rest=closed).map(lambda s: s | {"$defs": _DEFS})


_plain = st.sampled_from(
    [
        *({"type": name} for name in ("string", "integer", "number", "boolean")),
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "description": "In a word."},
    ]
)
_null = st.just({"type": "null"})
_references = st.sampled_from(_REFERENCES)
_formats = st.sampled_from([{"type": "string", "format": name} for name in STRINGS["formats"]])
_patterns = st.sampled_from([{"type": "string", "pattern": p} for p in STRINGS["patterns"]])
_consts = st.sampled_from([{"const": "x"}, {"const": 1}, {"enum": [1, "1", 2.5, True, None]}])
_nullable = st.sampled_from([{"type": ["string", "null"]}, {"type": ["integer", "null"]}])
_exclusive = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_whole = _ranged("integer", *_exclusive)
_lengths = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={"minLength": st.integers(0, 3), "maxLength": st.integers(3, 5)},
)


def _any_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _unions(inner, "anyOf")


def _either_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _unions(inner, "anyOf", "oneOf")


def _tuples(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, min_size=1, max_size=3).map(
        lambda first: {
            "type": "array",
            "prefixItems": first,
            "minItems": len(first),
            "maxItems": len(first),
        }
    )


_openai = _documents(
    st.one_of(
        *(_plain, _null, _references, _formats, _patterns, _consts, _nullable, _whole),
        _ranged("number", *_exclusive),
        st.just({"type": "integer", "multipleOf": 2}),
    ),
    [_any_of, lambda inner: _counted(inner, "minItems", "maxItems")],
)
_bare = st.one_of(_plain, _null, _references, _consts, _nullable)

SUBSETS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "openai": _openai,
    "mistral": _openai,
    "azure": _documents(_bare, [_any_of, _counted]),
    "groq": _documents(_bare, [_any_of, _counted]),
    "deepseek": _documents(_plain, [_any_of, _counted]),
    "anthropic": _documents(
        st.one_of(
            *(_plain, _null, _references, _formats, _patterns, _consts),
            st.just({"allOf": [{"type": "string"}, {"enum": ["a", "b"]}], "default": "a"}),
        ),
        [_any_of, lambda inner: _counted(inner, "minItems", most=1)],
        optional=True,
    ),
    "gemini": _documents(
        st.one_of(
            *(_plain, _null, _references),
            st.sampled_from([{"enum": [1, 2.5]}, {"type": "string", "format": "date-time"}]),
            _ranged("integer", "minimum", "maximum"),
            _ranged("number", "minimum", "maximum"),
        ),
        [_either_of, lambda inner: _counted(inner, "minItems", "maxItems"), _tuples],
        optional=True,
        rest=st.nothing(),
    ),
    "llama_cpp": _documents(
        st.one_of(
            *(_plain, _null, _references, _consts, _nullable, _whole, _lengths),
            st.sampled_from([{"type": "string", "format": f} for f in ("date", "uuid")]),
            st.just({"type": "string", "pattern": "^(a|b){1,3}$"}),
        ),
        [_either_of, lambda inner: _counted(inner, "minItems", "maxItems")],
        optional=True,
        rest=st.nothing(),
    ),
    "vllm": _documents(
        st.one_of(
            *(_plain, _null, _references, _formats, _consts, _nullable, _whole, _lengths),
            _ranged("number", *_exclusive),
            st.just({"type": "string", "pattern": "^(a|b){1,3}$"}),
            st.just({}),
        ),
        [_either_of, lambda inner: _counted(inner, "minItems", "maxItems"), _tuples],
        optional=True,
        rest=st.nothing(),
    ),
}
