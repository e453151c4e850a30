"""The vectors inside a masked language model: of tokens, words and sentences, at any layer.

`Encoder` gives them, `Reader` says what gets one, `embed_file` writes those of a whole file; `survey`
measures how they lie in space, `Standardiser` evens them out, `Senses` tells a word's meanings apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.embeddings.encoder import Encoder
    from unmask.embeddings.files import Wanted, embed_file
    from unmask.embeddings.isotropy import survey
    from unmask.embeddings.reading import Reader
    from unmask.embeddings.senses import Senses
    from unmask.embeddings.standardise import Standardiser

__all__ = ["Encoder", "Reader", "Senses", "Standardiser", "Wanted", "embed_file", "survey"]

_HOME = {
    "Encoder": "encoder",
    "Reader": "reading",
    "Senses": "senses",
    "Standardiser": "standardise",
    "Wanted": "files",
    "embed_file": "files",
    "survey": "isotropy",
}


def __getattr__(name: str) -> Any:
    """Import torch only when a name is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
