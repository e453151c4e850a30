"""Whatever is wrong about a field of a query is one line, for any number of blanks and on every surface."""

import json
import sys

import numpy as np
import pytest

import unmask
from unmask import UsageError
from unmask.cli import main
from unmask.inference.query import SPECS

TEXTS = {1: "The [MASK] is here", 2: "The [MASK] [MASK] here", 3: "The [MASK] [MASK] [MASK]"}
HALF = "\ud800"
"""Half of a character: JSON and a terminal with broken bytes hand over such strings."""

WRONG = {
    "text": [None, 3, 1.5, True, b"The [MASK]", [], ["The [MASK]", 3], {"a": 1}, f"The [MASK] {HALF}"],
    "method": [None, 3, True, "", "magic", HALF, ["ag"], {"ag": 1}],
    "options": [
        3,
        True,
        "order=ba",
        ["order"],
        {1: 2},
        {"colour": 1},
        {"tolerance": 0},
        {"tolerance": -1e-6},
        {"tolerance": float("nan")},
        {"tolerance": float("inf")},
        {"tolerance": "fine"},
        {"tolerance": True},
        {"tolerance": [1e-6]},
        {"sweeps": -1},
        {"sweeps": 1.5},
        {"sweeps": True},
        {"sweeps": "many"},
    ],
    "candidates": [None, -1, -3, 1.5, True, np.float64(2), "many", "", HALF, [5], {"k": 5}],
    "completion": [None, 3, True, "guess", "", HALF, ["plain"]],
    "support": [None, 0, -1, 2.5, False, "verbs", "", HALF, [5], ["words"]],
    "include": [
        None,
        3,
        True,
        "man",
        b"man",
        {"man": 1},
        [""],
        [1.5],
        [True],
        [None],
        [-1],
        [HALF],
        [["man"]],
    ],
    "targets": [
        3,
        True,
        "he",
        b"he",
        {"he": 1},
        [],
        [[]],
        [["he"], []],
        ["he", 3],
        ["he", ["she"]],
        [["he"], "she"],
        [["he", 3], ["was"]],
        [["he"], [None]],
        [[["he"]]],
        ["he", "she", "he"],
        [["he", "he"], ["was"]],
        [5, 5],
        [1.5],
        [True],
        [-1],
        [""],
        [" "],
        [HALF],
    ],
    "seed": [None, -1, 2**63, 1.5, True, "0", [0], {"seed": 0}],
    "truncate": [None, 0, 1, "yes", "true", [True], 1.0],
}
OF_OTHER_METHODS = [
    ("hcb", {"order": "up"}),
    ("hcb", {"order": 1.5}),
    ("hcb", {"pivot": 1.5}),
    ("hcb", {"pivot": ""}),
    ("hcb", {"pivot": HALF}),
    ("hcb", {"pivot": [3]}),
    ("ag-published", {"rounds": 0}),
    ("ag-published", {"rounds": "40"}),
    ("ag-weighted", {"power": 1.5}),
    ("ag-weighted", {"power": -0.1}),
    ("ag-weighted", {"power": True}),
    ("ag-weighted", {"power": "half"}),
]
OF_MANY_BLANKS = [
    ("grid", {"tolerance": 1}),
    ("tree", {"block": 1}),
    ("chain", {"block": 3}),
    ("chain", {"block": True}),
    ("chain", {"beam": 0}),
    ("chain", {"beam": 2.5}),
    ("chain", {"pairs": "magic"}),
    ("chain", {"order": "up"}),
    ("chain", {"order": [0, -1]}),
    ("chain", {"order": 1.5}),
]
EACH = [
    *((field, value, {field: value}) for field, values in WRONG.items() for value in values),
    *(("options", options, {"method": method, "options": options}) for method, options in OF_OTHER_METHODS),
]


def refused(blanks: int, given: dict) -> str:
    """The line of the error that Python raises; no model is needed for it."""
    text = given.get("text", TEXTS[blanks])
    rest = {name: value for name, value in given.items() if name != "text"}
    with pytest.raises(UsageError) as error:
        unmask.fill(text, mlm=object(), **rest)
    return str(error.value)


def test_every_field_is_here() -> None:
    assert set(WRONG) == set(SPECS)


