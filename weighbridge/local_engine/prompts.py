"""Prompts: what a model reads before an answer, as token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from weighbridge.errors import EngineError, TaskInvalid
from weighbridge.local_engine.chat_template import ChatTemplate, Message
from weighbridge.local_engine.checks import encoded, unwanted
from weighbridge.local_engine.vocabulary import Vocabulary

# Plain text to go on with, a conversation, or token ids.
PromptLike: TypeAlias = str | Sequence[Message] | Sequence[int]

_WANTED = "a text, a list of `Message`s, or a list of token ids as whole numbers"


class PromptEncoder:
    """Makes token ids of prompts.

    Args:
        vocabulary: of the model.
        chat: how the model writes conversations; None for a model that knows none.
        bos_id: a token that plain text is read after; None for models that read it as it is.
    """

    def __init__(self, vocabulary: Vocabulary, chat: ChatTemplate | None, bos_id: int | None):
        self._vocabulary, self._chat = vocabulary, chat
        self._bos = [] if bos_id is None else [bos_id]

    def ids(self, prompt: PromptLike) -> list[int]:
        """The tokens of a prompt; at least one.

        Raises:
            TypeError: no prompt.
            TaskInvalid: an empty one, ids that are no tokens, or text that cannot be encoded.
            EngineError: a conversation that the model's template does not write.
        """
        if isinstance(prompt, str):
            encoded(prompt, "/prompt")
            ids = [*self._bos, *self._vocabulary.encode(prompt)]
        else:
            ids = self._listed(prompt)
        if not ids:
            raise TaskInvalid("/prompt", "is empty", "Give the model at least one token to read.")
        last = self._vocabulary.vocab_size - 1
        if not all(0 <= token <= last for token in ids):
            raise TaskInvalid("/prompt", f"has ids that are no tokens, which go from 0 to {last}")
        return ids

    def _listed(self, prompt: Sequence[Message] | Sequence[int]) -> list[int]:
        # Neither bytes, which are numbers too, nor truth values were meant as token ids.
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
            raise unwanted("a prompt", _WANTED, prompt)
        for part in prompt:
            if type(part) is not int and not isinstance(part, Message):
                raise unwanted("a prompt", _WANTED, part)
        ids = [part for part in prompt if isinstance(part, int)]
        messages = [part for part in prompt if isinstance(part, Message)]
        if ids and messages:
            raise TypeError(f"a prompt must be {_WANTED}, not of both")
        if not messages:
            return ids
        if self._chat is None:
            raise EngineError("the model knows no conversations; give it plain text")
        return self._chat.render(messages)
