"""CausalLM: a left-to-right language model, to be scored beside masked ones.

It gives log p(t_i | t_1 ... t_(i-1)), the first token after the token that starts a text. The sum over a
text's tokens is the log-probability of a distribution over the texts of N tokens, as that of a masked model's
chain is. No end of the text is predicted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.memory import parse_bytes
from unmask.models.batch_size import fitting_batch
from unmask.models.device import choose_device
from unmask.models.in_memory import check_causal
from unmask.models.masked_lm import DEFAULT_MEMORY
from unmask.models.window import window_of
from unmask.text.vocabulary import Vocabulary


class CausalLM:
    """A causal language model with its tokenizer, its device and its memory budget.

    Args:
        model: any Hugging Face `...ForCausalLM` module.
        tokenizer: the tokenizer that goes with it.
        name: what to call it in reports.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        memory: what the work may take beyond the model itself, as in `4GB`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "model",
        device: str = "auto",
        memory: int | str = DEFAULT_MEMORY,
    ) -> None:
        check_causal(model, tokenizer)
        self.device = choose_device(device)
        self.model = model.to(self.device).eval()
        self.tokenizer, self.name, self.memory = tokenizer, name, parse_bytes(memory)
        start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        if start is None:
            raise UsageError(
                f"the tokenizer of '{name}' has no token that starts a text (bos or eos), so the first token "
                f"has no probability: give the tokenizer a bos_token"
            )
        self.start_id = int(start)
        self.window = window_of(model, tokenizer)
        self.vocabulary = Vocabulary(tokenizer, int(model.config.get_text_config().vocab_size))

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        device: str = "auto",
        memory: int | str = DEFAULT_MEMORY,
        allow_pickle: bool = False,
    ) -> CausalLM:
        """Open a causal checkpoint from a directory or by its hub name."""
        from unmask.models.checkpoint import open_causal

        opened = open_causal(source, allow_pickle=allow_pickle)
        return cls(*opened, name=str(source), device=device, memory=memory)

    def __repr__(self) -> str:
        size = f"{self.vocabulary.size:,} tokens, window {self.window}"
        return f"<CausalLM '{self.name}': {self.model.config.model_type}, {size}, {self.device}>"

    @torch.inference_mode()
    def log_probs(self, ids: Tensor) -> Tensor:
        """Return log p(next token | the tokens so far), [texts, length, vocab], of `ids` [texts, length]."""
        ids = ids.to(self.device)
        logits: Tensor = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return logits[..., : self.vocabulary.size].float().log_softmax(-1)

    def batch_size(self, length: int) -> int:
        """Return how many texts of this length one forward pass takes within the memory budget."""
        features = int(self.model.config.get_text_config().hidden_size)
        one = 4 * length * (3 * self.vocabulary.size + 16 * features)
        return fitting_batch(one, length, self.memory)
