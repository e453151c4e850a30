"""Results: the answers about a list of texts, computed while they are iterated over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from unmask.joints.fillings import whole_number
from unmask.lazy import require
from unmask.values import plural

if TYPE_CHECKING:
    import pandas

Answer = TypeVar("Answer")


class Results(Generic[Answer]):
    """The answers about several texts, in their order.

    They are computed when they are asked for, several texts at a time, and are not kept: the tables of a
    pair of blanks take megabytes. `list(results)` keeps them.

    Args:
        texts: the texts.
        answers: answers about some of the texts, given by their numbers.
        records: an answer as plain dictionaries, of so many fillings.
    """

    def __init__(
        self,
        texts: Sequence[str],
        answers: Callable[[Sequence[int]], Iterator[Answer]],
        records: Callable[[Answer, int], list[dict[str, Any]]],
    ) -> None:
        self.texts = tuple(texts)
        self._answers, self._records = answers, records

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Answer]:
        return self._answers(range(len(self)))

    def __getitem__(self, number: int) -> Answer:
        return next(self._answers([range(len(self))[number]]))

    def __repr__(self) -> str:
        return f"<Results of {plural(len(self), 'text')}>"

    def to_dict(self, top: int = 1) -> list[dict[str, Any]]:
        """Return a dictionary per text and filling, the `top` likeliest of each where they are ranked."""
        top = whole_number(top, "a number of fillings", 1)
        return [
            {"number": number, "text": text, **record}
            for number, (text, answer) in enumerate(zip(self.texts, self, strict=True))
            for record in self._records(answer, top)
        ]

    def to_pandas(self, top: int = 1) -> pandas.DataFrame:
        """Return the dictionaries of `to_dict` as rows of a table."""
        require("a table of results", "tables", "pandas")
        import pandas

        return pandas.DataFrame(self.to_dict(top))
