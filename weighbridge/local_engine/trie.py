"""A prefix tree of token ids; the nodes of all spellings of all options, each kept once."""

from __future__ import annotations

from collections.abc import Sequence

ROOT = -1


class Trie:
    """Grows by insertion; parents always come before their children.

    >>> trie = Trie()
    >>> trie.insert([7, 8]), trie.insert([7, 9]), trie.insert([])
    (1, 2, -1)
    >>> trie.tokens, trie.parents
    ([7, 8, 9], [-1, 0, 0])
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def insert(self, path: Sequence[int], below: int = ROOT) -> int:
        """The node at the end of `path` below a node; made if it is not there."""
        node = below
        for token in path:
            child = self._children.get((node, token))
            if child is None:
                child = len(self.tokens)
                self._children[node, token] = child
                self.tokens.append(token)
                self.parents.append(node)
            node = child
        return node

    def path(self, node: int, above: int = ROOT) -> list[int]:
        """The nodes from just below `above` down to `node`, in order."""
        nodes = []
        while node != above:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]
