"""The samplers against exact laws, by chi-square tests; and what the user is told about chains."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from reference import p_value
from sequence_toy import TableConditionals, cloze_of, draw_tables, few
from unmask import UsageError, construct, lazy
from unmask.cli.sample import show_chains
from unmask.inference.exact import exact_conditionals
from unmask.inference.generation import cloze_of as cloze_to_fill
from unmask.inference.generation import sample_by_markov_chain, verdict
from unmask.inference.markov_chains import (
    BlockGibbs,
    Gibbs,
    Metropolis,
    Trace,
    diagnose,
    log_weight,
    run_chains,
    settled_below,
)
from unmask.inference.model_conditionals import ModelConditionals
from unmask.inference.query import Query
from unmask.joints.table import TableJoint
from unmask.serialize import markov_chains_answer
from unmask.text.cloze import Cloze
from unmask.text.support import Support
from unmask.text.vocabulary import Vocabulary

FALSE_ALARM = 1e-4
"""The rate at which each of these tests would fail by chance, were its seed not fixed."""


def table_of(*shape, seed=3):
    (logits, *_) = draw_tables(*shape, seed=seed, spread=1.0)
    log_q = logits.flatten().log_softmax(0).reshape(shape)
    return TableJoint(log_q, tuple(Support.numbered(n) for n in shape), method="table")


def last_of_many_chains(kernel, *, chains=3000, burn_in=25, seed=0):
    """One draw each from independent chains, which a chi-square test may take for independent draws."""
    generator = torch.Generator().manual_seed(seed)
    return run_chains(kernel, chains=chains, draws=1, burn_in=burn_in, thin=1, generator=generator).ids[:, 0]


def weights_of(field, energy):
    """The normalised weights of all fillings, one by one."""
    every = torch.tensor(list(itertools.product(*(s.ids.tolist() for s in field.supports))))
    w = log_weight(field, every, energy).softmax(0).numpy()
    return w.reshape([len(s) for s in field.supports])


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 3), (2, 2, 2, 3)])
@pytest.mark.parametrize("kernel", [Gibbs, BlockGibbs])
def test_gibbs_on_compatible_conditionals_draws_from_their_joint(kernel, shape):
    joint = table_of(*shape)
    samples = last_of_many_chains(kernel(TableConditionals(joint)))
    assert p_value(samples, joint.supports, joint.log_q.exp().numpy()) > FALSE_ALARM


@pytest.mark.parametrize("energy", ["mrf-prob", "mrf-logit"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 3)])
def test_metropolis_draws_from_its_field(energy, shape):
    joint = table_of(*shape)
    field = TableConditionals(joint)
    q = weights_of(field, energy)
    samples = last_of_many_chains(Metropolis(field, energy), burn_in=60)
    assert p_value(samples, joint.supports, q) > FALSE_ALARM
    wrong = joint.log_q.exp().numpy()  # and the test can tell the field from the joint
    assert p_value(samples, joint.supports, wrong) < 1e-9


@pytest.mark.parametrize("energy", ["mrf-prob", "mrf-logit"])
def test_metropolis_on_a_model_draws_from_the_construction_of_that_name(energy, mlm_of):
    mlm = mlm_of("bert")
    cloze, supports = cloze_of(mlm, 2), few(mlm, 3, 4)
    joint = construct(energy, exact_conditionals(mlm, cloze, supports))
    q = joint.log_block(slice(None), slice(None)).double().exp().numpy()
    field = ModelConditionals(mlm, cloze, supports)
    np.testing.assert_allclose(weights_of(field, energy), q, atol=1e-5)
    samples = last_of_many_chains(Metropolis(field, energy), chains=1500, burn_in=40)
    assert p_value(samples, supports, q) > FALSE_ALARM


def test_block_gibbs_on_two_blanks_of_a_model_draws_from_their_joint(mlm_of):
    mlm = mlm_of("bert")
    cloze, supports = cloze_of(mlm, 2), few(mlm, 3, 4)
    joint = construct("ag", exact_conditionals(mlm, cloze, supports))
    q = joint.log_block(slice(None), slice(None)).double().exp().numpy()
    samples = last_of_many_chains(BlockGibbs(ModelConditionals(mlm, cloze, supports)), burn_in=1)
    assert p_value(samples, supports, q) > FALSE_ALARM


def test_gibbs_on_a_model_settles_at_the_stationary_law_of_its_sweep(mlm_of):
    """Which is no joint with these conditionals: after a sweep it is p(b|a) u(a), not p(a|b) v(b)."""
    mlm = mlm_of("bert")
    cloze, supports = cloze_of(mlm, 2), few(mlm, 3, 4)
    table = exact_conditionals(mlm, cloze, supports)
    a_given_b, b_given_a = table.a_table.double().exp().numpy(), table.b_table.double().exp().numpy()
    values, vectors = np.linalg.eig(a_given_b @ b_given_a.T)
    u = np.real(vectors[:, np.argmax(np.real(values))])
    q = (u / u.sum())[:, None] * b_given_a
    samples = last_of_many_chains(Gibbs(ModelConditionals(mlm, cloze, supports)))
    assert p_value(samples, supports, q) > FALSE_ALARM


def test_the_same_seed_gives_the_same_chains_and_thinning_skips_sweeps():
    field = TableConditionals(table_of(3, 3))

    def run(seed, draws, thin):
        generator = torch.Generator().manual_seed(seed)
        return run_chains(Gibbs(field), chains=3, draws=draws, burn_in=4, thin=thin, generator=generator)

    assert torch.equal(run(1, 5, 1).ids, run(1, 5, 1).ids)
    assert not torch.equal(run(1, 5, 1).ids, run(2, 5, 1).ids)
    assert torch.equal(run(1, 3, 2).ids, run(1, 6, 1).ids[:, 1::2])
    assert run(1, 5, 1).ids.shape == (3, 5, 2)


def test_accept_rates_are_those_of_the_proposals():
    """Where the target is the proposal's own joint every proposal is taken; where not, some are refused."""
    independent = TableConditionals(
        TableJoint(
            torch.log(torch.outer(torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.3, 0.2]))).double(),
            (Support.numbered(2), Support.numbered(3)),
            method="table",
        )
    )
    generator = torch.Generator().manual_seed(0)
    always = run_chains(Metropolis(independent), chains=2, draws=20, burn_in=0, thin=1, generator=generator)
    assert always.accepted.tolist() == [1.0, 1.0]
    some = run_chains(
        Metropolis(TableConditionals(table_of(3, 4))),
        chains=2,
        draws=200,
        burn_in=0,
        thin=1,
        generator=generator,
    )
    assert ((some.accepted > 0.3) & (some.accepted < 1)).all()


