"""Where an exported model goes: whole or not at all, and never over what is somebody's."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tiny_model import tiny_weights, write_gguf
from typer.testing import CliRunner

from weighbridge.cli import app
from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.models.export import export_model
from weighbridge.local_engine.models.gguf import read_gguf

FILES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(scope="module")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "tiny.gguf"
    write_gguf(path, tiny_weights())
    return path


def test_progress_ends_with_all_bytes(tiny_path, tmp_path):
    seen: list[tuple[int, int]] = []
    export_model(
        tiny_path, tmp_path / "model", report=lambda done, total: seen.append((done, total))
    )
    tensors = read_gguf(tiny_path).tensors.values()
    assert seen == sorted(seen)
    assert len(seen) == len(tensors)
    assert seen[-1] == (4 * sum(torch.Size(t.shape).numel() for t in tensors),) * 2


@pytest.mark.parametrize("name", ["empty", "new/deep", "link"])
def test_folder_that_holds_nothing_is_written(tiny_path, tmp_path, name):
    """Behind a link the link stays."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    export_model(tiny_path, tmp_path / name)
    assert {path.name for path in (tmp_path / name).iterdir()} == FILES
    assert (tmp_path / "link").is_symlink()


def test_earlier_export_is_overwritten_only_by_force(tiny_path, tmp_path):
    folder = tmp_path / "model"
    export_model(tiny_path, folder)
    before = (folder / "model.safetensors").stat()
    with pytest.raises(FileExistsError, match="there already"):
        export_model(tiny_path, folder, "bfloat16")
    assert (folder / "model.safetensors").stat() == before
    export_model(tiny_path, folder, "bfloat16", force=True)
    assert (folder / "model.safetensors").stat().st_size < before.st_size
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("letter", ["home/letter.txt", "home", "config.json"])
def test_nothing_but_an_export_is_ever_overwritten(tiny_path, tmp_path, letter, force):
    """`--force` on a home folder must not empty it; nor does a file make way for a folder."""
    place = tmp_path / letter.split("/")[0]
    if place.name != letter:
        export_model(tiny_path, place)
    (tmp_path / letter).write_text("dear")
    with pytest.raises(FileExistsError, match=r"letter|is a file"):
        export_model(tiny_path, place, force=force)
    assert (tmp_path / letter).read_text() == "dear"


@contextmanager
def disk_of(num_bytes: int) -> Iterator[None]:
    """No file may grow larger; the system says so as it says that a disk is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("num_bytes", [100, 50_000])
def test_failed_export_leaves_what_was_there(tiny_path, tmp_path, num_bytes):
    """Whether it fails at the first file or at the weights."""
    folder = tmp_path / "model"
    export_model(tiny_path, folder)
    before = {path.name: path.stat() for path in folder.iterdir()}
    with (
        pytest.raises(EngineError, match=r"model cannot be written: File too large"),
        disk_of(num_bytes),
    ):
        export_model(tiny_path, folder, force=True)
    assert {path.name: path.stat() for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == ["model"]


def test_export_that_cannot_take_its_place_gives_it_back(tiny_path, tmp_path, monkeypatch):
    """Between the two renames of an overwriting there is a moment without a folder."""
    folder, rename = tmp_path / "model", Path.rename
    export_model(tiny_path, folder)
    before = {path.name: path.stat() for path in folder.iterdir()}

    def rename_all_but_the_new_one(path: Path, target: Path) -> Path:
        if path.name.startswith(".model-") and not path.name.endswith("-old"):
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_all_but_the_new_one)
    with pytest.raises(EngineError, match="cannot be written: Permission denied"):
        export_model(tiny_path, folder, force=True)
    assert {path.name: path.stat() for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == ["model"]


def test_interrupted_export_leaves_nothing(tiny_path, tmp_path):
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_model(tiny_path, tmp_path / "model", report=stop)
    assert os.listdir(tmp_path) == []


def test_folder_that_fills_meanwhile_stays(tiny_path, tmp_path):
    """Two exports at once: the second one says so."""
    folder = tmp_path / "model"

    def somebody_else(*_: int) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text("theirs")

    with pytest.raises(EngineError, match="cannot be written: Directory not empty"):
        export_model(tiny_path, folder, report=somebody_else)
    assert (folder / "config.json").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["model"]


def test_place_that_cannot_be_is_an_engine_error(tiny_path, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="cannot be written: Not a directory"):
        export_model(tiny_path, tmp_path / "file" / "deep" / "model")


def test_source_that_is_no_model_is_corrupt_before_anything_is_written(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelCorrupt, match=r"model\.gguf"):
        export_model(tmp_path / "model.gguf", tmp_path / "model")
    assert os.listdir(tmp_path) == ["model.gguf"]


def test_command_writes_says_where_and_how_much(tiny_path, tmp_path):
    folder = tmp_path / "model"
    ran = CliRunner().invoke(
        app, ["model", "export", str(tiny_path), str(folder), "--dtype", "bfloat16", "--json"]
    )
    assert ran.exit_code == 0, ran.output
    num_bytes = sum(path.stat().st_size for path in folder.iterdir())
    wanted = {"folder": str(folder), "dtype": "bfloat16", "bytes": num_bytes}
    assert json.loads(ran.stdout) == wanted


def test_command_overwrites_only_by_force(tiny_path, tmp_path):
    """Without it the caller is told how; for a foreign folder there is no how."""
    command = ["model", "export", str(tiny_path), str(tmp_path / "model")]
    assert CliRunner().invoke(app, command).exit_code == 0
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
    forced = CliRunner().invoke(app, [*command, "--force"])
    assert (forced.exit_code, forced.stdout) == (0, "")
    (tmp_path / "model" / "letter.txt").write_text("dear")
    for more in ([], ["--force"]):
        refused = CliRunner().invoke(app, [*command, *more])
        assert (refused.exit_code, "--force" in refused.stderr) == (2, False)


def test_command_knows_generators_only(tmp_path):
    """An encoder is not a model of this kind."""
    for name in ("all-minilm-l6-v2", "no-such-model"):
        ran = CliRunner().invoke(app, ["model", "export", name, str(tmp_path / "model")])
        assert ran.exit_code == 1
        assert "no local model is called" in ran.stderr
    assert os.listdir(tmp_path) == []
