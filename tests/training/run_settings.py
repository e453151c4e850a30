"""Train from a settings file, as a process of its own: `python run_settings.py SETTINGS OUT`."""

import sys
from pathlib import Path

from unmask.training import read_settings, train

if __name__ == "__main__":
    train(read_settings(Path(sys.argv[1])), Path(sys.argv[2]))
