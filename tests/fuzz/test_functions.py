"""The functions and classes of `unmask.__all__`, with whatever they may be given."""

from typing import Any

import pytest
import torch
from fuzz_values import (
    GOOD,
    anything,
    braced,
    fields_are_known,
    keywords,
    masked,
    mostly,
    numbers,
    odd_texts,
    sound_texts,
    texts,
)
from harness import attempt, cases
from hypothesis import given
from hypothesis import strategies as st

import unmask
from unmask.models.masked_lm import MaskedLM

COVERED = {
    *("fill", "score", "compare", "score_sentences", "load", "Query", "Support", "CausalLM", "MaskedLM"),
    *("construct", "PairConditionals", "CONSTRUCTIONS", "PairJoint"),  # test_tables.py
    *("score_mutants", "scan_mutants", "MutantScores", "MutantScan"),  # test_mutants.py
    *("Joint", "Filling", "TokenDistribution", "Score", "SentenceScores", "Diagnostics"),  # what they return
    *("Progress", "UnmaskError", "UsageError", "RunError", "__version__"),
}


def test_every_public_name_and_field_is_drawn() -> None:
    assert set(unmask.__all__) == COVERED
    assert fields_are_known()


@pytest.fixture(scope="module")
def models(mlm_of) -> dict[str, MaskedLM]:
    return {name: mlm_of(name) for name in ("bert", "roberta", "esm")}


def read(answer: Any) -> None:
    """Look at an answer as a user does."""
    repr(answer)
    if isinstance(answer, unmask.Score):
        answer.filling.text.encode()
        answer = answer.joint
    if isinstance(answer, unmask.Joint):
        for filling in answer.top(3):
            filling.text.encode()
        answer.diagnostics.to_dict()
    elif isinstance(answer, dict):
        for joint in answer.values():
            read(joint)
    elif hasattr(answer, "to_dict"):
        answer.to_dict()


PAIRS = sound_texts(("[MASK]",), 2)
SOUND = {"fill": masked, "score": braced, "compare": PAIRS, "score_sentences": sound_texts(("man", "the"), 2)}


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, Any, dict[str, Any]]:
    """Draw a function, its text or texts, and its keywords; more than half of them are as they should be."""
    name = draw(st.sampled_from(["fill", "fill", "fill", "score", "score", "compare"]))
    one = SOUND[name]
    text = draw(mostly(one | st.lists(one, min_size=1, max_size=3), odd_texts, st.lists(texts), anything))
    query = draw(keywords())
    if name == "compare" and draw(st.integers(0, 9)):
        query = {field: value for field, value in query.items() if field not in ("method", "options")}
    return name, text, query


one_or_many = st.one_of(texts, st.lists(texts, max_size=3), anything)


@cases(300)
@given(asked=questions(), model=st.sampled_from(["bert", "bert", "roberta", "esm"]))
def test_questions(models: dict[str, MaskedLM], asked: tuple[str, Any, dict[str, Any]], model: str) -> None:
    name, text, query = asked

    def call() -> None:
        read(getattr(unmask, name)(text, mlm=models[model], **query))

    attempt("questions", f"{name}({text!r}, {model}, {query!r})", call)


@cases(60)
@given(text=one_or_many, query=keywords(), other=st.dictionaries(st.text(max_size=5), anything, max_size=2))
def test_a_query_itself(text: Any, query: Any, other: Any) -> None:
    def call() -> None:
        made = unmask.Query(text, **{n: v for n, v in query.items() if n in GOOD})
        assert made == unmask.Query.of(made, {})
        hash(made), repr(made)
        unmask.Query.of(made, other)

    attempt("questions", f"Query({text!r}, {query!r}, {other!r})", call)


SCORED, METRICS = SOUND["score_sentences"], st.sampled_from(["pll", "pll-word", "chain", "ag-chain"])
SCORING = {
    "per": st.sampled_from(["sentence", "word", "token"]),
    "support": st.sampled_from(["all", "words"]),
    "candidates": st.sampled_from([1, 2]),
    "orders": st.sampled_from([1, 2, 3]),
    "seed": st.integers(0, 9),
}


