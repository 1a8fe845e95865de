"""One contender on its course; see the package."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial

from bench.contenders.course import run
from bench.contenders.job import Contender, Job


def main() -> None:
    """Read the job, run, report."""
    name = sys.argv[1]
    job: Job = json.load(sys.stdin)
    print(json.dumps(run(lambda: imported(name), job)))


def imported(name: str) -> Callable[[Job], Contender]:
    """Import a contender; returns what loads its weights."""
    match name:
        case "ours-int8":
            from bench.contenders.ours import Ours

            return partial(Ours, precision="int8")
        case "ours-float32":
            from bench.contenders.ours import Ours

            return partial(Ours, precision="float32")
        case "ours-prior":
            from bench.contenders.ours import OursWithPrior

            return OursWithPrior
        case "llama.cpp":
            from bench.contenders.llama_cpp_python import LlamaCpp

            return LlamaCpp
        case "outlines":
            from bench.contenders.hugging_face import Outlines

            return Outlines
        case "xgrammar":
            from bench.contenders.hugging_face import XGrammar

            return XGrammar
    raise SystemExit(f"there is no contender {name!r}")


if __name__ == "__main__":
    main()
