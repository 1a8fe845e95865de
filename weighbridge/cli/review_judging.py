"""`weighbridge review next · answer · skip · unskip · undo · bulk`: what reviewers say."""

from __future__ import annotations

import secrets
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    EXIT_FAILED,
    harmless,
    print_json,
    report_error,
    stderr,
    stdout,
    usage,
)
from weighbridge.cli.review_common import (
    OPEN_STATES,
    AdjudicateOption,
    ItemArgument,
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
    same_options,
    search_for,
)
from weighbridge.cli.review_items import show_done, show_item, why_nothing
from weighbridge.decision import Json, label

if TYPE_CHECKING:
    from weighbridge.review.items import Item, Said
    from weighbridge.review.queue import ReviewQueue

UnsureOption = Annotated[bool, typer.Option("--unsure", help="You cannot tell; somebody else may.")]
UnclassifiableOption = Annotated[
    bool, typer.Option("--unclassifiable", help="The ticket fits no option.")
]
NoteOption = Annotated[str, typer.Option("--note", help="For your colleagues.")]


def next_item(
    reviewer: ReviewerOption = None,
    adjudicate: AdjudicateOption = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Take the item that needs a person most, and show it."""
    name = login(reviewer)
    with opened(config) as queue:
        item = queue.claim(name, may_adjudicate=adjudicate)
        if item is None:
            why = queue.why_empty(name, may_adjudicate=adjudicate)
            stderr().print(harmless(why_nothing(why)))
            return
    show_item(item, as_json=as_json)
    if as_json:
        return
    first = item.questions[0]
    example = f"{first.field}={label(first.options[0]) if first.options else '…'}"
    same = same_options(reviewer, config)
    command = f"weighbridge review answer {item.id}"
    stderr().print(harmless(f"Answer:  {command} {shlex.quote(example)}{same}"))
    if not item.is_blind:
        stderr().print(harmless(f"     or  {command} --agree{same}"))
    stderr().print(harmless(f"     or  weighbridge review skip {item.id}{same}"))


def answer(
    item_id: ItemArgument,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="FIELD=VALUE", help="Your answer, by field.")
    ] = None,
    agree: Annotated[
        bool, typer.Option("--agree", help="Take the machine's answer for the other fields.")
    ] = False,
    unsure: UnsureOption = False,
    unclassifiable: UnclassifiableOption = False,
    note: NoteOption = "",
    reviewer: ReviewerOption = None,
    adjudicate: AdjudicateOption = False,
    key: KeyOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Answer an item; nobody else may be at it."""
    name, kind = login(reviewer), _kind(unsure=unsure, unclassifiable=unclassifiable)
    if kind != "answer" and (values or agree):
        usage(f"--{kind} says that there is no answer; leave --agree and FIELD=VALUE out")
    with opened(config) as queue:
        shown = queue.get(item_id)
        given = parsed(values or [], {question.field: question for question in shown.questions})
        if agree:
            given = {**_machine(shown), **given}
        item = _claimed(queue, shown, name, key, may_adjudicate=adjudicate)
        done = queue.answer(
            item.id,
            reviewer=name,
            token=item.lease_token or "",
            values=given,
            kind=kind,
            note=note,
            idem_key=key,
        )
    own = [verdict for verdict in done.verdicts if verdict.reviewer == name]
    # Whether the machine had said the same would tempt to undo and to agree after all.
    show_done(done, "answered" if shown.is_blind else own[-1].kind, as_json=as_json)


def skip(
    item_id: ItemArgument,
    reason: Annotated[str, typer.Option("--reason", help="For your colleagues.")] = "",
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Give an item that you hold back to the others; you are not offered it again."""
    name = login(reviewer)
    with opened(config) as queue:
        item = next((one for one in queue.mine(name).leased if one.id == item_id), None)
        if item is None:
            queue.get(item_id)  # an unknown item is another mistake
            usage(f"{harmless(name)} does not hold this item; weighbridge review next takes one")
        queue.skip(item.id, reviewer=name, token=item.lease_token or "", reason=reason)
        show_done(queue.get(item.id), "skipped", as_json=as_json)


def unskip(
    reviewer: ReviewerOption = None, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """Be offered again all that you skipped."""
    with opened(config) as queue:
        num = queue.unskip(login(reviewer))
    if as_json:
        print_json({"unskipped": num})
    else:
        stdout().print(f"{num} items are offered to you again.")


def undo(
    item_id: Annotated[
        str | None, typer.Argument(metavar="ITEM", help="Without one, what you judged last.")
    ] = None,
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Take your verdict on an item back, by another verdict; the item is yours again."""
    name = login(reviewer)
    with opened(config) as queue:
        if item_id is None:
            recent = queue.mine(name).recent
            if not recent:
                usage(f"{harmless(name)} has judged nothing that could be taken back")
            item_id = recent[0].item_id
        item = queue.undo(item_id, reviewer=name)
    show_done(item, "taken back; it is yours again", as_json=as_json)


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
    name, kind = login(reviewer), _kind(unsure=False, unclassifiable=unclassifiable)
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
            kind=kind,
            note=note,
            idem_key=key or secrets.token_hex(16),
        )
    failed = [result for result in results if result.error is not None]
    for result in results:
        if as_json:
            error: Json = None if result.error is None else str(result.error)
            state = None if result.item is None else result.item.state.value
            print_json({"id": result.item_id, "state": state, "error": error})
        elif result.error is not None:
            report_error(result.error)
    if not as_json:
        stdout().print(f"{len(results) - len(failed)} answered, {len(failed)} refused.")
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _kind(*, unsure: bool, unclassifiable: bool) -> Said:
    if unsure and unclassifiable:
        usage("--unsure or --unclassifiable, not both")
    return "unsure" if unsure else "unclassifiable" if unclassifiable else "answer"


def _machine(item: Item) -> dict[str, Json]:
    if item.is_blind:
        usage("this item is judged without knowing what the machine said; answer every field")
    return {q.field: q.machine for q in item.questions if q.machine is not None}


def _claimed(
    queue: ReviewQueue, item: Item, name: str, key: str | None, *, may_adjudicate: bool
) -> Item:
    """The item with a lease; as it is where a verdict of that key may be stored already."""
    from weighbridge.errors import LeaseLost

    try:
        claimed = queue.claim(name, item_id=item.id, may_adjudicate=may_adjudicate)
    except LeaseLost:
        if key is None:
            raise
        return item  # `answer` knows the key, or says the same
    assert claimed is not None  # claiming by name succeeds or raises
    return claimed


def _confirm(num: int) -> None:
    if not sys.stdin.isatty():
        usage(f"this answers {num} items; say --yes")
    if not typer.confirm(f"Answer {num} items?", err=True):
        raise typer.Exit(EXIT_FAILED)
