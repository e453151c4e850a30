"""What a text with many blanks gets, and what the user is told about it."""

import math
from functools import partial

import pytest
import torch
from torch.distributions import kl_divergence

import unmask
from unmask import UsageError
from unmask.inference.auto_method import joint_of_blanks
from unmask.inference.grid_conditionals import affordable_candidates, grid_conditionals, passes_of_grid
from unmask.inference.infer import conditionals
from unmask.inference.model_conditionals import independent_joint
from unmask.inference.query import Query
from unmask.inference.resolve import supports_of
from unmask.joints.chain import Chain
from unmask.joints.grid import GridJoint
from unmask.joints.independent import Independent
from unmask.joints.tree import TreeJoint
from unmask.text.cloze import parse_blanks

THREE = "The [MASK] [MASK] is playing [MASK] the casino."
SIX = "The [MASK] [MASK] is [MASK] at [MASK] [MASK] [MASK]."


@pytest.fixture(scope="module")
def bert(mlm_of):
    return mlm_of("bert")


def test_many_blanks_get_the_chain_of_pairs_with_the_reason(bert):
    for text, blanks in ((THREE, 3), (SIX, 6)):
        joint = unmask.fill(text, mlm=bert)
        assert isinstance(joint, Chain)
        assert joint.diagnostics.options["block"] == 2
        assert f"{blanks} blanks: the chain of pairs (joined by ag, every token" in joint.cloze.notes[-1]
        assert "covers only a few candidates per blank" in joint.cloze.notes[-1]


def test_what_is_for_pairs_names_what_joins_more(bert):
    cloze = parse_blanks(THREE, bert.vocabulary, bert.window)
    with pytest.raises(UsageError, match="3 blanks, and a table of conditionals is of one or two") as refused:
        conditionals(bert, cloze, Query())
    assert "join all of them by unmask.fill" in str(refused.value)


def test_a_grid_that_holds_every_token_is_taken_by_itself(bert):
    """26 tokens at three blanks are 3 * 26^2 = 2,028 passes, 27 are more than 2,048."""
    assert isinstance(unmask.fill(THREE, mlm=bert, support=26), GridJoint)
    assert isinstance(unmask.fill(THREE, mlm=bert, support=27), Chain)
    assert isinstance(unmask.fill(THREE, mlm=bert, support=26, candidates=4), Chain)
    asked = unmask.fill(THREE, mlm=bert, method="grid")
    assert isinstance(asked, GridJoint)
    assert "3 blanks: the grid of 26 candidates per blank, 2,028 forward passes" in asked.cloze.notes[-1]


@pytest.mark.parametrize(
    ("method", "options", "kind", "block"),
    [
        ("grid", {"candidates": 4}, GridJoint, None),
        ("chain", {}, Chain, 2),
        ("chain", {"block": 1, "order": "confidence"}, Chain, 1),
        ("chain", {"order": "2,0,1"}, Chain, 2),
        ("hcb", {"order": "confidence"}, Chain, 2),
        ("l2r", {}, Chain, 1),
        ("r2l", {}, Chain, 1),
        ("product", {}, Independent, None),
        ("tree", {"candidates": 4}, TreeJoint, None),
    ],
)
def test_every_method_has_a_meaning_for_many_blanks(method, options, kind, block, bert):
    joint = unmask.fill(THREE, mlm=bert, method=method, support=10, **options)
    assert isinstance(joint, kind)
    assert joint.diagnostics.options.get("block") == block
    grids = torch.meshgrid(*(s.ids for s in joint.supports), indexing="ij")
    assert float(joint.log_prob(torch.stack(grids, dim=-1)).exp().sum()) == pytest.approx(1, abs=1e-5)


def test_the_chain_from_the_right_reads_the_last_blank_first(bert):
    joint = unmask.fill(THREE, mlm=bert, method="r2l")
    assert [block for block, _ in joint.factors(["old", "man", "at"])] == [(2,), (1,), (0,)]
    assert sum(log for _, log in joint.factors(["old", "man", "at"])) == pytest.approx(
        float(joint.log_prob(["old", "man", "at"]))
    )


@pytest.mark.parametrize(
    ("text", "surest", "block"),
    [
        ("[MASK] the old man is at the red house [MASK] [MASK].", 1, (1, 2)),
        ("[MASK] [MASK] the old man is at the red house [MASK].", 1, (0, 1)),
        ("[MASK] old [MASK] man [MASK].", 1, (0, 1)),  # as near on both sides: the one before
        ("[MASK] old [MASK] man [MASK].", 2, (1, 2)),
    ],
)
def test_the_surest_blank_is_joined_with_the_nearest_in_the_text(text, surest, block, bert):
    joint = unmask.fill(text, mlm=bert, method="chain", order="confidence", support=4)
    entropies = torch.ones(3).double()
    entropies[surest] = 0.0
    assert joint._most_certain((-1, -1, -1), entropies) == block


