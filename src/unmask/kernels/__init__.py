"""The few fused loops that decide the speed, and their plain reference twins."""

import os

# Where colorama is installed, numba would swap the standard streams of the whole process, for a moment and
# from whichever thread compiles, to print errors in bold; what another thread prints meanwhile can get lost.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
