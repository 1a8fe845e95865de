"""`weighbridge review bulk`: one answer for many items."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import EXIT_FAILED, print_json, report_error, stderr, stdout, usage
from weighbridge.cli.review_common import (
    OPEN_STATES,
    KeyOption,
    ReasonOption,
    ReviewerOption,
    SinceOption,
    TaskOption,
    TextOption,
    UntilOption,
    login,
    opened,
    parsed,
    search_for,
)
from weighbridge.cli.review_judging import NoteOption, UnclassifiableOption
from weighbridge.decision import Json

if TYPE_CHECKING:
    from weighbridge.review.overviews import BulkResult


def bulk(
    item_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM", help="Items; or give filters.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="The answer to all. Repeatable."),
    ] = None,
    unclassifiable: UnclassifiableOption = False,
    note: NoteOption = "",
    reason: ReasonOption = None,
    task: TaskOption = None,
    text: TextOption = "",
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Items at most.")] = 100,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    reviewer: ReviewerOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Give many items the same answer, each a verdict of its own.

    Items that must be judged blind are left out: nobody has looked at each of them.
    """
    name = login(reviewer)
    has_filter = any((reason, task, text, since, until))
    if bool(item_ids) == has_filter:
        usage("name items, or give a filter such as --text; one of the two")
    if bool(values) == unclassifiable:
        usage("say what the answer is: --set FIELD=VALUE, or --unclassifiable")
    with opened(config) as queue:
        if item_ids:
            found = [queue.get(item_id) for item_id in item_ids]
        else:
            wanted = search_for(
                states=OPEN_STATES[:1],
                reason=reason,
                task=task,
                text=text,
                since=since,
                until=until,
            )
            found = queue.search(wanted, limit=limit)
        chosen = [item for item in found if not item.is_blind]
        if len(found) > len(chosen):
            stderr().print(f"{len(found) - len(chosen)} must be judged blind, and are left out.")
        questions = {question.field: question for item in chosen for question in item.questions}
        given = parsed(values or [], questions)
        if not chosen:
            stderr().print("No item is left to answer.")
            return
        if not yes:
            _confirm(len(chosen))
        results = queue.answer_many(
            [item.id for item in chosen],
            reviewer=name,
            values=given,
            kind="unclassifiable" if unclassifiable else "answer",
            note=note,
            idem_key=key or secrets.token_hex(16),
        )
    _show(results, as_json=as_json)
    if any(result.error is not None for result in results):
        raise typer.Exit(EXIT_FAILED)


def _confirm(num: int) -> None:
    if not sys.stdin.isatty():
        usage(f"this answers {num} items; say --yes")
    if not typer.confirm(f"Answer {num} items?", err=True):
        raise typer.Exit(EXIT_FAILED)


def _show(results: Sequence[BulkResult], *, as_json: bool) -> None:
    for result in results:
        if as_json:
            error: Json = None if result.error is None else str(result.error)
            state = None if result.item is None else result.item.state.value
            print_json({"id": result.item_id, "state": state, "error": error})
        elif result.error is not None:
            report_error(result.error)
    if not as_json:
        num_failed = sum(result.error is not None for result in results)
        stdout().print(f"{len(results) - num_failed} answered, {num_failed} refused.")