def test_a_filling_is_scored_by_the_chain_over_every_token(bert):
    score = unmask.score("The {old man is} playing {at} the casino.", mlm=bert)
    assert isinstance(score.joint, Chain)
    assert score.filling.tokens == ("old", "man", "is", "at")
    assert score.filling.text == "The old man is playing at the casino."
    assert "no probability to a token that is not among its candidates" in score.joint.cloze.notes[-1]
    path = score.joint.factors(score.filling.ids)
    assert [block for block, _ in path] == [(0, 1), (2, 3)]
    assert score.filling.log_prob == pytest.approx(sum(log for _, log in path), rel=1e-14)
    assert score.blocks == tuple(path)
    assert float(score.joint.log_prob(score.filling.ids)) == pytest.approx(score.filling.log_prob, rel=1e-9)


def test_a_chain_says_whether_the_solvers_of_its_pairs_converged(bert):
    fill = partial(unmask.fill, THREE, mlm=bert, method="chain", candidates=4)
    for tolerance, converged in ((1e-6, True), (1e-40, False)):
        joint = fill(tolerance=tolerance)
        joint.top(3)
        assert joint.diagnostics.converged == converged
    single = unmask.fill(THREE, mlm=bert, method="l2r")
    single.top(3)
    assert single.diagnostics.solver is None


def test_to_be_scored_a_chain_asks_the_model_once(bert):
    assert unmask.score("The {old man is} here.", mlm=bert, method="l2r").joint.diagnostics.passes == 3


def test_a_grid_asked_to_score_holds_the_true_tokens(bert):
    score = unmask.score("The {old man is} here.", mlm=bert, method="grid", candidates=3)
    assert score.filling.log_prob < 0
    assert math.isfinite(score.filling.log_prob)
    given = score.joint.conditional(1, {0: score.filling.ids[0], 2: score.filling.ids[2]})
    assert score.conditional_log_probs[1] == float(given.log_prob(score.filling.ids[1]))


def test_the_grid_says_what_it_leaves_out(bert):
    """With all blank as the model answers, given the others as the joint weighs them: both by brute force."""
    cloze = parse_blanks(THREE, bert.vocabulary, bert.window)
    supports, _ = supports_of(bert, cloze, Query(support="words"))
    joint = GridJoint(grid_conditionals(bert, cloze, supports, 4))
    independent = independent_joint(bert, cloze, supports)
    for blank, lost in enumerate(joint.diagnostics.mass_outside_support):
        inside = independent.marginal(blank).log_prob(joint.supports[blank].ids[:, None]).exp().sum()
        assert lost == pytest.approx(1 - float(inside), abs=1e-6)
    a, b, c = (s.ids.tolist() for s in joint.supports)
    expected = 0.0
    for second in b:
        for third in c:
            ids = torch.tensor([cloze.ids])
            ids[0, cloze.blanks[1]], ids[0, cloze.blanks[2]] = second, third
            line = bert.logits(ids, cloze.blanks[0])[0][supports[0].ids].double().softmax(0)
            outside = 1 - float(line[supports[0].indices(torch.tensor(a))].sum())
            q = float(sum(joint.log_prob([first, second, third]).exp() for first in a))
            expected += q * outside
    assert joint.diagnostics.mass_outside_given_others[0] == pytest.approx(expected, abs=1e-5)


def test_a_cut_support_counts_among_what_the_grid_leaves_out(bert):
    joint = unmask.fill(THREE, mlm=bert, method="grid", support=6, candidates=4)
    everything = independent_joint(
        bert, joint.cloze, supports_of(bert, joint.cloze, Query(support="words"))[0]
    )
    for blank, lost in enumerate(joint.diagnostics.mass_outside_support):
        inside = everything.marginal(blank).log_prob(joint.supports[blank].ids[:, None]).exp().sum()
        assert lost == pytest.approx(1 - float(inside), abs=1e-6)
        assert lost > 0.1
    assert (
        f"up to {100 * max(joint.diagnostics.mass_outside_support):.0f} % of a blank" in joint.cloze.notes[-1]
    )


@pytest.mark.parametrize("method", ["grid", "chain", "product"])
def test_what_is_to_be_included_is_held_by_a_cut_support(method, bert):
    cloze = parse_blanks(THREE, bert.vocabulary, bert.window)
    alone = independent_joint(bert, cloze, supports_of(bert, cloze, Query(support="words"))[0])
    unlikely = int(alone.supports[0].ids[alone.marginal(0).log_probs.argmin()])
    joint = unmask.fill(THREE, mlm=bert, method=method, support=5, include=[unlikely])
    assert all(unlikely in s.ids.tolist() for s in joint.supports)


