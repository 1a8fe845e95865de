"""`weighbridge learn`: make the local engine better by what people decided."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from weighbridge.cli.engine import check_engine, configured, load_engine
from weighbridge.cli.login import login_name
from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    EXIT_FAILED,
    harmless,
    plain_table,
    print_json,
    stderr,
    stdout,
    usage,
)
from weighbridge.cli.teaching import Lesson, teach
from weighbridge.config import build_task, open_learned
from weighbridge.decision import Json, label
from weighbridge.errors import EngineError
from weighbridge.settings import Settings, load_settings

if TYPE_CHECKING:
    from weighbridge.local_engine.engine import Engine
    from weighbridge.review.learning.lesson import Score
    from weighbridge.review.learning.versions import LearnedVersions, Version
    from weighbridge.schemas.task import JudgedField, Task

FieldOption = Annotated[
    str | None, typer.Option("--field", help="This field alone.", show_default=False)
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Measure, but keep nothing.")]
VersionsOption = Annotated[bool, typer.Option("--versions", help="List what was learned so far.")]
RollbackOption = Annotated[
    int | None,
    typer.Option(
        "--rollback",
        min=0,
        metavar="N",
        help="Use version N again; 0: none, the names of the labels alone.",
        show_default=False,
    ),
]
RenameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="OLD=NEW",
        help="What was said of OLD counts for NEW, from now on. May be repeated; two labels with"
        " the same NEW are merged.",
        show_default=False,
    ),
]

_NOBODY: Final = "weighbridge"  # who a version is by, where the login has no name


def learn(
    field: FieldOption = None,
    dry_run: DryRunOption = False,
    versions: VersionsOption = False,
    rollback: RollbackOption = None,
    rename: RenameOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Learn from verdicts; used at once by all processes on the same database.

    Accuracy is cross-validated and stands beside that of cheaper means. Audits are not learned
    from. Every version is kept. Ends with 1 if nothing could be learned.
    """
    if sum([versions, rollback is not None, dry_run or bool(rename)]) > 1:
        usage("--versions and --rollback go with no other option but --field")
    settings = load_settings(config)
    task = build_task(settings)
    fields = _chosen(task, field)
    with open_learned(settings) as learned:
        if versions:
            _show_versions(learned, task, fields, as_json=as_json)
        elif rollback is not None:
            _roll_back(learned, task, fields, rollback, as_json=as_json)
        else:
            renamed = _renames(rename or [], fields)
            lessons = _learn(learned, settings, task, fields, renamed, dry_run=dry_run)
            _show_lessons(lessons, as_json=as_json)
            if not any(lesson.version for lesson, _ in lessons.values()):
                raise typer.Exit(EXIT_FAILED)


def _chosen(task: Task, field: str | None) -> list[JudgedField]:
    if field is None:
        return list(task.fields)
    found = [each for each in task.fields if each.name == field]
    if not found:
        near = difflib.get_close_matches(field, [each.name for each in task.fields], 1, cutoff=0)
        usage(f"no field {harmless(field)!r}; the nearest is {near[0]!r}")
    return found


def _renames(pairs: Iterable[str], fields: Iterable[JudgedField]) -> dict[str, str]:
    options = [label(option) for field in fields for option in field.options]
    renamed: dict[str, str] = {}
    for pair in pairs:
        old, separator, new = pair.partition("=")
        if not separator or not old or not new:
            usage(f"{harmless(pair)!r} is not OLD=NEW")
        if new not in options:
            near = difflib.get_close_matches(new, options, 1, cutoff=0)
            usage(
                f"--rename OLD=NEW: the task has no option {harmless(new)!r};"
                f" the nearest is {near[0]!r}"
            )
        if renamed.setdefault(old, new) != new:
            usage(f"{harmless(old)!r} cannot be two labels")
    return renamed


def _learn(
    learned: LearnedVersions,
    settings: Settings,
    task: Task,
    fields: list[JudgedField],
    renamed: Mapping[str, str],
    *,
    dry_run: bool,
) -> dict[str, tuple[Lesson, int | None]]:
    """What came of each field that anybody said something about, and the version it became."""
    examples, known = learned.examples(task.name), learned.all(task.name)
    artefacts = learned.used(task.name)
    engine = cache(lambda: _engine(settings))
    lessons: dict[str, tuple[Lesson, int | None]] = {}
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=stderr(), transient=True) as bars:
        # Fields that nobody was asked about are passed over, if there is another one.
        for field in [each for each in fields if each.name in examples] or fields[:1]:
            bar = bars.add_task(field.name, total=1.0)
            lesson = teach(
                engine,
                task,
                field,
                examples.get(field.name, []),
                renamed={**_earlier_renames(known, field), **renamed},
                previous=next(
                    (
                        (version, artefacts[field.name][1])
                        for version in known
                        if version.is_used and version.field == field.name
                    ),
                    None,
                ),
                progress=_mover(bars, bar),
            )
            number = None
            if lesson.version is not None and not dry_run:
                number = learned.add(lesson.version, by=login_name() or _NOBODY)
            lessons[field.name] = lesson, number
    return lessons


def _mover(bars: Progress, bar: TaskID) -> Callable[[float], None]:
    return lambda share: bars.update(bar, completed=share)


