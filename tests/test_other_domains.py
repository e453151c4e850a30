"""Checkpoints of proteins and reactions, made by the recipe in the docs, work like those of words."""

import importlib.util
import json
import pickle
import shutil
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file
from transformers import AlbertConfig, AlbertForMaskedLM, BertConfig, BertForMaskedLM

import unmask
from unmask.errors import RunError
from unmask.models.masked_lm import MaskedLM

RECIPE = Path(__file__).parents[1] / "docs" / "other_domains" / "prepare.py"
SPECIALS = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
RESIDUES = [*SPECIALS, *"ACDEFGHIKLMNPQRSTVWY"]
ATOMS = [*SPECIALS, *"cC()O12=N.n", "Cl", "Br", ">>", "[C@H]", "[O-]", "[Na+]", "#", "%10"]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
ESTER = "CC(=O)O.CCO>>CCOC(C)=O"
HEAVY_CHAIN = "EVQLVESGGGLVQPGGSLRLSCAAS"


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    """The script of the documentation."""
    spec = importlib.util.spec_from_file_location("prepare", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_wheel(recipe: ModuleType, name: str, directory: Path) -> Path:
    """Write a wheel laid out as the package's own, with a tiny random model of the same kind inside."""
    package = recipe.PACKAGES[name]
    tokens = RESIDUES if name == "antiberty" else ATOMS
    torch.manual_seed(0)
    if package.model_type == "albert":
        config = AlbertConfig(vocab_size=len(tokens), embedding_size=16, initializer_range=0.4, **SIZES)
        model = AlbertForMaskedLM(config)
    else:
        config = BertConfig(vocab_size=len(tokens), initializer_range=0.4, **SIZES)
        model = BertForMaskedLM(config)
    settings = config.to_dict()
    if name == "rxnfp":  # as published
        del settings["model_type"]
    torch.save(model.state_dict(), directory / "weights")
    wheel = directory / f"{name}-0.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{package.directory}/config.json", json.dumps(settings))
        archive.write(directory / "weights", f"{package.directory}/pytorch_model.bin")
        archive.writestr(package.vocabulary, "\n".join(tokens) + "\n")
        archive.writestr(f"{name}-0.0.0.dist-info/LICENSE", "MIT License")
    return wheel


