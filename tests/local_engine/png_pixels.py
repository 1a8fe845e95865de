"""The pixels of an image file."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image
from torch import Tensor


def read_png(path: Path) -> Tensor:
    """uint8 [H, W, 3]; fails where the file is no PNG."""
    with Image.open(path) as opened:
        assert opened.format == "PNG"
        pixels = opened.convert("RGB")
        flat = torch.frombuffer(bytearray(pixels.tobytes()), dtype=torch.uint8)
        return flat.view(pixels.height, pixels.width, 3)
