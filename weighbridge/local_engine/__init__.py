"""The local engine: weighs every allowed answer on this machine, offline."""

import os

# Read by libgomp when torch is loaded, so it must stand here, before any module imports torch. By
# default a waiting thread spins for milliseconds. Where another process wants the same two cores,
# that made one ticket take 28 s; a short spin makes it 0.6 s, and costs an idle machine little.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
