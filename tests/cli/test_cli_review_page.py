from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from test_cli_processes import start

from weighbridge.cli.review_serve import _listen
from weighbridge.config import open_database
from weighbridge.settings import load_settings
from weighbridge.store.credentials import Credentials
from weighbridge.store.people import People
from weighbridge.store.roles import Role

PASSWORD = b"twelve signs\n"


@contextmanager
def opened() -> Iterator[tuple[People, Credentials]]:
    with closing(open_database(load_settings())) as database:
        yield People(database), Credentials(database)


def test_people_are_added_listed_changed_and_kept_out(cli):
    """What the administration does on the page, from a terminal."""
    arguments = ("review", "people", "add", "ada", "--role", "admin", "--password-stdin")
    assert cli(*arguments, stdin=PASSWORD).code == 0
    assert cli("review", "people", "add", "bot", "--role", "viewer", "--no-password").code == 0
    cli("review", "people", "role", "bot", "reviewer")
    cli("review", "people", "disable", "ada")
    (everybody,) = cli("review", "people", "list", "--json").lines
    assert everybody == [
        {"name": "ada", "role": "admin", "has_password": True, "is_disabled": True},
        {"name": "bot", "role": "reviewer", "has_password": False, "is_disabled": False},
    ]
    assert cli("review", "people", "enable", "ada").out == "ada: admin\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "problem"),
    [
        (("add", "a b", "--no-password"), b"", "this is no name"),
        (("add", "ada", "--password-stdin"), b"brief\n", "too short"),
        (("role", "nobody", "admin"), b"", "nobody of this name"),
        (("token", "nobody"), b"", "nobody of this name"),
    ],
)
def test_what_cannot_be_done_to_people_is_told(cli, arguments, stdin, problem):
    ran = cli("review", "people", *arguments, stdin=stdin)
    assert ran.code == 1
    assert problem in ran.err
    assert ("people list" in ran.err) == ("nobody" in arguments)
    assert "brief" not in ran.err


def test_password_is_stored_as_its_hash_alone(cli, home):
    """Neither it nor a token can be read out of the files."""
    cli("review", "people", "add", "ada", "--password-stdin", stdin=PASSWORD)
    secret = cli("review", "people", "token", "ada", "--label", "nightly").out.strip()
    stored = b"".join(path.read_bytes() for path in home.glob("*.db*"))
    assert b"nightly" in stored
    assert b"$argon2id$" in stored
    assert PASSWORD.strip() not in stored
    assert secret.encode() not in stored


def test_new_password_ends_sessions(cli):
    cli("review", "people", "add", "ada", "--password-stdin", stdin=PASSWORD)
    with opened() as (_, credentials):
        session = credentials.issue("session", "ada", scope=Role.ADMIN, lifetime_s=600)
    cli("review", "people", "password", "ada", "--password-stdin", stdin=b"another password\n")
    with opened() as (_, credentials):
        assert credentials.find("session", session) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_page_for_others_refuses_to_start_without_anybody_who_could_log_in(cli, host):
    """And says what to do; a person who has only tokens is no help."""
    cli("review", "people", "add", "bot", "--no-password")
    ran = cli("review", "serve", "--host", host, "--port", "0")
    assert ran.code == 2
    assert "nobody has a password" in ran.err
    assert "weighbridge review people add" in ran.err


async def test_what_the_page_sends_waits_for_no_other_packet():
    """Head and body are two packets; with Nagle's algorithm the second waits for a delayed ACK."""
    delays = []

    async def look(_, writer):
        connected = writer.get_extra_info("socket")
        delays.append(not connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with closing(_listen("127.0.0.1", 0)) as listener:
        async with await asyncio.start_server(look, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
    assert delays == [False]


def test_port_that_is_taken_is_told(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = cli("review", "serve", "--port", port)
    assert ran.code == 2
    assert str(port) in ran.err
    assert "--port" in ran.err


def test_address_that_is_not_this_machines_is_not_called_a_matter_of_the_port(cli):
    cli("review", "people", "add", "ada", "--password-stdin", stdin=PASSWORD)
    ran = cli("review", "serve", "--host", "192.0.2.1", "--port", "0")
    assert ran.code == 2
    assert "--port" not in ran.err
    assert "0.0.0.0" in ran.err


def test_page_behind_a_proxy_is_not_told_to_get_one(home, cli):
    cli("review", "people", "add", "ada", "--password-stdin", stdin=PASSWORD)
    process, told = served(home, "--host", "0.0.0.0", "--behind-proxy", "127.0.0.1")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert "the proxy at 127.0.0.1" in told
    assert "Logging in needs HTTPS" not in told


def test_certificate_needs_its_key(cli, home):
    (home / "some.pem").write_text("")
    assert cli("review", "serve", "--certificate", home / "some.pem").code == 2


def served(folder: Path, *arguments: str):
    """The page as a process of its own, and what it prints until it listens."""
    process = start(folder, "review", "serve", "--port", "0", *arguments)
    lines = []
    for line in process.stderr:
        lines.append(line.decode())
        if "Ctrl-C" in lines[-1]:
            break
    return process, "".join(lines)


def test_page_on_this_machine_prints_a_link_that_works_once(home):
    """The link becomes a session of an admin; nobody else gets anything."""
    process, told = served(home)
    try:
        link = re.search(r"http://localhost:\d+/enter\?key=\S+", told)[0]
        base, key = link.split("/enter?key=")
        headers = {"origin": base}
        with httpx.Client(base_url=base, headers=headers, trust_env=False) as client:
            assert client.get("/").headers["location"] == "/login?next=%2F"
            assert client.get("/admin.json").status_code == 401
            assert client.post("/enter", data={"key": key}).status_code == 303
            assert client.get("/admin.json").status_code == 200
            assert client.get("/", headers={"host": "evil.example"}).status_code == 421
            assert "server" not in client.get("/").headers
        with httpx.Client(base_url=base, headers=headers, trust_env=False) as other:
            assert other.post("/enter", data={"key": key}).status_code == 403
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        rest = process.stderr.read().decode()
        process.stdout.close()
        process.stderr.close()
    assert "Traceback" not in rest
    assert key not in rest


def test_page_for_others_answers_under_the_names_it_was_given(home, cli):
    """No link there; a name that was not given is not answered."""
    cli("review", "people", "add", "ada", "--password-stdin", stdin=PASSWORD)
    process, told = served(home, "--host", "0.0.0.0", "--allow-host", "Review.example")
    try:
        port = re.search(r":(\d+)\b", told)[1]
        assert "enter?key" not in told
        assert "HTTPS" in told
        base = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=base, trust_env=False) as client:
            named = client.get("/login", headers={"host": "review.example"})
            assert named.status_code == 200
            assert client.get("/login", headers={"host": "10.0.0.1"}).status_code == 421
            refused = client.post(
                "/login",
                data={"name": "ada", "password": PASSWORD.decode().strip()},
                headers={"origin": base},
            )
            assert refused.status_code == 400
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        process.stdout.close()
        process.stderr.close()
