"""Endpoints on this machine that behave as the documented speakers do, and some that lie."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toy_speaker import Refused, Speaker, sample
from toy_wires import WIRES, OllamaWire, OpenAIWire

KEY = "sk-loopback"


class ProfileServer(ThreadingHTTPServer):
    """A speaker behind a socket; counts and keeps what it was asked.

    Args:
        speaker: how it behaves.
        wire: its format.
        status: if not 200, every request ends so.
    """

    daemon_threads = True

    def __init__(self, speaker: Speaker, wire: str, *, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.speaker, self.wire, self.status = speaker, WIRES[wire], status
        self.asked: list[Any] = []

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str, body: Any) -> Any:
        """The body of a success.

        Raises:
            Refused: with what is sent instead.
        """
        speaker, wire = self.speaker, self.wire
        asked = wire.read(speaker, path, body)
        for name in sorted(asked.names & speaker.refuses):
            raise wire.refusal(speaker, name, reason="unknown")
        if asked.names & speaker.forbids:
            raise Refused(403, {"error": {"message": "Forbidden"}})
        is_thinking_refused = speaker.thinking == "refused" and asked.thinking is not None
        if is_thinking_refused or (speaker.must_think and asked.thinking == "off"):
            name = "think" if wire is OllamaWire else "reasoning_effort"
            raise wire.refusal(speaker, name, reason="unknown")
        verdicts = {"native": speaker.schema, "tool": speaker.tool, "json": speaker.json_mode}
        if verdicts.get(asked.mode or "") == "refused":
            name = "tools" if asked.mode == "tool" else "response_format"
            raise wire.refusal(speaker, name, reason="unknown")
        if asked.alternatives is not None and speaker.logprobs == "refused":
            raise wire.refusal(speaker, "logprobs", reason="unknown")
        if speaker.most is not None and (asked.alternatives or 0) > speaker.most:
            raise wire.refusal(speaker, "top_logprobs", reason="too many")
        if asked.bias and speaker.bias == "refused":
            raise wire.refusal(speaker, "logit_bias", reason="unknown")
        return wire.write(speaker, asked, sample(speaker, asked))


class _Handler(BaseHTTPRequestHandler):
    server: ProfileServer

    def do_GET(self) -> None:
        is_version = self.path == "/api/version" and self.server.wire is OllamaWire
        if is_version:
            self._send(200, {"version": self.server.speaker.fingerprint})
        elif self.path in ("/models", "/v1/models", "/api/tags"):
            self._checked(lambda: {"object": "list", "data": []})
        else:
            self._send(404, {"error": {"message": "Not found", "code": 404}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        self._checked(lambda: self.server.answer(self.path, body))

    def _checked(self, answer: Any) -> None:
        given = self.headers.get("authorization", "").removeprefix("Bearer ")
        keys = {given, self.headers.get("x-api-key"), self.headers.get("x-goog-api-key")}
        try:
            if KEY not in keys:
                refused = self.server.wire.unauthorised()
                self._send(refused.status, refused.body)
            elif self.server.status != 200:
                self._send(self.server.status, {"error": {"message": "busy"}})
            else:
                self._send(200, answer())
        except Refused as refused:
            self._send(refused.status, refused.body)

    def _send(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response_only(status)
        if self.server.wire is OpenAIWire:
            self.send_header("server", "toy")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def speaking(speaker: Speaker, wire: str, *, status: int = 200) -> Iterator[ProfileServer]:
    """The server, answering until the block ends."""
    server = ProfileServer(speaker, wire, status=status)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
