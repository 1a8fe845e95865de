"""Labels that several tests share; the reference values for them are SciPy's and scikit-learn's."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

# Loaded before hypothesis begins to time: they take longer than a whole test may.
import scipy.optimize
import scipy.special  # noqa: F401
import sklearn.linear_model
import sklearn.metrics  # noqa: F401
from hypothesis import strategies as st

from weighbridge.decision import CalibrationKey
from weighbridge.review.statistics.labels import Labels

KEY = CalibrationKey(
    provider="groq", model="m-1", prompt="p-1", schema="s-1", field="category", source="combined"
)
NOW = datetime(2026, 11, 30, tzinfo=UTC)
LATER = datetime(2026, 12, 30, tzinfo=UTC)

# Ten answers, three of them wrong, with ties.
CHECK_SET = Labels(
    confidences=[0.95, 0.90, 0.90, 0.85, 0.80, 0.80, 0.70, 0.65, 0.60, 0.55],
    correct=[True, True, True, True, True, False, True, False, True, False],
)
NOTHING = Labels(confidences=[], correct=[])

shares = st.floats(0, 1)
open_shares = st.floats(0.001, 0.999)


@st.composite
def labels(draw: st.DrawFn, min_size: int = 1, max_size: int = 40) -> Labels:
    """Any labels, with ties among the confidences."""
    confidence = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]) | shares
    rows = draw(
        st.lists(st.tuples(confidence, st.booleans()), min_size=min_size, max_size=max_size)
    )
    return Labels(
        confidences=[confidence for confidence, _ in rows], correct=[right for _, right in rows]
    )


def _many(seed: int, num_labels: int) -> Labels:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(6, 1, num_labels).round(2)
    right = rng.random(num_labels) < confidence ** rng.uniform(0.1, 2)
    return Labels(confidences=confidence.tolist(), correct=right.tolist())


# Hundreds at once, with ties; drawn one by one they would take seconds.
many_labels = st.builds(_many, st.integers(0, 2**32), st.integers(50, 400))


@st.composite
def tallies(draw: st.DrawFn, max_labels: int = 500) -> tuple[int, int]:
    """(errors, labels), at least one label."""
    num_labels = draw(st.integers(1, max_labels))
    return draw(st.integers(0, num_labels)), num_labels
