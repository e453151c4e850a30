"""Make every number of the pages on embeddings, word senses and fine-tuning, from the data in DATA.

    python recipes/encoders.py --data ../shared/data --work build/encoders            all of it (hours)
    python recipes/encoders.py --only sentiment wikigold ...                          some of it
    python recipes/encoders.py --estimate                                             how long it will take
    python recipes/encoders.py --tables                                               rewrite the pages only
    python recipes/encoders.py --examples 300 --out build/encoders/try.json           a try on little data

Each part is done for the embedded model and for its twin: the same architecture and tokenizer, weights fresh.
Results go to docs/figures/encoders.json as they come, figures beside it, and the tables of the pages are
rewritten from there, unless --out says another file. A run of
fine-tuning that was killed goes on where it was; parts that are in the results for these very weights are
skipped unless named.

The files that DATA calls dev are never used to choose anything: where an epoch has to be chosen, a tenth of
the training file is held out. The weight of the sense prior, 0.05, was chosen on SemEval-2007.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from encoders_text import pretraining_gains, sense_gains
from pages import markdown, renew
from provenance import MADE, read, shown, stamp, write

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs"
RESULTS = PAGES / "figures" / "encoders.json"
MODELS = ("english", "twin")
TRAINED_TOKENS_A_SECOND = 1700  # the embedded model's architecture on two cores

TASKS: dict[str, dict[str, Any]] = {
    "sentiment": {
        "task": "classify",
        "train": "sentiment/train.tsv",
        "test": "sentiment/dev.tsv",
        "epochs": 3,
        "lr": 2e-4,
    },
    "snli": {
        "task": "pairs",
        "train": "snli/train-20k.tsv.gz",
        "test": "snli/dev.tsv",
        "epochs": 2,
        "lr": 2e-4,
    },
    "rte": {
        "task": "pairs",
        "train": "pairs/rte-train.tsv",
        "test": "pairs/rte-dev.tsv",
        "epochs": 3,
        "lr": 2e-4,
    },
    "wikigold": {"task": "tag", "split": "ner/wikigold.conll", "epochs": 12, "batch_size": 16, "lr": 3e-4},
    "wnut17": {
        "task": "tag",
        "train": "ner/wnut17-train.conll",
        "test": "ner/wnut17-dev.conll",
        "epochs": 4,
        "batch_size": 16,
        "lr": 3e-4,
    },
}
PARTS = ("isotropy", "wsd", *TASKS)


def main() -> None:
    """Do the parts that are asked for."""
    arguments = parse()
    out = arguments.out or RESULTS
    found = read(out)
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.estimate:
        estimate(arguments.data)
        return
    for part in () if arguments.tables else arguments.only or PARTS:
        marks = {model: mark(model, arguments) for model in arguments.models}
        if marks.items() <= found.get(part, {}).get("marks", {}).items() and not arguments.only:
            print(f"{part}: in {out.name} already", file=sys.stderr)
            continue
        begun, made = time.monotonic(), stamp(pair_head=False)
        known = found.get(part, {})
        old = {} if part == "isotropy" else known.get("marks", {})  # its figure shows both models
        stale = [model for model in arguments.models if old.get(model) != marks[model]]
        chosen = argparse.Namespace(**vars(arguments) | {"models": stale or arguments.models})
        done = {"isotropy": isotropy, "wsd": wsd}.get(part, tuned)(part, chosen)
        found = read(out)  # anew: another process may have done another part meanwhile
        known = found.get(part, {})
        found[part] = known | done | {"marks": known.get("marks", {}) | marks}
        found[part]["seconds"] = round(time.monotonic() - begun)
        if arguments.examples:
            found[part]["examples"] = arguments.examples
        found = write(out, found, {part: made})
        print(f"{part}: {found[part]['seconds']} s", file=sys.stderr)
    made_tables = tables(found)
    for name, table in made_tables.items():
        print(f"\n{name}\n\n{table}")
    if out == RESULTS:
        renew(PAGES / "background" / "results-encoders.md", "encoders", made_tables)


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page, from the parts that there are."""
    parts = [part for part in PARTS if part in found]
    when = {part: shown(found.get(MADE, {}).get(part)) for part in parts}
    if len(set(when.values())) > 1:
        told = "; ".join(f"{part}: {said}" for part, said in when.items())
    else:
        told = "".join(set(when.values()))
    source = {"source": f"Made by `python recipes/encoders.py`: {told}."} if parts else {}
    texts = {"gains": pretraining_gains(found, [part for part in TASKS if part in found])} if parts else {}
    texts |= {"senses": sense_gains(found["wsd"])} if "wsd" in found else {}
    return {part: TABLES[part](found[part]) for part in parts} | texts | source


