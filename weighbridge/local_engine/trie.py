"""A prefix tree of token ids; the nodes of all spellings of all options, each kept once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        self._children: dict[int, dict[int, int]] = {ROOT: {}}

    def __len__(self) -> int:
        return len(self.tokens)

    def insert(self, path: Sequence[int], below: int = ROOT) -> int:
        """The node at the end of `path` below a node; made if it is not there."""
        node = below
        for token in path:
            child = self._children[node].get(token)
            if child is None:
                child = self._children[node][token] = len(self.tokens)
                self._children[child] = {}
                self.tokens.append(token)
                self.parents.append(node)
            node = child
        return node

    def children(self, node: int) -> Mapping[int, int]:
        """The nodes right below a node, by token."""
        return self._children[node]

    def copy(self) -> Trie:
        """A trie that can grow without changing this one."""
        new = Trie()
        new.tokens, new.parents = [*self.tokens], [*self.parents]
        new._children = {node: {**below} for node, below in self._children.items()}
        return new

    def path(self, node: int, above: int = ROOT) -> list[int]:
        """The nodes from just below `above` down to `node`, in order."""
        nodes = []
        while node != above:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]
