"""Failures: what a response in OpenAI's error format, or no response at all, means for us.

A status decides little: a wrong key can be a 400, a missing capability a 403 or 404, an exhausted
quota a 429. So the vendor's code is asked first, then its wording, then the status. Wording is
trusted only where vendors put their reason, at the beginning: what follows may quote the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.protocol import Failure, HttpResponse, TransportFault
from weighbridge.providers.waits import should_retry, wait_s

RESPONSE_FORMAT = "response_format"

# What OpenAI and those who copied it write into `code` or `type`, in lower case; the numbers are
# Z.ai's.
_BY_CODE: dict[str, FailureKind] = {
    code: kind
    for kind, codes in {
        FailureKind.QUOTA: "insufficient_quota billing_not_active billing_hard_limit_reached"
        " exceeded_current_quota_error 1113 1308",
        FailureKind.CREDENTIAL: "invalid_api_key authentication_error account_deactivated"
        " unsupported_country_region_territory",
        FailureKind.MODEL_GONE: "model_not_found deploymentnotfound invalid_model unknown_model"
        " model_not_available model_decommissioned model_not_active model_terms_required"
        " tier_not_allowed 1211",
        FailureKind.FILTERED: "content_filter content_policy_violation data_inspection_failed",
        FailureKind.INVALID: "json_validate_failed tool_use_failed output_parse_failed",
        FailureKind.TOO_LONG: "context_length_exceeded exceed_context_size_error",
        FailureKind.CAPABILITY: "unsupported_parameter unsupported_value unknown_parameter"
        " extra_forbidden invalid_json_schema invalid_function_parameters",
    }.items()
    for code in codes.split()
}
_SCHEMA_CODES = frozenset({"invalid_json_schema", "invalid_function_parameters"})

_SCHEMA_REFUSED = re.compile(
    r"invalid (?:json )?schema for|json_schema is enabled only|failed to parse grammar"
    r"|failed to initialize samplers|schema conversion failed|too many states for serving"
    r"|schema is too complex|compiled grammar is too large|too many recursive definitions"
)
_REJECTED = re.compile(
    r"not supported (?:with|by|for)\b|does not support\b|not enabled for\b|deprecated for this"
    r"|unsupported (?:parameter|value)\b|unknown parameter\b|unknown name \""
    r"|unrecognized request argument|extra inputs are not permitted|not allowed to request logprobs"
    r"|no endpoints found that can handle the requested parameters"
)
# Too weak alone: the same words tell a caller that a number of his is out of range.
_LOGPROBS_LIMITED = re.compile(
    r"must be less than or equal to|greater than max allowed|expected a boolean"
)
_OUR_PARAMETER = re.compile(
    r"\b(top_logprobs|logprobs|seed|temperature|max_completion_tokens|max_tokens)\b"
    r"|response.format|structured.output|json.schema"
)
# In the order in which they are tried, under one of _REFUSALS.
_BY_WORDING: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        FailureKind.QUOTA,
        re.compile(r"credit balance is too low|insufficient (?:balance|credit|fund)"),
    ),
    (FailureKind.CREDENTIAL, re.compile(r"(?:invalid|incorrect) api key|api key not valid")),
    (
        FailureKind.MODEL_GONE,
        re.compile(
            r"\bmodel\b.{0,80}?(?:not exist|not found|been deprecated|decommissioned|retired)"
            r"|invalid model\b"
        ),
    ),
    (
        FailureKind.FILTERED,
        re.compile(
            r"(?:was|been|were) flagged|requires moderation|content management policy"
            r"|content policy|safety system"
        ),
    ),
    (
        FailureKind.TOO_LONG,
        re.compile(
            r"maximum context length|context (?:window|length of)|prompt is too long"
            r"|reduce the length of|exceeds the (?:available|model'?s) context"
        ),
    ),
    (FailureKind.TRUNCATED, re.compile(r"max_tokens or model output limit was reached")),
)
_TODAY_IS_OVER = re.compile(r"per[ -]day|\([tr]pd\)")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PARAMETER = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")
# Statuses that say "refused" and not why; 200 where an error stands inside without a status.
_REFUSALS = frozenset({200, 400, 403, 404, 422})
_REASON_CHARS = 300  # of a message; behind them, servers quote what they were sent
_MAX_ENVELOPES = 4  # error objects in each other, counted from the body


def classify(response: HttpResponse) -> Failure:
    """Why a response whose status is no success does not count."""
    return classify_error(response.status, response.headers, body_json(response.body))


def classify_error(status: int, headers: Mapping[str, str], body: Json) -> Failure:
    """The same for an error that did not come as a response of its own.

    Args:
        status: of the response, or the one that stands in the body of a 200.
        headers: names in lower case; empty where they belong to a success.
        body: with the error in any of the shapes that providers use; None if there is none.
    """
    error = _read(body)
    kind = _kind(status, error)
    names = [
        name
        for name in dict.fromkeys((error.code, error.type))
        if is_identifier(name) and name != str(status)
    ]
    return Failure(
        kind=kind,
        detail=", ".join([f"status {status}", *names]),
        status=status,
        wait_s=wait_s(headers, body, status=status),
        retry=should_retry(headers),
        parameter=_refused(error) if kind is FailureKind.CAPABILITY else None,
    )


def from_transport(fault: TransportFault) -> Failure:
    """Why no response came."""
    # A timeout has used up its attempt's whole time; another one would use up the next provider's.
    retry = False if fault is TransportFault.TIMEOUT else None
    return Failure(kind=FailureKind.TRANSIENT, detail=f"no response: {fault.value}", retry=retry)


def is_identifier(text: str) -> bool:
    """Whether a text of a vendor's can be shown: a code, never a sentence or an echo."""
    return _IDENTIFIER.fullmatch(text) is not None


