"""A configured provider that cannot be asked: it stands in the trail with the reason."""

from __future__ import annotations

import httpx

from weighbridge.decision import FailureKind, Json
from weighbridge.errors import ProviderAbsent
from weighbridge.providers.protocol import Approach, Failure, Inquiry, Reply, Weighed
from weighbridge.schemas.task import Task


class AbsentProvider:
    """Never asked; the others go on.

    Args:
        name: the configured name.
        model: that would be asked.
        reason: why it is not; without secrets.
    """

    reserve_s = 0.0
    timeout_s = 1.0
    weight = 0.0
    is_remote = True

    def __init__(self, *, name: str, model: str, reason: str) -> None:
        self.name, self.model, self._reason = name, model, reason
        self.identity = f"absent {name}"

    def approach(self, task: Task) -> Approach:
        """There is none.

        Raises:
            ProviderAbsent: always.
        """
        raise ProviderAbsent(self.name, self._reason)

    def learn(self, failure: Failure, inquiry: Inquiry) -> bool:
        """There is nothing to learn."""
        return False

    async def ask(
        self, client: httpx.AsyncClient, inquiry: Inquiry, *, timeout_s: float
    ) -> Reply | Failure:
        """Why it cannot be asked."""
        return Failure(kind=FailureKind.UNAVAILABLE, detail=self._reason)

    async def weigh(
        self,
        client: httpx.AsyncClient,
        inquiry: Inquiry,
        reply: Reply,
        value: Json,
        *,
        timeout_s: float,
    ) -> Weighed:
        """It answers nothing that could be weighed."""
        return Weighed(evidence={})

    def worst_case(self, inquiry: Inquiry) -> tuple[int, int]:
        """Nothing is sent."""
        return 0, 0

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Nobody knows."""
        return None

    def close(self) -> None:
        """Nothing to let go of."""
