"""The directory of a run: whose it is, where to go on, and whether the disk can hold it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from unmask.errors import RunError, UsageError


class Recorded(Protocol):
    """Settings of a run of any kind."""

    def record(self) -> dict[str, Any]:
        """The settings as JSON knows them."""


RECORDS = ("settings.json", "settings.json.partial")
PREPARED = ("tokenizer", "tokenizer.partial", "tokens", "full")
"""What a training run makes of its texts before the first step."""

MAY_CHANGE = {
    "max_steps",
    "decay_steps",
    "average_checkpoints",
    "eval_steps",
    "eval_rows",
    "save_steps",
    "logging_steps",
    "licence",
    "data_licences",
    "allow_pickle",
}
"""What may differ when a run is taken up again: how long and how often, not what is learned."""


def claim(
    out: Path,
    settings: Recorded,
    kind: str = "a training run",
    remedy: str = "give another output directory, or the same settings to go on with it",
    may_go_on: Callable[[], None] = lambda: None,
) -> None:
    """Take an empty directory, or one that holds this very run; refuse any other.

    `may_go_on` raises for what else is to be refused: the record in the directory then stays as it is.

    A directory in which nothing was done yet, because the first command was refused, say, is taken over.
    """
    record = out / "settings.json"
    wanted = settings.record()
    if record.exists():
        try:
            found = json.loads(record.read_text())
        except json.JSONDecodeError:
            raise RunError(f"{record} is damaged: restore it, or give another output directory") from None
        if not isinstance(found, dict) or not found.keys() & wanted.keys():
            raise UsageError(f"{out} exists and is not {kind}: give an empty or new output directory")
        differ = sorted(
            name
            for name in {*found, *wanted} - MAY_CHANGE
            if _unspelled(found.get(name)) != _unspelled(wanted.get(name))
        )
        if differ and {path.name for path in out.iterdir()} <= {*RECORDS, *PREPARED}:
            forget_preparations(out)
        elif differ:
            name = differ[0]
            raise UsageError(
                f"{out} holds another run ({name} was {found.get(name)!r}, now {wanted.get(name)!r}): "
                f"{remedy}"
            )
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is not {kind}: give an empty or new output directory")
    out.mkdir(parents=True, exist_ok=True)
    may_go_on()
    partial = out / "settings.json.partial"
    partial.write_text(json.dumps(wanted, indent=1))
    partial.replace(record)


def forget_preparations(out: Path) -> None:
    """Remove what was made of the texts before the first step."""
    for made in PREPARED:
        shutil.rmtree(out / made, ignore_errors=True)


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keep other processes out of a run's directory; it is made if need be, and removed if it stays empty."""
    try:
        import fcntl
    except ImportError:  # Windows
        fcntl = None  # type: ignore[assignment]
    if fcntl is None or (out.exists() and not out.is_dir()) or os.environ.get("RANK", "0") != "0":
        yield  # other processes of one run share the main one's claim
        return
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    handle = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise RunError(
                    f"another process is at work in {out}: wait for it, stop it, or give another directory"
                ) from None
        yield
    finally:
        os.close(handle)
        if made and out.is_dir() and not any(out.iterdir()):
            out.rmdir()


def _unspelled(value: Any) -> Any:
    """Return a setting in which files, also as NAME=FILE, have one spelling from wherever one looks."""
    if isinstance(value, list):
        return [_unspelled(one) for one in value]
    if not isinstance(value, str):
        return value
    if value and Path(value).is_file():  # also one with = in its name
        return str(Path(value).resolve())
    name, equals, file = value.rpartition("=")
    return name + equals + str(Path(file).resolve()) if file and Path(file).exists() else value


def last_checkpoint(out: Path) -> str | None:
    """The newest checkpoint that was written to its end."""
    return next(reversed(whole_checkpoints(out)), None)


def step_of(checkpoint: str) -> int:
    """The step at which a whole checkpoint was written."""
    return int(json.loads((Path(checkpoint) / "trainer_state.json").read_text())["global_step"])


def whole_checkpoints(out: Path) -> list[str]:
    """The checkpoints that were written to their ends (`trainer_state.json` comes last), oldest first."""
    whole = []
    for path in out.glob("checkpoint-*"):
        try:
            state = json.loads((path / "trainer_state.json").read_text())
        except (OSError, json.JSONDecodeError):
            continue
        whole.append((int(state["global_step"]), str(path)))
    return [path for _, path in sorted(whole)]


def refuse_damaged(checkpoint: str | None) -> None:
    """Name the file of a checkpoint that was cut off or changed after it was written; None is no checkpoint.

    Of the weights the length is looked at, of the other files every byte.
    """
    from safetensors import SafetensorError, safe_open

    for path in sorted(Path(checkpoint).iterdir()) if checkpoint else ():
        try:
            if path.suffix in (".pt", ".pth"):
                with zipfile.ZipFile(path) as archive:
                    whole = archive.testzip() is None
            else:
                whole = path.suffix != ".safetensors" or safe_open(path, "pt") is not None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, SafetensorError):
            whole = False  # a damaged header may name a compression that zipfile does not know
        if not whole:
            raise RunError(
                f"{path} is damaged: restore it, or remove {path.parent} and start the same command again; "
                "it goes on from the checkpoint before, if there is one"
            )


def refuse_full_disk(out: Path, parameters: int, kept: int = 2) -> None:
    """One checkpoint more than are kept may lie there, each with the weights and two moments of Adam."""
    need = max(1, kept + 1 - len(whole_checkpoints(out))) * 3 * 4 * parameters
    free = shutil.disk_usage(out).free
    if free < need:
        raise RunError(
            f"{out}: the checkpoints need about {need / 1e9:.1f} GB, the disk has {free / 1e9:.1f} GB free: "
            "make room or give an output directory on another disk"
        )


REFUSALS = ("No space left", "File too large", "Disk quota exceeded")
"""What the system says, in errors of the safetensors and tokenizers writers."""
GIVEN_UP = ("PytorchStreamWriter", "iostream error", "unexpected pos")
"""What torch's writer says, whatever the system said to it."""


def writer_failure(error: Exception, out: Path) -> RunError | None:
    """One line for a file that was not written to its end; None if the error is about something else.

    The writers of torch, safetensors and tokenizers raise plain errors, known by their texts alone.
    """
    text = str(error)
    if any(words in text for words in REFUSALS):
        return disk_failure(OSError(text), out)
    if not any(words in text for words in GIVEN_UP):
        return None
    free = shutil.disk_usage(out).free
    return RunError(
        f"{out}: a checkpoint could not be written: the disk is full or takes no file so large "
        f"({free / 1e6:,.0f} MB are free now): make room and start the same command again; it goes on from "
        "the last whole checkpoint"
    )


def disk_failure(error: OSError, out: Path) -> RunError:
    """One line for what the file system refused."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or any(words in str(error) for words in REFUSALS):
        return RunError(
            f"{out}: the disk is full: make room and start the same command again; "
            "it goes on from the last whole checkpoint"
        )
    return RunError(f"{error.filename or out}: {error.strerror or error}: check the path and its permissions")
