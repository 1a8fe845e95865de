"""What schema plans make of public schemas: planned, refused, lost; and whether two laws hold.

    python -m bench.schemas_plans ../shared/data/maskbench ../shared/data/json-schema-test-suite

Law 1: what is valid for the wire schema is, reversed, valid for the original without the keywords
that are listed as unchecked. Law 2: what is valid for the original can be said on the wire and
comes back as it was, unless a listed narrowing forbids it. Both are tried on every instance of the
suites, on random values of each wire schema, and on values with nulls put in and taken out.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing.exceptions import Unresolvable
from rich.console import Console
from rich.progress import track

from bench.common import finish, parser, read_rows, show
from weighbridge.errors import SchemaRefused, TaskInvalid
from weighbridge.schemas.dialects import DIALECTS
from weighbridge.schemas.plan import SchemaPlan, plan
from weighbridge.schemas.references import schema_at

SUITE_FILES = ("draft2020-12", "draft2020-12.optional-format", "draft7", "draft7.optional-format")
NUM_RANDOM = 6  # values of each wire schema
SEED = 20261130
_TEXTS = ("", "a", "b", "ab", "2026-11-30", "a@example.com", "x" * 40)
_SHAPES = {
    "object": {"properties", "required", "additionalProperties", "patternProperties"},
    "array": {"items", "prefixItems"},
}
_NUMBERS = (0, 1, -1, 2, 3, 10, 0.5, 1.0, 1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A schema and its instances, valid and not."""

    name: str
    schema: dict[str, Any]
    instances: list[Any]


@dataclass(slots=True)
class Tally:
    """The counts of one dialect."""

    planned: int = 0
    refused_by: Counter[str] = field(default_factory=Counter)
    unchecked: Counter[str] = field(default_factory=Counter)
    narrowed: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    instances: int = 0
    excused: int = 0
    broken: list[str] = field(default_factory=list)


class Laws:
    """The two laws for one plan, with the schemas that they need made once."""

    def __init__(self, planned: SchemaPlan) -> None:
        self._plan = planned
        self.wire = Draft202012Validator(planned.wire)
        self._original = Draft202012Validator(planned.original)
        self._relaxed = Draft202012Validator(_relaxed(planned))
        self._narrowed = Draft202012Validator(_narrowed(planned))
        self._is_cut = any(str(loss).startswith("$ref") for loss in planned.losses)

    def holds_for_answer(self, value: Any) -> bool | None:
        """Law 1; None if the value is no answer, because the wire does not permit it."""
        if not self.wire.is_valid(value):
            return None
        return self._relaxed.is_valid(self._plan.reverse(value))

    def holds_for_instance(self, value: Any) -> bool | None:
        """Law 2; None if the original does not permit the value, or a narrowing forbids it."""
        if not self._original.is_valid(value):
            return None
        said = self._plan.forward(value)
        if self.wire.is_valid(said) and _text(self._plan.reverse(said)) == _text(value):
            return True
        return None if self._is_cut or not self._narrowed.is_valid(value) else False


def cases(maskbench: Path, suite: Path) -> Iterator[Case]:
    """The schemas of both folders that are valid by draft 2020-12 and refer to themselves alone."""
    rows = [(row["name"], row) for row in read_rows(maskbench / "sample.jsonl")]
    for name in SUITE_FILES:
        rows += [(f"{name}: {r['description']}", r) for r in read_rows(suite / f"{name}.jsonl")]
    for name, row in rows:
        schema, instances = row["schema"], [test["data"] for test in row["tests"]]
        if not isinstance(schema, dict):
            continue
        try:
            Draft202012Validator.check_schema(schema)
            for value in instances:
                Draft202012Validator(schema).is_valid(value)
        except (SchemaError, Unresolvable, RecursionError):
            continue
        yield Case(name=name, schema=schema, instances=instances)
        # Few schemas of the test suite are objects; as a property of one they all are.
        if name.startswith("draft") and "$ref" not in json.dumps(schema):
            for required in ([], ["it"]):
                whole = {"type": "object", "properties": {"it": schema}, "required": required}
                inside = [{"it": value} for value in instances]
                yield Case(name=f"{name}, inside", schema=whole, instances=[*inside, {}])


