"""Prompts as a model's own chat template writes them, with no control token out of any text.

The template never sees a text. It is rendered with placeholders, which are found again in what it
wrote: around them its control tokens are recognised, and what takes their place is plain text
whatever it says. A template that only strips a text is followed; one that would change it further
is refused.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from weighbridge.errors import EngineError, ExtraMissing
from weighbridge.local_engine.checks import check_text
from weighbridge.local_engine.tokenizer import ByteTokenizer

Role: TypeAlias = Literal["system", "user", "assistant"]

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; what looks like a control token in `content` is plain text."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        # A template writes roles as they are, so a free one could write control tokens.
        if self.role not in ("system", "user", "assistant"):
            raise ValueError("the role of a message is system, user or assistant")
        check_text(self.content, "the content of a message")


class ChatTemplate:
    """A Jinja chat template over the tokens of a model.

    Where the template knows no system role, what the system says opens the user's first turn.

    Args:
        template: Jinja source; empty means ChatML.
        tokenizer: of the model.
        bos_token: what the template calls by this name.
        eos_token: the same.
        now: for templates that write the date; None reads the clock, once.

    Raises:
        EngineError: no template for a model without ChatML tokens, or one that cannot be followed.
        ExtraMissing: jinja2 is not installed.
    """

    def __init__(
        self,
        template: str,
        tokenizer: ByteTokenizer,
        bos_token: str = "",
        eos_token: str = "",
        *,
        now: datetime | None = None,
    ) -> None:
        try:
            from weighbridge.local_engine.template_environment import compile_template
        except ImportError:
            raise ExtraMissing("local", "jinja2") from None

        self._tokenizer = tokenizer
        if not template:
            for token in ("<|im_start|>", "<|im_end|>"):
                if token not in tokenizer.added_tokens:
                    raise EngineError(f"the model has no chat template and no ChatML token {token}")
        names = sorted(filter(None, tokenizer.added_tokens), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        self._render_source = compile_template(
            template or CHATML, {"bos_token": bos_token, "eos_token": eos_token}, now
        )
        self._last_frame: tuple[str, _Frame] | None = None
        self._has_system_role = True
        try:
            self._frame("system")
        except EngineError:
            self._has_system_role = False
            self._frame("system")

    def render(self, messages: Sequence[Message]) -> list[int]:
        """A conversation, and the opening of the assistant's next turn.

        Raises:
            EngineError: the template refuses the conversation, leaves out a text or changes it.
        """
        texts = [message.content for message in messages]
        return self._encode(self._runs(self._pieces(messages), texts))

    def before_user(self, system: str) -> list[int]:
        """Everything before the user's text: the part that all tickets of a task share.

        Args:
            system: the instructions; empty leaves them to the template.
        """
        frame = self._frame(system)
        return self._encode(frame.before)

    def user_text(self, text: str, system: str) -> str:
        """A ticket as it has to be encoded between `before_user` and `after_user`.

        Stripped where the template strips; a space that belongs to its first word comes first.
        """
        frame = self._frame(system)
        text = frame.lead + frame.slot.adapted(text)
        return self._spaced(text, follows=frame.before[-1:]) if frame.opens_run else text

    def after_user(self, system: str) -> list[int]:
        """From the end of the user's text to the opening of the assistant's turn."""
        return self._encode(self._frame(system).after)

    def _frame(self, system: str) -> _Frame:
        """What surrounds a ticket; kept, since every ticket of a task asks three times."""
        kept = self._last_frame
        if kept is None or kept[0] != system:
            self._last_frame = kept = system, self._new_frame(system)
        return kept[1]

    def _new_frame(self, system: str) -> _Frame:
        messages = [*([Message("system", system)] if system else []), Message("user", "ticket")]
        texts = [message.content for message in messages]
        pieces = self._pieces(messages)
        user = len(texts) - 1
        at = next(i for i, p in enumerate(pieces) if isinstance(p, _Slot) and p.index == user)
        slot = pieces[at]
        assert isinstance(slot, _Slot)
        before = self._runs(pieces[:at], texts)
        lead = ""
        opens_run = not before or isinstance(before[-1], int)
        if not opens_run:
            *before, run = before
            assert isinstance(run, str)
            # A space before a word is part of the word's token, so it goes with the ticket.
            kept = run.rstrip(" ")
            lead = run[len(kept) :]
            before += [kept] if kept else []
        after = self._runs(pieces[at + 1 :], texts, continues=True)
        return _Frame(before, opens_run, lead, slot, after)

    def _pieces(self, messages: Sequence[Message]) -> list[str | _Slot]:
        """What the template writes, and the slots of the messages in it; of empty ones none."""
        nonce = secrets.token_hex(16)
        marks = [_mark(nonce, i) if m.content else "" for i, m in enumerate(messages)]
        turns = [
            {"role": m.role, "content": f"{_LEFT}{mark}{_RIGHT}" if mark else ""}
            for m, mark in zip(messages, marks, strict=True)
        ]
        if not self._has_system_role:
            turns = _without_system(turns)
        written = self._render_source(turns)
        for message, mark in zip(messages, marks, strict=True):
            if mark and written.count(mark) != 1:
                raise EngineError(
                    f"the chat template leaves out, repeats or changes the {message.role}'s text"
                )
        pattern = "|".join(re.escape(mark) for mark in marks if mark) or r"(?!)"
        pieces: list[str | _Slot] = []
        end = 0
        for match in re.finditer(f"({_LEFT})?({pattern})({_RIGHT})?", written):
            left, mark, right = match.groups()
            pieces += [
                written[end : match.start()],
                _Slot(marks.index(mark), strips_left=not left, strips_right=not right),
            ]
            end = match.end()
        pieces.append(written[end:])
        if any(_PAD in piece for piece in pieces if isinstance(piece, str)):
            raise EngineError("the chat template strips texts in a way that cannot be followed")
        return pieces

    def _runs(
        self, pieces: Iterable[str | _Slot], texts: Sequence[str], *, continues: bool = False
    ) -> list[int | str]:
        """Control tokens, and the plain text between them as it is to be encoded."""
        runs: list[int | str] = []
        run = ""

        def finish() -> None:
            if run:
                is_new = runs or not continues
                runs.append(self._spaced(run, follows=runs[-1:]) if is_new else run)

        for piece in pieces:
            if isinstance(piece, _Slot):
                run += piece.adapted(texts[piece.index])
                continue
            end = 0
            for match in self._control.finditer(piece):
                run += piece[end : match.start()]
                finish()
                runs.append(self._tokenizer.added_tokens[match.group()])
                run, end = "", match.end()
            run += piece[end:]
        finish()
        return runs

    def _spaced(self, run: str, *, follows: Sequence[int | str]) -> str:
        """A run with the space that the tokenizer's own files would put before it."""
        match self._tokenizer.space_prefix:
            case "never":
                adds = False
            case "first":
                adds = not follows and not run.startswith(" ")
            case "always":
                adds = not run.startswith(" ")
            case "legacy":
                adds = True
        return f" {run}" if adds else run

    def _encode(self, runs: Iterable[int | str]) -> list[int]:
        ids: list[int] = []
        for run in runs:
            ids += [run] if isinstance(run, int) else self._tokenizer.encode(run)
        return ids


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place of a message's text in what a template wrote."""

    index: int
    strips_left: bool
    strips_right: bool

    def adapted(self, text: str) -> str:
        text = text.lstrip() if self.strips_left else text
        return text.rstrip() if self.strips_right else text


