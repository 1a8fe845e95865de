"""What a contender is asked to do, and what it reports: plain JSON between two processes."""

from __future__ import annotations

from typing import Any, Protocol, TypedDict


class Workload(TypedDict):
    """A task with a finite language, and tickets to answer.

    Keys:
        name: of the task.
        system: the instructions, equal for all tickets.
        users: the tickets; the first one only warms up.
        schema: JSON Schema of the answer.
        pattern: the same language as a regular expression.
        gbnf: the same language in the notation of llama.cpp.
    """

    name: str
    system: str
    users: list[str]
    schema: dict[str, Any]
    pattern: str
    gbnf: str


class Writing(TypedDict):
    """Text to be written token by token.

    Keys:
        system, user: of the conversation behind which the JSON is written.
        schema: of the JSON; no answer of it ends before `json_tokens`.
        json_tokens: how many to write.
        plain: a text to go on with, unguided.
        plain_tokens: how many to write.
        valid: a text of `schema`, to take masks along.
    """

    system: str
    user: str
    schema: dict[str, Any]
    json_tokens: int
    plain: str
    plain_tokens: int
    valid: str


class Weights(TypedDict):
    """Where the weights are, and what they look like.

    Keys:
        gguf: path of the model's file.
        checkpoint: path of the same weights, dequantised, as a folder for `transformers`.
        shapes: [N, K] of every matrix of one block.
        num_layers: how many blocks there are.
    """

    gguf: str
    checkpoint: str
    shapes: list[list[int]]
    num_layers: int


class Job(Weights):
    """All that one contender does.

    Keys:
        threads: of the forward pass.
        workloads: one after the other, the first of them before peak memory is read.
        writing: None for a contender that is asked for answers alone.
    """

    threads: int
    workloads: list[Workload]
    writing: Writing | None


class Answers(TypedDict):
    """What one workload gave: seconds and texts without the warm-up, and what was read for it."""

    seconds: list[float]
    texts: list[str]
    ids: list[int]  # the prompt of the warm-up, as the model read it


class Report(TypedDict):
    """What a contender found.

    Keys:
        version: of what was measured.
        import_s: packages.
        load_s: tokenizer and weights, and what they import.
        prepare_s: the first workload's grammar, and the reading of its instructions.
        answered_at: time of day at the first answer, in seconds.
        peak_mb: memory after the first workload.
        answers: by workload.
        written: [tokens, seconds] by kind, "json" and "plain".
        masks: by name, seconds of each: advance by a token, make the mask, apply it to logits.
        rates: floating-point or whole-number operations a second, see `bench.contenders.ours`.
    """

    version: str
    import_s: float
    load_s: float
    prepare_s: float
    answered_at: float
    peak_mb: float
    answers: dict[str, Answers]
    written: dict[str, tuple[int, float]]
    masks: dict[str, list[float]]
    rates: dict[str, float]


class Contender(Protocol):
    """An engine with its weights loaded."""

    @property
    def version(self) -> str:
        """Names and numbers of what does the work."""
        ...

    def prepare(self, workload: Workload) -> None:
        """Compile its grammar, read its instructions."""
        ...

    def answer(self, workload: Workload, user: str) -> str:
        """One ticket's answer: JSON text."""
        ...

    def prompt_ids(self) -> list[int]:
        """The whole prompt of the newest answer, as token ids, as it was read."""
        ...

    def write_json(self, writing: Writing, num_tokens: int) -> int:
        """Write under the schema; returns the number of tokens, forced ones included."""
        ...

    def write_plain(self, writing: Writing, num_tokens: int) -> int:
        """Write freely; returns the number of tokens."""
        ...

    def masks(self, writing: Writing) -> dict[str, list[float]]:
        """Seconds of each mask along the valid text; empty where masks cannot be had."""
        ...

    def rates(self, job: Job) -> dict[str, float]:
        """Rates of the machine and of the engine, in operations a second; mostly empty."""
        ...


def before_user(system: str) -> str:
    """The part of a prompt that all tickets of a task share, in ChatML."""
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"


def after_system(user: str) -> str:
    """The rest of the prompt."""
    return f"{user}<|im_end|>\n<|im_start|>assistant\n"
