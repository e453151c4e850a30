"""What the fuzz suite (tests/fuzz) found, each in a plain test of its own."""

import json

import numpy as np
import pytest
import torch
from torch.distributions import kl_divergence

import unmask
from tiny import save_tiny
from unmask import PairConditionals, Support, UnmaskError, UsageError, construct
from unmask.evaluation.sentences import read_sentences
from unmask.memory import is_out_of_memory, parse_bytes
from unmask.models.load import load_language_model
from unmask.text.lines import read_lines

LOGITS = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TWO = "the [MASK] [MASK] at the bank"


@pytest.fixture(scope="module")
def joint() -> unmask.PairJoint:
    return construct("ag", PairConditionals.from_logits(*LOGITS))


def test_a_message_is_one_line_that_can_be_printed_whatever_it_quotes() -> None:
    line = str(UsageError("two\nlines, half a \ud800, a \x1b[31m colour, a \u202e turn and שלום"))
    assert line == r"two lines, half a \ud800, a \x1b[31m colour, a \u202e turn and שלום"
    assert len(str(UsageError("x" * 10**6))) < 2000


class TestJoints:
    def test_the_mode_is_the_likeliest_filling(self, joint) -> None:
        assert joint.mode.tolist() == list(joint.top(1)[0].ids)

    @pytest.mark.parametrize("name", ["mean", "variance", "stddev"])
    def test_ids_have_no_moments(self, joint, name: str) -> None:
        with pytest.raises(UsageError, match="names"):
            getattr(joint, name)

    @pytest.mark.parametrize("name", ["cdf", "icdf", "expand", "rsample"])
    def test_what_means_nothing_for_tokens_is_refused(self, joint, name: str) -> None:
        with pytest.raises(UsageError):
            getattr(joint, name)(torch.tensor([0, 0]))

    @pytest.mark.parametrize("generator", [0, "seed", np.random.default_rng(0)])
    def test_a_generator_that_is_not_torchs(self, joint, generator) -> None:
        with pytest.raises(UsageError, match="generator"):
            joint.sample(2, generator)

    def test_factors_are_of_one_filling(self, joint, mlm_of) -> None:
        for made in (joint, unmask.fill(TWO, mlm=mlm_of("bert"), method="chain", support=9)):
            several = torch.stack([support.ids[:2] for support in made.supports], dim=1)
            with pytest.raises(UsageError, match="one filling"):
                made.factors(several)

    def test_fillings_of_strings_are_described(self, mlm_of) -> None:
        found = unmask.fill(TWO, mlm=mlm_of("bert"), candidates=4)
        (described,) = found.describe(["man", "is"])
        assert described.tokens == ("man", "is")

    def test_what_is_no_table_of_conditionals(self) -> None:
        with pytest.raises(UsageError, match="conditionals"):
            construct("l2r", 3)

    def test_a_pair_and_a_chain_have_a_divergence_both_ways(self, mlm_of) -> None:
        pair = unmask.fill(TWO, mlm=mlm_of("bert"), candidates=4, support=9)
        chain = unmask.fill(TWO, mlm=mlm_of("bert"), method="chain", support=9)
        for p, q in ((pair, chain), (chain, pair)):
            every = p.enumerate_support()
            log_p, log_q = p.log_prob(every).double(), q.log_prob(every).double()
            assert float(kl_divergence(p, q)) == pytest.approx(float((log_p.exp() * (log_p - log_q)).sum()))


