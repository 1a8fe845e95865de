"""llama.cpp through llama-cpp-python: greedy decoding under GBNF, the prompt's prefix kept."""

from __future__ import annotations

import json
from typing import Any

import llama_cpp
from llama_cpp.llama_grammar import LlamaGrammar

from bench.contenders.job import Job, Workload, Writing, after_system, before_user

CONTEXT_TOKENS = 4096
ANSWER_TOKENS = 64


class LlamaCpp:
    """A model of llama.cpp, with the defaults of its Python binding but for the threads."""

    def __init__(self, job: Job) -> None:
        self._llama: Any = llama_cpp.Llama(
            job["gguf"],
            n_ctx=CONTEXT_TOKENS,
            n_threads=job["threads"],
            n_threads_batch=job["threads"],
            verbose=False,
        )
        self._grammars: dict[str, Any] = {}
        self._num_prompt_tokens = 0

    @property
    def version(self) -> str:
        """With the instruction sets that it was compiled for, which no variable can restrict."""
        info = llama_cpp.llama_print_system_info().decode()
        wide = [name for name in ("AVX512", "AMX_INT8") if f"{name} = 1" in info]
        return ", ".join([f"llama-cpp-python {llama_cpp.__version__}", "Q4_1", *wide])

    def prepare(self, workload: Workload) -> None:
        """See `Contender.prepare`; the instructions are read with the first ticket."""
        grammar = LlamaGrammar.from_string(workload["gbnf"], verbose=False)
        self._grammars[workload["name"]] = grammar

    def answer(self, workload: Workload, user: str) -> str:
        """See `Contender.answer`; what the prompt shares with the one before is not read again."""
        prompt = before_user(workload["system"]) + after_system(user)
        text, _ = self._complete(prompt, ANSWER_TOKENS, self._grammars[workload["name"]])
        return text

    def prompt_ids(self) -> list[int]:
        """See `Contender.prompt_ids`."""
        return [int(token) for token in self._llama.input_ids[: self._num_prompt_tokens]]

    def write_json(self, writing: Writing, num_tokens: int) -> int:
        """See `Contender.write_json`."""
        if "json" not in self._grammars:
            text = json.dumps(writing["schema"])
            self._grammars["json"] = LlamaGrammar.from_json_schema(text, verbose=False)
        prompt = before_user(writing["system"]) + after_system(writing["user"])
        return self._complete(prompt, num_tokens, self._grammars["json"])[1]

    def write_plain(self, writing: Writing, num_tokens: int) -> int:
        """See `Contender.write_plain`."""
        return self._complete(writing["plain"], num_tokens, None)[1]

    def masks(self, writing: Writing) -> dict[str, list[float]]:
        """None: the grammar is applied inside the sampler."""
        return {}

    def rates(self, job: Job) -> dict[str, float]:
        """None."""
        return {}

    def _complete(self, prompt: str, num_tokens: int, grammar: Any) -> tuple[str, int]:
        done = self._llama(prompt, max_tokens=num_tokens, temperature=0.0, grammar=grammar)
        self._num_prompt_tokens = done["usage"]["prompt_tokens"]
        return done["choices"][0]["text"], done["usage"]["completion_tokens"]
