"""The sandbox that chat templates run in: a model's file may write a prompt and nothing else.

Source: the names and settings that `transformers` documents for chat templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from weighbridge.errors import EngineError


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
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _Generation],
    )
    environment.globals = {
        "raise_exception": _raise_exception,
        "strftime_now": (now or datetime.now(UTC).astimezone()).strftime,
        "namespace": Namespace,
        "range": environment.globals["range"],
        "dict": dict,
    }
    environment.filters["tojson"] = _tojson
    try:
        template = environment.from_string(source)
    except TemplateError as error:
        raise EngineError(f"the chat template cannot be read: {error}") from None

    def render(messages: Sequence[Mapping[str, str]]) -> str:
        try:
            return template.render(
                messages=messages,
                add_generation_prompt=True,
                tools=None,
                documents=None,
                **variables,
            )
        # A template is a program: it may fail in any way that one can.
        except Exception as error:  # noqa: BLE001
            raise EngineError(f"the chat template fails: {error}") from None

    return render


class _Generation(Extension):
    """`{% generation %}`: marks for training what the assistant says; here, just what is in it."""

    tags = {"generation"}  # noqa: RUF012  # as the base class has it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _TemplateRefusal(Exception):
    """What a template says of messages that it cannot write."""


def _raise_exception(message: str) -> NoReturn:
    raise _TemplateRefusal(message)


def _tojson(value: Any, indent: int | None = None) -> str:
    # Jinja's own would escape for HTML.
    return json.dumps(value, ensure_ascii=False, indent=indent)
