"""All ways to spell the options of a choice in tokens, as far as they have been looked at.

A tree of token paths. Each node is a beginning of at least one option. From there a token may

* *close* an option: it spells what is left of it together with the closing character, or more;
* lead to a child, a longer beginning that is in the tree as well;
* lead *outside*: a beginning that is not in the tree. Nothing behind it has been looked at.

So the probability of an option is at least that of its closings, and what is missing lies under the
tokens that lead outside: both bounds cost nothing beyond the rows of the tree. At first the tree
holds the tokenizer's own spellings; `grow` adds what lies behind one outside token. Of very many
options it holds nothing at first: what is likely grows, what is not is never looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from weighbridge.errors import EngineError
from weighbridge.local_engine.trie import ROOT, Trie
from weighbridge.local_engine.vocabulary import Vocabulary

END_OF_TEXT = ""  # closer of an option that nothing follows
MAX_WHOLE = 1_024  # options whose own spellings are all in the tree from the beginning
_MAX_COMPLETED = 32  # options behind a grown node that are spelled to their ends at once


class Text(NamedTuple):
    """How one option is written: the text, and the character that closes it."""

    stem: str
    closer: str


class Exits(NamedTuple):
    """Tokens after some nodes, flat and in the order of the nodes.

    Args:
        nodes: int64 [E], after which node; ROOT included.
        ids: int64 [E], the token.
        targets: int64 [E], where it leads: an option that it closes, a child, or outside, -1.
    """

    nodes: Tensor
    ids: Tensor
    targets: Tensor

    def between(self, first: int, after: int) -> Exits:
        """Those of the nodes from `first` up to but not including `after`."""
        low, high = torch.searchsorted(self.nodes, torch.tensor([first, after])).tolist()
        return Exits(self.nodes[low:high], self.ids[low:high], self.targets[low:high])

    def joined(self, more: Exits) -> Exits:
        """Those of earlier and of later nodes."""
        return Exits(*(torch.cat(pair) for pair in zip(self, more, strict=True)))


class Spellings:
    """The tree for some options; parents come before their children.

    Args:
        vocabulary: of the model.
        texts: at least one, all different.

    Raises:
        EngineError: the vocabulary has no tokens for one of them.
    """

    def __init__(self, vocabulary: Vocabulary, texts: Sequence[Text]) -> None:
        self._vocabulary = vocabulary
        self._stems = [text.stem.encode() for text in texts]
        self._closers = [text.closer.encode() for text in texts]
        self._trie = Trie()
        self._nodes = [_Node(0, range(len(texts)))]  # entry i is node i - 1, the root first
        for option, text in enumerate(texts if self.is_whole else ()):
            try:
                ends = [self._insert(ROOT, path) for path in canonical(vocabulary, text)]
            except ValueError:  # `TableVocabulary` is greedy, and can miss the only spelling
                ends = []
            if not ends or any(option not in self._node(end).options for end in ends):
                raise EngineError(f"the vocabulary cannot spell option {option}")
        self.closings, self.children, self.outside = self._exits(range(ROOT, len(self)))

    def __len__(self) -> int:
        """How many nodes there are, the root not counted."""
        return len(self._trie)

    @property
    def is_whole(self) -> bool:
        """Whether every option's own spellings are in the tree from the beginning."""
        return len(self._stems) <= MAX_WHOLE

    @property
    def num_options(self) -> int:
        """How many texts there are."""
        return len(self._stems)

    @property
    def exits(self) -> tuple[Exits, Exits, Exits]:
        """All tokens that may come after each node, wherever they lead."""
        return self.closings, self.children, self.outside

    def path(self, node: int) -> list[int]:
        """The tokens from the root to a node."""
        return [self._trie.tokens[step] for step in self._trie.path(node)]

    def copy(self) -> Spellings:
        """A tree that can grow without changing this one."""
        new = object.__new__(Spellings)
        new.__dict__.update(self.__dict__)
        new._trie, new._nodes = self._trie.copy(), [*self._nodes]
        return new

    def grow(self, exits: Sequence[tuple[int, int]]) -> list[int]:
        """Add the nodes behind some outside tokens, and the likeliest spellings from there on.

        Args:
            exits: node and token of each.

        Returns:
            The node behind each; the new nodes in between belong to it.
        """
        first, grown = len(self), []
        for node, token in exits:
            child = self._insert(node, [token])
            offset, options = self._node(child)
            for option in options if len(options) <= _MAX_COMPLETED else ():
                self._insert(child, _respelled(self._vocabulary, self._stems[option][offset:]))
            grown.append(child)
        new = self._exits(range(first, len(self)))
        self.closings = self.closings.joined(new[0])
        self.children = self.children.joined(new[1])
        self.outside = self.outside.joined(new[2])
        return grown

    def _node(self, node: int) -> _Node:
        return self._nodes[node - ROOT]

    def _insert(self, node: int, path: Sequence[int]) -> int:
        for token in path:
            parent, child = self._node(node), self._trie.insert([token], below=node)
            if child == len(self._nodes) + ROOT:
                spelled = self._vocabulary.token_bytes[token]
                fitting = (
                    o for o in parent.options if self._stems[o].startswith(spelled, parent.offset)
                )
                self._nodes.append(_Node(parent.offset + len(spelled), tuple(fitting)))
            node = child
        return node

    def _exits(self, nodes: range) -> tuple[Exits, Exits, Exits]:
        """Closings, children and outside tokens after some nodes."""
        closings, children, outside = _Columns(), _Columns(), _Columns()
        for key in nodes:
            node, inside = self._node(key), self._trie.children(key)
            for option in node.options:
                closings.add(key, self._closing(option, node.offset), option)
            for token, child in inside.items():
                children.add(key, [token], child)
            outside.add(key, sorted(self._beginnings(node) - inside.keys()), -1)
        return closings.exits(), children.exits(), outside.exits()

    def _closing(self, option: int, offset: int) -> Sequence[int]:
        rest = self._stems[option][offset:]
        if self._closers[option]:
            return self._vocabulary.starting_with(rest + self._closers[option])
        return () if rest else sorted(self._vocabulary.eos_ids)

    def _beginnings(self, node: _Node) -> set[int]:
        """Tokens that spell a part of what is left of some option, or all of it."""
        table = self._vocabulary.token_bytes
        found: set[int] = set()
        for option in node.options:
            rest = self._stems[option][node.offset :]
            if rest:
                fitting = self._vocabulary.consistent_with(rest)
                found.update(i for i in fitting if len(table[i]) <= len(rest))
        return found


