"""From raw logits to log-probabilities at temperature 1; the one place where NaN is found out."""

from __future__ import annotations

import torch
from torch import Tensor

from weighbridge.errors import EngineError

_ROWS = 16


def log_total(logits: Tensor) -> Tensor:
    """Natural log of what the probabilities are divided by, float32 [N]; padding counts too.

    Args:
        logits: float32 [N, V], raw.

    Raises:
        EngineError: a row holds NaN or plus infinity, or nothing but minus infinity.
    """
    # A few rows at a time: the copies that logsumexp makes then stay in the processor's cache.
    total = torch.cat([rows.logsumexp(-1) for rows in torch.split(logits, _ROWS)])
    if not bool(total.isfinite().all()):
        raise EngineError("the model's logits are not finite: its weights are damaged or overflow")
    return total


def log_probs(logits: Tensor) -> Tensor:
    """Natural log of next-token probabilities, float32 [N, V]; raises like `log_total`."""
    return logits - log_total(logits)[:, None]
