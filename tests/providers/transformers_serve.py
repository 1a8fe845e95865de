"""A real model server on loopback: `transformers serve` over a folder, for as long as it is needed.

It speaks chat completions and System One, and is software that nobody made for these tests: it
takes `response_format` and `logprobs` with status 200 and ignores both.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

START_S = 120.0
_END_S = 10.0

# The entry point of the command `transformers`, in a process that ends when whoever started it is
# gone, however that came about: its standard input is closed then.
_COMMAND = """
import os, threading

def end_with_parent():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=end_with_parent, daemon=True).start()
from transformers.cli.transformers import main
main()
"""

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",  # else the command asks the package index once a day
    # A waiting torch thread spins; beside a busy test that made each token take a second.
    "GOMP_SPINCOUNT": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that answers.

    Args:
        base_url: up to and with `/v1`.
        model: what requests must call the model, to the letter: the path of the folder.
        pid: of the process.
    """

    base_url: str
    model: str
    pid: int


def missing_package() -> str | None:
    """What the server needs and is not there: of `transformers[serving]`, 5.24 or later."""
    for name in ("transformers", "accelerate", "fastapi", "openai", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            return name
    systemone = "transformers.cli.serving.systemone"
    try:
        return None if importlib.util.find_spec(systemone) else systemone
    except ModuleNotFoundError:
        return systemone


@contextmanager
def serving(folder: Path, log: Path) -> Iterator[Served]:
    """Start a server over a model and wait until it answers; afterwards its process is gone.

    Args:
        folder: a model as `transformers` saves it.
        log: a file for what the server says.

    Raises:
        RuntimeError: it ended, or did not answer within `START_S`; with the end of the log.
    """
    port = _free_port()
    command = [sys.executable, "-c", _COMMAND, "serve", str(folder), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "float32", "--device", "cpu"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            _wait_until_up(process, f"http://127.0.0.1:{port}/health", log)
            yield Served(base_url=f"http://127.0.0.1:{port}/v1", model=str(folder), pid=process.pid)
        finally:
            _end(process)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    said = log.read_text("utf-8", "replace")[-2000:]
    raise RuntimeError(f"transformers serve is not up (status {process.poll()}):\n{said}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:  # it waits for requests, and one may take minutes
        process.kill()
        process.wait()
