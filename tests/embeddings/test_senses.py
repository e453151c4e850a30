"""Word senses: the nearest mean vector wins, unseen lemmas fall back, and unanswered ones cost recall."""

import numpy as np
import pytest

from sense_toy import HOUSE, MONEY, write_corpus, xml
from unmask.embeddings.encoder import Encoder
from unmask.embeddings.figures import draw_senses, instances_by_sense, project
from unmask.embeddings.sense_corpus import Instance, gold_beside, read_gold, read_sentences
from unmask.embeddings.senses import BASELINE, Answers, Senses, fit, predict, score
from unmask.embeddings.standardise import Standardiser
from unmask.embeddings.wordnet import WordNet, find_wordnet
from unmask.errors import RunError, UsageError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("wsd"))


@pytest.fixture(scope="module")
def encoder(checkpoint):
    return Encoder.load(checkpoint("bert"), device="cpu")


@pytest.fixture(scope="module")
def senses(corpus, encoder):
    return fit(encoder, read_sentences(corpus), read_gold(gold_beside(corpus)), layers="last4")


def test_a_senses_vector_is_the_mean_of_its_instances(corpus, encoder, senses):
    gold = read_gold(gold_beside(corpus))
    found, everything = [], []
    for sentence in read_sentences(corpus):
        vectors, _ = encoder.vectors([sentence.words], layers="last4")
        for instance in sentence.instances:
            everything.append(vectors[instance.word])
            if gold[instance.id] == (MONEY,):
                found.append(vectors[instance.word])
    row = senses.keys.index(MONEY)
    assert senses.counts[row] == len(found) == 9
    np.testing.assert_allclose(senses.vectors[row], np.mean(found, axis=0), atol=1e-5)
    np.testing.assert_allclose(
        senses.standardiser.apply(senses.vectors)[row],
        Standardiser.fit(np.stack(everything)).apply(np.stack(found)).mean(axis=0),
        atol=1e-4,
    )
    assert senses.counts[senses.keys.index("walk%2:38:01::")] == 12  # each of several keys counts


def test_context_decides_between_senses_and_frequency_does_in_the_baseline(corpus, encoder, senses):
    answers = predict(senses, encoder, read_sentences(corpus))
    scores = score(answers, read_gold(gold_beside(corpus)))
    assert scores[BASELINE]["NOUN"].f1 == pytest.approx(9 / 12)
    for method in ("raw", "standardised"):
        assert scores[method]["NOUN"].f1 > 9 / 12
        assert scores[method]["VERB"].f1 == 1.0
    assert scores["raw"]["all"].instances == 24


def test_the_prior_pulls_towards_the_frequent_sense(senses):
    instance = Instance("x", "bank", "NOUN", 0)
    rare = senses.vectors[senses.keys.index(HOUSE)]
    assert senses.nearest(instance, rare, senses.vectors) == HOUSE
    assert senses.nearest(instance, rare, senses.vectors, prior=100.0) == MONEY
    assert senses.most_frequent(instance) == MONEY


def test_unseen_lemmas_fall_back_or_stay_unanswered(tmp_path, encoder, senses):
    path = tmp_path / "new.data.xml"
    path.write_text(xml([["the", ("a", "dog", "NOUN", "dog"), ("b", "bank", "NOUN", "bank")]]))
    alone = predict(senses, encoder, read_sentences(path))
    assert alone.by_method["raw"][0] is None
    helped = predict(senses, encoder, read_sentences(path), back_off=lambda lemma, pos: f"{lemma}%{pos}")
    assert {given[0] for given in helped.by_method.values()} == {"dog%NOUN"}
    assert alone.by_method["raw"][1] == helped.by_method["raw"][1]
    found = score(alone, {"a": ("dog%1",), "b": (alone.by_method["raw"][1],)})["raw"]["all"].record()
    assert found == {
        "instances": 2,
        "answered": 1,
        "precision": 1.0,
        "recall": 0.5,
        "f1": pytest.approx(2 / 3),
    }
    without = predict(senses, encoder, read_sentences(path), prior=0.0)
    assert list(without.by_method) == ["raw", "standardised", BASELINE]


def test_any_of_several_gold_keys_is_right():
    answers = Answers([Instance("a", "x", "NOUN", 0)], {"raw": ["x%2"]})
    assert score(answers, {"a": ("x%1", "x%2")})["raw"]["NOUN"].f1 == 1.0
    with pytest.raises(UsageError, match="has no gold key"):
        score(answers, {"b": ("x%1",)})


