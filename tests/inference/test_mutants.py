"""`unmask.score_mutants` and `unmask.scan_mutants`: against sums that are written out on the plain model."""

import itertools
import json
import math
import sys

import pytest
import torch
from scipy import stats
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

import unmask
from tiny import BERT_SPECIALS
from unmask import UsageError
from unmask.inference.mutations import SCORINGS, parse_mutant, read_mutants
from unmask.inference.wild_type import AMINO_ACIDS

WILD = "MKTAYIAKQR"
NAMES = ["K2A:T3G", "K2C:Y5W", "M1V:T3S:Q9R", "K2E", "R10A"]


class Twin:
    """The plain model, asked one text at a time."""

    def __init__(self, mlm, model, letters=AMINO_ACIDS):
        self.model, self.mask = model, mlm.vocabulary.mask_id
        self.tokens = {letter: mlm.vocabulary.find(letter) for letter in letters}
        self.wild = mlm.tokenizer(WILD)["input_ids"]
        self.before = next(n for n, token in enumerate(self.wild) if token == self.tokens[WILD[0]])

    @torch.inference_mode()
    def says(self, letters, place):
        """log p of each letter at a place of a text; `_` in the text is a mask."""
        ids = list(self.wild)
        for n, letter in enumerate(letters):
            ids[self.before + n] = self.mask if letter == "_" else self.tokens[letter]
        logits = self.model(input_ids=torch.tensor([ids])).logits[0, self.before + place].double()
        log_probs = logits[list(self.tokens.values())].log_softmax(0)
        return dict(zip(self.tokens, log_probs.tolist(), strict=True))

    def pair(self, text, one, two, method="ag"):
        """The joint of two places of a text, from a table of both conditionals."""
        rows = [self.says(put(put(text, one, a), two, "_"), two) for a in self.tokens]
        columns = [self.says(put(put(text, two, b), one, "_"), one) for b in self.tokens]
        b_given_a = torch.tensor([list(row.values()) for row in rows])
        a_given_b = torch.tensor([list(column.values()) for column in columns]).T
        both = put(put(text, one, "_"), two, "_")
        alone = [torch.tensor(list(self.says(both, place).values())) for place in (one, two)]
        table = unmask.PairConditionals.from_logits(a_given_b, b_given_a, *alone)
        joint = unmask.construct(method, table)
        order = list(self.tokens)
        return lambda a, b: float(joint.log_prob([order.index(a), order.index(b)]))


def put(text, place, letter):
    return text[:place] + letter + text[place + 1 :]


@pytest.fixture(scope="module")
def esm(mlm_of):
    return mlm_of("esm")


@pytest.fixture(scope="module")
def twin(esm, plain_model):
    return Twin(esm, plain_model("esm"))


def written_out(twin, name, scoring):
    """The definitions of the table in `unmask.inference.mutant_scorers`, one by one."""
    mutant, text = parse_mutant(name, WILD), WILD
    for place, letter in zip(mutant.places, mutant.letters, strict=True):
        text = put(text, place, letter)
    masked = WILD
    for place in mutant.places:
        masked = put(masked, place, "_")
    total = 0.0
    for place in range(len(WILD)) if scoring == "pseudo-likelihood" else mutant.places:
        new, old = text[place], WILD[place]
        wild_masked, mutant_masked = put(WILD, place, "_"), put(text, place, "_")
        if scoring in ("matched", "pseudo-likelihood"):
            total += twin.says(mutant_masked, place)[new] - twin.says(wild_masked, place)[old]
            continue
        seen = {
            "wt-marginals": WILD,
            "mutant-marginals": text,
            "masked-marginals": masked,
            "wt-context": wild_masked,
            "mutant-context": mutant_masked,
        }[scoring]
        found = twin.says(seen, place)
        total += found[new] - found[old]
    return total


@pytest.mark.parametrize("scoring", [name for name in SCORINGS if name != "joint"])
def test_sums_over_sites_are_those_of_the_plain_model(scoring, esm, twin):
    found = unmask.score_mutants(WILD, NAMES, scoring, mlm=esm)
    assert [row.mutant for row in found] == NAMES
    assert [row.mutations for row in found] == [2, 2, 3, 1, 1]
    for row in found:
        singles = [written_out(twin, part, scoring) for part in row.mutant.split(":")]
        assert row.score == pytest.approx(written_out(twin, row.mutant, scoring), abs=1e-4)
        assert row.additive == pytest.approx(math.fsum(singles), abs=1e-4)
        assert row.epistasis == pytest.approx(row.score - row.additive, abs=1e-9)


