"""The local engine: weighs every allowed answer on this machine, offline."""

import os

# Read by libgomp when torch is loaded, so it must stand here, before any module imports torch. By
# default a waiting thread spins for milliseconds, on a core that another process may want. Measured
# in one run on two cores with one busy process beside: 0.65 s for a ticket instead of 1.3 s, 4 s to
# the first answer instead of 14 s. On an idle machine it costs some six per cent.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
