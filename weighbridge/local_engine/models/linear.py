"""Linear layers in float and in int8.

An int8 layer keeps its weights as whole numbers from -64 to 64, with one scale for each output, and
rounds every row of its input to whole numbers from -127 to 127 with a scale of that row's own. So a
row's result never depends on the rows beside it, and packed scoring stays equal to one by one.

Why 64: without VNNI instructions the kernel adds pairs of products in 16 bits, saturating. An input
is shifted to 0..255 there, and 2 * 255 * 64 = 32,640 just fits; at 127 sums went wrong by millions.
With it the whole-number part is exact on every processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812  # the name everybody knows it by
from torch import Tensor

from weighbridge.errors import ModelCorrupt

MAX_WEIGHT = 64
MAX_LOOKUP = 127  # of a matrix that is never multiplied with
_MAX_INPUT = 127.0
_TINY = 1e-12  # an all-zero row must not divide by zero


class Linear(Protocol):
    """What a block asks of a layer."""

    def __call__(self, x: Tensor) -> Tensor:
        """[M, K] to [M, N]."""
        ...


class FloatLinear:
    """A matrix of floats.

    Args:
        weight: [N, K], in the type that is computed in.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        """[M, K] to [M, N]."""
        return F.linear(x, self.weight)

    def rows(self, ids: Tensor) -> Tensor:
        """Rows of the matrix, [len(ids), K]: the layer as an embedding."""
        return self.weight[ids]


class Int8Linear:
    """A matrix of small whole numbers; inputs and outputs are float32.

    Args:
        weight: int8 [N, K], from -64 to 64.
        scale: float32 [N]; row n stands for `weight[n] * scale[n]`.
    """

    def __init__(self, weight: Tensor, scale: Tensor) -> None:
        self.weight, self.scale = weight, scale
        self._columns = weight.t()  # a view: the kernel wants [K, N] and reads it fastest this way

    def __call__(self, x: Tensor) -> Tensor:
        """[M, K] to [M, N]."""
        scale = x.abs().amax(-1, keepdim=True).clamp_min_(_TINY).div_(_MAX_INPUT)
        rounded = x.div(scale).round_().to(torch.int8)
        return torch._int_mm(rounded, self._columns).float().mul_(scale).mul_(self.scale)

    def rows(self, ids: Tensor) -> Tensor:
        """Rows of the matrix, float32 [len(ids), K]: the layer as an embedding."""
        return self.weight[ids] * self.scale[ids, None]


def quantized(weight: Tensor, largest: int = MAX_WEIGHT) -> tuple[Tensor, Tensor]:
    """A float32 matrix [N, K] as int8 [N, K] from -largest to largest, and float32 scales [N].

    The matrix is overwritten: the largest one is a good part of a small model.

    >>> weight, scale = quantized(torch.tensor([[0.5, -1.0], [0.0, 0.0]]))
    >>> weight.tolist()
    [[32, -64], [0, 0]]
    """
    scale = largest_of(weight, 1).clamp_min_(_TINY).div_(largest)
    return weight.div_(scale[:, None]).round_().to(torch.int8), scale


def largest_of(matrix: Tensor, dim: int) -> Tensor:
    """The largest absolute values along a dimension, without a copy of the matrix."""
    return torch.maximum(matrix.amax(dim), -matrix.amin(dim))


def take_linear(
    weights: Mapping[str, Tensor], name: str, *shape: int, dtype: torch.dtype
) -> FloatLinear | Int8Linear:
    """The layer called `name` of a checkpoint: int8 if it has scales, else of `dtype`.

    Raises:
        ModelCorrupt: a tensor is missing or has another shape.
    """
    weight = take(weights, f"{name}.weight", *shape)
    if weight.dtype == torch.int8:
        return Int8Linear(weight, take(weights, f"{name}.scale", shape[0]).float())
    return FloatLinear(weight.to(dtype))


def take(weights: Mapping[str, Tensor], name: str, *shape: int) -> Tensor:
    """A tensor of a checkpoint, checked for its shape; raises like `take_linear`."""
    tensor = weights.get(name)
    if tensor is None or tuple(tensor.shape) != shape:
        found = "is missing" if tensor is None else f"has shape {tuple(tensor.shape)}"
        raise ModelCorrupt(name, f"the tensor {found}, wanted {shape}")
    return tensor
