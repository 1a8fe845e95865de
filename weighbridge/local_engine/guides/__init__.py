"""Guides: what an answer must look like, whatever the model would rather say.

>>> from weighbridge.local_engine import guides
>>> spec = guides.then(guides.literal("category: "), guides.choice(["bug", "billing"]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.local_engine.lazy import resolved

if TYPE_CHECKING:
    from weighbridge.local_engine.guides.chain import then as then
    from weighbridge.local_engine.guides.conjunction import biased as biased
    from weighbridge.local_engine.guides.conjunction import both as both
    from weighbridge.local_engine.guides.free_text import free as free
    from weighbridge.local_engine.guides.grammar import gbnf as gbnf
    from weighbridge.local_engine.guides.grammar import json_schema as json_schema
    from weighbridge.local_engine.guides.grammar import lark as lark
    from weighbridge.local_engine.guides.grammar import regex as regex
    from weighbridge.local_engine.guides.label_priors import label_prior as label_prior
    from weighbridge.local_engine.guides.logit_bias import soft as soft
    from weighbridge.local_engine.guides.permitted import allowed as allowed
    from weighbridge.local_engine.guides.texts import choice as choice
    from weighbridge.local_engine.guides.texts import finite as finite
    from weighbridge.local_engine.guides.texts import literal as literal

# Every guide and the module it comes from; resolved on first use, so that importing the package
# loads neither torch nor a grammar engine.
_HOMES = {
    "allowed": "permitted",
    "biased": "conjunction",
    "both": "conjunction",
    "choice": "texts",
    "finite": "texts",
    "free": "free_text",
    "gbnf": "grammar",
    "json_schema": "grammar",
    "label_prior": "label_priors",
    "lark": "grammar",
    "literal": "texts",
    "regex": "grammar",
    "soft": "logit_bias",
    "then": "chain",
}

__all__ = [
    "allowed",
    "biased",
    "both",
    "choice",
    "finite",
    "free",
    "gbnf",
    "json_schema",
    "label_prior",
    "lark",
    "literal",
    "regex",
    "soft",
    "then",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolved(f"{__name__}.{home}", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
