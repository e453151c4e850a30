"""The log-probability of a sentence by a causal language model: `chain`, in one pass.

Sentences of one length go together. The score has the name of the masked models' chain because it is the same
thing: the log-probability of the N tokens, one after the other, given how many there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from unmask.errors import UsageError
from unmask.inference.model_conditionals import PAIR_CANDIDATES
from unmask.inference.sentence_scores import SentenceScore, SentenceScorer, check_orders, check_scores
from unmask.inference.sentences import Sentence
from unmask.models.causal_lm import CausalLM
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.support import Support


class CausalScorer:
    """Scores sentences by a causal model.

    Args:
        lm: the model.
        names: the scores; there is but `chain`.
    """

    def __init__(self, lm: CausalLM, names: Sequence[str]) -> None:
        check_scores(names)
        if tuple(names) != ("chain",):
            raise UsageError(
                f"'{lm.name}' is a causal language model, whose score is chain, got {', '.join(names)}: ask "
                f"for chain, or give a masked language model"
            )
        self.lm = lm

    def __call__(
        self, sentences: Sequence[Sentence], progress: Progress = silent
    ) -> dict[str, list[SentenceScore]]:
        """Return the score of every sentence, in their order."""
        groups: dict[int, list[int]] = defaultdict(list)
        for n, sentence in enumerate(sentences):
            groups[len(sentence.ids)].append(n)
        found: dict[int, SentenceScore] = {}
        batches = []
        for length, members in sorted(groups.items()):
            size = self.lm.batch_size(length)
            batches += [members[start : start + size] for start in range(0, len(members), size)]
        for batch in progress.over(batches, total=len(sentences), size=len, stage="forward passes"):
            log_probs = self.lm.log_probs(torch.tensor([sentences[n].ids for n in batch]))
            for row, n in zip(log_probs, batch, strict=True):
                places = torch.tensor(sentences[n].positions, device=row.device)
                before = row[places - 1].cpu().double()  # what stood before a token predicts it
                own = before.gather(1, torch.tensor(sentences[n].tokens)[:, None])
                ranks = (before > own).sum(1) + 1
                found[n] = SentenceScore(tuple(own[:, 0].tolist()), tuple(ranks.tolist()))
        return {"chain": [found[n] for n in range(len(sentences))]}


def make_sentence_scorer(
    lm: MaskedLM | CausalLM,
    names: Sequence[str],
    *,
    support: Support | None = None,
    candidates: int = PAIR_CANDIDATES,
    orders: int = 1,
    seed: int = 0,
) -> SentenceScorer | CausalScorer:
    """Return what scores sentences with a model of either kind."""
    if isinstance(lm, MaskedLM):
        return SentenceScorer(lm, names, support=support, candidates=candidates, orders=orders, seed=seed)
    if orders != 1:
        check_orders(names, orders)
        raise UsageError(
            f"'{lm.name}' is a causal language model, which has one order: leave orders out, or give a "
            f"masked language model"
        )
    if support is not None and len(support) != lm.vocabulary.size:
        raise UsageError(f"'{lm.name}' is a causal language model, scored over all tokens: leave support out")
    return CausalScorer(lm, names)
