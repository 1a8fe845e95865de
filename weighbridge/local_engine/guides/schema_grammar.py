"""The grammar of a JSON Schema: lowered, compiled, or refused with the place that is to blame."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weighbridge.errors import SchemaRefused, TaskInvalid
from weighbridge.local_engine.guides.engine_grammar import Uncompilable, compiled
from weighbridge.local_engine.guides.lowering.blame import blamed
from weighbridge.local_engine.guides.lowering.document import Document, Node
from weighbridge.local_engine.guides.lowering.lower import LoweredSchema, Lowering

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

# The spelling of `json.dumps`. Free white space lets small models go on for ever; none at all
# bans what they would write after a comma, and lists collapse to `[]`.
_SPELLING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# Without \uXXXX. With it, `"\u0061"` is taken for another name than `"a"`.
_ONE_SPELLING_EACH = {"json_allowed_escapes": 'nrbtf\\"'}

_TOO_DEEP = "the schema is nested too deeply"


def schema_matcher(schema: Mapping[str, Any] | bool, tokenizer: LLTokenizer) -> LLMatcher:
    """The engine's matcher of a schema.

    Raises:
        SchemaRefused: it cannot be enforced, or no value satisfies it.
        TaskInvalid: it is no JSON, or nested too deeply.
    """
    try:
        return _matcher(Document(schema), tokenizer)
    except RecursionError:
        raise TaskInvalid("", _TOO_DEEP) from None


def written(schema: Mapping[str, Any] | bool) -> str:
    """The schema as it stands in a grammar of the engine, after `%json`.

    Raises:
        SchemaRefused: it cannot be lowered.
        TaskInvalid: it is no JSON, or nested too deeply.
    """
    try:
        document = Document(schema)
        return _written(Lowering(document).whole(document.root))
    except RecursionError:
        raise TaskInvalid("", _TOO_DEEP) from None


def _matcher(document: Document, tokenizer: LLTokenizer) -> LLMatcher:
    try:
        return _compiled(Lowering(document).whole(document.root), tokenizer)
    except (SchemaRefused, Uncompilable) as error:
        # What has no grammar, as a whole or in a part, may still be a list of values.
        listed = Lowering(document).listed(document.root)
        if listed is not None:
            with contextlib.suppress(Uncompilable):
                return _compiled(listed, tokenizer)
        if isinstance(error, SchemaRefused):
            raise
        refusal = _refusal(document, error, tokenizer)
    raise refusal


def _refusal(document: Document, error: Uncompilable, tokenizer: LLTokenizer) -> SchemaRefused:
    """The place to blame for a whole that does not compile."""

    def fails(node: Node) -> bool:
        try:
            _compiled(Lowering(document).whole(node), tokenizer)
        except SchemaRefused:
            return not error.is_empty
        except Uncompilable as other:
            return other.is_empty == error.is_empty
        return False

    place, keyword = blamed(document, fails)
    return place.refusal(keyword, "no value satisfies it" if error.is_empty else error.problem)


def _compiled(lowered: LoweredSchema, tokenizer: LLTokenizer) -> LLMatcher:
    return compiled(f"start: %json {_written(lowered)}", tokenizer)


def _written(lowered: LoweredSchema) -> str:
    if lowered.schema is False:
        return '{"enum": []}'
    options = _SPELLING | (_ONE_SPELLING_EACH if lowered.can_repeat_names else {})
    rules = {} if lowered.schema is True else lowered.schema
    return json.dumps({**rules, "x-guidance": options})
