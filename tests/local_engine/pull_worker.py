"""A process that pulls; it can be told to die the hard way at a certain point.

Usage: pull_worker.py CATALOGUE_ENTRY_AS_JSON [POINT], where a point is a stage of the pull or a
function of `os`.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from weighbridge.local_engine.catalogue import KNOWN_MODELS, KnownModel
from weighbridge.local_engine.pull import PullProgress, pull


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(entry: str, point: str = "") -> None:
    model = KnownModel(**json.loads(entry))
    KNOWN_MODELS[model.name] = model

    def report(progress: PullProgress) -> None:
        if progress.stage == point:
            die()

    if hasattr(os, point):
        setattr(os, point, die)
    pull(model.name, report=report)


if __name__ == "__main__":
    main(*sys.argv[1:])