def test_diagnostics_tell_settled_chains_from_stuck_ones():
    generator = torch.Generator().manual_seed(0)
    settled = run_chains(
        Gibbs(TableConditionals(table_of(3, 3))), chains=4, draws=200, burn_in=10, thin=1, generator=generator
    )
    found = diagnose(settled.sweeps)
    assert set(found) == {"log_weight", "blank 0", "blank 1"}
    assert found["log_weight"]["rhat"] < 1.02
    assert found["log_weight"]["ess"] > 200
    apart = torch.stack([torch.full((100,), float(c)) for c in range(4)]).double()
    stuck = Trace(torch.zeros(4, 100, 1, dtype=torch.long), apart + 0.01 * torch.rand(4, 100))
    assert diagnose(stuck)["log_weight"]["rhat"] > 2
    assert diagnose(stuck)["blank 0"] == {"ess": None, "rhat": None}  # it never moves


@pytest.mark.parametrize("sweeps", [20, 30, 40, 64, 100, 128])
@pytest.mark.parametrize("chains", [2, 4])
def test_chains_that_stand_still_at_different_fillings_have_not_settled(chains, sweeps):
    ids = torch.arange(chains)[:, None, None].expand(chains, sweeps, 1)
    found = diagnose(Trace(ids, -ids[..., 0].double()))
    assert max(row["rhat"] for row in found.values()) > 10
    (note,) = verdict(found, chains, sweeps, 1)
    assert "have not settled" in note
    shaken = diagnose(Trace(ids, -ids[..., 0].double() + 1e-6 * torch.rand(chains, sweeps).double()))
    assert shaken["log_weight"]["rhat"] == math.inf  # rounding is no movement


def test_one_chain_and_chains_that_never_move_are_not_called_settled():
    still = Trace(torch.zeros(4, 30, 1, dtype=torch.long), torch.zeros(4, 30).double())
    assert "can't be told" in verdict(diagnose(still), 4, 3, 10)[0]
    alone = Trace(torch.zeros(1, 30, 1, dtype=torch.long), torch.rand(1, 30).double())
    assert "take chains 2 or more" in verdict(diagnose(alone), 1, 3, 10)[0]


