"""Every field of a query is found on every surface, with one default and one line of help.

Where a surface has it otherwise, the table below says how: an evaluation has many texts, chosen by its data,
and several methods with their options in one setting.
"""

import inspect
import re
from dataclasses import fields
from typing import Annotated, Any

import pytest
import typer

import unmask
from unmask import PairConditionals, Query, UsageError
from unmask.cli import app
from unmask.evaluation.settings import Settings
from unmask.inference.methods import CHAIN_OPTIONS
from unmask.inference.query import DEFAULTS, SPECS, QueryKeywords, TableKeywords
from unmask.joints import GridJoint
from unmask.joints.options import declared_options
from unmask.joints.pair import PairJoint
from unmask.values import Spec, Whole

FIELDS = [f.name for f in fields(Query)]
OF_ONE_METHOD = ("method", "options")
EVALUATED = {
    "text": "data",
    "method": "methods",
    "options": "methods",  # hcb:order=ba
    "include": "methods",  # the pivots that they name
    "targets": "support",  # the true words of an example are any
    "truncate": "data",  # a sentence that is too long is left out
}
"""Fields of a query that are other settings of an evaluation."""
OF_ALL_TOKENS = ("explain", "Conditional", "Marginals", "Map", "Compatibility")
"""Commands and requests that are about the joint over all tokens, and take no targets."""
OWN_TEXT = ("score", "sample")
"""Commands whose text may also be a file, or be missing."""


def command(name: str) -> dict[str, Any]:
    """The parameters of a command by name."""
    return {parameter.name: parameter for parameter in typer.main.get_command(app).commands[name].params}


def test_every_field_has_one_line_of_help_and_a_flag() -> None:
    assert list(SPECS) == FIELDS
    for name, spec in SPECS.items():
        assert spec.help.endswith(".")
        assert "\n" not in spec.help
        assert name == "text" or spec.flags[0].startswith("--")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", ["fill", "score", "compare"])
def test_python(name: str, field: str) -> None:
    function = getattr(unmask, name)
    if name == "compare" and field in OF_ONE_METHOD:
        assert field not in inspect.signature(function).parameters
        return
    parameter = inspect.signature(function).parameters[field]
    assert f"\n    {field}: {SPECS[field].help}" in function.__doc__
    if field != "text":
        assert parameter.default == DEFAULTS[field]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert field in (TableKeywords if name == "compare" else QueryKeywords).__optional_keys__


def test_type_checkers_know_every_field_and_option() -> None:
    options = {name for kind in unmask.CONSTRUCTIONS.values() for name in declared_options(kind)}
    assert {*FIELDS, *options, *CHAIN_OPTIONS} - {"text"} == QueryKeywords.__optional_keys__
    assert QueryKeywords.__optional_keys__ - TableKeywords.__optional_keys__ >= set(OF_ONE_METHOD)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", ["fill", "score", "sample", "compare", "explain", "evaluate"])
def test_command_line(name: str, field: str) -> None:
    known = command(name)
    if name == "evaluate" and field in EVALUATED:
        assert EVALUATED[field] in known
        return
    if (name == "compare" and field in OF_ONE_METHOD) or (name in OF_ALL_TOKENS and field == "targets"):
        assert field not in known
        return
    parameter = known[field]
    if field == "text":
        assert name in OWN_TEXT or parameter.help == SPECS[field].help
        return
    assert parameter.opts == list(SPECS[field].flags)
    assert parameter.help == SPECS[field].help
    assert (DEFAULTS[field] if parameter.default is None else parameter.default) == DEFAULTS[field]


QUESTIONS = ("Fill", "Score", "Sample", "Compare", "Conditional", "Marginals", "Map", "Compatibility")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_http(name: str, field: str) -> None:
    schemas = pytest.importorskip("unmask.web.request_schemas")
    known = getattr(schemas, f"{name}Request").model_fields
    left_out = OF_ONE_METHOD if name in ("Compare", "Map") else ()
    if field in left_out or (name in OF_ALL_TOKENS and field == "targets"):
        assert field not in known
        return
    if (name, field) == ("Score", "text"):
        assert "braces" in known[field].description  # what is scored is there, no blank
    else:
        assert known[field].description == SPECS[field].help
    if field == "text":
        assert known[field].is_required()
    elif field == "options":
        assert known[field].get_default(call_default_factory=True).given() == DEFAULTS[field]
    else:
        assert known[field].get_default() == DEFAULTS[field]


def test_http_has_every_option_of_every_construction() -> None:
    schemas = pytest.importorskip("unmask.web.request_schemas")
    described = schemas.FillRequest.model_json_schema()["$defs"]["Options"]["properties"]
    methods = {method: declared_options(kind) for method, kind in unmask.CONSTRUCTIONS.items()}
    for method, options in {**methods, "grid": declared_options(GridJoint), "chain": CHAIN_OPTIONS}.items():
        for name, spec in options.items():
            told = rf"\b{method}\b[a-z0-9, -]*: {re.escape(spec.help)}"
            assert re.search(told, described[name]["description"])


@pytest.mark.parametrize("field", FIELDS)
def test_evaluation(field: str) -> None:
    known = {f.name: f for f in fields(Settings)}
    if field in EVALUATED:
        assert EVALUATED[field] in known
        return
    assert known[field].default == DEFAULTS[field]
    assert known[field].metadata["spec"] is SPECS[field]


@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
def test_every_option_of_a_construction_is_described(method: str) -> None:
    """A keyword argument without a description would be no option on any surface."""
    kind = unmask.CONSTRUCTIONS[method]
    keywords = {
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert keywords - {"method", "cloze"} == set(declared_options(kind))


class FewRounds(PairJoint):
    """A construction whose option has a range of its own."""

    def __init__(
        self, conditionals: PairConditionals, *, rounds: Annotated[int, Spec(Whole(0, 50), "Few rounds.")] = 0
    ) -> None:
        """Nothing is made of it here."""


def test_http_knows_every_methods_own_range_of_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = pytest.importorskip("unmask.web.request_schemas")
    monkeypatch.setitem(unmask.CONSTRUCTIONS, "few", FewRounds)
    options = schemas._options()
    for rounds in (0, 50, schemas.MAX_ROUNDS):  # of the one, of both, of ag-published
        assert options(rounds=rounds).given() == {"rounds": rounds}
    for rounds in (-1, schemas.MAX_ROUNDS + 1):
        with pytest.raises(ValueError, match="rounds"):
            options(rounds=rounds)
    assert "few: Few rounds." in options.model_fields["rounds"].description
    for method, rounds in (("few", 51), ("ag-published", 0)):
        with pytest.raises(UsageError, match=f"'rounds' of {method}"):
            Query(method=method, options={"rounds": rounds})
