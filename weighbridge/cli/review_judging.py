"""`weighbridge review next · answer · skip · unskip · undo`: what reviewers say."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    harmless,
    print_json,
    stderr,
    stdout,
    usage,
)
from weighbridge.cli.review_common import (
    AdjudicateOption,
    ItemArgument,
    KeyOption,
    ReviewerOption,
    login,
    opened,
    parsed,
    same_options,
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
    # Of all fields: one that is left open counts against the machine where it is audited.
    example = " ".join(
        shlex.quote(f"{asked.field}={label(asked.options[0]) if asked.options else '…'}")
        for asked in item.questions
    )
    same = same_options(reviewer, config)
    command = f"weighbridge review answer {item.id}"
    stderr().print(harmless(f"Answer:  {command} {example}{same}"))
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
