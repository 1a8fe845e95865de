"""Refusals: which parameter of a request a provider does not take, by our name for it.

A refusal is told by a code, or by wording together with the name of a parameter: a sentence that
merely mentions `response_format` refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weighbridge.capability import Feature
from weighbridge.providers.error_bodies import ErrorBody
from weighbridge.providers.error_wording import (
    ALLOWED_FORMATS,
    EXTRA_INPUT,
    LIMIT,
    NO_ENDPOINT,
    OF_THE_MODEL,
    REFUSED_CODES,
    REJECTED,
    SCHEMA_CODES,
    SCHEMA_REFUSED,
    TOOL_SCHEMA_CODES,
    UNKNOWN_NAME,
)

# What the wires call it, as part of a path: lower case, without underscores.
_FEATURES: Mapping[str, Feature] = {
    name: feature
    for feature, names in {
        Feature.TOP_LOGPROBS: "toplogprobs",
        Feature.LOGPROBS: "logprobs responselogprobs",
        Feature.LOGIT_BIAS: "logitbias",
        Feature.SEED: "seed randomseed",
        Feature.TEMPERATURE: "temperature",
        Feature.MAX_COMPLETION_TOKENS: "maxcompletiontokens",
        Feature.MAX_TOKENS: "maxtokens maxoutputtokens maxnewtokens numpredict",
        Feature.REASONING: "reasoningeffort reasoning think thinking thinkingconfig thinkingbudget"
        " thinkinglevel enablethinking effort chattemplatekwargs",
        Feature.TOOL: "tools tool toolchoice toolconfig functiondeclarations functions"
        " functioncallingconfig functioncall paralleltoolcalls",
        Feature.JSON_OBJECT: "jsonobject",
        Feature.JSON_SCHEMA: "responseformat outputformat outputconfig format jsonschema"
        " responsejsonschema responseschema responsemimetype structuredoutputs guidedjson",
    }.items()
    for name in names.split()
}
# In a sentence: the same, as far as they are no words of English that could mean something else.
_SPOKEN: Mapping[Feature, re.Pattern[str]] = {
    feature: re.compile(rf"\b(?:{pattern})\b")
    for feature, pattern in {
        Feature.TOP_LOGPROBS: r"top_?logprobs",
        Feature.LOGPROBS: r"(?:response_?)?logprobs?|log probabilities",
        Feature.LOGIT_BIAS: r"logit_?bias",
        Feature.SEED: r"(?:random_)?seed",
        Feature.TEMPERATURE: "temperature",
        Feature.MAX_COMPLETION_TOKENS: "max_completion_tokens",
        Feature.MAX_TOKENS: r"max_(?:output_|new_)?tokens|maxoutputtokens|completion tokens",
        Feature.REASONING: r"reasoning(?:_effort)?|(?:enable_)?thinking\w*|think value"
        r"|effort level",
        Feature.TOOL: r"tools?|tool_(?:choice|use|calls?)|function[_ ]call(?:ing|s)?",
        Feature.JSON_OBJECT: "json_object",
        Feature.JSON_SCHEMA: r"response[_ ]format|response_?(?:json_?)?schema|responsemimetype"
        r"|output[_ ]format|output_config(?:\.format)?|json[_ ](?:schema|mode)"
        r"|structured[_ ]outputs?",
    }.items()
}
_SCHEMA_FIELDS = frozenset({"responseschema", "responsejsonschema"})
_BELOW = frozenset({"schema", "parameters", "parametersjsonschema", "inputschema"})
# Only say where a parameter stands, unless nothing follows.
_CONTAINERS = frozenset({"options", "text", "config", "generationconfig", "outputconfig"})
_CONTENT = frozenset(
    {"messages", "contents", "content", "input", "prompt", "system", "systeminstruction"}
)
# With these a limit is a fact about the model; with others, the caller's number is out of range.
_LIMITED = frozenset(
    {
        Feature.LOGPROBS,
        Feature.TOP_LOGPROBS,
        Feature.MAX_TOKENS,
        Feature.MAX_COMPLETION_TOKENS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What a provider does not take.

    Args:
        feature: None where it names nothing that we know.
        is_schema: this one schema, and not schemas at all.
        limit: the largest value that it would take.
    """

    feature: Feature | None
    is_schema: bool = False
    limit: float | None = None


def refusal(error: ErrorBody) -> Refusal | None:
    """What an error refuses; None if it is about something else."""
    about = (_schema_refusal, _limit_refusal, _coded_refusal, _named_refusal, _spoken_refusal)
    return next((found for read in about if (found := read(error))), None)


def is_about_model(error: ErrorBody) -> bool:
    """Whether the parameter that an error is about is the model's name."""
    return error.place.partition(".")[0] == "model"


def is_about_content(path: str) -> bool:
    """Whether a path leads to what a request says, and not to how it is asked."""
    return next(iter(_steps(path)), "") in _CONTENT


