"""Money: what two processes at once may spend, and what becomes of it on both sides of a fork."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from scene import Scene, settles
from servers import Call, answers

import weighbridge
from weighbridge import Router, Ticket
from weighbridge.providers.protocol import Inquiry

ASKS = """
import asyncio, json, sys, weighbridge
router = weighbridge.Router.from_config(json.loads(sys.argv[1]))

async def ask(number):
    decision = await router.atriage(f"case {number}")
    outcomes = [a.detail for a in decision.trail] if decision.value is None else ["answered"]
    print(*outcomes, sep="|", flush=True)

async def main():
    await asyncio.gather(*(ask(10 + number) for number in range(25)))
    await router.aclose()

asyncio.run(main())
"""

FORKS = """
import json, os, sys, weighbridge
router = weighbridge.Router.from_config(json.loads(sys.argv[1]))
assert router.triage("case 10").status == "accepted"
children = []
for number in range(3):
    if (child := os.fork()) == 0:
        assert router.triage(f"case 1{number}").status == "accepted"
        router.close()
        os._exit(0)
    children.append(child)
assert router.triage("case 20").status == "accepted"
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 3
router.close()
"""

PRICE = {"prompt": 1.0, "completion": 10.0}


def begin(code: str, config: dict[str, Any]) -> subprocess.Popen[str]:
    root = str(Path(weighbridge.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, json.dumps(config)],
        env={**os.environ, "PYTHONPATH": root},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def worst_usd(config: dict[str, Any]) -> float:
    """What one of the tickets can cost at most."""
    with Router.from_config(config) as router:
        provider, task = router._providers[0], router.task
        approach = provider.approach(task)
        tokens = provider.worst_case(
            Inquiry(task=task, approach=approach, ticket=Ticket.of("case 10"))
        )
        usd = provider.cost_usd(*tokens)
    assert usd is not None
    return usd


def test_two_processes_send_as_many_requests_as_the_budget_covers(scene: Scene) -> None:
    """Fifty at once, while no answer has come that could free any money: ten leave."""
    release = threading.Event()

    async def held_back(call: Call) -> None:
        await asyncio.to_thread(release.wait, 50)
        await answers()(call)

    scene.deadline_s = 60.0
    a = scene.add("a", held_back, timeout="50s", price=PRICE)
    config = scene.config
    config["budget"] = {"usd_per_day": 10.5 * worst_usd(config)}
    processes = [begin(ASKS, config) for _ in range(2)]
    told: list[str] = []

    def read(process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            told.append(line)

    readers = [threading.Thread(target=read, args=(each,), daemon=True) for each in processes]
    try:
        for reader in readers:
            reader.start()
        assert settles(lambda: len(told) + a.hits >= 50, within_s=40)
        refused = list(told)
        release.set()
        for each, reader in zip(processes, readers, strict=True):
            assert each.wait(40) == 0, each.stderr and each.stderr.read()
            reader.join()
    finally:
        release.set()
        for each in processes:
            each.kill()
            each.communicate()
    assert refused == ["the day's budget has too little left\n"] * 40
    assert told[40:] == ["answered\n"] * 10
    assert (a.hits, a.most_under_way) == (10, 10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_budget_and_what_is_shared_work_on_both_sides_of_a_fork(scene: Scene) -> None:
    """As in a server that loads its application and then forks its workers."""
    a = scene.add("a", answers(), price=PRICE)
    config = scene.config
    config["budget"] = {"usd_per_day": 1.0, "usd_per_ticket": 0.5}
    config["router"]["share_health"] = True
    config["decision_cache"] = {"enabled": True, "kind": "database"}
    with begin(FORKS, config) as process:
        _, told = process.communicate(timeout=40)
    assert (process.returncode, told) == (0, "")
    assert a.hits >= 3
