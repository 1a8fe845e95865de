"""Hiding: personal data is taken out of what the queue stores.

Unlike for providers nothing is put back: what is hidden here is nowhere in the queue. The ticket's
id stays, since answers are filed under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from weighbridge.decision import Json

Redact: TypeAlias = Callable[[str], str]

_BETWEEN: Final = "\0"  # no ticket holds one, and nothing that is looked for goes across it


def hide_texts(
    ticket: dict[str, Json],
    decision: dict[str, Json],
    questions: list[dict[str, Json]],
    redact: Redact,
) -> tuple[dict[str, Json], dict[str, Json], list[dict[str, Json]]]:
    """The same without what `redact` finds, in the ticket and in what a model quoted of it.

    All texts are shown to it together, so that one address has one placeholder in all of them.
    Options stay as they are: they stand in the configuration and not in the ticket.

    Args:
        ticket: as plain JSON.
        decision: as plain JSON.
        questions: as they are stored.
        redact: from a text to one without findings.
    """
    kept = {text for question in questions for text in _texts(question["options"])}
    is_open = [not question["options"] for question in questions]
    shown: Json = [
        {name: value for name, value in ticket.items() if name != "id"},
        [decision.get("reasoning"), decision.get("value")],
        [
            question["machine"]
            for question, opened in zip(questions, is_open, strict=True)
            if opened
        ],
    ]
    texts = [text for text in _texts(shown) if text not in kept]
    hidden = redact(_BETWEEN.join(texts)).split(_BETWEEN)
    if len(hidden) != len(texts):  # a text held the mark itself, or the recogniser touched one
        hidden = [redact(text) for text in texts]
    instead = dict(zip(texts, hidden, strict=True))
    new_ticket, (reasoning, value), machine = _replaced(shown, instead)
    answers = iter(machine)
    return (
        {**ticket, **new_ticket},
        {**decision, "reasoning": reasoning, "value": value},
        [
            {**question, "machine": next(answers)} if opened else question
            for question, opened in zip(questions, is_open, strict=True)
        ],
    )


def _texts(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            for each in value.values():
                yield from _texts(each)


def _replaced(value: Json, instead: dict[str, str]) -> Any:
    match value:
        case str():
            return instead.get(value, value)
        case list():
            return [_replaced(each, instead) for each in value]
        case dict():
            return {name: _replaced(each, instead) for name, each in value.items()}
        case _:
            return value