def test_sums_in_the_wild_types_context_have_no_epistasis(esm):
    for scoring in ("wt-marginals", "wt-context"):
        assert all(abs(row.epistasis) < 1e-9 for row in unmask.score_mutants(WILD, NAMES, scoring, mlm=esm))


def test_a_single_mutant_is_the_same_to_all_scores_that_mask_its_site(esm):
    masking = ("joint", "masked-marginals", "wt-context", "mutant-context", "matched")
    scores = {unmask.score_mutants(WILD, "K2E", scoring, mlm=esm)[0].score for scoring in masking}
    assert max(scores) - min(scores) < 1e-5
    assert unmask.score_mutants(WILD, "K2E", mlm=esm)[0].epistasis == pytest.approx(0, abs=1e-9)


def test_the_joint_of_two_sites_is_that_of_their_table(esm, twin):
    q = twin.pair(WILD, 1, 2)
    for row in unmask.score_mutants(WILD, ["K2A:T3G", "T3W:K2C"], mlm=esm):
        new = dict(part[1:] for part in row.mutant.split(":"))
        one, two = new["2"], new["3"]
        gain, alone = q(one, two) - q("K", "T"), q(one, "T") + q("K", two) - 2 * q("K", "T")
        assert row.score == pytest.approx(gain, abs=1e-4)
        assert row.additive == pytest.approx(alone, abs=1e-4)
        assert row.epistasis == pytest.approx(gain - alone, abs=1e-4)


def test_a_scan_of_two_sites_has_every_combination_and_finds_the_best(esm, twin):
    """All 20 x 20 letters, as in the tables of GB1."""
    scan = unmask.scan_mutants(WILD, [2, 3], mlm=esm)
    rows = {row.mutant: row for row in scan}
    assert len(rows) == len(scan) == 399
    q = twin.pair(WILD, 1, 2)
    for one, two in itertools.product("AKW", "GTY"):
        name = ":".join(
            f"{old}{number}{new}" for number, old, new in ((2, "K", one), (3, "T", two)) if old != new
        )
        if name:
            assert rows[name].score == pytest.approx(q(one, two) - q("K", "T"), abs=1e-4)
    best = scan.top(5)
    assert [row.mutant for row in best] == sorted(rows, key=lambda name: -rows[name].score)[:5]
    doubles = [row for row in rows.values() if row.mutations == 2]
    again = unmask.score_mutants(WILD, [row.mutant for row in doubles], mlm=esm)
    assert [row.score for row in again] == pytest.approx([row.score for row in doubles], abs=1e-5)


