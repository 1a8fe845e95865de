"""`weighbridge explain`: one answer of the local engine, token by token."""

from __future__ import annotations

import importlib.util
import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weighbridge.cli.engine import check_engine, configured, load_engine
from weighbridge.cli.inputs import InputFormat, read_tickets
from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import print_json, stderr, stdout, usage
from weighbridge.config import build_task
from weighbridge.errors import ExtraMissing, JsonInvalid
from weighbridge.local_engine.checks import distinct_texts
from weighbridge.local_engine.guides.regex_text import check_pattern
from weighbridge.local_engine.picture.whole_file import check_writable
from weighbridge.schemas.strict_json import loads
from weighbridge.schemas.ticket import Ticket
from weighbridge.settings import Settings, load_settings

if TYPE_CHECKING:
    from weighbridge.local_engine.decoding.sampling import Sampling
    from weighbridge.local_engine.engine import Engine
    from weighbridge.local_engine.guides.protocol import Spec
    from weighbridge.local_engine.picture.explanation import Explanation
    from weighbridge.local_engine.prompts import PromptLike


def explain(
    text: Annotated[str, typer.Argument(help="A ticket; '-' reads standard input.")],
    choice: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Instead of triage's answers: one of these texts."),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Instead: JSON that this JSON Schema permits.")
    ] = None,
    regex: Annotated[str | None, typer.Option(help="Instead: what this pattern matches.")] = None,
    free: Annotated[
        bool, typer.Option("--free", help="Instead: what the model writes to triage's prompt.")
    ] = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="Limit of the answer.")] = 256,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the random numbers, above temperature 0.")] = 0,
    model: Annotated[
        str | None, typer.Option(help="Instead of the configured one: a known name or a GGUF file.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    png: Annotated[
        Path | None, typer.Option(help="Also write an image to this file; needs the extra [plot].")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite existing files.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show an answer token by token: what came out, what was allowed, what the model thought.

    The text is a ticket in triage's own prompt; with --choice, --schema or --regex it is all that
    the model reads. The local engine answers alone, without the label prior.
    """
    # All that can be wrong without torch comes first: to import it takes seconds.
    _check_files(html, png, force=force)
    if sum((choice is not None, schema is not None, regex is not None, free)) > 1:
        usage("--choice, --schema, --regex and --free exclude each other")
    if not math.isfinite(temperature):
        usage(f"--temperature must be a finite number, not {temperature}")
    wanted = _wanted(choice, schema, regex, free=free)
    settings = load_settings(config)
    local = configured(settings)
    if model is not None:
        local = local.model_copy(update={"model": model})
    ticket = _ticket(text)
    check_engine(local, prior=None)  # which has no part in what is written
    question = _question(settings, ticket, wanted)
    with stderr().status("reading the weights"):
        engine = load_engine(local, prior=None)
    prompt = _prompt(engine, question, local.max_ticket_tokens)
    with stderr().status("reading the prompt") as status:
        steps = itertools.count(1)
        explanation = engine.explain(
            prompt,
            question.guide,
            sampling=_sampling(temperature, seed),
            max_tokens=max_tokens,
            on_step=lambda *_: status.update(f"writing the answer: token {next(steps)}"),
        )
    if question.guide_name:
        explanation = replace(explanation, guide=question.guide_name)
    if as_json:
        print_json(explanation.to_json())
    else:
        stdout().print(explanation)
    _write(explanation, html, png)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What the command line says of the answer, one at most; nothing means triage's answers."""

    choice: tuple[str, ...] | None = None
    schema: dict[str, Any] | bool | None = None
    regex: str | None = None
    free: bool = False


def _wanted(choice: str | None, schema: Path | None, regex: str | None, *, free: bool) -> _Wanted:
    if choice is not None:
        options = [option.strip() for option in choice.split(",")]
        if not all(options):
            usage("--choice has an empty text; separate the texts by one comma each")
        return _Wanted(choice=distinct_texts(options, "--choice"))
    if schema is not None:
        return _Wanted(schema=_read_schema(schema))
    if regex is not None:
        check_pattern(regex)
    return _Wanted(regex=regex, free=free)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What the model reads, and what it may answer; without a guide, anything.

    Args:
        system: the instructions; empty where the text is all that the model reads.
        user: the text.
        guide: of the answer.
        guide_name: what people call the guide; empty where the engine's name for it is as good.
    """

    system: str
    user: str
    guide: Spec | None
    guide_name: str = ""


def _question(settings: Settings, ticket: Ticket, wanted: _Wanted) -> _Question:
    from weighbridge.local_engine import guides

    if wanted.choice is not None:
        return _alone(ticket, guides.choice(wanted.choice))
    if wanted.schema is not None:
        return _alone(ticket, guides.json_schema(wanted.schema))
    if wanted.regex is not None:
        return _alone(ticket, guides.regex(wanted.regex))
    task = build_task(settings)
    prompt = task.prompt(ticket)
    if wanted.free:
        return _Question(system=prompt.system, user=prompt.user, guide=None)
    assert task.language is not None  # the answers of the built-in task can be listed
    guide = guides.finite(task.language)
    return _Question(system=prompt.system, user=prompt.user, guide=guide, guide_name=task.name)


def _alone(ticket: Ticket, guide: Spec) -> _Question:
    """A text that is all of the prompt."""
    return _Question(system="", user=ticket.text, guide=guide)


def _read_schema(path: Path) -> Any:
    try:
        schema = loads(path.read_text("utf-8"))
    except OSError as error:
        usage(f"{path} cannot be read: {error.strerror}")
    except (UnicodeError, JsonInvalid) as error:
        problem = str(error) if isinstance(error, JsonInvalid) else "not UTF-8"
        usage(f"{path}: {problem}")
    if not isinstance(schema, dict | bool):
        usage(f"{path}: a JSON Schema is an object, or true or false")
    return schema


def _sampling(temperature: float, seed: int) -> Sampling:
    from weighbridge.local_engine.decoding.sampling import Sampling

    return Sampling(temperature=temperature, seed=seed)


def _prompt(engine: Engine, question: _Question, max_ticket_tokens: int) -> PromptLike:
    """What triage would have the model read, a long ticket cut in the middle; or a text alone."""
    from weighbridge.local_engine.chat_template import Message
    from weighbridge.local_engine.cut import cut_middle

    if not question.system or engine.chat is None:
        return [Message("user", question.user)]
    text = engine.chat.user_text(question.user, question.system)
    ticket, _ = cut_middle(engine.vocabulary, text, max_ticket_tokens)
    before = engine.chat.before_user(question.system)
    return [*before, *ticket, *engine.chat.after_user(question.system)]


def _check_files(html: Path | None, png: Path | None, *, force: bool) -> None:
    """Everything that can be known of the files before the model has worked for them."""
    if html is not None and png is not None and html.absolute() == png.absolute():
        usage("--html and --png name the same file")
    for option, path, endings in (("--html", html, (".html", ".htm")), ("--png", png, (".png",))):
        if path is not None:
            _check_file(option, path, endings, force=force)
    if png is not None and importlib.util.find_spec("matplotlib") is None:
        raise ExtraMissing("plot", "matplotlib")


def _check_file(option: str, path: Path, endings: tuple[str, ...], *, force: bool) -> None:
    try:
        if path.exists() and not force:
            usage(f"{path} exists; --force overwrites it")
        if not path.absolute().parent.is_dir():
            usage(f"{path} cannot be written: there is no such folder")
        check_writable(path)
        is_file = path.is_file() or not path.exists()  # a device may be called anything
    except OSError as error:
        usage(f"{path} cannot be written: {error.strerror}")
    if is_file and path.suffix.lower() not in endings:
        usage(f"{option} writes a file that ends in {endings[0]}, not {path.name!r}")


def _write(explanation: Explanation, html: Path | None, png: Path | None) -> None:
    from weighbridge.local_engine.picture.whole_file import write_whole

    for path in (html, png):
        if path is None:
            continue
        try:
            if path is html:
                write_whole(path, explanation.html().encode())
            else:
                explanation.png(path)
        except OSError as error:
            usage(f"{path} cannot be written: {error.strerror}")
        stderr().print(f"wrote {path}")


def _ticket(text: str) -> Ticket:
    if text == "-":
        if typer.get_text_stream("stdin").isatty():
            usage("weighbridge explain TEXT, or give '-' and a ticket on standard input")
        (found,) = read_tickets(Path("-"), InputFormat.TEXT)
        assert isinstance(found, Ticket)  # plain text is always one
        ticket = found
    else:
        ticket = Ticket.of(text, where="TEXT")
    if ticket.is_empty:
        usage("the ticket is empty: there is nothing to explain")
    return ticket
