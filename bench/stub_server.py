"""A chat completions server on loopback that costs next to nothing, in a process of its own.

`python -m bench.stub_server` prints its port and serves until its input is closed. The first part
of the path says how it behaves: `good` answers with log-probabilities, `down` with a 503, and so
on.
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ANSWER = '{"category": "billing", "priority": "high"}'
_PIECES = ('{"', "category", '": "', "billing", '", "', "priority", '": "', "high", '"}')
_TOP = 5
_HUNG_S = 3.0


def completion(text: str, *, finish: str = "stop", logprobs: bool = False) -> dict[str, Any]:
    """The body of a chat completion."""
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text, "refusal": None},
    }
    if logprobs:
        choice["logprobs"] = {"content": [_token(piece) for piece in _PIECES]}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [choice],
        "usage": {"prompt_tokens": 300, "completion_tokens": 9, "total_tokens": 309},
    }


def _token(piece: str) -> dict[str, Any]:
    likely = {"token": piece, "logprob": math.log(0.97), "bytes": list(piece.encode())}
    others = [
        {"token": f"~{i}", "logprob": math.log(0.001), "bytes": list(f"~{i}".encode())}
        for i in range(_TOP - 1)
    ]
    return {**likely, "top_logprobs": [likely, *others]}


def _response(status: int, body: bytes, *headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _json(status: int, body: Any, *headers: str) -> bytes:
    return _response(status, json.dumps(body).encode(), *headers)


_ERROR = {"error": {"message": "x", "type": "server_error", "param": None, "code": None}}
_WRONG = '{"category": "refunds", "priority": "high"}'
RESPONSES: dict[str, bytes] = {
    "good": _json(200, completion(ANSWER, logprobs=True)),
    "plain": _json(200, completion(ANSWER)),
    "down": _json(503, _ERROR),
    "limited": _json(429, _ERROR, "retry-after: 30"),
    "prose": _json(200, completion("It is about billing.")),
    "wrong": _json(200, completion(_WRONG)),
    "cut": _json(200, completion(ANSWER, finish="length")),
    "twice": _json(200, completion('{"category": "bug", "category": "billing"}')),
    "empty": _json(200, {"choices": []}),
    "html": _response(200, b"<html>proxy</html>"),
    "hangs": _json(200, completion(ANSWER)),
}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            await reader.readexactly(length)
            behaviour = head.split(b" ", 2)[1].split(b"/")[1].decode()
            if behaviour == "hangs":
                await asyncio.sleep(_HUNG_S)
            writer.write(RESPONSES[behaviour])
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        pass  # the client is gone, or everything ends
    finally:
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


@contextmanager
def serving() -> Iterator[str]:
    """The server in a process of its own; its address, without a path."""
    command = [sys.executable, "-m", "bench.stub_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


if __name__ == "__main__":
    asyncio.run(_main())
