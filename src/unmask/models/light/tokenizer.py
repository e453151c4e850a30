"""The part of a Hugging Face tokenizer that unmask uses, straight from a checkpoint's tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

KINDS = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
ROLES = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
BOUNDLESS = 10**30


class LightTokenizer:
    """Reads texts as the tokenizer of a BERT checkpoint does."""

    is_fast = True

    def __init__(self, tokenizer: Tokenizer, special: dict[str, str], model_max_length: int) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.model_max_length = model_max_length
        self.mask_token, self.unk_token = special["mask_token"], special["unk_token"]
        self.mask_token_id = tokenizer.token_to_id(self.mask_token)
        self.unk_token_id = tokenizer.token_to_id(self.unk_token)
        self.all_special_ids = [tokenizer.token_to_id(token) for token in special.values()]
        self.added_tokens_decoder = tokenizer.get_added_tokens_decoder()

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The tokenizer of the `tokenizers` library, under the name that transformers has for it."""
        return self._tokenizer

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def __call__(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        return_offsets_mapping: bool = False,
        verbose: bool = True,  # noqa: ARG002 (there is nothing to be silent about)
    ) -> dict[str, Any]:
        """Return the ids of a text, and if asked for the characters that each stands for."""
        encoded = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        answer: dict[str, Any] = {"input_ids": encoded.ids}
        if return_offsets_mapping:
            answer["offset_mapping"] = encoded.offsets
        return answer

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special ones around it."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).tokens)

    def get_vocab(self) -> dict[str, int]:
        """Return the id of every token."""
        return dict(self._tokenizer.get_vocab())

    def convert_ids_to_tokens(self, ids: int | list[int]) -> Any:
        """Return the token of an id, or of each of several; None for an id that has none."""
        if isinstance(ids, int):
            return self._tokenizer.id_to_token(ids)
        return [self._tokenizer.id_to_token(i) for i in ids]


def read_tokenizer(directory: Path) -> LightTokenizer | None:
    """Return the tokenizer of a directory, or None if its files ask for more than this one does."""
    config = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    if config.get("tokenizer_class") not in KINDS:
        return None
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    special = {role: config[role] for role in ROLES if isinstance(config.get(role), str)}
    if set(special) != set(ROLES) or any(tokenizer.token_to_id(token) is None for token in special.values()):
        return None
    if type(tokenizer.model).__name__ != "WordPiece":
        return None
    return LightTokenizer(tokenizer, special, int(config.get("model_max_length", BOUNDLESS)))
