"""Files of every kind that a person hands over, damaged in the ways in which files are damaged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz_values import mostly, numbers, odd_texts, texts, things
from harness import attempt, cases
from hypothesis import given
from hypothesis import strategies as st

import unmask
from unmask.embeddings import sense_corpus
from unmask.embeddings.files import read_texts
from unmask.evaluation.benchmarks.blimp import read_pairs
from unmask.evaluation.score_file import ScoreSettings, score_file
from unmask.evaluation.sentences import read_sentences
from unmask.inference.mutations import read_mutants
from unmask.models.load import load_language_model
from unmask.runs.records import Records
from unmask.tasks.files import Columns, read_examples, read_tagged
from unmask.text.lines import read_lines, read_objects
from unmask.training.corpus import corpora
from unmask.training.settings import read_settings

JSON_LINES = (
    b'{"sentence1": "the man", "sentence2": "a dog", "text": "the man", "label": "yes", "key": 1}\n' * 3
)
TABLE = b"text,second,label\nthe man,a dog,yes\nthe cat,a dog,no\n"
BLIMP = b'{"sentence_good": "the man", "sentence_bad": "man the", "UID": "u", "linguistics_term": "t"}\n' * 2
XML = b'<corpus><sentence><instance id="d.1" lemma="man" pos="NOUN">man</instance></sentence></corpus>'


def _records(path: Path) -> None:
    records = Records(path, writing=False)
    list(records)
    records.close()


KINDS: dict[str, tuple[str, bytes, Callable[[Path], Any]]] = {
    "lines": ("x.txt", b"the man\nis here\n", lambda p: list(read_lines(p))),
    "objects": ("x.jsonl", JSON_LINES, lambda p: list(read_objects(p))),
    "sentences": ("x.txt", b"the man is here\n", lambda p: read_sentences(f"text={p}")),
    "snli": ("dev.jsonl", JSON_LINES, lambda p: read_sentences(f"snli={p}")),
    "snli as a table": ("dev.tsv", TABLE.replace(b",", b"\t"), lambda p: read_sentences(f"snli={p}")),
    "texts to embed": ("x.jsonl", JSON_LINES, lambda p: list(read_texts(p))),
    "corpus": ("x.txt", b"the man\n\nis here\n", lambda p: list(corpora([f"x={p}"])[0].documents())),
    "compressed": ("x.txt.gz", b"\x1f\x8b\x08\x00", lambda p: list(corpora([str(p)])[0].documents())),
    "examples": ("x.csv", TABLE, lambda p: read_examples(p, pairs=False, columns=Columns(), labelled=True)),
    "pairs": (
        "x.jsonl",
        JSON_LINES,
        lambda p: read_examples(p, pairs=True, columns=Columns(), labelled=True),
    ),
    "tagged": ("x.conll", b"the O\nman B-X\n\nis O\n", lambda p: read_tagged(p, labelled=True)),
    "blimp": ("x.jsonl", BLIMP, lambda p: list(read_pairs(p.parent, None, 0))),
    "mutants": ("x.csv", b"mutant,fitness\nM1K:K2T,1\nM1T:T3K,2\n", lambda p: read_mutants(p, "MKTA")),
    "sense corpus": ("x.xml", XML, lambda p: list(sense_corpus.read_sentences(p))),
    "gold": ("x.gold.key.txt", b"d.1 man%1:18:00::\n", sense_corpus.read_gold),
    "records": ("x.jsonl", JSON_LINES.replace(b": 1}", b': "1"}', 1), _records),
    "settings of training": ("x.toml", b'corpora = ["x.txt"]\nmax_steps = 3\n', read_settings),
}


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Draw a file: as it was, with some bytes cut, changed or put in, or something else entirely."""
    if draw(st.integers(0, 3)) == 0:
        odd = odd_texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
        return draw(
            st.one_of(st.binary(max_size=60), odd, texts.map(lambda t: t.encode("utf-16", "surrogatepass")))
        )
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(whole)))
        end = draw(st.sampled_from([start, start, start + 1, start + 9, len(whole)]))
        put = draw(
            st.sampled_from(
                [b"", b"\x00", b"\xff", b"\n", b"\r", b'"', b",", b"NaN", b"{", b"1e999", b"\xef\xbb\xbf"]
            )
        )
        whole = whole[:start] + put + whole[end:]
    return whole


