"""Labels: the options of a field as their owner names and describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from weighbridge.errors import TaskInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What one option means.

    Args:
        description: one line, shown to models and to reviewers.
        phrases: how customers put it, in whole sentences. Only the label prior reads them: it
            knows an option by the middle of its phrases, or without any by name and description.
    """

    description: str = ""
    phrases: tuple[str, ...] = ()


LabelSource: TypeAlias = "Label | str | Mapping[str, Any]"
LabelsSource: TypeAlias = "Mapping[str, LabelSource] | Iterable[str]"


def read_labels(source: LabelsSource, where: str) -> dict[str, Label]:
    """Labels by name, in order, from a mapping (name to description or Label) or a list of names.

    Raises:
        TaskInvalid: names that are empty, no text, or equal but for case and surrounding space;
            a description that is neither text nor a Label.

    >>> read_labels({"bug": "something is broken"}, "categories")
    {'bug': Label(description='something is broken', phrases=())}
    """
    pairs = (
        list(source.items())
        if isinstance(source, Mapping)
        else [(name, Label()) for name in source]
    )
    labels: dict[str, Label] = {}
    seen: dict[str, str] = {}
    for position, (name, meaning) in enumerate(pairs):
        pointer = f"/{where}/{position}"
        if not isinstance(name, str) or not name.strip():
            raise TaskInvalid(pointer, "a label needs a name")
        if not name.isprintable() or name != name.strip():
            raise TaskInvalid(
                pointer, f"the label {name!r} has invisible or surrounding characters"
            )
        twin = seen.setdefault(name.casefold(), name)
        if twin in labels:
            same = "occurs twice" if twin == name else f"differs from {twin!r} only in case"
            raise TaskInvalid(pointer, f"the label {name!r} {same}", "Give every label once.")
        labels[name] = _label(meaning, f"{pointer}/{name}")
    return labels


def _label(meaning: LabelSource, pointer: str) -> Label:
    if isinstance(meaning, Label):
        return meaning
    if isinstance(meaning, str):
        return Label(description=meaning)
    if isinstance(meaning, Mapping) and set(meaning) <= {"description", "phrases"}:
        description, phrases = meaning.get("description", ""), meaning.get("phrases", ())
        if isinstance(description, str) and all(isinstance(p, str) and p.strip() for p in phrases):
            return Label(description=description, phrases=tuple(phrases))
    raise TaskInvalid(
        pointer,
        "a label is described by a text, or by `description` and `phrases`",
        'For example: billing = "charges, invoices, refunds"',
    )