def body_json(body: bytes) -> Json:
    """The JSON of a body, whatever its content type claims; None if it is none."""
    try:
        value: Json = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value


class _Error(NamedTuple):
    """What the shapes of an error body have in common; "" where something is missing."""

    message: str = ""
    code: str = ""
    type: str = ""
    param: str = ""

    @property
    def reason(self) -> str:
        return self.message[:_REASON_CHARS].lower()

    @property
    def codes(self) -> tuple[str, str]:
        return self.code.lower(), self.type.lower()

    @property
    def parameter(self) -> str:
        """The name of the parameter as a request has it, without the path below."""
        return re.split(r"[.\[]", self.param, maxsplit=1)[0]


def _kind(status: int, error: _Error) -> FailureKind:
    if status in _REFUSALS and error.parameter == "model":
        return FailureKind.MODEL_GONE  # though the code may say "unsupported value"
    for code in error.codes:
        if code in _BY_CODE:
            return _BY_CODE[code]
    if status in _REFUSALS and (kind := _kind_by_wording(error)):
        return kind
    return _kind_by_status(status, error)


def _kind_by_wording(error: _Error) -> FailureKind | None:
    for kind, wording in _BY_WORDING:
        if wording.search(error.reason):
            return kind
    if _SCHEMA_REFUSED.search(error.reason):
        return FailureKind.CAPABILITY
    # Without a code that says so, a refusal of the messages is about what they say.
    if _REJECTED.search(error.reason) and error.parameter not in ("messages", "input", "prompt"):
        return FailureKind.CAPABILITY
    if "logprobs" in (_refused(error) or "") and _LOGPROBS_LIMITED.search(error.reason):
        return FailureKind.CAPABILITY
    return None


def _kind_by_status(status: int, error: _Error) -> FailureKind:
    match status:
        case 402:
            return FailureKind.QUOTA
        case 401 | 403:
            return FailureKind.CREDENTIAL
        case 404 | 410:
            return FailureKind.MODEL_GONE
        case 413:
            # Groq's has the code of a rate limit, and no wait makes a request smaller.
            return FailureKind.TOO_LONG
        case 429:
            # Tokens per day come back tomorrow: for this deadline that is never.
            is_spent = _TODAY_IS_OVER.search(error.reason)
            return FailureKind.QUOTA if is_spent else FailureKind.RATE_LIMIT
        case 408 | 409 | 498:
            return FailureKind.TRANSIENT
        case 400 | 422 if error.message or error.code or error.type:
            return FailureKind.CALLER_FAULT
        case _:
            return FailureKind.TRANSIENT if 500 <= status <= 599 else FailureKind.UNKNOWN


def _refused(error: _Error) -> str | None:
    """The parameter that a capability failure is about; None if nobody names one."""
    if set(error.codes) & _SCHEMA_CODES or _SCHEMA_REFUSED.search(error.reason):
        return RESPONSE_FORMAT
    named = (
        _OUR_PARAMETER.fullmatch(error.parameter)
        if error.param
        else _OUR_PARAMETER.search(error.reason)
    )
    if named:
        return named[1] or RESPONSE_FORMAT
    return error.param if _PARAMETER.fullmatch(error.param) else None


def _read(body: Any, envelopes: int = _MAX_ENVELOPES) -> _Error:
    """The error in a body: an object, a text, flat, under `detail`, or a bare message."""
    if isinstance(body, list):
        body = body[0] if body else None
    if isinstance(body, str):
        return _Error(message=body)
    if not isinstance(body, dict) or not envelopes:
        return _Error()
    error = _Error(
        message=_text(body, "message") or _text(body, "msg"),
        code=_text(body, "code"),
        type=_text(body, "type") or _text(body, "status"),
        param=_text(body, "param") or _location(body),
    )
    for inner in _inside(body):
        found = _read(inner, envelopes - 1)
        error = _Error(*(new or old for new, old in zip(found, error, strict=True)))
    return error


def _inside(body: dict[str, Any]) -> list[Any]:
    """What may hold a more exact error than the object around it."""
    inside = [body[key] for key in ("detail", "error") if body.get(key)]
    if isinstance(body.get("message"), dict | list):  # Mistral wraps its validator like this
        inside.append(body["message"])
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        # OpenRouter says "Provider returned error" and keeps the provider's own body here.
        inside.append(body_json(raw.encode("utf-8", "replace")) or raw)
    return inside


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _location(body: dict[str, Any]) -> str:
    """The parameter in the `loc` of a pydantic error, as FastAPI servers send it."""
    loc = body.get("loc")
    parts = loc if isinstance(loc, list) else []
    return ".".join(part for part in parts if isinstance(part, str) and part != "body")
