"""What Ollama's `/api/chat` reads, as a JSON Schema of whole requests.

Written from api/types.go, not from what we send: closed objects, so that a misspelt field fails,
which the server would skip without a word.
"""

from __future__ import annotations

from typing import Any

from openai_request_schemas import COUNT, MESSAGES, NUMBER, SCHEMA, SEED, TEXT, closed

OPTIONS = closed(
    num_ctx=COUNT,
    num_predict={"type": "integer", "minimum": -1},
    num_keep={"type": "integer"},
    seed=SEED,
    temperature=NUMBER,
    top_k={"type": "integer"},
    top_p={"type": "number"},
    min_p={"type": "number"},
    stop={"type": "array", "items": TEXT},
)

REQUEST: dict[str, Any] = {
    **closed(
        "model",
        "messages",
        "stream",  # true where it is left out
        model=TEXT,
        messages=MESSAGES,
        stream={"const": False},
        format={"anyOf": [{"const": "json"}, SCHEMA]},
        options=OPTIONS,
        think={"enum": [True, False, "low", "medium", "high", "max"]},
        truncate={"type": "boolean"},
        shift={"type": "boolean"},
        logprobs={"type": "boolean"},
        top_logprobs={"type": "integer", "minimum": 0, "maximum": 20},
        keep_alive={"type": ["string", "number"]},
    ),
    "dependentRequired": {"top_logprobs": ["logprobs"]},
}
