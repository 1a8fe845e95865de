"""`transformers` in float32 with the grammars of outlines and xgrammar: greedy decoding.

The instructions are read once and their cache is copied for each ticket, as the library documents
for prompts that begin alike.
"""

from __future__ import annotations

import copy
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from bench.contenders.job import Job, Workload, Writing, after_system, before_user

ANSWER_TOKENS = 64


class HuggingFace(ABC):
    """A causal model, and what is the same for both grammars."""

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job["threads"])
        self._tokenizer: Any = AutoTokenizer.from_pretrained(job["checkpoint"])
        self._model: Any = AutoModelForCausalLM.from_pretrained(job["checkpoint"])
        self._grammars: dict[str, Any] = {}
        self._prefixes: dict[str, DynamicCache] = {}
        self._read: list[int] = []

    @property
    def version(self) -> str:
        """See `Contender.version`."""
        own = type(self).__name__.lower()
        return f"{own} {version(own)}, transformers {version('transformers')}, float32"

    def prepare(self, workload: Workload) -> None:
        """See `Contender.prepare`."""
        self._grammars[workload["name"]] = self._compiled(workload)
        self._prefixes[workload["name"]] = self._cache_of(before_user(workload["system"]))

    def answer(self, workload: Workload, user: str) -> str:
        """See `Contender.answer`."""
        name = workload["name"]
        text, _ = self._written(
            before_user(workload["system"]) + after_system(user),
            self._grammars[name],
            copy.deepcopy(self._prefixes[name]),
            ANSWER_TOKENS,
        )
        return text

    def prompt_ids(self) -> list[int]:
        """See `Contender.prompt_ids`."""
        return self._read

    def write_json(self, writing: Writing, num_tokens: int) -> int:
        """See `Contender.write_json`."""
        prompt = before_user(writing["system"]) + after_system(writing["user"])
        if "json" not in self._grammars:
            self._grammars["json"] = self._compiled_schema(writing["schema"])
        return self._write("json", prompt, self._grammars["json"], num_tokens)

    def write_plain(self, writing: Writing, num_tokens: int) -> int:
        """See `Contender.write_plain`."""
        return self._write("plain", writing["plain"], None, num_tokens)

    @abstractmethod
    def masks(self, writing: Writing) -> dict[str, list[float]]:
        """See `Contender.masks`."""

    def rates(self, job: Job) -> dict[str, float]:
        """None."""
        return {}

    @abstractmethod
    def _compiled(self, workload: Workload) -> Any:
        """The grammar of a workload."""

    @abstractmethod
    def _compiled_schema(self, schema: dict[str, Any]) -> Any:
        """The grammar of a JSON Schema."""

    @abstractmethod
    def _generate(self, prompt: str, grammar: Any, **options: Any) -> None:
        """Let the library write behind a prompt; None as the grammar writes freely."""

    def _write(self, kind: str, prompt: str, grammar: Any, num_tokens: int) -> int:
        if kind not in self._prefixes:
            # All of the prompt but one token: that one says what comes next.
            self._prefixes[kind] = self._cache_of(prompt)
            self._prefixes[kind].crop(-1)
        past = copy.deepcopy(self._prefixes[kind])
        return self._written(prompt, grammar, past, num_tokens)[1]

    def _written(
        self, prompt: str, grammar: Any, past: DynamicCache, num_tokens: int
    ) -> tuple[str, int]:
        """The text behind a prompt, and how many tokens it took."""
        tape = _Tape()
        self._generate(
            prompt,
            grammar,
            # Its name becomes `cache` some day; the old one is taken until version 6.
            past_key_values=past,
            max_new_tokens=num_tokens,
            do_sample=False,
            streamer=tape,
        )
        self._read = tape.prompt
        text = self._tokenizer.decode(tape.written, skip_special_tokens=True)
        return text, len(tape.written)

    def _cache_of(self, prompt: str) -> DynamicCache:
        """What the model remembers of a text."""
        cache = DynamicCache(config=self._model.config)
        # The token that this writes is not read, so the cache ends where the text does.
        self._model.generate(
            **self._encoded(prompt), past_key_values=cache, max_new_tokens=1, do_sample=False
        )
        return cache

    def _encoded(self, prompt: str) -> Any:
        return self._tokenizer(prompt, return_tensors="pt")

    def _timed(self, fresh: Callable[[], Any], text: str) -> list[float]:
        """Seconds of each mask along a text, by a logits processor; a first round warms up."""
        ids = self._encoded(text)["input_ids"]
        seconds: list[float] = []
        for _ in range(2):
            processor, seconds = fresh(), []
            for end in range(ids.shape[1]):
                logits = torch.zeros(1, self._model.config.vocab_size)
                # The first mask is that of the place before the text, whatever the ids are.
                read = ids[:, : max(1, end)]
                started = time.perf_counter()
                processor(read, logits)
                seconds.append(time.perf_counter() - started)
        return seconds


