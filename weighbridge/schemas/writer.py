"""The writer: a JSON Schema rewritten for one dialect, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

from weighbridge.decision import Json
from weighbridge.errors import SchemaRefused
from weighbridge.schemas import wires
from weighbridge.schemas.dialects import Dialect
from weighbridge.schemas.exclusion import exclude_each_other
from weighbridge.schemas.flat import Flat, Nothing, Part, Place, Places, key
from weighbridge.schemas.limits import Budget
from weighbridge.schemas.losses import Loss, in_words
from weighbridge.schemas.merging import same, type_list
from weighbridge.schemas.recursion import Above, Recursion
from weighbridge.schemas.references import foreign_references, pointer
from weighbridge.schemas.restrictions import Restrictions, check_known
from weighbridge.schemas.values import spell
from weighbridge.schemas.wires import Wire


class Written(NamedTuple):
    """A schema for the wire, what it lost, and whether null stands for absence anywhere in it."""

    wire: Wire
    losses: tuple[Loss, ...]
    null_is_absent: bool


def write(schema: Mapping[str, Json], dialect: Dialect) -> Written:
    """The schema for the wire.

    Raises:
        SchemaRefused: the dialect cannot enforce the schema, or it is too large.
    """
    for here, keyword in foreign_references(schema):
        problem = "only pointers into the schema itself are followed"
        raise SchemaRefused(dialect.name, here, keyword, problem)
    writer = _Writer(schema, dialect)
    wire = writer.whole()
    return Written(wire, tuple(writer.losses), writer.null_is_absent)


class _Writer:
    """Writes one schema. Every place is written anew, but for those that contain themselves."""

    def __init__(self, root: Mapping[str, Json], dialect: Dialect) -> None:
        self.losses: dict[Loss, None] = {}  # a set that keeps its order
        self.null_is_absent = False
        self._root, self._dialect = root, dialect
        self._places = Places(root, dialect.name)
        self._budget = Budget(dialect)
        self._recursion = Recursion(dialect, self._budget)

    def whole(self) -> Wire:
        """The wire form of the document."""
        wire = self._write(self._places.whole(), (), depth=1)
        if self._dialect.root_object and (wire.get("type") != "object" or "anyOf" in wire):
            keyword = next((name for name in ("anyOf", "oneOf") if name in self._root), "type")
            self._refuse("", keyword, "the whole answer must be an object, and no union")
        self.losses |= self._recursion.cuts
        definitions = self._recursion.definitions
        return {**wire, "$defs": definitions} if definitions else wire

    def _write(self, place: Place, above: Above, *, depth: int) -> Wire:
        """The wire form of one place.

        Args:
            place: what holds there.
            above: the places that hold it.
            depth: how many objects and arrays it would be in, itself included.

        Raises:
            Nothing: no value is permitted, or none that the dialect can write.
        """
        here = place[-1].where
        self._budget.part(here, len(above))
        parts = self._places.expand(place)
        core = key(parts)
        said = _description(parts)
        if core and (reference := self._recursion.met(core, here, above, depth)):
            return wires.described(reference, said, [])
        wire, words = self._body(place, parts, (*above, (core, depth)), depth)
        if not above or not self._recursion.is_referred_to(core):
            return wires.described(wire, said, words)
        # What is said of this place alone is not said of all that refer to the definition.
        own = _description(tuple(part for part in parts if part.restricts))
        reference = self._recursion.define(core, wires.described(wire, own, words))
        return wires.described(reference, "" if said == own else said, [])

    def _body(self, place: Place, parts: Place, above: Above, depth: int) -> tuple[Wire, list[str]]:
        """The wire form without the original's description, and the words to add to that."""
        if union := self._places.union(parts):
            words = []
            if union.keyword == "oneOf" and not exclude_each_other(self._places, union.members):
                self._lose("oneOf", [union.where])
                words.append(in_words("oneOf", None))
            tries = [partial(self._write, m, above, depth=depth) for m in union.members]
            return self._union(tries, union.where, union.keyword), words
        flat = self._places.flatten(parts)
        check_known(flat, self._dialect)
        if "const" in flat.said or "enum" in flat.said:
            return self._enum(flat, parts), []
        types = self._types(flat, place)
        if not types:
            return {}, []
        rules = Restrictions(flat, types, self._dialect)
        tries = [
            partial(self._typed, group, flat, place, rules, above, depth)
            for group in wires.groups(rules.possible(), self._dialect)
        ]
        wire = self._union(tries, place[-1].where, "type")
        self.losses |= dict.fromkeys(rules.losses)
        return wire, rules.words

    def _typed(
        self,
        types: list[str],
        flat: Flat,
        place: Place,
        rules: Restrictions,
        above: Above,
        depth: int,
    ) -> Wire:
        """The values of some of the types: several scalars, or objects, or arrays."""
        match types:
            case ["object"]:
                wire = self._object(flat, place, above, depth)
            case ["array"]:
                wire = self._array(flat, place, rules, above, depth)
            case _:
                wire = {"type": wires.one_or_all(types)}
        return {**wire, **rules.sent_to(types)}

    def _types(self, flat: Flat, place: Place) -> list[str]:
        """The types that are written; none where anything goes and nothing need be said."""
        if "type" in flat.said:
            return type_list(flat.said["type"].value)
        # Whoever names properties or items means an object or an array.
        objects = flat.properties or flat.required or flat.additional
        implied = ["object"] if objects or "patternProperties" in flat.said else []
        implied += ["array"] if flat.items or flat.first_items else []
        if implied:
            self._narrow("type", place[0].where)
            return implied
        if self._dialect.any_value == "no":
            self._refuse(place[-1].where, "type", "nothing says of what type the value is")
        is_free = not Restrictions(flat, wires.ALL_TYPES, self._dialect).is_any
        return [] if is_free and self._dialect.any_value == "empty" else wires.ALL_TYPES

    def _union(self, tries: Sequence[Callable[[], Wire]], where: str, keyword: str) -> Wire:
        """One schema for several, told apart by their text; for those that permit anything."""
        members: list[Wire] = []
        dead: Nothing | None = None
        for attempt in tries:
            try:
                member = attempt()
            except Nothing as nothing:
                dead = nothing
                continue
            inner = member["anyOf"] if member.keys() == {"anyOf"} else [member]
            assert isinstance(inner, list)
            members += [wire for wire in inner if isinstance(wire, dict)]
        if dead and not members:
            raise dead
        different = [*{spell(member): member for member in members}.values()]
        if len(different) == 1:
            return different[0]
        self._budget.union(where, keyword)
        return {"anyOf": [*different]}

    def _enum(self, flat: Flat, parts: Place) -> Wire:
        keyword = "const" if "const" in flat.said else "enum"
        said, where = flat.said[keyword]
        values = [said] if keyword == "const" else said
        if keyword == "const" and "enum" in flat.said:
            others = {same(value) for value in flat.said["enum"].value}
            values = [value for value in values if same(value) in others]
        # All values are at hand: what else restricts them is obeyed here, and not sent.
        rest = tuple(part._replace(without=part.without | {"enum", "const"}) for part in parts)
        values = self._places.permitted(rest, values)
        values = [*{spell(value): value for value in values}.values()]
        if not values:
            raise Nothing(self._dialect.name, where, keyword, "no value is left")
        if "format" in flat.said:
            self._lose("format", flat.sayers["format"])
        self._budget.enum(values, where, keyword)
        members, lost = wires.enum(values, self._dialect)
        if members is None:
            self._refuse(where, keyword, "objects and arrays cannot be listed")
        if lost:
            self._lose(keyword, flat.sayers[keyword])
        return self._union([partial(dict, member) for member in members], where, keyword)

    def _object(self, flat: Flat, place: Place, above: Above, depth: int) -> Wire:
        here, holder = place[-1].where, place[0].where
        self._budget.container(depth, here, "properties")
        rest = self._rest(flat, here, holder)
        named = self._named(flat, rest)
        may_be_absent = named.keys() - flat.required if self._dialect.optional == "absent" else ()
        self._budget.properties(named, len(may_be_absent), here)
        written: dict[str, Json] = {}
        for name, inner in named.items():
            is_required = name in flat.required
            try:
                wire = self._write(inner, above, depth=depth + 1)
            except Nothing:
                # It can only be absent; but in an open object the name would mean another value.
                if is_required or rest:
                    raise
                if self._dialect.optional == "null":
                    written[name] = self._nullable({"type": "null"}, inner)
            else:
                may_be_null = not is_required and self._dialect.optional == "null"
                written[name] = self._nullable(wire, inner) if may_be_null else wire
        required = [name for name in written if name in flat.required]
        if self._dialect.optional == "null":
            required = [*written]
        elif self._dialect.order == "required_first":
            written = {name: written[name] for name in [*required, *written]}
        further = self._further(rest, above, depth)
        return wires.object_of(written, required, further, self._dialect)

    def _further(self, rest: Place, above: Above, depth: int) -> Json:
        """What properties without a name may be: nothing, anything, or this."""
        if not rest:
            return False
        try:
            if any(part.restricts for part in self._places.expand(rest)):
                return self._write(rest, above, depth=depth + 1)
        except Nothing:
            return False
        return wires.anything(self._dialect)

    def _named(self, flat: Flat, rest: Place) -> dict[str, Place]:
        """The properties that are named, be it only as required."""
        named = dict(flat.properties)
        for name, where in flat.required.items():
            if name not in named:
                if not rest:
                    problem = f"{name!r} is no named property"
                    raise Nothing(self._dialect.name, where, "required", problem)
                named[name] = rest
        return named

    def _nullable(self, wire: Wire, inner: Place) -> Wire:
        """The wire form with null for absence; a null that is a value is then one thing for two."""
        if self._places.permits(inner, None):
            self._narrow("required", inner[0].where)
        self.null_is_absent = True
        return wires.nullable(wire, self._dialect)

    def _rest(self, flat: Flat, here: str, holder: str) -> Place:
        """The place of properties without a name; empty where there may be none."""
        name = "additionalProperties"
        is_closed = any(part.schema is False for part in flat.additional or ())
        if "patternProperties" in flat.said:
            (patterns, where) = flat.said["patternProperties"]
            if (
                not self._dialect.open_objects
                or len(patterns) > 1
                or not (is_closed or flat.additional is None)
            ):
                self._refuse(where, "patternProperties", "names cannot be told by their form")
            self._lose("patternProperties", flat.sayers["patternProperties"])
            if flat.additional is None:
                self._narrow(name, holder)
            self._lose(
                name, [part.where.removesuffix("/" + name) for part in flat.additional or ()]
            )
            return tuple(
                Part(inner, where + pointer("patternProperties", pattern))
                for pattern, inner in patterns.items()
            )
        if is_closed:
            return ()
        if flat.additional is not None:
            if not self._dialect.open_objects:
                where = flat.additional[0].where.removesuffix("/" + name)
                self._refuse(where, name, "unnamed properties may be there")
            return flat.additional
        if not flat.properties:
            if not self._dialect.open_objects:
                problem = "closing an object without any would leave it empty"
                self._refuse(here, "properties", problem)
            return (Part(True, here),)
        # Nobody who names properties and stops there waits for others.
        self._narrow(name, holder)
        return ()

    def _array(
        self,
        flat: Flat,
        place: Place,
        rules: Restrictions,
        above: Above,
        depth: int,
    ) -> Wire:
        here = place[-1].where
        self._budget.container(depth, here, "items")
        if flat.first_items:
            return self._tuple(flat, place, rules, above, depth)
        if flat.items is None:
            if self._dialect.any_value == "no":
                self._refuse(here, "items", "nothing says what the array holds")
            return {"type": "array"}
        try:
            return {"type": "array", "items": self._write(flat.items, above, depth=depth + 1)}
        except Nothing:
            if rules.least_items:
                raise
            return self._empty(flat.items, rules)

    def _empty(self, items: Place, rules: Restrictions) -> Wire:
        """An array that can only be empty."""
        if self._dialect.sends_count("maxItems", 0):
            rules.take_over_counts(0, 0)
        else:
            self._lose("items", [part.where.removesuffix("/items") for part in items])
            rules.words.append(in_words("items", None))
        return {"type": "array", "items": {"type": "null"}}

    def _tuple(
        self,
        flat: Flat,
        place: Place,
        rules: Restrictions,
        above: Above,
        depth: int,
    ) -> Wire:
        most = rules.most_items
        longest = len(flat.first_items) if most is None else min(most, len(flat.first_items))
        is_open = most is None or most > len(flat.first_items)
        if is_open and flat.items is None:
            self._narrow("items", place[0].where)
        rest: Wire | None = None
        if is_open and flat.items and not any(part.schema is False for part in flat.items):
            rest = self._write(flat.items, above, depth=depth + 1)
        first: list[Wire] = []
        for item in flat.first_items[:longest]:
            try:
                first.append(self._write(item, above, depth=depth + 1))
            except Nothing:
                # No array reaches as far as this item.
                if rules.least_items > len(first):
                    raise
                longest, rest = len(first), None
                break
        if not first and self._dialect.sends_count("maxItems", 0):
            return self._empty((), rules)
        alike = {spell(wire) for wire in [*first, *([rest] if rest is not None else [])]}
        rules.take_over_counts(rules.least_items, most if rest else longest)
        if len(alike) == 1 and self._dialect.sends_count("maxItems", longest):
            return {"type": "array", "items": first[0]}
        if not self._dialect.tuples:
            where = flat.first_items[0][0].where.removesuffix("/prefixItems/0")
            self._refuse(where, "prefixItems", "items have no places of their own")
        wire: Wire = {"type": "array", "prefixItems": [*first]}
        return wire if rest is None else {**wire, "items": rest}

    def _lose(self, keyword: str, sayers: Sequence[str]) -> None:
        self.losses |= {Loss(where, keyword): None for where in sayers}

    def _narrow(self, keyword: str, where: str) -> None:
        self.losses[Loss(where, keyword, "narrowed")] = None

    def _refuse(self, where: str, keyword: str, problem: str) -> NoReturn:
        raise SchemaRefused(self._dialect.name, where, keyword, problem)


def _description(parts: Place) -> str:
    """What the first of them that says anything says."""
    found = (said for part in parts for name, said in part.said() if name == "description")
    return str(next(found, ""))
