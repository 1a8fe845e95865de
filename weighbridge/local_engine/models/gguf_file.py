"""The keys and tensors of a GGUF file, every count held against what the file can contain.

The file may be anybody's. The reader of the `gguf` package repeats a step as often as a number in
the file says, and keeps objects for each element of an array: a file of 60 bytes can fill memory.

Source: the GGUF specification (ggml, docs/gguf.md), versions 2 and 3, little-endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import EngineError, ModelCorrupt

if TYPE_CHECKING:
    import numpy
    from gguf import GGMLQuantizationType

_VERSIONS = (2, 3)
_ALIGNMENT = 32  # bytes, where the file names no other
_MAX_NAME_BYTES = 64  # of a tensor, in the specification
_MAX_DIMENSIONS = 4

# The kinds of values, by their numbers in the format, as `struct` and numpy call them.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9


class GgufTensor(NamedTuple):
    """A tensor as it is stored."""

    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]  # rows first
    rows: numpy.ndarray  # uint8 [rows, bytes of a row], mapped


class GgufFile(NamedTuple):
    """What a file says."""

    fields: dict[str, Any]  # numbers, texts, bools, and lists of one kind of these
    tensors: list[GgufTensor]


def open_gguf(path: Path) -> GgufFile:
    """Read the header; the tensors stay where they are.

    Raises:
        ModelCorrupt: no GGUF, cut short, or one whose parts do not fit into it.
        EngineError: a version, or a kind of tensor, that is not known.
    """
    import numpy

    try:
        data = numpy.memmap(path, mode="r")
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise ModelCorrupt(str(path), f"cannot be opened ({type(error).__name__})") from None
    header = _Header(path, data.data)
    if bytes(header.take(4)) != b"GGUF":
        raise ModelCorrupt(str(path), "not a GGUF file")
    version = header.number("I")
    if version not in _VERSIONS:
        raise EngineError(f"{path}: GGUF version {version} is not supported, only 2 and 3 are")
    num_tensors, num_fields = header.number("Q"), header.number("Q")
    fields = header.fields(num_fields)
    places = [header.tensor_place() for _ in range(num_tensors)]
    alignment = fields.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ModelCorrupt(str(path), "general.alignment is no positive whole number")
    start = math.ceil(header.at / alignment) * alignment
    return GgufFile(fields, list(_tensors(path, data[start:], places)))


class _Place(NamedTuple):
    """Where the file says a tensor is."""

    name: str
    shape: tuple[int, ...]
    kind_number: int
    offset: int


class _Header:
    """The bytes of a file, taken from the front; what is not there is damage."""

    def __init__(self, path: Path, data: memoryview) -> None:
        self._path, self._data, self.at = path, data, 0

    def take(self, num_bytes: int) -> memoryview:
        end = self.at + num_bytes
        if end > len(self._data):
            raise ModelCorrupt(
                str(self._path),
                f"ends after {len(self._data)} bytes; {num_bytes} more belong at {self.at}",
            )
        taken, self.at = self._data[self.at : end], end
        return taken

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def text(self) -> str:
        at, taken = self.at, self.take(self.number("Q"))
        try:
            return str(taken, "utf-8")
        except UnicodeDecodeError:
            raise ModelCorrupt(str(self._path), f"the text at {at} is no UTF-8") from None

    def fields(self, count: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for _ in range(count):
            key = self.text()
            if key in fields:
                raise ModelCorrupt(str(self._path), f"the key {key[:80]!r} stands there twice")
            fields[key] = self._value(self.number("I"))
        return fields

    def tensor_place(self) -> _Place:
        name, num_dimensions = self.text(), self.number("I")
        if len(name.encode()) > _MAX_NAME_BYTES or not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            problem = f"the tensor {name[:80]!r} has a name or a number of dimensions out of bounds"
            raise ModelCorrupt(str(self._path), problem)
        columns_first = [self.number("Q") for _ in range(num_dimensions)]
        return _Place(name, tuple(reversed(columns_first)), self.number("I"), self.number("Q"))

    def _value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _TEXT:
            return self.text()
        if kind == _ARRAY:
            return self._array(self.number("I"), self.number("Q"))
        raise ModelCorrupt(str(self._path), f"there is no kind of value {kind}, as at {self.at}")

    def _array(self, kind: int, count: int) -> list[Any]:
        if kind == _TEXT:
            return [self.text() for _ in range(count)]
        if kind not in _SCALARS:
            raise ModelCorrupt(str(self._path), f"no array holds the kind {kind}, as at {self.at}")
        code = _SCALARS[kind]
        taken = self.take(count * struct.calcsize(f"<{code}"))
        return list(struct.unpack(f"<{count}{code}", taken))


def _tensors(path: Path, data: numpy.ndarray, places: list[_Place]) -> Iterator[GgufTensor]:
    """The tensors of a file, given what follows its header."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    seen: set[str] = set()
    for place in places:
        name = place.name
        if name in seen:
            raise ModelCorrupt(str(path), f"the tensor {name!r} stands there twice")
        seen.add(name)
        try:
            kind = GGMLQuantizationType(place.kind_number)
        except ValueError:
            problem = f"{name!r} is of the unknown kind {place.kind_number}"
            raise EngineError(f"{path}: {problem}") from None
        *outer, columns = place.shape
        block_size, block_bytes = GGML_QUANT_SIZES[kind]
        row_bytes = columns // block_size * block_bytes
        end = place.offset + math.prod(outer) * row_bytes
        if 0 in place.shape or columns % block_size or end > len(data):
            problem = f"the tensor {name!r}, {place.shape} at {place.offset}, is not in the file"
            raise ModelCorrupt(str(path), problem)
        yield GgufTensor(name, kind, place.shape, data[place.offset : end].reshape(-1, row_bytes))
