"""What the grammar guide makes of public JSON Schema suites: compiled, refused, right, wrong.

    python -m bench.schemas ../shared/data/json-schema-test-suite ../shared/data/maskbench

Every instance is fed to the guide token by token, in the canonical spelling of `json.dumps`: each
token must be allowed, and at the end the end of text. Nothing is validated afterwards. A guide
writes names in the schema's order, so an instance may be spelled as it was written or in the order
in which the schema first gives its names; it is accepted if one of the two is.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from bench.common import finish, parser, read_rows, show
from weighbridge.errors import EngineError, SchemaRefused
from weighbridge.local_engine import guides
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.guides.protocol import Guide
from weighbridge.local_engine.vocabulary import Vocabulary

TOKENIZER = "smollm2-135m"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
SUITES = (
    "draft2020-12",
    "draft2020-12.optional-format",
    "draft7",
    "draft7.optional-format",
)
REFUSED_THERE = frozenset({"skip_compile", "compile_error_valid", "compile_error_all_invalid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A schema and its instances.

    Args:
        name: of the schema, for people.
        schema: with its draft declared.
        tests: name, instance, whether it is valid.
        compiles_there: by test name, whether llguidance alone is expected to compile it; None for
            the schema as a whole.
    """

    name: str
    schema: Any
    tests: list[tuple[str, Any, bool]]
    compiles_there: dict[str | None, bool]


@dataclass(slots=True)
class Tally:
    """The counts of one file."""

    schemas: int = 0
    compiled: int = 0
    refused_by: Counter[str] = field(default_factory=Counter)
    valid: int = 0
    invalid: int = 0
    valid_rejected: list[str] = field(default_factory=list)
    invalid_accepted: list[str] = field(default_factory=list)
    compared: int = 0
    compiled_here: int = 0
    compiled_there: int = 0
    compile_ms: list[float] = field(default_factory=list)
    mask_us: list[float] = field(default_factory=list)


def suite_cases(folder: Path, suite: str) -> Iterator[Case]:
    """The groups of one file of the JSON-Schema-Test-Suite."""
    there = json.loads((folder / "llguidance/expected_json_schema_test_suite.json").read_text())
    expected = there.get(suite.partition(".")[0], {})
    for row in read_rows(folder / f"{suite}.jsonl"):
        schema = row["schema"]
        if suite.startswith("draft7") and isinstance(schema, dict):
            schema = {"$schema": DRAFT_7, **schema}
        outcomes = expected.get(row["file"], {}).get(row["description"], {})
        yield Case(
            name=f"{suite}/{row['file']}: {row['description']}",
            schema=schema,
            tests=[(test["description"], test["data"], test["valid"]) for test in row["tests"]],
            compiles_there={name: word not in REFUSED_THERE for name, word in outcomes.items()},
        )


def maskbench_cases(folder: Path) -> Iterator[Case]:
    """The files of the MaskBench sample."""
    expected = json.loads((folder / "expected_maskbench.json").read_text())
    for row in read_rows(folder / "sample.jsonl"):
        name = row["name"]
        yield Case(
            name=name,
            schema=row["schema"],
            tests=[(f"#{i}", test["data"], test["valid"]) for i, test in enumerate(row["tests"])],
            compiles_there={None: "json_error" not in expected[name]} if name in expected else {},
        )


def measure(cases: Iterable[Case], vocabulary: Vocabulary) -> Tally:
    """Bind and feed every case."""
    tally = Tally()
    for case in cases:
        tally.schemas += 1
        started = time.perf_counter()
        try:
            guide = guides.json_schema(case.schema).bind(vocabulary)
        except SchemaRefused as refusal:
            guide = None
            tally.refused_by[refusal.keyword] += 1
        else:
            tally.compile_ms.append((time.perf_counter() - started) * 1e3)
            tally.compiled += 1
        for name in {None} | {name for name, *_ in case.tests}:
            if name in case.compiles_there:
                tally.compared += 1
                tally.compiled_here += guide is not None
                tally.compiled_there += case.compiles_there[name]
        if guide is None:
            continue
        for name, data, is_valid in case.tests:
            is_accepted = any(
                accepts(guide, vocabulary, text, tally.mask_us)
                for text in spellings(data, case.schema)
            )
            tally.valid += is_valid
            tally.invalid += not is_valid
            if is_accepted and not is_valid:
                tally.invalid_accepted.append(f"{case.name}: {name}")
            elif is_valid and not is_accepted:
                tally.valid_rejected.append(f"{case.name}: {name}")
    return tally


def accepts(guide: Guide, vocabulary: Vocabulary, text: str, mask_us: list[float]) -> bool:
    """Whether the guide would let a model write the text and stop; adds the time of each mask."""
    state = guide.init()
    try:
        for token in [*vocabulary.encode(text), min(vocabulary.eos_ids)]:
            started = time.perf_counter()
            row = guide.bias(state)
            mask_us.append((time.perf_counter() - started) * 1e6)
            if row[token] == -torch.inf:
                return False
            state = guide.advance(state, token)
    except EngineError:
        return False  # the engine ran out of its budget: no answer, and no wrong one
    return guide.finished(state)


