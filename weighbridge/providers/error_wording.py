"""Error wording: the codes and sentences by which vendors are understood, as tables.

Sources: the vendors' error pages, SDKs and servers, recorded traffic, and public reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weighbridge.decision import FailureKind

# What stands in `code`, `type`, `status` or `reason`, in lower case. Kinds are asked in this order:
# a spent quota and a wrong key also come as rate limits. The numbers are Z.ai's and Mistral's.
CODES: Mapping[FailureKind, frozenset[str]] = {
    kind: frozenset(codes.split())
    for kind, codes in {
        FailureKind.QUOTA: "insufficient_quota billing_not_active billing_hard_limit_reached"
        " billing_error exceeded_current_quota_error enforced_spend_limit_reached"
        " blocked_api_access insufficient_balance 1113 1308",
        FailureKind.CREDENTIAL: "invalid_api_key authentication_error account_deactivated"
        " organization_restricted unsupported_country_region_territory api_key_invalid"
        " api_key_service_blocked service_disabled consumer_suspended unauthenticated",
        FailureKind.MODEL_GONE: "model_not_found deploymentnotfound invalid_model unknown_model"
        " model_not_available model_decommissioned model_not_active model_terms_required"
        " model_not_supported model_not_loaded tier_not_allowed operationnotsupported"
        " 1211 1500 1910",
        FailureKind.FILTERED: "content_filter content_policy_violation data_inspection_failed"
        " responsibleaipolicyviolation",
        FailureKind.INVALID: "json_validate_failed tool_use_failed output_parse_failed",
        FailureKind.TOO_LONG: "context_length_exceeded exceed_context_size_error request_too_large",
    }.items()
}
REFUSED_CODES = frozenset(
    {"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden", "3051"}
)
SCHEMA_CODES = frozenset({"invalid_json_schema"})
TOOL_SCHEMA_CODES = frozenset({"invalid_function_parameters"})

# For errors under a good status that name none.
STATUSES: Mapping[str, int] = {
    "badrequesterror": 400,
    "failed_precondition": 400,
    "invalid_argument": 400,
    "invalid_request_error": 400,
    "authenticationerror": 401,
    "permission_denied": 403,
    "permission_error": 403,
    "permissiondeniederror": 403,
    "not_found": 404,
    "not_found_error": 404,
    "notfounderror": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "rate_limited": 429,
    "ratelimiterror": 429,
    "resource_exhausted": 429,
    "too_many_requests": 429,
    "api_error": 500,
    "internal": 500,
    "internal_server_error": 500,
    "internalservererror": 500,
    "server_error": 500,
    "service_unavailable": 503,
    "serviceunavailableerror": 503,
    "unavailable": 503,
    "unavailable_error": 503,
    "deadline_exceeded": 504,
    "timeout_error": 504,
    "overloaded_error": 529,
}

# A trail shows these alone: whatever else stands where a code should be may be anything.
_PLAIN = (  # these say nothing about what to do
    "1300 badrequest decimal_above_max_value decimal_below_min_value integer_above_max_value"
    " integer_below_min_value invalid_request invalid_type invalid_value missing"
    " missing_required_parameter not_supported_error requests string_above_max_length tokens"
    " value_error"
)
SHOWN = frozenset(_PLAIN.split()).union(
    REFUSED_CODES, SCHEMA_CODES, TOOL_SCHEMA_CODES, STATUSES, *CODES.values()
)

# What a refusal says for people; in the order in which it is asked.
WORDING: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        FailureKind.QUOTA,
        re.compile(
            r"credit balance is too low|insufficient (?:balance|credit|fund|quota)"
            r"|credits are depleted|requires more credits|can only afford|any credits yet"
            r"|used all available credits|(?:spend|spending) (?:limit|cap)\b"
            r"|reached your (?:\w+ ){0,3}usage limits?\b|key limit exceeded"
        ),
    ),
    (
        FailureKind.CREDENTIAL,
        re.compile(
            r"(?:invalid|incorrect) (?:x-)?api.key|api key (?:not valid|expired)"
            r"|location is not supported|not available in your (?:country|region)"
            r"|organization has been disabled"
        ),
    ),
    (
        FailureKind.MODEL_GONE,
        re.compile(
            r"\bmodels?\b.{0,80}?(?:not exist|not found|been deprecated|decommissioned|retired"
            r"|no longer available|end of its life|identifier is invalid)"
            r"|invalid model\b|not a valid model|have access to (?:the )?model\b|not a chat model"
            r"|does not support (?:chat|generate|completion)\b|unexpected endpoint or method"
            r"|model is not loaded|no models? loaded"
        ),
    ),
    (
        FailureKind.FILTERED,
        re.compile(
            r"(?:was|been|were) flagged|requires moderation|content management policy"
            r"|content polic(?:y|ies)|content filtering policy|usage (?:guidelines|polic)"
            r"|safety system|content exists risk|violation of provider terms"
        ),
    ),
    (
        FailureKind.TOO_LONG,
        re.compile(
            r"max(?:imum)? context length|context window|(?:prompt|input) is too long"
            r"|reduce the length of|exceeds? (?:the )?(?:available|model'?s)? ?context"
            r"|token count .{0,40}?exceeds|maximum prompt length"
            r"|max_new_tokens\W+must be"
        ),
    ),
    (FailureKind.INVALID, re.compile(r"model produced invalid")),
    (FailureKind.TRUNCATED, re.compile(r"max_tokens or model output limit was reached")),
)

# Of a model that is gone: whether it is one, or the whole address is wrong.
NO_PATH = re.compile(r"endpoint or method|(?:invalid|unknown|unrecognized) (?:request )?url")
MODEL_NAMED = re.compile(r"model|deployment|no endpoints found")

# Of a 429: waiting does not help before tomorrow, which is never for any deadline.
SPENT = re.compile(r"per[ -]?day|daily (?:limit|quota)|\blimit: 0\b")

# Of an error under a good status that nothing else explains.
TROUBLE: tuple[tuple[int, re.Pattern[str]], ...] = (
    (429, re.compile(r"rate.?limit|too many requests")),
    (
        503,
        re.compile(
            r"overloaded|server busy|try again|temporarily|loading model|timed out"
            r"|internal (?:server )?error|upstream|error was encountered"
        ),
    ),
)

# The schema itself, and not schemas at all.
SCHEMA_REFUSED = re.compile(
    r"invalid (?:json )?schema (?:for|in)\b|schema conversion failed|too many states for serving"
    r"|\bschemas?\b.{0,60}?(?:exceeds|too (?:many|deep|large|long|complex))|too many strict tools"
    r"|compiled grammar is too large|too many recursive definitions"
    r"|schema contains features not supported|failed to initialize samplers"
    r"|fail(?:ed|s|ure)? to (?:parse|compile|convert|build|create)\b.{0,30}(?:grammar|schema)"
)
# Each names what it refuses.
UNKNOWN_NAME = re.compile(
    r"unrecognized request arguments? supplied:? (?P<a>[\w.]+)"
    r"|(?:unknown|unsupported) (?:parameter|argument|field)s?:? [\"'`]?(?P<b>[\w.\[\]]+)"
    r"|unknown name [\"']?(?P<c>[\w.]+)"
    r"|extraneous key \[(?P<d>\w+)\]"
    r"|cannot unmarshal \w+ into go struct field \w*\.(?P<e>[\w.]+)"
)
EXTRA_INPUT = re.compile(r"extra inputs? (?:are|is) not permitted|extra_forbidden")
# Too weak without the name of a parameter beside it.
REJECTED = re.compile(
    r"\bnot (?:yet |currently )?(?:supported|enabled|available|allowed|permitted)\b"
    r"|n['\u2019]t supported|not accepted|supported values are|any of the expected tags"
    r"|\bunsupported\b|does(?: not|n't) support\b|is deprecated\b|is unavailable\b"
    r"|may not be enabled|may only be set to|must be set to false|enabled only for"
    r"|only supported (?:with|on|by|for)"
    r"|no endpoints found that support|expected an? (?:boolean|integer)"
    r"|only works in thinking mode|budget -?\d+ is invalid"
)
# A rejection that is about the model needs no name: whatever it lacks, another one may have.
OF_THE_MODEL = re.compile(r"does(?: not|n't) support\b|\b(?:model|endpoint|deployment)s?\b")
NO_ENDPOINT = re.compile(r"no endpoints found that can handle the requested parameters")
ALLOWED_FORMATS = re.compile(r"(?:must be|supported values are:?) (?P<allowed>.{0,60}json_.{0,20})")

_N = r"[`'\"]?(\d[\d,]*(?:\.\d+)?)"
LIMIT = re.compile(
    rf"less than or equal to {_N}|(?:<=|at most|not exceed|max(?:imum)? allowed:?) {_N}"
    rf"|between \d+ and {_N}|\[ ?\d+, ?(\d+) ?\]|\d > {_N}, which is the maximum"
    rf"|maximum output tokens \({_N}\)|to (?P<above>\d+) \(exclusive\)"
)
