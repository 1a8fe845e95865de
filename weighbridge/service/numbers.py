"""Numbers: the statistics and the thresholds, as pages; what they mean is said beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from weighbridge.errors import ExtraMissing
from weighbridge.review.proving.metrics import plain
from weighbridge.review.statistics.drift import drift_of
from weighbridge.review.statistics.labels import NotYet
from weighbridge.review.statistics.selective import RiskCoverage, reviews_per_day, risk_coverage
from weighbridge.service.pages import Page
from weighbridge.service.routes import Routes
from weighbridge.service.site import site_of
from weighbridge.service.words import mistake

if TYPE_CHECKING:
    from weighbridge.review.proving.metrics import KeyMetrics, Metrics

routes = Routes()

_MOST_ROWS = 12


@routes.page("/statistics")
def show_statistics(request: Request) -> Response:
    """Queue, people and answers in numbers."""
    metrics, problem = _measured(request)
    view = {"title": "Statistics", "problem": problem, "metrics": metrics and plain(metrics)}
    return Page("statistics.html", view)


@routes.page("/thresholds")
def show_thresholds(request: Request) -> Response:
    """For each kind of answer: what is promised, what that rests on, and what others would do."""
    metrics, problem = _measured(request)
    keys = metrics.keys if metrics else ()
    view = {
        "title": "Thresholds",
        "problem": problem,
        "keys": [
            {**plain(key), "calls_for": _calls_for(key), "table": _table(request, key)}
            for key in keys
        ],
    }
    return Page("thresholds.html", view)


def thinned(rows: Sequence[RiskCoverage], most: int = _MOST_ROWS) -> list[RiskCoverage]:
    """Rows at about even steps of coverage; the strictest and the loosest stay."""
    if len(rows) <= most:
        return list(rows)
    kept = {round(place * (len(rows) - 1) / (most - 1)) for place in range(most)}
    return [rows[place] for place in sorted(kept)]


def _measured(request: Request) -> tuple[Metrics | None, str]:
    """The numbers, or why there are none."""
    measure = site_of(request).measure
    if measure is None:
        return None, "This page was started without statistics."
    try:
        return measure(), ""
    except ExtraMissing as error:
        return None, mistake(error)


def _calls_for(key: KeyMetrics) -> str | None:
    """What the drift of the confidences calls for."""
    return None if isinstance(key.drift, NotYet) else drift_of(key.drift)


def _table(request: Request, key: KeyMetrics) -> list[dict[str, Any]]:
    site = site_of(request)
    if site.labels_of is None:
        return []
    return [
        {
            **plain(row),
            "reviews_per_day": reviews_per_day(
                tickets_per_day=key.tickets_per_day,
                coverage=row.coverage,
                audit_rate=site.audit_rate,
            ),
        }
        for row in thinned(risk_coverage(site.labels_of(key.key)))
    ]
