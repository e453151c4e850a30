"""The tree of a text's blanks: what the model is asked, and what the tree makes of it."""

import itertools

import pytest
import torch

import unmask
from unmask import UsageError
from unmask.inference.model_conditionals import ModelConditionals
from unmask.inference.tree import check_tree, passes_of_tree, tree_joint
from unmask.joints import Independent, TreeJoint
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support

THREE = "The [MASK] [MASK] is playing [MASK] the casino."
TEXTS = {1: "The old [MASK] sleeps.", 2: "The old [MASK] is playing [MASK] the casino.", 3: THREE}


@pytest.fixture(scope="module")
def bert(mlm_of):
    return mlm_of("bert")


def asked(mlm, text, candidates, **rest):
    cloze = parse_blanks(text, mlm.vocabulary, mlm.window)
    supports = (Support.words(mlm.vocabulary),) * len(cloze.blanks)
    return tree_joint(mlm, cloze, supports, candidates, **rest), ModelConditionals(mlm, cloze, supports)


def own_factors(model, joint, filling):
    """What the model itself says of each blank, its parent filled and all others masked."""
    parents = {child: parent for parent, child in joint.edges}
    found = {}
    for blank, support in enumerate(joint.supports):
        state = model.all_masked
        if blank in parents:
            state[0, parents[blank]] = int(filling[parents[blank]])
        found[(blank,)] = float(model.log_probs(state, blank)[0, support.index(int(filling[blank]))])
    return found


@pytest.mark.parametrize("blanks", [1, 2, 3])
def test_every_factor_is_the_models_own_conditional_with_the_other_blanks_masked(blanks, bert):
    joint, model = asked(bert, TEXTS[blanks], 10_000)
    filling = joint.sample((), torch.Generator().manual_seed(0))
    assert dict(joint.factors(filling)) == pytest.approx(own_factors(model, joint, filling), abs=1e-5)
    assert joint.mass_outside_candidates() is None


def test_a_token_that_is_no_candidate_of_a_parent_conditions_as_a_mask(bert):
    joint, model = asked(bert, THREE, 3)
    parent, child = joint.edges[0]
    alone = model.log_probs_of_all(model.all_masked)
    unlikely = int(joint.supports[parent].ids[int(alone[parent][0].argmin())])
    likely = int(joint.supports[parent].ids[int(alone[parent][0].argmax())])
    given = joint.conditional(child, {parent: unlikely}).log_probs
    torch.testing.assert_close(given, alone[child][0].cpu(), atol=1e-5, rtol=0)
    assert not torch.allclose(joint.conditional(child, {parent: likely}).log_probs, given, atol=1e-3)
    assert 0 < joint.mass_outside_candidates() < 1
    included, _ = asked(bert, THREE, 3, include=[[unlikely]] * 3)
    assert not torch.allclose(included.conditional(child, {parent: unlikely}).log_probs, given, atol=1e-3)


def test_the_edges_join_the_blanks_that_tell_each_other_most(bert):
    joint, model = asked(bert, THREE, 10_000)
    tokens = joint.supports[0].ids
    alone = [line[0].cpu() for line in model.log_probs_of_all(model.all_masked)]

    def information(a, b):
        rows = model.logits_given(a, tokens, b).double().cpu().log_softmax(-1)
        mixed = (alone[a][:, None] + rows).logsumexp(0)
        return float((alone[a][:, None].exp() * rows.exp() * (rows - mixed)).sum())

    worth = {
        pair: (information(*pair) + information(*pair[::-1])) / 2
        for pair in itertools.combinations(range(3), 2)
    }
    weakest = min(worth, key=worth.get)
    assert {tuple(sorted(edge)) for edge in joint.edges} == set(worth) - {weakest}
    entropies = [float(-(line.exp() * line).sum()) for line in alone]
    assert joint.root == entropies.index(min(entropies))


@pytest.mark.parametrize("blanks", [1, 2, 3])
def test_fill_takes_the_tree_by_name_and_says_what_it_cost(blanks, bert):
    joint = unmask.fill(TEXTS[blanks], mlm=bert, method="tree", candidates=4)
    assert isinstance(joint, TreeJoint)
    known = joint.diagnostics
    assert (known.conditionals, known.candidates) == ("tree", 4)
    assert known.passes == passes_of_tree(blanks, 4)
    assert known.reason == joint.cloze.notes[-1]
    assert len(joint.top(3)) == 3
    assert float(joint.marginal(0).probs.sum()) == pytest.approx(1)


def test_few_tokens_are_all_candidates_by_themselves(bert):
    joint = unmask.fill(THREE, mlm=bert, method="tree", support=12)
    assert joint.diagnostics.candidates == 12
    assert joint.mass_outside_candidates() is None
    assert max(joint.diagnostics.mass_outside_support) > 0


def test_the_true_tokens_are_scored_by_the_model_even_if_they_are_unlikely(bert):
    score = unmask.score(
        "The {man} {old} is playing {house} the casino.", mlm=bert, method="tree", candidates=1
    )
    joint = score.joint
    model = ModelConditionals(bert, joint.cloze, joint.supports)
    wanted = own_factors(model, joint, joint.cloze.truth)
    assert dict(joint.factors(joint.cloze.truth)) == pytest.approx(wanted, abs=1e-5)
    assert score.filling.log_prob == pytest.approx(sum(wanted.values()), abs=1e-5)
    assert len(score.conditional_log_probs) == 3


def test_a_tree_tells_more_than_independent_answers(bert):
    tree, product = (unmask.fill(THREE, mlm=bert, method=m) for m in ("tree", "product"))
    assert isinstance(product, Independent)
    divergence = torch.distributions.kl_divergence(tree, product)
    assert float(divergence) >= float(tree.mutual_information()) - 1e-9 > 0


def test_what_a_tree_cannot_be_asked_for_is_refused(bert):
    with pytest.raises(UsageError, match="at most 64, got 3,000"):
        check_tree(3000, 16)
    with pytest.raises(UsageError, match="136 candidates or fewer"):
        check_tree(60, 512)
    check_tree(60, 136)
    with pytest.raises(UsageError, match="at least 1 candidate"):
        asked(bert, THREE, -1)
    for options in ({"block": 1}, {"pairs": "ag"}, {"rounds": 3}):
        with pytest.raises(UsageError, match="no option"):
            unmask.fill(THREE, mlm=bert, method="tree", **options)
    with pytest.raises(UsageError, match="candidates 'all'"):
        unmask.fill(THREE, mlm=bert, method="tree", candidates="all")
