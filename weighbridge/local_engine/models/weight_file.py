"""A safetensors file, written one tensor at a time.

The library's own writer wants all tensors in memory at once; for a model that is dequantised while
it is written that would be its whole size.

Source: the format as described in the README of `safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor

_DTYPES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int8: "I8",
}
_ALIGNMENT = 64  # bytes: a cache line, so that mapped weights are as good as allocated ones


class WeightFile:
    """Tensors of known shapes, put in any order.

    Args:
        path: the file to write.
        layout: dtype and shape by name.

    >>> import tempfile
    >>> from safetensors.torch import load_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     with WeightFile(path, {"norm": (torch.float32, (2,))}) as file:
    ...         file.put("norm", torch.tensor([1.0, 0.5]))
    ...     load_file(path)["norm"].tolist()
    [1.0, 0.5]
    """

    def __init__(
        self, path: Path, layout: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
    ) -> None:
        header, self._offsets, end = {}, dict[str, int](), 0
        # Wide types first: every tensor then starts at a multiple of its own width.
        for name, (dtype, shape) in sorted(
            layout.items(), key=lambda entry: (-entry[1][0].itemsize, entry[0])
        ):
            start, end = end, end + torch.Size(shape).numel() * dtype.itemsize
            header[name] = {
                "dtype": _DTYPES[dtype],
                "shape": list(shape),
                "data_offsets": [start, end],
            }
            self._offsets[name] = start
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % _ALIGNMENT)
        self._layout, self._data_start = dict(layout), 8 + len(text)
        self._file = path.open("wb")
        try:
            self._file.write(len(text).to_bytes(8, "little") + text)
            self._file.truncate(self._data_start + end)
        except OSError:
            self._file.close()
            raise

    def put(self, name: str, tensor: Tensor) -> None:
        """Write one tensor.

        Raises:
            ValueError: its dtype or shape is not what the layout says.
        """
        if (tensor.dtype, tuple(tensor.shape)) != self._layout[name]:
            found = f"{tensor.dtype} {tuple(tensor.shape)}"
            raise ValueError(f"{name} is {found}, the layout says {self._layout[name]}")
        self._file.seek(self._data_start + self._offsets.pop(name))
        self._file.write(tensor.contiguous().view(torch.uint8).numpy().data)

    def __enter__(self) -> WeightFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        assert kind or not self._offsets, f"never put: {sorted(self._offsets)}"
