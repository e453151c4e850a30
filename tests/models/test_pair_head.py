"""The pair head's file: what it belongs to, and what is refused."""

import dataclasses
import shutil

import pytest
import torch

import unmask
from head_toy import ERRORS, random_head
from unmask.errors import RunError, UsageError
from unmask.models.digests import parameters_digest
from unmask.models.pair_head import (
    FARTHEST,
    FILE,
    HeldOut,
    PairHead,
    held_out_errors,
    read_pair_head,
    save_pair_head,
)


@pytest.fixture
def with_head(checkpoint, mlm_of, tmp_path):
    """A copy of a tiny checkpoint with a head beside its weights."""
    directory = shutil.copytree(checkpoint("bert"), tmp_path / "model")
    save_pair_head(random_head(mlm_of("bert")), directory / FILE)
    return directory


def test_a_fresh_head_changes_nothing():
    head = PairHead(8, 6, 16)
    there, here = torch.randn(2, 5, 8)
    assert torch.equal(head(there, here, torch.randn(5, 6), torch.arange(5)), here)


def test_far_distances_count_as_the_farthest(mlm_of):
    head = random_head(mlm_of("bert"))
    there, here = torch.randn(2, head.out.out_features)
    e = mlm_of("bert").input_embeddings[:3]
    assert torch.equal(head.states(there, here, e, FARTHEST), head.states(there, here, e, FARTHEST + 99))
    assert not torch.equal(head.states(there, here, e, 1), head.states(there, here, e, -1))


def test_the_head_beside_the_weights_is_found_and_may_be_left(with_head):
    assert unmask.load(with_head).pair_head.card.held_out == ERRORS
    assert unmask.load(with_head, pair_head=None).pair_head is None


def test_both_backends_know_it_as_theirs(with_head):
    for backend in ("auto", "transformers"):
        assert unmask.load(with_head, backend=backend).pair_head is not None


def test_a_head_may_be_named(with_head, checkpoint, tmp_path):
    moved = shutil.move(with_head / FILE, tmp_path / "other.safetensors")
    assert unmask.load(with_head).pair_head is None
    assert unmask.load(with_head, pair_head=moved).pair_head is not None


def test_a_head_of_other_weights_is_refused(with_head, mlm_of):
    head = random_head(mlm_of("bert"))
    head.card = dataclasses.replace(head.card, weights="0" * 24)
    save_pair_head(head, with_head / FILE)
    with pytest.raises(UsageError, match=r"other weights.*unmask distill"):
        unmask.load(with_head)


@pytest.mark.parametrize("kept", [0, 8, 1000])
def test_a_damaged_file_is_refused(with_head, kept):
    (with_head / FILE).write_bytes((with_head / FILE).read_bytes()[:kept])
    with pytest.raises(RunError, match="damaged"):
        unmask.load(with_head)


def test_weights_that_are_no_numbers_are_refused(with_head, mlm_of):
    head = random_head(mlm_of("bert"))
    head.out.bias[0] = torch.nan
    save_pair_head(head, with_head / FILE)
    with pytest.raises(RunError, match="damaged"):
        unmask.load(with_head)


def test_another_safetensors_file_is_no_head(checkpoint):
    with pytest.raises(UsageError, match="no pair head"):
        read_pair_head(checkpoint("bert") / "model.safetensors")


def test_a_missing_file_names_the_command(checkpoint, tmp_path):
    with pytest.raises(UsageError, match="unmask distill"):
        unmask.load(checkpoint("bert"), pair_head=tmp_path / "nothing.safetensors")


def test_the_digest_tells_weights_apart(mlm_of):
    model = mlm_of("bert").model
    before = parameters_digest(model)
    assert before == parameters_digest(model)
    assert before != parameters_digest(mlm_of("roberta").model)


def test_errors_are_averaged_by_distance():
    distances = torch.tensor([1, -1, 5])
    found = held_out_errors(distances, *(torch.tensor([1.0, 3.0, 7.0]) * k for k in (1, 2, 3)))
    assert found == (HeldOut(1, 2, 2.0, 4.0, 6.0), HeldOut(5, 1, 7.0, 14.0, 21.0))


def test_the_card_answers_for_the_nearest_distance(mlm_of):
    card = random_head(mlm_of("bert")).card
    assert card.at(-1).distance == 1
    assert card.at(2).distance == 1
    assert card.at(30).distance == 3
