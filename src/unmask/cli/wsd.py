"""`unmask wsd`: word sense disambiguation with sense vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, print_json, print_table, say
from unmask.errors import UsageError

if TYPE_CHECKING:
    from unmask.embeddings.encoder import Encoder
    from unmask.embeddings.senses import Answers, Senses

app = typer.Typer(
    name="wsd",
    help="Tell a word's senses apart by their vectors.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Corpus = Annotated[Path, typer.Argument(help="A corpus in the unified format, NAME.data.xml (.gz too).")]
GoldFile = Annotated[
    Path | None, typer.Option("--gold", help="Its gold keys [default: NAME.gold.key.txt beside it].")
]
SensesFile = Annotated[Path, typer.Option("--senses", "-s", help="What 'unmask wsd fit' wrote.")]
WordNetChoice = Annotated[
    str,
    typer.Option("--wordnet", help="For unseen lemmas: a directory of WordNet's files, auto or none."),
]

Prior = Annotated[
    float, typer.Option("--prior", min=0.0, help="Weight of how frequent a sense is; 0: nearest sense alone.")
]
Standardise = Annotated[
    bool, typer.Option("--standardise/--raw", help="Compare standardised vectors, or raw ones.")
]
Layers = Annotated[
    str, typer.Option("--layers", "-l", help="As for embed: a number, last, last4, concat:5,6 ...")
]
OtherModel = Annotated[
    str | None, typer.Option("--model", "-m", help="The model [default: that of the senses].")
]


@app.command()
@query_options()
def fit(
    corpus: Corpus,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the senses: .safetensors.")],
    source: o.EncoderOptions,
    gold: GoldFile = None,
    layers: Layers = "last4",
    json: o.Json = False,
) -> None:
    """Learn a vector for every sense of a sense-tagged corpus."""
    from unmask.embeddings.sense_corpus import count_sentences, gold_beside, read_gold, read_sentences

    if out.suffix != ".safetensors":
        raise UsageError(f"expected a file of senses that ends in .safetensors, got '{out}'")
    o.check_place(out)
    keys = read_gold(gold or gold_beside(corpus))
    sentences, total = read_sentences(corpus), count_sentences(corpus)
    from unmask.embeddings import senses

    learned = senses.fit(source.encoder(), sentences, keys, layers=layers, progress=Bar(), total=total)
    learned.save(out)
    answer = {
        "out": str(out),
        "model": source.model,
        "layers": layers,
        "senses": len(learned.keys),
        "lemmas": len(learned.entries),
        "instances": learned.instances,
    }
    if json:
        print_json(answer)
    else:
        say(
            f"{answer['senses']:,} senses of {answer['lemmas']:,} lemmas from {answer['instances']:,} "
            f"instances (layers {layers} of {source.model}): {out}"
        )


@app.command()
def predict(
    corpus: Corpus,
    senses: SensesFile,
    standardise: Standardise = True,
    prior: Prior = 0.05,
    wordnet: WordNetChoice = "auto",
    model: OtherModel = None,
    device: o.Device = "auto",
    allow_pickle: o.AllowPickle = False,
) -> None:
    """Print the sense of every instance of a corpus, in the format of gold keys."""
    learned, encoder = _open(senses, model, device, allow_pickle)
    from unmask.embeddings.senses import method_name

    answers = _answer(learned, encoder, corpus, wordnet, prior)
    given = answers.by_method[method_name(standardised=standardise, prior=prior > 0)]
    for instance, key in zip(answers.instances, given, strict=True):
        if key is not None:
            say(f"{instance.id} {key}")


@app.command()
def evaluate(
    corpora: Annotated[
        list[Path], typer.Argument(help="Corpora in the unified format, NAME.data.xml (.gz too).")
    ],
    senses: SensesFile,
    gold: Annotated[
        list[Path] | None,
        typer.Option(
            "--gold",
            help="The gold keys of each corpus, in their order [default: NAME.gold.key.txt beside each].",
        ),
    ] = None,
    prior: Prior = 0.05,
    wordnet: WordNetChoice = "auto",
    model: OtherModel = None,
    device: o.Device = "auto",
    allow_pickle: o.AllowPickle = False,
    json: o.Json = False,
) -> None:
    """Score the senses of corpora by part of speech, with the most frequent sense beside them."""
    from unmask.embeddings.sense_corpus import gold_beside, read_gold
    from unmask.embeddings.senses import score
    from unmask.embeddings.wordnet import find_wordnet

    if gold and len(gold) != len(corpora):
        raise UsageError(
            f"expected --gold once per corpus, got {len(gold)} for {len(corpora)}: give all or none"
        )
    keys = [read_gold(path) for path in gold or map(gold_beside, corpora)]
    learned, encoder = _open(senses, model, device, allow_pickle)
    answer = {}
    for corpus, own in zip(corpora, keys, strict=True):
        scores = score(_answer(learned, encoder, corpus, wordnet, prior), own)
        answer[corpus.name.removesuffix(".gz").removesuffix(".data.xml")] = {
            method: {pos: found.record() for pos, found in by_pos.items()}
            for method, by_pos in scores.items()
        }
    found = find_wordnet(wordnet) is not None
    if json:
        print_json(
            {
                "model": encoder.name,
                "layers": learned.layers,
                "prior": prior,
                "wordnet": found,
                "corpora": answer,
            }
        )
        return
    for name, methods in answer.items():
        places = list(next(iter(methods.values())))
        rows = [
            [method, *(f"{100 * by_pos[place]['f1']:.1f}" for place in places)]
            for method, by_pos in methods.items()
        ]
        sizes = [f"{place} ({next(iter(methods.values()))[place]['instances']:,})" for place in places]
        print_table(f"F1 on {name}", ["", *sizes], rows, numbers=set(range(1, len(places) + 1)))
    unseen = "WordNet's first sense" if found else "no answer, for want of a WordNet"
    say(
        f"senses by nearest neighbour in layers {learned.layers} of {encoder.name}; lemmas that were never "
        f"seen get {unseen}"
    )


@app.command()
@query_options()
def picture(
    lemma: Annotated[str, typer.Argument(help="The lemma whose instances are drawn.")],
    corpus: Annotated[Path, typer.Option("--corpus", help="A sense-tagged corpus, NAME.data.xml (.gz too).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: .png, .svg or .pdf.")],
    source: o.EncoderOptions,
    pos: Annotated[str, typer.Option("--pos", help="Its part of speech: NOUN, VERB, ADJ or ADV.")] = "NOUN",
    gold: GoldFile = None,
    layers: Layers = "last4",
    least: Annotated[int, typer.Option("--least", min=1, help="Instances that a drawn sense has.")] = 3,
    standardise: Standardise = True,
) -> None:
    """Draw one word's instances in the plane, coloured by sense."""
    from unmask.embeddings.figures import check_figure, draw_senses, instances_by_sense
    from unmask.embeddings.sense_corpus import gold_beside, read_gold, read_sentences

    check_figure(out)
    o.check_place(out)
    keys = read_gold(gold or gold_beside(corpus))
    encoder, sentences = source.encoder(), read_sentences(corpus)
    vectors, shown = instances_by_sense(
        encoder, sentences, keys, lemma, pos, layers=layers, least=least, standardise=standardise
    )
    draw_senses(vectors, shown, f"{lemma} ({pos.lower()}), layers {layers} of {source.model}", out)
    say(f"{len(shown):,} instances of {len(set(shown))} senses of '{lemma}': {out}")


