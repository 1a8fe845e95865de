"""The result of the comparison as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.common import show
from bench.contenders.summary import OURS

# Of ours over the peer's: at most for times, at least for rates.
WANTED = {
    "triage": {"llama.cpp": "≤ 0.35", "outlines": "≤ 0.10", "xgrammar": "≤ 0.10"},
    "banking77": {"llama.cpp": "≤ 0.50"},
    "json": {"llama.cpp": "≥ 0.50", "outlines": "≥ 2", "xgrammar": "≥ 2"},
}


def show_all(result: Mapping[str, Any]) -> None:
    """Print the JSON object of the comparison for people."""
    machine, contenders = result["machine"], result["contenders"]
    pins = "".join(f", {name}={value}" for name, value in machine["pins"].items())
    show(
        f"{machine['cores']} cores, {machine['cpu_capability']}, {machine['threads']} threads "
        f"each{pins}; {result['rounds']} rounds, {result['tickets']} tickets",
        ("contender", "what it is"),
        [(name, numbers["version"]) for name, numbers in contenders.items()],
    )
    show(
        "a ticket's answer, median",
        ("contender", "triage", "banking77", "checks"),
        [_answer_row(name, numbers) for name, numbers in contenders.items()],
    )
    show(
        "start: packages, weights, grammar and instructions, the first answer since process start",
        ("contender", "import", "load", "prepare", "first answer", "peak memory"),
        [_start_row(name, numbers) for name, numbers in contenders.items()],
    )
    show(
        "tokens a second, forced ones counted; a mask: made, applied, its guide advanced",
        ("contender", "JSON", "plain", "masks by", "median", "masks/s", "step"),
        [row for name, numbers in contenders.items() for row in _writing_rows(name, numbers)],
    )
    peers = [name for name in contenders if not name.startswith("ours")]
    show(
        f"{OURS} over each, and what is wanted",
        ("what", *peers),
        [
            (what.replace("_", " "), *(_ratio(what, by_peer, peer) for peer in peers))
            for what, by_peer in result["ratios"].items()
        ],
    )
    show(
        "thousand million operations a second: matrix products alone, and in a whole prefill",
        ("contender", "alone", "in the prefill", "share"),
        [
            (name, f"{g['matmul']:.0f}", f"{g['prefill']:.0f}", f"{g['share']:.0%}")
            for name, numbers in contenders.items()
            if (g := numbers.get("gops"))
        ],
    )
    show(
        "`weighbridge triage` of one ticket, the whole process with the default pair of models",
        ("what", "value", "wanted"),
        [
            ("process start to exit", f"{result['cli']['process_s']:.2f} s", "≤ 3 s"),
            ("peak memory", f"{result['cli']['peak_mb']:.0f} MB", "≤ 700 MB"),
        ],
    )


def _answer_row(name: str, numbers: Mapping[str, Any]) -> tuple[str, ...]:
    invalid = numbers["triage_invalid"] + numbers.get("banking77_invalid", 0)
    checks = [f"[bold red]{invalid} invalid[/]"] if invalid else []
    checks += [] if numbers["same_prompt"] else ["[bold red]another prompt[/]"]
    return (
        name,
        f"{numbers['triage_ms']:.0f} ms",
        f"{numbers['banking77_ms']:.0f} ms" if "banking77_ms" in numbers else "",
        ", ".join(checks) or "passed",
    )


def _start_row(name: str, numbers: Mapping[str, Any]) -> tuple[str, ...]:
    parts = ("import_s", "load_s", "prepare_s", "first_answer_s")
    return (name, *(f"{numbers[part]:.2f} s" for part in parts), f"{numbers['peak_mb']:.0f} MB")


def _writing_rows(name: str, numbers: Mapping[str, Any]) -> list[tuple[str, ...]]:
    if "json_tokens_per_s" not in numbers:
        return []
    rates = (f"{numbers['json_tokens_per_s']:.1f}", f"{numbers['plain_tokens_per_s']:.1f}")
    if not numbers["masks"]:
        return [(name, *rates, "its sampler", "", "", "")]
    return [
        (
            name,
            *rates,
            maker,
            f"{mask['median_us']:.0f} µs",
            f"{mask['per_s']:.0f}",
            f"{mask['share_of_step']:.2%}",
        )
        for maker, mask in numbers["masks"].items()
    ]


def _ratio(what: str, by_peer: Mapping[str, float], peer: str) -> str:
    if peer not in by_peer:
        return ""
    wanted = WANTED.get(what, {}).get(peer)
    return f"{by_peer[peer]:.2f}" + (f" ({wanted})" if wanted else "")