class _Node(NamedTuple):
    """Where a beginning ends, in bytes, and which options it is a beginning of."""

    offset: int
    options: Sequence[int]


def canonical(vocabulary: Vocabulary, text: Text) -> list[list[int]]:
    """The tokenizer's own spellings of a stem: alone, and as it is before its closer.

    The two differ where the closing character merges with the end of the text into one token.
    """
    alone = vocabulary.encode(text.stem)
    size = len(text.stem.encode())
    spelled, path = 0, list[int]()
    for token in vocabulary.encode(text.stem + text.closer):
        spelled += len(vocabulary.token_bytes[token])
        if spelled > size:
            break
        path.append(token)
    return [alone] if path == alone else [alone, path]


def has_spelling(vocabulary: Vocabulary, text: str) -> bool:
    """Whether the tokenizer can write a text as it is; some put stand-ins for what they lack."""
    try:
        ids = vocabulary.encode(text)
    except ValueError:
        return False
    return b"".join(vocabulary.token_bytes[token] for token in ids) == text.encode()


def _respelled(vocabulary: Vocabulary, rest: bytes) -> list[int]:
    """A likely spelling of bytes that may begin inside a character: the longest tokens that fit.

    Only where they cannot be text; else the tokenizer's own.
    """
    try:
        return vocabulary.encode(rest.decode())
    except ValueError:  # no text, or none that `TableVocabulary` finds a spelling for
        pass
    table, path = vocabulary.token_bytes, list[int]()
    while rest:
        fitting = [i for i in vocabulary.consistent_with(rest) if rest.startswith(table[i])]
        if not fitting:
            break  # this way nothing can be spelled; its closings stay empty
        best = max(fitting, key=lambda i: len(table[i]))
        path.append(best)
        rest = rest[len(table[best]) :]
    return path


class _Columns:
    """Exits in the making; arrays, since ten thousand options have a million of them."""

    def __init__(self) -> None:
        self._columns = array("q"), array("q"), array("q")

    def add(self, node: int, tokens: Sequence[int], target: int) -> None:
        for column, values in zip(
            self._columns, ([node] * len(tokens), tokens, [target] * len(tokens)), strict=True
        ):
            column.extend(values)

    def exits(self) -> Exits:
        return Exits(*(torch.tensor(column, dtype=torch.long) for column in self._columns))
