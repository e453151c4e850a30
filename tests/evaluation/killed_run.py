"""Kill a run with SIGKILL at ten random moments, resume it each time, and do it once unbroken.

A program of its own: it imports everything once and forks a child for each attempt, which costs a tenth of a
second instead of the seconds that a fresh interpreter takes. Prints what happened as JSON.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from unmask.evaluation.run import evaluate
from unmask.evaluation.settings import Settings

KILLS = 10


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def child(settings: Settings, out: Path) -> int:
    process = os.fork()
    if process == 0:
        try:
            evaluate(settings, out)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return process


def main() -> None:
    data, model, where = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    settings = Settings(data=f"text={data}", model=model, examples=None, methods=("product", "l2r"))
    rng = random.Random(4)
    broken = where / "broken"
    records = broken / "examples.jsonl"
    kills = at_work = 0
    while kills < KILLS:
        # after so many more examples, and a moment: anywhere from the loading of the model on
        target = lines(records) + rng.randrange(5)
        moment = rng.uniform(0, 0.12)
        before = lines(records)
        process = child(settings, broken)
        while before < target and lines(records) < target:
            time.sleep(0.002)
        time.sleep(moment)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status), "the run ended before it was killed"
        kills += 1
        at_work += lines(records) > before
    for out in (broken, where / "whole"):
        assert os.waitpid(child(settings, out), 0)[1] == 0
    kept = [json.loads(line)["key"] for line in records.read_text().splitlines()]
    told = {"kills": kills, "examples": len(kept), "distinct": len(set(kept)), "while_at_work": at_work}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
