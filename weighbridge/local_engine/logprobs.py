"""From raw logits to log-probabilities at temperature 1; the one place where NaN is found out."""

from __future__ import annotations

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
