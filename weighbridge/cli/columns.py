"""Columns: which column or key of a file is which field of a ticket."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weighbridge.errors import TicketInvalid

OWN = ("id", "subject", "body", "local_only")
MAPPABLE = (*OWN, "content_type")

_FLAGS = {"": False, "0": False, "false": False, "1": True, "true": True}
_MOST_LISTED = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What a help desk calls a ticket's fields, in a file or in its API's objects."""

    name: str
    id: str
    subject: str
    body: str


# Keys in small letters are those of the help desks' API references. Column titles follow the labels
# that their pages show and were not compared with files; one that differs is simply not recognised.
EXPORTS = (
    Export(name="Zendesk or Freshdesk", id="id", subject="subject", body="description"),
    Export(name="Freshdesk", id="Ticket ID", subject="Subject", body="Description"),
    Export(name="HubSpot", id="Ticket ID", subject="Ticket name", body="Ticket description"),
    Export(name="HubSpot", id="id", subject="properties.subject", body="properties.content"),
    Export(name="Jira", id="Issue key", subject="Summary", body="Description"),
    Export(name="Jira", id="key", subject="fields.summary", body="fields.description"),
    Export(name="Intercom", id="id", subject="source.subject", body="source.body"),
    Export(name="Salesforce", id="Case Number", subject="Subject", body="Description"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The column of each field; all other columns are metadata.

    Args:
        by_field: from a ticket's field to a column; to keys joined by dots in JSON.
        note: how they were found out, where nobody said it.
    """

    by_field: Mapping[str, str]
    note: str = ""

    def fields(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row's values as a ticket's fields; what is null or not there is absent.

        >>> columns = Columns(by_field={"body": "comment.body"})
        >>> columns.fields({"comment": {"body": "Help!", "by": "al"}, "plan": "Team"})
        {'body': 'Help!', 'metadata': {'comment': {'by': 'al'}, 'plan': 'Team'}}
        """
        rest: Mapping[str, Any] = row
        fields: dict[str, Any] = {}
        for name, column in self.by_field.items():
            value, rest = _taken(rest, column)
            if value is not None:
                fields[name] = flag(value) if name == "local_only" else value
        return {**fields, "metadata": dict(rest)}


def flag(value: Any) -> Any:
    """What a file says of `local_only`: true, false, 1, 0 or nothing; all else as it is.

    >>> flag("TRUE"), flag(0), flag("yes")
    (True, False, 'yes')
    """
    if isinstance(value, str):
        return _FLAGS.get(value.strip().lower(), value)
    return bool(value) if type(value) is int and value in (0, 1) else value


def parse_map(entries: Iterable[str]) -> dict[str, str]:
    """From "body=description" and the like to a column for each field.

    Raises:
        ValueError: not of that form, an unknown field, or one that is given twice.

    >>> parse_map(["body=description", "id=Ticket ID"])
    {'body': 'description', 'id': 'Ticket ID'}
    """
    asked: dict[str, str] = {}
    for entry in entries:
        name, equals, column = (part.strip() for part in entry.partition("="))
        if not equals or not name or not column:
            raise ValueError(f"--map {entry[:40]!r} is not FIELD=COLUMN")
        if name not in MAPPABLE:
            near = difflib.get_close_matches(name.lower(), MAPPABLE, 1, cutoff=0)[0]
            raise ValueError(f"a ticket has no field {name[:40]!r} to map; the nearest is {near!r}")
        if name in asked:
            raise ValueError(f"two columns for one field: {name!r} is mapped twice")
        if column in asked.values():
            raise ValueError(f"one column for two fields: {column[:40]!r} is mapped twice")
        asked[name] = column
    return asked


def find_columns(
    where: str, columns: Iterable[str], asked: Mapping[str, str], has: Callable[[str], bool]
) -> Columns:
    """Which columns to read: those asked for, ours by name, or a known export's.

    Args:
        where: what an error calls the file.
        columns: all that it has, for errors and for names that differ in case.
        asked: from `parse_map`.
        has: whether the file has a column; in JSON also for keys joined by dots.

    Raises:
        TicketInvalid: a column that is not there, no body, or two ways to read the file.
    """
    names = list(dict.fromkeys(columns))
    for column in asked.values():
        if not has(column):
            near = difflib.get_close_matches(column, names, 1, cutoff=0)
            nearest = f"; the nearest is {near[0][:40]!r}" if near else ""
            raise TicketInvalid(where, f"no column {column[:40]!r}{nearest}; {_listed(names)}")
    found = dict(asked)
    noted = {}
    for name in OWN:
        own = None if name in found else _own(name, names, found.values())
        if own is not None:
            found[name] = own
            if own != name:
                noted[name] = own
    if "body" in found:
        return Columns(by_field=found, note=_said("", noted) if noted else "")
    fitting = [one for one in EXPORTS if all(map(has, (one.id, one.subject, one.body)))]
    if len(fitting) == 1 and not asked:
        export = fitting[0]
        read = {"id": export.id, "subject": export.subject, "body": export.body}
        return Columns(by_field={**found, **read}, note=_said(export.name, read))
    names_of = " and ".join(one.name for one in fitting)
    problem = f"looks like {names_of}" if fitting and not asked else "no column `body`"
    raise TicketInvalid(where, f"{problem}; say which it is: --map body=COLUMN; {_listed(names)}")


def _own(name: str, columns: Iterable[str], taken: Iterable[str]) -> str | None:
    """Our own column, also in capitals or with spaces if there is only one such."""
    free = [column for column in columns if column not in taken]
    if name in free:
        return name
    alike = [one for one in free if _plain(one) == name]
    return alike[0] if len(alike) == 1 else None


def _plain(column: str) -> str:
    return column.strip().lower().replace(" ", "_").replace("-", "_")


def _said(export: str, read: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{name} = {column[:40]!r}" for name, column in read.items())
    return f"read as a file of {export}: {pairs}" if export else f"read {pairs}"


def _listed(columns: list[str]) -> str:
    shown = ", ".join(repr(column[:40]) for column in columns[:_MOST_LISTED])
    more = f" and {len(columns) - _MOST_LISTED} more" if len(columns) > _MOST_LISTED else ""
    return f"columns: {shown or 'none'}{more}"


def value_at(row: Mapping[str, Any], column: str) -> Any:
    """What stands at a key, or at keys joined by dots; None if nothing does."""
    return _taken(row, column)[0]


def _taken(row: Mapping[str, Any], column: str) -> tuple[Any, Mapping[str, Any]]:
    """A value, and the row without it."""
    if column in row:
        return row[column], {key: value for key, value in row.items() if key != column}
    key, _, below = column.partition(".")
    inner = row.get(key)
    if not below or not isinstance(inner, Mapping):
        return None, row
    value, rest = _taken(inner, below)
    return value, {**row, key: rest}
