"""What is wrong with a configuration, a ticket, a task or a router, and the root of the tree."""

from __future__ import annotations


class WeighbridgeError(Exception):
    """Base of all that is raised on purpose; a traceback shows the hint below the message."""

    hint: str = ""

    @property
    def __notes__(self) -> list[str]:
        """What Python prints below the message: the hint, and what `add_note` was given."""
        # Not added when the error is made: some hints are known a little later.
        notes: list[str] = self.__dict__.setdefault("_notes", [])
        line = f"hint: {self.hint}"
        if self.hint and line not in notes:
            notes.insert(0, line)
        return notes

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self.__dict__["_notes"] = notes


class ConfigError(WeighbridgeError):
    """The configuration cannot be used; nothing was started."""

    def __init__(self, source: str, key: str, problem: str, hint: str = "") -> None:
        super().__init__(source, key, problem, hint)
        self.source, self.key, self.problem, self.hint = source, key, problem, hint

    def __str__(self) -> str:
        return (
            f"{self.source}: {self.key}: {self.problem}"
            if self.key
            else f"{self.source}: {self.problem}"
        )


class KeyMissing(ConfigError):
    """A provider's key is not there; the provider cannot be asked, others can."""


class TicketInvalid(WeighbridgeError, ValueError):
    """The input is not a ticket."""

    hint = (
        "A ticket is text, or an object with `body` and, if you like, `id`, `subject`, `metadata`."
    )

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where, self.problem = where, problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class TaskInvalid(WeighbridgeError, ValueError):
    """The task, its labels or its schema cannot be used."""

    def __init__(self, pointer: str, problem: str, hint: str = "") -> None:
        super().__init__(pointer, problem, hint)
        self.pointer, self.problem, self.hint = pointer, problem, hint

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.problem}"


class SchemaRefused(TaskInvalid):
    """A JSON Schema that a dialect or the engine cannot enforce without changing its meaning."""

    def __init__(
        self, dialect: str, pointer: str, keyword: str, problem: str, hint: str = ""
    ) -> None:
        WeighbridgeError.__init__(self, dialect, pointer, keyword, problem, hint)
        self.dialect, self.pointer, self.keyword = dialect, pointer, keyword
        self.problem, self.hint = problem, hint

    def __str__(self) -> str:
        where = self.pointer or "/"
        return f"{self.dialect} cannot enforce `{self.keyword}` at {where}: {self.problem}"


class CapabilityMissing(WeighbridgeError):
    """A provider lacks what a task cannot do without; another one may have it."""

    hint = "Ask a provider that has it first, or let the task do without."

    def __init__(self, provider: str, feature: str) -> None:
        super().__init__(provider, feature)
        self.provider, self.feature = provider, feature

    def __str__(self) -> str:
        return f"{self.provider} has no {self.feature}, which the task requires"


class ProviderAbsent(WeighbridgeError):
    """A configured provider that cannot be asked."""

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(provider, reason)
        self.provider, self.reason = provider, reason

    def __str__(self) -> str:
        return self.reason


class RouterClosed(WeighbridgeError, RuntimeError):
    """A router was used after it was closed."""

    hint = "Ask inside its `with` block, or make a new Router."


class JsonInvalid(WeighbridgeError, ValueError):
    """Text that is not strict JSON. The text itself is never part of the message."""

    def __init__(self, problem: str, offset: int | None = None) -> None:
        super().__init__(problem, offset)
        self.problem, self.offset = problem, offset

    def __str__(self) -> str:
        return self.problem if self.offset is None else f"{self.problem} at character {self.offset}"