def measure(all_cases: Iterable[Case], dialect: str) -> Tally:
    """Plan every case and try both laws."""
    tally = Tally()
    rng = random.Random(SEED)  # noqa: S311 - values to try, no secrets
    for case in all_cases:
        try:
            planned = plan(case.schema, dialect)
        except SchemaRefused as refusal:
            tally.refused_by[refusal.keyword] += 1
            continue
        except TaskInvalid:  # an enum that is no JSON
            tally.refused_by["enum"] += 1
            continue
        tally.planned += 1
        for loss in set(planned.losses):
            (tally.unchecked if loss.kind == "unchecked" else tally.narrowed)[loss.keyword] += 1
        if planned.wire == planned.original:
            continue  # both laws hold by themselves
        laws = Laws(planned)
        made = [sample(planned.wire, planned.wire, rng) for _ in range(NUM_RANDOM)]
        said = [planned.forward(value) for value in case.instances]
        answers = [*case.instances, *said, *made]
        for value in [*answers, *(_with_nulls(value, rng) for value in answers)]:
            _count(tally, "answers", laws.holds_for_answer(value), f"law 1, {case.name}", value)
        back = [planned.reverse(value) for value in made]
        for value in [*case.instances, *made, *back, *(_thinned(value, rng) for value in back)]:
            _count(tally, "instances", laws.holds_for_instance(value), f"law 2, {case.name}", value)
    return tally


def sample(part: Any, wire: Mapping[str, Any], rng: random.Random, levels: int = 6) -> Any:
    """A random value that is likely to be valid for a part of a wire schema."""
    if part is True or not part or levels < 0:
        return rng.choice([None, 1, "a", [], {}])
    if "$ref" in part:
        return sample(schema_at(wire, part["$ref"][1:]), wire, rng, levels - 1)
    if "anyOf" in part:
        return sample(rng.choice(part["anyOf"]), wire, rng, levels - 1)
    if "enum" in part:
        return rng.choice(part["enum"])
    types = part.get("type", "null")
    match rng.choice(types) if isinstance(types, list) else types:
        case "boolean":
            return rng.random() < 0.5
        case "integer" | "number":
            return rng.choice([*_NUMBERS, part.get("minimum", 1), part.get("maximum", 1)])
        case "string":
            return rng.choice(_TEXTS)
        case "array":
            first = [sample(item, wire, rng, levels - 1) for item in part.get("prefixItems", ())]
            num_rest = max(part.get("minItems", 0) - len(first), rng.choice([0, 0, 1, 2]))
            rest = part.get("items", True)
            return first + [sample(rest, wire, rng, levels - 1) for _ in range(min(num_rest, 12))]
        case "object":
            value = {
                name: sample(inner, wire, rng, levels - 1)
                for name, inner in part.get("properties", {}).items()
                if name in part.get("required", ()) or rng.random() < 0.6
            }
            if part.get("additionalProperties") and rng.random() < 0.5:
                value["zz"] = sample(part["additionalProperties"], wire, rng, levels - 1)
            return value
        case _:
            return None


def _count(tally: Tally, kind: str, outcome: bool | None, name: str, value: Any) -> None:
    if outcome is None:
        tally.excused += kind == "instances"
        return
    setattr(tally, kind, getattr(tally, kind) + 1)
    if not outcome and not any(line.startswith(f"{name}:") for line in tally.broken):
        tally.broken.append(f"{name}: {_text(value)[:200]}")


def _relaxed(planned: SchemaPlan) -> dict[str, Any]:
    """The original without what is listed as unchecked; oneOf becomes anyOf."""
    relaxed: dict[str, Any] = json.loads(json.dumps(planned.original))
    lost = [loss for loss in planned.losses if loss.kind == "unchecked"]
    # The innermost first: then the pointers of the others still lead somewhere.
    for loss in sorted(lost, key=lambda loss: -len(loss.pointer)):
        part: Any = schema_at(relaxed, loss.pointer)
        value = part.pop(loss.keyword)  # a loss that was never there fails here
        if loss.keyword == "oneOf":
            part["anyOf"] = value
    return relaxed


def _narrowed(planned: SchemaPlan) -> dict[str, Any]:
    """The original with every narrowing written into it, so that what is left can be said."""
    narrowed: dict[str, Any] = json.loads(json.dumps(planned.original))
    for loss in planned.losses:
        part: Any = schema_at(narrowed, loss.pointer)
        if loss.kind == "unchecked" or not isinstance(part, dict):
            continue
        match loss.keyword:
            case "additionalProperties":
                part["unevaluatedProperties"] = False
            case "items":
                # Items that `contains` has looked at count as evaluated.
                first = [len(one.get("prefixItems", ())) for one in _spread(narrowed, part)]
                part["maxItems"] = min(max(first), part.get("maxItems", max(first)))
            case "type":
                part["type"] = _implied(narrowed, part)
            case "required":
                holder, _, name = loss.pointer.rpartition("/properties/")
                owner: Any = schema_at(narrowed, holder)
                name = name.replace("~1", "/").replace("~0", "~")
                owner["required"] = [*owner.get("required", ()), name]
    return narrowed


