"""Distilling a pair head: what it learns from, what it comes to, and what is refused."""

import json
import random

import pytest
import torch
import toy

from unmask.errors import UsageError
from unmask.inference.sentences import SentenceReader
from unmask.models.pair_head import FILE, FORMAT, read_pair_head
from unmask.training.distill import DistillSettings, _choose_texts, _in_bfloat16, distill
from unmask.training.pair_data import PairData, choose_blanks, collect, contexts_of


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return toy.write_corpus(tmp_path_factory.mktemp("text") / "corpus.txt", documents=120)


@pytest.fixture(scope="module")
def texts(corpus):
    return [line for line in corpus.read_text().splitlines() if line][:30]


def settings(corpus, model, **changes):
    small = {"texts": 60, "eval_texts": 30, "width": 32, "epochs": 4, "batch_size": 64, "eval_steps": 4}
    return DistillSettings(corpora=(f"toy={corpus}",), model=str(model), **small | changes)


@pytest.fixture(scope="module")
def distilled(tmp_path_factory, corpus, checkpoint):
    return distill(settings(corpus, checkpoint("bert")), tmp_path_factory.mktemp("head"))


@pytest.mark.parametrize("length", [4, 5, 9, 40])
def test_blanks_are_distinct_tokens_of_the_text(length):
    rng = random.Random(0)
    for _ in range(300):
        blanks = choose_blanks(length, rng)
        assert len(blanks) >= 2
        assert blanks == sorted(set(blanks))
        assert 0 <= blanks[0] <= blanks[-1] < length


def test_a_sequence_of_half_the_longest_length_is_read_whole(mlm_of):
    """The dots of a reaction separate molecules, not sentences."""
    reader, reaction = SentenceReader(mlm_of("bert")), "CC(=O)O.CCO>>CCOC(C)=O"
    tokens = list(reader(reaction).tokens)
    contexts = contexts_of(reader, [reaction] * 40, 2 * len(tokens), random.Random(0))
    assert len(tokens) > 4
    assert contexts == [tokens] * 40


def test_contexts_are_cut_to_the_longest_length(mlm_of, texts):
    contexts = contexts_of(SentenceReader(mlm_of("bert")), texts, 8, random.Random(0))
    assert contexts
    assert all(4 <= len(context) <= 8 for context in contexts)


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_targets_are_the_models_own_states(mlm_of, texts, architecture, monkeypatch):
    """Every target is asked for again, by itself."""
    mlm = mlm_of(architecture)
    asked = []
    plain = mlm.states_each

    def noted(ids, positions, *rest):
        asked.append((ids, positions))
        return plain(ids, positions, *rest)

    monkeypatch.setattr(mlm, "states_each", noted)
    data = collect(mlm, texts, max_length=12, seed="s")
    monkeypatch.undo()
    filled = [
        (row, int(place))
        for ids, positions in asked[1::2]
        for row, places in zip(ids, positions, strict=True)
        for place in dict.fromkeys(places.tolist())
    ]
    assert len(filled) == len(data)
    for n, (row, place) in enumerate(filled):
        assert row[data.positions[data.there[n]]] == data.tokens[n]
        assert place == data.positions[data.here[n]]
        assert row[place] == mlm.vocabulary.mask_id
        state = mlm.states(row[None], place)[0]
        assert torch.allclose(state, data.targets[n].float(), atol=2e-2, rtol=2e-3)
    assert torch.equal(data.targets, collect(mlm, texts, max_length=12, seed="s").targets)


def test_two_parts_joined_keep_their_blanks():
    def part(blanks, offset):
        n = torch.arange(blanks)
        return PairData(
            torch.full((blanks, 2), float(offset)), n + offset, n, n.flip(0), n, torch.zeros(blanks, 2), n
        )

    joined = PairData.joined([part(2, 10), part(3, 20)])
    assert joined.positions[joined.there].tolist() == [10, 11, 20, 21, 22]
    assert joined.positions[joined.here].tolist() == [11, 10, 22, 21, 20]


def test_the_head_learns_and_says_how_well(distilled):
    losses = [entry["held_out"] for entry in distilled.history]
    assert min(losses) < losses[0]
    head = read_pair_head(distilled.head)
    assert head.card == distilled.card
    assert {error.distance for error in head.card.held_out} >= {1, 2}
    average = sum(e.kl * e.pairs for e in head.card.held_out) / sum(e.pairs for e in head.card.held_out)
    without = sum(e.kl_without * e.pairs for e in head.card.held_out) / sum(
        e.pairs for e in head.card.held_out
    )
    assert average < without * 1.02
    assert "| 1 |" in (distilled.head.parent / "README.md").read_text()


def test_the_head_learns_as_much_in_bfloat16(distilled, corpus, checkpoint, tmp_path):
    """Its fillings are not quite the same: they are drawn from answers that are rounded."""
    fast = distill(settings(corpus, checkpoint("bert"), bf16=True), tmp_path)
    losses, plain = ([entry["held_out"] for entry in made.history] for made in (fast, distilled))
    assert fast.head.read_bytes() != distilled.head.read_bytes()
    assert losses[0] - min(losses) > 0.8 * (plain[0] - min(plain))


