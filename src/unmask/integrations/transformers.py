"""`pipeline("joint-fill-mask")`: transformers' fill-mask, with the joint distribution over several masks.

    import unmask.integrations.transformers
    from transformers import pipeline

    fill = pipeline("joint-fill-mask", model="bert-base-uncased")
    fill("The [MASK] [MASK] in the pool.", top_k=3)

For one mask it is `fill-mask` itself. For several masks `fill-mask` gives a list for each, of "disjoint
probabilities where one might expect joint probabilities", as its documentation says; here the answer is one
list of complete fillings, best first, each with its joint probability. Importing this module registers the
task.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM
from transformers.pipelines import PIPELINE_REGISTRY, FillMaskPipeline

from unmask.errors import UsageError
from unmask.inference.infer import infer
from unmask.inference.query import SPECS, Query
from unmask.joints.joint import Joint
from unmask.models.embedded import locate
from unmask.models.in_memory import check_model, wrap
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze

TASK = "joint-fill-mask"
MOST_COMBINATIONS = 4096
"""How many combinations of targets are scored, each by the joint."""
OF_QUERY = frozenset(SPECS) - {"text", "truncate"}


class JointFillMaskPipeline(FillMaskPipeline):  # type: ignore[misc]
    """Fills one mask as `fill-mask` does, and several by their joint distribution.

    Beside `targets`, `top_k` and `tokenizer_kwargs` of `fill-mask` it takes the options of `unmask.fill`
    (`method`, `candidates`, `support`, ...). The support is `all` unless told otherwise, as in `fill-mask`.
    For several masks `targets` is one list for all of them, or a list of lists, one per mask.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_model(kwargs.get("model", args[0] if args else None))
        super().__init__(*args, **kwargs)

    @cached_property
    def mlm(self) -> MaskedLM:
        """The pipeline's own model; a copy of it in float32 if it is in half precision."""
        precise = self.model.dtype in (torch.float32, torch.float64)
        model = self.model if precise else copy.deepcopy(self.model).float()
        return wrap(model, self.tokenizer, device=str(self.device))

    def get_target_ids(self, targets: str | Sequence[Any]) -> Any:
        """Return the ids of targets: an array, or a list of arrays if there is one list per mask."""
        if not isinstance(targets, str) and any(not isinstance(target, str) for target in targets):
            if any(isinstance(target, str) for target in targets):
                raise UsageError("expected targets as one list of words, or one list per mask; got a mixture")
            return [super(JointFillMaskPipeline, self).get_target_ids(words) for words in targets]
        return super().get_target_ids(targets)

    def _sanitize_parameters(
        self, top_k: int | None = None, targets: Any = None, tokenizer_kwargs: Any = None, **query: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        for name in set(query) - OF_QUERY:
            raise UsageError(
                f"{TASK} has no option '{name}': expected top_k, targets, tokenizer_kwargs, "
                f"{', '.join(sorted(OF_QUERY))}"
            )
        before, during, after = super()._sanitize_parameters(top_k, targets, tokenizer_kwargs)
        if query:
            Query(**query)  # which refuses what can't be, before a pass
            after["query"] = query
        return before, during, after

    def postprocess(
        self,
        model_outputs: Any,
        top_k: int = 5,
        target_ids: Any = None,
        query: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the likeliest fillings of one text, best first."""
        ids = model_outputs["input_ids"][0]
        masks = int((ids == self.tokenizer.mask_token_id).sum())
        if isinstance(target_ids, list) and len(target_ids) != masks:
            raise UsageError(f"expected targets for {masks} masks, one list each, got {len(target_ids)}")
        if masks == 1:
            words = target_ids[0] if isinstance(target_ids, list) else target_ids
            found: list[dict[str, Any]] = super().postprocess(model_outputs, top_k, words)
            return found
        lists = target_ids if target_ids is None or isinstance(target_ids, list) else [target_ids] * masks
        tokens, log_probs = self._best(ids[ids != self.tokenizer.pad_token_id], top_k, lists, query or {})
        return [
            self._filling(ids, filling, math.exp(log_prob))
            for filling, log_prob in zip(tokens.tolist(), log_probs.tolist(), strict=True)
        ]

    def _best(
        self, ids: Tensor, top_k: int, targets: list[Any] | None, options: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Return the best fillings of the masks [fillings, masks] and their log-probabilities."""
        query = Query(**{"support": "all", **options})
        if targets is None:
            best = self._joint(ids, query).top(top_k)
            return torch.tensor([f.ids for f in best]), torch.tensor([f.log_prob for f in best])
        combinations = math.prod(len(words) for words in targets)
        if combinations > MOST_COMBINATIONS:
            raise UsageError(
                f"expected targets with at most {MOST_COMBINATIONS:,} combinations, got {combinations:,}: "
                f"give fewer targets per mask"
            )
        every = torch.tensor(list(itertools.product(*(words.tolist() for words in targets))))
        included = sorted({*query.include, *every.flatten().tolist()})
        joint = self._joint(ids, Query(**{"support": "all", **options, "include": included}))
        log_probs, order = joint.log_prob(every).sort(descending=True, stable=True)
        return every[order[:top_k]], log_probs[:top_k]

    def _joint(self, ids: Tensor, query: Query) -> Joint:
        vocabulary = self.mlm.vocabulary
        tokens = tuple(ids.tolist())
        blanks = tuple(place for place, token in enumerate(tokens) if token == vocabulary.mask_id)
        if len(tokens) > self.mlm.window:
            raise UsageError(
                f"the text has {len(tokens)} tokens, and the model's window holds {self.mlm.window}: shorten "
                f"it, or give tokenizer_kwargs={{'truncation': True}}"
            )
        return infer(self.mlm, Cloze(tokens, blanks, ("",) * (len(blanks) + 1), vocabulary), query)

    def _filling(self, ids: Tensor, filling: list[int], score: float) -> dict[str, Any]:
        """Return a filling as `fill-mask` does, with one token per mask."""
        text = ids.clone()
        text[text == self.tokenizer.mask_token_id] = torch.tensor(filling)
        sequence = self.tokenizer.decode(text[text != self.tokenizer.pad_token_id], skip_special_tokens=True)
        words = [self.tokenizer.decode([token]) for token in filling]
        return {"score": score, "token": filling, "token_str": words, "sequence": sequence}


def register() -> None:
    """Make `pipeline("joint-fill-mask")` known to transformers; importing this module has done it."""
    if TASK not in PIPELINE_REGISTRY.supported_tasks:
        PIPELINE_REGISTRY.register_pipeline(
            TASK,
            pipeline_class=JointFillMaskPipeline,
            pt_model=AutoModelForMaskedLM,
            default={"model": (locate("english"), "main")},
            type="text",
        )


register()