def _open(path: Path, model: str | None, device: str, allow_pickle: bool) -> tuple[Senses, Encoder]:
    from unmask.embeddings.senses import Senses
    from unmask.embeddings.standardise import other_weights

    learned = Senses.load(path)
    encoder = o.EncoderOptions(model or learned.model, device, allow_pickle).encoder()
    width = encoder.width_of(encoder.layers(learned.layers))
    if width != learned.vectors.shape[1]:
        raise UsageError(
            f"the senses have {learned.vectors.shape[1]} dimensions, the model {width}: give the model that "
            f"they were fitted with ({learned.model})"
        )
    if other_weights(learned.weights, encoder.weights):
        raise UsageError(
            f"the senses were fitted with other weights (of {learned.model}): give that model, or fit them "
            "anew ('unmask wsd fit')"
        )
    return learned, encoder


def _answer(learned: Senses, encoder: Encoder, corpus: Path, wordnet: str, prior: float) -> Answers:
    from unmask.embeddings.sense_corpus import count_sentences, read_sentences
    from unmask.embeddings.senses import predict
    from unmask.embeddings.wordnet import find_wordnet

    found = find_wordnet(wordnet)
    back_off = found.first_sense if found is not None else lambda _lemma, _pos: None
    sentences, total = read_sentences(corpus), count_sentences(corpus)
    return predict(learned, encoder, sentences, prior=prior, back_off=back_off, progress=Bar(), total=total)