def parse() -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "encoders")
    parser.add_argument("--only", nargs="*", choices=PARTS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument(
        "--examples", type=int, help="texts, sentences or training examples to take, for a try"
    )
    parser.add_argument("--wordnet", default="auto", help="directory of WordNet's files, auto or none")
    parser.add_argument("--out", type=Path, help="another file of results; the pages stay as they are")
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def checkpoint_of(model: str, work: Path) -> str:
    """Return the embedded model, or the directory of its twin, made here with fresh weights."""
    if model == "english":
        return model
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, set_seed
    from transformers.utils import logging

    from unmask.models.embedded import locate

    logging.disable_progress_bar()
    place = work / "twin"
    if not (place / "config.json").is_file():
        set_seed(0)
        import torch

        config = AutoConfig.from_pretrained(locate("english"))
        AutoModelForMaskedLM.from_config(config, dtype=torch.float32).save_pretrained(place)
        AutoTokenizer.from_pretrained(locate("english")).save_pretrained(place)
    return str(place)


def mark(model: str, arguments: Any) -> str:
    """Return what tells the work of this model from that of another under its name.

    The twin has of the embedded model its shape and its tokenizer only, so it outlives new weights.
    """
    from unmask.models.embedded import locate

    place = Path(locate("english"))
    if model == "english":
        content = (place / "model.safetensors").read_bytes()
    else:
        config = json.loads((place / "config.json").read_text(encoding="utf-8"))
        del config["transformers_version"]  # who wrote it changes no weight
        content = json.dumps(config, sort_keys=True).encode() + (place / "tokenizer.json").read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:8]
    return f"{model}-{digest}" + (f"-{arguments.examples}" if arguments.examples else "")


def isotropy(_part: str, arguments: Any) -> dict[str, Any]:
    """Measure the isotropy of words of Wikipedia by layer; draw it."""
    from unmask.embeddings.encoder import Encoder
    from unmask.embeddings.figures import draw_isotropy
    from unmask.embeddings.files import read_texts
    from unmask.embeddings.isotropy import isotropy_by_layer

    surveys = {}
    for model in arguments.models:
        encoder = Encoder.load(checkpoint_of(model, arguments.work), device="cpu")
        texts = read_texts(arguments.data / "corpus" / "wikipedia.txt.gz")
        surveys[model] = isotropy_by_layer(
            encoder, texts, sample=arguments.examples or 2000, seed=arguments.seed
        )
    if arguments.out is None and set(arguments.models) == set(MODELS):
        draw_isotropy(surveys, PAGES / "figures" / "isotropy.svg")
    return {
        model: {
            "texts": found.texts,
            "words": found.words,
            "removed": found.removed,
            "layers": {
                layer: {remedy: m.record() for remedy, m in by_remedy.items()}
                for layer, by_remedy in found.measures.items()
            },
        }
        for model, found in surveys.items()
    }


