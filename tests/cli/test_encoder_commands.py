"""The commands that put encoders to work: embed, isotropy, wsd."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from sense_toy import write_corpus
from unmask.embeddings.sense_corpus import gold_beside, read_gold
from unmask.embeddings.senses import BASELINE

TEXTS = [f"the {a} {b} walks." for a in ("old", "red", "big", "a") for b in ("man", "dog", "cat")]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("wsd"))


def test_embed_says_what_it_wrote(tmp_path, texts, bert, run):
    told = run("embed", texts, "-o", tmp_path / "v.npy", "-m", bert, "--layers", "last4", "--json")
    answer = json.loads(told.out)
    assert np.load(tmp_path / "v.npy").shape == (answer["rows"], answer["width"]) == (60, 32)
    said = run("embed", texts, "-o", tmp_path / "s.safetensors", "-m", bert, "--unit", "sentence")
    assert said.out.startswith("12 vectors of 32 dimensions from 12 texts")
    assert load_file(tmp_path / "s.safetensors")["vectors"].shape == (12, 32)


def test_embed_counts_long_texts_and_words_that_vanish(tmp_path, checkpoint, run):
    path = tmp_path / "t.txt"
    path.write_text("the dog " * 80 + "\n\u200d the\n", encoding="utf-8")
    said = run("embed", path, "-o", tmp_path / "v.npy", "-m", checkpoint("bert"), "--long", "truncate")
    assert "1 text longer than the model's window: cut" in said.err
    assert "of 1 word the tokenizer leaves nothing" in said.err
    refused = run("embed", path, "-o", tmp_path / "w.npy", "-m", checkpoint("bert"), "--long", "refuse")
    assert (refused.code, "--long split or truncate" in refused.line) == (2, True)


def test_a_refused_embedding_is_not_in_the_way_of_the_mended_command(tmp_path, texts, bert, run):
    assert run("embed", texts, "-o", tmp_path / "v.npy", "-m", bert, "--layers", "9").code == 2
    assert run("embed", texts, "-o", tmp_path / "v.npy", "-m", bert, "--layers", "1").code == 0


def test_isotropy_measures_draws_and_saves_what_embed_applies(tmp_path, texts, bert, run):
    made = run(
        *("isotropy", texts, "-m", bert, "--json"),
        *("--standardiser", tmp_path / "s.safetensors", "--figure", tmp_path / "f.png"),
    )
    layers = json.loads(made.out)["layers"]
    assert list(layers) == ["0", "1", "2"]
    assert abs(layers["2"]["standardised"]["cosine"]) < abs(layers["2"]["raw"]["cosine"])
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    run("embed", texts, "-o", tmp_path / "raw.npy", "-m", bert)
    run("embed", texts, "-o", tmp_path / "even.npy", "-m", bert, "--standardiser", tmp_path / "s.safetensors")
    held = load_file(tmp_path / "s.safetensors")
    expected = (np.load(tmp_path / "raw.npy") - held["2/mean"]) / held["2/deviation"]
    np.testing.assert_allclose(np.load(tmp_path / "even.npy"), expected, atol=1e-4)
    assert "standardised" in run("isotropy", texts, "-m", bert).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("embed", "absent.txt", "-o", "v.npy"), "absent.txt does not exist"),
        (("embed", "TEXTS", "-o", "v.txt"), "ends in .npy"),
        (("embed", "TEXTS", "-o", "v.npy", "--layers", "9"), "layers 0 (its embeddings) to 2"),
        (("embed", "TEXTS", "-o", "v.npy", "--unit", "letter"), "unknown unit 'letter'"),
        (("isotropy", "TEXTS", "--figure", "f.txt"), "expected a picture"),
        (("isotropy", "TEXTS", "--standardiser", "s.json"), "ends in .safetensors"),
        (("wsd", "fit", "TEXTS", "-o", "s.json"), "ends in .safetensors"),
        (("wsd", "fit", "TEXTS", "-o", "s.safetensors"), "no gold keys beside"),
        (("wsd", "fit", "TEXTS", "-o", "absent/s.safetensors"), "there is no directory 'absent'"),
        (("wsd", "picture", "bank", "--corpus", "TEXTS", "-o", "absent/p.png"), "no directory 'absent'"),
        (("isotropy", "TEXTS", "--standardiser", "absent/s.safetensors"), "no directory 'absent'"),
        (("isotropy", "TEXTS", "--figure", "absent/f.png"), "there is no directory 'absent'"),
        (("isotropy", "TEXTS", "--remove", "32"), "32 dimensions, of which 32 can't be removed"),
        (("isotropy", "TEXTS", "--seed", "-1"), "Invalid value for '--seed'"),
    ],
)
def test_misuse_is_one_line(tmp_path, texts, bert, run, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    outcome = run(*(texts if a == "TEXTS" else a for a in arguments), "-m", bert)
    assert outcome.code == 2
    assert message in outcome.line
    assert not (tmp_path / "v.npy").exists()


def test_the_command_line_fits_predicts_evaluates_and_draws(tmp_path, corpus, checkpoint, run):
    out = tmp_path / "senses.safetensors"
    fitted = run("wsd", "fit", corpus, "-o", out, "-m", checkpoint("bert"), "--json")
    assert (json.loads(fitted.out)["senses"], json.loads(fitted.out)["instances"]) == (4, 24)
    predicted = run("wsd", "predict", corpus, "-s", out, "--wordnet", "none", "--raw", "--prior", "0")
    lines = dict(line.split() for line in predicted.out.splitlines())
    assert len(lines) == 24
    assert lines["w0"] in ("walk%2:38:00::", "walk%2:38:01::")
    scored = run("wsd", "evaluate", corpus, "-s", out, "--wordnet", "none", "--json")
    answer = json.loads(scored.out)["corpora"]["toy"]
    gold = read_gold(gold_beside(corpus))
    assert answer["raw"]["all"]["f1"] == pytest.approx(np.mean([lines[i] in gold[i] for i in lines]))
    assert answer[BASELINE]["all"]["f1"] == pytest.approx(21 / 24)
    shown = run("wsd", "evaluate", corpus, "-s", out, "--wordnet", "none").out
    assert "most frequent" in shown
    assert "lemmas that were never seen get no answer, for want of a WordNet" in " ".join(shown.split())
    drawn = run(
        "wsd", "picture", "bank", "--corpus", corpus, "-o", tmp_path / "p.png", "-m", checkpoint("bert")
    )
    assert "12 instances of 2 senses" in drawn.out
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    other = run("wsd", "evaluate", corpus, "-s", out, "-m", "english")
    assert other.code == 2
    assert "32 dimensions, the model 384" in other.line


def test_senses_are_for_the_weights_that_they_were_fitted_with(tmp_path, corpus, checkpoint, run):
    out = tmp_path / "senses.safetensors"
    run("wsd", "fit", corpus, "-o", out, "-m", checkpoint("bert"), "--layers", "1")
    other = run("wsd", "predict", corpus, "-s", out, "-m", checkpoint("distilbert"), "--wordnet", "none")
    assert other.code == 2
    assert "fitted with other weights" in other.line


def test_gold_keys_may_stand_elsewhere(tmp_path, corpus, checkpoint, run):
    out, bare = tmp_path / "senses.safetensors", tmp_path / "bare.data.xml"
    bare.write_bytes(corpus.read_bytes())
    run("wsd", "fit", corpus, "-o", out, "-m", checkpoint("bert"), "--layers", "1")
    scoring = ("wsd", "evaluate", bare, "-s", out, "--wordnet", "none", "--json")
    assert "give them with --gold" in run(*scoring).line
    found = json.loads(run(*scoring, "--gold", gold_beside(corpus)).out)["corpora"]
    assert found["bare"][BASELINE]["all"]["f1"] == pytest.approx(21 / 24)
    twice = run(*scoring, "--gold", gold_beside(corpus), "--gold", gold_beside(corpus))
    assert "expected --gold once per corpus, got 2 for 1" in twice.line
