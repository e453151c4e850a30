"""Readers: every form of the data sets gives the same sentences, and bad files one clear line."""

import gzip
import json
from pathlib import Path

import pytest
import toy_data
from toy_data import SENTENCES

from unmask.errors import RunError, UsageError
from unmask.evaluation.sentences import read_sentences

LABELED = [SENTENCES[i] for i in (0, 6, 2, 8, 4, 10, 5, 11)]


def tsv(rows: list[dict[str, str]], path: Path) -> Path:
    lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def renamed(row: dict[str, str]) -> dict[str, str]:
    return {"premise": row["sentence1"], "hypothesis": row["sentence2"], "label": row["gold_label"]}


def original_tsv(path: Path) -> Path:
    """As it is distributed: many columns, and fewer labels at the end of some lines."""
    rows = toy_data.snli_rows()
    header = "gold_label\tsentence1_parse\tsentence1\tsentence2\tpairID\tlabel1\tlabel2\tlabel3"
    lines = [f"{r['gold_label']}\t(S x)\t{r['sentence1']}\t{r['sentence2']}\t7\ta" for r in rows]
    path.write_text("\r\n".join([header, *lines]) + "\r\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "make",
    [
        lambda d: toy_data.snli_jsonl(d / "snli_1.0_dev.jsonl"),
        lambda d: original_tsv(d / "snli_1.0_dev.txt"),
        lambda d: tsv([renamed(r) for r in toy_data.snli_rows()], d / "dev.tsv"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_every_form_of_snli_gives_labeled_premises_and_hypotheses(tmp_path, make, zipped):
    path = make(tmp_path)
    if zipped:
        with gzip.open(f"{path}.gz", "wb") as file:
            file.write(path.read_bytes())
        path.unlink()
        path = Path(f"{path}.gz")
    for where in (path, tmp_path):
        found = read_sentences(f"snli={where}")
        assert found.texts == LABELED
        assert found.skipped == {"unlabeled": 2}


def test_quotes_are_plain_characters(tmp_path):
    tsv([{"premise": 'A "big" dog', "hypothesis": '"A man', "label": "neutral"}], tmp_path / "dev.tsv")
    assert read_sentences(f"snli={tmp_path}").texts == ['A "big" dog', '"A man']


def test_summaries_are_lines_or_json_lines(tmp_path):
    plain = toy_data.text_file(tmp_path / "summaries.txt", ["One summary.", "", "  Another\tone.  "])
    rows = [{"document": "long", "summary": "One summary."}, {"summary": "Another one."}]
    lines = tmp_path / "summaries.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in rows))
    assert read_sentences(f"xsum={plain}").texts == ["One summary.", "Another one."]
    assert read_sentences(f"xsum={plain}").skipped == {"blank": 1}
    assert read_sentences(f"xsum={lines}").texts == ["One summary.", "Another one."]
    assert read_sentences(f"text={plain}").texts == ["One summary.", "Another one."]


@pytest.mark.parametrize("data", ["snli", "snli=", "imdb=x", "text", "", "hub"])
def test_data_that_is_no_data_set_is_misuse(data):
    with pytest.raises(UsageError, match="snli=DIR, xsum=FILE, text=FILE or hub:NAME"):
        read_sentences(data)


@pytest.mark.parametrize("data", ["snli={}/absent", "xsum={}/absent.txt", "text={}/absent"])
def test_a_missing_file_is_misuse(tmp_path, data):
    with pytest.raises(UsageError, match="does not exist: check the path"):
        read_sentences(data.format(tmp_path))


def test_a_directory_without_a_split_is_misuse(tmp_path):
    with pytest.raises(UsageError, match="no development split of SNLI"):
        read_sentences(f"snli={tmp_path}")
    with pytest.raises(UsageError, match="is a directory: name a file"):
        read_sentences(f"text={tmp_path}")


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        (
            "dev.tsv",
            "text\tlabel\tid\nA dog.\tneutral\t1\n",
            UsageError,
            "expected the columns sentence1 and sent",
        ),
        ("dev.tsv", "text\tlabel\nA dog.\tneutral\n", UsageError, "expected the columns sentence1 and sent"),
        (
            "dev.tsv",
            "premise\thypothesis\tid\nA\tB\t1\n",
            UsageError,
            "expected a column gold_label or label",
        ),
        (
            "dev.tsv",
            "premise\thypothesis\tlabel\nA dog.\n",
            RunError,
            "line 2 has 1 fields, but the header has 3",
        ),
        ("dev.jsonl", '{"sentence1": "A"}\n', UsageError, "line 1: expected the columns"),
        (
            "dev.jsonl",
            '{"premise": "A", "hypothesis": 3, "label": "x"}\n',
            RunError,
            "expected a text in 'hyp",
        ),
        ("dev.jsonl", '{"premise": "A"\n', UsageError, "line 1: expected a JSON object"),
        ("dev.jsonl", "[1]\n", UsageError, "line 1: expected a JSON object"),
        ("dev.tsv", "premise\thypothesis\tlabel\nA\tB\t-\n", UsageError, "holds no sentence"),
        ("dev.tsv", "", UsageError, "holds no sentence"),
    ],
)
def test_wrong_files_are_one_clear_line(tmp_path, name, content, kind, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(kind, match=message):
        read_sentences(f"snli={tmp_path}")


def test_fields_hold_what_csv_would_not_read(tmp_path):
    long = "word " * 40_000
    (tmp_path / "dev.tsv").write_bytes(f"premise\thypothesis\tlabel\nA\rdog\t{long}\tx\n".encode())
    assert read_sentences(f"snli={tmp_path}").texts == ["A dog", long.strip()]


def test_json_lines_without_a_summary_are_misuse(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"document": "long"}\n')
    with pytest.raises(UsageError, match="expected the columns summary, got document"):
        read_sentences(f"xsum={tmp_path / 'x.jsonl'}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", b"cafe\ncaf\xe9\n", "line 2 is not UTF-8 text"),
        ("t.txt.gz", b"not gzipped", "can't be unpacked"),
        (
            "t.txt.gz",
            gzip.compress(b"A dog was in the house.\n" * 50, mtime=0)[:10] + b"\xff" * 40,
            "is damaged",
        ),
        ("t.txt.gz", gzip.compress(b"A dog was in the house.\n" * 50, mtime=0)[:-12], "ends too early"),
    ],
)
def test_damaged_files_are_one_clear_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((RunError, UsageError), match=message):
        read_sentences(f"text={tmp_path / name}")


