"""Embeddings of texts that never change, kept on disk: label phrases and the background.

Embedding them takes half a second, as much as everything else before the first answer but torch.
Only such texts may be kept here, never a ticket.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from weighbridge.local_engine.encoder import Encoder


def embed_kept(encoder: Encoder, texts: Sequence[str], folder: Path | None) -> Tensor:
    """Unit vectors, float32 [number of texts, D], from the folder if they are there.

    Args:
        encoder: its fingerprint tells its vectors from those of others.
        texts: at least one.
        folder: where to keep them; None keeps nothing. One that cannot be written is no error.
    """
    if folder is None:
        return encoder.embed(texts)
    key = hashlib.sha256(json.dumps([encoder.fingerprint, *texts]).encode()).hexdigest()[:24]
    path = folder / f"{key}.safetensors"
    found = _read(path)
    if found is None or len(found) != len(texts):
        found = encoder.embed(texts)
        with contextlib.suppress(OSError):
            _write(path, found)
    return found


def _read(path: Path) -> Tensor | None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path).get("embeddings")
    except (OSError, SafetensorError):
        return None


def _write(path: Path, embeddings: Tensor) -> None:
    from safetensors.torch import save

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(save({"embeddings": embeddings.contiguous()}))
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
