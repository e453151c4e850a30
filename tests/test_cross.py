"""Cross conditionals: equal to exact ones when every token is asked about, and close to them before.

How close depends on the model having learned something, so this is measured on the embedded model, over a
support of its likelier words that is small enough to be asked about exhaustively.
"""

import pytest
import torch

import unmask
from tiny import save_tiny, sentence
from unmask import CONSTRUCTIONS, Misuse, construct
from unmask.api import load
from unmask.cloze import parse_braces
from unmask.conditionals import exact_conditionals
from unmask.cross import RIDGES, cross_conditionals, ridge
from unmask.vocabulary import Support

SENTENCES = [
    "A {man} is {playing} in the park.",
    "The {children} went {to} school in the morning.",
    "The {city} is in the {north} of England.",
    "She {looked} at her {mother} with a smile.",
]
TOKENS = 400


@pytest.fixture(scope="module")
def english():
    return load("english")


@pytest.fixture(scope="module")
def pairs(english):
    """Clozes with the supports of both blanks and the exact conditionals."""
    made = []
    words = Support.words(english.vocabulary)
    for text in SENTENCES:
        cloze = parse_braces(text, english.vocabulary, english.window)
        ids = torch.tensor([cloze.ids])
        supports = tuple(
            words.likeliest(english.logits(ids, blank)[0, words.ids], TOKENS, [truth])
            for blank, truth in zip(cloze.blanks, cloze.truth, strict=True)
        )
        made.append((cloze, supports, exact_conditionals(english, cloze, supports)))
    return made


def errors(english, pairs, candidates, completion, method="ag"):
    """Mean absolute error of log q over all pairs of tokens, and the KL divergence from the exact joint."""
    absolute, divergence = 0.0, 0.0
    for cloze, supports, exact in pairs:
        cross = cross_conditionals(english, cloze, supports, candidates, completion=completion)
        true, found = construct(method, exact), construct(method, cross)
        everything = (slice(None), slice(None))
        absolute += float((true.log_block(*everything) - found.log_block(*everything)).abs().mean())
        divergence += true.kl_to(found)
    return absolute / len(pairs), divergence / len(pairs)


@pytest.mark.parametrize("completion", ["plain", "learned"])
def test_asking_about_every_token_is_exact(english, pairs, completion):
    cloze, supports, exact = pairs[0]
    everyone = max(len(s) for s in supports)
    cross = cross_conditionals(english, cloze, supports, everyone, completion=completion)
    torch.testing.assert_close(cross.a_given_b(), exact.a_given_b(), atol=1e-4, rtol=0)
    torch.testing.assert_close(cross.b_given_a(), exact.b_given_a(), atol=1e-4, rtol=0)
    torch.testing.assert_close(cross.a_log_z, exact.a_log_z, atol=1e-4, rtol=0)
    assert cross.evidence["completion_error"] == {"a_given_b": None, "b_given_a": None}


@pytest.mark.parametrize("completion", ["plain", "learned"])
def test_the_error_falls_as_more_tokens_are_asked_about(english, pairs, completion):
    found = [errors(english, pairs, k, completion) for k in (25, 100, 300)]
    assert found[0][0] > found[1][0] > found[2][0]
    assert found[0][1] > found[1][1] > found[2][1]


@pytest.mark.parametrize("candidates", [50, 100, 200])
def test_the_learned_completion_beats_the_plain_one(english, pairs, candidates):
    learned, plain = (errors(english, pairs, candidates, c)[0] for c in ("learned", "plain"))
    assert learned < 0.8 * plain


@pytest.mark.parametrize("method", list(CONSTRUCTIONS))
@pytest.mark.parametrize("completion", ["plain", "learned"])
def test_every_joint_of_completed_conditionals_sums_to_one(english, pairs, method, completion):
    cloze, supports, _ = pairs[1]
    joint = construct(method, cross_conditionals(english, cloze, supports, 20, completion=completion))
    assert joint.mass(slice(None), slice(None)) == pytest.approx(1, abs=1e-5)