def test_the_grids_conditionals_are_the_models(bert):
    cloze = parse_blanks(THREE, bert.vocabulary, bert.window)
    supports, _ = supports_of(bert, cloze, Query(support="words"))
    table = grid_conditionals(bert, cloze, supports, 3)
    assert table.diagnostics.passes > passes_of_grid(3, 3)
    for blank in range(3):
        ids = torch.tensor([cloze.ids])
        for other in range(3):
            if other != blank:
                ids[0, cloze.blanks[other]] = table.supports[other].ids[1]
        logits = bert.logits(ids, cloze.blanks[blank])[0][table.supports[blank].ids].double()
        line = table.tables[blank][tuple(slice(None) if i == blank else 1 for i in range(3))]
        torch.testing.assert_close(line, logits.log_softmax(0), atol=1e-5, rtol=0)


def test_a_grid_of_too_many_passes_is_refused_with_its_cost_and_the_alternative(bert):
    with pytest.raises(
        UsageError, match=r"20 candidates at 6 blanks needs 19,200,000 forward passes.*limits are 20,000"
    ):
        unmask.fill(SIX, mlm=bert, method="grid", candidates=20)
    with pytest.raises(UsageError, match="take 5 candidates or fewer, or the method chain"):
        unmask.fill(SIX, mlm=bert, method="grid", candidates=20)
    assert passes_of_grid(6, 5) <= 20_000 < passes_of_grid(6, 6)


def test_the_affordable_grid_is_the_largest_within_the_limit():
    for blanks in range(2, 9):
        k = affordable_candidates(blanks)
        assert passes_of_grid(blanks, k) <= 2048 < passes_of_grid(blanks, k + 1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"candidates": "all"}, "too many combinations for"),
        ({"candidates": -1}, "candidates: expected a whole number from 0 on"),
        ({"candidates": 513}, "from 0 to 512 candidates"),
        ({"candidates": "many"}, "candidates: expected .*'auto' or 'all', got 'many'"),
        ({"method": "chain", "block": 3}, "'block' of chain: expected a whole number from 1 to 2, got 3"),
        ({"method": "chain", "order": "up"}, "'order' of chain: expected 'left-to-right', .* got 'up'"),
        ({"method": "chain", "order": "0,1"}, "the numbers 0 to 2, each once"),
        ({"method": "chain", "order": 1.5}, "the blanks' numbers as 2,0,1, got 1.5"),
        ({"method": "gibbs", "pairs": "hcb"}, "joined by gibbs or by pairs=hcb: leave one of them out"),
        ({"method": "chain", "beam": 0}, "'beam' of chain: expected a whole number from 1 on, got 0"),
        ({"method": "l2r", "pivot": 2}, "no option 'pivot'"),
        ({"method": "grid", "order": "confidence"}, "the grid has no option 'order'"),
        ({"support": "few"}, "support: expected .* got 'few'"),
        ({"method": "product", "pivot": 2}, "product has no option 'pivot'"),
        ({"method": "product", "candidates": 4}, "product is over every token and has no candidates"),
        ({"method": "chain", "block": 1, "candidates": 4}, "a chain of single blanks is over every token"),
        (
            {"method": "l2r", "block": 2},
            "l2r fills single blanks in its own order: leave out",
        ),
        ({"method": "r2l", "order": "confidence"}, "leave out the option order, or take the method chain"),
        ({"completion": "plain"}, "completion 'plain' is for the tables of one or two blanks, got 3"),
    ],
)
def test_what_cannot_be_is_refused(options, complaint, bert):
    with pytest.raises(UsageError, match=complaint):
        unmask.fill(THREE, mlm=bert, **options)


def test_sums_over_too_many_fillings_are_refused_and_can_be_estimated(bert):
    joint = unmask.fill(SIX, mlm=bert, method="l2r")
    assert not joint.tractable
    with pytest.raises(UsageError, match=r"estimate_entropy"):
        joint.entropy()
    small = joint_of_blanks(
        bert, parse_blanks(THREE, bert.vocabulary, bert.window), Query(method="l2r", support=6)
    )
    mean, error = small.estimate_entropy(2000, torch.Generator().manual_seed(0))
    assert abs(mean - small.entropy()) < 4 * error


def test_independent_answers_are_the_products_of_the_models(bert):
    cloze = parse_blanks(THREE, bert.vocabulary, bert.window)
    joint = joint_of_blanks(bert, cloze, Query(method="product", support=7))
    table = torch.stack([joint.log_prob(f.ids) for f in joint.top(7**3)])
    assert len(table) == 7**3
    assert float(table.exp().sum()) == pytest.approx(1)
    assert torch.equal(table, table.sort(descending=True).values)
    assert joint.entropy() == pytest.approx(float(-(table.exp() * table).sum()))
    assert joint.mutual_information() == pytest.approx(0, abs=1e-9)
    assert kl_divergence(joint, joint) == 0
    assert kl_divergence(joint, joint_of_blanks(bert, cloze, Query(method="l2r", support=7))) > 0
    assert joint.conditional(0, {1: joint.top(1)[0].ids[1]}).log_probs.exp().sum() == pytest.approx(1)
    assert joint.sample(3, torch.Generator().manual_seed(0)).shape == (3, 3)
    with pytest.raises(UsageError):
        joint.conditional(0, {})