@cases(100)
@given(
    given=mostly(SCORED | st.lists(SCORED, min_size=1, max_size=3), odd_texts, st.lists(texts), anything),
    metric=mostly(METRICS, anything),
    around=mostly(
        st.dictionaries(st.sampled_from(["prefix", "suffix"]), SCORED, max_size=1),
        st.dictionaries(st.sampled_from(["prefix", "suffix"]), texts | anything),
    ),
    more=mostly(
        st.fixed_dictionaries({}, optional=SCORING),
        st.dictionaries(st.sampled_from([*SCORING]), anything, max_size=1),
    ),
    model=st.sampled_from(["bert", "bert", "roberta", "esm", "causal"]),
)
def test_sentence_scores(models, causal, given, metric, around, more, model) -> None:
    lm = causal if model == "causal" else models[model]

    def call() -> None:
        scores = unmask.score_sentences(given, metric, mlm=lm, **around, **more)
        scores.to_dict(), scores.to_pandas(), repr(scores), list(scores)

    attempt("sentence scores", f"score_sentences({given!r}, {metric!r}, {model}, {around!r}, {more!r})", call)


@pytest.fixture(scope="module")
def causal(tmp_path_factory) -> unmask.CausalLM:
    from tiny import save_causal

    return unmask.CausalLM.from_pretrained(save_causal(tmp_path_factory.mktemp("causal")))


LOADED = ("device", "memory", "allow_pickle", "backend", "pair_head", "tokenizer")


@cases(60)
@given(
    how=st.sampled_from(
        ["load", "MaskedLM", "CausalLM", "CausalLM.from_pretrained", "MaskedLM.from_pretrained"]
    ),
    source=mostly(
        st.just("the checkpoint"),
        st.sampled_from(["the module", "\x00", "a/b", "../x", "x" * 5000]),
        anything,
    ),
    more=mostly(
        st.fixed_dictionaries({}, optional={"device": st.just("cpu"), "memory": st.just("4GB")}),
        st.dictionaries(
            st.sampled_from(LOADED),
            st.sampled_from(["1kB", "-1GB", "9" * 5000, "cuda:9", "light", "auto"]) | anything,
            min_size=1,
            max_size=2,
        ),
    ),
)
def test_loading(checkpoint, plain_model, mlm_of, how: str, source: Any, more: dict[str, Any]) -> None:
    if isinstance(source, str):
        given = {"the checkpoint": checkpoint("bert"), "the module": plain_model("bert")}
        source = given.get(source, source)

    def call() -> None:
        if how in ("MaskedLM", "CausalLM"):
            rest = {name: more[name] for name in ("device", "memory") if name in more}
            made = getattr(unmask, how)(source, more.get("tokenizer", mlm_of("bert").tokenizer), **rest)
        else:
            first, _, method = how.partition(".")
            function = getattr(unmask, first)
            rest = (
                more if how != "CausalLM.from_pretrained" else {n: more[n] for n in LOADED[:3] if n in more}
            )
            made = (getattr(function, method) if method else function)(source, **rest)
        repr(made)

    attempt("loading", f"{how}({type(source).__name__} {str(source)[:80]!r}, {more!r})", call)


@cases(40)
@given(
    mlm=mostly(st.none(), anything),
    progress=anything,
    name=st.sampled_from(["fill", "score", "compare", "score_sentences"]),
)
def test_a_model_or_a_progress_that_is_none(mlm: Any, progress: Any, name: str, models) -> None:
    given = {"mlm": models["bert"] if mlm is None else mlm}
    given |= {} if progress is None else {"progress": progress}
    text = "the {man} is" if name == "score" else "the [MASK] [MASK]"
    attempt("questions", f"{name}(..., {given!r})", lambda: read(getattr(unmask, name)(text, **given)))


@cases(50)
@given(
    ids=st.one_of(st.lists(st.integers(-2, 30), max_size=6).map(torch.tensor), anything),
    looked_up=anything,
    kind=st.sampled_from(["all", "words", "auto", 5]) | anything,
    size=numbers,
)
def test_supports(models, ids: Any, looked_up: Any, kind: Any, size: Any) -> None:
    vocabulary = models["bert"].vocabulary

    def call() -> None:
        support = unmask.Support(ids, vocabulary)
        len(support), repr(support)
        support.index(looked_up)
        support.indices(looked_up)

    attempt("supports", f"Support({ids!r}).index({looked_up!r})", call)
    attempt(
        "supports", f"by_kind({kind!r})", lambda: unmask.Support.by_kind(vocabulary, kind).indices(looked_up)
    )
    if not isinstance(size, int) or size < 10**6:
        attempt("supports", f"numbered({size!r})", lambda: unmask.Support.numbered(size))
