"""A grammar as the engine compiles it, or the reason why it does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

# Without it a mask holds one token where the bytes are forced, and mass summed over it is wrong.
# The last such line wins, so it comes after whatever a grammar says itself.
_BYTE_COMPLETE = '\n%llguidance {"no_forcing": true}\n'

# How the engine's error begins where no token of the vocabulary fits.
NO_WAY_ON = "NoExtension"

_MAX_PROBLEM = 200  # characters; what the engine says after that is the grammar
_PLACE = re.compile(r"^(?:at )?\d+\(\d+\): (?:failed to compile JSON schema: )?")


class Uncompilable(Exception):
    """A grammar that the engine does not take.

    Args:
        problem: one line.
        is_empty: there is no answer at all.
    """

    def __init__(self, problem: str, *, is_empty: bool) -> None:
        super().__init__(problem, is_empty)
        self.problem, self.is_empty = problem, is_empty


def compiled(text: str, tokenizer: LLTokenizer) -> LLMatcher:
    """The matcher of a grammar in the engine's Lark, before the first token.

    Raises:
        Uncompilable: the engine does not take it, or nothing but the empty text follows from it.
    """
    from llguidance import LLMatcher

    matcher = LLMatcher(tokenizer, text + _BYTE_COMPLETE, log_level=0)
    mask = matcher.compute_bitmask()  # what never ends, and what is too large, only shows here
    if matcher.is_error():
        problem = problem_of(matcher)
        is_empty = problem.startswith(("Unsatisfiable", NO_WAY_ON))
        raise Uncompilable("it describes no answer" if is_empty else problem, is_empty=is_empty)
    bits = int.from_bytes(mask, "little")
    for token in tokenizer.eos_tokens:
        bits &= ~(1 << token)
    if not bits:
        what = "but the empty one" if matcher.is_accepting() else "that this vocabulary can spell"
        raise Uncompilable(f"it describes no answer {what}", is_empty=True)
    return matcher


def problem_of(matcher: LLMatcher) -> str:
    """The first line of a matcher's error, shortened; later lines quote the grammar."""
    line = matcher.get_error().partition("\n")[0].strip()
    return _PLACE.sub("", line)[:_MAX_PROBLEM]