def test_a_scan_of_four_sites_is_a_chain_of_pairs(esm, twin):
    """The grid over 20 letters is too large; the targets say what is tried, and not what q is over."""
    sites, letters = [1, 3, 5, 8], ["MA", "TG", "YFW", "KR"]
    scan = unmask.scan_mutants(WILD, sites, targets=letters, mlm=esm)
    assert len(scan) == 2 * 2 * 3 * 2 - 1
    masked = put(put(WILD, 4, "_"), 7, "_")  # the later sites, while the first two are filled
    first = twin.pair(masked, 0, 2)
    log_q = {}
    for one, two in itertools.product(*letters[:2]):
        second = twin.pair(put(put(WILD, 0, one), 2, two), 4, 7)
        for three, four in itertools.product(*letters[2:]):
            log_q[one + two + three + four] = first(one, two) + second(three, four)
    found = {}
    for row in scan:
        text = dict(zip(sites, "MTYK", strict=True)) | {
            int(part[1:-1]): part[-1] for part in row.mutant.split(":")
        }
        found["".join(text.values())] = row.score
    assert found.keys() | {"MTYK"} == log_q.keys()
    for letters_of, score in found.items():
        assert score == pytest.approx(log_q[letters_of] - log_q["MTYK"], abs=1e-4)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_a_scan_scores_as_the_list_does(scoring, esm):
    """Where all sites are mutated, as the joint of a list is that of the mutated sites alone."""
    scan = unmask.scan_mutants(WILD, [9, 2, 4], targets=["RK", "AC", "GD"], scoring=scoring, mlm=esm)
    rows = [row for row in scan if row.mutations == 3]
    assert len(rows) == 8
    assert rows[0].mutant == "K2A:A4G:Q9R"
    listed = unmask.score_mutants(WILD, [row.mutant for row in rows], scoring, mlm=esm)
    for one, other in zip(rows, listed, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.additive == pytest.approx(other.additive, abs=1e-5)


def test_a_scan_is_streamed(esm):
    """The first of 64 million combinations comes at once; more than the limit are refused."""
    scan = unmask.scan_mutants(WILD, [1, 2, 3, 4, 5], scoring="wt-context", mlm=esm)
    assert len(scan) == 20**5 - 1
    assert next(iter(scan)).mutant == "M1A:K2A:T3A:Y5A"
    with pytest.raises(UsageError, match="got 63,999,999"):
        unmask.scan_mutants(WILD, [1, 2, 3, 4, 5, 6], mlm=esm)


def test_forward_passes_are_shared_and_batched(esm, monkeypatch):
    """All doubles of two sites need a context per site, in one call."""
    calls = []
    run = type(esm).states_each
    monkeypatch.setattr(
        type(esm), "states_each", lambda self, ids, *rest: calls.append(len(ids)) or run(self, ids, *rest)
    )
    doubles = [f"K2{a}:T3{b}" for a, b in itertools.product("ACDEF", "GHILM")]
    unmask.score_mutants(WILD, doubles, "wt-context", mlm=esm)
    assert calls == [2]
    calls.clear()
    unmask.score_mutants(WILD, doubles, "mutant-marginals", mlm=esm)
    assert sum(calls) == 25 + 10  # each double, and each of its mutations alone
    assert len(calls) == 2


def test_results_by_number_of_mutations(esm):
    measured = [0.3, -1.0, 2.0, 0.5, 0.7]
    scores = unmask.score_mutants(WILD, NAMES, "matched", measured=measured, mlm=esm)
    rows = scores.by_mutations()
    assert [(row["mutations"], row["mutants"]) for row in rows] == [(1, 2), (2, 2), (3, 1), (None, 5)]
    assert rows[-1]["spearman"] == pytest.approx(
        stats.spearmanr([r.score for r in scores], measured).statistic
    )
    assert rows[2]["spearman"] is None
    assert all(row["spearman"] is None for row in unmask.score_mutants(WILD, NAMES, mlm=esm).by_mutations())
    plain = json.loads(json.dumps(scores.to_dict()))
    assert plain["rows"][1]["measured"] == -1.0
    assert plain["scoring"] == "matched"


def test_tables(esm, monkeypatch):
    pytest.importorskip("pandas")
    assert list(unmask.score_mutants(WILD, NAMES, mlm=esm).to_pandas()["mutant"]) == NAMES
    scan = unmask.scan_mutants(WILD, [2], targets="ACD", mlm=esm)
    assert len(scan.to_pandas(top=2)) == 2
    assert scan.to_dict(top=2)["rows"][0]["mutations"] == 1
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "3 mutants at 1 site" in repr(scan)


def save_letters(letters, directory):
    """Save a BERT that reads each of a few letters as a token, as models of DNA do."""
    backend = Tokenizer(
        models.WordLevel({t: i for i, t in enumerate([*BERT_SPECIALS, *letters])}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    ends = [(token, BERT_SPECIALS.index(token)) for token in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    roles = {f"{role.lower()}_token": f"[{role}]" for role in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    PreTrainedTokenizerFast(tokenizer_object=backend, **roles).save_pretrained(directory)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(BERT_SPECIALS) + len(letters), initializer_range=0.5, **sizes)
    BertForMaskedLM(config).save_pretrained(directory)
    return directory


@pytest.mark.parametrize("letters", ["ACGTN", "ACGUN"])
def test_a_model_of_dna_or_rna_needs_no_amino_acids(letters, tmp_path):
    """Its letters are all that it is asked about."""
    mlm = unmask.load(str(save_letters(letters, tmp_path / "model")))
    wild = f"ACG{letters[3]}ACG"
    assert len(unmask.scan_mutants(wild, [1, 2, 3], mlm=mlm)) == 5**3 - 1
    assert len(list(unmask.scan_mutants(wild, [1, 2, 3], mlm=mlm))) == 5**3 - 1
    with pytest.raises(UsageError, match="does not know the letter 'W': leave out"):
        unmask.score_mutants(wild, ["A1C:C2W", "A1G"], mlm=mlm)
    with pytest.raises(UsageError, match="does not know the letter 'W' of the wild type"):
        unmask.score_mutants("ACW", ["A1C"], mlm=mlm)


@pytest.mark.parametrize(
    ("mutants", "complaint"),
    [
        ([], "at least one mutant, got an empty list"),
        (7, "a list of them, got int"),
        (["K2A", 3], "mutant 2: expected a string, got int"),
        ("K2", "expected mutations as A24G:K30R, got 'K2'"),
        ("", "expected mutations as A24G:K30R"),
        ("W2A", "says W at 2, where the wild type has K"),
        ("K2A:T99G", "no position 99, its letters are numbered from 1 to 10"),
        ("K0A", "no position 0"),
        ("K2J", "does not know the letter 'J'"),
        ("K2K", "changes nothing"),
        ("K2A:K2G", "two mutations at one position"),
        (["K2A", "K2A"], "are the same mutant"),
        (["K2A:T3G", "T3G:K2A"], "'K2A:T3G' and 'T3G:K2A' are the same mutant"),
    ],
)
def test_mutants_that_cannot_be_are_refused_in_one_line(mutants, complaint, esm):
    with pytest.raises(UsageError, match=complaint) as refused:
        unmask.score_mutants(WILD, mutants, mlm=esm)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"scoring": "best"}, "unknown scoring 'best'"),
        ({"method": "best"}, "unknown method 'best'"),
        ({"measured": [1.0, 2.0]}, "got 2 for 1 mutants"),
        ({"measured": [math.nan]}, "finite numbers"),
    ],
)
def test_options_that_cannot_be_are_refused(options, complaint, esm):
    with pytest.raises(UsageError, match=complaint):
        unmask.score_mutants(WILD, "K2A", mlm=esm, **options)


