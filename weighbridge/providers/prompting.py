"""Prompting: how a model is told what to answer with, in words and as a tool."""

from __future__ import annotations

import json

from weighbridge.schemas.plan import SchemaPlan

# The one tool that is ever offered. A call of any other is no answer to anything we asked.
TOOL_NAME = "answer"
TOOL_DESCRIPTION = "Takes the answer. Call it exactly once."


def with_schema(system: str, schema: SchemaPlan) -> str:
    """The system text, and behind it the schema that the answer must obey.

    Used where nothing else tells the model the schema, or where a vendor wants it said twice. The
    text says "JSON": some switches for JSON objects refuse prompts without the word.
    """
    written = json.dumps(schema.wire, ensure_ascii=False)
    return (
        f"{system}\n\n"
        "Answer with JSON alone: no code fence, no other text."
        f" It must be valid under this JSON Schema:\n{written}"
    )
