"""`unmask isotropy`: how evenly a model's vectors lie in space, and the standardiser that evens them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, print_json, print_table, say
from unmask.errors import UsageError
from unmask.text.lines import check_file


@query_options("seed")
def isotropy(
    texts: o.Texts,
    source: o.EncoderOptions,
    layers: Annotated[
        list[str] | None,
        typer.Option("--layers", "-l", help="As for embed; repeatable [default: every layer by itself]."),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=2, help="Texts to draw at random.")] = 2000,
    remove: Annotated[
        int | None,
        typer.Option("--remove", min=0, help="Leading components to remove [default: dimensions / 100]."),
    ] = None,
    standardiser: Annotated[
        Path | None, typer.Option("--standardiser", help="Save the fitted statistics here (.safetensors).")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the measures by layer: .png, .svg or .pdf.")
    ] = None,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Measure how evenly a model's word vectors lie in space, before and after standardisation."""
    check_file(texts)
    from unmask.embeddings.figures import check_figure, draw_isotropy
    from unmask.embeddings.files import read_texts
    from unmask.embeddings.isotropy import isotropy_by_layer
    from unmask.embeddings.standardise import save_standardisers

    if figure is not None:
        check_figure(figure)
    if standardiser is not None and standardiser.suffix != ".safetensors":
        raise UsageError(f"expected a standardiser's file that ends in .safetensors, got '{standardiser}'")
    for out in (figure, standardiser):
        if out is not None:
            o.check_place(out)
    model, encoder = source.model, source.encoder()
    found = isotropy_by_layer(
        encoder, read_texts(texts), layers, sample=sample, remove=remove, progress=Bar(), **query
    )
    if standardiser is not None:
        about = {"model": model, "texts": str(found.texts), "seed": str(query["seed"])}
        if encoder.weights is not None:
            about["weights"] = encoder.weights
        save_standardisers(found.standardisers, standardiser, about)
    if figure is not None:
        draw_isotropy({model: found}, figure)
    if json:
        print_json(
            {
                "model": model,
                "texts": found.texts,
                "words": found.words,
                "removed": found.removed,
                **query,
                "layers": {
                    name: {remedy: measures.record() for remedy, measures in by_remedy.items()}
                    for name, by_remedy in found.measures.items()
                },
                "standardiser": str(standardiser) if standardiser else None,
                "figure": str(figure) if figure else None,
            }
        )
        return
    rows = [
        [name, remedy, *(f"{value:.3f}" for value in list(m.record().values())[:-1]), f"{m.directions:.1f}"]
        for name, by_remedy in found.measures.items()
        for remedy, m in by_remedy.items()
    ]
    columns = ["layer", "vectors", "cosine", "of one dim.", "lead 1", "lead 3", "lead 10", "directions"]
    print_table(f"isotropy of {model}", columns, rows, numbers=set(range(2, 8)))
    say(
        f"{found.words:,} words of {found.texts:,} texts measured, fitted on the other half; 'top removed' "
        f"is without the mean and {found.removed} leading components"
    )
