"""The extra [learn]: SciPy and scikit-learn, loaded when a number is first asked for.

The queue works without them, and scikit-learn takes seconds to load, so nothing here imports them
at its head.
"""

from __future__ import annotations

import importlib
from typing import Any

from weighbridge.errors import ExtraMissing

_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def learn_module(name: str) -> Any:
    """A module of SciPy or scikit-learn; neither ships types, so callers state them.

    Raises:
        ExtraMissing: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ExtraMissing("learn", _DISTRIBUTIONS.get(package, package)) from None
