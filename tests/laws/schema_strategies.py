"""Random JSON Schemas and values of a world so small that they often meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.sampled_from([0.5, 1.5])
    | st.sampled_from(["", "a", "b", "ab", "ba"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=5,
)

# Equal to values, and to Python to other ones; the engine writes them as integers.
respelled = st.sampled_from([1.0, [1.0], {"a": 1.0}, [True], {"a": True}])

counts = st.integers(0, 3)
names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)


def _keywords(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    by_name = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    some = st.lists(inner, min_size=1, max_size=3)
    return {
        "type": st.sampled_from(TYPES)
        | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "enum": st.lists(values | respelled, min_size=1, max_size=3),
        "const": values | respelled,
        "minimum": st.integers(-1, 3),
        "exclusiveMaximum": st.sampled_from([0, 1.5, 2]),
        "minLength": counts,
        "maxLength": counts,
        "minItems": counts,
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "items": inner,
        "prefixItems": some,
        "contains": inner,
        "minContains": counts,
        "unevaluatedItems": inner,
        "properties": by_name,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
        "additionalProperties": inner,
        "unevaluatedProperties": inner,
        "propertyNames": st.sampled_from(
            [{"enum": ["a", "b"]}, {"maxLength": 0}, {"pattern": "^[ab]"}, {"const": "c"}, False]
        ),
        "required": names,
        "minProperties": counts,
        "maxProperties": counts,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
        "dependentSchemas": by_name,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(
        st.sampled_from(sorted(_keywords(inner).items(), key=lambda item: item[0])).flatmap(
            lambda item: st.tuples(st.just(item[0]), item[1])
        ),
        min_size=1,
        max_size=4,
    ).map(dict)


schemas = st.recursive(st.booleans() | st.just({}), _objects, max_leaves=6)