class TestTables:
    @pytest.mark.parametrize(
        "table",
        [
            LOGITS[0].to_sparse(),
            LOGITS[0].to("meta"),
            torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]),
            [torch.ones(2), torch.ones(3)],
        ],
        ids=["sparse", "meta", "nested", "ragged"],
    )
    def test_a_table_that_is_not_dense(self, table) -> None:
        with pytest.raises(UsageError, match="a_given_b"):
            PairConditionals.from_logits(table, LOGITS[1])

    @pytest.mark.parametrize("cast", [lambda a: a[::-1], lambda a: a.astype(">f8"), lambda a: a.astype("g")])
    def test_arrays_that_torch_does_not_take_as_they_are(self, cast) -> None:
        array = cast(LOGITS[0].numpy())
        plain = np.ascontiguousarray(array, dtype=np.float64)
        found, expected = (PairConditionals.from_logits(one, LOGITS[1]) for one in (array, plain))
        assert torch.equal(found.a_table, expected.a_table)

    def test_a_support_that_is_none(self) -> None:
        with pytest.raises(UsageError, match="a_support"):
            PairConditionals.from_logits(*LOGITS, a_support=3)

    @pytest.mark.parametrize(
        "ids", [[1, 2], np.array([1]), torch.ones(2), torch.ones(2, 2, dtype=torch.long)]
    )
    def test_the_ids_of_a_support_are_a_row_of_whole_numbers(self, ids) -> None:
        with pytest.raises(UsageError, match="support"):
            Support(ids)

    @pytest.mark.parametrize("size", [-3, 0, 10**12, 1.5, "3"])
    def test_the_size_of_a_numbered_support(self, size) -> None:
        with pytest.raises(UsageError, match="size"):
            Support.numbered(size)


class TestQuestions:
    @pytest.mark.parametrize("text", [np.int64(3), torch.tensor(3), np.array("x")])
    def test_an_array_without_a_length_is_no_list_of_texts(self, text, mlm_of) -> None:
        for function in (unmask.fill, unmask.score_sentences):
            with pytest.raises(UsageError, match="text"):
                function(text, mlm=mlm_of("bert"))

    @pytest.mark.parametrize("value", [10**400, torch.ones(2), np.ones(2)])
    def test_a_number_that_is_no_float(self, value) -> None:
        with pytest.raises(UsageError, match="tolerance"):
            unmask.Query(TWO, options={"tolerance": value})

    def test_pairs_that_can_not_be_looked_up(self) -> None:
        with pytest.raises(UsageError, match="pairs"):
            unmask.Query(TWO, options={"pairs": ["ag"]})

    @pytest.mark.parametrize("progress", [3, "bar", print])
    def test_a_progress_that_is_none(self, progress, mlm_of) -> None:
        for function in (unmask.fill, unmask.compare, unmask.score_sentences):
            with pytest.raises(UsageError, match="progress"):
                function(TWO, mlm=mlm_of("bert"), progress=progress)

    @pytest.mark.parametrize("device", [3, 10**400, ["cpu"], None])
    def test_a_device_that_is_no_name(self, device, checkpoint) -> None:
        with pytest.raises(UsageError, match="device"):
            unmask.load(checkpoint("bert"), device=device)

    def test_a_masked_lm_of_no_model(self, mlm_of) -> None:
        for model, tokenizer in (("bert", mlm_of("bert").tokenizer), (mlm_of("bert").model, 3)):
            with pytest.raises(UsageError):
                unmask.MaskedLM(model, tokenizer)


@pytest.mark.parametrize("path", ["\x00", "x" * 5000])
def test_what_no_file_can_be_called(path: str) -> None:
    with pytest.raises(UnmaskError):
        list(read_lines(path))
    with pytest.raises(UnmaskError):
        read_sentences(f"text={path}")


def test_an_amount_of_memory_that_is_a_tensor() -> None:
    assert parse_bytes(torch.tensor(10**9)) == 10**9
    with pytest.raises(UsageError, match="memory"):
        parse_bytes(torch.tensor(2.5))


def test_torchs_way_of_running_out_of_memory_is_known() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**58)
    assert is_out_of_memory(raised.value)
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


def test_a_worker_of_the_server_tells_it_as_pythons_own() -> None:
    from unmask.web.deadline import Deadline
    from unmask.web.pool import Pool

    pool = Pool(workers=1, queue=1)
    try:
        for work, kind in (
            (lambda _: torch.empty(2**58), MemoryError),
            (lambda _: torch.ones(2) @ 3, TypeError),
        ):
            assert isinstance(pool.submit(work, Deadline(60)).exception(), kind)
    finally:
        pool.close()


