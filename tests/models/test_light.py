"""The light BERT and its tokenizer against transformers' own, and what is left to the latter."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import unmask
from unmask.models.digests import weights_digest
from unmask.models.embedded import locate
from unmask.models.light import open_light

MODELS = ["bert", "bert-cased", "english"]
TEXTS = [
    "The old man is playing at the casino.",
    "Ünïcode, naïve café — 東京 [MASK] [unused1] ##ing",
    "[CLS] a [SEP] b [PAD] ___",
    "",
    "  spaces \t and\nlines\u00a0and\u200bzero width ",
    "don't e.g. 3.14 @user #tag http://x.y/z?a=b",
]


@pytest.fixture(scope="module")
def both(checkpoint):
    """The same checkpoint by both backends."""
    opened = {}

    def get(name):
        if name not in opened:
            source = locate("english") if name == "english" else str(checkpoint(name))
            opened[name] = (unmask.load(source), unmask.load(source, backend="transformers"))
        return opened[name]

    return get


@pytest.mark.parametrize("name", MODELS)
def test_a_plain_bert_is_opened_by_the_light_backend(both, name):
    light, full = both(name)
    assert (light.backend, full.backend) == ("light", "transformers")
    assert light.window == full.window
    assert light.vocabulary.tokens == full.vocabulary.tokens
    assert light.vocabulary.special_ids == full.vocabulary.special_ids
    assert light.vocabulary.unused_ids == full.vocabulary.unused_ids


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_both_backends_give_the_same_logits(both, name):
    light, full = both(name)
    generator = torch.Generator().manual_seed(0)
    for length in (3, 8, 40):
        ids = torch.randint(0, light.vocabulary.size, (4, length), generator=generator)
        for position in (0, length // 2, length - 1):
            expected = full.logits(ids, position)
            torch.testing.assert_close(light.logits(ids, position), expected, atol=2e-4, rtol=0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("text", TEXTS)
def test_both_backends_read_a_text_alike(both, name, text):
    light, full = (mlm.tokenizer for mlm in both(name))
    ours = light(text, return_offsets_mapping=True)
    theirs = full(text, return_offsets_mapping=True)
    assert ours["input_ids"] == theirs["input_ids"]
    assert [tuple(o) for o in ours["offset_mapping"]] == [tuple(o) for o in theirs["offset_mapping"]]
    assert light.tokenize(text) == full.tokenize(text)


@pytest.mark.slow
@given(text=st.text(max_size=40))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_both_backends_read_any_text_alike(text):
    light, full = _english()
    assert light(text)["input_ids"] == full(text)["input_ids"]


def _english(opened=[]):  # noqa: B006 (kept from call to call on purpose)
    if not opened:
        source = locate("english")
        opened += [unmask.load(source).tokenizer, unmask.load(source, backend="transformers").tokenizer]
    return opened


def test_both_backends_give_the_same_joint(both):
    text = "The [MASK] man is playing [MASK] the casino."
    light, full = (unmask.fill(text, mlm=mlm) for mlm in both("bert"))
    assert [f.text for f in light.top(5)] == [f.text for f in full.top(5)]
    assert light.top(1)[0].log_prob == pytest.approx(full.top(1)[0].log_prob, abs=1e-5)


def _config(**changes):
    def change(directory):
        config = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps(config | changes))

    return change


def _weights(change):
    def apply(directory):
        weights = load_file(directory / "model.safetensors")
        change(weights)
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})

    return apply


NOT_LIGHT = {
    "another activation": _config(hidden_act="relu"),
    "untied": _config(tie_word_embeddings=False),
    "another architecture": _config(architectures=["BertModel"]),
    "a decoder": _config(is_decoder=True),
    "no head": _weights(lambda w: w.pop("cls.predictions.transform.dense.weight")),
    "an unknown weight": _weights(lambda w: w.update({"bert.extra": torch.zeros(2)})),
    "not a number": _weights(lambda w: w["cls.predictions.bias"].fill_(torch.nan)),
    "cut short": lambda d: (d / "model.safetensors").write_bytes(
        (d / "model.safetensors").read_bytes()[:-40]
    ),
    "no tokenizer": lambda d: (d / "tokenizer.json").unlink(),
    "another tokenizer": lambda d: (d / "tokenizer_config.json").write_text('{"tokenizer_class": "Own"}'),
    "a config that is no JSON": lambda d: (d / "config.json").write_text("{"),
}


@pytest.mark.parametrize("spoil", NOT_LIGHT.values(), ids=NOT_LIGHT.keys())
def test_whatever_is_not_exactly_a_plain_bert_is_left_to_transformers(checkpoint, tmp_path, spoil):
    directory = tmp_path / "bert"
    shutil.copytree(checkpoint("bert"), directory)
    assert open_light(str(directory)) is not None
    spoil(directory)
    assert open_light(str(directory)) is None


@pytest.mark.parametrize("architecture", ["roberta", "distilbert", "electra", "esm", "albert"])
def test_other_architectures_are_left_to_transformers(checkpoint, architecture):
    assert open_light(str(checkpoint(architecture))) is None


def test_an_unknown_backend_is_refused(checkpoint):
    with pytest.raises(unmask.UsageError, match="unknown backend 'onnx'"):
        unmask.load(checkpoint("bert"), backend="onnx")


def test_a_digest_tells_checkpoints_apart_by_all_that_their_answers_depend_on(checkpoint, tmp_path):
    first = weights_digest(str(checkpoint("bert")))
    copy = shutil.copytree(checkpoint("bert"), tmp_path / "copy")
    (copy / "README.md").write_text("a card")
    assert weights_digest(str(copy)) == first
    digests = {first}
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        read = json.loads((copy / name).read_text())
        (copy / name).write_text(json.dumps(read | {"changed": True}))
        digests.add(weights_digest(str(copy)))
    assert len(digests) == 4
    assert weights_digest("nobody/has-this-model") is None


SPARED = """
import sys
import unmask
text = "The [MASK] [MASK] in the pool."
joint = unmask.fill(text, candidates=8, support=50)
joint.log_prob(list(joint.top(1)[0].tokens)), joint.log_prob(joint.sample((2, 2))), joint.entropy()
for method in ("grid", "chain"):
    joint = unmask.fill("The [MASK] [MASK] [MASK] pool.", candidates=4, support=20, method=method)
    joint.log_prob(joint.top(1)[0].ids)
print([name for name in ("sympy", "transformers", "torch._dynamo") if name in sys.modules])
"""


def test_a_fill_and_its_first_log_prob_import_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", SPARED], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
