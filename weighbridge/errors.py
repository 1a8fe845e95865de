"""Every exception that weighbridge raises on purpose.

WeighbridgeError
├── ConfigError            the configuration cannot be used
│   └── KeyMissing         a provider's key is not there
├── TicketInvalid          the input is not a ticket (also a ValueError)
├── TaskInvalid            the task or its labels cannot be used (also a ValueError)
│   └── SchemaRefused      a JSON Schema that a dialect or the engine cannot enforce
├── CapabilityMissing      a provider lacks what a task cannot do without
├── ProviderAbsent         a configured provider cannot be asked at all
├── RouterClosed           a router was used after it was closed (also a RuntimeError)
├── JsonInvalid            text that strict JSON does not allow (also a ValueError)
├── EngineError            the local engine cannot answer
│   ├── ExtraMissing       a package of an optional extra is not installed
│   ├── ModelUnknown       a name that is in no list of models
│   ├── ModelMissing       a model that has not been pulled yet
│   ├── ModelCorrupt       a model file that cannot be read
│   ├── LearnedUnfit       what was learned from verdicts does not fit the models
│   ├── ContextTooLong     more tokens than the model can read
│   ├── DeadEnd            no token may come next, and the answer is not whole
│   ├── Truncated          the tokens ran out before a guided answer was whole
│   └── PullFailed         a model could not be downloaded or did not match its checksum
├── WebhookInvalid         an event that was not signed as it should be (also a ValueError)
├── PersonRefused          somebody cannot be added, changed or let in as asked
└── QueueError             the review queue refused or failed
    ├── QueueUnavailable   the database cannot be read or written; carries the decision
    ├── ItemNotFound       no item of that id
    ├── LearnedUnknown     no version of that number was learned
    ├── LeaseLost          somebody else holds the item, or it is done
    ├── ChangeRefused      the item is not in a state in which that can be done
    └── VerdictInvalid     the verdict does not answer what was asked

A message says what happened and where; `hint` says what to do. Neither ever holds a key, ticket
text, or a vendor's body. What goes wrong with a provider is no exception: it is an attempt in the
decision's trail.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weighbridge.decision import Decision


class WeighbridgeError(Exception):
    """Base of everything in this module; a traceback shows the hint below the message."""

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


class EngineError(WeighbridgeError):
    """The local engine cannot answer."""


class ExtraMissing(EngineError, ImportError):
    """A part was asked for whose optional packages are not installed (also an ImportError)."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(extra, package)
        self.extra, self.package = extra, package
        self.hint = f"pip install 'weighbridge[{extra}]'"

    def __str__(self) -> str:
        return f"the package {self.package!r} of the extra [{self.extra}] is not installed"


class ModelUnknown(EngineError):
    """A name that is neither a known model nor a folder or file."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known
        near = difflib.get_close_matches(name, known, n=1)
        self.hint = f"Did you mean {near[0]}? " if near else ""
        self.hint += f"Known models: {', '.join(known)}."

    def __str__(self) -> str:
        if "/" in self.name or "\\" in self.name or self.name.endswith(".gguf"):
            return f"no such file or folder: {self.name!r}"
        return f"no local model is called {self.name!r}"


class ModelMissing(EngineError):
    """A known model whose files are not in the cache."""

    def __init__(self, name: str, folder: str) -> None:
        super().__init__(name, folder)
        self.name, self.folder = name, folder
        self.hint = f"Run: weighbridge model pull {name}"

    def __str__(self) -> str:
        return f"the local model {self.name!r} is not in {self.folder}"


class ModelCorrupt(EngineError):
    """A model file that cannot be read."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem
        self.hint = "Give a GGUF file, or a folder with config.json, tokenizer.json, safetensors."

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class LearnedUnfit(EngineError):
    """What was learned from verdicts cannot be used with the models that are there."""

    hint = "Learn again from the verdicts, which are all still there: weighbridge learn"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"what was learned does not fit: {self.problem}"


class ContextTooLong(EngineError):
    """Prompt and answer need more positions than the model has."""

    hint = "Shorten the prompt, or lower max_tokens."

    def __init__(self, needed_tokens: int, max_positions: int) -> None:
        super().__init__(needed_tokens, max_positions)
        self.needed_tokens, self.max_positions = needed_tokens, max_positions

    def __str__(self) -> str:
        return f"{self.needed_tokens} tokens are needed; the model has {self.max_positions}"


class DeadEnd(EngineError):
    """The guide allows no token, and the answer is not whole; there is no fallback distribution."""

    hint = "The guide, or what its parts demand together, cannot be met by this vocabulary."

    def __init__(self, num_tokens: int) -> None:
        super().__init__(num_tokens)
        self.num_tokens = num_tokens

    def __str__(self) -> str:
        return f"the guide allows nothing after {self.num_tokens} tokens of the answer"


class Truncated(EngineError):
    """The tokens ran out before a guided answer was whole; what there was is not returned."""

    hint = "Raise max_tokens, or let the guide demand less."

    def __init__(self, max_tokens: int) -> None:
        super().__init__(max_tokens)
        self.max_tokens = max_tokens

    def __str__(self) -> str:
        return f"the guided answer was not whole after {self.max_tokens} tokens"


class PullFailed(EngineError):
    """A model could not be downloaded, or what came does not match its pinned checksum."""

    def __init__(self, name: str, problem: str, hint: str = "") -> None:
        super().__init__(name, problem, hint)
        self.name, self.problem, self.hint = name, problem, hint

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


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
