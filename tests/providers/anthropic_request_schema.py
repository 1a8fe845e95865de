"""The documented shape of a request to Anthropic's messages, as far as it is ever used here.

Source: Anthropic API reference, messages, structured outputs and extended thinking, 2026-09.
"""

from __future__ import annotations

from typing import Any


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


SCHEMA = {"type": "object", "required": ["type", "additionalProperties"]}

REQUEST = closed(
    ["model", "max_tokens", "messages"],
    model={"type": "string", "minLength": 1},
    max_tokens={"type": "integer", "minimum": 1},
    system={"type": "string"},
    messages={
        "type": "array",
        "minItems": 1,
        "items": closed(
            ["role", "content"],
            role={"enum": ["user", "assistant"]},
            content={"type": "string", "minLength": 1},
        ),
    },
    temperature={"type": "number", "minimum": 0, "maximum": 1},
    output_config=closed(
        [],
        format=closed(["type", "schema"], type={"const": "json_schema"}, schema=SCHEMA),
        effort={"enum": ["low", "medium", "high", "xhigh", "max"]},
    ),
    thinking={
        "oneOf": [
            closed(["type"], type={"const": "disabled"}),
            closed(["type"], type={"const": "adaptive"}),
            closed(["type"], type={"const": "between_tools"}),
            closed(
                ["type", "budget_tokens"],
                type={"const": "enabled"},
                budget_tokens={"type": "integer", "minimum": 1024},
            ),
        ]
    },
    tools={
        "type": "array",
        "maxItems": 20,
        "items": closed(
            ["name", "input_schema"],
            name={"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
            description={"type": "string"},
            strict={"type": "boolean"},
            input_schema=SCHEMA,
        ),
    },
    tool_choice={
        "oneOf": [
            closed(["type"], type={"const": "auto"}, disable_parallel_tool_use={"type": "boolean"}),
            closed(
                ["type", "name"],
                type={"const": "tool"},
                name={"type": "string"},
                disable_parallel_tool_use={"type": "boolean"},
            ),
        ]
    },
)
