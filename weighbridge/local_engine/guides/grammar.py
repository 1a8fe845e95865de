"""Grammars: JSON Schema, regular expressions, Lark and GBNF, through llguidance.

Whatever the notation, masks are byte-complete, nothing is compiled twice, and a grammar that the
engine cannot enforce raises when it is bound. llguidance itself never raises: in an error it
allows only end of text, which would look like a finished answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine.checks import check_text, encoded, unwanted
from weighbridge.local_engine.guides.engine_grammar import Uncompilable, compiled
from weighbridge.local_engine.guides.grammar_guide import GrammarGuide
from weighbridge.local_engine.guides.grammar_tables import tables_of
from weighbridge.local_engine.guides.regex_text import engine_grammar, refusal
from weighbridge.local_engine.guides.schema_grammar import schema_matcher, written
from weighbridge.local_engine.vocabulary import Vocabulary

# Outside of texts, patterns and comments: a control token, or another grammar.
_OUTSIDE = re.compile(
    r'"(?:\\.|[^"\\\n])*"|/(?!/)(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*|(?P<token><[^>\s]+>)'
    r"|(?P<json>%json\s*)"
)


def json_schema(schema: Mapping[str, Any] | bool) -> JsonSchema:
    """Demand one value of a JSON Schema, spelled as `json.dumps` does, in the schema's order.

    Drafts 4 to 2020-12; without `$schema` the newest. Formats are enforced. What cannot be
    enforced exactly is refused when the guide is bound, with the JSON pointer and the keyword.

    >>> json_schema({"enum": ["bug", "billing"]})
    JsonSchema(schema={'enum': ['bug', 'billing']})
    """
    if not isinstance(schema, Mapping | bool):
        raise unwanted("schema", f"a mapping, True or False{_reading(schema)}", schema)
    return JsonSchema(schema)


def regex(pattern: str) -> Regex:
    r"""Demand a text that a regular expression matches from beginning to end.

    The common ground of ECMA-262 and Python: no look-around, back references or word boundaries;
    `\d`, `\w` and `\s` are ASCII. It may begin with the flags `(?i)` and `(?s)`.

    >>> regex(r"[A-Z]{2}-\d{4}").pattern
    '[A-Z]{2}-\\d{4}'
    """
    check_text(pattern, "pattern")
    return Regex(pattern)


def lark(text: str) -> Lark:
    """Demand a text of a grammar in llguidance's dialect of Lark; its rule `start` is the whole.

    A schema after `%json` is enforced as by `json_schema`, but for names that an object repeats and
    for numbers that are infinite to most readers (`1e999`). Control tokens (`<|im_end|>`, `<[2]>`)
    are refused: no guide may ask for them.
    """
    check_text(text, "a grammar")
    return Lark(text)


def gbnf(text: str) -> Gbnf:
    r"""Demand a text of a grammar in the notation of llama.cpp; its rule `root` is the whole.

    >>> gbnf('root ::= "a" | "b"').text
    'root ::= "a" | "b"'
    """
    check_text(text, "a grammar")
    return Gbnf(text)


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """See `json_schema`."""

    schema: Mapping[str, Any] | bool

    def bind(self, vocabulary: Vocabulary) -> GrammarGuide:
        """See `Spec.bind`.

        Raises:
            SchemaRefused: something in the schema cannot be enforced.
            TaskInvalid: the schema is no JSON, or no answer of it can be spelled.
        """
        matcher = schema_matcher(self.schema, tables_of(vocabulary).tokenizer)
        return GrammarGuide(matcher, vocabulary, "json_schema", is_json=True)


@dataclass(frozen=True, slots=True)
class Regex:
    """See `regex`."""

    pattern: str

    def bind(self, vocabulary: Vocabulary) -> GrammarGuide:
        """See `Spec.bind`.

        Raises:
            TaskInvalid: no such expression, or none that matches anything but the empty text.
        """
        try:
            return _bound(engine_grammar(self.pattern), vocabulary, "regex")
        except Uncompilable as error:
            raise refusal(self.pattern, error.problem) from None


@dataclass(frozen=True, slots=True)
class Lark:
    """See `lark`."""

    text: str

    def bind(self, vocabulary: Vocabulary) -> GrammarGuide:
        """See `Spec.bind`.

        Raises:
            TaskInvalid: no such grammar, or it describes no answer.
            SchemaRefused: a schema in it cannot be enforced.
        """
        return _bound_text(_prepared(self.text), vocabulary, "lark")


@dataclass(frozen=True, slots=True)
class Gbnf:
    """See `gbnf`."""

    text: str

    def bind(self, vocabulary: Vocabulary) -> GrammarGuide:
        """See `Spec.bind`.

        Raises:
            TaskInvalid: no such grammar, or it describes no answer.
        """
        from llguidance.gbnf_to_lark import gbnf_to_lark

        encoded(self.text, "/text")
        try:
            converted = gbnf_to_lark(self.text)
        except Exception as error:  # noqa: BLE001  # the converter raises whatever it meets
            problem = str(error).partition("\n")[0]
            raise TaskInvalid("/text", f"no GBNF: {problem}") from None
        return _bound_text(converted, vocabulary, "gbnf")


def _bound(text: str, vocabulary: Vocabulary, name: str) -> GrammarGuide:
    """The guide of a grammar in the engine's own Lark.

    Args:
        text: the grammar.
        vocabulary: of the model.
        name: of the guide, for messages.

    Raises:
        Uncompilable: the engine does not take it, or it describes no answer.
    """
    return GrammarGuide(compiled(text, tables_of(vocabulary).tokenizer), vocabulary, name)


def _bound_text(text: str, vocabulary: Vocabulary, name: str) -> GrammarGuide:
    """The same, of a grammar that the user wrote; raises `TaskInvalid`."""
    try:
        return _bound(text, vocabulary, name)
    except Uncompilable as error:
        raise TaskInvalid("/text", error.problem) from None


def _reading(schema: object) -> str:
    """How to come by a schema from what is often given in its place."""
    if isinstance(schema, str | bytes):
        return " (json.loads makes one of a text)"
    if hasattr(schema, "model_json_schema"):
        name = schema.__name__ if isinstance(schema, type) else type(schema).__name__
        return f" ({name}.model_json_schema() is one)"
    return ""


def _prepared(text: str) -> str:
    """The grammar with its schemas lowered.

    Raises:
        TaskInvalid: it is no text, it asks for a control token, or a schema in it is no JSON.
    """
    encoded(text, "/text")
    out, done = [], 0
    for found in _OUTSIDE.finditer(text):
        if found["token"]:
            raise TaskInvalid("/text", "it asks for a control token; no guide can")
        if found["json"] and found.start() >= done:
            try:
                schema, end = json.JSONDecoder().raw_decode(text, found.end())
            except (ValueError, RecursionError):
                problem = "what follows %json is no JSON, or nested too deeply"
                raise TaskInvalid("/text", problem) from None
            out += [text[done : found.end()], written(schema)]
            done = end
    return "".join([*out, text[done:]])