def schema_refusal(error: ErrorBody) -> Refusal | None:
    """The refusal of one schema, in the vendor's sentences; servers also send it as a 500."""
    codes = set(error.codes)
    is_told = any(SCHEMA_REFUSED.search(reason) for reason in error.reasons)
    is_told = is_told and not is_about_content(error.place)
    if not (is_told or codes & (SCHEMA_CODES | TOOL_SCHEMA_CODES)):
        return None
    is_tool = bool(codes & TOOL_SCHEMA_CODES) or _at(error.place) is Feature.TOOL
    return Refusal(feature=Feature.TOOL if is_tool else Feature.JSON_SCHEMA, is_schema=True)


def _schema_refusal(error: ErrorBody) -> Refusal | None:
    return schema_refusal(error) or _refusal_below(error)


def _refusal_below(error: ErrorBody) -> Refusal | None:
    """A refusal of something inside the schema that was sent."""
    steps = _steps(error.place)
    feature = _at(error.place)
    if feature not in (Feature.TOOL, Feature.JSON_SCHEMA):
        return None
    if not set(steps) & (_BELOW | _SCHEMA_FIELDS):
        return None
    names_it = any(
        _SPOKEN[Feature.JSON_SCHEMA].search(sentence) and REJECTED.search(sentence)
        for sentence in _sentences(error)
    )
    if names_it and steps[-1] in _SCHEMA_FIELDS:
        return None
    return Refusal(feature=feature, is_schema=True)


def _limit_refusal(error: ErrorBody) -> Refusal | None:
    for sentence in _sentences(error):
        number = LIMIT.search(sentence)
        if number is None:
            continue
        feature = _at(error.place) or next(_spoken(sentence), None)
        if feature in _LIMITED and not is_about_content(error.place):
            limit = float(next(filter(None, number.groups())).replace(",", ""))
            limit -= number["above"] is not None
            # Older wires have one field for both; what is limited is the number of alternatives.
            feature = Feature.TOP_LOGPROBS if feature is Feature.LOGPROBS else feature
            return Refusal(feature=feature, limit=limit)
    return None


def _coded_refusal(error: ErrorBody) -> Refusal | None:
    if not REFUSED_CODES.intersection(error.codes):
        return None
    return Refusal(feature=_feature(error, " ".join(error.reasons)))


def _named_refusal(error: ErrorBody) -> Refusal | None:
    """Sentences that say which name they refuse, or whose path does."""
    for reason in error.reasons:
        if NO_ENDPOINT.search(reason):
            return Refusal(feature=None)
        if is_about_content(error.place):
            continue
        if formats := ALLOWED_FORMATS.search(reason):
            takes_schema = "json_schema" in formats["allowed"]
            return Refusal(feature=Feature.JSON_OBJECT if takes_schema else Feature.JSON_SCHEMA)
        if named := UNKNOWN_NAME.search(reason):
            return Refusal(feature=_at(next(filter(None, named.groups()))))
        if EXTRA_INPUT.search(reason) and (error.place or next(_spoken(reason), None)):
            return Refusal(feature=_feature(error, reason))
    return None


def _spoken_refusal(error: ErrorBody) -> Refusal | None:
    """A rejection in one sentence with a parameter or the model, or with a parameter beside it."""
    if is_about_content(error.place):
        return None
    for sentence in filter(REJECTED.search, _sentences(error)):
        if error.param or OF_THE_MODEL.search(sentence) or next(_spoken(sentence), None):
            return Refusal(feature=_feature(error, sentence))
    return None


def _feature(error: ErrorBody, text: str) -> Feature | None:
    """The feature that a refusing text is about."""
    spoken, placed = [*_spoken(text)], _at(error.place)
    both = {*spoken, placed}
    if {Feature.TOOL, Feature.REASONING} <= both:
        return Feature.TOOL  # of a pair that is refused, what can be done without
    if Feature.JSON_OBJECT in both and "json_schema" not in text:
        return Feature.JSON_OBJECT
    return placed or (None if error.param else next(iter(spoken), None))


def _spoken(text: str) -> Iterator[Feature]:
    """The features that a text names, in its order."""
    found = ((name.search(text), feature) for feature, name in _SPOKEN.items())
    return (feature for _, feature in sorted((m.start(), feature) for m, feature in found if m))


def _sentences(error: ErrorBody) -> Iterator[str]:
    return (part for reason in error.reasons for part in re.split(r"[.!?;]\s+|\n", reason))


def _steps(path: str) -> list[str]:
    """`output_config.format.schema` as names in lower case, without underscores and indices."""
    parts = re.split(r"[.\[\]/]+", path.lower().replace("_", ""))
    return [part for part in parts if part and not part.isdigit()]


def _at(path: str) -> Feature | None:
    """The feature that a path in a request leads to."""
    if is_about_content(path):
        return None
    steps = _steps(path)
    known = [step for step in steps if step in _FEATURES]
    inner = [step for step in known if step not in _CONTAINERS]
    return _FEATURES[(inner or known)[0]] if known else None
