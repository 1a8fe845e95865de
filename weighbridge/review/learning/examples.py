"""Examples: what people said about texts, as far as it can be learned from.

Audits are never among them. What is certified rests on audits; a model that had seen them would be
measured by its own memory. So a text that was audited teaches nothing, not even where another
ticket of the same words was reviewed in the ordinary way.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, select

from weighbridge.decision import Json, label
from weighbridge.review.queueing.twins import group_key
from weighbridge.store.database import Database
from weighbridge.store.guarantee_tables import AUDITED
from weighbridge.store.queue_tables import item_table
from weighbridge.store.times import moment

_item = item_table.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What came out about one field of one ticket.

    Args:
        text: as models read it.
        value: the answer that people settled on; None for an audit without one.
        group: equal for texts that say the same.
        is_audit: whether it belongs to the uniform sample, and so must not be learned from.
        at: UTC, when it was settled, or drawn if it was not.
    """

    text: str = field(repr=False)
    value: Json
    group: str
    is_audit: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Examples that can be learned from, and what became of the others.

    Args:
        texts: each once, of those that say the same only one: in a cross-validation they would
            be known before they are asked for.
        places: of their answers among the options.
        times: when each was settled, UTC.
        num_by_label: all options, those without any example too.
        left_out: how many examples were not taken, by why.
        unknown: the answers that are no option, and how often each was given.
    """

    texts: tuple[str, ...] = field(repr=False)
    places: tuple[int, ...] = field(repr=False)
    times: tuple[datetime, ...] = field(repr=False)
    num_by_label: Mapping[str, int]
    left_out: Mapping[str, int]
    unknown: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.texts)


def read_examples(database: Database, task: str) -> dict[str, list[Example]]:
    """What was settled about the tickets of a task, by field, the oldest first.

    After them come audits without an answer, for every field: they say which texts must not be
    learned from, since what was learned may be weighed with them as soon as they are judged.

    Args:
        database: of the queue.
        task: its name.

    Raises:
        QueueUnavailable: it cannot be read.
    """
    columns = (
        _item.created_at,
        _item.ticket_json,
        _item.resolution_json,
        _item.erased_at,
        _item.is_audit,
        _item.done_at,
    )
    of_task: Select[Any] = select(*columns).where(_item.task == task)
    settled = of_task.where(_item.resolved_kind == "answer").order_by(_item.settled_no)
    unanswered = of_task.where(AUDITED, _item.resolved_kind.is_distinct_from("answer"))
    examples: dict[str, list[Example]] = defaultdict(list)
    with database.reading() as connection:
        for row in connection.execute(settled):
            for name, value in (row.resolution_json or {}).items():
                examples[name].append(_example(row, value, row.done_at))
        for row in connection.execute(unanswered):
            example = _example(row, None, row.created_at)
            for of_field in examples.values():
                of_field.append(example)
    return dict(examples)


def gather(
    examples: Sequence[Example],
    options: Sequence[Json],
    *,
    renamed: Mapping[str, str] | None = None,
) -> Gathered:
    """Choose what can be learned from.

    Texts that say the same count once. If people answered them differently, the answer of most of
    them is taken; of answers given equally often none can be, and the text is left out.

    Args:
        examples: of one field, in any order; audits among them are left out and counted.
        options: of the field, as the task has them today.
        renamed: labels that are called otherwise now: old to new. Two that were merged have the
            same new name.
    """
    left_out: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    place_of = {_key(option): place for place, option in enumerate(options)}
    by_label = {label(option): option for option in options}
    audited = {example.group for example in examples if example.is_audit and example.group}
    groups: dict[str, list[tuple[Example, int]]] = defaultdict(list)
    for example in examples:
        value = _renamed(example.value, renamed or {}, by_label)
        if example.is_audit:
            left_out["audit"] += 1
        elif not example.group:
            left_out["no text: empty or erased"] += 1
        elif example.group in audited:
            left_out["the same text was audited"] += 1
        elif _key(value) not in place_of:
            left_out["no option of the task"] += 1
            unknown[label(value)] += 1
        else:
            groups[example.group].append((example, place_of[_key(value)]))
    kept: list[tuple[Example, int]] = []
    for group in sorted(groups):
        said = Counter(place for _, place in groups[group])
        (place, most), *others = said.most_common()
        left_out["contradicted by others"] += len(groups[group]) - most
        if others and others[0][1] == most:
            left_out["contradicted by others"] += most
            continue
        agreeing = [example for example, answer in groups[group] if answer == place]
        # Neither the order of the examples nor their number may matter to what is learned.
        kept.append((min(agreeing, key=lambda example: (example.at, example.text)), place))
        left_out["said again"] += most - 1
    counts = Counter(place for _, place in kept)
    return Gathered(
        texts=tuple(example.text for example, _ in kept),
        places=tuple(place for _, place in kept),
        times=tuple(example.at for example, _ in kept),
        num_by_label={label(option): counts[place] for place, option in enumerate(options)},
        left_out={why: count for why, count in sorted(left_out.items()) if count},
        unknown=dict(unknown.most_common()),
    )


def _example(row: Row[Any], value: Json, at: int) -> Example:
    text = "" if row.erased_at is not None else _text(row.ticket_json)
    return Example(
        text=text,
        value=value,
        group=group_key({"body": text}),
        is_audit=bool(row.is_audit),
        at=moment(at),
    )


def _text(ticket: Mapping[str, Json]) -> str:
    """What models read of a ticket."""
    return "\n\n".join(str(part) for part in (ticket.get("subject"), ticket.get("body")) if part)


def _renamed(value: Json, renamed: Mapping[str, str], options: Mapping[str, Json]) -> Json:
    """The option that an answer stands for today."""
    new, seen = label(value), set()
    while new in renamed and new not in seen:  # renamed more than once, or in a circle
        seen.add(new)
        new = renamed[new]
    return options.get(new, new) if seen else value


def _key(value: Json) -> str:
    """Tells 1, "1" and true apart, as Python's == does not."""
    return json.dumps(value, sort_keys=True)
