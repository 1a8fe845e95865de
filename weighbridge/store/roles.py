"""Role: what a person may do. In a module of its own, for it needs no database."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What somebody may do; each role may do what those before it may."""

    VIEWER = "viewer"
    REVIEWER = "reviewer"
    ADJUDICATOR = "adjudicator"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this role may do all that `other` may.

        >>> Role.ADMIN.includes(Role.REVIEWER), Role.VIEWER.includes(Role.REVIEWER)
        (True, False)
        """
        order = list(Role)
        return order.index(self) >= order.index(other)