def wsd(_part: str, arguments: Any) -> dict[str, Any]:
    """Fit sense vectors on SemCor and score them on Senseval-2 and SemEval-2007; draw one word."""
    from itertools import islice

    from unmask.embeddings.encoder import Encoder
    from unmask.embeddings.figures import draw_senses, instances_by_sense
    from unmask.embeddings.sense_corpus import gold_beside, read_gold, read_sentences
    from unmask.embeddings.senses import Senses, fit, predict, score
    from unmask.embeddings.wordnet import find_wordnet

    home = arguments.data / "wsd"
    semcor = home / "semcor.data.xml.gz"
    gold = read_gold(gold_beside(semcor))
    wordnet = find_wordnet(arguments.wordnet)
    if wordnet is None and arguments.wordnet != "none":
        raise SystemExit("expected a WordNet for unseen lemmas: install wordnet-base, or give --wordnet")
    back_off = wordnet.first_sense if wordnet else lambda _lemma, _pos: None
    answer: dict[str, Any] = {"wordnet": wordnet is not None}
    for model in arguments.models:
        encoder = Encoder.load(checkpoint_of(model, arguments.work), device="cpu")
        kept = arguments.work / f"senses-{mark(model, arguments)}.safetensors"
        if not kept.exists():
            fit(encoder, islice(read_sentences(semcor), arguments.examples), gold).save(kept)
        senses = Senses.load(kept)
        answer[model] = {"senses": len(senses.keys), "lemmas": len(senses.entries)}
        for name in ("senseval2", "semeval2007"):
            corpus = home / f"{name}.data.xml"
            answers = predict(senses, encoder, read_sentences(corpus), back_off=back_off)
            answer[model][name] = {
                method: {pos: found.record() for pos, found in by_pos.items()}
                for method, by_pos in score(answers, read_gold(gold_beside(corpus))).items()
            }
        if model == "english" and arguments.out is None:
            vectors, shown = instances_by_sense(
                encoder, read_sentences(semcor), gold, "plant", "NOUN", least=8
            )
            draw_senses(
                vectors, shown, "plant (noun), layers last4 of english", PAGES / "figures" / "senses.svg"
            )
    return answer


def tuned(part: str, arguments: Any) -> dict[str, Any]:
    """Fine-tune the model and its twin for one task, and score both on the test file."""
    from unmask.runs.step_lines import spent
    from unmask.tasks import Settings, TunedModel, finetune

    wanted = dict(TASKS[part])
    train, test = files_of(part, arguments)
    options = {name: wanted[name] for name in ("epochs", "batch_size", "lr", "head_lr") if name in wanted}
    answer = {}
    for model in arguments.models:
        settings = Settings(
            task=wanted["task"],
            train=str(train),
            pretrained=model == "english",
            long="split" if wanted["task"] == "tag" else "truncate",
            seed=arguments.seed,
            **options,
        )
        result = finetune(settings, arguments.work / f"{part}-{mark(model, arguments)}")
        seconds = spent(result.history)
        scores, notes = TunedModel.load(result.model, device="cpu").evaluate_file(test)
        notes = [note.replace(str(test), test.name) for note in notes]  # no path of this machine
        answer[model] = {"test": scores.record(), "seconds": round(seconds), "notes": notes}
    return answer


def files_of(part: str, arguments: Any) -> tuple[Path, Path]:
    """Return the files to learn from and to score on; Wikigold is split here, a fifth of its sentences."""
    wanted = TASKS[part]
    if "split" in wanted:
        text = (arguments.data / wanted["split"]).read_text(encoding="utf-8")
        sentences = [s for s in text.strip().split("\n\n") if s.strip()]
        random.Random(0).shuffle(sentences)
        cut = len(sentences) // 5
        train, test = (arguments.work / f"{part}-{name}.conll" for name in ("train", "test"))
        test.write_text("\n\n".join(sentences[:cut]) + "\n", encoding="utf-8")
        train.write_text("\n\n".join(sentences[cut:]) + "\n", encoding="utf-8")
    else:
        train, test = arguments.data / wanted["train"], arguments.data / wanted["test"]
    if arguments.examples:
        train, test = (shorter(path, arguments.examples, arguments.work) for path in (train, test))
    return train, test