@pytest.mark.slow
def test_the_hub_needs_its_package_or_reads_a_directory(tmp_path):
    rows = [{"premise": "A dog.", "hypothesis": "A cat.", "label": n} for n in ("neutral", "-", None, "-1")]
    (tmp_path / "validation.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    try:
        import datasets  # noqa: F401
    except ImportError:
        with pytest.raises(UsageError, match=r"pip install 'unmask\[hub\]'"):
            read_sentences(f"hub:{tmp_path}")
        return
    found = read_sentences(f"hub:{tmp_path}")
    assert (found.texts, found.skipped) == (["A dog.", "A cat."], {"unlabeled": 3})
    with pytest.raises(UsageError, match="no split 'odd'"):
        read_sentences(f"hub:{tmp_path}:odd")


def test_json_lines_are_known_by_what_they_hold(tmp_path):
    """Whatever the file is called: otherwise its syntax would be taken for sentences."""
    (tmp_path / "summaries.txt").write_text(
        '\n{"document": "x", "summary": "A dog ran."}\n', encoding="utf-8"
    )
    assert read_sentences(f"xsum={tmp_path / 'summaries.txt'}").texts == ["A dog ran."]
    toy_data.snli_jsonl(tmp_path / "pairs.data")
    assert read_sentences(f"snli={tmp_path / 'pairs.data'}").texts == LABELED
    (tmp_path / "braces.txt").write_text("{A dog} ran.\n[1]\n", encoding="utf-8")
    assert read_sentences(f"xsum={tmp_path / 'braces.txt'}").texts == ["{A dog} ran.", "[1]"]
