"""Act on language-model answers only when they deserve it.

>>> from weighbridge import Ticket
>>> Ticket.of("I was charged twice, refund please").body
'I was charged twice, refund please'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weighbridge._api import atriage as atriage
    from weighbridge._api import triage as triage
    from weighbridge._api import triage_many as triage_many
    from weighbridge.decision import Attempt as Attempt
    from weighbridge.decision import Decision as Decision
    from weighbridge.decision import FailureKind as FailureKind
    from weighbridge.decision import FieldEvidence as FieldEvidence
    from weighbridge.decision import Guarantee as Guarantee
    from weighbridge.decision import Reason as Reason
    from weighbridge.errors import ConfigError as ConfigError
    from weighbridge.errors import EngineError as EngineError
    from weighbridge.errors import QueueUnavailable as QueueUnavailable
    from weighbridge.errors import TaskInvalid as TaskInvalid
    from weighbridge.errors import TicketInvalid as TicketInvalid
    from weighbridge.errors import WeighbridgeError as WeighbridgeError
    from weighbridge.router.resolving import Resolution as Resolution
    from weighbridge.router.router import Router as Router
    from weighbridge.schemas.labels import Label as Label
    from weighbridge.schemas.redaction import Redactor as Redactor
    from weighbridge.schemas.task import LogitBias as LogitBias
    from weighbridge.schemas.task import Task as Task
    from weighbridge.schemas.task import Triage as Triage
    from weighbridge.schemas.ticket import Ticket as Ticket

__version__ = "0.1.0"

# Every public name and the module it comes from; resolved on first use, so that importing the
# package loads none of them.
_HOMES = {
    "Attempt": "decision",
    "ConfigError": "errors",
    "Decision": "decision",
    "EngineError": "errors",
    "FailureKind": "decision",
    "FieldEvidence": "decision",
    "Guarantee": "decision",
    "Label": "schemas.labels",
    "LogitBias": "schemas.task",
    "QueueUnavailable": "errors",
    "Reason": "decision",
    "Redactor": "schemas.redaction",
    "Resolution": "router.resolving",
    "Router": "router.router",
    "Task": "schemas.task",
    "TaskInvalid": "errors",
    "Ticket": "schemas.ticket",
    "TicketInvalid": "errors",
    "Triage": "schemas.task",
    "WeighbridgeError": "errors",
    "atriage": "_api",
    "triage": "_api",
    "triage_many": "_api",
}

__all__ = [
    "Attempt",
    "ConfigError",
    "Decision",
    "EngineError",
    "FailureKind",
    "FieldEvidence",
    "Guarantee",
    "Label",
    "LogitBias",
    "QueueUnavailable",
    "Reason",
    "Redactor",
    "Resolution",
    "Router",
    "Task",
    "TaskInvalid",
    "Ticket",
    "TicketInvalid",
    "Triage",
    "WeighbridgeError",
    "atriage",
    "triage",
    "triage_many",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
