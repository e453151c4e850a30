"""Targets: the joint given that the words are allowed, and beside it their probability among all tokens."""

import itertools
import json
import sys
from collections.abc import Callable

import pytest
import torch
from torch.distributions import kl_divergence

import unmask
from unmask import UsageError
from unmask.cli import main
from unmask.models.masked_lm import MaskedLM

Models = Callable[[str], MaskedLM]
ONE, TWO, THREE = (
    "The old [MASK] is here.",
    "The old [MASK] [MASK] at the casino.",
    "The old [MASK] [MASK] at the [MASK].",
)
NOUNS, VERBS, PLACES = ["man", "dog", "cat"], ["is", "was"], ["casino", "house"]
CLOSE = {"atol": 1e-6, "rtol": 0.0}


def by_hand(joint: unmask.Joint, *lists: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """The log-probabilities of all combinations in a joint over all tokens, and the same renormalised."""
    log_q = joint.log_prob(list(itertools.product(*lists))).double()
    return log_q, log_q - log_q.logsumexp(0)


def check(restricted: unmask.Joint, unrestricted: unmask.Joint, *lists: list[str]) -> None:
    """Hold a joint over targets to what is restricted by hand."""
    log_q, log_p = by_hand(unrestricted, *lists)
    fillings = [list(words) for words in itertools.product(*lists)]
    torch.testing.assert_close(restricted.log_prob(fillings), log_p, **CLOSE)
    found = {f.tokens: f for f in restricted.top(len(fillings) + 5)}
    assert len(found) == len(fillings)
    beside = torch.tensor([f.unrestricted_log_prob for f in found.values()], dtype=torch.float64)
    torch.testing.assert_close(beside.sort().values, log_q.sort().values, **CLOSE)
    assert restricted.targets_log_prob == pytest.approx(float(log_q.logsumexp(0)), abs=1e-6)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize(("text", "lists"), [(ONE, [NOUNS]), (TWO, [NOUNS, VERBS])])
def test_the_exact_joint_restricted_by_hand(
    architecture: str, text: str, lists: list[list[str]], mlm_of: Models
) -> None:
    mlm = mlm_of(architecture)
    check(unmask.fill(text, targets=lists, mlm=mlm), unmask.fill(text, candidates="all", mlm=mlm), *lists)


def test_every_construction(mlm_of: Models) -> None:
    free = unmask.compare(TWO, mlm=mlm_of("bert"))
    bound = unmask.compare(TWO, targets=[NOUNS, VERBS], mlm=mlm_of("bert"))
    assert list(free) == list(bound)
    for method, joint in bound.items():
        check(joint, free[method], NOUNS, VERBS)


@pytest.mark.parametrize("method", ["chain", "tree", "product", "l2r"])
def test_three_blanks(method: str, mlm_of: Models) -> None:
    lists = [NOUNS, VERBS, PLACES]
    options = {} if method in ("product", "l2r") else {"candidates": 78}  # all tokens of the tiny model
    free = unmask.fill(THREE, method=method, mlm=mlm_of("bert"), **options)
    check(unmask.fill(THREE, method=method, targets=lists, mlm=mlm_of("bert"), **options), free, *lists)


def test_a_grid_has_the_targets_among_its_candidates(mlm_of: Models) -> None:
    mlm, words = mlm_of("bert"), ["man", "casino"]
    free = unmask.fill(THREE, method="grid", candidates=3, include=words, mlm=mlm)
    check(unmask.fill(THREE, method="grid", candidates=3, targets=words, mlm=mlm), free, words, words, words)


def test_the_model_is_asked_about_every_target(mlm_of: Models) -> None:
    joint = unmask.fill(TWO, candidates=5, targets=[NOUNS, VERBS], mlm=mlm_of("bert"))
    assert isinstance(joint.source, unmask.PairJoint)
    for words, support, asked in zip(
        (NOUNS, VERBS), joint.source.supports, joint.source.conditionals.evaluated, strict=True
    ):
        assert {support.index(word) for word in words} <= set(asked.tolist())
    free = unmask.fill(TWO, method="l2r", candidates="all", mlm=mlm_of("bert"))  # needs those rows alone
    few = unmask.fill(TWO, method="l2r", candidates=5, targets=[NOUNS, VERBS], mlm=mlm_of("bert"))
    torch.testing.assert_close(
        few.log_prob(list(itertools.product(NOUNS, VERBS))), by_hand(free, NOUNS, VERBS)[1], **CLOSE
    )


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
@pytest.mark.parametrize(
    ("text", "lists"),
    [
        ("The old [MASK] is here.", [["man", "walker", "houses", "dogs"]]),
        ("The [MASK] is [MASK] in the house.", [["man", "players"], ["walking", "red"]]),
    ],
)
def test_words_of_several_tokens_are_worth_what_score_says(
    architecture: str, text: str, lists: list[list[str]], mlm_of: Models
) -> None:
    mlm = mlm_of(architecture)
    joint = unmask.fill(text, targets=lists, mlm=mlm)
    log_q = []
    for words in itertools.product(*lists):
        braced = text
        for word in words:
            braced = braced.replace("[MASK]", f"{{{word}}}", 1)
        scored = unmask.score(braced, mlm=mlm)
        (filling,) = [f for f in joint.top(10) if f.text == scored.filling.text]
        assert filling.unrestricted_log_prob == pytest.approx(scored.filling.log_prob, abs=1e-6)
        log_q.append(scored.filling.log_prob)
    log_p = torch.tensor(log_q, dtype=torch.float64).log_softmax(0)
    torch.testing.assert_close(joint.log_prob([list(w) for w in itertools.product(*lists)]), log_p, **CLOSE)
    assert joint.targets_log_prob is None  # of several joints


def test_one_list_is_for_all_blanks(mlm_of: Models) -> None:
    words = [*NOUNS, *VERBS]
    same = [unmask.fill(TWO, targets=given, mlm=mlm_of("bert")) for given in (words, [words], [words, words])]
    for joint in same[1:]:
        assert float(kl_divergence(same[0], joint)) == pytest.approx(0, abs=1e-9)


def test_ids_and_marked_tokens(mlm_of: Models) -> None:
    mlm = mlm_of("bert")
    ids = [mlm.vocabulary.find(word) for word in NOUNS]
    by_word, by_id = (unmask.fill(ONE, targets=given, mlm=mlm) for given in (NOUNS, ids))
    assert [f.ids for f in by_word.top(3)] == [f.ids for f in by_id.top(3)]
    inside = unmask.fill("The play[MASK] man", targets=["##ing", "##er"], mlm=mlm)
    assert {f.text for f in inside.top(2)} == {"The playing man", "The player man"}


def test_a_joint_over_targets_keeps_the_contract(mlm_of: Models) -> None:
    joint = unmask.fill(
        "The [MASK] is [MASK] in the house.",
        targets=[["man", "players"], ["walking", "red"]],
        mlm=mlm_of("bert"),
    )
    everything = joint.enumerate_support()
    assert float(joint.log_prob(everything).exp().sum()) == pytest.approx(1)
    drawn = joint.sample(200, torch.Generator().manual_seed(0))
    assert {tuple(row) for row in drawn.tolist()} <= {tuple(row) for row in everything.tolist()}
    given = joint.conditional(0, {1: "walking"})
    assert float(given.log_prob("players")) == pytest.approx(
        float(joint.log_prob(["players", "walking"]) - joint.marginal(1).log_prob("walking"))
    )
    assert joint.describe(drawn[:1])[0].text.startswith("The ")


def test_score_among_targets(mlm_of: Models) -> None:
    mlm = mlm_of("bert")
    scored = unmask.score("The old {man} {is} at the casino.", targets=[NOUNS, VERBS], mlm=mlm)
    joint = unmask.fill(TWO, targets=[NOUNS, VERBS], mlm=mlm)
    assert scored.filling.log_prob == pytest.approx(float(joint.log_prob(["man", "is"])), abs=1e-6)
    for text in ("The old {red} {is} at the casino.", "The old {man} {at} at the casino."):
        with pytest.raises(UsageError, match="target"):
            unmask.score(text, targets=[NOUNS, VERBS], mlm=mlm)


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({"targets": [["☃"], VERBS]}, "spell '☃'"),
        ({"targets": [NOUNS, VERBS, NOUNS]}, "got 3"),
        ({"targets": ["dog", "DOG"]}, "same"),
        ({"targets": ["[SEP]", "man"]}, r"\[SEP\]"),
        ({"targets": [f"{a}{b}" for a in "abcdefghijkl" for b in "abcdefghijklmno"]}, "fillings"),
    ],
    ids=str,
)
def test_what_only_a_model_can_refuse(given: dict, fact: str, mlm_of: Models) -> None:
    for function in (unmask.fill, unmask.compare):
        with pytest.raises(UsageError, match=fact) as error:
            function(TWO, mlm=mlm_of("bert"), **given)
        assert "\n" not in str(error.value)


