"""Names of OpenTelemetry attributes and metrics, each with its source; every string stands here.

The GenAI names are at the stage "Development" and have a repository of their own by now:
github.com/open-telemetry/semantic-conventions-genai, below as GENAI, read at commit 004902b8.
Stable names are those of github.com/open-telemetry/semantic-conventions 1.42.0, below as SEMCONV.
Names that begin with `weighbridge.` are ours: the conventions have none for what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SCOPE: Final = "weighbridge"  # of tracer and meter

# Spans. Source: GENAI docs/gen-ai/gen-ai-spans.md, "Inference"; gen-ai-agent-spans.md,
# "Invoke workflow": named `{operation} {model}` and `{operation} {workflow}`.
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"  # string[]
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
OUTPUT_TYPE: Final = "gen_ai.output.type"
WORKFLOW: Final = "gen_ai.workflow.name"

# Values. Source: GENAI docs/registry/attributes/gen-ai.md.
CHAT: Final = "chat"
INVOKE_WORKFLOW: Final = "invoke_workflow"
JSON: Final = "json"
LOCAL_PROVIDER: Final = "weighbridge"  # a value of our own: the engine in this process
# By the name of our profile; the vendors that are not in the list keep the profile's name.
PROVIDERS: Final[Mapping[str, str]] = {
    "azure_openai": "azure.ai.openai",
    "deepseek_beta": "deepseek",
    "gemini_native": "gcp.gemini",
    "gemini_openai_compat": "gcp.gemini",
    "mistral": "mistral_ai",
    "ollama_cloud": "ollama",
    "ollama_native": "ollama",
    "ollama_openai_compat": "ollama",
    "openai_compatible": "openai",  # the flavour, where nobody knows the vendor
    "xai": "x_ai",
}

# Source: SEMCONV docs/registry/attributes/error.md, server.md, http.md.
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
STATUS_CODE: Final = "http.response.status_code"

# Metrics. Source: GENAI docs/gen-ai/gen-ai-metrics.md, with the boundaries that it asks for.
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"  # histogram, s
WORKFLOW_DURATION: Final = "gen_ai.workflow.duration"  # histogram, s
TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 - histogram, {token}
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - "input" or "output"
SECONDS_BOUNDARIES: Final = tuple(0.01 * 2**n for n in range(14))
TOKEN_BOUNDARIES: Final = tuple(4**n for n in range(14))

# Ours.
ATTEMPTS: Final = "weighbridge.attempts"  # counter, {attempt}
DECISIONS: Final = "weighbridge.decisions"  # counter, {decision}
COST: Final = "weighbridge.cost"  # counter, USD; also the attribute of an attempt's span
OUTCOME: Final = "weighbridge.outcome"  # "answered", or the kind of failure
CONFIGURED: Final = "weighbridge.provider"  # the provider's name in the configuration
MODE: Final = "weighbridge.mode"  # how the schema was enforced
DROPPED: Final = "weighbridge.dropped"  # string[], tuning parameters that were left out
PURPOSE: Final = "weighbridge.purpose"  # "weigh": requests that only weigh an answer
WAITED: Final = "weighbridge.waited"  # s, before the attempt
TICKET_ID: Final = "weighbridge.ticket.id"
STATUS: Final = "weighbridge.status"  # "accepted" or "review"
REASON: Final = "weighbridge.reason"  # the weightiest one; on metrics, so that counts add up
REASONS: Final = "weighbridge.reasons"  # string[], all of them
CERTIFICATE: Final = "weighbridge.certificate"  # id of the one behind an acceptance
CERTIFIED_RISK: Final = "weighbridge.certified_risk"
NUM_ATTEMPTS: Final = "weighbridge.num_attempts"
NOT_ASKED: Final = "weighbridge.not_asked"  # event: a provider was passed over
