"""Form: what somebody sent, from a form or as a JSON object, as text by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from weighbridge.decision import Json, Question

# Before the place of a question. Its field's name would not do: browsers change line breaks in
# names, and some characters cannot be sent at all.
ANSWER = "answer:"

_MAX_FIELDS = 2000
_SHOWN = 40  # characters of a name that nobody knows
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


class Form:
    """Names and values; whoever asks for a name that was not sent gets nothing, never an error.

    Args:
        given: in the order in which they came; a name may come several times.
        values: answers by field, where a program sent them as JSON.
        sent_names: of the JSON object that a program sent; a form has none.
    """

    def __init__(
        self,
        given: Sequence[tuple[str, str]],
        values: Mapping[str, Json] | None = None,
        sent_names: Iterable[str] = (),
    ) -> None:
        self._given = tuple(given)
        self._values = values
        self.sent_names = tuple(sent_names)

    def text(self, name: str, default: str = "") -> str:
        """The first value of a name."""
        return next((value for key, value in self._given if key == name), default)

    def all(self, name: str) -> list[str]:
        """Every value of a name."""
        return [value for key, value in self._given if key == name]

    def number(self, name: str) -> float | None:
        """A value that is a finite number; None for anything else."""
        try:
            number = float(self.text(name))
        except ValueError:
            return None
        return number if abs(number) < 1e15 else None

    def under(self, prefix: str) -> dict[str, str]:
        """The values of names that begin with `prefix`, by the rest of the name."""
        return {
            key.removeprefix(prefix): value for key, value in self._given if key.startswith(prefix)
        }

    def answers(self, questions: Sequence[Question]) -> dict[str, Json]:
        """The answers to questions, by field; what nobody asked is left for the queue to refuse.

        A page sends each option as its JSON, which alone tells `1` from `"1"`.
        """
        if self._values is not None:
            return dict(self._values)
        given = {place: value for place, value in self.under(ANSWER).items() if value.strip()}
        answers: dict[str, Json] = {
            question.field: _parsed(given.pop(str(place)), question)
            for place, question in enumerate(questions)
            if str(place) in given
        }
        return {**answers, **given}


async def read_form(request: Request) -> Form:
    """What the body holds, as a dependency of endpoints.

    Raises:
        HTTPException: 400 for what is no form and no JSON object, has too many fields, or broke
            off; 415 for what says that it is something else.
    """
    try:
        body = await request.body()
    except ClientDisconnect:  # nobody is there any more to read an answer; it is no failure of ours
        raise HTTPException(400) from None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind not in (_FORM, _JSON):
        # Read as one of the two it would be a form without fields: an answer that says nothing.
        raise HTTPException(415)
    try:
        if kind == _JSON:
            return _from_json(json.loads(body))
        # Browsers send every line break of a text as two characters.
        text = body.decode().replace("%0D%0A", "%0A")
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except (ValueError, RecursionError):
        raise HTTPException(400) from None


FormBody = Annotated[Form, Depends(read_form)]


def sent_with(*names: str) -> Any:
    """A dependency: what the body holds, where a JSON object holds no other names than these.

    A program that misspells a name would else get something other than it asked for. Pages send
    what they please: their forms are our own.
    """

    async def read(request: Request) -> Form:
        form = await read_form(request)
        if unknown := next((name for name in form.sent_names if name not in names), None):
            known = ", ".join(names)
            raise HTTPException(422, f"{unknown[:_SHOWN]!r} is not known here; known: {known}.")
        return form

    return Depends(read)


def _from_json(sent: Any) -> Form:
    if not isinstance(sent, dict) or not isinstance(sent.get("values", {}), dict):
        raise ValueError("want an object")  # noqa: TRY004  # of the text, as json.loads puts it
    given = [
        (str(name), str(value))
        for name, content in sent.items()
        if name != "values"
        for value in (content if isinstance(content, list) else [content])
    ]
    return Form(given, sent.get("values"), sent)


def _parsed(text: str, question: Question) -> Json:
    # Without options, and unless the machine's answer shows otherwise, people write plain text.
    if not question.options and isinstance(question.machine, str | None):
        return text
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value