def test_a_head_to_start_from_counts_by_what_it_holds(distilled, corpus, checkpoint, tmp_path):
    """By a run's settings it is the same head as a file, in its directory and under another name."""
    same, other = tmp_path / "same.safetensors", tmp_path / "other.safetensors"
    same.write_bytes(distilled.head.read_bytes())
    other.write_bytes(distilled.head.read_bytes() + b" ")
    named = [
        settings(corpus, checkpoint("bert"), init_from=str(path)).to_dict()
        for path in (distilled.head, distilled.head.parent, same, other)
    ]
    assert named[0] == named[1] == named[2] != named[3]


def test_a_model_in_bfloat16_says_nearly_the_same_by_the_engine(mlm_of, texts):
    mlm = mlm_of("bert")
    half = _in_bfloat16(mlm)
    assert half.filled_by == "engine"
    assert next(mlm.model.parameters()).dtype == torch.float32
    fast, plain = (collect(m, texts, max_length=12, seed="s") for m in (half, mlm))
    every = torch.arange(mlm.vocabulary.size)
    said = [mlm.log_probs(data.states.float(), every) for data in (fast, plain)]
    divergences = (said[1].exp() * (said[1] - said[0])).sum(-1)
    assert 0 < float(divergences.mean()) < 1e-2


def test_a_finished_run_gives_the_same_head_again(distilled, corpus, checkpoint):
    before = distilled.head.read_bytes()
    again = distill(settings(corpus, checkpoint("bert")), distilled.head.parent)
    assert again.head.read_bytes() == before
    assert again.card == distilled.card


def test_a_fit_goes_on_from_another_head(distilled, corpus, checkpoint, tmp_path):
    """After a single small step it is still nearly as good as the head that it started from."""
    short = {"epochs": 0.01, "lr": 1e-6, "init_from": str(distilled.head)}
    further = distill(settings(corpus, checkpoint("bert"), **short), tmp_path / "further")
    fresh = distill(settings(corpus, checkpoint("bert"), **short | {"init_from": ""}), tmp_path / "fresh")
    best = min(entry["held_out"] for entry in distilled.history)
    lost, learned = further.history[0]["held_out"] - best, fresh.history[0]["held_out"] - best
    assert learned > 0
    assert abs(lost) < learned / 10
    told = [(made.head.parent / "README.md").read_text() for made in (further, fresh)]
    assert ["started from another head" in card for card in told] == [True, False]


def test_a_head_of_another_shape_is_no_start(distilled, corpus, checkpoint, tmp_path):
    with pytest.raises(UsageError, match="expected a pair head of"):
        distill(settings(corpus, checkpoint("bert"), width=16, init_from=str(distilled.head)), tmp_path)


def test_other_settings_are_refused(distilled, corpus, checkpoint):
    with pytest.raises(UsageError, match="seed"):
        distill(settings(corpus, checkpoint("bert"), seed=3), distilled.head.parent)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"corpora": ()}, "--corpus"),
        ({"texts": 0}, "texts"),
        ({"epochs": 0.0}, "epochs"),
        ({"lr": float("nan")}, "lr"),
        ({"max_length": 3}, "max_length"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused(changes, named):
    with pytest.raises(UsageError, match=named):
        DistillSettings(**{"corpora": ("a=b",), **changes})


def test_few_held_out_texts_are_asked_about_with_several_sets_of_blanks(tmp_path):
    (tmp_path / "few.txt").write_text("\n".join(f"text number {n}" for n in range(60)))
    chosen = _choose_texts(settings(tmp_path / "few.txt", "no model", texts=200, eval_texts=50))
    assert {name: len(texts) for name, texts in chosen.items()} == {"held-out": 50, "train": 200}
    assert len(set(chosen["held-out"])) == 10
    assert len(set(chosen["train"])) == 50
    assert not set(chosen["held-out"]) & set(chosen["train"])


def test_a_corpus_too_small_is_refused(tmp_path, checkpoint):
    (tmp_path / "few.txt").write_text("one line.\ntwo lines.\n")
    with pytest.raises(UsageError, match="2: give more text"):
        distill(settings(tmp_path / "few.txt", checkpoint("bert")), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_texts_too_short_are_refused(tmp_path, checkpoint):
    (tmp_path / "short.txt").write_text("\n".join(f"w{n}" for n in range(100)))
    with pytest.raises(UsageError, match="too short"):
        distill(settings(tmp_path / "short.txt", checkpoint("bert"), max_length=4), tmp_path / "out")


def test_the_file_is_half_precision_and_carries_its_card(distilled):
    from safetensors import safe_open

    with safe_open(distilled.head, "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
        assert json.loads(file.metadata()[FORMAT])["weights"] == distilled.card.weights
    assert distilled.head.name == FILE