@pytest.mark.parametrize("blanks", TEXTS)
@pytest.mark.parametrize(("field", "value", "given"), EACH, ids=lambda value: ascii(value)[:40])
def test_python(field: str, value: object, given: dict, blanks: int) -> None:
    line = refused(blanks, given)
    assert "\n" not in line
    assert field in line or "option" in line
    line.encode()
    for function in (unmask.score, *([unmask.compare] if field not in ("method", "options") else [])):
        with pytest.raises(UsageError) as error:
            function(**{"text": "The {man}", **given}, mlm=object())
        assert field in str(error.value) or "option" in str(error.value)


@pytest.mark.parametrize("blanks", TEXTS)
@pytest.mark.parametrize(("method", "options"), OF_MANY_BLANKS)
def test_options_of_many_blanks(method: str, options: dict, blanks: int) -> None:
    assert next(iter(options)) in refused(blanks, {"method": method, "options": options})


def spelled(field: str, value: object) -> list[str] | None:
    """How a command line writes a wrong value, where it can."""
    if isinstance(value, bytes) or value in ("0", {"rounds": "40"}, {"pivot": 1.5}):
        return None  # as strings these are right
    if field == "text":
        return ["The [MASK] \udcff"] if isinstance(value, str) else None
    if field == "options":
        wrong = value if isinstance(value, dict) and 1 not in value else {"": value}
        ((name, one),) = wrong.items()
        return None if one in (True, "") or isinstance(one, list) else ["--option", f"{name}={one}"]
    if field == "targets":
        words = {"he": ["he,"], "3": ["he,she,he"]}.get(str(value))  # an empty word, a word twice
        return ["--targets", *words] if words else ["--targets", ""] if value == [""] else None
    if field == "include":
        return ["--include", ""] if value == [""] else None
    if field == "truncate":
        return ["--truncate=yes"] if value == "yes" else None
    return None if isinstance(value, list | dict) else [SPECS[field].flags[0], str(value)]


@pytest.mark.parametrize("blanks", TEXTS)
@pytest.mark.parametrize(("field", "value", "given"), EACH, ids=lambda value: ascii(value)[:40])
def test_command_line(field, value, given, blanks, monkeypatch, capsys) -> None:
    arguments = spelled(field, value)
    if arguments is None:
        return  # a command line has no such value
    text = [] if field == "text" else [TEXTS[blanks]]
    method = ["--method", given["method"]] if field == "options" and "method" in given else []
    of_two = "explain" if field in ("method", "options") else "compare"
    command = {1: "sample", 2: of_two, 3: "fill"}[blanks]
    monkeypatch.setattr(sys, "argv", ["unmask", command, *text, *method, *arguments, "-m", "/no/model"])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1), err
    assert "/no/model" not in err
    assert field.rstrip("s") in err or "option" in err or "Unicode" in err, err


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from unmask.web import Settings, create_app

    return TestClient(create_app(Settings(models={"none": "/no/model"}, hosts=None)))


@pytest.mark.parametrize("blanks", TEXTS)
@pytest.mark.parametrize(("field", "value", "given"), EACH, ids=lambda value: ascii(value)[:40])
def test_http(field, value, given, blanks, client) -> None:
    question = {"text": TEXTS[blanks], **given}
    if value == {"colour": 1}:
        question["options"] = {"colour": 1}
    try:
        body = json.dumps(question)
    except TypeError:
        return  # JSON has no such value
    if json.loads(body) != question:
        return  # nor this one: {1: 2} and NaN come as something else
    answer = client.post("/v1/fill", content=body.encode(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert set(answer.json()) == {"error"}
    assert "\n" not in answer.json()["error"]
    assert answer.json()["error"].startswith(field)


@pytest.mark.parametrize("blanks", TEXTS)
@pytest.mark.parametrize(
    "given",
    [
        {"candidates": 10**6},
        {"include": ["nosuchword"]},
        {"include": [10**9]},
        {"include": ["[SEP]"]},
        {"include": ["\ud800"]},
        {"targets": ["\u2603"]},
        {"targets": ["man", "[SEP]"]},
        {"targets": [10**9]},
        {"targets": [["man"], ["is"], ["at"], ["a"]]},
        {"targets": ["man", "MAN"]},
    ],
    ids=str,
)
def test_what_only_a_model_can_tell(given: dict, blanks: int, mlm_of) -> None:
    with pytest.raises(UsageError) as error:
        unmask.fill(TEXTS[blanks], mlm=mlm_of("bert"), **given)
    assert "\n" not in str(error.value)
