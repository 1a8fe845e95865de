"""Artefact: a head as bytes that say which models they belong to. No pickle: nothing in it runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from weighbridge.errors import LearnedUnfit
from weighbridge.local_engine.learned.head import Head

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Fingerprints of the two models whose numbers a head reads."""

    encoder: str
    generator: str


def pack(head: Head, models: Models) -> bytes:
    """A head as one safetensors file."""
    from safetensors.torch import save

    tensors, numbers = {}, {}
    for field in fields(head):
        value = getattr(head, field.name)
        if isinstance(value, Tensor):
            tensors[field.name] = value.contiguous()
        else:
            numbers[field.name] = value
    about = {
        "format": FORMAT,
        "encoder": models.encoder,
        "generator": models.generator,
        "numbers": numbers,
    }
    return save(tensors, {"weighbridge": json.dumps(about)})


def unpack(data: bytes, models: Models) -> Head:
    """The head in an artefact.

    Raises:
        LearnedUnfit: it was learned with other models, or is no artefact that can be read.
    """
    about = _about(data)
    if about.get("format") != FORMAT:
        raise LearnedUnfit("another version of weighbridge wrote it, or it is damaged")
    for role in ("encoder", "generator"):
        if about.get(role) != getattr(models, role):
            raise LearnedUnfit(f"it was learned with another {role}")
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        values: dict[str, Any] = {**load(data), **about["numbers"]}
        return Head(**{**values, "keys": tuple(values["keys"])})
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError):
        raise LearnedUnfit("it is damaged") from None


def _about(data: bytes) -> dict[str, Any]:
    """What an artefact says of itself; nothing where it cannot be read."""
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        about = json.loads(header["__metadata__"]["weighbridge"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}
