"""What every guide keeps, as checks that any guide's tests can call.

`check_walk` follows an answer token by token and checks each state on its way; `check_bytes`
compares one state with a brute-force reading of the same language.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from weighbridge.local_engine.guides.protocol import Guide, State
from weighbridge.local_engine.vocabulary import Vocabulary

Choose = Callable[[list[int]], int]


def allowed_ids(guide: Guide, state: State) -> list[int]:
    """The tokens that may come next."""
    return torch.nonzero(guide.bias(state) > -torch.inf).flatten().tolist()


def is_whole(guide: Guide, state: State, vocabulary: Vocabulary) -> bool:
    """Whether the text may end here."""
    return any(guide.bias(state)[token] > -torch.inf for token in vocabulary.eos_ids)


def check_walk(
    guide: Guide, vocabulary: Vocabulary, choose: Choose, max_tokens: int = 12
) -> list[tuple[bytes, State]]:
    """Check every state on the way of one answer.

    Args:
        guide: bound to the vocabulary.
        vocabulary: small enough to try every token in every state.
        choose: one of the allowed tokens.
        max_tokens: where to stop, if the answer does not end.

    Returns:
        The states, each with the text before it; the last one may lie behind an end of text.
    """
    state, text = guide.init(), b""
    way = [(text, state)]
    check_state(guide, state, vocabulary)
    for _ in range(max_tokens):
        allowed = allowed_ids(guide, state)
        if not allowed or guide.finished(state):
            break
        token = choose(allowed)
        state = guide.advance(state, token)
        if token not in vocabulary.eos_ids:
            text += vocabulary.token_bytes[token]
        way.append((text, state))
        check_state(guide, state, vocabulary)
    return way


def check_state(guide: Guide, state: State, vocabulary: Vocabulary) -> None:
    """Check all laws that concern one state; every token is tried."""
    row = guide.bias(state)
    assert row.shape == (vocabulary.vocab_size,)
    assert row.dtype == torch.float32
    assert not (row.isnan() | row.isposinf()).any()
    kept = row.clone()
    for token in range(-1, vocabulary.vocab_size + 1):
        is_token = 0 <= token < vocabulary.vocab_size
        is_allowed = is_token and bool(kept[token] > -torch.inf)
        if is_token and not vocabulary.token_bytes[token] and token not in vocabulary.eos_ids:
            assert not is_allowed, f"{token} spells nothing"
        after = _advanced(guide, state, token)
        assert is_allowed == (after is not None), f"bias and advance disagree about {token}"
        if after is not None:
            assert _advanced(guide, state, token) == after, "advanced twice, it differs"
    assert torch.equal(guide.bias(state), kept), "advancing changed the state before"
    _check_end(guide, state, vocabulary)
    _check_forced(guide, state, vocabulary)


def check_bytes(
    guide: Guide,
    state: State,
    text: bytes,
    vocabulary: Vocabulary,
    *,
    may_begin: Callable[[bytes], bool],
    is_member: Callable[[bytes], bool],
) -> None:
    """Check that a hard guide is byte-complete: compare it with a language spelled out.

    Args:
        guide: bound to the vocabulary.
        state: one that no end of text has led to.
        text: what has been written before it.
        vocabulary: of the guide.
        may_begin: whether a text is the beginning of a member.
        is_member: whether a text is one.
    """
    expected = {
        token
        for token, spelled in enumerate(vocabulary.token_bytes)
        if spelled and token not in vocabulary.eos_ids and may_begin(text + spelled)
    }
    if is_member(text):
        expected |= vocabulary.eos_ids
    assert set(allowed_ids(guide, state)) == expected


def check_members(
    guide: Guide, state: State, text: bytes, vocabulary: Vocabulary, members: Collection[bytes]
) -> None:
    """`check_bytes` against a language that is listed; where the guide has finished, a member."""
    if guide.finished(state):
        assert text in members
        return
    check_bytes(
        guide,
        state,
        text,
        vocabulary,
        may_begin=lambda text: any(member.startswith(text) for member in members),
        is_member=members.__contains__,
    )


def _check_end(guide: Guide, state: State, vocabulary: Vocabulary) -> None:
    """End of text: where it stands alone the answer is finished, and behind it as well."""
    allowed = set(allowed_ids(guide, state))
    ends = allowed & vocabulary.eos_ids
    assert guide.finished(state) == (bool(ends) and allowed == ends)
    for token in ends:
        ended = guide.advance(state, token)
        assert guide.finished(ended)
        assert guide.advance(ended, token) == ended
        if guide.finished(state):
            assert ended == state, "end of text changed a finished state"


def _check_forced(guide: Guide, state: State, vocabulary: Vocabulary) -> None:
    """Forced tokens can come, and nothing else can."""
    forced = guide.forced(state)
    spelled = b"".join(vocabulary.token_bytes[token] for token in forced)
    for token in forced:
        allowed = allowed_ids(guide, state)
        assert token in allowed, "forced, but banned"
        assert vocabulary.eos_ids.isdisjoint(allowed), "forced, where the text may end"
        for other in allowed:
            texts = (spelled, vocabulary.token_bytes[other])
            assert min(texts, key=len) == max(texts, key=len)[: len(min(texts, key=len))]
        state = guide.advance(state, token)
        spelled = spelled[len(vocabulary.token_bytes[token]) :]


def _advanced(guide: Guide, state: State, token: int) -> Any:
    try:
        return guide.advance(state, token)
    except ValueError:
        return None


def spellings(text: bytes, vocabulary: Vocabulary) -> Iterator[list[int]]:
    """Every way to spell a text in tokens."""
    if not text:
        yield []
    for token, spelled in enumerate(vocabulary.token_bytes):
        if spelled and text.startswith(spelled):
            for rest in spellings(text[len(spelled) :], vocabulary):
                yield [token, *rest]
