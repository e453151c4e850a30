"""Packing: nothing lost, nothing doubled, every row reproducible on its own."""

import numpy as np
import pytest

from unmask.errors import UsageError
from unmask.training.packing import Packing
from unmask.training.tokenfile import TokenFile


def pieces(row):
    """The texts of a row's segments, without their frame."""
    return [row.ids[row.segments == number][1:-1] for number in range(row.segments.max() + 1)]


def all_tokens(packing, seed, rows):
    return np.concatenate([part for number in range(rows) for part in pieces(packing.row(number, seed))])


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("length", [16, 50, 128])
def test_an_epoch_holds_every_token_once_and_in_order(toy_tokens, marks, length, alone):
    packing = Packing(toy_tokens, np.arange(toy_tokens.documents), length, marks, alone=alone)
    assert (all_tokens(packing, None, packing.rows()) == toy_tokens.ids).all()


def test_every_segment_is_framed_and_counts_its_own_positions(toy_tokens, marks):
    packing = Packing(toy_tokens, np.arange(toy_tokens.documents), 100, marks)
    row = packing.row(3, seed=5)
    assert row.segments.max() >= 1
    for number in range(row.segments.max() + 1):
        own = row.segments == number
        assert row.ids[own][0] == marks.cls
        assert row.ids[own][-1] == marks.sep
        assert (row.positions[own] == np.arange(own.sum())).all()
    assert (row.ids[row.segments < 0] == marks.pad).all()


def test_little_is_padded(toy_tokens, marks):
    packing = Packing(toy_tokens, np.arange(toy_tokens.documents), 128, marks)
    padding = np.mean([(packing.row(number, 1).segments < 0).mean() for number in range(packing.rows() - 1)])
    assert padding < 0.05


def test_rows_do_not_depend_on_what_was_read_before(toy_tokens, marks):
    documents = np.arange(toy_tokens.documents)
    warm = Packing(toy_tokens, documents, 64, marks)
    rows = warm.rows()
    for number in range(2 * rows + 3):
        warm.row(number, seed=1)
    cold = Packing(toy_tokens, documents, 64, marks)
    late = 2 * rows + 1
    assert (cold.row(late, seed=1).ids == warm.row(late, seed=1).ids).all()


def test_epochs_and_seeds_differ_in_their_order(toy_tokens, marks):
    packing = Packing(toy_tokens, np.arange(toy_tokens.documents), 64, marks)
    first, other_seed = packing.row(0, 1).ids, packing.row(0, 2).ids
    epoch = next(n for n in range(1, 10_000) if len(packing._epoch(1, 0)[2]) - 1 == n)
    assert (first != other_seed).any()
    assert (first != packing.row(epoch, 1).ids).any()
    same = np.sort(all_tokens(packing, 1, epoch))
    assert (same == np.sort(toy_tokens.ids)).all()


def test_a_window_without_room_is_refused(toy_tokens, marks):
    with pytest.raises(UsageError, match="max_length"):
        Packing(toy_tokens, np.arange(3), 4, marks)


def test_token_files_stay_on_disk(toy_tokens):
    assert isinstance(toy_tokens, TokenFile)
    assert isinstance(toy_tokens.ids, np.memmap)
    assert toy_tokens.counts.sum() == len(toy_tokens.ids)


def test_a_long_document_is_no_batch_by_itself(tmp_path, marks):
    """Rows are shuffled, too: sixteen in a row come from many of twenty long documents."""
    documents, size = 20, 4000
    ids = np.repeat(np.arange(documents), size) + 10
    tokens = TokenFile("long", ids, np.arange(documents + 1) * size, np.bincount(ids))
    packing = Packing(tokens, np.arange(documents), 128, marks)
    batches = [
        {int(packing.row(number, 3).ids[1]) for number in range(start, start + 16)} for start in (0, 160, 320)
    ]
    assert min(len(batch) for batch in batches) > 6
