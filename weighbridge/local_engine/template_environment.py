"""The sandbox that chat templates run in: a model's file may write a prompt and nothing else.

Source: the names and settings that `transformers` documents for chat templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.utils import Namespace

from weighbridge.errors import EngineError
from weighbridge.local_engine.metered_jinja import MeteredEnvironment, Opaque

_MAX_SAID = 200
_MAX_DATE_FORM = 100
_MAX_INDENT = 8


def compile_template(
    source: str, variables: Mapping[str, str], now: datetime | None = None
) -> Callable[[Sequence[Mapping[str, str]]], str]:
    """A function that renders messages, with the opening of the assistant's turn.

    Args:
        source: Jinja.
        variables: names for the template besides `messages`.
        now: what `strftime_now` writes; None reads the clock, once.

    Raises:
        EngineError: the source is no template; so does the function where the template fails or
            refuses the messages.
    """
    clock = now or datetime.now(UTC).astimezone()
    environment = MeteredEnvironment(["jinja2.ext.loopcontrols", _Generation])
    environment.globals = {
        "raise_exception": _raise_exception,
        "strftime_now": lambda form: clock.strftime(form[:_MAX_DATE_FORM]),
        "namespace": _Namespace,
        "range": environment.globals["range"],
        "dict": dict,
    }
    environment.filters["tojson"] = environment.metered(_tojson)
    try:
        template = environment.compiled(source)
    # Too deep, too many blocks, too long a number: each fails in a way of its own.
    except Exception as error:  # noqa: BLE001
        raise EngineError(f"the chat template cannot be read: {_said(error)}") from None

    def render(messages: Sequence[Mapping[str, str]]) -> str:
        turns = [Opaque(message) for message in messages]
        given = {"messages": turns, "add_generation_prompt": True}
        try:
            return environment.rendered(
                template, {**given, "tools": None, "documents": None, **variables}
            )
        # A template is a program: it may fail in any way that one can.
        except Exception as error:  # noqa: BLE001
            raise EngineError(f"the chat template fails: {_said(error)}") from None

    return render


class _Generation(Extension):
    """`{% generation %}`: marks for training what the assistant says; here, just what is in it."""

    tags = {"generation"}  # noqa: RUF012  # as the base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Namespace(Namespace):
    """Says nothing of what is in it: written out, two in two in two would never end."""

    def __repr__(self) -> str:
        return "<namespace>"


class _TemplateRefusal(Exception):
    """What a template says of messages that it cannot write."""


def _raise_exception(message: str) -> NoReturn:
    raise _TemplateRefusal(message)


def _tojson(value: Any, indent: int | None = None) -> str:
    # Jinja's own would escape for HTML.
    if indent is not None and indent > _MAX_INDENT:
        raise ValueError(f"tojson indents by {_MAX_INDENT} at most")
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _said(error: Exception) -> str:
    """The words of a template or about it, without control characters for whoever prints them."""
    text = str(error) or type(error).__name__
    return "".join(c if c.isprintable() else " " for c in text[:_MAX_SAID])
