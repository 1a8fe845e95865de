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

from weighbridge.errors.engine import (
    ContextTooLong,
    DeadEnd,
    EngineError,
    ExtraMissing,
    LearnedUnfit,
    ModelCorrupt,
    ModelMissing,
    ModelUnknown,
    PullFailed,
    Truncated,
)
from weighbridge.errors.general import (
    CapabilityMissing,
    ConfigError,
    JsonInvalid,
    KeyMissing,
    ProviderAbsent,
    RouterClosed,
    SchemaRefused,
    TaskInvalid,
    TicketInvalid,
    WeighbridgeError,
)
from weighbridge.errors.review import (
    ChangeRefused,
    ItemNotFound,
    LearnedUnknown,
    LeaseLost,
    PersonRefused,
    QueueError,
    QueueUnavailable,
    VerdictInvalid,
    WebhookInvalid,
)

__all__ = [
    "CapabilityMissing",
    "ChangeRefused",
    "ConfigError",
    "ContextTooLong",
    "DeadEnd",
    "EngineError",
    "ExtraMissing",
    "ItemNotFound",
    "JsonInvalid",
    "KeyMissing",
    "LearnedUnfit",
    "LearnedUnknown",
    "LeaseLost",
    "ModelCorrupt",
    "ModelMissing",
    "ModelUnknown",
    "PersonRefused",
    "ProviderAbsent",
    "PullFailed",
    "QueueError",
    "QueueUnavailable",
    "RouterClosed",
    "SchemaRefused",
    "TaskInvalid",
    "TicketInvalid",
    "Truncated",
    "VerdictInvalid",
    "WebhookInvalid",
    "WeighbridgeError",
]

# People read and catch them under this name, wherever they are written down.
for _name in __all__:
    globals()[_name].__module__ = __name__