def test_chains_without_arviz_are_refused_before_any_work(mlm_of, monkeypatch):
    monkeypatch.setattr(lazy, "find_spec", lambda name: None)
    mlm = mlm_of("bert")
    with pytest.raises(UsageError, match=r"pip install 'unmask\[sample\]'"):
        sample_by_markov_chain(mlm, cloze_to_fill(mlm, "The [MASK] here"), "gibbs", Query())


def test_every_sweep_after_the_burn_in_is_judged_and_not_the_draws_alone():
    field = TableConditionals(table_of(3, 3))

    def run(draws, thin):
        generator = torch.Generator().manual_seed(5)
        return run_chains(Gibbs(field), chains=4, draws=draws, burn_in=10, thin=thin, generator=generator)

    few_drawn, all_drawn = run(3, 10), run(30, 1)
    assert few_drawn.ids.shape[1] == 3
    assert diagnose(few_drawn.sweeps) == diagnose(all_drawn.sweeps)
    assert all(row["rhat"] is not None for row in diagnose(few_drawn.sweeps).values())
    nothing = {"ess": None, "rhat": None}
    assert all(row == nothing for row in diagnose(run(19, 1).sweeps).values())


def test_no_more_sweeps_are_effective_than_there_were():
    """Values that go up and down by turns, for which arviz tells several times their number."""
    turns = torch.tensor([1.0, -1.0]).repeat(4, 20) + 0.1 * torch.rand(
        4, 40, generator=torch.Generator().manual_seed(0)
    )
    ids = torch.zeros(4, 40, 1, dtype=torch.long)
    assert diagnose(Trace(ids, turns.double()))["log_weight"]["ess"] == 160