@dataclass(frozen=True, slots=True)
class _Frame:
    """What surrounds the user's text; `lead` and the text itself are encoded as one."""

    before: list[int | str]
    opens_run: bool
    lead: str
    slot: _Slot
    after: list[int | str]


# Around each placeholder, so that stripping shows. `_PAD` is white space that no template writes.
_PAD = "\u2003"
_LEFT, _RIGHT = f" \n{_PAD}", f"{_PAD}\n "


def _mark(nonce: str, index: int) -> str:
    """A placeholder that no text can guess, and that no filter but stripping leaves as it is.

    Changing case, escaping for HTML or JSON, splitting into lines or words: each changes some of
    its characters.
    """
    return f"""Qx{nonce}<&'"\\\n\té  {index}>xQ"""


def _without_system(turns: list[dict[str, str]]) -> list[dict[str, str]]:
    """What the system says, at the beginning of the first turn of the user."""
    if not turns or turns[0]["role"] != "system":
        return turns
    system, *rest = turns
    for i, turn in enumerate(rest):
        if turn["role"] == "user":
            both = "\n\n".join(filter(None, (system["content"], turn["content"])))
            return [*rest[:i], {**turn, "content": both}, *rest[i + 1 :]]
    return [{**system, "role": "user"}, *rest]