def test_targets_of_several_tokens_need_room_and_a_joint_of_their_own(mlm_of: Models) -> None:
    mlm = mlm_of("bert")
    long = "The [MASK] " + "man " * (mlm.window - 4)
    for wrong in (
        lambda: unmask.fill(long, targets=["houses"], mlm=mlm),
        lambda: unmask.compare(TWO, targets=["houses", "man"], mlm=mlm),
        lambda: unmask.score("The {man} {is} here", targets=["houses", "man", "is"], mlm=mlm),
    ):
        with pytest.raises(UsageError, match="targets"):
            wrong()


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unmask", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_command_line(checkpoint, mlm_of, monkeypatch, capsys) -> None:
    lists = ["--targets", "man,dog, cat", "--targets", "is,was", "-m", str(checkpoint("bert"))]
    assert run(monkeypatch, "fill", TWO, *lists, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    joint = unmask.fill(TWO, targets=[NOUNS, VERBS], mlm=mlm_of("bert"))
    assert answer["targets_log_prob"] == pytest.approx(joint.targets_log_prob, abs=1e-5)
    for shown, filling in zip(answer["fillings"], joint.top(10), strict=True):
        assert shown["ids"] == list(filling.ids)
        assert shown["unrestricted_log_prob"] == pytest.approx(filling.unrestricted_log_prob, abs=1e-5)
    assert run(monkeypatch, "fill", TWO, *lists) == 0
    assert "among all tokens" in capsys.readouterr().out
    for command in ("sample", "compare"):
        assert run(monkeypatch, command, TWO, *lists, "--json") == 0
        assert json.loads(capsys.readouterr().out)["support_sizes"] == [3, 2]
    assert run(monkeypatch, "fill", TWO, "--targets", "☃", "-m", str(checkpoint("bert"))) == 2
    assert "☃" in capsys.readouterr().err


def test_http(checkpoint, mlm_of) -> None:
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from unmask.web import Settings, create_app

    settings = Settings(models={"tiny": str(checkpoint("bert"))}, hosts=None, device="cpu")
    with TestClient(create_app(settings)) as client:

        def post(path: str, **question: object) -> tuple[int, dict]:
            answer = client.post(f"/v1/{path}", json=question)
            return answer.status_code, answer.json()

        joint = unmask.fill(TWO, targets=[NOUNS, VERBS], mlm=mlm_of("bert"))
        status, answer = post("fill", text=TWO, targets=[NOUNS, VERBS])
        assert (status, answer["support_sizes"]) == (200, [3, 2])
        assert answer["targets_log_prob"] == pytest.approx(joint.targets_log_prob, abs=1e-5)
        assert answer["fillings"][0]["text"] == joint.top(1)[0].text
        status, answer = post("fill", text=ONE, targets=["man", "houses", "walker"])
        longer = unmask.fill(ONE, targets=["man", "houses", "walker"], mlm=mlm_of("bert"))
        assert status == 200
        assert answer["fillings"][0]["log_prob"] == pytest.approx(longer.top(1)[0].log_prob, abs=1e-5)
        status, answer = post("compare", text=TWO, targets=[NOUNS, VERBS])
        assert (status, set(answer["methods"])) == (200, set(unmask.CONSTRUCTIONS))
        for path, question in [
            ("compare", {"text": TWO, "targets": ["man", "houses"]}),
            ("fill", {"text": TWO, "targets": ["☃"]}),
            ("fill", {"text": TWO, "targets": [NOUNS, VERBS, VERBS]}),
            ("fill", {"text": TWO, "targets": [f"man{n}" for n in range(100)]}),
            ("map", {"text": TWO, "targets": NOUNS}),
        ]:
            status, answer = post(path, **question)
            assert status in (400, 422), answer
            assert list(answer) == ["error"]
