"""Injection signs: how many attacks get past them, and how many customers they stop.

    python -m bench.injection [--tickets shared/data/tickets]

Every ticket goes through a real router to a server on loopback that obeys: it answers what the
ticket orders, sure of each token. So nothing but the signs stands between an attack and
acceptance. Benign tickets go the same way, so that a router that accepts nothing would be seen.
"""

from __future__ import annotations

import json
import math
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.common import DEVELOPMENT, finish, parser, percent, read_rows, show
from weighbridge.decision import Decision
from weighbridge.router.injection import signs
from weighbridge.router.router import Router
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

ATTACKS = Path(__file__).parent / "data" / "injections.jsonl"
_TICKET_KEYS = ("subject", "body", "content_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A ticket and what the server answers to it."""

    group: str
    kind: str
    ticket: Ticket
    task: Task
    answer: Mapping[str, Any]


class Obedient:
    """A model that does as it is told: text of the prompt to answer, every token certain."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}

    def respond(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a chat completion."""
        text = self.answers[request["messages"][-1]["content"]]
        logprobs = [
            {"token": c, "logprob": 0.0, "bytes": list(c.encode()), "top_logprobs": []}
            for c in text
        ]
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
            "logprobs": {"content": logprobs},
        }
        return {"object": "chat.completion", "model": "stub", "choices": [choice]}


def main() -> None:
    """Measure all sets."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--tickets", type=Path, help="a folder of folders of benign tickets")
    options = arguments.parse_args()
    cases = [*attacks(), *benign(options.tickets)]
    result = summary(cases, list(decisions(cases)))
    _show(result)
    finish(result, as_json=options.json)


def attacks() -> Iterator[Case]:
    """The attacks and their benign look-alikes; the group is the half, the kind the attack's."""
    task = Task.triage()
    for row in read_rows(ATTACKS):
        ticket = Ticket.of({key: row[key] for key in _TICKET_KEYS if key in row})
        is_attack = "orders" in row
        yield Case(
            group=f"{'attacks' if is_attack else 'look-alikes'}, {row['split']}",
            kind=row["kind"],
            ticket=ticket,
            task=task,
            answer=row.get("orders") or _first_answer(task),
        )


def benign(folder: Path | None = None) -> Iterator[Case]:
    """Development tickets that attack nobody: ours, and those of a folder with their own labels."""
    task = Task.triage()
    for row in read_rows(DEVELOPMENT):
        is_attack = row["kind"] == "injection"
        ticket = Ticket.of({"subject": row["subject"], "body": row["body"]})
        group = "attacks, first set" if is_attack else "benign, dev"
        yield Case(
            group=group, kind=row["kind"], ticket=ticket, task=task, answer=_first_answer(task)
        )
    for labels in sorted(folder.glob("*/labels.json")) if folder else ():
        task = Task.triage(categories=json.loads(labels.read_text("utf-8")), priorities=[])
        for name in ("dev", "shots", "near_oos", "oos"):
            for row in read_rows(labels.parent / f"{name}.jsonl"):
                yield Case(
                    group="benign, dev" if name == "dev" else "benign, not tuned on",
                    kind=labels.parent.name,
                    ticket=Ticket.of(row["body"]),
                    task=task,
                    answer=_first_answer(task),
                )


def decisions(cases: Iterable[Case]) -> Iterator[Decision]:
    """What a router with the obedient server makes of the cases, in their order."""
    model = Obedient()
    with _serving(model) as url, tempfile.TemporaryDirectory() as folder:
        settings = {
            "provider": [
                {
                    "name": "obedient",
                    "kind": "openai",
                    "base_url": url,
                    "model": "stub",
                    "logprobs": "premask",
                }
            ],
            "router": {"deadline": "10m"},
            "review": {"database": f"sqlite:///{folder}/queue.db", "audit_rate": 0.0},
        }
        with Router.from_config(settings) as router:
            for case in cases:
                model.answers[case.task.prompt(case.ticket).user] = json.dumps(case.answer)
                yield router.ask(case.task, case.ticket)


def summary(cases: Iterable[Case], decided: Iterable[Decision]) -> dict[str, Any]:
    """Counts by group: tickets, suspected, accepted, with 95 % intervals; by kind; by sign."""
    groups: dict[str, dict[str, Any]] = {}
    for case, decision in zip(cases, decided, strict=True):
        group = groups.setdefault(
            case.group,
            {"tickets": 0, "suspected": 0, "accepted": 0, "by_kind": defaultdict(Counter)},
        )
        is_suspected = "injection_suspected" in decision.reasons
        is_accepted = decision.status == "accepted"
        for counts in (group, group["by_kind"][case.kind]):
            counts["tickets"] += 1
            counts["suspected"] += is_suspected
            counts["accepted"] += is_accepted
        group.setdefault("by_sign", Counter()).update(signs(case.ticket, case.task))
    for group in groups.values():
        for name in ("suspected", "accepted"):
            group[f"{name}_interval"] = _interval(group[name], group["tickets"])
    return groups


def _interval(hits: int, tickets: int) -> tuple[float, float]:
    """Wilson's score interval, 95 %."""
    z, share = 1.959964, hits / tickets
    middle = share + z * z / (2 * tickets)
    half = z * math.sqrt(share * (1 - share) / tickets + z * z / (4 * tickets * tickets))
    scale = 1 + z * z / tickets
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def _first_answer(task: Task) -> dict[str, Any]:
    return {field.path[-1]: field.options[0] for field in task.fields}


@contextmanager
def _serving(model: Obedient) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for head and body, or the client waits for the second
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(model.respond(request)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _show(groups: dict[str, Any]) -> None:
    show(
        "a model that obeys every ticket",
        ("group", "tickets", "suspected", "95 %", "accepted", "95 %"),
        [
            (
                name,
                str(group["tickets"]),
                *(
                    cell
                    for what in ("suspected", "accepted")
                    for cell in (
                        str(group[what]),
                        " … ".join(percent(end) for end in group[f"{what}_interval"]),
                    )
                ),
            )
            for name, group in groups.items()
        ],
    )
    both = [groups[f"attacks, {half}"]["by_kind"] for half in ("dev", "test")]
    show(
        "attacks accepted, by kind",
        ("kind", "dev", "test"),
        [
            (kind, *(f"{half[kind]['accepted']} of {half[kind]['tickets']}" for half in both))
            for kind in both[0]
        ],
    )
    seen: Counter[str] = Counter()
    for name, group in groups.items():
        if "attacks" in name:
            seen.update(group["by_sign"])
    show("signs of the attacks", ("sign", "attacks"), [(n, str(c)) for n, c in seen.most_common()])


if __name__ == "__main__":
    main()
