"""A compact BERT encoder for sentence embeddings: mean pooling, unit length.

Checked against `transformers` in the tests. Source: Devlin et al. 2019; pooling and length limit as
the model card of all-MiniLM-L6-v2 has them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812  # the name everybody knows it by
from tokenizers import Tokenizer
from torch import Tensor

from weighbridge.errors import ModelCorrupt
from weighbridge.local_engine.catalogue import say_remedy
from weighbridge.local_engine.tokenizer import read_tokenizer

# all-MiniLM-L6-v2 was trained on 128 tokens. On the development tickets, windows of 128 read long
# tickets better than one of 256 or 512 does.
WINDOW_TOKENS = 128
HEAD_WINDOWS, TAIL_WINDOWS = 6, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """The numbers that an encoder is built from."""

    num_layers: int
    num_heads: int
    norm_eps: float


class Encoder:
    """Turns texts into unit vectors.

    Args:
        config: must agree with the weights.
        weights: float32 tensors by `transformers` name.
        tokenizer: a WordPiece tokenizer that adds [CLS] and [SEP].
        fingerprint: tells its vectors from those of another encoder.
    """

    def __init__(
        self,
        config: EncoderConfig,
        weights: Mapping[str, Tensor],
        tokenizer: Tokenizer,
        *,
        fingerprint: str = "",
    ) -> None:
        self._config, self._weights, self.fingerprint = config, weights, fingerprint
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()

    @classmethod
    def load(cls, path: Path) -> Encoder:
        """Load `model.safetensors` with the `tokenizer.json` and `config.json` beside it.

        Raises:
            ModelCorrupt: a file is missing or is not what it should be.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            config = json.loads((path.parent / "config.json").read_text("utf-8"))
            tokenizer = read_tokenizer(path.parent / "tokenizer.json")
            weights = load_file(path)
            encoder = cls(
                EncoderConfig(
                    num_layers=config["num_hidden_layers"],
                    num_heads=config["num_attention_heads"],
                    norm_eps=config["layer_norm_eps"],
                ),
                weights,
                tokenizer,
                fingerprint=f"{path.resolve()}:{path.stat().st_size}:{path.stat().st_mtime_ns}",
            )
            encoder._try_out()
        except (
            OSError,
            SafetensorError,
            RuntimeError,
            ValueError,
            LookupError,
            TypeError,
        ) as error:
            problem = f"not a sentence encoder ({type(error).__name__})"
            damage = ModelCorrupt(str(path), problem)
            say_remedy(damage)
            raise damage from None
        return encoder

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors, float32 [number of texts, D].

        A text longer than a window is the mean of its windows, weighted by the square root of
        their lengths; of a very long one the middle is not read.
        """
        windows = [(i, window) for i, text in enumerate(texts) for window in self._windows(text)]
        # Windows of one length go together: no padding, so no text depends on its neighbours.
        windows.sort(key=lambda entry: len(entry[1]))
        sums: Tensor | float = 0.0
        for length, run in itertools.groupby(windows, key=lambda entry: len(entry[1])):
            owners, ids = zip(*run, strict=True)
            parts = self._means(torch.tensor(ids)) * length**0.5
            sums = sums + torch.zeros(len(texts), parts.shape[1]).index_add(
                0, torch.tensor(owners), parts
            )
        assert isinstance(sums, Tensor)
        return F.normalize(sums, dim=-1)

    def _try_out(self) -> None:
        """Raises whatever a first text would: a missing tensor, say, or one of another shape."""
        words = self._weights["embeddings.word_embeddings.weight"]
        positions = self._weights["embeddings.position_embeddings.weight"]
        if self._tokenizer.get_vocab_size() > len(words) or len(positions) < WINDOW_TOKENS:
            raise ValueError("fewer embeddings than tokens or positions")
        if not bool(self.embed([""]).isfinite().all()):
            raise ValueError("vectors that are not finite")

    def _windows(self, text: str) -> list[list[int]]:
        start, *inner, end = self._tokenizer.encode(text).ids
        size = WINDOW_TOKENS - 2
        windows = [inner[i : i + size] for i in range(0, len(inner), size)] or [[]]
        if len(windows) > HEAD_WINDOWS + TAIL_WINDOWS:
            windows = windows[:HEAD_WINDOWS] + windows[-TAIL_WINDOWS:]
        return [[start, *window, end] for window in windows]

    def _means(self, ids: Tensor) -> Tensor:
        """Unit vectors, float32 [B, D], of windows of token ids, [B, T]."""
        w = self._weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for index in range(self._config.num_layers):
            layer = f"encoder.layer.{index}"
            mixed = self._attend(x, f"{layer}.attention.self")
            mixed = self._linear(mixed, f"{layer}.attention.output.dense")
            x = self._norm(x + mixed, f"{layer}.attention.output.LayerNorm")
            inner = F.gelu(self._linear(x, f"{layer}.intermediate.dense"))
            inner = self._linear(inner, f"{layer}.output.dense")
            x = self._norm(x + inner, f"{layer}.output.LayerNorm")
        return F.normalize(x.mean(1), dim=-1)

    def _attend(self, x: Tensor, name: str) -> Tensor:
        """Self-attention of [B, T, D], without the output projection."""
        query, key, value = (
            self._linear(x, f"{name}.{part}")
            .view(*x.shape[:2], self._config.num_heads, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(x.shape)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self._config.norm_eps)
