"""Vendors: real servers on loopback that misbehave as told, and count.

A `Vendor` listens on a port of its own and does one thing to every request: its behaviour. All
vendors of a `Market` share one event loop on one thread, so two hundred connections cost nothing
and a vendor that hangs holds up no other. What is sent is bytes: a behaviour may break HTTP, TCP or
JSON as it likes.

    with Market() as market:
        vendor = market.open(status(503, retry_after="0.02"))
        ...                      # ask it at vendor.port
        assert vendor.hits == 3

Counted are `hits` (requests that were read to their end) and `num_connections` (also those that
never became a request); kept is every request, with what stood in it. `held_sockets` counts what
this process still holds open towards any vendor, whatever has become of the other end.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import socket
import ssl
import stat
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weighbridge.schemas.triage_labels import CATEGORIES

CERTIFICATE = Path(__file__).with_name("self_signed.pem")  # no client has a reason to trust it

RIGHT = {"category": "billing", "priority": "high"}
WRONG = {"category": "bug", "priority": "low"}  # as valid, so that accepting it would show

TOPICS = [*CATEGORIES]

_TLS = b"\x16"  # how a handshake begins, and no method of HTTP does


@dataclass(frozen=True)
class Call:
    """One request, and the way to answer it.

    Args:
        number: 1 for the first request to this vendor.
        at: monotonic seconds.
        path: of the request.
        headers: names in lower case.
        body: of the request.
        reader: gives nothing more until the client leaves.
        writer: takes bytes.
    """

    number: int
    at: float
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def prompt(self) -> str:
        """All that the model would read."""
        return json.dumps(self.body.get("messages") or self.body, ensure_ascii=False)

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def until_client_leaves(self) -> None:
        await self.reader.read()


Behaviour = Callable[[Call], Awaitable[None]]


class Vendor:
    """A server that does one thing to every request."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.port = 0
        self.num_connections = 0
        self.calls: list[Call] = []
        self.num_under_way = 0
        self.most_under_way = 0
        self.began = threading.Event()  # a request has come

    @property
    def hits(self) -> int:
        return len(self.calls)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side has had enough of it."""
        self.num_connections += 1
        try:
            # Cancelled only when the market closes, and a handler must not end with that in 3.11.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (begin := await reader.readexactly(1)) == _TLS:
            writer.write(response(400, b"a TLS handshake came to a plain port"))
            writer.close()
            return
        head = (begin + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        call = Call(
            number=self.hits + 1,
            at=time.monotonic(),
            path=first.split(" ")[1],
            headers=headers,
            body=json.loads(raw),
            reader=reader,
            writer=writer,
        )
        self.calls.append(call)
        self.began.set()
        self.num_under_way += 1
        self.most_under_way = max(self.most_under_way, self.num_under_way)
        try:
            await self.behaviour(call)
        finally:
            self.num_under_way -= 1


class Market:
    """Vendors on one event loop, for the time of a `with` block."""

    def __enter__(self) -> Market:
        self._loop = asyncio.new_event_loop()
        self._servers: dict[int, asyncio.Server] = {}  # by port
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, behaviour: Behaviour, *, certificate: Path | None = None) -> Vendor:
        """A new vendor, listening; with a certificate it speaks TLS."""
        vendor = Vendor(behaviour)
        self._run(self._open(vendor, certificate))
        return vendor

    def shut(self, vendor: Vendor) -> None:
        """Connections to the vendor are refused from now on."""
        self._run(self._shut(vendor))

    def held_sockets(self) -> int:
        """How many sockets this process holds that lead to a vendor, or to one that hung up."""
        return sum(self._leads_here(int(name)) for name in os.listdir("/dev/fd"))

    async def _open(self, vendor: Vendor, certificate: Path | None) -> None:
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        server = await asyncio.start_server(vendor.serve, "127.0.0.1", 0, ssl=context)
        vendor.port = server.sockets[0].getsockname()[1]
        self._servers[vendor.port] = server

    async def _shut(self, vendor: Vendor) -> None:
        self._servers[vendor.port].close()

    async def _close(self) -> None:
        for server in self._servers.values():
            server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the turn after they are told to

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _leads_here(self, descriptor: int) -> bool:
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return False
            copy = socket.socket(fileno=os.dup(descriptor))
        except OSError:  # gone since it was listed
            return False
        with copy:
            if copy.family != socket.AF_INET or copy.getsockopt(
                socket.SOL_SOCKET, socket.SO_ACCEPTCONN
            ):
                return False
            try:
                return copy.getpeername()[1] in self._servers
            except OSError:  # the peer has reset it: a leak is a leak
                return copy.getsockname()[1] not in self._servers


def response(status: int, body: bytes, headers: Mapping[str, str] = {}) -> bytes:
    """The bytes of a whole response; headers of one's own replace the usual ones."""
    usual = {"content-type": "application/json", "content-length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {**usual, **headers}.items()]
    return "\r\n".join([f"HTTP/1.1 {status} x", *lines, "", ""]).encode() + body


def completion(
    text: str | None = None,
    *,
    finish: str | None = "stop",
    answer: Any = RIGHT,
    **message: Any,
) -> bytes:
    """The body of a chat completion: a text, or an answer as JSON."""
    content = json.dumps(answer) if text is None else text
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}}
    choice |= {} if finish is None else {"finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return json.dumps({"model": "stub-1", "choices": [choice], "usage": usage}).encode()


def raw(*pieces: bytes, hang_up: bool = False) -> Behaviour:
    """Sends bytes as they are; afterwards hangs up, or waits for the client to do so."""

    async def behave(call: Call) -> None:
        for piece in pieces:
            await call.send(piece)
        if hang_up:
            call.writer.close()
        else:
            await call.until_client_leaves()

    return behave


def says(status: int, body: bytes = b"", /, **headers: str) -> Behaviour:
    """Answers every request alike, on a connection that is kept."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def behave(call: Call) -> None:
        await call.send(response(status, body, named))

    return behave


def status(code: int, error: str | None = "x", /, **headers: str) -> Behaviour:
    """An error in OpenAI's envelope; the text is the message, or a whole `code: message`."""
    if error is None:
        return says(code, **headers)
    name, _, message = error.rpartition(": ")
    body = {"error": {"message": message, "type": "t", "code": name or None, "param": None}}
    return says(code, json.dumps(body).encode(), **headers)


def answers(text: str | None = None, **message: Any) -> Behaviour:
    """A complete chat completion; see `completion`."""
    return says(200, completion(text, **message))


async def obeys(call: Call) -> None:
    """Gives each ticket an answer of its own: the category whose number it names as its topic.

    A number that no category has is answered with what is no option.
    """
    named = re.search(r"topic (\d+)", call.body["messages"][-1]["content"])
    number = int(named[1]) if named else 0
    category = TOPICS[number] if number < len(TOPICS) else "no_option"
    await answers(answer={**RIGHT, "category": category})(call)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One behaviour a request; the last one stays."""

    async def behave(call: Call) -> None:
        await behaviours[min(call.number, len(behaviours)) - 1](call)

    return behave


def slowly(seconds: float, behaviour: Behaviour) -> Behaviour:
    """The same after some time."""

    async def behave(call: Call) -> None:
        await asyncio.sleep(seconds)
        await behaviour(call)

    return behave


async def hangs(call: Call) -> None:
    """Takes the request and never says a word."""
    await call.until_client_leaves()


def drips(body: bytes, every_s: float = 0.02) -> Behaviour:
    """Sends byte by byte: never silent for long, and never done."""

    async def behave(call: Call) -> None:
        for octet in response(200, body):
            await call.send(bytes([octet]))
            await asyncio.sleep(every_s)

    return behave


def resets(after: bytes) -> Behaviour:
    """Sends some bytes and resets the connection."""

    async def behave(call: Call) -> None:
        await call.send(after)
        await asyncio.sleep(0.02)  # a reset overtakes what has not been read
        linger = struct.pack("ii", 1, 0)
        call.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        call.writer.transport.abort()

    return behave


def half_closes(after: bytes) -> Behaviour:
    """Sends some bytes, ends its own direction, and goes on listening."""

    async def behave(call: Call) -> None:
        await call.send(after)
        call.writer.write_eof()
        await call.until_client_leaves()

    return behave


def packed(body: bytes) -> Behaviour:
    """Compressed, though nobody asked for it: what unpacks into megabytes comes as kilobytes."""
    return says(200, gzip.compress(body), content_encoding="gzip")
