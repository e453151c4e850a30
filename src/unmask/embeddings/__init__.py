"""The vectors inside a masked language model: of tokens, words and sentences, at any layer.

`Encoder` gives them, `Reader` says what gets one, `embed_file` writes those of a whole file; `isotropy`
measures how they lie in space, `Standardiser` evens them out, and `senses` tells a word's meanings apart.
"""