@cases(120)
@given(kind=st.sampled_from(list(KINDS)), data=st.data())
def test_data(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject) -> None:
    name, whole, read = KINDS[kind]
    content = data.draw(damaged(whole))
    path = tmp_path_factory.mktemp("file") / name
    path.write_bytes(content)
    try:
        attempt("files", f"{kind}: {content[:200]!r}", lambda: read(path))
    finally:
        shutil.rmtree(path.parent)


@cases(30)
@given(data=st.data(), out=st.booleans())
def test_scored_files(tmp_path_factory, mlm_of, checkpoint, data: st.DataObject, out: bool) -> None:
    content = data.draw(damaged(b"the man is here\nthe dog\n\n"))
    path = tmp_path_factory.mktemp("file") / "x.txt"
    path.write_bytes(content)
    settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll",))

    def call() -> None:
        for record in score_file(path, settings, out=path.with_name("out.jsonl") if out else None):
            json.dumps(record, allow_nan=False)

    try:
        attempt("files", f"score FILE: {content[:200]!r}", call)
    finally:
        shutil.rmtree(path.parent)


PARTS = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
NAMES = (
    *(
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
        "model_type",
    ),
    *(
        "layer_norm_eps",
        "hidden_act",
        "max_position_embeddings",
        "type_vocab_size",
        "pad_token_id",
        "architectures",
    ),
    *("torch_dtype", "dtype", "tie_word_embeddings", "position_embedding_type", "is_decoder", "auto_map"),
)
plain = mostly(
    st.integers(-1, 70),
    numbers.filter(lambda n: type(n) in (int, float, bool)),
    st.sampled_from(["2", "x", None, [], {}]),
)


@cases(60)
@given(part=st.sampled_from(PARTS), data=st.data())
def test_checkpoints(tmp_path_factory, checkpoint, part: str, data: st.DataObject) -> None:
    directory = tmp_path_factory.mktemp("damaged") / "model"
    shutil.copytree(checkpoint("bert"), directory)
    path = directory / part
    if part == "config.json" and data.draw(st.integers(0, 3)):
        changes = data.draw(st.dictionaries(st.sampled_from(NAMES), plain, min_size=1, max_size=2))
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        told = f"config.json with {changes!r}"
    else:
        whole = path.read_bytes()
        cut = data.draw(damaged(whole[:2000])) + data.draw(st.sampled_from([whole[2000:], b""]))
        path.write_bytes(cut)
        told = f"damaged {part}: {cut[:100]!r}"

    def call() -> None:
        load = data.draw(st.sampled_from([unmask.load, load_language_model]))
        lm = load(str(directory), device="cpu")
        if isinstance(lm, unmask.MaskedLM):
            unmask.fill("the [MASK] is", mlm=lm).top(1)

    try:
        attempt("files", told, call)
    finally:
        shutil.rmtree(directory.parent)


@cases(20)
@given(
    path=mostly(st.text(max_size=20), things, st.sampled_from(["/", "/dev/null", "\x00", "x" * 5000, "."]))
)
def test_paths(path: Any) -> None:
    """What is no path of a file at all."""
    if isinstance(path, str) and "\ud800" not in path:
        attempt("files", f"read_sentences(text={path[:50]!r})", lambda: read_sentences(f"text={path}"))
        attempt("files", f"read_lines({path[:50]!r})", lambda: list(read_lines(path)))
    attempt("files", f"load({path!r})", lambda: unmask.load(path, device="cpu") if path != "" else None)
