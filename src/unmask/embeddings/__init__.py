"""The vectors inside a masked language model: of tokens, words and sentences, at any layer.

`Encoder` gives them, `Reader` says what gets one, `embed_file` writes those of a whole file;
`isotropy_by_layer` measures how they lie in space, `Standardiser` evens them out, `Senses` tells a word's
meanings apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.lazy import lazy_attributes

if TYPE_CHECKING:
    from unmask.embeddings.encoder import Encoder
    from unmask.embeddings.files import Settings, embed_file
    from unmask.embeddings.isotropy import isotropy_by_layer
    from unmask.embeddings.senses import Senses
    from unmask.embeddings.standardise import Standardiser
    from unmask.text.reading import Reader

__all__ = ["Encoder", "Reader", "Senses", "Settings", "Standardiser", "embed_file", "isotropy_by_layer"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "unmask.embeddings.encoder": "Encoder",
        "unmask.embeddings.files": "Settings embed_file",
        "unmask.embeddings.isotropy": "isotropy_by_layer",
        "unmask.embeddings.senses": "Senses",
        "unmask.embeddings.standardise": "Standardiser",
        "unmask.text.reading": "Reader",
    },
)