def shorter(path: Path, examples: int, work: Path) -> Path:
    """Write the first examples of a file, for a try."""
    text = gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text(encoding="utf-8")  # noqa: SIM115
    name = path.name.removesuffix(".gz")
    lines = text.split("\n\n")[:examples] if name.endswith("conll") else text.split("\n")[: examples + 1]
    short = work / f"{examples}-{name}"
    short.write_text(("\n\n" if name.endswith("conll") else "\n").join(lines) + "\n", encoding="utf-8")
    return short


def estimate(data: Path) -> None:
    """Print the tokens of each run and how long two cores take, before anything is run."""
    from transformers import AutoTokenizer

    from unmask.models.embedded import locate
    from unmask.tasks.encoding import Encoder
    from unmask.tasks.files import Columns, read_examples, read_tagged

    tokenizer = AutoTokenizer.from_pretrained(locate("english"))
    for part, wanted in TASKS.items():
        path = data / wanted.get("train", wanted.get("split"))
        if wanted["task"] == "tag":
            examples: list[Any] = read_tagged(path, labelled=False)
        else:
            examples = read_examples(path, pairs=wanted["task"] == "pairs", columns=Columns(), labelled=False)
            examples = [type(e)(e.line, e.texts, None) for e in examples]
        share = 0.72 if "split" in wanted else 0.9  # what is held out, and Wikigold's test fifth
        long: Any = "split" if wanted["task"] == "tag" else "truncate"
        encoded = Encoder(wanted["task"], tokenizer, 128, labels=[], long=long).encode(examples)
        tokens = share * sum(len(feature["input_ids"]) for feature in encoded.features)
        minutes = wanted["epochs"] * tokens / TRAINED_TOKENS_A_SECOND / 60
        print(
            f"{part}: {tokens:,.0f} tokens × {wanted['epochs']} epochs, about {minutes:.0f} minutes a model"
        )


def isotropy_table(found: dict[str, Any]) -> str:
    """By layer: the expected cosine and the leading direction's share, before and after."""
    remedies = ("raw", "standardised", "top removed")
    heads = ["model", "layer", *(f"cosine, {r}" for r in remedies), *(f"leading, {r}" for r in remedies)]
    rows = []
    for model in (m for m in MODELS if m in found):
        for layer, by in found[model]["layers"].items():
            cells = [f"{by[r]['cosine']:.3f}" for r in remedies] + [
                f"{by[r]['leading_1']:.3f}" for r in remedies
            ]
            rows.append([model, layer, *cells])
    return markdown(heads, rows)


def wsd_table(found: dict[str, Any]) -> str:
    """F1 by part of speech for each test set, model and method."""
    rows = []
    places = ("all", "NOUN", "VERB", "ADJ", "ADV")
    for name in ("senseval2", "semeval2007"):
        for model in (m for m in MODELS if m in found):
            for method, by_pos in found[model][name].items():
                if method == "most frequent" and model == "twin":
                    continue  # it asks no model, so once is enough
                who = "(none)" if method == "most frequent" else model
                cells = [f"{100 * by_pos[pos]['f1']:.1f}" if pos in by_pos else "" for pos in places]
                rows.append([name, who, method, *cells])
    return markdown(["test set", "model", "vectors", *places], rows)


def task_table(found: dict[str, Any]) -> str:
    """The leading scores of model and twin."""
    there = [model for model in MODELS if model in found]
    names = list(found[there[0]]["test"]["overall"])
    rows = [
        [
            model,
            *(f"{found[model]['test']['overall'][name]:.3f}" for name in names),
            f"{found[model]['test']['examples']:,}",
            f"{found[model]['seconds'] / 60:.1f}",
        ]
        for model in there
    ]
    return markdown(["model", *(n.replace("_", " ") for n in names), "examples", "minutes"], rows)


TABLES: dict[str, Any] = {"isotropy": isotropy_table, "wsd": wsd_table} | dict.fromkeys(TASKS, task_table)


if __name__ == "__main__":
    main()
