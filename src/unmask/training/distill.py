"""Distilling a pair head from a model: read texts, ask the model, fit the head, write it with its card.

    settings = DistillSettings(model="english", corpora=("wiki=wikipedia.txt.gz",))
    distill(settings, Path("head"))

The directory is a run (`unmask.runs`): what the model said is kept in parts, one record each, and the fit has
a checkpoint, so that a killed run is resumed. At the end it holds `pair_head.safetensors` and its card,
`README.md`; put the first beside a checkpoint's weights, or name it as `--pair-head`.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import UsageError
from unmask.models.digests import parameters_digest, weights_digest
from unmask.models.embedded import absolute
from unmask.progress import Progress, silent
from unmask.runs.disk import write_whole
from unmask.runs.run import Run
from unmask.runs.settings_record import RunKind
from unmask.training.settings import CORPORA, NOT_NEGATIVE, POSITIVE
from unmask.values import Whole, check_settings, setting

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.pair_head import PairHead, PairHeadCard
    from unmask.training.corpus import Corpus
    from unmask.training.pair_data import PairData

DISTILLATION = RunKind("distillation of a pair head", records="parts.jsonl", prepared=("parts",))
TEXTS_IN_A_PART = 500
COUNT = Whole(1)
FEWEST_TEXTS = 40
FEWEST_TARGETS = 64
"""Held-out targets without which an error by distance would mean nothing."""


@dataclass(frozen=True)
class DistillSettings:
    """One distillation."""

    corpora: tuple[str, ...] = setting(
        (), "NAME=FILE of text (.gz too): one paragraph or sequence per line. Repeatable.", kind=CORPORA
    )
    model: str = setting(
        "english", "The model: english, a checkpoint's directory, or a name on the hub.", "--model", "-m"
    )
    texts: int = setting(40_000, "Texts that the model is asked about, about five passes each.", kind=COUNT)
    eval_texts: int = setting(1_000, "Texts held out, to stop early and to measure the error.", kind=COUNT)
    init_from: str = setting(
        "", "A pair head to start from: that of the weights before they were trained further, say."
    )
    max_length: int = setting(32, "Tokens of a text's own that are read.", kind=Whole(4))
    width: int = setting(768, "Features of the head's hidden layers.", kind=COUNT)
    epochs: float = setting(6.0, "How often the fit goes through what the model said.", kind=POSITIVE)
    batch_size: int = setting(256, "Targets per step.", kind=COUNT)
    lr: float = setting(8e-4, "Peak learning rate.", kind=POSITIVE)
    weight_decay: float = setting(0.02, "Weight decay.", kind=NOT_NEGATIVE)
    eval_steps: int = setting(250, "Steps between evaluations, each with a checkpoint.", kind=COUNT)
    patience: int = setting(
        8, "Evaluations without a smaller held-out loss after which the fit stops.", kind=COUNT
    )
    bf16: bool = setting(False, "Multiply in bfloat16: faster where the processor can.")
    seed: int = setting(
        0, "Seed of the texts, the blanks, the fillings and the fit.", kind=Whole(0, 2**32 - 1)
    )
    device: str = setting("auto", "auto, cpu, cuda or mps.")
    allow_pickle: bool = setting(False, "Read pickled weights, which can run code.", "--allow-pickle")

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.corpora:
            raise UsageError("expected at least one corpus: give --corpus NAME=FILE")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data; weights, texts and heads count by what they hold."""
        digests = {corpus.name: corpus.fingerprint() for corpus in self.read_corpora()}
        plain = asdict(self) | {"corpora": list(self.corpora), "model": absolute(self.model)}
        if self.init_from:
            plain["init_from"] = _head_digest(self.init_from)
        return plain | {"weights": weights_digest(self.model), "digests": digests}

    def read_corpora(self) -> list[Corpus]:
        """Return the corpora that the settings name."""
        from unmask.training.corpus import Corpus

        return [Corpus.parse(text) for text in self.corpora]


