"""The local engine: writes under guides and weighs every allowed answer on this machine, offline.

>>> from weighbridge.local_engine import Engine, guides
>>> spec = guides.choice(["billing", "bug"])
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from weighbridge.local_engine.lazy import resolved

# Read by libgomp when torch is loaded, so it must stand here, before any module imports torch. By
# default a waiting thread spins for milliseconds, on a core that another process may want. Measured
# in one run on two cores with one busy process beside: 0.65 s for a ticket instead of 1.3 s, 4 s to
# the first answer instead of 14 s. On an idle machine it costs some six per cent.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from weighbridge.local_engine import guides as guides
    from weighbridge.local_engine.chat_template import Message as Message
    from weighbridge.local_engine.decoding.generation import Generation as Generation
    from weighbridge.local_engine.decoding.sampling import Sampling as Sampling
    from weighbridge.local_engine.engine import Engine as Engine
    from weighbridge.local_engine.models.module import ModuleModel as ModuleModel
    from weighbridge.local_engine.models.transformers_model import (
        TransformersModel as TransformersModel,
    )
    from weighbridge.local_engine.posterior import Posterior as Posterior
    from weighbridge.local_engine.tokenizer import ByteTokenizer as ByteTokenizer
    from weighbridge.local_engine.vocabulary import TableVocabulary as TableVocabulary

# Every name and the module it comes from; resolved on first use, since they load torch.
_HOMES = {
    "ByteTokenizer": "tokenizer",
    "Engine": "engine",
    "Generation": "decoding.generation",
    "Message": "chat_template",
    "ModuleModel": "models.module",
    "Posterior": "posterior",
    "Sampling": "decoding.sampling",
    "TableVocabulary": "vocabulary",
    "TransformersModel": "models.transformers_model",
}

__all__ = [
    "ByteTokenizer",
    "Engine",
    "Generation",
    "Message",
    "ModuleModel",
    "Posterior",
    "Sampling",
    "TableVocabulary",
    "TransformersModel",
    "guides",
]


def __getattr__(name: str) -> Any:
    if name == "guides":
        return importlib.import_module(f"{__name__}.guides")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolved(f"{__name__}.{home}", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