def _earlier_renames(known: Iterable[Version], field: JudgedField) -> dict[str, str]:
    """Those that the newest version knew of, which are all: each takes over the earlier ones."""
    newest = next((version for version in known if version.field == field.name), None)
    return {} if newest is None else dict(newest.renamed)


def _engine(settings: Settings) -> Engine:
    local = configured(settings)
    if local.prior == "off":
        raise EngineError("nothing can be learned without a label prior; the config has it off")
    check_engine(local, prior=local.prior)
    return load_engine(local, prior=local.prior)


def _show_lessons(lessons: Mapping[str, tuple[Lesson, int | None]], *, as_json: bool) -> None:
    if as_json:
        print_json({name: _plain(*found) for name, found in lessons.items()})
        return
    for name, (lesson, number) in lessons.items():
        _show_lesson(name, lesson, number)


def _plain(lesson: Lesson, number: int | None) -> dict[str, Json]:
    from weighbridge.review.learning.lesson import NotLearnable

    gathered = lesson.gathered
    plain: dict[str, Json] = {
        "version": number,
        "num_examples": len(gathered),
    }
    if isinstance(lesson.outcome, NotLearnable):
        return {
            **plain,
            "missing": {
                "reason": lesson.outcome.reason,
                "needed": lesson.outcome.needed,
                "detail": lesson.outcome.detail,
            },
            "num_by_label": dict(gathered.num_by_label),
            "left_out": dict(gathered.left_out),
            "unknown": dict(gathered.unknown),
        }
    return {**plain, **lesson.outcome.report.to_json()}


def _show_lesson(name: str, lesson: Lesson, number: int | None) -> None:
    from weighbridge.review.learning.lesson import NotLearnable

    console, gathered = stdout(), lesson.gathered
    few = [text for text, count in gathered.num_by_label.items() if not count]
    console.print(f"{name}: {len(gathered)} texts with verdicts", style="bold")
    for why, count in gathered.left_out.items():
        console.print(f"  left out: {count} ({why})")
    if gathered.unknown:
        names = ", ".join(f"{text} ({count})" for text, count in gathered.unknown.items())
        renamed = f"  no option of the task, renamed? --rename OLD=NEW: {names}"
        console.print(harmless(renamed), soft_wrap=True)
    if few:
        unjudged = f"  no verdict yet, judged by name alone: {', '.join(few)}"
        console.print(harmless(unjudged), soft_wrap=True)
    if isinstance(lesson.outcome, NotLearnable):
        console.print(harmless(f"  {lesson.outcome}"))
        return
    report = lesson.outcome.report
    table = plain_table("cross-validated", "accuracy", "95 %", "log loss")
    for method, score in report.scores.items():
        table.add_row(method, *_numbers(score))
    for which, score in report.newer.items():
        table.add_row(f"{which} version, {score.num} newer texts", *_numbers(score))
    console.print(table)
    if not report.is_worth_keeping:
        console.print("  worse than what takes no learning: nothing was kept")
    elif number is None:
        console.print("  a dry run: nothing was kept")
    else:
        console.print(f"  version {number} is in use now; another with --rollback N")


def _numbers(score: Score) -> tuple[str, str, str]:
    low, high = score.interval
    loss = "" if score.log_loss is None else f"{score.log_loss:.3f}"
    return f"{score.accuracy:.3f}", f"{low:.3f} … {high:.3f}", loss


def _show_versions(
    learned: LearnedVersions, task: Task, fields: Iterable[JudgedField], *, as_json: bool
) -> None:
    names = {field.name for field in fields}
    found = [version for version in learned.all(task.name) if version.field in names]
    if as_json:
        print_json(
            [
                {
                    "version": version.number,
                    "field": version.field,
                    "made_at": version.made_at.isoformat(),
                    "num_examples": version.num_examples,
                    "is_used": version.is_used,
                    "renamed": dict(version.renamed),
                    "report": dict(version.report),
                }
                for version in found
            ]
        )
        return
    table = plain_table("version", "field", "made", "verdicts", "accuracy", "in use")
    for version in found:
        accuracy = _accuracy(version)
        table.add_row(
            str(version.number),
            version.field,
            f"{version.made_at:%Y-%m-%d %H:%M}",
            str(version.num_examples),
            "" if accuracy is None else f"{accuracy:.3f}",
            "yes" if version.is_used else "",
        )
    stdout().print(table if found else "nothing was learned yet: weighbridge learn")


def _accuracy(version: Version) -> float | None:
    found: Json = dict(version.report)
    for key in ("scores", "learned", "accuracy"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, float) else None


def _roll_back(
    learned: LearnedVersions,
    task: Task,
    fields: Iterable[JudgedField],
    number: int,
    *,
    as_json: bool,
) -> None:
    if number:
        version = learned.use(number, by=login_name() or _NOBODY)
        names, said = [version.field], f"{version.field}: version {number} is in use now"
    else:
        names = [field.name for field in fields]
        for name in names:
            learned.use_none(task.name, name, by=login_name() or _NOBODY)
        said = f"{', '.join(names)}: names of labels alone are in use now"
    if as_json:
        print_json({"version": number or None, "fields": list[Json](names)})
    else:
        stdout().print(harmless(said))
