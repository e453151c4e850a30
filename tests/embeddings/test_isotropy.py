"""The measures are what their definitions say, and standardised vectors are standard anywhere."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.isotropy import draw, isotropy_by_layer, measure, remover
from unmask.embeddings.standardise import Moments, Standardiser, save_standardisers
from unmask.errors import RunError, UsageError

TEXTS = [
    f"the {a} {b} {c}."
    for a, b, c in itertools.product(
        ("old", "red", "big"), ("man", "dog"), ("walks", "is in the bank", "plays")
    )
]


def skewed(rows=400, width=12, seed=0):
    """Far from even: a shared offset, one rogue dimension, one dimension that never changes."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(rows, width)) * generator.gamma(1.0, size=width)
    vectors[:, 3] = vectors[:, 3] * 40 + 300
    vectors[:, 5] = 7.0
    return vectors.astype(np.float32)


def test_the_measures_are_those_of_all_pairs():
    vectors = skewed(60)
    cosines = [
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        for a, b in itertools.combinations(vectors.astype(float), 2)
    ]
    found = measure(vectors)
    assert found.cosine == pytest.approx(np.mean(cosines))
    values = np.linalg.svd(vectors - vectors.mean(axis=0, dtype=float), compute_uv=False) ** 2
    assert found.leading_1 == pytest.approx(values[0] / values.sum())
    assert found.leading_3 == pytest.approx(values[:3].sum() / values.sum())
    assert found.directions == pytest.approx(values.sum() ** 2 / (values**2).sum())
    assert found.one_dimension == pytest.approx(found.cosine, rel=0.05)  # the rogue dimension's doing


def test_even_vectors_are_found_even():
    found = measure(np.random.default_rng(0).normal(size=(3000, 20)))
    assert abs(found.cosine) < 0.01
    assert found.directions > 19
    assert found.leading_1 < 0.07


def test_standardised_vectors_have_zero_mean_and_unit_deviation():
    vectors = skewed()
    even = Standardiser.fit(vectors).apply(vectors)
    assert np.abs(even.mean(axis=0, dtype=float)).max() < 1e-5
    changing = np.arange(12) != 5
    assert np.abs(even.std(axis=0, dtype=float)[changing] - 1).max() < 1e-5
    assert np.abs(even[:, 5]).max() == 0


def test_chunks_of_any_size_give_the_same_statistics():
    vectors = skewed()
    moments = Moments(12)
    for chunk in np.split(vectors, [0, 1, 7, 200]):
        moments.add(chunk)
    whole = Standardiser.fit(vectors)
    np.testing.assert_allclose(moments.standardiser().mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(moments.standardiser().deviation, whole.deviation, rtol=1e-10)


def test_a_file_of_statistics_gives_the_same_in_another_process(tmp_path):
    vectors = skewed()
    fitted = Standardiser.fit(vectors)
    save_standardisers({"2": fitted}, tmp_path / "s.safetensors", {"model": "toy"})
    np.save(tmp_path / "v.npy", vectors)
    code = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from unmask.embeddings.standardise import Standardiser\n"
        "d = Path(sys.argv[1]); s = Standardiser.load(d / 's.safetensors', '2')\n"
        "np.save(d / 'e.npy', s.apply(np.load(d / 'v.npy')))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "e.npy"), fitted.apply(vectors))


def test_statistics_of_other_layers_or_sizes_are_refused(tmp_path):
    path = tmp_path / "s.safetensors"
    save_standardisers({"1": Standardiser.fit(skewed())}, path, {})
    with pytest.raises(UsageError, match="of layers 1, not of 2"):
        Standardiser.load(path, "2")
    with pytest.raises(UsageError, match="12 dimensions, got 5"):
        Standardiser.load(path, "1").apply(np.zeros((2, 5), np.float32))
    with pytest.raises(UsageError, match="no standardiser at"):
        Standardiser.load(tmp_path / "absent.safetensors", "1")
    path.write_bytes(b"nonsense")
    with pytest.raises(RunError, match="fit it anew"):
        Standardiser.load(path, "1")
    with pytest.raises(UsageError, match="at least two vectors"):
        Standardiser.fit(np.zeros((1, 4)))


def test_the_remover_leaves_nothing_along_the_leading_components():
    vectors = skewed()
    rest = remover(vectors, 2)(vectors).astype(float)
    assert np.abs(rest.mean(axis=0)).max() < 1e-3
    _, _, rows = np.linalg.svd(vectors - vectors.mean(axis=0, dtype=float), full_matrices=False)
    assert np.abs(rest @ rows[:2].T).max() < 1e-2
    np.testing.assert_allclose(
        rest @ rows[2:].T, (vectors - vectors.mean(axis=0, dtype=float)) @ rows[2:].T, atol=1e-2
    )


def test_a_survey_measures_every_layer_on_texts_it_was_not_fitted_on(checkpoint):
    encoder = Encoder.load(checkpoint("electra"))
    found = isotropy_by_layer(encoder, TEXTS, seed=3)
    assert list(found.measures) == ["0", "1", "2"]
    assert found.texts == len(TEXTS)
    order = draw(TEXTS, 2000, np.random.default_rng(3))
    fitted, held = (encoder.vectors(part, layers=2)[0] for part in (order[::2], order[1::2]))
    raw, even = found.measures["2"]["raw"], found.measures["2"]["standardised"]
    assert raw.cosine == pytest.approx(measure(held).cosine, abs=1e-4)
    assert even.cosine == pytest.approx(measure(Standardiser.fit(fitted).apply(held)).cosine, abs=1e-4)
    assert abs(even.cosine) < abs(raw.cosine)
    again = isotropy_by_layer(encoder, TEXTS, seed=3)
    assert again.measures == found.measures


def test_a_sample_is_drawn_evenly_from_a_stream():
    """Each of 20 texts is kept with probability 1/4: 400 times 100 ± 9, here within 4 deviations."""
    generator = np.random.default_rng(0)
    kept = np.zeros(20)
    for _ in range(400):
        for text in draw(map(str, range(20)), 5, generator):
            kept[int(text)] += 1
    assert kept.sum() == 2000
    assert np.abs(kept - 100).max() < 36


def test_one_text_is_not_enough(checkpoint):
    with pytest.raises(UsageError, match="at least two texts"):
        isotropy_by_layer(Encoder.load(checkpoint("bert")), ["the dog"])
