"""Shapes that people write with pydantic, each with values: instances that its model accepts."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field


class Inner(BaseModel):
    a: int
    b: str = "x"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Optional_(BaseModel):  # noqa: N801 - the name of the shape
    x: str | None = None


class Default(BaseModel):
    x: int = 5


class Nested(BaseModel):
    inner: Inner
    described: Inner = Field(description="Another one.", default=Inner(a=1))


class Lists(BaseModel):
    texts: list[str]
    inners: list[Inner] = []


class Choices(BaseModel):
    literal: Literal["a", "b"]
    mixed: Literal["a", 1, None, True] = "a"
    colour: Colour = Colour.RED
    level: Level = Level.LOW


class Union(BaseModel):
    x: int | str
    model: Inner | Dog | None = None


class Discriminated(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Chain(BaseModel):
    value: int
    next: Chain | None


class StrictTree(BaseModel):
    children: list[StrictTree]


class Numbers(BaseModel):
    whole: Annotated[int, Field(gt=0, le=10)]
    part: Annotated[float, Field(ge=0, lt=1)] = 0.5
    step: Annotated[int, Field(multiple_of=5)] = 5


class Texts(BaseModel):
    short: Annotated[str, Field(min_length=1, max_length=3)]
    code: Annotated[str, Field(pattern="^[A-Z]{2}$")] = "AB"


class Counted(BaseModel):
    few: Annotated[list[int], Field(min_length=1, max_length=2)]
    many: Annotated[list[int], Field(max_length=50)] = []
    unique: set[int] = set()


class Dates(BaseModel):
    day: datetime.date
    at: datetime.datetime | None = None
    time: datetime.time | None = None
    span: datetime.timedelta | None = None


class Mapped(BaseModel):
    counts: dict[str, int]


class Pair(BaseModel):
    pair: tuple[int, str]


class Twins(BaseModel):
    twins: tuple[int, int]


class Aliased(BaseModel):
    from_: str = Field(alias="from")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Money(BaseModel):
    amount: decimal.Decimal


class Identified(BaseModel):
    id: uuid.UUID


class Anything(BaseModel):
    x: Any


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: int | None = None


# By name: the model, and values that are valid for its schema.
SHAPES: dict[str, tuple[type[BaseModel], list[Any]]] = {
    "optional": (Optional_, [{}, {"x": None}, {"x": "a"}]),
    "default": (Default, [{}, {"x": 1}]),
    "nested": (Nested, [{"inner": {"a": 1}}, {"inner": {"a": 1, "b": "y"}, "described": {"a": 2}}]),
    "lists": (Lists, [{"texts": []}, {"texts": ["a"], "inners": [{"a": 1}, {"a": 2, "b": ""}]}]),
    "choices": (
        Choices,
        [
            {"literal": "b"},
            {"literal": "a", "mixed": None, "colour": "blue", "level": 2},
            {"literal": "a", "mixed": 1},
            {"literal": "a", "mixed": True},
        ],
    ),
    "union": (
        Union,
        [{"x": 1}, {"x": "1", "model": {"a": 1}}, {"x": 1, "model": {"kind": "dog", "name": "n"}}],
    ),
    "discriminated": (
        Discriminated,
        [{"pet": {"kind": "cat"}}, {"pet": {"kind": "dog", "name": "n"}}],
    ),
    "tree": (Tree, [{"name": "a"}, {"name": "a", "children": [{"name": "b", "children": []}]}]),
    "chain": (
        Chain,
        [{"value": 1, "next": None}, {"value": 1, "next": {"value": 2, "next": None}}],
    ),
    "strict tree": (StrictTree, [{"children": []}, {"children": [{"children": []}]}]),
    "numbers": (Numbers, [{"whole": 1}, {"whole": 10, "part": 0, "step": 10}]),
    "texts": (Texts, [{"short": "abc"}, {"short": "a", "code": "XY"}]),
    "counted": (Counted, [{"few": [1]}, {"few": [1, 2], "many": [1, 2, 3], "unique": [1]}]),
    "dates": (Dates, [{"day": "2026-11-30"}, {"day": "2026-11-30", "at": None, "span": "P1D"}]),
    "mapped": (Mapped, [{"counts": {}}, {"counts": {"a": 1, "b c": 2}}]),
    "pair": (Pair, [{"pair": [1, "a"]}]),
    "twins": (Twins, [{"twins": [1, 2]}]),
    "aliased": (Aliased, [{"from": "a"}]),
    "open": (Open, [{"a": 1}, {"a": 1, "b": [None]}]),
    "closed": (Closed, [{"a": 1}]),
    "money": (Money, [{"amount": 1.5}, {"amount": "1.50"}]),
    "identified": (Identified, [{"id": "12345678-1234-4234-8234-123456789abc"}]),
    "anything": (Anything, [{"x": None}, {"x": [{"y": 1}]}]),
    "generic": (Page[Inner], [{"items": []}, {"items": [{"a": 1}], "next": 2}]),
}
