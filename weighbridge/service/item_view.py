"""What may be shown of an item, and to whom; the page and its JSON show exactly this.

While an item is blind, nothing here tells what the machine or other people made of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from weighbridge.decision import Json, Question, label
from weighbridge.review.items import Event, Item, SlotKind, State, Verdict
from weighbridge.service import words

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")  # as of BCP 47
_ABOUT_TEXT = ("quoted", "signature", "hidden")
# What happened to the item itself, whoever judges it how.
_NEUTRAL_EVENTS = frozenset({"enqueued", "noted", "assigned", "reopened", "cancelled", "erased"})


def item_view(item: Item, events: Sequence[Event], *, viewer: str) -> dict[str, Any]:
    """The whole item as plain JSON values.

    Args:
        item: as read for the viewer, with their lease if they hold it.
        events: its history.
        viewer: who looks.
    """
    is_adjudicating = item.lease is not None and item.lease.kind is SlotKind.ADJUDICATE
    return {
        **item_line(item),
        "is_blind": item.is_blind,
        "is_adjudicating": is_adjudicating,
        "needed": item.needed,
        "round": item.round,
        "ticket": _ticket_view(item.ticket),
        "provider": None if item.is_blind else item.decision.get("provider"),
        "model": None if item.is_blind else item.decision.get("model"),
        "reasoning": "" if item.is_blind else item.decision.get("reasoning") or "",
        "questions": [_question_view(question, item) for question in item.questions],
        "verdicts": [*_verdicts(item, viewer, is_adjudicating=is_adjudicating)],
        "history": [_event_view(event) for event in _events(item, events, viewer)],
        "held_until": None if item.lease is None else item.lease.until.isoformat(),
        "holders": [] if item.is_blind else _holders(item),
        "resolved_kind": item.resolved_kind,
        "resolution": None if item.resolution is None else dict(item.resolution),
        "erased_at": None if item.erased_at is None else item.erased_at.isoformat(),
    }


def item_line(item: Item) -> dict[str, Any]:
    """What a list shows of an item; never what the machine said."""
    text = item.ticket.get("subject") or item.ticket.get("body") or ""
    return {
        "id": item.id,
        "ticket_id": item.ticket_id,
        "task": item.task,
        "state": item.state.value,
        "reasons": list(item.reasons),
        "words": str(text)[:200],
        "created_at": item.created_at.isoformat(),
        "due_at": None if item.due_at is None else item.due_at.isoformat(),
        "assignee": item.assignee,
    }


def said(kind: str, values: Mapping[str, Json]) -> str:
    """A verdict in a line.

    >>> said("corrected", {"category": "bug", "priority": 2}), said("unsure", {})
    ('category: bug, priority: 2', 'unsure')
    """
    if kind == "unclassifiable":
        return "not classifiable"
    return ", ".join(f"{field}: {label(value)}" for field, value in values.items()) or kind


def _ticket_view(ticket: Mapping[str, Json]) -> dict[str, Any]:
    metadata = ticket.get("metadata")
    language = metadata.get("language") if isinstance(metadata, Mapping) else None
    return {
        "subject": ticket.get("subject") or "",
        "body": ticket.get("body") or "",
        # A page says which language a text is in only where somebody knows.
        "language": language if isinstance(language, str) and _LANGUAGE.fullmatch(language) else "",
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
        **{name: ticket.get(name) or "" for name in _ABOUT_TEXT},
    }


def _question_view(question: Question, item: Item) -> dict[str, Any]:
    fields = item.decision.get("fields")
    found = fields.get(question.field) if isinstance(fields, Mapping) else None
    field: Mapping[str, Any] = {} if item.is_blind or not isinstance(found, Mapping) else found
    shares = field.get("options") or {}
    machine = None if item.is_blind else question.machine
    chosen = "" if machine is None else label(machine)
    if not shares and chosen and field.get("probability") is not None:
        shares = {chosen: field["probability"]}
    return {
        "field": question.field,
        "required": question.required,
        "options": [
            {
                "value": option,
                "json": json.dumps(option),
                "label": label(option),
                "meaning": question.descriptions.get(label(option), ""),
                "probability": shares.get(label(option)),
                "is_machine": machine is not None and json.dumps(option) == json.dumps(machine),
            }
            for option in question.options
        ],
        "machine": machine,
        "probability": field.get("probability"),
        "evidence": words.evidence(field) if field else [],
    }


def _verdicts(item: Item, viewer: str, *, is_adjudicating: bool) -> Iterable[dict[str, Any]]:
    """Those that may be seen: all of a settled item, else one's own, or all under blind names."""
    taken_back = {verdict.supersedes for verdict in item.verdicts}
    names = dict(zip((v.id for v in item.standing), ascii_uppercase, strict=False))
    for verdict in item.verdicts:
        name = verdict.reviewer
        if item.is_blind and is_adjudicating:
            if verdict.id not in names:
                continue
            name = names[verdict.id]
        elif item.is_blind and verdict.reviewer != viewer:
            continue
        shown = _verdict_view(verdict, name, was_undone=verdict.id in taken_back)
        if item.is_blind and verdict.kind in ("correct", "corrected"):
            shown["kind"] = "answer"  # else whoever takes it back could try until it is right
        yield shown


def _verdict_view(verdict: Verdict, name: str, *, was_undone: bool) -> dict[str, Any]:
    return {
        "by": name,
        "kind": verdict.kind,
        "said": said(verdict.kind, verdict.values),
        "values": dict(verdict.values),
        "note": verdict.note,
        "at": verdict.submitted_at.isoformat(),
        "is_adjudication": verdict.is_adjudication,
        "was_undone": was_undone,
    }


def _events(item: Item, events: Sequence[Event], viewer: str) -> list[Event]:
    if not item.is_blind:
        return list(events)
    return [event for event in events if event.actor == viewer or event.kind in _NEUTRAL_EVENTS]


def _event_view(event: Event) -> dict[str, Any]:
    return {
        "at": event.at.isoformat(),
        "by": event.actor,
        "kind": event.kind,
        "detail": {name: value for name, value in event.told.items() if _is_telling(name)},
    }


def _is_telling(name: str) -> bool:
    # When a lease ends is history as soon as it is prolonged, and tokens are nobody's business.
    return "until" not in name and "token" not in name


def _holders(item: Item) -> list[str]:
    """Who has it open, or had it open last."""
    is_settled = item.state in (State.DONE, State.CANCELLED)
    return (
        [] if is_settled else [slot.owner for slot in item.slots if slot.lease_until and slot.owner]
    )
