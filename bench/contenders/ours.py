"""Our engine: every answer of a finite language scored, nothing of it decoded."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import suppress

# First: it decides how torch's threads wait, before torch is imported.
from weighbridge.local_engine.engine import Engine  # isort: split

import torch
from torch import Tensor

from bench.contenders.job import Job, Workload, Writing
from weighbridge.errors import Truncated
from weighbridge.local_engine import guides
from weighbridge.local_engine.chat_template import Message
from weighbridge.local_engine.decoding.generation import Step
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.local_engine.models.convert import Precision
from weighbridge.local_engine.weighing import FieldSpec
from weighbridge.providers.local import field_spec  # what is timed is what it does
from weighbridge.schemas.finite import FiniteLanguage, language
from weighbridge.schemas.task import Task

PRIOR = "all-minilm-l6-v2"
PREFILL_TOKENS = 256
REPEATS = 9


class Ours:
    """The generator alone, as the peers have it: an exact posterior instead of one answer.

    Args:
        job: see `Job`.
        precision: of the weights.
        prior: a known label prior; None for none.
    """

    def __init__(self, job: Job, precision: Precision, prior: str | None = None) -> None:
        self._precision = precision
        self._engine = Engine.load(prior=prior, precision=precision, threads=job["threads"])
        self._languages: dict[str, FiniteLanguage] = {}
        self._newest: list[Message] = []

    @property
    def version(self) -> str:
        """See `Contender.version`."""
        return f"torch {torch.__version__}, {self._precision}"

    def prepare(self, workload: Workload) -> None:
        """See `Contender.prepare`; the instructions are read with the first ticket."""
        found = language(workload["schema"])
        assert found is not None  # every workload is a list of labels
        self._languages[workload["name"]] = found

    def answer(self, workload: Workload, user: str) -> str:
        """The likeliest of all members, each of which has been scored."""
        self._newest = _conversation(workload["system"], user)
        posterior = self._engine.posterior(self._newest, self._languages[workload["name"]])
        return json.dumps(posterior.best)

    def prompt_ids(self) -> list[int]:
        """See `Contender.prompt_ids`."""
        assert self._engine.chat is not None
        return self._engine.chat.render(self._newest)

    def write_json(self, writing: Writing, num_tokens: int) -> int:
        """See `Contender.write_json`."""
        prompt = _conversation(writing["system"], writing["user"])
        return self._write(prompt, guides.json_schema(writing["schema"]), num_tokens)

    def write_plain(self, writing: Writing, num_tokens: int) -> int:
        """See `Contender.write_plain`."""
        return self._write(writing["plain"], None, num_tokens)

    def masks(self, writing: Writing) -> dict[str, list[float]]:
        """See `Contender.masks`."""
        guide = guides.json_schema(writing["schema"]).bind(self._engine.vocabulary)
        logits = torch.zeros(self._engine.vocabulary.vocab_size)
        seconds: list[float] = []
        for _ in range(2):  # the first round warms up
            state, seconds = guide.init(), []
            for token in self._engine.vocabulary.encode(writing["valid"]):
                started = time.perf_counter()
                logits + guide.bias(state)
                state = guide.advance(state, token)
                seconds.append(time.perf_counter() - started)
        return {"llguidance": seconds}

    def rates(self, job: Job) -> dict[str, float]:
        """How fast this machine multiplies matrices of the model, and how fast the engine reads.

        Both in operations a second, with the same rows: "matmul" for the products of one block
        by themselves, "prefill" for those in a whole forward pass over its whole time.
        """
        per_row = 2 * sum(rows * columns for rows, columns in job["shapes"])
        alone = sum(_median_s(self._product(n, k)) for n, k in job["shapes"])
        model = self._engine.model
        ids = torch.arange(100, 100 + PREFILL_TOKENS)
        reading = _median_s(lambda: model.forward(ids, model.empty_cache()))
        work = PREFILL_TOKENS * per_row
        return {"matmul": work / alone, "prefill": work * job["num_layers"] / reading}

    def _write(self, prompt: str | list[Message], guide: Spec | None, num_tokens: int) -> int:
        steps: list[Step] = []
        with suppress(Truncated):  # the JSON is cut on purpose
            self._engine.generate(
                prompt,
                guide,
                max_tokens=num_tokens,
                heal=False,
                on_step=lambda _, step: steps.append(step),
            )
        return len(steps)

    def _product(self, rows: int, columns: int) -> Callable[[], Tensor]:
        """One matrix product in the precision that is measured."""
        if self._precision == "float32":
            x, weight = torch.randn(PREFILL_TOKENS, columns), torch.randn(rows, columns)
            return lambda: torch.nn.functional.linear(x, weight)
        a = torch.randint(-127, 128, (PREFILL_TOKENS, columns), dtype=torch.int8)
        b = torch.randint(-64, 65, (rows, columns), dtype=torch.int8).t()
        return lambda: torch._int_mm(a, b)


class OursWithPrior(Ours):
    """The default pair: int8 generator and label prior, as `weighbridge triage` uses them."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, "int8", PRIOR)
        self._specs: dict[str, list[FieldSpec]] = {}

    @property
    def version(self) -> str:
        """See `Contender.version`."""
        return f"{super().version}, label prior"

    def prepare(self, workload: Workload) -> None:
        """See `Contender.prepare`."""
        super().prepare(workload)
        task = Task.triage()
        if workload["name"] != task.name:
            categories = workload["schema"]["properties"]["category"]["enum"]
            task = Task.triage(categories=categories, priorities=[])
        self._specs[workload["name"]] = [field_spec(field) for field in task.fields]

    def answer(self, workload: Workload, user: str) -> str:
        """The likeliest answer after prior and model; every option has been weighed."""
        self._newest = _conversation(workload["system"], user)
        name = workload["name"]
        weighed = self._engine.weigh(
            workload["system"], user, self._languages[name], self._specs[name]
        )
        return json.dumps(weighed.weights.value)

    def rates(self, job: Job) -> dict[str, float]:
        """Those of the generator alone are measured elsewhere."""
        return {}


def _conversation(system: str, user: str) -> list[Message]:
    return [Message("system", system), Message("user", user)]


def _median_s(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])
