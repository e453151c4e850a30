"""The record of a fine-tuned model, `task.json`: what the task was and how texts were read."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from unmask.errors import RunError, UsageError
from unmask.tasks.examples import Examples
from unmask.tasks.files import Columns
from unmask.tasks.settings import LongTexts, Settings, Task, check_long

RECORD = "task.json"
COLUMN_NUMBERS = ("word_column", "tag_column")


@dataclass(frozen=True)
class TaskRecord:
    """What `task.json` holds."""

    task: Task
    scheme: str | None
    max_length: int
    long: LongTexts
    text: str | None = None
    second: str | None = None
    label: str = "label"
    word_column: int = 0
    tag_column: int = -1

    @property
    def columns(self) -> Columns:
        """The columns of a table."""
        return Columns(self.text, self.second, self.label)

    @classmethod
    def of(cls, settings: Settings, examples: Examples) -> TaskRecord:
        """Return what a run's settings and files leave behind."""
        kept = {name: getattr(settings, name) for name in ("task", "max_length", "long", *COLUMN_NUMBERS)}
        text, second, label = astuple(examples.columns)
        return cls(scheme=examples.scheme, text=text, second=second, label=label, **kept)

    @classmethod
    def read(cls, directory: Path) -> TaskRecord:
        """Read the record of a model that `unmask finetune` wrote."""
        try:
            return cls(**json.loads((directory / RECORD).read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                f"'{directory}' holds no {RECORD}: give the directory 'model' of a run of 'unmask finetune'"
            ) from None
        except (json.JSONDecodeError, TypeError) as error:
            raise RunError(f"'{directory / RECORD}' is damaged ({error}): fine-tune anew") from None

    def changed(self, **changes: Any) -> TaskRecord:
        """Return the record with other fields, where they are not None."""
        changed = replace(self, **{name: value for name, value in changes.items() if value is not None})
        check_long(changed.task, changed.long)
        return changed
