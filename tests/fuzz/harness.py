"""One case of the fuzz suite: a public call, which must answer, or refuse with one line that can be printed.

`make test` runs 2,000 cases, the same every time; a find stops the test and is shrunk. `make fuzz`
(tests/fuzz/campaign.py) runs 50,000 others: finds are written down, and the tests go on.
"""

import contextlib
import json
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from unmask import UnmaskError

LONGEST = 20.0
"""Seconds after which a call counts as hanging."""
TALLY = os.environ.get("UNMASK_FUZZ_TALLY")
"""The file that a campaign's process writes its tally to; without one, a find fails the test."""


def cases(number: int) -> settings:
    """Settings of a test with so many of the 2,000 cases."""
    phases = [Phase.generate] if TALLY else [Phase.generate, Phase.shrink]
    return settings(max_examples=number, phases=phases, suppress_health_check=list(HealthCheck))


class Hang(BaseException):
    """A call took too long; no `except Exception` of the code under test may swallow it."""


class Tally:
    """What became of the cases, by surface."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.slowest: dict[str, tuple[float, str]] = {}
        self.finds: dict[str, dict[str, str]] = {}

    def record(self, surface: str, refused: bool, seconds: float, what: str) -> None:
        """Count a case that ended as it should."""
        (self.refusals if refused else self.answers)[surface] += 1
        if seconds > self.slowest.get(surface, (0.0, ""))[0]:
            self.slowest[surface] = (seconds, what)

    def write(self, path: Path) -> None:
        """Write the tally as JSON."""
        named = {"answers": self.answers, "refusals": self.refusals, "slowest": self.slowest}
        path.write_text(json.dumps(named | {"finds": self.finds}, indent=1))


tally = Tally()


def attempt(surface: str, what: str, call: Callable[[], Any]) -> Any:
    """Make a call; return its answer, or None if it was refused in one line.

    Whatever else happens is a find: somebody else's exception, a message that can't be printed, a hang.
    """
    refused, answer, start = False, None, time.perf_counter()
    try:
        with _alarm():
            answer = call()
    except UnmaskError as error:
        refused = True
        try:
            examine(str(error))
        except (AssertionError, UnicodeEncodeError) as unclear:
            _find(surface, what, unclear)
    except (Exception, Hang) as error:
        _find(surface, what, error)
        return None
    tally.record(surface, refused, time.perf_counter() - start, what[:200])
    return answer


def examine(message: str) -> None:
    """Raise unless a refusal is one line, of more than nothing, in UTF-8."""
    message.encode()
    assert message.strip(), "an empty message"
    assert len(message.splitlines()) == 1, f"{len(message.splitlines())} lines: {message!r}"
    assert len(message) < 2000, f"{len(message)} characters: {message[:100]!r}"


def _find(surface: str, what: str, error: BaseException) -> None:
    if not TALLY:
        raise AssertionError(f"{surface}: {what[:500]} ended in {type(error).__name__}") from error
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/unmask/" in f.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    found = {"case": what[:500], "trace": "".join(traceback.format_exception(error))[-3000:]}
    tally.finds.setdefault(f"{surface}: {type(error).__name__} in {where}", found)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hang(f"no answer after {LONGEST:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
