"""The study of tasks: entities and labels are found, scored without the truth, and compared in pairs."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from head_toy import with_head
from unmask.inference.infer import conditionals_of_many
from unmask.inference.sentences import SentenceReader
from unmask.inference.tree import tree_joint
from unmask.text.cloze import Cloze, parse_blanks
from unmask.text.support import Support

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

import tasks_entities
import tasks_prompts
import tasks_study
from tasks_entities import Filler, entity_tasks, spans, tokenise
from tasks_prompts import Prompts, PromptScorer, auc, margins, prompt_tasks


@pytest.fixture
def mlm(mlm_of):
    return mlm_of("bert")


def test_entities_are_the_words_from_a_beginning_to_the_last_that_is_inside():
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC"]
    assert [list(span) for span in spans(tags)] == [[0, 1], [3], [4, 5]]
    assert not list(spans(["O", "O"]))


def test_the_places_of_an_entity_are_those_of_its_tokens(mlm):
    sentence, places = tokenise(
        SentenceReader(mlm), ["the", "old", "houses", "at", "the", "bank"], range(1, 3)
    )
    spelled = [mlm.vocabulary.token(sentence.ids[i]) for i in places]
    assert spelled == ["old", "house", "##s"]


def test_entities_are_drawn_once_per_sentence_up_to_the_number_wanted(mlm, tmp_path, monkeypatch):
    lines = ["the\tO\nold\tB-PER\nman\tI-PER\nis\tO\nat\tO\nthe\tO\nbank\tB-LOC\n"] * 4
    (tmp_path / "some.conll").write_text("\n".join(lines))
    monkeypatch.setattr(tasks_entities, "FILES", {"some": "some.conll"})
    tasks, _ = entity_tasks(mlm, tmp_path, 3)
    assert [task["blanks"] for task in tasks] == [2, 2, 2]
    assert len({task["key"] for task in tasks}) == 3


def test_a_filling_is_scored_as_by_plain_passes_of_the_model(mlm, plain_model, monkeypatch):
    """Independent answers and the chain, by the plain model; what needs a pair head is left out here."""
    monkeypatch.delitem(tasks_entities.JOINTS, "tree-0")
    sentence, places = tokenise(
        SentenceReader(mlm), ["the", "old", "man", "is", "at", "the", "bank"], range(1, 3)
    )
    task = {"key": "0", "ids": list(sentence.ids), "places": list(places), "blanks": 2}
    (record,) = Filler(mlm)([task])
    model, mask, words = plain_model("bert"), mlm.vocabulary.mask_id, Filler(mlm)._support
    first, second = places
    ids = torch.tensor([sentence.ids])
    ids[0, [first, second]] = mask

    def log_p(position):
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, position]
        kept = logits[words.ids].double().log_softmax(0)
        return float(kept[words.index(sentence.ids[position])])

    alone = log_p(first) + log_p(second)
    start = log_p(first)
    ids[0, first] = sentence.ids[first]
    chain = start + log_p(second)
    assert record["answers"]["independent"]["log_prob"] == pytest.approx(alone, abs=1e-3)
    assert record["answers"]["l2r"]["log_prob"] == pytest.approx(chain, abs=1e-3)
    ids[0, first], ids[0, second] = mask, mask
    start = log_p(second)
    ids[0, second] = sentence.ids[second]
    other = start + log_p(first)
    tree = record["answers"]["tree"]["log_prob"]  # of two blanks, so it is the chain from one of its ends
    assert min(abs(tree - chain), abs(tree - other)) < 1e-3


def test_a_tree_of_guesses_is_scored_as_if_the_true_tokens_had_been_named(mlm):
    headed = with_head(mlm)
    sentence, places = tokenise(
        SentenceReader(headed), ["the", "old", "man", "is", "at", "the", "bank"], range(1, 4)
    )
    task = {"key": "0", "ids": list(sentence.ids), "places": list(places), "blanks": 3}
    (record,) = Filler(headed)([task])
    cloze = Cloze.of_ids(sentence.ids, places, headed.vocabulary)
    supports, truth = (Support.words(headed.vocabulary),) * 3, [sentence.ids[i] for i in places]
    named = tree_joint(headed, cloze, supports, 0, include=[[token] for token in truth])
    expected = float(named.log_prob(torch.tensor(truth)))
    assert record["answers"]["tree-0"]["log_prob"] == pytest.approx(expected, abs=1e-4)


@pytest.fixture
def prompts(monkeypatch):
    made = Prompts(
        "some.tsv",
        pairs=False,
        classes=("yes", "no"),
        texts=("{0} it is [MASK] [MASK].",),
        labels={"old man / big dog": (("old man",), ("big dog",))},
    )
    monkeypatch.setitem(tasks_prompts.PROMPTS, "some", made)
    return made


def test_prompts_have_as_many_texts_of_each_class(mlm, prompts, tmp_path):
    rows = [
        f"the man is at the bank {'old ' * n}.\t{label}" for n in range(5) for label in ("yes", "no", "?")
    ]
    (tmp_path / "some.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    tasks, _ = prompt_tasks("some", mlm, tmp_path, 6)
    assert sorted(task["label"] for task in tasks) == ["no"] * 3 + ["yes"] * 3
    assert all(task["text"].endswith("it is [MASK] [MASK].") for task in tasks)


def test_phrases_are_scored_by_the_constructions_among_all_words(mlm, prompts, monkeypatch):
    monkeypatch.setattr(tasks_prompts, "CANDIDATES", "all")
    text = "a cat. it is [MASK] [MASK]."
    scorer = PromptScorer(mlm, "some")
    (table,) = conditionals_of_many(mlm, [parse_blanks(text, mlm.vocabulary, mlm.window)], scorer._asked)
    found = scorer._by_method(table, table)  # of the head's guesses the tiny model has none
    for name, method in (("independent", "product"), ("l2r", "l2r"), ("r2l", "r2l"), ("ag", "ag")):
        joint = unmask.fill(text, method=method, mlm=mlm, candidates="all")
        assert found[name]["old man"] == pytest.approx(float(joint.log_prob(["old", "man"])), abs=1e-3)


def test_the_odds_of_a_label_are_those_of_all_its_phrases():
    scores = {"a": math.log(0.2), "b": math.log(0.1), "c": math.log(0.6)}
    assert margins(scores, (("a", "b"), ("c",))) == pytest.approx(math.log(0.3 / 0.6))


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    scores, truth = rng.integers(0, 5, 40).astype(float), rng.random(40) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in scores[truth] for b in scores[~truth]]
    assert auc(scores, truth) == pytest.approx(np.mean(pairs))


def test_a_gain_is_paired_with_the_same_example_of_the_base():
    names = ("independent", "ag")
    rng = np.random.default_rng(0)
    base = rng.normal(0, 10, 300)
    found = tasks_study._compared(np.stack([base, base + 1], axis=1), names)
    assert found["ag"]["gain"] == pytest.approx({"value": 1, "low": 1, "high": 1})
    assert found["independent"]["gain"]["value"] == 0
    assert found["ag"]["value"]["high"] - found["ag"]["value"]["low"] > 1
    truth = rng.random(300) < 0.5
    scores = np.stack([rng.normal(0, 1, 300), rng.normal(0, 1, 300) + 2 * truth], axis=1)
    area = tasks_study._compared_auc(scores, truth, names)
    assert area["ag"]["gain"]["low"] > 0
    assert area["ag"]["value"]["value"] == pytest.approx(auc(scores[:, 1], truth))


def test_the_answer_names_what_is_clear_of_zero_and_says_so_if_nothing_is():
    def numbers(low, high):
        return {"gain": {"value": (low + high) / 2, "low": low, "high": high}}

    labels = {"independent": "independent", "l2r": "chain", "ag": "pairs"}
    said = {"independent": numbers(0, 0), "l2r": numbers(1, 2), "ag": numbers(-2, -1)}
    assert "chain better; pairs worse" in tasks_study._answer({"AUC": said}, labels)
    level = dict.fromkeys(labels, numbers(-1, 1))
    assert "no method differs" in tasks_study._answer({"AUC": level}, labels)


def numbers(value, low=None, high=None):
    return {"value": value, "low": value if low is None else low, "high": value if high is None else high}


def test_the_answer_on_labels_counts_the_cases_that_are_clear_and_tells_same_words_apart():
    def case(**gains):
        every = {m: numbers(*gains.get(m, (0.0, -0.1, 0.1))) for m in tasks_study.SCORERS}
        return {
            "auc": {m: {"gain": gain, "value": numbers(0.4 + gain["value"])} for m, gain in every.items()},
            "accuracy": {m: {"value": numbers(0.4 + 0.1 * (m == "ag"))} for m in every},
        }

    same, other = "very good, not bad / very bad, not good", "very good / very bad"
    found = {
        "sentiment": {"prompts": {"p": {same: case(ag=(0.2, 0.1, 0.3)), other: case(l2r=(0.05, -0.1, 0.1))}}},
        "rte": {"prompts": {"p": {other: case(r2l=(0.03, 0.01, 0.05))}}},
    }
    told = tasks_study.labels_answer(found)
    assert "1 of 2 (SST) and 1 of 1 (RTE)" in told
    assert "by up to 0.20 where both labels" in told
    assert "In 1 of them that AUC is above 0.5" in told  # 0.6, and 0.43
    assert "by up to 0.05 elsewhere" in told
    assert "40 to 50 %" in told
    assert tasks_study.same_words(same)
    assert not tasks_study.same_words(other)
