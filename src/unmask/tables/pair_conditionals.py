"""What a model says of each of two blanks, given every filling of the other.

`PairConditionals` holds, for a pair of blanks A and B in a fixed context, log p(a|b) and log p(b|a) for all
tokens of the support, and log m(a), log m(b), the distributions when both are blank. All tables are laid out
[a, b]: log p(a|b) sums to one down a column, log p(b|a) along a row. Raw logits are log-probabilities plus
one number per context, so that number is kept (`a_log_z` for each b, `b_log_z` for each a) instead of two
further tables.

A row or a column may stand for several unlikely tokens at once (`unmask.tables.token_groups`): tables then
hold what a single one of them has, and every sum over tokens is a sum over rows or columns weighted by
the `counts`.

The tables may come from a `MaskedLM` (`unmask.inference.exact`: one forward pass for every token at each
side; `unmask.inference.cross`: for the likely tokens only) or from anywhere else
(`PairConditionals.from_logits`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.tables.token_groups import TokenGroups
from unmask.text.cloze import Cloze
from unmask.text.support import Support

Index = slice | Tensor
Table = Tensor | npt.NDArray[Any] | Sequence[Any]
"""Numbers as a person holds them: a tensor, an array or nested lists."""
EVERYTHING = slice(None)
BLOCK_CELLS = 2**21
CACHED_CELLS = 2**17

SMALLEST_LINEAR = -80.0
"""Log-probabilities above this are safe as float32 probabilities (the smallest normal one is e^-87.3)."""
SMALL_TABLE = 2**17
"""Tables of fewer cells are solved by plain code in log space: nothing faster is worth its start-up."""


@dataclass(frozen=True, eq=False)
class LazyTable:
    """log-probabilities of asked tokens given filled ones, computed anew wherever they are read.

    An exact table of V by V log-probabilities is the product of V states with the V rows of the output layer,
    less the normaliser of each state: log p(a|b) = w_a · h_b + c_a - z_b. The states take V × features
    numbers, a hundredth of the table. Where two tables don't fit the memory budget, they are kept in this
    form, laid out [asked, filled] or [filled, asked]; a pass over them costs a matrix product more.

    Attributes:
        weights: the output layer's rows of the asked tokens, [asked, features].
        offset: what it adds to their logits, [asked].
        states: what goes into it for each filled token, [filled, features].
        log_z: the normaliser of each filled token's logits, [filled].
        by_asked: whether the rows are the asked tokens, or else the filled ones.
    """

    weights: Tensor
    offset: Tensor
    states: Tensor
    log_z: Tensor
    by_asked: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        asked, filled = len(self.weights), len(self.states)
        return (asked, filled) if self.by_asked else (filled, asked)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of a block."""
        return self.states.dtype

    @property
    def device(self) -> torch.device:
        """Where a block is computed."""
        return self.states.device

    def block(self, rows: Index, columns: Index) -> Tensor:
        """Return a block of the table, [rows, columns]."""
        log_z = self.log_z.to(self.dtype)
        if self.by_asked:
            part = torch.addmm(self.offset[rows, None], self.weights[rows], self.states[columns].T)
            return part.sub_(log_z[None, columns])
        part = torch.addmm(self.offset[None, columns], self.states[rows], self.weights[columns].T)
        return part.sub_(log_z[rows, None])


