"""The ChatML turn format, built from token ids so that no text can open a turn of its own."""

from __future__ import annotations

from weighbridge.errors import EngineError
from weighbridge.local_engine.tokenizer import ByteTokenizer

_CUT = "\n[…]\n"


class ChatML:
    """Prompts in the form `<|im_start|>role … <|im_end|>`.

    Args:
        tokenizer: must have both control tokens.

    Raises:
        EngineError: the vocabulary has no ChatML tokens.
    """

    def __init__(self, tokenizer: ByteTokenizer) -> None:
        self._tokenizer = tokenizer
        try:
            self._start = tokenizer.control("<|im_start|>")
            self._end = tokenizer.control("<|im_end|>")
        except KeyError as error:
            raise EngineError(f"the model has no ChatML token {error.args[0]}") from None
        self._newline = tokenizer.encode("\n")

    def before_user(self, system: str) -> list[int]:
        """The system turn and the opening of the user's: the part that all tickets share."""
        encode = self._tokenizer.encode
        system_turn = [self._start, *encode(f"system\n{system}"), self._end, *self._newline]
        return [*system_turn, self._start, *encode("user\n")]

    def user(self, text: str, max_tokens: int) -> tuple[list[int], int]:
        """A ticket as plain text, and how many tokens it has in full.

        Where it is longer than `max_tokens`, the first three quarters and the last quarter of the
        budget are kept.
        """
        return cut_middle(self._tokenizer, text, max_tokens)

    def before_answer(self, scaffold: str) -> list[int]:
        """The end of the user's turn and the assistant's, with its first words given."""
        encode = self._tokenizer.encode
        return [self._end, *self._newline, self._start, *encode("assistant\n"), *encode(scaffold)]


def cut_middle(tokenizer: ByteTokenizer, text: str, max_tokens: int) -> tuple[list[int], int]:
    """A text as tokens, its middle left out if it is too long, and how many it has in full.

    Where it is longer than `max_tokens`, the first three quarters and the last quarter of that many
    are kept, with a mark between them.
    """
    ids = tokenizer.encode(text)
    if len(ids) <= max_tokens:
        return ids, len(ids)
    tail = max_tokens // 4
    kept = [*ids[: max_tokens - tail], *tokenizer.encode(_CUT), *ids[len(ids) - tail :]]
    return kept, len(ids)
