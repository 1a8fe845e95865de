"""Any `torch.nn.Module` that maps tokens to logits, as a language model; it remembers no work."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from weighbridge.errors import ContextTooLong, EngineError
from weighbridge.local_engine.checks import check_whole, unwanted
from weighbridge.local_engine.models.tree import chain_length, leaf_paths

_BATCH_TOKENS = 2048  # of a batch of paths: bounds the logits, which are wide


@dataclass(frozen=True, slots=True)
class TokenCache:
    """The tokens that have been read, int64 [T], to be read again."""

    ids: Tensor

    @property
    def num_tokens(self) -> int:
        """How many tokens have been read."""
        return len(self.ids)

    def prefix(self, num_tokens: int) -> TokenCache:
        """The first of the tokens alone."""
        return TokenCache(self.ids[:num_tokens])


class ModuleModel:
    """A module that reads everything anew for each call, and each path of a tree by itself.

    Args:
        module: from int64 [B, T] to logits [B, T, vocab_size], or to an object that has them as
            `.logits`. A module is put into evaluation mode.
        vocab_size: width of the logits.
        max_positions: the longest sequence that it can read, in tokens.
        fingerprint: of weights and precision; None hashes the parameters when it is asked for.

    Raises:
        EngineError: the module cannot read its tokens, returns something else or NaN, or a token
            changes what came before it.
        ValueError, TypeError: an argument outside its range, or of another kind.
    """

    def __init__(
        self,
        module: Callable[[Tensor], Any],
        vocab_size: int,
        max_positions: int,
        *,
        fingerprint: str | None = None,
    ) -> None:
        if not callable(module):
            raise unwanted("module", "a torch module or a function from ids to logits", module)
        check_whole(vocab_size, "vocab_size", 1)
        check_whole(max_positions, "max_positions", 1)
        self._module, self._fingerprint = module, fingerprint
        self.vocab_size, self.max_positions = vocab_size, max_positions
        self._device = torch.device("cpu")
        if isinstance(module, nn.Module):
            module.eval()
            self._device = next((p.device for p in module.parameters()), self._device)
        self._check_causality()

    @cached_property
    def fingerprint(self) -> str:
        """Of weights and precision; what is calibrated for one holds for no other.

        Raises:
            EngineError: a function has no parameters to tell it by, and no fingerprint was given.
        """
        if self._fingerprint is not None:
            return self._fingerprint
        if not isinstance(self._module, nn.Module):
            raise EngineError("a model that is no torch module must be given a fingerprint")
        return parameters_fingerprint(self._module)

    def empty_cache(self) -> TokenCache:
        """A cache of no tokens."""
        return TokenCache(torch.empty(0, dtype=torch.int64))

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, past: TokenCache, *, parents: Tensor | None = None
    ) -> tuple[Tensor, TokenCache]:
        """Read new tokens after `past`; see `LanguageModel.forward`. The rows are the logits."""
        order = list(range(-1, len(ids) - 1)) if parents is None else parents.tolist()
        paths = leaf_paths(order)
        needed = past.num_tokens + max(map(len, paths))
        if needed > self.max_positions:
            raise ContextTooLong(needed, self.max_positions)
        rows = torch.empty(len(ids), self.vocab_size)
        for batch in _batches(paths, past.num_tokens):
            nodes = torch.tensor(batch)
            texts = torch.cat([past.ids.expand(len(batch), -1), ids.cpu()[nodes]], dim=1)
            found = self._logits(texts)[:, past.num_tokens :]
            rows[nodes.flatten()] = found.flatten(0, 1).float().cpu()
        return rows, TokenCache(torch.cat([past.ids, ids.cpu()[: chain_length(order)]]))

    def logits(self, hidden: Tensor) -> Tensor:
        """Raw next-token logits, float32 [N, vocab_size]: the rows themselves."""
        return hidden

    def _logits(self, texts: Tensor) -> Tensor:
        found = self._module(texts.to(self._device))
        logits: Tensor = getattr(found, "logits", found)
        wanted = *texts.shape, self.vocab_size
        if not isinstance(logits, Tensor):
            kind = type(logits).__name__
            raise EngineError(f"the module returned {kind}, wanted logits {wanted} as a tensor")
        if tuple(logits.shape) != wanted:
            raise EngineError(f"the module returned {tuple(logits.shape)}, wanted logits {wanted}")
        return logits

    @torch.inference_mode()
    def _check_causality(self) -> None:
        """A module that looks ahead would give every token of a path other logits than alone."""
        generator = torch.Generator().manual_seed(0)
        length = min(4, self.max_positions)
        texts = torch.randint(self.vocab_size, (2, length), generator=generator)
        texts[0, 0] = self.vocab_size - 1  # where the module knows fewer tokens, it fails here
        try:
            whole = self._logits(texts)
        except IndexError as error:
            problem = f"the module cannot read the ids 0 to {self.vocab_size - 1}: {error}"
            raise EngineError(f"{problem}; is vocab_size right?") from error
        if bool(whole.isnan().any()):
            raise EngineError("the module returns NaN: its weights are damaged or not loaded")
        for end in range(1, length):
            if not agree(self._logits(texts[:, :end]), whole[:, :end]):
                raise EngineError("the module is not causal: a token changes what came before it")


def agree(found: Tensor, wanted: Tensor) -> bool:
    """Whether logits are the same but for rounding in their own precision."""
    exact = found.dtype == torch.float32
    found, wanted = found.float(), wanted.float()
    finite = wanted.isfinite()
    bound = (1e-4 if exact else 2e-2) * wanted[finite].abs().max() if bool(finite.any()) else 0.0
    # Padding may stand at minus infinity, in both; NaN agrees with nothing.
    return bool(((found == wanted) | ((found - wanted).abs() <= bound)).all())


def parameters_fingerprint(module: nn.Module) -> str:
    """A sha256 over names, types, shapes and values of everything that a module keeps."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"


def _batches(paths: Sequence[list[int]], past_tokens: int) -> list[list[list[int]]]:
    """Paths of equal length together, so that nothing is padded."""
    batches: list[list[list[int]]] = []
    for path in sorted(paths, key=len):
        fits = batches and len(batches[-1][0]) == len(path)
        if fits and (len(batches[-1]) + 1) * (past_tokens + len(path)) <= _BATCH_TOKENS:
            batches[-1].append(path)
        else:
            batches.append([path])
    return batches
