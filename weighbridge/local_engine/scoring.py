"""Exact scores of all options of a choice, in one packed forward pass.

The probability of an option is that of its spelling, closed by *any* token that begins with the
closing character: counting the bare quote alone would change it by orders of magnitude. Spellings
are those of `Spellings`: the tokenizer's own, and every one that closes with a token of theirs
already in the tree. What other spellings could hold is known to the last token before them, so the
mass comes as certified bounds; `tightened` narrows them for more forward passes.

Source: the interval is that of best-first search over token paths; exact summation is
computationally hard (Geh et al. 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from weighbridge.local_engine.logprobs import log_total
from weighbridge.local_engine.models.protocol import LanguageModel, Read, read_batch
from weighbridge.local_engine.spellings import Exits, Spellings, Text
from weighbridge.local_engine.trie import ROOT, Trie
from weighbridge.local_engine.vocabulary import Vocabulary

MAX_ROWS = 256  # rows of one packed pass; their logits take 50 MB at 49,152 tokens
_MAX_EXITS = 64  # looked behind in one pass of tightening; each takes a few rows
_STAGED_TOLERANCE, _STAGED_PASSES = 0.01, 16  # for more options than a tree holds whole
_TINY = 1e-300  # a share of nothing has a logarithm too
_MAX_TREES = 64  # lists of options whose spellings are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A place where a choice stands: tokens between the end of the cache and the first option."""

    prefix: tuple[int, ...]
    texts: tuple[Text, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceScores:
    """What the model thinks of each option at one place.

    Args:
        log_probs: float64 [number of options]; natural log of the probability of each option,
            raw logits at temperature 1, closing included; a lower bound over its spellings. -inf
            for one of very many that was too unlikely to be looked at.
        mass: (low, high), certified bounds of the probability that one of the options is spelled,
            in any spelling.
        decision_mass: probability of all tokens that may begin one of the options.
    """

    log_probs: Tensor
    mass: tuple[float, float]
    decision_mass: float

    @property
    def estimates(self) -> Tensor:
        """The same as `log_probs`, with an even share of the rest for options not looked at."""
        unknown = self.log_probs == -torch.inf
        if not bool(unknown.any()):
            return self.log_probs
        share = max(self.mass[1] - self.mass[0], _TINY) / int(unknown.sum())
        return self.log_probs.masked_fill(unknown, math.log(share))

    @property
    def dropped(self) -> float:
        """The probability that options which were not looked at could have; 0 if all were."""
        return self.mass[1] - self.mass[0] if bool((self.log_probs == -torch.inf).any()) else 0.0


ScoreBranches: TypeAlias = Callable[[Sequence[Branch]], list[ChoiceScores]]


class Scores:
    """The scores at one prompt; each branch is scored once and remembered.

    Args:
        score: scores branches after the prompt.
    """

    def __init__(self, score: ScoreBranches) -> None:
        self._score = score
        self._known: dict[Branch, ChoiceScores] = {}

    def of(self, branches: Sequence[Branch], ahead: Sequence[Branch] = ()) -> list[ChoiceScores]:
        """The scores of some branches, in order.

        Args:
            branches: those that are wanted.
            ahead: those that will probably be wanted next; one pass for all is quicker than two.
        """
        missing = dict.fromkeys(b for b in branches if b not in self._known)
        if missing:
            missing |= dict.fromkeys(b for b in ahead if b not in self._known)
            self._known.update(zip(missing, self._score(list(missing)), strict=True))
        return [self._known[branch] for branch in branches]


@dataclass(slots=True)
class Prompt:
    """A text that the model reads as soon as it must.

    Args:
        cache: what has been read of it.
        tail: the tokens that have not; the first pass over any options reads them as well, since
            one pass of many rows is quicker than two of few.
        logits: float32 [V], raw, of the token that follows; None while there is a tail.
        given: its last tokens, where they are the first words of an answer and accounted for.
        before: float32 [len(given), V], raw, of each of them; None while there is a tail.

    Raises:
        ValueError: neither a tail nor logits, or no unread token before those given.
    """

    cache: Any
    tail: tuple[int, ...] = ()
    logits: Tensor | None = None
    given: tuple[int, ...] = ()
    before: Tensor | None = None

    def __post_init__(self) -> None:
        if not self.tail and self.logits is None:
            raise ValueError("a prompt that has been read needs the logits of what follows")
        if self.given and len(self.tail) <= len(self.given):
            raise ValueError("what comes before the given tokens must be read with them")

    @property
    def num_tokens(self) -> int:
        """How many tokens there are, read or not."""
        return int(self.cache.num_tokens) + len(self.tail)

    def after(self, model: LanguageModel) -> Tensor:
        """Logits of the token that follows, float32 [V]; reads the tail if it must."""
        if self.logits is None:
            read_all(model, [self])
        assert self.logits is not None
        return self.logits


def read_all(model: LanguageModel, prompts: Sequence[Prompt]) -> None:
    """Read the tails of several prompts, in one pass where the model can."""
    unread = list({id(prompt): prompt for prompt in prompts if prompt.tail}.values())
    if not unread:
        return
    passes = read_batch(model, [Read(torch.tensor(p.tail), p.cache) for p in unread])
    counts = [1 + len(prompt.given) for prompt in unread]
    ends = [hidden[-count:] for (hidden, _), count in zip(passes, counts, strict=True)]
    parts = torch.split(model.logits(torch.cat(ends)), counts)
    for prompt, (_, cache), rows in zip(unread, passes, parts, strict=True):
        prompt.tail, prompt.cache = (), cache
        prompt.before, prompt.logits = rows[:-1], rows[-1]


class Scorer:
    """Scores options; what does not depend on the prompt is worked out once.

    Args:
        model: the model.
        vocabulary: of it.
    """

    def __init__(self, model: LanguageModel, vocabulary: Vocabulary) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._trees: dict[Hashable, Spellings] = {}

    def score(self, prompt: Prompt, branches: Sequence[Branch]) -> list[ChoiceScores]:
        """Score every option of every branch.

        Of more than a thousand options the likely ones are looked for, beginning by beginning,
        until what is left could add one per cent to the mass.

        Args:
            prompt: the text before all branches.
            branches: at least one.

        Returns:
            One result for each branch, in order.

        Raises:
            EngineError: the logits are not finite, or an option cannot be spelled.
            ContextTooLong: prompt, prefix and options need more positions than the model has.
        """
        trees = [self._spellings(branch.texts) for branch in branches]
        tallies = [
            _Tally(tree if tree.is_whole else tree.copy(), branch.prefix)
            for tree, branch in zip(trees, branches, strict=True)
        ]
        self._read(prompt, tallies)
        for tree, tally in zip(trees, tallies, strict=True):
            if not tree.is_whole:
                self._tighten(prompt, tally, _STAGED_TOLERANCE, _STAGED_PASSES)
        return [tally.scores() for tally in tallies]

    def tightened(
        self, prompt: Prompt, branch: Branch, *, tolerance: float = 0.01, max_passes: int = 8
    ) -> ChoiceScores:
        """Score one branch and look at more spellings, the likeliest first.

        Args:
            prompt: the text before the branch.
            branch: the options.
            tolerance: stop where the bounds of the mass differ by this share of the lower one.
            max_passes: of the model, at most; the first is that of `score`.

        Returns:
            Scores whose bounds narrow with every pass, and never cross.

        Raises:
            EngineError, ContextTooLong: like `score`.
        """
        tally = _Tally(self._spellings(branch.texts).copy(), branch.prefix)
        self._read(prompt, [tally])
        self._tighten(prompt, tally, tolerance, max_passes - 1)
        return tally.scores()

    def _tighten(self, prompt: Prompt, tally: _Tally, tolerance: float, max_passes: int) -> None:
        for _ in range(max_passes):
            low, high = tally.scores().mass
            if high - low <= tolerance * low or not tally.grow(_MAX_EXITS):
                break
            self._read(prompt, [tally])

    def _spellings(self, texts: tuple[Text, ...]) -> Spellings:
        if texts not in self._trees:
            if len(self._trees) >= _MAX_TREES:
                del self._trees[next(iter(self._trees))]
            self._trees[texts] = Spellings(self._vocabulary, texts)
        return self._trees[texts]

    def _read(self, prompt: Prompt, tallies: Sequence[_Tally]) -> None:
        """Find out what follows every node that has not been read; MAX_ROWS in a pass."""
        waiting = [(tally, node) for tally in tallies for node in tally.unread]
        for start in range(0, len(waiting), MAX_ROWS):
            part = waiting[start : start + MAX_ROWS]
            logits, rows = self._packed(prompt, [tally.path(node) for tally, node in part])
            totals = log_total(logits)
            for tally in tallies:
                own = [row for (owner, _), row in zip(part, rows, strict=True) if owner is tally]
                if own:
                    tally.take(torch.tensor(own), logits, totals)

    def _packed(self, prompt: Prompt, paths: Sequence[tuple[int, ...]]) -> tuple[Tensor, list[int]]:
        """Raw logits after each path, float32 [R, V], and the row of each; in one forward pass."""
        trie = Trie()
        root = trie.insert(prompt.tail)
        ends = [trie.insert(path, below=root) for path in paths]
        if not len(trie):
            return prompt.after(self._model)[None], [0] * len(paths)
        hidden, cache = self._model.forward(
            torch.tensor(trie.tokens), prompt.cache, parents=torch.tensor(trie.parents)
        )
        wanted = sorted({root, *ends} - {ROOT})
        logits = self._model.logits(hidden[wanted])
        if prompt.tail:
            prompt.cache = cache.prefix(prompt.cache.num_tokens + len(prompt.tail))
            prompt.tail, prompt.logits = (), logits[0]
        else:  # the end of the prompt has no row of its own in this pass
            wanted, logits = [ROOT, *wanted], torch.cat([prompt.after(self._model)[None], logits])
        row_of = {end: row for row, end in enumerate(wanted)}
        return logits, [row_of[end] for end in ends]


class _Tally:
    """What the model says about one tree of spellings, as far as its nodes have been read.

    Nodes are read in order, parents before children.
    """

    def __init__(self, tree: Spellings, prefix: tuple[int, ...]) -> None:
        self._tree, self._prefix = tree, prefix
        self._num_read = 0
        self._reached = {ROOT: 0.0}  # log-probability of the path to each node
        self._log_probs = torch.full((tree.num_options,), -torch.inf, dtype=torch.float64)
        # Of every token that leads outside; -inf once it has been looked behind.
        self._outside = torch.empty(0, dtype=torch.float64)
        self._decision_mass = 0.0

    @property
    def unread(self) -> range:
        """The nodes of which nothing is known yet, the root among them."""
        return range(self._num_read + ROOT, len(self._tree))

    def path(self, node: int) -> tuple[int, ...]:
        """The tokens from the end of the prompt to a node."""
        return (*self._prefix, *self._tree.path(node))

    def take(self, rows: Tensor, logits: Tensor, totals: Tensor) -> None:
        """Learn what follows the next unread nodes.

        Args:
            rows: int64 [number of nodes], where in the other two they are.
            logits: float32 [R, V].
            totals: float32 [R], see `log_total`.
        """
        first = self.unread.start
        after = first + len(rows)
        self._num_read += len(rows)

        def steps(exits: Exits) -> Tensor:
            at = rows[exits.nodes - first]
            return (logits[at, exits.ids] - totals[at]).double()

        children = self._tree.children.between(first, after)
        edges = zip(children.nodes.tolist(), children.targets.tolist(), strict=True)
        for (node, child), step in zip(edges, steps(children).tolist(), strict=True):
            self._reached[child] = self._reached[node] + step
        reached = torch.tensor(
            [self._reached[node] for node in range(first, after)], dtype=torch.float64
        )
        if first == ROOT:
            at_root = [exits.between(ROOT, ROOT + 1) for exits in self._tree.exits]
            self._decision_mass = min(1.0, float(torch.cat([*map(steps, at_root)]).exp().sum()))
        closings = self._tree.closings.between(first, after)
        values = reached[closings.nodes - first] + steps(closings)
        self._log_probs = _added(self._log_probs, closings.targets, values)
        outside = self._tree.outside.between(first, after)
        values = reached[outside.nodes - first] + steps(outside)
        self._outside = torch.cat([self._outside, values])

    def grow(self, max_exits: int) -> bool:
        """Look behind the likeliest outside tokens; False where there are none."""
        values, chosen = self._outside.topk(min(max_exits, len(self._outside)))
        chosen = chosen[values > -torch.inf]
        nodes, ids = (
            self._tree.outside.nodes[chosen].tolist(),
            self._tree.outside.ids[chosen].tolist(),
        )
        grown = self._tree.grow(list(zip(nodes, ids, strict=True)))
        self._reached.update(zip(grown, self._outside[chosen].tolist(), strict=True))
        self._outside[chosen] = -torch.inf
        return bool(grown)

    def scores(self) -> ChoiceScores:
        """The scores as they stand."""
        low = float(self._log_probs.logsumexp(0).exp())
        high = low + float(self._outside.exp().sum())
        return ChoiceScores(
            log_probs=self._log_probs,
            mass=(min(1.0, low), min(1.0, high)),
            decision_mass=self._decision_mass,
        )


def _added(log_sums: Tensor, targets: Tensor, values: Tensor) -> Tensor:
    """`log_sums` [K] with exp(values) [E] added where `targets` [E] say; stays in logs."""
    peaks = log_sums.scatter_reduce(0, targets, values, "amax")
    safe = peaks.where(peaks > -torch.inf, 0.0)
    sums = (log_sums - safe).exp().index_add(0, targets, (values - safe[targets]).exp())
    return sums.log() + safe
