"""What Google documents that `generateContent` takes, as a JSON Schema of whole requests.

Written from the API reference and python-genai's types, not from what we send: closed objects, so
that a misspelt field fails, as it does at Google's ("Unknown name").
"""

from __future__ import annotations

from typing import Any

from openai_request_schemas import COUNT, NAME, NUMBER, TEXT, closed

SUBSCHEMA = {"$ref": "#/$defs/schema"}
# The keywords of `responseJsonSchema`: any other is skipped without a word.
JSON_SCHEMA = closed(
    **{"$id": TEXT, "$ref": TEXT, "$anchor": TEXT},
    **{"$defs": {"type": "object", "additionalProperties": SUBSCHEMA}},
    type={"enum": ["string", "integer", "number", "boolean", "null", "object", "array"]},
    format=TEXT,
    title=TEXT,
    description=TEXT,
    enum={"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
    items=SUBSCHEMA,
    prefixItems={"type": "array", "items": SUBSCHEMA},
    minItems={"type": "integer"},
    maxItems={"type": "integer"},
    minimum={"type": "number"},
    maximum={"type": "number"},
    anyOf={"type": "array", "items": SUBSCHEMA},
    oneOf={"type": "array", "items": SUBSCHEMA},
    properties={"type": "object", "additionalProperties": SUBSCHEMA},
    additionalProperties={"anyOf": [{"type": "boolean"}, SUBSCHEMA]},
    required={"type": "array", "items": TEXT},
    propertyOrdering={"type": "array", "items": TEXT},
)

PARTS = {"type": "array", "items": closed("text", text=TEXT), "minItems": 1}
# A level beside a budget is a 400.
THINKING: dict[str, Any] = {
    "anyOf": [
        closed("thinkingLevel", thinkingLevel={"enum": ["MINIMAL", "LOW", "MEDIUM", "HIGH"]}),
        closed(
            "thinkingBudget", thinkingBudget={"type": "integer", "minimum": -1, "maximum": 32768}
        ),
    ]
}
INT32 = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
CONFIG = {
    **closed(
        responseMimeType={"enum": ["text/plain", "application/json", "text/x.enum"]},
        responseJsonSchema=SUBSCHEMA,
        candidateCount=COUNT,
        maxOutputTokens=COUNT,
        temperature=NUMBER,
        topP={"type": "number"},
        topK={"type": "integer"},
        seed=INT32,
        stopSequences={"type": "array", "items": TEXT},
        responseLogprobs={"type": "boolean"},
        logprobs={"type": "integer", "minimum": 0, "maximum": 20},
        thinkingConfig=THINKING,
    ),
    "dependentRequired": {
        "responseJsonSchema": ["responseMimeType"],
        "logprobs": ["responseLogprobs"],
    },
}
TOOL = closed(
    "functionDeclarations",
    functionDeclarations={
        "type": "array",
        "minItems": 1,
        "items": closed(
            "name", "description", name=NAME, description=TEXT, parametersJsonSchema=SUBSCHEMA
        ),
    },
)
CALLING = closed(
    mode={"enum": ["AUTO", "ANY", "NONE", "VALIDATED"]},
    allowedFunctionNames={"type": "array", "items": NAME, "minItems": 1},
)

REQUEST: dict[str, Any] = {
    "$defs": {"schema": JSON_SCHEMA},
    **closed(
        "contents",
        systemInstruction=closed("parts", parts=PARTS),
        contents={
            "type": "array",
            "minItems": 1,
            "items": closed("role", "parts", role={"enum": ["user", "model"]}, parts=PARTS),
        },
        generationConfig=CONFIG,
        tools={"type": "array", "items": TOOL, "minItems": 1},
        toolConfig=closed(functionCallingConfig=CALLING),
    ),
    "dependentRequired": {"toolConfig": ["tools"]},
}
