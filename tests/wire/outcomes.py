"""Outcomes: the corpus's names for what an exchange shows, as our kinds of failure.

The only place where the two vocabularies meet.
"""

from __future__ import annotations

from weighbridge.decision import FailureKind

# None: a reply. The second group are the names of an error's normalised outcomes that no exchange
# of the corpus has as its label.
KINDS: dict[str, FailureKind | None] = {
    "success": None,
    "refusal": FailureKind.REFUSAL,
    "content_filter": FailureKind.FILTERED,
    "truncated": FailureKind.TRUNCATED,
    "empty": FailureKind.INVALID,
    "generation_failed": FailureKind.INVALID,
    "capability_missing": FailureKind.CAPABILITY,
    "schema_rejected": FailureKind.CAPABILITY,  # and told apart by `Failure.is_schema`
    "auth": FailureKind.CREDENTIAL,
    "not_found": FailureKind.MODEL_GONE,
    "rate_limited": FailureKind.RATE_LIMIT,
    "quota": FailureKind.QUOTA,
    "server_error": FailureKind.TRANSIENT,
    "bad_request": FailureKind.CALLER_FAULT,
    "quota_exhausted": FailureKind.QUOTA,
    "overloaded": FailureKind.TRANSIENT,
    "timeout": FailureKind.TRANSIENT,
    "too_large": FailureKind.TOO_LONG,
}
# What `retryable` means there: the same request may succeed later, or, for an answer that broke the
# format, when it is simply asked again.
RETRYABLE = frozenset({FailureKind.TRANSIENT, FailureKind.RATE_LIMIT, FailureKind.INVALID})

PROFILES = {
    "openai": "openai",
    "openai-responses": "openai",
    "azure": "azure_openai",
    "groq": "groq",
    "openrouter": "openrouter",
    "vllm": "vllm",
    "openai-compatible:llama-server": "llama_cpp_server",
    "openai-compatible:ollama": "ollama_openai_compat",
    "gemini": "gemini_native",
    "vertex": "gemini_native",
    "ollama": "ollama_native",
    "anthropic": "anthropic",
}


def profile_name(kind: str, known: frozenset[str]) -> str:
    """The profile that speaks a kind of exchange; any follower of OpenAI's is its generic one."""
    own = PROFILES.get(kind) or kind.rpartition(":")[2]
    return own if own in known else "openai_compatible"