def test_evaluated_rows_and_columns_are_the_model_s_own(english, pairs):
    cloze, supports, exact = pairs[2]
    cross = cross_conditionals(english, cloze, supports, 40)
    rows, columns = cross.evidence["evaluated"]
    torch.testing.assert_close(cross.b_given_a(rows), exact.b_given_a(rows), atol=1e-4, rtol=0)
    torch.testing.assert_close(
        cross.a_given_b(slice(None), columns), exact.a_given_b(slice(None), columns), atol=1e-4, rtol=0
    )


def test_tokens_that_are_asked_for_are_evaluated_however_unlikely(english, pairs):
    cloze, supports, exact = pairs[0]
    unlikely = [int(s.ids[m.argmin()]) for s, m in zip(supports, (exact.a_alone, exact.b_alone), strict=True)]
    cross = cross_conditionals(english, cloze, supports, 5, include=((unlikely[0],), (unlikely[1],)))
    for support, token, evaluated in zip(supports, unlikely, cross.evidence["evaluated"], strict=True):
        assert support.index(token) in evaluated.tolist()
        assert len(evaluated) == 5


def test_left_out_predictions_are_what_refitting_without_each_token_gives():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    targets = features @ torch.randn(5, 3, generator=generator, dtype=torch.float64)
    targets += 0.3 * torch.randn(12, 3, generator=generator, dtype=torch.float64)
    centred = features - features.mean(0)
    design = torch.cat([centred, torch.ones(12, 1, dtype=torch.float64)], 1)
    scale = torch.linalg.svdvals(centred).square().mean()

    def refitted(penalty):
        punish = penalty * scale * torch.diag(torch.tensor([1.0] * 5 + [0.0], dtype=torch.float64))
        rows = []
        for i in range(12):
            x, y = design[torch.arange(12) != i], targets[torch.arange(12) != i]
            rows.append(design[i] @ torch.linalg.solve(x.T @ x + punish, x.T @ y))
        return torch.stack(rows)

    best = min((refitted(p) for p in RIDGES), key=lambda guess: float((guess - targets).square().mean()))
    torch.testing.assert_close(ridge(features, targets, features)[1], best, atol=1e-8, rtol=0)


def test_ridge_recovers_a_linear_map():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    weights = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    queries = torch.randn(9, 6, generator=generator, dtype=torch.float64)
    answers, left_out = ridge(features, features @ weights + 2, queries)
    torch.testing.assert_close(answers, queries @ weights + 2, atol=1e-3, rtol=0)
    torch.testing.assert_close(left_out, features @ weights + 2, atol=1e-3, rtol=0)


@pytest.mark.parametrize("candidates", [0, -1, TOKENS + 2])
def test_a_number_of_candidates_out_of_range_is_refused(english, pairs, candidates):
    cloze, supports, _ = pairs[0]
    with pytest.raises(Misuse, match="expected from 1 to"):
        cross_conditionals(english, cloze, supports, candidates)


def test_one_candidate_says_nothing_of_its_own_error(english, pairs):
    cloze, supports, _ = pairs[0]
    cross = cross_conditionals(english, cloze, supports, 1)
    assert cross.evidence["completion_error"] == {"a_given_b": None, "b_given_a": None}


def test_the_random_part_of_the_candidates_follows_the_seed(tmp_path):
    mlm = unmask.load(save_tiny("bert", tmp_path / "bert"))
    words = sentence("bert").split()
    words[1], words[3] = "[MASK]", "[MASK]"

    def evaluated(seed):
        joint = unmask.fill(" ".join(words), mlm=mlm, candidates=20, seed=seed)
        return [side.tolist() for side in joint.evidence["evaluated"]]

    assert evaluated(1) == evaluated(1)
    assert evaluated(1) != evaluated(2)
