"""What is wrong with the review queue, the people at it and those it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.errors.general import WeighbridgeError

if TYPE_CHECKING:
    from weighbridge.decision import Decision


class WebhookInvalid(WeighbridgeError, ValueError):
    """An event that does not come from where it should, or not as it was sent."""

    hint = "Compare the secrets on both sides, and sign the body before anything changes it."

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"webhook: {self.problem}"


class PersonRefused(WeighbridgeError):
    """Somebody cannot be added, changed or let in as asked; nothing was changed."""

    def __init__(self, name: str, problem: str, hint: str = "") -> None:
        super().__init__(name, problem, hint)
        self.name, self.problem, self.hint = name, problem, hint

    def __str__(self) -> str:
        return f"{self.name!r}: {self.problem}"


class QueueError(WeighbridgeError):
    """The review queue refused or failed."""


class QueueUnavailable(QueueError):
    """The review database cannot be read or written.

    When a decision could not be queued it is in `decision`, complete with its trail, so that the
    caller can still put the ticket in front of a person.
    """

    hint = (
        "Check [review] database: SQLite needs a writable folder and a file that is a database,"
        " PostgreSQL a running server and a user who owns the tables."
    )

    def __init__(self, database: str, problem: str, decision: Decision | None = None) -> None:
        super().__init__(database, problem, decision)
        self.database, self.problem, self.decision = database, problem, decision

    def __str__(self) -> str:
        return f"review database {self.database}: {self.problem}"

    def __repr__(self) -> str:  # the default would show the decision, and with it the answer
        return f"{type(self).__name__}({self.database!r}, {self.problem!r})"


class ItemNotFound(QueueError):
    """No item of that id."""

    hint = "List what waits with `weighbridge review show`."

    def __init__(self, item_id: str) -> None:
        super().__init__(item_id)
        self.item_id = item_id

    def __str__(self) -> str:
        return f"the queue has no item {self.item_id!r}"


class LearnedUnknown(QueueError):
    """No version of that number was learned from verdicts."""

    hint = "Versions are listed by: weighbridge learn --versions"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"no version {self.number} was learned"


class LeaseLost(QueueError):
    """Somebody else holds the item now, or it is already done."""

    hint = "Look at it with `weighbridge review show`; nothing was overwritten."

    def __init__(self, item_id: str, problem: str) -> None:
        super().__init__(item_id, problem)
        self.item_id, self.problem = item_id, problem

    def __str__(self) -> str:
        return f"item {self.item_id!r}: {self.problem}"


class ChangeRefused(QueueError):
    """What was wanted cannot be done with the item as it stands; nothing was changed."""

    hint = "Look at it with `weighbridge review show`."

    def __init__(self, item_id: str, problem: str) -> None:
        super().__init__(item_id, problem)
        self.item_id, self.problem = item_id, problem

    def __str__(self) -> str:
        return f"item {self.item_id!r}: {self.problem}"


class VerdictInvalid(QueueError, ValueError):
    """The verdict does not answer what was asked."""

    def __init__(self, item_id: str, field: str, problem: str, hint: str = "") -> None:
        super().__init__(item_id, field, problem, hint)
        self.item_id, self.field, self.problem, self.hint = item_id, field, problem, hint

    def __str__(self) -> str:
        return f"item {self.item_id!r}, field {self.field!r}: {self.problem}"
