"""Regular expressions as users write them, and as the grammar engine takes them; without torch."""

from __future__ import annotations

import re
import warnings

from weighbridge.errors import ExtraMissing, TaskInvalid
from weighbridge.local_engine.checks import encoded
from weighbridge.local_engine.guides.lowering.patterns import Untranslatable, translated

_FLAGS = re.compile(r"\(\?([is]+)\)")
_INSTEAD = (
    r"The whole answer is matched, so ^, $ and \b can go. Write look-around and back references "
    "out as alternatives (a|b), other escapes as classes ([0-9]); or take guides.lark."
)


def engine_grammar(pattern: str) -> str:
    """The grammar of the engine whose texts are those that a pattern matches as a whole.

    Raises:
        TypeError: no text.
        TaskInvalid: no regular expression, or one with something that the engine does not have.
    """
    encoded(pattern, "/pattern")
    flags = _FLAGS.match(pattern)
    rest = pattern[flags.end() :] if flags else pattern
    try:
        found = translated(rest, dot_is_any=flags is not None and "s" in flags[1])
    except Untranslatable as reason:
        raise refusal(pattern, f"not supported: {reason}", _INSTEAD) from None
    if flags and "i" in flags[1]:
        found = f"(?i:{found})"
    return f"start: /(?:{found})/"


def check_pattern(pattern: str) -> None:
    """See that the engine takes a pattern, before a model is loaded for it.

    Raises:
        TaskInvalid: it does not; see `engine_grammar`.
        ExtraMissing: the grammar engine is not installed.
    """
    try:
        from llguidance import LLMatcher
    except ImportError:
        raise ExtraMissing("local", "llguidance") from None

    problem = LLMatcher.validate_grammar(engine_grammar(pattern))
    if problem:
        raise refusal(pattern, problem.partition("\n")[0])


def refusal(pattern: str, problem: str, hint: str = "") -> TaskInvalid:
    """The error of a pattern that the engine does not take, to be raised.

    Where nobody could take it, Python says what is wrong with it: it names the place.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at character {error.pos}"
        return TaskInvalid("/pattern", f"no regular expression: {error.msg}{place}")
    except (RecursionError, OverflowError):  # it is too deep for Python
        pass
    return TaskInvalid("/pattern", problem, hint)
