"""Fine-tune as a file of settings says: what the tests start in a process of its own, to kill it."""

import json
import sys
from pathlib import Path

from unmask.tasks import Settings, finetune

finetune(Settings(**json.loads(Path(sys.argv[1]).read_text())), Path(sys.argv[2]))
