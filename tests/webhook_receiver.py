"""A receiver of webhooks on loopback that behaves as told, and remembers what it was sent."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from weighbridge.review.telling.signing import verify

SECRET = "a shared secret"


class Receiver:
    """Answers with the statuses it was given, one after the other, and the last one for ever.

    Args:
        statuses: numbers; "hang" says nothing, "trickle" says it a byte at a time, "break" closes,
            "away" redirects to `elsewhere`.
    """

    def __init__(self, *statuses: int | str) -> None:
        self.statuses = list(statuses) or [204]
        self.elsewhere = ""
        self.events: list[dict[str, Any]] = []  # with the id, and only if the signature fits
        self.hosts: list[str] = []
        self.port = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=canary-url"

    def wait_for(self, number: int) -> None:
        """Wait until so many events have come."""
        while len(self.events) < number:
            time.sleep(0.01)

    def next_status(self) -> int | str:
        with self.lock:
            return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def receiving(*statuses: int | str, certificate: Path | None = None) -> Iterator[Receiver]:
    receiver = Receiver(*statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = dict(self.headers.items())
            event = verify(SECRET, headers, body)
            status = receiver.next_status()
            with receiver.lock:
                receiver.events.append({"id": headers["webhook-id"], "status": status, **event})
                receiver.hosts.append(headers["host"])
            if status == "hang":
                time.sleep(1.0)
                return
            if status == "break":
                return
            if status == "trickle":
                for octet in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200:
                    self.wfile.write(bytes([octet]))
                    time.sleep(0.01)
                return
            self.send_response(307 if status == "away" else int(status))
            self.send_header("location", receiver.elsewhere)
            self.send_header("content-length", "17")
            self.end_headers()
            self.wfile.write(b"canary from there")

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

        def handle(self) -> None:
            with suppress(ConnectionError, ssl.SSLError):  # the sender gave up, as it should
                super().handle()

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    receiver.port = listener.server_port
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def payload(item_id: str = "i") -> dict[str, Any]:
    return json.loads(json.dumps({"type": "review.item.settled", "data": {"item_id": item_id}}))
