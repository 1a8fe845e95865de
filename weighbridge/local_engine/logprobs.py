"""From raw logits to log-probabilities at temperature 1; the one place where NaN is found out."""

from __future__ import annotations

import torch
from torch import Tensor

from weighbridge.errors import EngineError


def log_total(logits: Tensor) -> Tensor:
    """Natural log of what the probabilities are divided by, float32 [N]; padding counts too.

    Args:
        logits: float32 [N, V], raw.

    Raises:
        EngineError: a row holds NaN or plus infinity, or nothing but minus infinity.
    """
    total = logits.logsumexp(-1)
    if not bool(total.isfinite().all()):
        raise EngineError("the model's logits are not finite: its weights are damaged or overflow")
    return total


def log_probs(logits: Tensor) -> Tensor:
    """Natural log of next-token probabilities, float32 [N, V]; raises like `log_total`."""
    return logits - log_total(logits)[:, None]


def log_mass(logits: Tensor, mask: Tensor) -> Tensor:
    """Natural log of the probability on the allowed tokens, float32 [N], each ≤ 0.

    Args:
        logits: float32 [N, V], raw.
        mask: bool [N, V], byte-complete; True is allowed.

    Raises:
        EngineError: like `log_total`.
        ValueError: the shapes differ.

    Source: step mass; the importance weight in Loula et al. 2025.

    >>> logits = torch.zeros(1, 4)
    >>> round(float(log_mass(logits, torch.tensor([[True, False, False, False]])).exp()), 3)
    0.25
    """
    if logits.shape != mask.shape:
        raise ValueError(f"logits {tuple(logits.shape)} and mask {tuple(mask.shape)} differ")
    # Stay in logs: a whole answer can sit at -282 nats, where exp() is 0 in float32.
    allowed = logits.masked_fill(~mask, -torch.inf)
    return (allowed.logsumexp(-1) - log_total(logits)).clamp_max(0.0)