@dataclass(frozen=True, eq=False)
class PairConditionals:
    """The conditionals of two blanks over explicit supports; make one with `from_logits` or from a model.

    Attributes:
        a_table: log p(a|b), [a, b], normalised over a; or p(a|b) itself, if `linear`.
        b_table: log p(b|a), [a, b], normalised over b; or p(b|a) itself, if `linear`.
        a_alone: log m(a), [a], with both blank.
        b_alone: log m(b), [b], with both blank.
        a_log_z: what the logits of a given b exceed log p(a|b) by, [b].
        b_log_z: the same for the logits of b given a, [a].
        a_support, b_support: which tokens A and B may hold.
        diagnostics: how the tables came about.
        linear: whether the tables hold probabilities, as large ones of a model do: half the memory where the
            solvers want probabilities, and as precise while none is below e^-80.
            Tables that don't fit in memory are a `LazyTable` each, computed wherever they are read.
        a_groups, b_groups: which row or column each token of the supports has; None if every token has
            its own.
        evaluated: the tokens of A and of B that the model was asked about, as indices; None if all.
        cloze: the text with the two blanks, if there is one.
    """

    a_table: Tensor | LazyTable
    b_table: Tensor | LazyTable
    a_alone: Tensor
    b_alone: Tensor
    a_log_z: Tensor
    b_log_z: Tensor
    a_support: Support
    b_support: Support
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    linear: bool = False
    a_groups: TokenGroups | None = None
    b_groups: TokenGroups | None = None
    evaluated: tuple[Tensor, Tensor] | None = None
    cloze: Cloze | None = None

    @classmethod
    def from_logits(
        cls,
        a_given_b: Table,
        b_given_a: Table,
        a_alone: Table | None = None,
        b_alone: Table | None = None,
        *,
        a_support: Support | None = None,
        b_support: Support | None = None,
    ) -> PairConditionals:
        """Make conditionals from tables of logits (or log-probabilities), both laid out [a, b].

        A table is a tensor, a numpy array or nested lists. Without the both-blank vectors the context's
        average conditionals stand in for them.
        """
        a_given_b, b_given_a = as_table("a_given_b", a_given_b), as_table("b_given_a", b_given_a)
        a_alone = None if a_alone is None else as_table("a_alone", a_alone)
        b_alone = None if b_alone is None else as_table("b_alone", b_alone)
        if a_given_b.ndim != 2 or a_given_b.shape != b_given_a.shape or 0 in a_given_b.shape:
            raise UsageError(
                f"expected two tables of one shape, both laid out [a, b], got {list(a_given_b.shape)} "
                f"and {list(b_given_a.shape)}"
            )
        if not a_given_b.is_floating_point() or not b_given_a.is_floating_point():
            raise UsageError(
                f"expected tables of floating-point logits, got {a_given_b.dtype} and {b_given_a.dtype}"
            )
        rows, columns = a_given_b.shape
        wide = torch.promote_types(a_given_b.dtype, torch.float32)  # half precision would not sum to 1
        a_given_b, b_given_a = a_given_b.detach().to(wide), b_given_a.detach().to(wide)
        a_log_z, b_log_z = a_given_b.double().logsumexp(0), b_given_a.double().logsumexp(1)
        a_table, b_table = a_given_b.log_softmax(0), b_given_a.log_softmax(1)
        if a_alone is None:
            a_alone = a_table.logsumexp(1)
        if b_alone is None:
            b_alone = b_table.logsumexp(0)
        if a_alone.shape != (rows,) or b_alone.shape != (columns,):
            raise UsageError(
                f"expected both-blank logits of {rows} and {columns} tokens to go with the tables, "
                f"got {list(a_alone.shape)} and {list(b_alone.shape)}"
            )
        for name, table in (
            ("a_given_b", a_table),
            ("b_given_a", b_table),
            ("a_alone", a_alone),
            ("b_alone", b_alone),
        ):
            if not torch.isfinite(table).all():
                raise UsageError(
                    f"{name} holds infinite or undefined logits: every token needs a finite one, as -1e4"
                )
        for name, support in (("a_support", a_support), ("b_support", b_support)):
            if support is not None and not isinstance(support, Support):
                raise UsageError(f"expected {name} as a Support, got {type(support).__name__}")
        supports = (a_support or Support.numbered(rows), b_support or Support.numbered(columns))
        if (len(supports[0]), len(supports[1])) != (rows, columns):
            raise UsageError(
                f"expected supports of {rows} and {columns} tokens to go with the tables, got "
                f"{len(supports[0])} and {len(supports[1])}"
            )
        return cls(
            a_table,
            b_table,
            a_alone.detach().double().log_softmax(0),
            b_alone.detach().double().log_softmax(0),
            a_log_z,
            b_log_z,
            *supports,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns the tables have."""
        return int(self.a_table.shape[0]), int(self.a_table.shape[1])

    @property
    def groups(self) -> tuple[TokenGroups, TokenGroups]:
        """The rows and the columns that the tokens of A and of B have."""
        rows, columns = self.shape
        return (
            self.a_groups or TokenGroups.singletons(rows),
            self.b_groups or TokenGroups.singletons(columns),
        )

    @property
    def counts(self) -> tuple[Tensor, Tensor]:
        """How many tokens each row [a] and each column [b] stands for, in float64."""
        a, b = (groups.counts.to(self.device, torch.float64) for groups in self.groups)
        return a, b

    @property
    def is_grouped(self) -> bool:
        """Whether a row or a column may stand for several tokens."""
        return self.a_groups is not None or self.b_groups is not None

    @property
    def is_lazy(self) -> bool:
        """Whether the tables are not held, but computed anew wherever they are read."""
        return isinstance(self.a_table, LazyTable)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the tables."""
        return self.a_table.dtype

    @property
    def device(self) -> torch.device:
        """Where the tables are."""
        return self.a_table.device

    def a_given_b(self, rows: Index = EVERYTHING, columns: Index = EVERYTHING) -> Tensor:
        """Return a block of log p(a|b), [rows, columns]."""
        block = block_of(self.a_table, rows, columns)
        return block.log() if self.linear else block

    def b_given_a(self, rows: Index = EVERYTHING, columns: Index = EVERYTHING) -> Tensor:
        """Return a block of log p(b|a), [rows, columns]."""
        block = block_of(self.b_table, rows, columns)
        return block.log() if self.linear else block

    @cached_property
    def probabilities(self) -> tuple[Tensor, Tensor] | None:
        """Both tables as probabilities, for the fast solvers; None if small, recomputed or underflowing."""
        p, r = self.a_table, self.b_table
        if isinstance(p, LazyTable) or isinstance(r, LazyTable):
            return None
        if self.linear:
            return p, r
        return (p.exp(), r.exp()) if self._can_be_linear else None

    @cached_property
    def smallest(self) -> float:
        """The smallest log-probability of both tables."""
        return min(
            float(torch.minimum(self.a_given_b(rows).min(), self.b_given_a(rows).min()))
            for rows in row_blocks(*self.shape)
        )

    @cached_property
    def _can_be_linear(self) -> bool:
        if self.is_lazy or math.prod(self.shape) < SMALL_TABLE or self.device.type != "cpu":
            return False
        return self.smallest > SMALLEST_LINEAR

    def rows_as_probabilities(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Return p(a|b) and p(b|a) of a block of rows, in float64."""
        p, r = (block_of(table, rows, EVERYTHING).double() for table in (self.a_table, self.b_table))
        return (p, r) if self.linear else (p.exp(), r.exp())

    def cached_blocks(self) -> Iterator[slice]:
        """Cut the rows into blocks that stay in the processor's cache while several operations work on them.

        Of recomputed tables, whose blocks are products of matrices, larger ones: each reads all the states.
        """
        return row_blocks(*self.shape, BLOCK_CELLS if self.is_lazy else CACHED_CELLS)

    def made_linear(self) -> PairConditionals:
        """Turn the tables into probabilities in place, if they are large and none would underflow.

        For tables that nobody else holds: these conditionals must not be used any more.
        """
        if isinstance(self.a_table, LazyTable) or isinstance(self.b_table, LazyTable):
            return self
        if self.linear or not self._can_be_linear:
            return self
        return replace(self, a_table=self.a_table.exp_(), b_table=self.b_table.exp_(), linear=True)


def as_table(name: str, given: Table) -> Tensor:
    """Return a table of numbers as a tensor; plain Python numbers become float64."""
    if isinstance(given, Tensor):
        if given.is_nested or given.is_meta or given.layout != torch.strided or given.is_quantized:
            raise UsageError(f"expected {name} as a dense tensor of numbers, got one of another layout")
        return given
    try:
        array = np.asarray(given)
    except (ValueError, TypeError, RuntimeError):  # rows of different lengths, or tensors that are no numbers
        array = np.array(None)
    if array.dtype.kind not in "fiu":
        raise UsageError(
            f"expected {name} as a tensor, a numpy array or nested lists of numbers, rows of one length; got "
            f"something else in {type(given).__name__}"
        )
    # of numbers that were typed, 1 is as good as 1.0; torch knows one byte order, and nothing above 64 bits
    kept = (
        array.dtype.newbyteorder("=") if isinstance(given, np.ndarray) and array.itemsize <= 8 else np.float64
    )
    return torch.from_numpy(np.array(array, dtype=kept, order="C"))


def row_blocks(rows: int, columns: int, cells: int = BLOCK_CELLS) -> Iterator[slice]:
    """Cut the rows of a table into blocks of a bounded number of cells."""
    size = max(1, cells // columns)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def block_of(table: Tensor | LazyTable, rows: Index, columns: Index) -> Tensor:
    """Return a block of a table, copying no more than the block."""
    if isinstance(table, LazyTable):
        return table.block(rows, columns)
    if isinstance(rows, slice) or isinstance(columns, slice):
        return table[rows, columns]
    return table[rows[:, None], columns[None, :]]
