"""A provider on this machine: OpenAI's wire format over a real socket, always of one opinion."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ANSWER = {"category": "billing", "priority": "high"}
_COMPLETION = {
    "id": "1",
    "object": "chat.completion",
    "model": "stub-1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": json.dumps(ANSWER)},
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}


class Stub(ThreadingHTTPServer):
    """Counts and keeps what it was asked.

    Args:
        hangs_on: a ticket with this text in it is answered when the test is over.
    """

    daemon_threads = True

    def __init__(self, hangs_on: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hangs_on = hangs_on
        self.asked: list[Any] = []
        self.is_over, self.is_hanging = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        """The `base_url` of a provider."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def tickets(self) -> list[str]:
        """What each request gave the model to read."""
        return [request["messages"][-1]["content"] for request in self.asked]


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(json.loads(raw))
        if self.server.hangs_on is not None and self.server.hangs_on.encode() in raw:
            self.server.is_hanging.set()
            self.server.is_over.wait()
            return
        body = json.dumps(_COMPLETION).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    """The stub, answering until the block ends."""
    thread = threading.Thread(target=stub.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield stub
    finally:
        stub.is_over.set()
        stub.shutdown()
        thread.join()
        stub.server_close()


def configure(folder: Path, stub: Stub, *, database: str = "sqlite:///queue.db") -> None:
    """Write a `weighbridge.toml` that asks the stub and sends its answers to a person."""
    (folder / "weighbridge.toml").write_text(
        f"""
        [[provider]]
        name = "stub"
        kind = "openai"
        base_url = "{stub.url}"
        model = "m"
        [review]
        database = "{database}"
        audit_rate = 0
        """
    )
