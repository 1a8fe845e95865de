"""System One's answers: options with their probabilities, as a reply with evidence. Pure.

The numbers are the vendor's own: scaled to the options that were offered, so they say nothing of
what the model would rather have said. What does not add up is no answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

from weighbridge.decision import FailureKind, FieldEvidence, Json, label
from weighbridge.providers.envelopes import count_of, invalid, model_of
from weighbridge.providers.error_bodies import read_error
from weighbridge.providers.failures import body_json, classify, classify_error
from weighbridge.providers.protocol import Failure, HttpResponse, Reply
from weighbridge.providers.systemone_questions import kind_of, option_names
from weighbridge.schemas.task import JudgedField, Task

# Hosted servers round each probability to two decimals, others do not round.
_ROUNDING = 0.005
_EXACT, _MAX_SLACK = 1e-3, 0.1

_ERROR_KEYS = frozenset({"error", "detail", "message"})
_TOO_LONG = "max_tokens_exceeded"  # TypeSafe's code; it is about what is read


def read_response(response: HttpResponse, task: Task) -> Reply | Failure:
    """The reply, or the first of these that applies.

    An error status, an error inside a 200, an answer that is missing, of another type, not about
    exactly the options that were offered, with numbers that are no probabilities of theirs, or with
    a choice that another option outweighs.

    Args:
        response: of one request.
        task: that was asked.

    Returns:
        A reply whose text is the object of the chosen options, and whose evidence is the vendor's.
    """
    if not 200 <= response.status <= 299:
        return _refusal(response)
    body = body_json(response.body)
    if not isinstance(body, dict):
        return invalid(response.status, "the body is no JSON object")
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return replace(
        _outcome(response.status, body, task),
        prompt_tokens=count_of(counts.get("input_tokens")),
        completion_tokens=count_of(counts.get("output_tokens")),
    )


def _refusal(response: HttpResponse) -> Failure:
    """What an error says. That questions do not suit one server says nothing about other wires."""
    failure, error = classify(response), read_error(body_json(response.body))
    if _TOO_LONG in error.codes:
        return replace(failure, kind=FailureKind.TOO_LONG, parameter=None, limit=None)
    if failure.kind not in (FailureKind.CALLER_FAULT, FailureKind.CAPABILITY):
        return failure
    is_about_questions = error.place.split(".")[0] == "questions"
    whose = "the questions do not suit this server" if is_about_questions else "it cannot answer"
    return replace(
        failure,
        kind=FailureKind.CAPABILITY,
        detail=f"{failure.detail}, {whose}",
        parameter=None,
        limit=None,
        is_schema=is_about_questions,
    )


def _outcome(status: int, body: Mapping[str, Json], task: Task) -> Reply | Failure:
    answers = body.get("answers")
    if not isinstance(answers, dict):
        if _ERROR_KEYS & body.keys():
            return classify_error(status, {}, dict(body))
        return invalid(status, "no answers")
    evidence: dict[str, FieldEvidence] = {}
    for field in task.fields:
        read = _evidence(field, answers.get(field.name))
        if isinstance(read, str):
            return invalid(status, f"the answer about {field.name} {read}")
        evidence[field.name] = read
    chosen = {name: found.value for name, found in evidence.items()}
    return Reply(
        text=json.dumps(chosen, ensure_ascii=False),
        finish_reason="stop",
        status=status,
        model=model_of(body.get("model")),
        evidence=evidence,
    )


def _evidence(field: JudgedField, answer: Json) -> FieldEvidence | str:
    """The evidence in one answer, or what is wrong with it."""
    kind, names = kind_of(field), option_names(field)
    if not isinstance(answer, dict):
        return "is missing"
    if answer.get("type", kind) != kind:
        return "is of another type"
    table = answer.get("probabilities")
    if kind == "noul":
        yes = _probability(answer.get("noul"))
        table = None if yes is None else {"true": yes, "false": 1.0 - yes}
    if not isinstance(table, dict) or table.keys() != set(names):
        return "does not weigh the options that were offered"
    found = [_probability(table[name]) for name in names]
    weights = [weight for weight in found if weight is not None]
    total = math.fsum(weights)
    slack = min(_MAX_SLACK, _EXACT + _ROUNDING * len(names))
    if len(weights) < len(names) or abs(total - 1.0) > slack:
        return "has numbers that are no probabilities"
    best = max(range(len(names)), key=weights.__getitem__)
    if kind == "choice":
        choice = answer.get("choice")
        if choice not in names:
            return "chooses what was not offered"
        likeliest, best = weights[best], names.index(str(choice))
        if likeliest - weights[best] > 2 * _ROUNDING:
            return "chooses what another option outweighs"
    value, options = field.options[best], [weight / total for weight in weights]
    is_rounded = abs(total - 1.0) > _EXACT
    return FieldEvidence(
        value=value,
        source="vendor",
        probability=options[best],
        options=dict(zip(map(label, field.options), options, strict=True)),
        required=field.required,
        notes=(f"rounded: the probabilities added up to {total:.3f}",) if is_rounded else (),
    )


def _probability(value: Json) -> float | None:
    """A number from 0 to 1; NaN, infinity, True and a text are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None