class Outlines(HuggingFace):
    """outlines' own generator; regular expressions and schemas go through outlines-core."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        import outlines

        self._outlines: Any = outlines
        self._wrapped = outlines.from_transformers(self._model, self._tokenizer)

    def masks(self, writing: Writing) -> dict[str, list[float]]:
        """By outlines-core, its default, and by llguidance, which it can use as well."""
        term = self._outlines.json_schema(json.dumps(writing["schema"]))
        return {
            backend.replace("_", "-"): self._timed(self._fresh(term, backend), writing["valid"])
            for backend in ("outlines_core", "llguidance")
        }

    def _fresh(self, term: Any, backend: str) -> Callable[[], Any]:
        """What gives the processor of a grammar, at its start."""
        processor = self._outlines.Generator(self._wrapped, term, backend).logits_processor

        def fresh() -> Any:
            processor.reset()
            return processor

        return fresh

    def _compiled(self, workload: Workload) -> Any:
        return self._outlines.Generator(self._wrapped, self._outlines.regex(workload["pattern"]))

    def _compiled_schema(self, schema: dict[str, Any]) -> Any:
        return self._outlines.Generator(
            self._wrapped, self._outlines.json_schema(json.dumps(schema))
        )

    def _generate(self, prompt: str, grammar: Any, **options: Any) -> None:
        generator = self._outlines.Generator(self._wrapped) if grammar is None else grammar
        generator(prompt, **options)


class XGrammar(HuggingFace):
    """xgrammar's logits processor in the library's own loop."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        import xgrammar
        import xgrammar.contrib.hf

        self._processor = xgrammar.contrib.hf.LogitsProcessor
        info = xgrammar.TokenizerInfo.from_huggingface(
            self._tokenizer, vocab_size=self._model.config.vocab_size
        )
        self._compiler = xgrammar.GrammarCompiler(info)

    def masks(self, writing: Writing) -> dict[str, list[float]]:
        """See `Contender.masks`."""
        grammar = self._compiled_schema(writing["schema"])
        return {"xgrammar": self._timed(lambda: self._processor(grammar), writing["valid"])}

    def _compiled(self, workload: Workload) -> Any:
        return self._compiled_schema(workload["schema"])

    def _compiled_schema(self, schema: dict[str, Any]) -> Any:
        # Without free white space it writes as `json.dumps` does, like all the others.
        return self._compiler.compile_json_schema(json.dumps(schema), any_whitespace=False)

    def _generate(self, prompt: str, grammar: Any, **options: Any) -> None:
        # One processor for each answer: that is how the library wants it.
        processors = [] if grammar is None else [self._processor(grammar)]
        self._model.generate(**self._encoded(prompt), logits_processor=processors, **options)


class _Tape:
    """A streamer that keeps the ids: first those of the prompt, then each that is written."""

    def __init__(self) -> None:
        self.prompt: list[int] = []
        self.written: list[int] = []

    def put(self, ids: Any) -> None:
        """Take what the library hands over."""
        if self.prompt:
            self.written += ids.flatten().tolist()
        else:
            self.prompt = ids.flatten().tolist()

    def end(self) -> None:
        """Nothing is left over."""
