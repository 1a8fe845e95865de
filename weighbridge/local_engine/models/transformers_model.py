"""Any causal language model of `transformers`, with its cache and, where it can, whole trees.

What an architecture really does with caches and masks is tried out on a few random tokens when the
model is wrapped. Where the result is not that of reading each text by itself, it is read by itself:
slower, and right.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from weighbridge.errors import ContextTooLong, EngineError
from weighbridge.local_engine.checks import check_whole, unwanted
from weighbridge.local_engine.models.module import (
    ModuleModel,
    TokenCache,
    agree,
    parameters_fingerprint,
)
from weighbridge.local_engine.models.tree import chain_length, leaf_paths, visibility

# A chain, a fork behind it, and a second branch from the root.
_TRIAL_PARENTS = (-1, 0, 1, 1, 3, -1, 5)
_TRIAL_TOKENS = len(_TRIAL_PARENTS)


@dataclass(frozen=True, slots=True)
class TransformersCache:
    """What the library keeps of the tokens seen so far; never given to it to write into again.

    Args:
        ids: int64 [T], the tokens.
        kept: a `transformers` cache of them; None where they must be read anew.
    """

    ids: Tensor
    kept: Any

    @property
    def num_tokens(self) -> int:
        """How many tokens have been read."""
        return len(self.ids)

    def prefix(self, num_tokens: int) -> TransformersCache:
        """The first of the tokens alone; to be read anew where the library cannot cut its cache."""
        if num_tokens == self.num_tokens:
            return self
        kept = None
        if num_tokens > 0 and _is_plain(self.kept):
            kept = _branched(self.kept)
            kept.crop(num_tokens - self.num_tokens)  # negative: how many to forget
        return TransformersCache(self.ids[:num_tokens], kept)


class TransformersModel:
    """A causal model of `transformers`.

    Args:
        model: is put into evaluation mode.
        max_positions: the longest sequence that it can read; None takes it from its config.
        fingerprint: of weights and precision; None hashes the parameters when it is asked for.

    Attributes:
        keeps_cache: whether what was read once is kept; if not, every call reads all of it anew.
        packs_trees: whether a tree is read in one pass; if not, each of its paths is.

    Raises:
        EngineError: no causal model, or one whose config names no longest sequence.
        TypeError: no model of `transformers`, such as the name of one.
    """

    def __init__(
        self, model: Any, *, max_positions: int | None = None, fingerprint: str | None = None
    ) -> None:
        if not hasattr(model, "config") or not hasattr(model, "get_output_embeddings"):
            wanted = "a loaded model, such as AutoModelForCausalLM.from_pretrained(name)"
            raise unwanted("model", wanted, model)
        if max_positions is not None:
            check_whole(max_positions, "max_positions", 1)
        self._model, self._fingerprint = model.eval(), fingerprint
        config = model.config.get_text_config()
        limit = max_positions or getattr(config, "max_position_embeddings", None)
        if limit is None:
            raise EngineError("the model's config names no longest sequence; give max_positions")
        self.max_positions: int = limit
        head = model.get_output_embeddings()
        self.vocab_size: int = config.vocab_size if head is None else len(head.weight)
        # The reference for all that is tried: nothing but tokens in and logits out.
        self._alone = ModuleModel(self._logits_of, self.vocab_size, self.max_positions)
        self._head = head if self._is_apart(head) else None
        self.keeps_cache, self.packs_trees = True, not _slides(config)
        while not self._is_right():
            # The next slower way; the last one is the reference itself.
            if not self.packs_trees:
                self.keeps_cache, self._head = False, None
                break
            self.packs_trees = False

    @cached_property
    def fingerprint(self) -> str:
        """Of weights and precision; what is calibrated for one holds for no other."""
        if self._fingerprint is not None:
            return self._fingerprint
        return parameters_fingerprint(self._model)

    def empty_cache(self) -> TransformersCache | TokenCache:
        """A cache of no tokens."""
        return _nothing_read() if self.keeps_cache else self._alone.empty_cache()

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, past: Any, *, parents: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Read new tokens after `past`; see `LanguageModel.forward`."""
        if not self.keeps_cache:
            return self._alone.forward(ids, past, parents=parents)
        order = range(-1, len(ids) - 1) if parents is None else parents.tolist()
        sees, depths = visibility(order)
        needed = past.num_tokens + 1 + int(depths.max())
        if needed > self.max_positions:
            raise ContextTooLong(needed, self.max_positions)
        if past.kept is None and past.num_tokens:
            _, past = self._read(past.ids, _nothing_read())
        chain = chain_length(order)
        if chain == len(ids):
            return self._read(ids, past)
        if self.packs_trees:
            rows, longer = self._read(ids, past, **self._tree(past.num_tokens, sees, depths))
            longer.kept.crop(chain - len(ids))  # negative: how many to forget
            return rows, TransformersCache(longer.ids[: past.num_tokens + chain], longer.kept)
        found: dict[int, Tensor] = {}
        for path in leaf_paths(order):
            path_rows, _ = self._read(ids[torch.tensor(path)], past)
            found |= dict(zip(path, path_rows, strict=True))
        rows = torch.stack([found[node] for node in range(len(ids))])
        return rows, self._read(ids[:chain], past)[1] if chain else past

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Raw next-token logits, float32 [N, vocab_size], in main memory whatever the device."""
        return self._raw(hidden).float().cpu()

    def _raw(self, hidden: Tensor) -> Tensor:
        found: Tensor = hidden if self._head is None else self._head(hidden)
        return found

    def _logits_of(self, ids: Tensor) -> Any:
        return self._model(input_ids=ids.to(self._model.device), use_cache=False)

    def _read(
        self, ids: Tensor, past: TransformersCache, **tree: Tensor
    ) -> tuple[Tensor, TransformersCache]:
        """One pass over plain text, or over a tree."""
        reader = self._model if self._head is None else self._model.base_model
        kept = self._own(past.kept)
        names = inspect.signature(reader.forward).parameters
        # The older name goes in transformers 5.40.
        name = "cache" if "cache" in names else "past_key_values"
        found = reader(
            input_ids=ids[None].to(self._model.device), use_cache=True, **{name: kept}, **tree
        )
        rows: Tensor = (found.logits if self._head is None else found.last_hidden_state)[0]
        return rows, TransformersCache(torch.cat([past.ids, ids.cpu()]), kept)

    def _tree(self, past_tokens: int, sees: Tensor, depths: Tensor) -> dict[str, Tensor]:
        """What tells the library that tokens are a tree: a mask of [1, 1, N, T + N], positions."""
        model = self._model
        mask = torch.zeros(len(sees), past_tokens + len(sees), dtype=model.dtype)
        mask[:, past_tokens:].masked_fill_(~sees, torch.finfo(model.dtype).min)
        return {
            "attention_mask": mask[None, None].to(model.device),
            "position_ids": (past_tokens + depths)[None].to(model.device),
        }

    def _own(self, kept: Any) -> Any:
        """A cache that may be written into, with the content of one that may not."""
        from transformers.cache_utils import DynamicCache

        if kept is None:
            return DynamicCache(config=self._model.config)
        return _branched(kept) if _is_plain(kept) else copy.deepcopy(kept)

    @torch.inference_mode()
    def _is_apart(self, head: Any) -> bool:
        """Whether logits are what the head makes of the base model's output, to the last bit.

        Then most tokens need no logits. Where they are scaled or capped as well, a difference may
        be small on a few random tokens and large on others.
        """
        ids = _random_ids(1, self.vocab_size)
        try:
            ids = ids.to(self._model.device)
            found = head(self._model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
        # Architectures fail in ways of their own at what they cannot do.
        except Exception:  # noqa: BLE001
            return False
        return torch.equal(found, self._logits_of(ids).logits)

    @torch.inference_mode()
    def _is_right(self) -> bool:
        """Whether texts and trees read as they are now have the logits of texts read alone."""
        if self.max_positions < 2 * _TRIAL_TOKENS:
            return False
        prefix, ids = _random_ids(2, self.vocab_size)
        _, past = self._alone.forward(prefix, self._alone.empty_cache())
        wanted_text, _ = self._alone.forward(ids, past)
        wanted_tree, _ = self._alone.forward(ids, past, parents=torch.tensor(_TRIAL_PARENTS))
        try:
            texts, trees = self._trial(prefix, ids)
        # Architectures fail in ways of their own at what they cannot do.
        except Exception:  # noqa: BLE001
            return False
        return all(agree(text, wanted_text) for text in texts) and all(
            agree(tree, wanted_tree) for tree in trees
        )

    def _trial(self, prefix: Tensor, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The logits of some tokens as text, and as a tree, each in two ways."""
        parents = torch.tensor(_TRIAL_PARENTS)
        _, past = self.forward(prefix, self.empty_cache())
        first, longer = self.forward(ids, past, parents=parents)
        # Had the first pass written into the cache, it would show in those that follow.
        second, _ = self.forward(ids, past, parents=parents)
        text, _ = self.forward(ids, past)
        chain = chain_length(_TRIAL_PARENTS)
        rest, _ = self.forward(ids[chain:], longer)
        texts, trees = [text, torch.cat([first[:chain], rest])], [first, second]
        return [self._raw(rows).cpu() for rows in texts], [self._raw(rows).cpu() for rows in trees]


def _nothing_read() -> TransformersCache:
    return TransformersCache(torch.empty(0, dtype=torch.int64), None)


def _is_plain(kept: Any) -> bool:
    """Whether a cache has nothing but whole keys and values, which can be shared and cut short."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    return type(kept) is DynamicCache and all(type(layer) is DynamicLayer for layer in kept.layers)


def _branched(kept: Any) -> Any:
    """A plain cache with the same content, to be written into or cut."""
    own = copy.copy(kept)
    # Such a layer never writes into its tensors: it puts longer or shorter ones in their place.
    own.layers = [copy.copy(layer) for layer in kept.layers]
    return own


def _random_ids(count: int, vocab_size: int) -> Tensor:
    """The same texts of random tokens each time, int64 [count, _TRIAL_TOKENS]."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(vocab_size, (count, _TRIAL_TOKENS), generator=generator)


def _slides(config: Any) -> bool:
    """Whether a layer sees only a window, or no plain attention: a tree's mask would go past it.

    The few tokens of a trial would not show that.
    """
    kinds = set(getattr(config, "layer_types", None) or ())
    return bool(kinds - {"full_attention"} or getattr(config, "sliding_window", None))
