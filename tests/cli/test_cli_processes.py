from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from provider_stub import Stub, configure, serving

import weighbridge


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`weighbridge` as a process of its own."""
    root = str(Path(weighbridge.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "weighbridge", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "ascii"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def tickets(home: Path) -> list[str]:
    lines = [json.dumps({"id": f"ü{n}", "body": f"ticket number {n}"}) for n in range(200)]
    (home / "in.jsonl").write_text("\n".join(lines))
    return lines


def test_reader_that_goes_away_ends_the_run_silently(home, tickets, stub):
    """As `weighbridge triage --json | head -1` does, whatever the locale."""
    with start(home, "triage", "in.jsonl", "--json") as process:
        assert json.loads(process.stdout.readline())["ticket_id"] == "ü0"
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(30) == 0
    assert len(stub.asked) < len(tickets)


def test_interrupted_run_keeps_what_was_decided(home, tickets):
    """Ctrl-C ends with 130 and says so; what is in the output file is whole."""
    with serving(Stub(hangs_on="ticket number 3")) as stub:
        configure(home, stub)
        arguments = ("triage", "in.jsonl", "--output", "out.jsonl", "--concurrency", "1")
        with start(home, *arguments) as process:
            assert stub.is_hanging.wait(30)
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
            assert process.wait(30) == 130, said
    assert b"Stopped. What was decided is kept." in said
    assert b"Traceback" not in said
    lines = (home / "out.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["ticket_id"] for line in lines] == ["ü0", "ü1", "ü2"]
