"""Mutants of a sequence, with whatever they may be given."""

from typing import Any

from fuzz_values import anything, mostly
from harness import attempt, cases
from hypothesis import given
from hypothesis import strategies as st

import unmask
from tiny import PROTEIN
from unmask import CONSTRUCTIONS

sequences = mostly(st.just(PROTEIN), st.text("ACDEFGHIKLMNPQRSTVWYXZ*-acd ", max_size=12), anything)
named = st.sampled_from(["M1A", "K2R:T3S", "M1A:K2R:T3S", "A4G"])
mutants = mostly(
    named | st.lists(named, min_size=1, max_size=3, unique=True),
    st.sampled_from(["M1M", "A1G", "M99A", "", ":", "M1A:M1C", "m1a", "M-1A", "M1", ["M1A", "M1A"], []]),
    anything,
)
scorings = mostly(st.sampled_from(["joint", "wt-marginals", "masked-marginals", "matched"]), anything)
more = mostly(
    st.fixed_dictionaries({}, optional={"method": st.sampled_from(list(CONSTRUCTIONS)), "first": st.just(1)}),
    st.dictionaries(
        st.sampled_from(["first", "method", "measured", "targets", "progress"]), anything, max_size=1
    ),
)


@cases(60)
@given(sequence=sequences, mutants=mutants, scoring=scorings, more=more)
def test_scores(mlm_of, sequence: Any, mutants: Any, scoring: Any, more: dict[str, Any]) -> None:
    given = {name: value for name, value in more.items() if name != "targets"}

    def call() -> None:
        repr(unmask.score_mutants(sequence, mutants, scoring, mlm=mlm_of("esm"), **given))

    attempt("mutants", f"score_mutants({sequence!r}, {mutants!r}, {scoring!r}, {given!r})", call)


@cases(40)
@given(
    sequence=sequences,
    sites=mostly(st.lists(st.integers(1, 6), min_size=1, max_size=2, unique=True), anything),
    targets=mostly(st.sampled_from(["AC", "ACD", ["AC", "DE"]]), anything),
    scoring=scorings,
    more=more,
)
def test_scans(mlm_of, sequence: Any, sites: Any, targets: Any, scoring: Any, more: dict[str, Any]) -> None:
    given = {"targets": targets, "scoring": scoring} | {n: v for n, v in more.items() if n != "measured"}

    def call() -> None:
        repr(unmask.scan_mutants(sequence, sites, mlm=mlm_of("esm"), **given))

    attempt("mutants", f"scan_mutants({sequence!r}, {sites!r}, {given!r})", call)
