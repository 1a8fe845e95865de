"""AuditCoin: draws a uniform sample of all tickets for blind review, before anything is known.

The toss depends on the ticket's id and a secret alone, never on confidence, provider or text. So
the drawn tickets are a fair sample of the traffic, plain binomial maths holds for them, and nobody
without the secret can tell beforehand which tickets a person will see.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from weighbridge.decision import Toss
from weighbridge.review.statistics.checks import check_share

_MIN_SECRET_BYTES: Final = 16
_BITS: Final = 53  # as many as a float holds exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCoin:
    """The coin of one installation. The same ticket always falls the same way.

    A higher rate draws the same tickets and more.

    Args:
        secret: at least 16 bytes; another secret draws other tickets.
        rate: share of all tickets to audit, 0 to 1.

    Raises:
        ValueError: a short secret, or a rate outside 0 to 1.
    """

    secret: bytes = field(repr=False)
    rate: float

    def __post_init__(self) -> None:
        if len(self.secret) < _MIN_SECRET_BYTES:
            raise ValueError(f"want an audit secret of at least {_MIN_SECRET_BYTES} bytes")
        check_share("the audit rate", self.rate)

    def toss(self, ticket_id: str) -> Toss:
        """Toss for one ticket.

        >>> AuditCoin(secret=bytes(16), rate=0.02).toss("ticket-1").is_audit
        False
        """
        message = ticket_id.encode("utf-8", "surrogatepass")
        digest = hmac.digest(self.secret, message, hashlib.sha256)
        whole = int.from_bytes(digest[:8], "big") >> (64 - _BITS)
        return Toss(u=whole / 2**_BITS, rate=self.rate)