def _implied(root: dict[str, Any], part: Any) -> list[str]:
    """The types whose keywords a schema holds."""
    said = [keyword for one in _spread(root, part) for keyword in one]
    kinds = [kind for kind, keywords in _SHAPES.items() if keywords & {*said}]
    return kinds or list(_SHAPES)


def _spread(root: dict[str, Any], part: Any) -> list[dict[str, Any]]:
    """A schema, and all that it takes keywords from."""
    seen: list[dict[str, Any]] = []
    pending = [part]
    while pending:
        one = pending.pop()
        if not isinstance(one, dict) or any(one is other for other in seen):
            continue
        seen.append(one)
        if any(member is False for member in one.get("allOf", ())):
            continue  # nothing is valid for it, so it is left off the wire
        pending += [schema_at(root, unquote(one["$ref"])[1:])] if "$ref" in one else []
        for keyword in ("allOf", "anyOf", "oneOf"):
            pending += one.get(keyword, [])
    return seen


def _with_nulls(value: Any, rng: random.Random) -> Any:
    """The value with some members of its objects replaced by null."""
    if isinstance(value, list):
        return [_with_nulls(item, rng) for item in value]
    if isinstance(value, dict):
        return {
            name: None if rng.random() < 0.3 else _with_nulls(item, rng)
            for name, item in value.items()
        }
    return value


def _thinned(value: Any, rng: random.Random) -> Any:
    """The value with some members of its objects left out."""
    if isinstance(value, list):
        return [_thinned(item, rng) for item in value]
    if isinstance(value, dict):
        kept = [name for name in value if rng.random() < 0.7]
        return {name: _thinned(value[name], rng) for name in kept}
    return value


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def main() -> None:
    """Measure, print."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("maskbench", type=Path, help="folder of the MaskBench sample")
    arguments.add_argument("suite", type=Path, help="folder of the JSON-Schema-Test-Suite")
    options = arguments.parse_args()
    found = list(cases(options.maskbench, options.suite))
    console = Console(stderr=True)
    tallies: dict[str, Tally] = {}
    for name in distinct_dialects():
        tallies[name] = measure(track(found, name, console=console, transient=True), name)
    _print(tallies, len(found))
    finish({name: summary(tally) for name, tally in tallies.items()}, as_json=options.json)


def distinct_dialects() -> list[str]:
    """The dialects by name, without those that differ from another one in name alone."""
    bare = {
        name: replace(dialect, name="", source="", is_confirmed=True)
        for name, dialect in DIALECTS.items()
    }
    return [name for name in bare if name == next(n for n in bare if bare[n] == bare[name])]


def summary(tally: Tally) -> dict[str, Any]:
    """The counts of one dialect as they are printed as JSON."""
    return {
        "schemas": tally.planned + tally.refused_by.total(),
        "planned": tally.planned,
        "refused_by": dict(tally.refused_by.most_common()),
        "unchecked": dict(tally.unchecked.most_common()),
        "narrowed": dict(tally.narrowed.most_common()),
        "answers": tally.answers,
        "instances": tally.instances,
        "excused": tally.excused,
        "violations": tally.broken,
    }


def _print(tallies: dict[str, Tally], num_schemas: int) -> None:
    show(
        f"plans of {num_schemas} schemas; law 1 on answers, law 2 on instances",
        ("dialect", "planned", "refused", "answers", "instances", "violations"),
        [
            (
                name,
                f"{t.planned} ({t.planned / num_schemas:.1%})",
                str(t.refused_by.total()),
                str(t.answers),
                str(t.instances),
                str(len(t.broken)),
            )
            for name, t in tallies.items()
        ],
    )
    show(
        "by keyword, the most frequent: schemas refused; losses unchecked; losses narrowed",
        ("dialect", "refused", "unchecked", "narrowed"),
        [
            (name, *(_most(c) for c in (t.refused_by, t.unchecked, t.narrowed)))
            for name, t in tallies.items()
        ],
    )
    if broken := [(name, line) for name, t in tallies.items() for line in t.broken]:
        show("violations", ("dialect", "law, schema and value"), broken[:40])


def _most(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common(5))


if __name__ == "__main__":
    main()
