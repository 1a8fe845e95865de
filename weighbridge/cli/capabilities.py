"""Capabilities for people: facts in plain words, in tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from weighbridge.capability import NOTHING_KNOWN, Fact, Feature, Origin, Status
from weighbridge.cli.output import harmless, plain_table, stderr, stdout
from weighbridge.decision import Json

if TYPE_CHECKING:
    from weighbridge.cli.endpoints import ProbeResult

NAMES: Mapping[Feature, str] = {
    Feature.JSON_SCHEMA: "strict JSON schema",
    Feature.TOOL: "strict tool call",
    Feature.JSON_OBJECT: "JSON mode",
    Feature.THINKING_WITH_SCHEMA: "thinking with a schema",
    Feature.LOGPROBS: "log-probabilities",
    Feature.TOP_LOGPROBS: "alternatives listed",
    Feature.MASK_ORDER: "probabilities taken",
    Feature.LOGIT_BIAS: "logit bias",
    Feature.SEED: "seed",
    Feature.TEMPERATURE: "temperature",
    Feature.MAX_TOKENS: "max_tokens",
    Feature.MAX_COMPLETION_TOKENS: "max_completion_tokens",
    Feature.REASONING: "control of thinking",
}
_STATUSES: Mapping[Status, str] = {
    Status.SUPPORTED: "yes",
    Status.UNSUPPORTED: "no",
    Status.CONDITIONAL: "depends",
    Status.PARTIAL: "partly",
    Status.IGNORED: "taken, no effect",
    Status.UNKNOWN: "unknown",
}
_ORIGINS: Mapping[Origin, str] = {
    Origin.DECLARED: "table",
    Origin.PROBED: "probed",
    Origin.LEARNED: "learned",
}
_VALUES: Mapping[str, str] = {
    "before_mask": "before the mask",
    "after_mask": "after the mask",
    "unknown": "unknown",
    "not_applicable": "-",
    "thinking_off": "thinking off",
    "not_off": "thinking on",
}
_NAME_WIDTH, _CELL_WIDTH = 24, 22


def feature_name(feature: str) -> str:
    """What a feature is called for people; one schema's own fact says whose it is.

    >>> feature_name("logprobs"), feature_name("json_schema_strict:1f0c")
    ('log-probabilities', 'strict JSON schema (schema 1f0c)')
    """
    name, _, schema = feature.partition(":")
    plain = NAMES[Feature(name)] if name in set(Feature) else name
    return f"{plain} (schema {schema})" if schema else plain


def fact_words(feature: str, fact: Fact) -> str:
    """What is known, without who says so.

    >>> fact_words("top_logprobs", Fact(status=Status.SUPPORTED, limit=5.0))
    'yes, up to 5'
    >>> fact_words("logprobs_vs_mask", Fact(status=Status.SUPPORTED, value="after_mask"))
    'after the mask'
    """
    value = _VALUES.get(fact.value or "", fact.value or "")
    if feature == Feature.MASK_ORDER:
        return harmless(value or "unknown", limit=_CELL_WIDTH)
    words = _STATUSES[fact.status]
    if value and fact.is_usable:
        words = f"{words}: {value}"
    if fact.limit is not None and fact.is_usable:
        words = f"{words}, up to {fact.limit:g}"
    return harmless(words, limit=40)


def origin_words(fact: Fact) -> str:
    """Who says so, and since when.

    >>> origin_words(Fact(status=Status.SUPPORTED))
    'table'
    """
    day = "" if fact.checked is None else f" {fact.checked:%Y-%m-%d}"
    return f"{_ORIGINS[fact.origin]}{day}"


def fact_json(fact: Fact) -> dict[str, Json]:
    """A fact with everything that is known of it."""
    return {
        "status": fact.status.value,
        "origin": fact.origin.value,
        "limit": fact.limit,
        "value": fact.value,
        "note": fact.note,
        "source": fact.source,
        "checked": None if fact.checked is None else fact.checked.isoformat(),
        "expires": None if fact.expires is None else fact.expires.isoformat(),
        "server": fact.server,
    }


def print_matrix(console: Console, facts: Mapping[str, Mapping[str, Fact]]) -> None:
    """Features by providers; one below the other where they do not fit beside each other.

    Args:
        console: where to.
        facts: by name of the provider, then by feature.
    """
    per_table = max(1, (console.width - _NAME_WIDTH) // (_CELL_WIDTH + 2))
    names = list(facts)
    for i in range(0, len(names), per_table):
        console.print(_matrix({name: facts[name] for name in names[i : i + per_table]}))


def print_probe(result: ProbeResult) -> None:
    """What was found, beside what the table says."""
    console = stdout()
    model = harmless(result.model, limit=60)
    cost = f": {result.num_calls} calls, {result.num_tokens} tokens" if result.num_calls else ""
    console.print(f"{result.name} ({model}){cost}")
    if result.facts:
        table = plain_table("feature", "found", "the table says", "news")
        for feature, fact in result.facts.items():
            found, said = fact_words(feature, fact), _said(result, feature)
            table.add_row(feature_name(feature), found, said, _mark(result, feature))
        console.print(table)
    if result.failure:
        stderr().print(f"{result.name}: not probed to the end: {harmless(result.failure)}")


def probe_json(result: ProbeResult) -> dict[str, Json]:
    """The same for programs, with everything that is known of each fact."""
    return {
        "name": result.name,
        "model": result.model,
        "calls": result.num_calls,
        "tokens": result.num_tokens,
        "failure": result.failure or None,
        "facts": {
            feature: {
                **fact_json(fact),
                "declared": fact_json(declared)
                if (declared := result.declared.get(feature))
                else None,
                "is_changed": _is_changed(result, feature),
                "is_believed": result.believed.get(feature) == fact,
            }
            for feature, fact in result.facts.items()
        },
    }


def _matrix(facts: Mapping[str, Mapping[str, Fact]]) -> Table:
    table = plain_table("feature", *map(harmless, facts))
    for feature in _features(list(facts.values())):
        cells = [_cell(feature, known.get(feature, NOTHING_KNOWN)) for known in facts.values()]
        table.add_row(feature_name(feature), *cells)
    return table


def _features(facts: Sequence[Mapping[str, Fact]]) -> list[str]:
    """Those of `Feature` in their order, then single schemas; the rest is for programs."""
    own = [feature for known in facts for feature in known if ":" in feature]
    return [*Feature, *dict.fromkeys(own)]


def _cell(feature: str, fact: Fact) -> str:
    """What is known, and who says so; that nothing is known needs nobody to say it."""
    words = fact_words(feature, fact)
    return words if fact.status is Status.UNKNOWN else f"{words}\n{origin_words(fact)}"


def _said(result: ProbeResult, feature: str) -> str:
    declared = result.declared.get(feature)
    return "nothing" if declared is None else fact_words(feature, declared)


def _mark(result: ProbeResult, feature: str) -> str:
    """What is remarkable about a fact that was found."""
    believed = result.believed.get(feature)
    if believed is not None and believed != result.facts[feature]:
        # A refusal of a real request goes before a probe.
        return f"overridden: {fact_words(feature, believed)}, {origin_words(believed)}"
    return "changed" if _is_changed(result, feature) else ""


def _is_changed(result: ProbeResult, feature: str) -> bool:
    fact, declared = result.facts[feature], result.declared.get(feature)
    return declared is None or (
        (fact.status, fact.limit, fact.value) != (declared.status, declared.limit, declared.value)
    )