def spellings(value: Any, schema: Any) -> list[str]:
    """The JSON texts of a value that are tried, each once."""
    orders = (value, in_order(value, schema))
    return list(dict.fromkeys(json.dumps(order, ensure_ascii=False) for order in orders))


def in_order(value: Any, schema: Any) -> Any:
    """The value with its names in the order in which the schema first gives them."""
    ranks: dict[str, int] = {}
    pending = [schema]
    while pending:
        part = pending.pop(0)
        if isinstance(part, dict):
            for names in (part.get("properties"), part.get("required")):
                for name in names if isinstance(names, list | dict) else ():
                    if isinstance(name, str):
                        ranks.setdefault(name, len(ranks))
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return _sorted(value, ranks)


def _sorted(value: Any, ranks: dict[str, int]) -> Any:
    if isinstance(value, list):
        return [_sorted(item, ranks) for item in value]
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: ranks.get(name, len(ranks)))
        return {name: _sorted(value[name], ranks) for name in names}
    return value


def main() -> None:
    """Measure, print."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("suite", type=Path, help="folder of the JSON-Schema-Test-Suite")
    arguments.add_argument("maskbench", type=Path, help="folder of the MaskBench sample")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    vocabulary = Engine.load(TOKENIZER, prior=None).vocabulary
    guides.json_schema({"type": "object"}).bind(vocabulary)  # the tokenizer is prepared only once
    files = [(suite, list(suite_cases(options.suite, suite))) for suite in SUITES]
    files.append(("maskbench", list(maskbench_cases(options.maskbench))))
    console = Console(stderr=True)
    tallies = {
        name: measure(track(cases, name, console=console, transient=True), vocabulary)
        for name, cases in files
    }
    summaries = {name: summary(tally) for name, tally in tallies.items()}
    _print(summaries)
    finish(summaries, as_json=options.json)


def summary(tally: Tally) -> dict[str, Any]:
    """The counts of one file as they are printed as JSON."""
    compile_median, compile_p99 = np.quantile(tally.compile_ms, [0.5, 0.99])
    mask_median, mask_p99 = np.quantile(tally.mask_us, [0.5, 0.99])
    return {
        "schemas": tally.schemas,
        "compiled": tally.compiled,
        "refused_by": dict(tally.refused_by.most_common()),
        "valid": tally.valid,
        "valid_rejected": len(tally.valid_rejected),
        "invalid": tally.invalid,
        "invalid_accepted": tally.invalid_accepted,
        "compared": tally.compared,
        "compiled_here": tally.compiled_here,
        "compiled_llguidance": tally.compiled_there,
        "compile_ms": {"median": float(compile_median), "p99": float(compile_p99)},
        "mask_us": {
            "median": float(mask_median),
            "p99": float(mask_p99),
            "tokens": len(tally.mask_us),
            "tokenizer": TOKENIZER,
        },
    }


def _print(summaries: dict[str, dict[str, Any]]) -> None:
    show(
        "schemas and instances; the instances are those of compiled schemas",
        ("file", "schemas", "compiled", "valid rejected", "invalid accepted"),
        [
            (
                name,
                str(s["schemas"]),
                f"{s['compiled']} ({s['compiled'] / s['schemas']:.1%})",
                f"{s['valid_rejected']} of {s['valid']}",
                f"{len(s['invalid_accepted'])} of {s['invalid']}",
            )
            for name, s in summaries.items()
        ],
    )
    show(
        "compiled, beside what llguidance by itself is expected to compile",
        ("file", "compared", "here", "llguidance"),
        [
            (
                name,
                f"{s['compared']} {'schemas' if name == 'maskbench' else 'tests'}",
                f"{s['compiled_here']} ({s['compiled_here'] / s['compared']:.1%})",
                f"{s['compiled_llguidance']} ({s['compiled_llguidance'] / s['compared']:.1%})",
            )
            for name, s in summaries.items()
            if s["compared"]
        ],
    )
    show(
        f"time; tokenizer of {TOKENIZER}, one core",
        ("file", "compile median", "p99", "masks", "mask median", "p99"),
        [
            (
                name,
                f"{s['compile_ms']['median']:.1f} ms",
                f"{s['compile_ms']['p99']:.1f} ms",
                str(s["mask_us"]["tokens"]),
                f"{s['mask_us']['median']:.0f} µs",
                f"{s['mask_us']['p99']:.0f} µs",
            )
            for name, s in summaries.items()
        ],
    )
    refusals: Counter[str] = Counter()
    for s in summaries.values():
        refusals.update(s["refused_by"])
    show(
        "refused, by keyword",
        ("keyword", "schemas"),
        [(keyword or "(none)", str(count)) for keyword, count in refusals.most_common(10)],
    )
    wrong = [name for s in summaries.values() for name in s["invalid_accepted"]]
    if wrong:
        show("invalid, but accepted", ("instance",), [(name,) for name in wrong])


if __name__ == "__main__":
    main()