def _head_digest(path: str) -> str:
    from unmask.models.pair_head import pair_head_file

    return hashlib.sha256(pair_head_file(Path(path)).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Distilled:
    """Where the head is, and what it comes to."""

    head: Path
    card: PairHeadCard
    history: list[dict[str, float]]


def distill(
    settings: DistillSettings,
    out: Path,
    *,
    ray: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> Distilled:
    """Train the pair head of a model; a directory that holds the same run is resumed."""
    from unmask.models.load import load

    mlm = load(settings.model, device=settings.device, allow_pickle=settings.allow_pickle, pair_head=None)
    _check_model(mlm)
    initial = _initial_head(settings, mlm)
    chosen = _choose_texts(settings)
    tasks = [
        {"key": f"{name}-{start}", "texts": texts[start : start + TEXTS_IN_A_PART]}
        for name, texts in chosen.items()
        for start in range(0, len(texts), TEXTS_IN_A_PART)
    ]
    with Run.in_directory(DISTILLATION, out, settings.to_dict()) as run:
        (out / "parts").mkdir(exist_ok=True)
        make_worker = partial(_make_worker, settings, None if ray else mlm)
        for _ in run.work(
            tasks,
            make_worker,
            keep=partial(_keep, out),
            ray=ray,
            workers=workers,
            stage="parts",
            progress=progress,
        ):
            pass
        targets = {record["key"]: record["targets"] for record in run}
        return _fit(settings, mlm, initial, out, targets, progress)


def _check_model(mlm: MaskedLM) -> None:
    import torch

    if mlm.output_weights(torch.zeros(1, dtype=torch.long)) is None:
        raise UsageError(
            f"the output layer of '{mlm.name}' is not linear in a state that unmask can read, so it "
            "can have no pair head"
        )


def _initial_head(settings: DistillSettings, mlm: MaskedLM) -> PairHead | None:
    """Read the head to start from; it must be of the shape that is to be trained."""
    from unmask.models.pair_head import read_pair_head

    if not settings.init_from:
        return None
    head = read_pair_head(Path(settings.init_from))
    wanted = (mlm.output_layer.in_features, mlm.input_embeddings.shape[1], settings.width)
    if head.shape != wanted:
        raise UsageError(
            f"{settings.init_from}: expected a pair head of {wanted} state features, embedding features and "
            f"width, got {head.shape}: choose another one, or start without"
        )
    return head


def _choose_texts(settings: DistillSettings) -> dict[str, list[str]]:
    """Draw the texts to learn from and those held out, as many of each corpus, no paragraph among both."""
    rng = random.Random(settings.seed)
    corpora = settings.read_corpora()
    share = math.ceil((settings.texts + settings.eval_texts) / len(corpora))
    kept = [text for corpus in corpora for text in _sample(_paragraphs(corpus), share, rng)]
    kept = list(dict.fromkeys(kept))
    if len(kept) < FEWEST_TEXTS:
        raise UsageError(
            f"expected at least {FEWEST_TEXTS} different paragraphs to distill from, got {len(kept)}: "
            "give more text"
        )
    rng.shuffle(kept)
    held_out = min(settings.eval_texts, max(FEWEST_TEXTS // 4, len(kept) // 10))
    return {
        "held-out": _repeated(kept[:held_out], settings.eval_texts),
        "train": _repeated(kept[held_out:], settings.texts),
    }


def _repeated(texts: list[str], count: int) -> list[str]:
    """Return so many texts; few come again and again, with other blanks each time."""
    return [texts[n % len(texts)] for n in range(count)]


def _sample(texts: Iterable[str], count: int, rng: random.Random) -> list[str]:
    """Return so many texts of a stream, each with the same chance (Vitter's algorithm R)."""
    kept: list[str] = []
    for seen, text in enumerate(texts, 1):
        if len(kept) < count:
            kept.append(text)
        elif (place := rng.randrange(seen)) < count:
            kept[place] = text
    return kept


def _paragraphs(corpus: Corpus) -> Iterator[str]:
    for document in corpus.documents():
        yield from document


def _make_worker(
    settings: DistillSettings, mlm: MaskedLM | None
) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return what asks the model about the texts of a part."""
    from unmask.models.load import load
    from unmask.training.pair_data import collect

    known = mlm or load(
        settings.model, device=settings.device, allow_pickle=settings.allow_pickle, pair_head=None
    )
    if settings.bf16:
        known = _in_bfloat16(known)

    def ask(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = []
        for task in tasks:
            seed = f"{settings.seed} {task['key']}"
            data = collect(known, task["texts"], max_length=settings.max_length, seed=seed)
            found.append({"key": task["key"], "data": data})
        return found

    return ask


def _in_bfloat16(mlm: MaskedLM) -> MaskedLM:
    """Return a copy of the model in bfloat16, whose conditionals are nearly the same."""
    import copy

    from unmask.models.masked_lm import MaskedLM

    model = copy.deepcopy(mlm.model).bfloat16()
    return MaskedLM(model, mlm.tokenizer, name=mlm.name, device=str(mlm.device), memory=mlm.memory)


def _keep(out: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Write what the model said of a part, and return its record."""
    from safetensors.torch import save_file

    data, key = found["data"], found["key"]
    if data is not None:
        part = out / "parts" / f"{key}.safetensors"
        partial_file = part.with_suffix(".partial")
        save_file(data.to_dict(), partial_file)
        partial_file.replace(part)
    return {"key": key, "targets": 0 if data is None else len(data)}


def _fit(
    settings: DistillSettings,
    mlm: MaskedLM,
    initial: PairHead | None,
    out: Path,
    targets: dict[str, int],
    progress: Progress,
) -> Distilled:
    from unmask.models.pair_head import FILE, PairHeadCard, save_pair_head
    from unmask.training.pair_card import card_text
    from unmask.training.pair_fit import FitSettings, PairFit

    data, held_out = (_read(out, targets, name) for name in ("train-", "held-out-"))
    if data is None or held_out is None or len(held_out) < FEWEST_TARGETS:
        raise UsageError(
            "the texts are too few or too short to distill from: expected several hundred of ten tokens "
            "and more"
        )
    fields = FitSettings.__dataclass_fields__
    wanted = FitSettings(**{name: getattr(settings, name) for name in fields})
    fit = PairFit(mlm, data, held_out, wanted, out / "fit.pt", initial)
    history = fit.run(progress)
    errors = fit.calibrate()
    training = {
        "texts": settings.texts,
        "targets": len(data),
        "steps": int(history[-1]["step"]),
        "max_length": settings.max_length,
        "corpora": [corpus.name for corpus in settings.read_corpora()],
        "seed": settings.seed,
        "from_head": bool(settings.init_from),
    }
    head = fit.head.cpu()
    head.card = PairHeadCard(
        settings.model, parameters_digest(mlm.model), data.states.shape[1], settings.width, training, errors
    )
    save_pair_head(head, out / FILE)
    write_whole(out / "README.md", card_text(head.card, history))
    return Distilled(out / FILE, head.card, history)


def _read(out: Path, targets: dict[str, int], name: str) -> PairData | None:
    from safetensors.torch import load_file

    from unmask.training.pair_data import PairData

    files = [
        out / "parts" / f"{key}.safetensors"
        for key, count in sorted(targets.items())
        if key.startswith(name) and count
    ]
    return PairData.joined([PairData(**load_file(file)) for file in files]) if files else None
