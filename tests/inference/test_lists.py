"""A list of texts gives what its texts give one by one, from shared forward passes."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import unmask
from head_toy import with_head
from unmask import UsageError
from unmask.inference import infer, shared_passes
from unmask.models.masked_lm import MaskedLM

Models = Callable[[str], MaskedLM]
PAIRS = [
    "The old [MASK] [MASK] at the casino.",
    "The [MASK] dog [MASK] at the bank.",
    "A [MASK] is [MASK] in the red house.",
    "The [MASK] man is at the [MASK].",
    "[MASK] is [MASK].",
]
BLANKS = [*PAIRS, "The [MASK] is here.", "The [MASK] [MASK] at the [MASK]."]
BRACES = [
    "The old {man} {is} at the casino.",
    "The {red} dog {was} at the bank.",
    "The {dog} is in the house.",
]


def same(one: unmask.Joint, other: unmask.Joint, digits: float = 1e-6) -> None:
    first, second = one.top(10), other.top(10)
    assert [f.ids for f in first] == [f.ids for f in second]
    one_by_one = [math.exp(f.log_prob) for f in second]
    assert [math.exp(f.log_prob) for f in first] == pytest.approx(one_by_one, abs=digits)
    assert one.diagnostics.passes == other.diagnostics.passes


@pytest.mark.parametrize("candidates", ["auto", 5, 20])
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_fill(candidates: object, architecture: str, mlm_of: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer, "TEXTS_AT_ONCE", 3)  # several parts
    monkeypatch.setattr(infer, "LARGEST_AUTO_EXACT", 10)  # auto doubles its candidates
    results = unmask.fill(BLANKS, candidates=candidates, mlm=mlm_of(architecture))
    assert len(results) == len(BLANKS)
    for text, joint in zip(BLANKS, results, strict=True):
        same(joint, unmask.fill(text, candidates=candidates, mlm=mlm_of(architecture)))
    same(results[-2], unmask.fill(BLANKS[-2], candidates=candidates, mlm=mlm_of(architecture)))


def test_texts_of_one_length_share_batches(mlm_of: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    mlm = mlm_of("bert")
    texts = [f"The old [MASK] [MASK] at the {place}." for place in ("casino", "house", "bank", "man")]
    calls: list[int] = []
    states_each = mlm.states_each

    def counted(ids, *rest):
        calls.append(len(ids))
        return states_each(ids, *rest)

    monkeypatch.setattr(mlm, "states_each", counted)
    joints = list(unmask.fill(texts, candidates=5, mlm=mlm))
    assert calls == [4, 4 * 2 * 5]  # all masked; five candidates for either blank
    assert [joint.diagnostics.passes for joint in joints] == [11] * 4


def test_many_fillings_of_a_text_are_a_batch_of_their_own(mlm_of: Models) -> None:
    many = shared_passes.FILLINGS_ALONE + 4
    for one, other in zip(
        unmask.fill(PAIRS[:2], candidates=many, mlm=mlm_of("bert")),
        (unmask.fill(text, candidates=many, mlm=mlm_of("bert")) for text in PAIRS[:2]),
        strict=True,
    ):
        same(one, other)


def test_score_and_compare(mlm_of: Models) -> None:
    mlm = mlm_of("bert")
    for text, scored in zip(BRACES, unmask.score(BRACES, candidates=6, mlm=mlm), strict=True):
        alone = unmask.score(text, candidates=6, mlm=mlm)
        assert scored.filling.log_prob == pytest.approx(alone.filling.log_prob, abs=1e-5)
        assert scored.conditional_log_probs == pytest.approx(alone.conditional_log_probs, abs=1e-5)
    for text, joints in zip(PAIRS, unmask.compare(PAIRS, candidates=6, mlm=mlm), strict=True):
        for method, joint in unmask.compare(text, candidates=6, mlm=mlm).items():
            same(joints[method], joint)


def test_targets_of_a_list(mlm_of: Models) -> None:
    lists = [["man", "dog"], ["is", "was", "walking"]]  # the last is two tokens
    for targets in (lists, [lists[0], lists[1][:2]]):
        for text, joint in zip(PAIRS, unmask.fill(PAIRS, targets=targets, mlm=mlm_of("bert")), strict=True):
            same(joint, unmask.fill(text, targets=targets, mlm=mlm_of("bert")))


def test_with_a_pair_head(mlm_of: Models) -> None:
    mlm = with_head(mlm_of("bert"))
    for candidates in (0, 4):
        for text, joint in zip(PAIRS, unmask.fill(PAIRS, candidates=candidates, mlm=mlm), strict=True):
            # a head of random weights is far off, and its regression magnifies the last digits of float32
            same(joint, unmask.fill(text, candidates=candidates, mlm=mlm), digits=1e-5)


def test_tables(mlm_of: Models) -> None:
    pandas = pytest.importorskip("pandas")
    mlm = mlm_of("bert")
    records = unmask.fill(PAIRS, mlm=mlm).to_dict(top=2)
    assert [(r["number"], r["rank"]) for r in records] == [(n, k) for n in range(len(PAIRS)) for k in (1, 2)]
    best = unmask.fill(PAIRS[1], mlm=mlm).top(1)[0]
    assert (records[2]["filled"], records[2]["tokens"]) == (best.text, list(best.tokens))
    table = unmask.score(BRACES, mlm=mlm).to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["text"]) == BRACES
    assert (table["log_prob"] < 0).all()
    compared = unmask.compare(PAIRS[:2], mlm=mlm).to_pandas(top=1)
    assert list(compared["method"]) == [*unmask.CONSTRUCTIONS] * 2


def test_without_pandas(mlm_of: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.lazy.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pandas") as error:
        unmask.fill(PAIRS, mlm=mlm_of("bert")).to_pandas()
    assert "\n" not in str(error.value)


def test_any_kind_of_list(mlm_of: Models) -> None:
    for texts in (tuple(PAIRS), np.array(PAIRS)):
        assert unmask.fill(texts, mlm=mlm_of("bert")).texts == tuple(PAIRS)
    assert "5 texts" in repr(unmask.fill(PAIRS, mlm=mlm_of("bert")))


@pytest.mark.parametrize(
    ("texts", "fact"),
    [
        ([], "empty"),
        (["The [MASK]", 3], "text 1"),
        (["The [MASK]", None], "text 1"),
        ([["The [MASK]"]], "text 0"),
        (["The [MASK] [MASK]", "no blank"], "text 1: the text has no blank"),
        (["The [MASK] [MASK]", "\ud800"], "text 1"),
    ],
    ids=ascii,
)
def test_a_wrong_text_is_named_before_anything_is_computed(texts: list, fact: str, mlm_of: Models) -> None:
    with pytest.raises(UsageError, match=fact) as error:
        unmask.fill(texts, mlm=mlm_of("bert"))
    assert "\n" not in str(error.value)
    for function in (unmask.score, unmask.compare):
        with pytest.raises(UsageError):
            function(texts, mlm=mlm_of("bert"))
