"""Guide names: what a guide is called where it was written, never what is in it."""

from __future__ import annotations

from weighbridge.local_engine.guides.chain import Chain
from weighbridge.local_engine.guides.conjunction import Conjunction
from weighbridge.local_engine.guides.free_text import FreeText
from weighbridge.local_engine.guides.grammar import Gbnf, JsonSchema, Lark, Regex
from weighbridge.local_engine.guides.label_priors import LabelPrior
from weighbridge.local_engine.guides.logit_bias import LogitBias
from weighbridge.local_engine.guides.permitted import Permitted
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.local_engine.guides.texts import Texts

_NAMES: dict[type, str] = {
    FreeText: "free",
    Gbnf: "gbnf",
    JsonSchema: "json_schema",
    LabelPrior: "label_prior",
    Lark: "lark",
    LogitBias: "soft",
    Permitted: "allowed",
    Regex: "regex",
}


def guide_name(guide: Spec) -> str:
    """The name of the function that makes such a guide; of a guide of others, its class.

    >>> from weighbridge.local_engine import guides
    >>> guide_name(guides.then(guides.free(stop="."), guides.choice(["bug", "billing"])))
    'then(free, choice)'
    """
    match guide:
        case Texts(parts=(texts,)):
            return "choice" if len(texts) > 1 else "literal"
        case Texts():
            return "finite"
        case Chain(parts=parts):
            return f"then({', '.join(map(guide_name, parts))})"
        case Conjunction(first=first, second=second):
            return f"both({guide_name(first)}, {guide_name(second)})"
        case _:
            return _NAMES.get(type(guide), type(guide).__name__)
