"""`weighbridge certify`: the loosest threshold that audits prove, or how many more are needed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    EXIT_FAILED,
    harmless,
    number_table,
    print_json,
    stderr,
    stdout,
    usage,
)
from weighbridge.config import open_guarantees
from weighbridge.decision import CalibrationKey, Json
from weighbridge.settings import Settings, load_settings

if TYPE_CHECKING:
    from weighbridge.review.proving.guarantees import Guarantees
    from weighbridge.review.proving.kept import Kept
    from weighbridge.review.proving.looks import Look, Wanted


def certify(
    risk: Annotated[
        float, typer.Option(help="Highest error rate among accepted answers, such as 0.02.")
    ],
    confidence: Annotated[
        float, typer.Option(help="That all certificates of a kind of answer keep it.")
    ] = 0.95,
    field: Annotated[
        list[str] | None, typer.Option(help="Only this field of the answer. Repeatable.")
    ] = None,
    joint: Annotated[
        bool,
        typer.Option(
            "--joint",
            help="Promise less from fewer labels: on average no more than this share of all "
            "tickets is accepted and wrong.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be tested, without looking at outcomes."),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw error rates by coverage and the reliability into a PNG."),
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Certify how often accepted answers are wrong at the most, from what audits found.

    Each kind of answer (provider, model, prompt, schema, field, source of the number) is certified
    by itself. Every look at outcomes makes the next one stricter, so certify at regular times and
    not until it works.
    """
    settings = load_settings(config)
    wanted = _wanted(settings, risk, confidence, is_joint=joint)
    with open_guarantees(settings) as guarantees:
        looks = _looks(guarantees, wanted, field or [], is_dry=dry_run)
        if not dry_run and looks:
            guarantees.fit_calibrators()
        if plot is not None and looks:
            _draw(guarantees, looks, plot)
    for look in looks:
        if as_json:
            print_json(_plain(look))
        else:
            _show(look, settings)
    if not looks:
        stderr().print("No answer was weighed of late" + (" in such a field." if field else "."))
    if not dry_run and not any(_kept(look) for look in looks):
        raise typer.Exit(EXIT_FAILED)


def words(key: CalibrationKey) -> str:
    """A kind of answer as people read it.

    >>> words(CalibrationKey(provider="a", model="m", prompt="p", schema="s", field="f",
    ...     source="exact"))
    'f: a, m (exact)'
    """
    names = (harmless(name, limit=60) for name in (key.field, key.provider, key.model))
    return "{}: {}, {} ({})".format(*names, key.source)


def _wanted(settings: Settings, risk: float, confidence: float, *, is_joint: bool) -> Wanted:
    from weighbridge.review.proving.looks import Wanted

    validity = timedelta(seconds=settings.review.certificate_validity)
    try:
        return Wanted(risk=risk, confidence=confidence, validity=validity, is_joint=is_joint)
    except ValueError as error:
        usage(str(error))


def _looks(
    guarantees: Guarantees, wanted: Wanted, fields: list[str], *, is_dry: bool
) -> list[Look]:
    """A look at each kind of answer that is in use."""
    found = (
        look
        for key in guarantees.current_keys()
        if not fields or key.field in fields
        if (look := guarantees.foresee(key, wanted)).tickets_per_day or look.is_reweighed
    )
    foreseen = sorted(found, key=lambda look: -look.tickets_per_day)
    return foreseen if is_dry else [guarantees.certify(look.key, wanted) for look in foreseen]


def _kept(look: Look) -> Kept | None:
    from weighbridge.review.proving.kept import Kept

    return look.result if isinstance(look.result, Kept) else None