@pytest.mark.parametrize(
    ("sites", "options", "complaint"),
    [
        ([], {}, "at least one"),
        ([2, 2], {}, "expected different sites"),
        ("2", {}, "a list of numbers"),
        ([0], {}, "a site"),
        ([11], {}, "no site 11: they are numbered from 1 to 10"),
        ([2], {"targets": "AA"}, "all different"),
        ([2], {"targets": ""}, "a string of letters"),
        ([2], {"targets": "J"}, "does not know the letter 'J'"),
        ([2], {"targets": "K"}, "not the wild type's own"),
        ([2, 3], {"targets": ["A"]}, "for each of 2, got 1"),
    ],
)
def test_scans_that_cannot_be_are_refused(sites, options, complaint, esm):
    with pytest.raises(UsageError, match=complaint):
        unmask.scan_mutants(WILD, sites, mlm=esm, **options)


def test_a_sequence_that_the_model_cannot_read_is_refused(esm, mlm_of):
    with pytest.raises(UsageError, match="string of letters"):
        unmask.score_mutants("MK T", "K2A", mlm=esm)
    long = WILD * (esm.window // len(WILD) + 1)
    with pytest.raises(UsageError, match=f"but the model's window holds {esm.window}: give the part"):
        unmask.score_mutants(long, "K2A", mlm=esm)
    with pytest.raises(UsageError, match="expected one that reads a letter"):
        unmask.score_mutants(WILD, "K2A", mlm=mlm_of("roberta"))


def test_letters_may_be_numbered_from_elsewhere(esm):
    shifted = unmask.score_mutants(WILD, "K102A:T103G", first=101, mlm=esm)[0]
    assert shifted.score == unmask.score_mutants(WILD, "K2A:T3G", mlm=esm)[0].score
    assert next(iter(unmask.scan_mutants(WILD, [102], first=101, targets="A", mlm=esm))).mutant == "K102A"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("variant,score\nK2A,1\n", "expected a column mutant"),
        ("", "got an empty file"),
        ("mutant\n", "has no mutants"),
        ("mutant,fitness\nK2A:T3,1\n", "line 2: expected mutations as A24G:K30R"),
        ("mutant,fitness\nK2A:T3G,high\n", "expected a number as fitness"),
        ("mutant,DMS_score\nK2A:T3G,nan\n", "line 2: expected a number as DMS_score, got 'nan'"),
        ("mutant,fitness\nK2A:T3G,1\n\nK2A:T3V,-inf\n", "line 4: expected a number as fitness"),
        ("fitness,mutant\n1\n", "line 2: expected mutations as A24G:K30R"),
        ("mutant,fitness\nK2A:T3G\n", "expected a number as fitness"),
        ("mutant\nK2A:T3G\nT3G:K2A\n", "are the same mutant"),
        ("mutant,fitness\n" + "A" * 140_000 + ",1\n", "line 2: expected a mutant per row"),
    ],
)
def test_files_that_cannot_be_are_refused(text, complaint, tmp_path):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_mutants(path, WILD)


def test_files_may_have_measurements(tmp_path):
    path = tmp_path / "m.tsv"
    path.write_text("mutant\tmutated_sequence\tDMS_score\nK2A:T3G\tMAG\t0.5\n")
    (mutant,), values = read_mutants(path, WILD)
    assert (mutant.places, mutant.letters, values) == ((1, 2), "AG", [0.5])
    path.write_text("mutant\nK2A\n")
    assert read_mutants(path, WILD)[1] is None
