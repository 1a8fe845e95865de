"""Failures: what an error response of any vendor, or no response at all, means for us.

A status decides little: a wrong key can be a 400, a missing capability a 403 or 404, an exhausted
quota a 429. So codes are asked first, then the vendor's own words, then the status. Quota,
credential and model come before the rate limit, which waiting cures and they are not cured by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.error_bodies import ErrorBody, body_json, read_error
from weighbridge.providers.error_wording import (
    CODES,
    MODEL_NAMED,
    NO_PATH,
    SHOWN,
    SPENT,
    STATUSES,
    TROUBLE,
    WORDING,
)
from weighbridge.providers.protocol import Failure, HttpResponse, TransportFault
from weighbridge.providers.refusals import (
    Refusal,
    is_about_content,
    is_about_model,
    refusal,
    schema_refusal,
)
from weighbridge.providers.waits import should_retry, wait_s

__all__ = ["body_json", "classify", "classify_error", "from_transport", "is_identifier"]

_IDENTIFIER = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Statuses that say "refused" and not why; 200 where an error stands inside without a status.
_REFUSALS = frozenset({200, 400, 403, 404, 422, 501})
_SHOWN_CODES = 3


def classify(response: HttpResponse) -> Failure:
    """Why a response does not count: a bad status, or an error in the body of a good one."""
    failure = classify_error(response.status, response.headers, body_json(response.body))
    return _behind_a_page(failure) if response.body.lstrip()[:1] == b"<" else failure


def classify_error(status: int, headers: Mapping[str, str], body: Json) -> Failure:
    """The same for an error that did not come as a response of its own.

    Args:
        status: of the response, or the one that stands in the body of a 200.
        headers: names in lower case; those of a success are not read.
        body: with the error in any of the shapes that providers use; None if there is none.
    """
    error = read_error(body)
    place = ""
    if 200 <= status <= 299:
        headers = {}  # a `retry-after` on a success is about something else
        if inner := _status_inside(error):
            status, place = inner, f" inside a {status}"
    kind, refused = _kind(status, error)
    codes = [code for code in error.codes if code in SHOWN][:_SHOWN_CODES]
    is_path = kind is FailureKind.MODEL_GONE and _is_path(status, error)
    unknown = ["no known error"] if kind is FailureKind.UNKNOWN else []
    nothing = ["nothing at this path"] if is_path else []
    return Failure(
        kind=kind,
        detail=", ".join([f"status {status}{place}", *codes, *unknown, *nothing]),
        status=status,
        wait_s=wait_s(headers, body, status=status),
        retry=should_retry(headers),
        parameter=refused.feature.value if refused and refused.feature else None,
        is_schema=refused is not None and refused.is_schema,
        is_path=is_path,
        limit=refused.limit if refused else None,
    )


def from_transport(fault: TransportFault) -> Failure:
    """Why no response came over a connection."""
    # A timeout has used up its attempt's whole time; another one would use up the next provider's.
    retry = False if fault is TransportFault.TIMEOUT else None
    return Failure(kind=FailureKind.TRANSIENT, detail=f"no response: {fault.value}", retry=retry)


def is_identifier(text: str) -> bool:
    """Whether a text of a vendor's can be shown: a word, never a sentence or an echo."""
    return _IDENTIFIER.fullmatch(text) is not None


def _behind_a_page(failure: Failure) -> Failure:
    """A page for people comes from a proxy or a firewall, which say nothing about a key."""
    kind = FailureKind.UNKNOWN if failure.status == 403 else failure.kind
    return Failure(
        kind=kind,
        detail=f"status {failure.status}, a web page and no answer of the provider's",
        status=failure.status,
        wait_s=failure.wait_s,
        retry=failure.retry,
        is_path=failure.is_path,
    )


def _is_path(status: int, error: ErrorBody) -> bool:
    """Whether a 404 is about the address: servers without the model say so, others say nothing."""
    if any(NO_PATH.search(reason) for reason in error.reasons):
        return True
    if status not in (404, 410) or CODES[FailureKind.MODEL_GONE].intersection(error.codes):
        return False
    return not any(MODEL_NAMED.search(text) for text in (*error.reasons, error.place))


def _status_inside(error: ErrorBody) -> int | None:
    """The status that an error inside a success stands for."""
    if error.status is not None and not 200 <= error.status <= 299:
        return error.status
    return next((STATUSES[code] for code in error.codes if code in STATUSES), None)


def _kind(status: int, error: ErrorBody) -> tuple[FailureKind, Refusal | None]:
    """The kind, and what is refused where it is a missing capability."""
    for kind, codes in CODES.items():
        if codes.intersection(error.codes):
            return kind, None
    if error.has_generation:
        return FailureKind.INVALID, None
    if status == 429:
        return (FailureKind.QUOTA if _is_spent(error) else FailureKind.RATE_LIMIT), None
    if status in _REFUSALS:
        if is_about_model(error):
            return FailureKind.MODEL_GONE, None  # though the code may say "unsupported value"
        if error.is_flagged:
            return FailureKind.FILTERED, None
        if kind_told := _kind_by_wording(error):
            return kind_told, None
    refused = refusal(error) if status in _REFUSALS else None
    if status == 500:
        refused = schema_refusal(error)  # Ollama's way to refuse one
    return (FailureKind.CAPABILITY, refused) if refused else (_kind_by_status(status, error), None)


def _kind_by_wording(error: ErrorBody) -> FailureKind | None:
    # About a ticket only this is said; the rest would be the ticket's own words.
    about_content = (FailureKind.FILTERED, FailureKind.TOO_LONG)
    is_content = is_about_content(error.place)
    return next(
        (
            kind
            for kind, wording in WORDING
            if _says(error, wording) and (not is_content or kind in about_content)
        ),
        None,
    )


def _kind_by_status(status: int, error: ErrorBody) -> FailureKind:
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
        case 408 | 409 | 424 | 425 | 498 | 499:
            return FailureKind.TRANSIENT
        case 400 | 422 if error.reasons or error.codes:
            # Google's word for an account that may not use the service at all.
            is_account = "failed_precondition" in error.codes
            return FailureKind.CREDENTIAL if is_account else FailureKind.CALLER_FAULT
        case 200:
            implied = (implied for implied, wording in TROUBLE if _says(error, wording))
            return {429: FailureKind.RATE_LIMIT, 503: FailureKind.TRANSIENT}.get(
                next(implied, 0), FailureKind.UNKNOWN
            )
        case _:
            return FailureKind.TRANSIENT if 500 <= status <= 599 else FailureKind.UNKNOWN


def _is_spent(error: ErrorBody) -> bool:
    """Whether what a 429 limits does not come back while anybody waits."""
    quota = next(wording for kind, wording in WORDING if kind is FailureKind.QUOTA)
    return (
        _says(error, SPENT) or _says(error, quota) or any("perday" in code for code in error.codes)
    )


def _says(error: ErrorBody, wording: re.Pattern[str]) -> bool:
    return any(wording.search(reason) for reason in error.reasons)