def _show(look: Look, settings: Settings) -> None:
    console = stdout()
    console.print(Text(words(look.key), style="bold"))
    console.print(harmless("  " + "; ".join(_circumstances(look))), soft_wrap=True)
    if look.tested:
        console.print(Padding.indent(_tested(look), 2))
    elif look.steps and look.result is None:
        console.print(Padding.indent(_steps(look), 2))
    kept = _kept(look)
    if kept is not None:
        promise = kept.guarantee
        console.print(
            Text(
                f"  certified: from {promise.threshold:g} on, {promise} wrong;"
                f" {kept.proof.coverage:.0%} of the traffic, until {promise.expires_at:%Y-%m-%d}",
                style="green",
            ),
            soft_wrap=True,
        )
        console.print(
            "  Another model, prompt or schema is uncertified; audits that get worse end it."
        )
    elif look.result is not None:
        rate = settings.review.audit_rate
        soon = "" if look.days is None else f", about {_days(look.days)}"
        told = f" at {look.tickets_per_day:.0f} tickets a day and an audit rate of {rate:.1%}"
        console.print(
            Text(f"  {look.result}{soon}{told if soon else ''}", style="yellow"), soft_wrap=True
        )
        if not rate:
            console.print("  No ticket is drawn for audit: set [review] audit_rate.")


def _circumstances(look: Look) -> Iterator[str]:
    yield f"{look.num_labels} audited labels"
    if look.num_abandoned:
        yield f"among them {look.num_abandoned} opened and left unjudged, counted as wrong"
    if look.num_open:
        yield f"{look.num_open} audits wait for a person"
    if look.num_sighted:
        yield f"{look.num_sighted} were judged in sight of the answer and count as wrong"
    if look.delta is not None:
        whole = 1 - look.wanted.confidence
        yield f"look {look.round}, which may spend {look.delta:.3g} of {whole:.3g}"


def _tested(look: Look) -> Table:
    table = number_table("threshold", "coverage", "labels", "wrong", "at most", "p", "")
    coverage = {step.threshold: step.coverage for step in look.steps}
    for test in look.tested:
        is_passed = look.delta is not None and test.p_value <= look.delta
        table.add_row(
            f"{test.threshold:g}",
            f"{coverage[test.threshold]:.0%}",
            str(test.num_accepted),
            str(test.num_errors),
            f"{test.upper:.2%}",
            f"{test.p_value:.3g}",
            "passed" if is_passed else "failed",
        )
    return table


def _steps(look: Look) -> Table:
    """What would be tested, and how many of the labels may be wrong."""
    table = number_table("threshold", "coverage", "labels", "may be wrong")
    for step in look.steps:
        table.add_row(
            f"{step.threshold:g}",
            f"{step.coverage:.0%}",
            str(step.num_accepted),
            str(step.most_errors) if step.most_errors >= 0 else "not even none",
        )
    return table


def _days(days: float) -> str:
    """How long, in words.

    >>> _days(0.2), _days(1.2), _days(400.0)
    ('a day', '2 days', '13 months')
    """
    whole = max(1, -(-days // 1))
    if whole == 1:
        return "a day"
    return f"{whole:.0f} days" if whole < 90 else f"{whole / 30.4:.0f} months"


def _draw(guarantees: Guarantees, looks: list[Look], path: Path) -> None:
    from weighbridge.cli.certify_plot import draw

    samples = {words(look.key): guarantees.sample(look.key).labels for look in looks}
    thresholds = {words(look.key): kept.proof.threshold for look in looks if (kept := _kept(look))}
    try:
        draw(samples, thresholds, path)
    except OSError as error:
        usage(f"{path} cannot be written: {error.strerror}")
    stderr().print(f"drew {path}")


def _plain(look: Look) -> dict[str, Json]:
    from weighbridge.review.proving.metrics import plain

    kept = _kept(look)
    certificate: dict[str, Json] | None = None
    if kept is not None:
        promise = kept.guarantee
        certificate = {
            "id": promise.certificate,
            "risk": promise.risk,
            "confidence": promise.confidence,
            "threshold": promise.threshold,
            "coverage": kept.proof.coverage,
            "num_labels": promise.num_labels,
            "expires_at": promise.expires_at.isoformat(),
        }
    is_missing = kept is None and look.result is not None
    return {
        "key": plain(look.key),
        "round": look.round,
        "delta": look.delta,
        "num_labels": look.num_labels,
        "num_open_audits": look.num_open,
        "num_abandoned": look.num_abandoned,
        "num_sighted": look.num_sighted,
        "tickets_per_day": look.tickets_per_day,
        "steps": plain(look.steps),
        "tested": plain(look.tested),
        "certificate": certificate,
        "missing": str(look.result) if is_missing else None,
        "num_missing": getattr(look.result, "needed", None) if is_missing else None,
        "days": look.days,
    }
