"""The documented shape of a request to System One, without assets, which are never sent.

Source: TypeSafe API reference, 2026-09, and what `transformers serve` 5.24 takes.
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


TEXT = {"type": "string", "minLength": 1}
MEANING = {"type": ["string", "null"]}

QUESTION = {
    "oneOf": [
        closed(
            ["type", "instructions"],
            type={"const": "noul"},
            instructions=TEXT,
            criteria=closed([], true=MEANING, false=MEANING),
        ),
        closed(
            ["type", "instructions", "criteria"],
            type={"const": "choice"},
            instructions=TEXT,
            criteria={
                "type": "object",
                "minProperties": 1,
                "maxProperties": 255,
                "additionalProperties": MEANING,
            },
        ),
        closed(
            ["type", "instructions", "criteria"],
            type={"const": "score"},
            instructions=TEXT,
            criteria={"type": "array", "items": TEXT, "minItems": 2, "maxItems": 10},
        ),
    ]
}

REQUEST = closed(
    ["model", "state", "questions"],
    model=TEXT,
    state={"type": "string"},
    questions={
        "type": "object",
        "minProperties": 1,
        "maxProperties": 64,
        "additionalProperties": QUESTION,
    },
)
