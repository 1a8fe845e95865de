"""What is wrong with the local engine, its models and what they learned."""

from __future__ import annotations

import difflib

from weighbridge.errors.general import WeighbridgeError


class EngineError(WeighbridgeError):
    """The local engine cannot answer."""


class ExtraMissing(EngineError, ImportError):
    """A part was asked for whose optional packages are not installed (also an ImportError)."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(extra, package)
        self.extra, self.package = extra, package
        self.hint = f"pip install 'weighbridge[{extra}]'"

    def __str__(self) -> str:
        return f"the package {self.package!r} of the extra [{self.extra}] is not installed"


class ModelUnknown(EngineError):
    """A name that is neither a known model nor a folder or file."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known
        near = difflib.get_close_matches(name, known, n=1)
        self.hint = f"Did you mean {near[0]}? " if near else ""
        self.hint += f"Known models: {', '.join(known)}."

    def __str__(self) -> str:
        if "/" in self.name or "\\" in self.name or self.name.endswith(".gguf"):
            return f"no such file or folder: {self.name!r}"
        return f"no local model is called {self.name!r}"


class ModelMissing(EngineError):
    """A known model whose files are not in the cache."""

    def __init__(self, name: str, folder: str) -> None:
        super().__init__(name, folder)
        self.name, self.folder = name, folder
        self.hint = f"Run: weighbridge model pull {name}"

    def __str__(self) -> str:
        return f"the local model {self.name!r} is not in {self.folder}"


class ModelCorrupt(EngineError):
    """A model file that cannot be read."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem
        self.hint = "Give a GGUF file, or a folder with config.json, tokenizer.json, safetensors."

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class LearnedUnfit(EngineError):
    """What was learned from verdicts cannot be used with the models that are there."""

    hint = "Learn again from the verdicts, which are all still there: weighbridge learn"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"what was learned does not fit: {self.problem}"


class ContextTooLong(EngineError):
    """Prompt and answer need more positions than the model has."""

    hint = "Shorten the prompt, or lower max_tokens."

    def __init__(self, needed_tokens: int, max_positions: int) -> None:
        super().__init__(needed_tokens, max_positions)
        self.needed_tokens, self.max_positions = needed_tokens, max_positions

    def __str__(self) -> str:
        return f"{self.needed_tokens} tokens are needed; the model has {self.max_positions}"


class DeadEnd(EngineError):
    """The guide allows no token, and the answer is not whole; there is no fallback distribution."""

    hint = "The guide, or what its parts demand together, cannot be met by this vocabulary."

    def __init__(self, num_tokens: int) -> None:
        super().__init__(num_tokens)
        self.num_tokens = num_tokens

    def __str__(self) -> str:
        return f"the guide allows nothing after {self.num_tokens} tokens of the answer"


class Truncated(EngineError):
    """The tokens ran out before a guided answer was whole; what there was is not returned."""

    hint = "Raise max_tokens, or let the guide demand less."

    def __init__(self, max_tokens: int) -> None:
        super().__init__(max_tokens)
        self.max_tokens = max_tokens

    def __str__(self) -> str:
        return f"the guided answer was not whole after {self.max_tokens} tokens"


class PullFailed(EngineError):
    """A model could not be downloaded, or what came does not match its pinned checksum."""

    def __init__(self, name: str, problem: str, hint: str = "") -> None:
        super().__init__(name, problem, hint)
        self.name, self.problem, self.hint = name, problem, hint

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"