def test_saved_senses_answer_alike(tmp_path, corpus, encoder, senses):
    senses.save(tmp_path / "s.safetensors")
    again = Senses.load(tmp_path / "s.safetensors")
    assert (
        predict(again, encoder, read_sentences(corpus)).by_method
        == predict(senses, encoder, read_sentences(corpus)).by_method
    )
    (tmp_path / "bad.safetensors").write_bytes(b"no")
    with pytest.raises(RunError, match="fit them anew"):
        Senses.load(tmp_path / "bad.safetensors")
    with pytest.raises(UsageError, match="'unmask wsd fit' makes them"):
        Senses.load(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<corpus><sentence>", "syntax error"),
        ("<corpus></corpus>", "found none"),
        (xml([[("i", "", "N", "w")]]), "has no lemma"),
    ],
)
def test_files_that_are_no_corpus_are_refused(tmp_path, content, message):
    (tmp_path / "x.data.xml").write_text(content)
    with pytest.raises(UsageError, match=message):
        list(read_sentences(tmp_path / "x.data.xml"))
    with pytest.raises(UsageError, match="--gold"):
        gold_beside(tmp_path / "x.data.xml")
    (tmp_path / "x.gold.key.txt").write_text("only-an-id\n")
    with pytest.raises(UsageError, match="line 1"):
        read_gold(gold_beside(tmp_path / "x.data.xml"))


def test_a_corpus_without_gold_for_its_instances_is_refused(corpus, encoder):
    with pytest.raises(UsageError, match="do the ids of both files agree"):
        fit(encoder, read_sentences(corpus), {"other": ("x%1",)})


def wordnet(directory):
    """WordNet's database format, by hand: two nouns, a satellite adjective with its head, a licence line."""
    licence = "  1 This is the licence  \n"
    files = {
        f"{part}.{kind}": licence for part in ("index", "data") for kind in ("noun", "verb", "adj", "adv")
    }
    noun = f"{len(licence):08} 06 n 02 river_bank 0 bank 1 000 | sloping land  \n"
    second = f"{len(licence) + len(noun):08} 14 n 01 Bank 0 000 | money  \n"
    files["data.noun"] += noun + second
    files["index.noun"] += f"bank n 2 0 2 1 {len(licence) + len(noun):08} {len(licence):08}  \n"
    head = f"{len(licence):08} 00 a 01 fast 1 000 | quick  \n"
    satellite = (
        f"{len(licence) + len(head):08} 00 s 02 hurrying(p) 0 speedy a "
        f"002 + 00000001 n 0101 & {len(licence):08} a 0000 | swift  \n"
    )
    files["data.adj"] += head + satellite
    files["index.adj"] += f"hurrying a 1 1 & 1 0 {len(licence) + len(head):08}  \n"
    files["index.adj"] += f"speedy a 1 1 & 1 0 {len(licence) + len(head):08}  \n"
    for name, content in files.items():
        (directory / name).write_text(content)
    return directory


def test_wordnets_first_sense_is_read_from_its_files(tmp_path, monkeypatch):
    found = WordNet(wordnet(tmp_path))
    assert found.first_sense("bank", "NOUN") == "bank%1:14:00::"
    assert found.first_sense("hurrying", "ADJ") == "hurrying%5:00:00:fast:01"
    assert found.first_sense("speedy", "ADJ") == "speedy%5:00:10:fast:01"
    assert found.first_sense("bank", "VERB") is None
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    assert find_wordnet("auto").first_sense("Bank", "NOUN") == "bank%1:14:00::"
    assert find_wordnet("none") is None
    (tmp_path / "data.adv").unlink()
    with pytest.raises(UsageError, match=r"holds no data\.adv"):
        find_wordnet(str(tmp_path))


def test_the_picture_shows_the_instances_of_senses_that_have_enough(tmp_path, corpus, encoder):
    gold = read_gold(gold_beside(corpus))
    vectors, shown = instances_by_sense(encoder, read_sentences(corpus), gold, "bank", "noun", least=4)
    assert set(shown) == {MONEY}
    vectors, shown = instances_by_sense(encoder, read_sentences(corpus), gold, "bank", "noun")
    assert (len(vectors), shown.count(HOUSE)) == (12, 3)
    places = project(vectors)
    assert places.shape == (12, 2)
    assert places[:, 0].var() >= places[:, 1].var()
    draw_senses(vectors, shown, "bank", tmp_path / "bank.svg")
    assert f"{MONEY} group (9)" in (tmp_path / "bank.svg").read_text()  # in the legend
    with pytest.raises(UsageError, match="choose another word"):
        instances_by_sense(encoder, read_sentences(corpus), gold, "dog", "noun")