class TestMutants:
    @pytest.mark.parametrize(
        "wrong", [{"first": None}, {"measured": 3}, {"measured": ["x"]}, {"progress": 3}]
    )
    def test_scores(self, mlm_of, wrong: dict) -> None:
        with pytest.raises(UsageError, match=next(iter(wrong))):
            unmask.score_mutants("MKTAYIAKQR", "M1A", mlm=mlm_of("esm"), **wrong)

    @pytest.mark.parametrize("wrong", [{"first": None}, {"targets": 3}, {"progress": 3}])
    def test_scans(self, mlm_of, wrong: dict) -> None:
        with pytest.raises(UsageError, match=next(iter(wrong))):
            unmask.scan_mutants("MKTAYIAKQR", [1], mlm=mlm_of("esm"), **wrong)


class TestFoundByTheCampaign:
    @pytest.mark.parametrize("wrong", [{"texts": "a\udfffb"}, {"prefix": "\ud800"}, {"suffix": ["\ud800"]}])
    def test_half_characters_in_a_sentence_to_score(self, mlm_of, wrong: dict) -> None:
        with pytest.raises(UsageError, match="not valid Unicode"):
            unmask.score_sentences(**{"texts": ["a b"], "mlm": mlm_of("bert")} | wrong)

    def test_a_pair_head_that_is_no_path(self, mlm_of) -> None:
        mlm = mlm_of("bert")
        with pytest.raises(UsageError, match="pair_head"):
            unmask.load(mlm.model, mlm.tokenizer, pair_head=3)

    @pytest.mark.parametrize("text", ["", "  "])
    @pytest.mark.parametrize("architecture", ["bert", "roberta"])
    def test_nothing_to_score_behind_a_prefix(self, mlm_of, text: str, architecture: str) -> None:
        with pytest.raises(UsageError, match="it is empty"):
            unmask.score_sentences(text, "chain", mlm=mlm_of(architecture), prefix="the man")

    def test_a_model_type_that_is_no_word(self, tmp_path) -> None:
        (tmp_path / "config.json").write_text('{"model_type": {}}')
        with pytest.raises(UnmaskError, match="model_type"):
            load_language_model(str(tmp_path))

    def test_tokens_without_numbers(self) -> None:
        with pytest.raises(UsageError, match="dense tensor"):
            Support(torch.arange(3)).indices(torch.empty(2, device="meta", dtype=torch.long))

    @pytest.mark.parametrize("candidates", [[2], 2.5, 0, "all"])
    def test_candidates_of_a_sentence_score(self, mlm_of, candidates: object) -> None:
        with pytest.raises(UsageError, match="candidates"):
            unmask.score_sentences("the man", "ag-chain", mlm=mlm_of("bert"), candidates=candidates)

    @pytest.mark.parametrize("name", ["per", "support"])
    def test_words_that_are_arrays(self, mlm_of, name: str) -> None:
        with pytest.raises(UsageError, match=name):
            unmask.score_sentences("the man", mlm=mlm_of("bert"), **{name: np.array([])})

    def test_more_sweeps_than_anybody_waits_for(self) -> None:
        table = PairConditionals.from_logits([[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
        with pytest.raises(UsageError, match="sweeps"):
            construct("ag", table, sweeps=10**9)

    def test_a_backend_that_is_no_word(self) -> None:
        with pytest.raises(UsageError, match="backend"):
            unmask.load(backend=np.array([[1, 2]]))

    def test_a_config_with_null_for_a_number(self, tmp_path) -> None:
        save_tiny("bert", tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"layer_norm_eps": None}))
        with pytest.raises(UnmaskError, match="layer_norm_eps"):
            unmask.load(str(tmp_path))

    def test_the_home_of_nobody(self) -> None:
        with pytest.raises(UsageError, match="home directory"):
            read_sentences("text=~no such user/texts.txt")

    def test_a_support_of_quantized_ids(self) -> None:
        ids = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
        with pytest.raises(UsageError, match="whole numbers"):
            Support(ids)
