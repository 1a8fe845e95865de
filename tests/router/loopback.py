"""A real HTTP server on loopback that misbehaves as told, and counts."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VALID = {"category": "billing", "priority": "high"}


def completion(text: str | None, **message: Any) -> dict[str, Any]:
    """The body of a chat completion."""
    choice = {"finish_reason": "stop", "message": {"content": text, **message}}
    return {"model": "stub", "choices": [choice]}


class Server:
    """Its behaviours are the first part of the path: `flaky`, `refuses`, `hangs`, `prose`, `ok`...

    `away` redirects to `ok` on another port, if one is set.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.other_port = port
        self.hits: Counter[str] = Counter()
        self.keys: set[tuple[str, str | None]] = set()  # behaviour, authorization

    def provider(self, behaviour: str, **settings: Any) -> dict[str, Any]:
        """Settings of a provider that behaves so."""
        base_url = f"http://127.0.0.1:{self.port}/{behaviour}"
        basic = {"name": behaviour, "kind": "openai", "base_url": base_url, "model": "stub"}
        return basic | settings

    def respond(self, behaviour: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Status, body, headers."""
        self.hits[behaviour] += 1
        match behaviour:
            case "flaky" if self.hits["flaky"] <= 2:
                return 503, {"error": {"message": "busy"}}, {"retry-after": "0.01"}
            case "down":
                return 503, {"error": {"message": "busy"}}, {"x-should-retry": "false"}
            case "away":
                elsewhere = f"http://127.0.0.1:{self.other_port}/ok/chat/completions"
                return 307, {}, {"location": elsewhere}
            case "trickles":
                return 200, {"padding": "x" * 2000}, {}
            case "refuses":
                return 200, completion(None, refusal="I will not."), {}
            case "prose":
                return 200, completion("This looks like a billing matter."), {}
            case "hangs":
                time.sleep(1.0)
            case "slow":
                time.sleep(0.2)
        return 200, completion(json.dumps(VALID)), {}


@contextmanager
def serving() -> Iterator[Server]:
    """A server for the time of a `with` block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            behaviour = self.path.split("/")[1]
            server.keys.add((behaviour, self.headers["authorization"]))
            status, body, headers = server.respond(behaviour)
            payload = json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            if behaviour == "trickles":
                for octet in payload:  # never silent for long, and never done
                    self.wfile.write(bytes([octet]))
                    time.sleep(0.01)
                return
            self.wfile.write(payload)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client gave up, as it should
                super().handle()

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    server = Server(listener.server_port)
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
