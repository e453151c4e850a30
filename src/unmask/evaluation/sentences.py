"""The sentences of a data set: SNLI, XSum, plain text, and data sets of the Hugging Face hub.

A data set is named as people write it on the command line:

- `snli=DIR` or `snli=FILE`: the original json lines or tab-separated form (`gold_label`, `sentence1`,
  `sentence2`), or any with `premise`, `hypothesis`, `label`. Premise and hypothesis are two sentences. Lines
  without a gold label (`-`, or none) are counted and left out, as the task has it;
- `xsum=FILE`: one summary per line, or json lines with a `summary`;
- `text=FILE`: one sentence per line;
- `hub:NAME`: a data set of the hub, or a directory that holds one, read by `datasets`.

Files may be gzipped. Blank lines are no sentences; damage is told with the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unmask.errors import RunError, UsageError, first_line
from unmask.text.lines import errors_in_one_line, read_lines, read_objects

PAIR_COLUMNS = (("sentence1", "sentence2"), ("premise", "hypothesis"))
COLUMNS = {"snli": PAIR_COLUMNS, "xsum": (("summary",),)}
LABEL_COLUMNS = ("gold_label", "label")
HUB_COLUMNS = (*PAIR_COLUMNS, ("summary",), ("sentence",), ("text",))
HUB_SPLITS = ("validation", "dev", "test", "train")
UNLABELED = ("-", "", "-1")
DEV_FILES = ("*dev*.jsonl", "*dev*.tsv", "*dev*.txt")


@dataclass
class Sentences:
    """The sentences of a data set, in the order of the file, and how many lines were left out, by reason."""

    texts: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Take in a sentence, unless it is blank."""
        if text.strip():
            self.texts.append(" ".join(text.split()))
        else:
            self.skip("blank")

    def skip(self, reason: str) -> None:
        """Leave out a line, and count it."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def read_sentences(data: str) -> Sentences:
    """Read the data set of that name, such as `snli=DIR`."""
    if data.startswith("hub:"):
        return _read_hub(data.removeprefix("hub:"))
    kind, path = find_file(data)
    found = Sentences()
    _read_file(kind, path, found)
    if not found.texts:
        passed = ", ".join(f"{count} {reason}" for reason, count in found.skipped.items() if count)
        raise UsageError(
            f"{path} holds no sentence{f' ({passed})' if passed else ''}: expected {EXPECTED[kind]}"
        )
    return found


def check_data(data: str) -> None:
    """Refuse a data set that is not there; one on the hub is left to be seen."""
    if not data.startswith("hub:"):
        find_file(data)


def find_file(data: str) -> tuple[str, Path]:
    """Return the kind and the file of a data set such as `snli=DIR`."""
    kind, sign, where = data.partition("=")
    if kind not in EXPECTED or not sign or not where:
        raise UsageError(f"expected data as snli=DIR, xsum=FILE, text=FILE or hub:NAME, got '{data}'")
    path = Path(where)
    with errors_in_one_line(path):
        path = _at_home(path)
        if kind == "snli" and path.is_dir():
            path = _dev_file(path)
        if not path.is_file():
            what = "is a directory: name a file in it" if path.is_dir() else "does not exist: check the path"
            raise UsageError(f"{path} {what}")
    return kind, path


def _at_home(path: Path) -> Path:
    """Return a path with ~ or ~NAME at its start replaced by that user's home."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: there is no home directory of that name: write the path out") from None


def _dev_file(directory: Path) -> Path:
    """Return the development split in a directory of SNLI."""
    for pattern in DEV_FILES:
        for files in (sorted(directory.glob(pattern)), sorted(directory.glob(pattern + ".gz"))):
            if files:
                return files[0]
    raise UsageError(
        f"{directory} holds no development split of SNLI (snli_1.0_dev.jsonl, .txt or dev.tsv, .gz too): "
        f"put one there, or name a file as snli=FILE"
    )


def _read_file(kind: str, path: Path, found: Sentences) -> None:
    as_json = kind != "text" and _is_json_lines(path)
    if kind == "text" or (kind == "xsum" and not as_json):
        for _, line in read_lines(path):
            found.add(line)
        return
    for number, row in read_objects(path) if as_json else _tsv_rows(path):
        where = f"{path}, line {number}"
        columns = _columns(row, COLUMNS[kind], where)
        if kind == "snli" and not any(name in row for name in LABEL_COLUMNS):
            raise UsageError(f"{where}: expected a column gold_label or label, got {', '.join(row)}")
        _add_row(row, columns, where, found)


def _add_row(row: dict[str, Any], columns: tuple[str, ...], where: str, found: Sentences) -> None:
    """Take in the texts of a row; a pair without a gold label is left out."""
    labels = [row[name] for name in LABEL_COLUMNS if name in row]
    if len(columns) == 2 and labels and (labels[0] is None or str(labels[0]).strip() in UNLABELED):
        found.skip("unlabeled")
        return
    for name in columns:
        if not isinstance(row[name], str):
            raise RunError(f"{where}: expected a text in '{name}', got {row[name]!r}")
        found.add(row[name])


def _is_json_lines(path: Path) -> bool:
    """Tell json lines by the file's name, or by what its first line holds, whatever its name."""
    if any(suffix in (".jsonl", ".json") for suffix in path.suffixes):
        return True
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def _tsv_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    header: list[str] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = line.split("\t")
        if not header:
            header = fields
            continue
        # the original has a varying number of labels at the end of a line
        if len(fields) < min(len(header), max(3, len(header) - 5)):
            raise RunError(
                f"{path}: line {number} has {len(fields)} fields, but the header has {len(header)}: expected "
                f"tab-separated fields without quoting"
            )
        yield number, dict(zip(header, fields, strict=False))


def _columns(row: dict[str, Any], choices: tuple[tuple[str, ...], ...], where: str) -> tuple[str, ...]:
    """Return the first choice of columns that a row has."""
    for names in choices:
        if all(name in row for name in names):
            return names
    wanted = ", or ".join(" and ".join(names) for names in choices)
    got = ", ".join(map(str, row))
    raise UsageError(f"{where}: expected the columns {wanted}, got {got}: name them so, or give another file")


def _read_hub(name: str) -> Sentences:
    """Read a data set of the hub (NAME, or NAME:SPLIT), or a directory in the form that `datasets` reads."""
    try:
        import datasets
    except ImportError:
        raise UsageError("data of the hub need the package datasets: pip install 'unmask[hub]'") from None
    name, _, split = name.partition(":")
    if not name:
        raise UsageError("expected the name of a data set, as in hub:stanfordnlp/snli or hub:NAME:SPLIT")
    try:
        loaded = datasets.load_dataset(name)
    except Exception as error:  # datasets raises many kinds, some of them builtins
        raise RunError(
            f"can't load '{name}' from the hub ({first_line(error)}): check name and network"
        ) from None
    split = split or next((s for s in HUB_SPLITS if s in loaded), next(iter(loaded)))
    if split not in loaded:
        raise UsageError(f"'{name}' has no split '{split}': expected one of {', '.join(loaded)}")
    found = Sentences()
    for number, row in enumerate(loaded[split], 1):
        where = f"{name}, row {number}"
        _add_row(row, _columns(row, HUB_COLUMNS, where), where, found)
    return found


EXPECTED = {
    "snli": "labeled pairs of sentences",
    "xsum": "one summary per line",
    "text": "one sentence per line",
}
