"""TargetJoint: a joint restricted to allowed words and renormalised,

    q(x | T) = q(x) / sum over fillings t of T of q(t),

T being the fillings whose words are all among the targets of their blanks. It is q itself given that the
words are allowed, so the ratio of two fillings is q's; q(x) is kept beside it.

Words of several tokens take a blank for each token. Then q(x) is the probability of the tokens in the text
with so many blanks, as `unmask.score` has it, and the sum runs over the texts of all lengths, none preferred.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import RunError
from unmask.joints.joint import Filling, Joint
from unmask.joints.table import TableJoint
from unmask.text.cloze import Cloze, expanded
from unmask.text.targets import Target, target_support


class TargetJoint(TableJoint):
    """A joint over target words, from their log-probabilities in an unrestricted joint.

    Attributes:
        unrestricted_log_q: log q(x) [targets of blank 0, targets of blank 1, ...].
        source: the joint that was restricted; None if there are several, for words of different lengths.
    """

    def __init__(
        self,
        unrestricted_log_q: Tensor,
        targets: Sequence[Sequence[Target]],
        *,
        method: str,
        cloze: Cloze,
        source: Joint | None = None,
        diagnostics: Diagnostics | None = None,
    ) -> None:
        total = unrestricted_log_q.flatten().logsumexp(0)
        if not bool(total.isfinite()):
            raise RunError("the joint gives the targets no probability at all: choose other words")
        supports = tuple(target_support(words, cloze.vocabulary) for words in targets)
        super().__init__(
            unrestricted_log_q - total, supports, method=method, cloze=cloze, diagnostics=diagnostics
        )
        self.unrestricted_log_q, self.source, self.targets = unrestricted_log_q, source, targets
        self._total = float(total)

    @property
    def targets_log_prob(self) -> float | None:
        """The log of the targets' probability in the unrestricted joint; None if there are several joints."""
        return None if self.source is None else min(0.0, self._total)

    def _filling(self, ids: tuple[int, ...], log_prob: float) -> Filling:
        where = tuple(support.index(i) for support, i in zip(self.supports, ids, strict=True))
        words = [targets[n] for targets, n in zip(self.targets, where, strict=True)]
        assert self.cloze is not None
        spread = expanded(self.cloze, [len(word.ids) for word in words])
        text = spread.filled([token_id for word in words for token_id in word.ids])
        vocabulary = self.cloze.vocabulary
        tokens = tuple(w.word if len(w.ids) > 1 else vocabulary.token(w.ids[0]) for w in words)
        return Filling(ids, tokens, text, log_prob, float(self.unrestricted_log_q[where]))
