"""The vectors inside a masked language model: of tokens, words and sentences, at any layer.

`Encoder` gives them, `Reader` says what gets one, `embed_file` writes those of a whole file; `survey`
measures how they lie in space, `Standardiser` evens them out, `Senses` tells a word's meanings apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.lazy import lazy_attributes

if TYPE_CHECKING:
    from unmask.embeddings.encoder import Encoder
    from unmask.embeddings.files import Wanted, embed_file
    from unmask.embeddings.isotropy import survey
    from unmask.embeddings.senses import Senses
    from unmask.embeddings.standardise import Standardiser
    from unmask.text.reading import Reader

__all__ = ["Encoder", "Reader", "Senses", "Standardiser", "Wanted", "embed_file", "survey"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "Encoder": "unmask.embeddings.encoder",
        "Reader": "unmask.text.reading",
        "Senses": "unmask.embeddings.senses",
        "Standardiser": "unmask.embeddings.standardise",
        "Wanted": "unmask.embeddings.files",
        "embed_file": "unmask.embeddings.files",
        "survey": "unmask.embeddings.isotropy",
    },
)
