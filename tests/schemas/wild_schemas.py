"""Random schemas as nobody documents them: what holds at one place is spread over many keywords."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_NAMES = st.sampled_from("abc")

values = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.0, -2.5, "", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=5,
)

_leaves = st.sampled_from(
    [
        *(True, False, {}),
        *({"type": name} for name in ("string", "integer", "null")),
        *({"type": ["string", "null"]}, {"enum": ["a", 1, None, True]}, {"const": 1.0}),
        {"type": "string", "minLength": 1, "pattern": "a"},
        {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 1},
        {"type": "array", "contains": {"type": "string"}, "maxItems": 2.0},
        {"description": "Anything.", "$ref": "#/$defs/p%25q"},
    ]
)
_beside = st.sampled_from(
    [
        *({}, {}, {"type": "object"}, {"required": ["a"]}, {"minLength": 1}, {"not": {"const": 1}}),
        {"properties": {"a": {"type": "string"}}, "minProperties": 1},
        {"anyOf": [{"type": "object"}, {"type": "string"}]},
        {"dependentRequired": {"a": ["b"]}, "propertyNames": {"maxLength": 1}},
    ]
)
_rest = st.sampled_from(
    [
        *({}, {"additionalProperties": False}, {"additionalProperties": {"type": "null"}}),
        {"patternProperties": {"^a": {"type": "integer"}}},
    ]
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda properties, required, rest: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            **rest,
        },
        st.dictionaries(_NAMES, inner, min_size=1, max_size=3),
        st.sets(_NAMES),
        _rest,
    )


def _composites(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _objects(inner),
        inner.map(lambda items: {"type": "array", "items": items}),
        several.map(lambda first: {"type": "array", "prefixItems": first}),
        st.builds(
            lambda keyword, members, beside: {keyword: members, **beside},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            several,
            _beside,
        ),
    )


schemas = _objects(st.recursive(_leaves, _composites, max_leaves=8)).map(
    lambda schema: schema | {"$defs": {"p%q": {"type": ["string", "array"], "items": True}}}
)
