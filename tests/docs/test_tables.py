"""The tables of the results pages are those that the recipes write from the committed numbers."""

import re
import sys
import time
from pathlib import Path

import pytest

from unmask.models.pair_head import FILE

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

import results
from catalogue import RESULTS, ROOT, Result
from provenance import PAIR_HEAD, digests, read, stamp, write

TABLE = """
def tables(found):
    return {name: f"| {value} |" for name, value in found.items() if name != "made"}


def document(found):
    return f"# {found['small']}"
"""


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.name)
def test_the_pages_show_every_table_of_a_result_as_it_is_made_of_the_data(result):
    assert list(results.page_differences(result)) == []


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.name)
def test_every_result_names_a_command_and_pages_that_there_are(result):
    assert (ROOT / result.command[0]).is_file()
    for file in (result.tables, *result.pages, *result.figures):
        assert (ROOT / file).is_file()


@pytest.mark.parametrize("name", sorted({result.json for result in RESULTS}))
def test_no_result_names_a_path_of_the_machine_that_made_it(name):
    absolute = re.compile(r"(?<![\w.:/])/\w[\w.-]*/[\w.-]+")
    assert absolute.findall((ROOT / "docs" / "figures" / name).read_text(encoding="utf-8")) == []


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A result of two parts on a page, with its data, in a directory of its own."""
    for place in ("docs/figures", "recipes"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "recipes" / "small.py").write_text(TABLE)
    marks = "<!-- small: small -->\n<!-- end -->\n\n<!-- small: large -->\n<!-- end -->\n"
    (tmp_path / "page.md").write_text(f"# Page\n\n{marks}")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    result = Result(
        "small",
        "small.json",
        ("recipes/small.py", "--only", "{parts}", "--data", "{data}"),
        tables="recipes/small.py",
        mark="small",
        pages=("page.md",),
        minutes={"small": 1, "large": 2},
    )
    write(tmp_path / "docs" / "figures" / "small.json", {"small": 1}, {"small": NOW})
    results.write_pages(result)
    return result, tmp_path


NOW = {"date": "2026-11-18", "model": "english", "weights": "a" * 24}


def test_a_page_with_another_number_than_its_data_is_told(small):
    result, root = small
    assert list(results.page_differences(result)) == []
    write(root / "docs" / "figures" / "small.json", {"small": 2}, {})
    assert list(results.page_differences(result)) == ["page.md: 'small' differs from small.json"]


def test_a_number_on_a_page_without_data_is_told(small):
    result, root = small
    page = root / "page.md"
    page.write_text(page.read_text().replace("<!-- small: large -->\n", "<!-- small: large -->\n\n| 7 |\n\n"))
    assert len(list(results.page_differences(result))) == 1
    (root / "docs" / "figures" / "small.json").unlink()
    assert len(list(results.page_differences(result))) == 2


def test_a_page_says_once_that_numbers_were_never_made(small):
    result, root = small
    page, told = root / "page.md", "*Not measured yet: `python recipes/results.py --only small`"
    assert page.read_text().count(told) == 1
    assert "| 1 |" in page.read_text()
    (root / "docs" / "figures" / "small.json").unlink()
    assert [line.split(" has ")[0] for line in results.page_differences(result)] == [
        "page.md: 'small'",
        "page.md: 'large'",
    ]
    results.write_pages(result)
    assert page.read_text().count(told) == 1
    assert "| 1 |" not in page.read_text()
    assert list(results.page_differences(result)) == []
    write(root / "docs" / "figures" / "small.json", {"small": 1, "large": 2}, {})
    results.write_pages(result)
    assert told not in page.read_text()


def test_parts_that_would_end_after_the_time_that_is_left_are_not_begun(small, monkeypatch):
    result, root = small
    begun = []
    monkeypatch.setattr(results, "make", lambda _, parts, *__: begun.extend(parts) or True)
    for minutes, expected in ((0.5, []), (1.5, ["small"]), (9, ["small", "large"])):
        begun.clear()
        end = time.monotonic() + 60 * minutes
        assert results.make_all({result: ["small", "large"]}, root, root, end) == (len(expected) == 2)
        assert begun == expected


def test_data_that_no_page_shows_are_told(small):
    result, root = small
    write(root / "docs" / "figures" / "small.json", {"small": 1, "other": 2}, {})
    assert "is shown on no page" in next(results.page_differences(result))


def test_a_document_is_held_to_its_data_as_a_whole(small):
    result, root = small
    whole = Result(**vars(result) | {"document": "WHOLE.md"})
    assert len(list(results.page_differences(whole))) == 1
    (root / "WHOLE.md").write_text("# 1")
    assert list(results.page_differences(whole)) == []


def test_a_part_is_stale_if_it_was_never_made_or_with_other_weights(small):
    result, root = small
    figures = root / "docs" / "figures"

    def stale(now):
        return dict(results.stale_parts(result, now))

    assert stale(NOW) == {"large": "never made"}
    assert stale(NOW | {"date": "2027-01-01"}) == {"large": "never made"}
    assert "other weights" in stale(NOW | {"weights": "b" * 24})["small"]
    (figures / "small.json").unlink()
    assert set(stale(NOW)) == {"small", "large"}


def test_a_new_pair_head_makes_stale_only_what_depends_on_it(small):
    result, _ = small
    now = NOW | {"pair_head": "c" * 24}
    assert set(dict(results.stale_parts(result, now))) == {"large"}
    of_head = Result(**vars(result) | {"pair_head": True})
    assert set(dict(results.stale_parts(of_head, now))) == {"small", "large"}


def test_numbers_without_a_record_of_their_weights_are_stale(small):
    result, root = small
    figures = root / "docs" / "figures"
    (figures / "small.json").write_text('{"small": 1, "large": 2}')
    assert set(dict(results.stale_parts(result, NOW))) == {"small", "large"}


def test_the_command_of_a_result_names_the_parts_that_are_to_be_made(small):
    result, root = small
    command = results.command_of(result, ["small", "large"], Path("DATA"), root)
    assert command[1:] == ["recipes/small.py", "--only", "small", "large", "--data", "DATA"]


def test_check_fails_with_one_line_per_difference(small, monkeypatch, capsys):
    result, root = small
    monkeypatch.setattr(results, "RESULTS", (result,))
    monkeypatch.setattr(results, "stamp", lambda **_: NOW)
    monkeypatch.setattr(sys, "argv", ["results.py", "--check"])
    data = root / "docs" / "figures" / "small.json"
    write(data, {"small": 2}, {"small": NOW})
    assert results.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["page.md: 'small' differs from small.json", "small.json, large: never made"]
    places = [
        f"<!-- small: {name} -->\n\n| {value} |\n\n<!-- end -->\n"
        for name, value in (("small", 2), ("large", 3))
    ]
    (root / "page.md").write_text("".join(places))
    write(data, {"small": 2, "large": 3}, {"small": NOW, "large": NOW})
    assert results.main() == 0


def test_a_recipe_keeps_what_its_other_parts_were_made_with(tmp_path):
    path = tmp_path / "some.json"
    write(path, {"one": 1}, {"one": NOW})
    write(path, read(path) | {"two": 2}, {"two": NOW | {"weights": "b" * 24}})
    found = read(path)
    assert (found["one"], found["two"]) == (1, 2)
    assert [found["made"][part]["weights"][0] for part in ("one", "two")] == ["a", "b"]


def test_the_digest_of_the_weights_does_not_depend_on_the_pair_head(tmp_path):
    assert PAIR_HEAD == FILE
    for name in ("model.safetensors", "config.json", PAIR_HEAD, "README.md"):
        (tmp_path / name).write_text(name)
    before = digests(str(tmp_path))
    (tmp_path / PAIR_HEAD).write_text("another")
    (tmp_path / "README.md").write_text("another")
    after = digests(str(tmp_path))
    assert before["weights"] == after["weights"]
    assert before["pair_head"] != after["pair_head"]
    (tmp_path / "model.safetensors").write_text("another")
    assert digests(str(tmp_path))["weights"] != after["weights"]
    assert "pair_head" not in stamp(pair_head=False, model=str(tmp_path))
