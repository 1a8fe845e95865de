"""Explanation: an answer, and for each token what the guide allowed and the free model thought."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weighbridge.decision import Json
from weighbridge.local_engine.decoding.generation import Candidate, Generation, Step

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An answer that can be looked at: `text()`, `html()`, `png()`, or printed with rich.

    What was given as prefill is shown, and counts in no total: the model was not asked for it.

    Args:
        generation: the answer; made with a trace, candidates are shown too.
        prompt_tokens: how many tokens the model read before it.
        model: what people call the model.
        guide: what people call the guide; empty where the model wrote freely.
        prompt: the text that the model read; empty leaves it out of the page.
    """

    generation: Generation = field(repr=False)  # an answer belongs into no log
    prompt_tokens: int
    model: str
    guide: str = ""
    prompt: str = field(default="", repr=False)

    @property
    def is_guided(self) -> bool:
        """Whether a guide was there; without one all is allowed, and nothing is said about that."""
        return bool(self.guide)

    @property
    def mean_surprisal_bits(self) -> float:
        """Bits for each written token; 0 for none written."""
        written = self.generation.written
        return math.fsum(step.surprisal_bits for step in written) / max(1, len(written))

    @property
    def log_path_mass(self) -> float:
        """Natural log of the product of the step masses, ≤ 0; -inf where a mass is 0.

        The importance weight of this answer as a sample of the free model held to the guide
        (Loula et al. 2025). It is the mass along this path, not that of all allowed answers.
        """
        masses = [min(step.mass, 1.0) for step in self.generation.written]
        return math.fsum(map(math.log, masses)) if all(masses) else -math.inf

    @property
    def hardest(self) -> int | None:
        """Where the guide pulled hardest: the index of the written step with the least mass."""
        steps = self.generation.steps
        written = [i for i, step in enumerate(steps) if step.source != "prefill"]
        return min(written, key=lambda i: steps[i].mass, default=None)

    def text(self, width: int = 100) -> str:
        """The bands as plain text, without colour, so many columns wide."""
        from weighbridge.local_engine.picture.terminal import plain

        return plain(self, width)

    def html(self) -> str:
        """A page on its own: no script, nothing loaded from anywhere."""
        from weighbridge.local_engine.picture.page import page

        return page(self)

    def png(self, path: str | Path) -> None:
        """Draw the bands into a file, which appears whole or not at all.

        Raises:
            ExtraMissing: matplotlib is not installed.
            OSError: the file cannot be written.
        """
        from weighbridge.local_engine.picture.drawing import draw

        draw(self, Path(path))

    def to_json(self) -> dict[str, Json]:
        """Everything as plain JSON; probabilities premask but for the allowed candidates."""
        path_mass = self.log_path_mass
        return {
            "text": self.generation.text,
            "finish": self.generation.finish,
            "model": self.model,
            "guide": self.guide,
            "prompt_tokens": self.prompt_tokens,
            "forward_passes": self.generation.forward_passes,
            "forced_share": self.generation.forced_share,
            "logprob": self.generation.logprob,
            "mean_surprisal_bits": self.mean_surprisal_bits,
            "log_path_mass": path_mass if math.isfinite(path_mass) else None,
            "hardest": self.hardest,
            "tokens": [_step(step) for step in self.generation.steps],
        }

    def __rich__(self) -> RenderableType:
        from weighbridge.local_engine.picture.terminal import Bands

        return Bands(self)


def _step(step: Step) -> dict[str, Json]:
    return {
        "id": step.token,
        **_spelling(step.text),
        "source": step.source,
        "logprob": step.logprob,
        "surprisal_bits": step.surprisal_bits,
        "rank": step.rank,
        "mass": step.mass,
        "allowed_count": step.allowed_count,
        "free": [_candidate(candidate) for candidate in step.free],
        "allowed": [_candidate(candidate) for candidate in step.allowed],
    }


def _candidate(candidate: Candidate) -> dict[str, Json]:
    spelling = _spelling(candidate.text)
    return {"id": candidate.token, **spelling, "probability": candidate.probability}


def _spelling(data: bytes) -> dict[str, Any]:
    """The text, and the bytes too where they are no text of their own."""
    text = data.decode("utf-8", "replace")
    return {"text": text} if text.encode() == data else {"text": text, "bytes": data.hex()}
