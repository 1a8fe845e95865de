"""`weighbridge review people`: who may use the review page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import harmless, plain_table, print_json, stderr, stdout
from weighbridge.config import open_database
from weighbridge.settings import load_settings
from weighbridge.store.roles import Role

if TYPE_CHECKING:
    from weighbridge.store.credentials import Credentials
    from weighbridge.store.people import People

app = typer.Typer(help="Who may use the review page.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Their name, or their e-mail address.")]
RoleOption = Annotated[Role, typer.Option(help="What they may do.")]
PasswordOption = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password from standard input, not a prompt."),
]


@app.command()
def add(
    name: NameArgument,
    role: RoleOption = Role.REVIEWER,
    without_password: Annotated[
        bool, typer.Option("--no-password", help="Only API tokens let them in.")
    ] = False,
    password_stdin: PasswordOption = False,
    config: ConfigOption = None,
) -> None:
    """Add somebody."""
    from weighbridge.service.passwords import hash_password

    hashed = None if without_password else hash_password(_password(is_piped=password_stdin))
    with _open(config) as (people, _):
        person = people.add(name, role, password_hash=hashed)
    stdout().print(f"{person.name}: {person.role}")


@app.command("list")
def list_people(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show everybody."""
    with _open(config) as (people, _):
        everybody = people.everybody()
    if as_json:
        print_json(
            [
                {
                    "name": person.name,
                    "role": person.role.value,
                    "has_password": person.has_password,
                    "is_disabled": person.is_disabled,
                }
                for person in everybody
            ]
        )
        return
    table = plain_table("name", "role", "password", "access")
    for person in everybody:
        has_password = "yes" if person.has_password else "no"
        access = "kept out" if person.is_disabled else "yes"
        table.add_row(harmless(person.name), person.role.value, has_password, access)
    stdout().print(table if everybody else "Nobody yet: weighbridge review people add NAME")


@app.command("role")
def set_role(
    name: NameArgument,
    role: Annotated[Role, typer.Argument(help="What they may do from now on.")],
    config: ConfigOption = None,
) -> None:
    """Let somebody do more or less, at once."""
    with _open(config) as (people, _):
        person = people.set_role(name, role)
    stdout().print(f"{person.name}: {person.role}")


@app.command("password")
def set_password(
    name: NameArgument, password_stdin: PasswordOption = False, config: ConfigOption = None
) -> None:
    """Set a new password; sessions and tokens end."""
    from weighbridge.service.passwords import hash_password

    hashed = hash_password(_password(is_piped=password_stdin))
    with _open(config) as (people, credentials):
        person = people.set_password(name, hashed)
        credentials.revoke_all(person.name)
    stdout().print(f"{person.name}: new password")


@app.command()
def disable(name: NameArgument, config: ConfigOption = None) -> None:
    """Keep somebody out at once; their verdicts stay."""
    with _open(config) as (people, credentials):
        person = people.set_disabled(name, is_disabled=True)
        credentials.revoke_all(person.name)
    stdout().print(f"{person.name}: kept out")


@app.command()
def enable(name: NameArgument, config: ConfigOption = None) -> None:
    """Let somebody in again."""
    with _open(config) as (people, _):
        person = people.set_disabled(name, is_disabled=False)
    stdout().print(f"{person.name}: {person.role}")


@app.command()
def token(
    name: NameArgument,
    scope: Annotated[Role, typer.Option(help="What it may be used for at most.")] = Role.VIEWER,
    days: Annotated[float, typer.Option(min=0.01, max=3650, help="How long it is good.")] = 90,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    config: ConfigOption = None,
) -> None:
    """Make an API token for somebody; it is printed this once."""
    with _open(config) as (_, credentials):
        secret = credentials.issue(
            "token", name, scope=scope, lifetime_s=days * 86_400, label=label
        )
    stderr().print("Send it as `Authorization: Bearer …`; it cannot be shown again:")
    stdout().print(secret)


@contextmanager
def _open(config: Path | None) -> Iterator[tuple[People, Credentials]]:
    from weighbridge.store.credentials import Credentials
    from weighbridge.store.people import People

    with closing(open_database(load_settings(config))) as database:
        yield People(database), Credentials(database)


def _password(*, is_piped: bool) -> str:
    if is_piped:
        return sys.stdin.readline().rstrip("\r\n")
    prompted: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return prompted