def test_chance_alone_does_not_unsettle_short_chains():
    """Independent draws have settled by definition; 1.01 would say no of most chains of thirty."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.zeros(4, 30, 1, dtype=torch.long)
    rhats = [
        diagnose(Trace(ids, torch.randn(4, 30, generator=generator).double()))["log_weight"]["rhat"]
        for _ in range(40)
    ]
    assert max(rhats) < settled_below(30)
    assert sum(rhat > settled_below(100) for rhat in rhats) > 4


@pytest.mark.parametrize(
    ("sampler", "blanks", "told"),
    [
        ("gibbs", 1, None),
        ("block-gibbs", 1, None),
        ("metropolis", 1, None),
        ("gibbs", 2, "the method gibbs"),
        ("block-gibbs", 2, None),
        ("metropolis", 2, None),
        ("gibbs", 3, "has no formula"),
        ("block-gibbs", 3, "has no formula"),
        ("metropolis", 3, None),
    ],
)
def test_chains_are_called_lawless_where_they_are(sampler, blanks, told, mlm_of):
    mlm = mlm_of("bert")
    cloze = cloze_to_fill(mlm, length=blanks)
    settings = {"chains": 2, "draws": 20, "burn_in": 0, "thin": 1}
    query = Query(candidates=2, support=4)
    notes = [
        note
        for note in sample_by_markov_chain(mlm, cloze, sampler, query, **settings).notes
        if "R-hat" not in note
    ]
    assert len(notes) == (told is not None)
    assert told is None or told in notes[0]


@pytest.mark.parametrize("sampler", ["gibbs", "block-gibbs", "metropolis"])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "esm"])
def test_texts_of_a_length_after_a_prefix_keep_the_prefix(sampler, architecture, mlm_of):
    mlm = mlm_of(architecture)
    prefix = "MK" if architecture == "esm" else "The old man"
    cloze = cloze_to_fill(mlm, length=3, prefix=prefix)
    assert len(cloze.blanks) == 3
    found = sample_by_markov_chain(
        mlm, cloze, sampler, Query(candidates=4, support=12), chains=2, draws=3, burn_in=1, thin=1
    )
    assert found.draws.ids.shape == (2, 3, 3)
    assert all(text.startswith(prefix) for chain in found.texts for text in chain)
    assert found.passes > 0
    assert (found.draws.accepted is not None) == (sampler == "metropolis")
    assert any("has no formula" in note for note in found.notes) == (sampler != "metropolis")


def test_letters_of_a_protein_stand_together_unless_the_prefix_has_spaces(mlm_of):
    mlm = mlm_of("esm")
    letters = [mlm.vocabulary.find(letter) for letter in "AYI"]
    assert cloze_to_fill(mlm, length=3).filled(letters) == "AYI"
    assert cloze_to_fill(mlm, length=3, prefix="MK").filled(letters) == "MKAYI"
    assert cloze_to_fill(mlm, length=3, prefix="M K").filled(letters) == "M K A Y I"


def test_a_space_that_is_a_token_stays(mlm_of):
    mlm = mlm_of("roberta")
    ids = mlm.tokenizer.convert_tokens_to_ids(["Ġ", "i", "a"])
    assert cloze_to_fill(mlm, length=3, prefix="MKT").filled(ids) == "MKT ia"


def test_a_character_of_two_tokens_is_written_whole(mlm_of):
    known = mlm_of("roberta").vocabulary
    made = Vocabulary(known.tokenizer, known.size)
    made.tokens = (*known.tokens[:10], "Ġcaf", "Ã", "©", *known.tokens[13:])
    assert made.surface(10, 11, 12) == "café"
    cloze = Cloze((known.mask_id,) * 3, (0, 1, 2), ("The ", " ", " ", "."), made)
    assert cloze.filled([10, 11, 12]) == "The café."


def test_answers_tell_chains_that_stand_still_from_those_not_judged(mlm_of, capsys):
    mlm = mlm_of("bert")
    found = sample_by_markov_chain(
        mlm, cloze_of(mlm, 2), "gibbs", Query(), chains=2, draws=2, burn_in=0, thin=10
    )
    rhats = {"log_weight": math.inf, "blank 0": None, "blank 1": 1.05}
    judged = replace(found, diagnostics={name: {"ess": None, "rhat": rhat} for name, rhat in rhats.items()})
    answer = markov_chains_answer(judged, mlm, "gibbs", {"chains": 2, "sampling_seed": 0})
    settled = {name: (row["rhat"], row["settled"]) for name, row in answer["diagnostics"].items()}
    assert settled == {"log_weight": (None, False), "blank 0": (None, None), "blank 1": (1.05, True)}
    show_chains(answer)
    shown = {
        line.split()[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.strip()
    }
    assert (shown["log_weight"], shown["blank"]) == ("∞", "1.05")


def test_a_text_of_nothing_but_its_length(mlm_of):
    mlm = mlm_of("bert")
    cloze = cloze_to_fill(mlm, length=5)
    assert [cloze.ids[b] for b in cloze.blanks] == [mlm.vocabulary.mask_id] * 5
    assert len(cloze.ids) == 7
    assert cloze.filled([mlm.vocabulary.find(w) for w in ("the", "old", "man", "play", "##ing")]) == (
        "the old man playing"
    )


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"length": 0}, "at least 1 token, got length 0"),
        ({"length": -3}, "at least 1 token"),
        ({"length": 63}, "take length 62 or less"),
        ({"length": 60, "prefix": "the old man"}, "take length 59 or less"),
        ({}, "or length"),
        ({"length": 60, "prefix": "the old man", "truncate": True}, "only a template can be cut"),
        ({"template": "The [MASK]", "length": 3}, "leave out length"),
        ({"template": "[MASK] " * 63}, "window holds 64"),
        ({"template": "The man"}, "no blank"),
    ],
)
def test_templates_and_lengths_that_cannot_be_are_refused(asked, complaint, mlm_of):
    with pytest.raises(UsageError, match=complaint):
        cloze_to_fill(mlm_of("bert"), **asked)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"sampler": "hamilton"}, "unknown sampler"),
        ({"sampler": "metropolis", "energy": "kinetic"}, "unknown energy"),
        ({"chains": 0}, "number of chains, a whole number of at least 1"),
        ({"burn_in": -1}, "burn-in, a whole number of at least 0"),
        ({"thin": 0}, "between.*a whole number of at least 1"),
        ({"draws": 0}, "draws.*a whole number of at least 1"),
    ],
)
def test_runs_that_cannot_be_are_refused(options, complaint, mlm_of):
    mlm = mlm_of("bert")
    with pytest.raises(UsageError, match=complaint):
        sample_by_markov_chain(mlm, cloze_of(mlm, 2), query=Query(), **{"sampler": "gibbs", **options})
