"""The penalty: zero for conditionals of one joint, positive otherwise, and training on it brings them
together.
"""

import numpy as np
import pytest
import torch
from torch import nn

from unmask.errors import UsageError
from unmask.training.compatibility import Pairs, draw_pairs, penalty
from unmask.training.compatibility_rule import Compatibility
from unmask.training.forward import Gathering
from unmask.training.masking import IGNORED

SIZE, MASK = 9, 0


class Table(nn.Module):
    """A "language model" of two tokens after [CLS]: its conditionals are two tables of logits."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = nn.Parameter(first), nn.Parameter(second)  # [a, b] each
        self.at = None

    def forward(self, input_ids):
        rows, columns = self.at
        out = []
        for row, column in zip(rows, columns, strict=True):
            held = input_ids[row, 3 - column]
            table = self.first if column == 1 else self.second.T
            out.append(table.mean(1) if held == MASK else table[:, held])
        return _Output(torch.stack(out)[None])


class _Output(dict):
    def __init__(self, logits):
        super().__init__(logits=logits)
        self.logits = logits


class Gather:
    """Stands for `Gathering`: tells the table which positions are asked."""

    def __init__(self, model):
        self.model = model

    def inputs(self, batch):
        return {"input_ids": batch["input_ids"]}

    def at(self, rows, columns):
        from contextlib import contextmanager

        @contextmanager
        def inside():
            self.model.at = (rows.tolist(), columns.tolist())
            yield

        return inside()


def batch(count=40, length=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, SIZE, (count, length), generator=generator)
    return {
        "input_ids": ids,
        "labels": torch.full_like(ids, IGNORED),
        "segments": torch.zeros_like(ids),
    }


def special():
    flags = torch.zeros(SIZE, dtype=torch.bool)
    flags[MASK] = True
    return flags


def pairs(rule=None):
    rule = rule or Compatibility(weight=1.0, texts=40, nearest=1, farthest=1)
    found = draw_pairs(batch(), special(), rule, np.random.default_rng(0))
    found.places[:] = torch.tensor([1, 2])
    return found


def tables(compatible):
    generator = torch.Generator().manual_seed(3)
    joint = torch.randn(SIZE, SIZE, generator=generator)
    if not compatible:
        return joint, torch.randn(SIZE, SIZE, generator=generator)
    # conditionals of one joint, each with its own constants, which the normaliser would take away
    return joint + torch.randn(1, SIZE, generator=generator), joint + torch.randn(
        SIZE, 1, generator=generator
    )


def cost(model, seed=0, fillings="true"):
    return penalty(
        model,
        Gather(model),
        pairs(),
        mask=MASK,
        special=special(),
        huber=1.0,
        seed=seed,
        fillings=fillings,
    )


def test_fillings_are_tokens_that_the_tokenizer_has():
    """An output layer may be wider than the vocabulary: what lies beyond is never drawn."""
    model = Table(*tables(compatible=False))
    wide = nn.functional.pad(torch.full((SIZE, SIZE), 0.0), (0, 7, 0, 7), value=50.0)
    seen = Table(model.first.data, model.second.data)
    seen.first, seen.second = (nn.Parameter(wide.clone()) for _ in range(2))
    asked = []
    forward = seen.forward
    seen.forward = lambda input_ids: (asked.append(input_ids), forward(input_ids))[1]
    penalty(seen, Gather(seen), pairs(), mask=MASK, special=special(), huber=1.0, seed=0)
    assert max(int(ids.max()) for ids in asked) < SIZE


def test_conditionals_of_one_joint_cost_nothing():
    model = Table(*tables(compatible=True))
    assert cost(model) < 1e-10
    assert cost(model, fillings="drawn") < 1e-10


def test_drawn_fillings_leave_the_true_tokens_out():
    """What is asked about with a place held is then what the model draws, not what the text holds."""
    model = Table(*tables(compatible=False))
    for table in (model.first, model.second):
        table.data[:] -= 100  # nothing but token 5 and token 6 is ever drawn
        table.data[5] += 100
        table.data[6] += 100
        table.data[:, 5] += 100
        table.data[:, 6] += 100
    asked = []
    forward = model.forward
    model.forward = lambda input_ids: (asked.append(input_ids), forward(input_ids))[1]
    cost(model, fillings="drawn")
    held = asked[-1][:, 1:3]
    assert set(held[held != MASK].tolist()) <= {5, 6}
    asked.clear()
    cost(model)
    held = asked[-1][:, 1:3]
    assert not set(held[held != MASK].tolist()) <= {5, 6}


def test_conditionals_that_disagree_cost_and_training_makes_them_agree():
    model = Table(*tables(compatible=False))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    first = cost(model).item()
    for seed in range(150):
        loss = cost(model, seed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    last = cost(model, 999).item()
    assert first > 0.5
    assert last < first / 10


def test_the_drawn_places_are_ordinary_tokens_of_one_segment_at_the_asked_distance():
    texts = batch(count=30, length=20)
    texts["segments"][:, 10:] = 1
    texts["input_ids"][:, 3] = MASK
    rule = Compatibility(weight=1.0, texts=30, nearest=2, farthest=4)
    found = draw_pairs(texts, special(), rule, np.random.default_rng(1))
    first, second = found.places.T
    gap = second - first
    assert ((gap >= 2) & (gap <= 4)).all()
    segments = found.batch["segments"]
    assert (segments.gather(1, found.places) == 0).all()
    assert (found.true != MASK).all()
    assert (found.true == found.batch["input_ids"].gather(1, found.places)).all()


def test_a_packed_row_is_cut_to_the_segment_of_its_pair():
    texts = batch(count=60, length=20)
    texts["segments"][:, 6:13] = 1
    texts["segments"][:, 13:] = -1
    texts["position_ids"] = torch.cat([torch.arange(6), torch.arange(7), torch.zeros(7, dtype=torch.long)])
    texts["position_ids"] = texts["position_ids"].repeat(60, 1)
    texts["input_ids"][:, 13:] = MASK
    rule = Compatibility(weight=1.0, texts=60, nearest=1, farthest=9)
    found = draw_pairs(texts, special(), rule, np.random.default_rng(1))
    sizes = (found.batch["segments"] == 0).sum(1)
    assert set(sizes.tolist()) == {6, 7}
    for row, size in enumerate(sizes.tolist()):
        whole = texts["input_ids"][row, :6] if size == 6 else texts["input_ids"][row, 6:13]
        assert torch.equal(found.batch["input_ids"][row, :size], whole)
        assert found.batch["position_ids"][row, :size].tolist() == list(range(size))
        assert (found.places[row] < size).all()


def test_the_segment_alone_costs_what_the_packed_row_would(mlm_of):
    """The other segments of a row are not seen, so leaving them out changes nothing but the time."""
    model = mlm_of("bert").model
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 30, (8, 20), generator=generator)
    segments = torch.zeros_like(ids)
    segments[:, 11:] = 1
    positions = torch.cat([torch.arange(11), torch.arange(9)]).repeat(8, 1)
    texts = {
        "input_ids": ids,
        "labels": torch.full_like(ids, IGNORED),
        "segments": segments,
        "position_ids": positions,
        "token_type_ids": torch.zeros_like(ids),
    }
    flags = torch.zeros(model.config.vocab_size, dtype=torch.bool)
    flags[:5] = True
    gathering = Gathering(model)
    alone = draw_pairs(texts, flags, Compatibility(weight=1.0, texts=8), np.random.default_rng(2))
    second = (alone.batch["segments"] == 0).sum(1) == 9
    starts = torch.where(second, 11, 0)[:, None]
    whole = Pairs(texts, alone.places + starts)
    options = {"mask": 4, "special": flags, "huber": 1.0, "seed": 5}
    costs = [penalty(model, gathering, pairs, **options).item() for pairs in (alone, whole)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-5)
    assert costs[0] > 0


def test_masked_tokens_are_put_back_before_the_places_are_drawn():
    texts = batch(count=2)
    texts["labels"][:, 1] = texts["input_ids"][:, 1]
    truth = texts["input_ids"].clone()
    texts["input_ids"][:, 1] = MASK
    found = draw_pairs(texts, special(), Compatibility(weight=1.0), np.random.default_rng(0))
    assert torch.equal(found.batch["input_ids"], truth)


def test_a_batch_of_texts_too_short_for_two_positions_has_no_pairs():
    assert draw_pairs(batch(length=1), special(), Compatibility(weight=1.0), np.random.default_rng(0)) is None


@pytest.mark.parametrize("wrong", [{"weight": -1}, {"texts": 0}, {"nearest": 3, "farthest": 2}, {"huber": 0}])
def test_impossible_rules_are_refused(wrong):
    with pytest.raises(UsageError, match="penalty needs"):
        Compatibility(**wrong)
