"""The local engine: weighs every allowed answer on this machine, offline."""

import os

# Read by the OpenMP runtime when torch is loaded, so it must stand here, before any module imports
# torch. By default waiting threads spin; where two processes share two cores that turned 1.4 s for
# a ticket into 28 s. Idle machines lose nothing that could be measured.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