@pytest.fixture(scope="module", params=["antiberty", "rxnfp", "rxnmapper"])
def prepared(
    request: pytest.FixtureRequest, recipe: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A checkpoint that the recipe made, named after its package."""
    root = tmp_path_factory.mktemp(request.param)
    recipe.prepare(write_wheel(recipe, request.param, root), root / request.param)
    return root / str(request.param)


def text_of(checkpoint: Path) -> str:
    return HEAVY_CHAIN if checkpoint.name == "antiberty" else ESTER


def load(checkpoint: Path, **options: bool) -> MaskedLM:
    return unmask.load(checkpoint, device="cpu", **options)


def as_pickled(checkpoint: Path, directory: Path) -> Path:
    """Copy a checkpoint with its weights pickled, as the packages publish them."""
    shutil.copytree(checkpoint, directory)
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    return directory


def test_a_prepared_checkpoint_fills_two_blanks_exactly(prepared: Path) -> None:
    text, mlm = text_of(prepared), load(prepared)
    joint = unmask.fill(f"{text[:3]}[MASK][MASK]{text[5:]}", mlm=mlm, candidates="all")
    best = joint.top(10**6)
    assert torch.tensor([f.log_prob for f in best]).exp().sum() == pytest.approx(1, abs=1e-5)
    assert all(f.text == text[:3] + "".join(f.tokens) + text[5:] for f in best)  # no space, no mark
    assert not {"[UNK]", "[PAD]", "[unused1]"} & {token for f in best for token in f.tokens}


def test_what_stands_in_braces_is_scored(prepared: Path) -> None:
    text, mlm = text_of(prepared), load(prepared)
    score = unmask.score(f"{text[:3]}{{{text[3]}}}{{{text[4]}}}{text[5:]}", mlm=mlm, candidates="all")
    joint = unmask.fill(f"{text[:3]}[MASK][MASK]{text[5:]}", mlm=mlm, candidates="all")
    assert score.filling.tokens == (text[3], text[4])
    assert score.filling.text == text
    assert score.filling.log_prob == pytest.approx(float(joint.log_prob([text[3], text[4]])))


def test_the_licence_stays_beside_the_weights(prepared: Path) -> None:
    assert (prepared / "LICENSE").read_text() == "MIT License"


def test_the_window_is_that_of_the_model(prepared: Path) -> None:
    assert load(prepared).window == 64


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("CC(=O)O.OCC>>CC", ["C", "C", "(", "=", "O", ")", "O", ".", "O", "C", "C", ">>", "C", "C"]),
        ("Clc1Br", ["Cl", "c", "1", "Br"]),
        ("N[C@H]C#C%10[O-].[Na+]", ["N", "[C@H]", "C", "#", "C", "%10", "[O-]", ".", "[Na+]"]),
        ("C[MASK]n2", ["C", "[MASK]", "n", "2"]),
        ("C[Xx]O", ["C", "[UNK]", "O"]),
        ("CQO", ["C", "[UNK]", "O"]),
    ],
)
def test_a_token_of_smiles_is_an_atom_a_bond_or_a_bracket(
    recipe: ModuleType, text: str, tokens: list[str]
) -> None:
    encoded = recipe.make_tokenizer(ATOMS, recipe.SMILES).encode(text)
    assert encoded.tokens == ["[CLS]", *tokens, "[SEP]"]


def test_a_token_of_a_protein_is_a_residue(recipe: ModuleType) -> None:
    tokenizer = recipe.make_tokenizer(RESIDUES, recipe.RESIDUES)
    assert tokenizer.encode("EV[MASK]L V").tokens == ["[CLS]", "E", "V", "[MASK]", "L", "V", "[SEP]"]
    assert tokenizer.decode(tokenizer.encode(HEAVY_CHAIN).ids) == HEAVY_CHAIN


def test_pickled_weights_are_read_if_asked_for(prepared: Path, tmp_path: Path) -> None:
    pickled = as_pickled(prepared, tmp_path / prepared.name)
    with pytest.raises(unmask.UsageError, match="--allow-pickle"):
        load(pickled)
    text = f"{text_of(prepared)[:3]}[MASK]{text_of(prepared)[4:]}"
    expected, found = (
        unmask.fill(text, mlm=mlm).top(3) for mlm in (load(prepared), load(pickled, allow_pickle=True))
    )
    assert [f.ids for f in found] == [f.ids for f in expected]


def test_the_recipe_runs_no_code_that_a_pickle_carries(recipe: ModuleType, tmp_path: Path) -> None:
    package = recipe.PACKAGES["rxnfp"]
    with zipfile.ZipFile(tmp_path / "rxnfp-0.0.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{package.directory}/config.json", "{}")
        archive.writestr(package.vocabulary, "\n".join(ATOMS))
        archive.writestr(
            f"{package.directory}/pytorch_model.bin", pickle.dumps(Path("somewhere"), protocol=2)
        )
    with pytest.raises(pickle.UnpicklingError):
        recipe.prepare(tmp_path / "rxnfp-0.0.0-py3-none-any.whl", tmp_path / "rxnfp")


def test_a_wheel_without_weights_is_refused(recipe: ModuleType, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "antiberty-1.0.0-py3-none-any.whl", "w") as archive:
        archive.writestr("antiberty/__init__.py", "")
    with pytest.raises(SystemExit, match="carries no weights"):
        recipe.prepare(tmp_path / "antiberty-1.0.0-py3-none-any.whl", tmp_path / "out")


def test_a_config_without_a_model_type_says_what_to_add(prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path / "copy")
    config = json.loads((prepared / "config.json").read_text())
    del config["model_type"]
    (tmp_path / "copy" / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=r'config\.json.*which kind of model.*"model_type": "bert"'):
        load(tmp_path / "copy")


def test_a_directory_without_a_tokenizer_is_refused(prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path / "copy", ignore=shutil.ignore_patterns("tokenizer*"))
    with pytest.raises(RunError, match="vocabulary"):
        load(tmp_path / "copy")


def test_the_user_is_told_of_tokens_that_the_model_does_not_know(prepared: Path) -> None:
    text, mlm = text_of(prepared), load(prepared)

    def notes(start: str) -> list[str]:
        cloze = unmask.fill(f"{start}{text}[MASK]", mlm=mlm).cloze
        assert cloze is not None
        return list(cloze.notes)

    assert notes("") == []
    (one,) = notes("z")
    (two,) = notes("zz")
    assert one.startswith("a token of the text is unknown to this model, which reads [UNK] there")
    assert two.startswith("2 tokens of the text are unknown")


def test_the_note_on_unknown_tokens_comes_with_a_score_too(prepared: Path) -> None:
    text, mlm = text_of(prepared), load(prepared)
    cloze = unmask.score(f"{text[:3]}{{{text[3]}}}{text[4:]}z", mlm=mlm).joint.cloze
    assert cloze is not None
    assert "unknown" in cloze.notes[0]
