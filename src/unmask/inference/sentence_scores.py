"""The log-probability of a sentence, four ways.

For a sentence t_1 ... t_N, every sum running over its tokens:

- `pll`, the pseudo-log-likelihood: sum log p(t_i | all others) (Wang & Cho 2019; Salazar et al. 2020). No
  probability of anything: it counts each token's help to its neighbours on both sides.
- `pll-word`, the same with the rest of the token's own word hidden to its right, so that the pieces of a rare
  word don't give each other away: sum log p(t_i | all but the later pieces of its word) (Kauf & Ivanova
  2023).
- `chain`, one token after the other with all later ones masked: sum log p(t_i | t_1 ... t_(i-1), N - i + 1
  masks). An explicit distribution over the V^N sentences of N tokens, which sums to 1.
  Averaged over several orders of the tokens (`unmask.inference.orders`) it is still one.
- `ag-chain`, the chain of blocks of two, each by the Arnold-Gokhale joint of its pair on the K likeliest
  tokens of each, with a backoff over all others (`unmask.joints.backoff`): again a distribution over
  all V^N sentences. A token's share is that of the chain rule inside its block, log q(a) and log q(b|a).

Every score reads masked copies of the sentence. A copy that several of them read, or several sentences (whose
first tokens are the same, as in minimal pairs), goes through the model once; so does the joint of a block,
and it is made no sooner than a sentence has a likely token there: elsewhere it is the chain. Copies of
one length go together, at most a batch at a time, whatever the length, and only the masked position's state
goes through the output layer. So long sentences take time and no memory.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.inference.model_conditionals import PAIR_CANDIDATES, ModelConditionals, tokens_joined
from unmask.inference.orders import Following, Order, mixture
from unmask.inference.sentences import Hidden, Sentence, masked_copy
from unmask.joints.joint import Joint
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze
from unmask.text.support import Support

ROWS_AT_ONCE = 64
MOST_ORDERS = 64
KEPT_SHARE = 16
"""What part of the memory budget the joints of blocks that are kept for later sentences may take."""


def _all_that_follows(sentence: Sentence, place: int) -> Iterable[int]:
    return range(place, len(sentence))


HIDDEN: dict[str, Hidden] = {
    "pll": lambda _, place: (place,),
    "pll-word": lambda s, place: (i for i in range(place, len(s)) if s.words[i] == s.words[place]),
    "chain": _all_that_follows,
    "ag-chain": _all_that_follows,  # the chain of pairs starts from the chain
}
"""What each score masks."""
SCORES = tuple(HIDDEN)
DISTRIBUTIONS = ("chain", "ag-chain")
"""The scores that are log-probabilities of a distribution over sentences of a length."""


@dataclass(frozen=True)
class SentenceScore:
    """A sentence's log-probability, and what each of its tokens adds."""

    log_probs: tuple[float, ...]
    ranks: tuple[int, ...] | None = None
    """Each token's rank at its place, 1 for the likeliest; None where a token has more than one place."""
    by_order: tuple[float, ...] = ()
    """The sentence's log-probability in each of the orders that were averaged; the average of the first n of
    them is what n orders give."""

    @property
    def log_prob(self) -> float:
        """The sum."""
        return sum(self.log_probs)


def check_scores(names: Sequence[str]) -> None:
    """Refuse a score that there is not."""
    for name in names:
        if name not in SCORES:
            raise UsageError(f"unknown score '{name}': expected one of {', '.join(SCORES)}")
    if not names or len(set(names)) != len(names):
        raise UsageError(f"expected one or more scores, each once, out of {', '.join(SCORES)}")


def check_orders(names: Sequence[str], orders: int) -> None:
    """Refuse a number of orders that can't be, or that no score would heed."""
    if isinstance(orders, bool) or not isinstance(orders, int) or not 1 <= orders <= MOST_ORDERS:
        raise UsageError(
            f"expected a number of orders from 1 to {MOST_ORDERS}, got {orders!r}: a few are enough"
        )
    if orders > 1 and "chain" not in names:
        raise UsageError(f"orders are averaged by the score chain, got {', '.join(names)}: leave orders out")


class Copy(NamedTuple):
    """A masked copy of a sentence, by what makes it: the sentence's number, and the place asked about."""

    sentence: int
    place: int
    hidden: Hidden


class Answer(NamedTuple):
    """The log-probability of a token, and how many tokens are likelier."""

    log_prob: float
    likelier: int


class Block(NamedTuple):
    """Two neighbouring blanks of a text: the position of the first, and the ids."""

    first: int
    ids: tuple[int, ...]


Key = bytes
"""Stands for the ids of a masked copy and the position asked about."""


class SentenceScorer:
    """Scores sentences by several scores at once; what they share is computed once.

    Args:
        mlm: the model.
        names: the scores.
        support: the tokens that a sentence may hold; every token by default.
        candidates: tokens per blank on which `ag-chain` joins a pair.
        orders: how many orders of the tokens `chain` is averaged over.
        seed: of the orders beyond left to right and right to left.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        names: Sequence[str],
        *,
        support: Support | None = None,
        candidates: int = PAIR_CANDIDATES,
        orders: int = 1,
        seed: int = 0,
    ) -> None:
        check_scores(names)
        check_orders(names, orders)
        self._orders: tuple[Hidden, ...] = tuple(Following(Order(n, seed)) for n in range(orders))
        self.mlm, self.names = mlm, tuple(names)
        self.support = support or Support.everything(mlm.vocabulary)
        self.candidates = candidates
        self._decode = mlm.decoder(self.support.ids)
        self._blocks: OrderedDict[Block, Joint] = OrderedDict()

    def __call__(
        self, sentences: Sequence[Sentence], progress: Progress = silent
    ) -> dict[str, list[SentenceScore]]:
        """Return each score of every sentence, in their order."""
        keys: dict[Hidden, list[list[Key]]] = {}
        copies: dict[Key, Copy] = {}
        for hidden in dict.fromkeys(hidden for name in self.names for hidden in self._hidden_by(name)):
            keys[hidden] = [self._keys(sentences, n, hidden, copies) for n in range(len(sentences))]
        tokens: dict[Key, dict[int, Answer]] = {key: {} for key in copies}
        for lines in keys.values():
            for sentence, line in zip(sentences, lines, strict=True):
                for key, token in zip(line, sentence.tokens, strict=True):
                    tokens[key][token] = Answer(0.0, 0)
        self._ask(sentences, copies, tokens, progress)
        found = {}
        for name in self.names:
            answers = [
                [
                    [tokens[key][token] for key, token in zip(line, sentence.tokens, strict=True)]
                    for sentence, line in zip(sentences, keys[hidden], strict=True)
                ]
                for hidden in self._hidden_by(name)
            ]
            if name == "ag-chain":
                found[name] = self._in_pairs(sentences, answers[0], progress)
            else:
                found[name] = [_score(lines) for lines in zip(*answers, strict=True)]
        return found

    def _hidden_by(self, name: str) -> tuple[Hidden, ...]:
        """Return what a score masks, once for each order; the chain of pairs starts from the chain."""
        if name == "chain" and len(self._orders) > 1:
            return self._orders
        return (HIDDEN[name],)

    def _keys(
        self, sentences: Sequence[Sentence], n: int, hidden: Hidden, copies: dict[Key, Copy]
    ) -> list[Key]:
        """Name the copies that a sentence needs, one a place, and remember those not seen before."""
        line = []
        for place, position in enumerate(sentences[n].positions):
            ids = masked_copy(sentences[n], hidden(sentences[n], place), self.mlm.vocabulary.mask_id)
            key = blake2b(repr((position, ids)).encode(), digest_size=16).digest()
            copies.setdefault(key, Copy(n, place, hidden))
            line.append(key)
        return line

    @torch.inference_mode()
    def _ask(
        self,
        sentences: Sequence[Sentence],
        copies: dict[Key, Copy],
        tokens: dict[Key, dict[int, Answer]],
        progress: Progress,
    ) -> None:
        """Run all copies through the model and fill in the answers."""
        groups: dict[int, list[Key]] = defaultdict(list)
        for key, copy in copies.items():
            groups[len(sentences[copy.sentence].ids)].append(key)
        progress.started("forward passes", len(copies))
        try:
            for length, members in sorted(groups.items()):
                # by place first: the copies of a batch are asked about few positions
                members.sort(key=lambda key: copies[key].place)
                size = min(self.mlm.batch_size(length), ROWS_AT_ONCE)
                for start in range(0, len(members), size):
                    part = members[start : start + size]
                    self._ask_batch(sentences, [copies[key] for key in part], [tokens[key] for key in part])
                    progress.advanced(len(part))
        finally:
            progress.finished()

    def _ask_batch(
        self, sentences: Sequence[Sentence], copies: list[Copy], tokens: list[dict[int, Answer]]
    ) -> None:
        mask = self.mlm.vocabulary.mask_id
        ids = [
            masked_copy(sentences[c.sentence], c.hidden(sentences[c.sentence], c.place), mask) for c in copies
        ]
        positions = torch.tensor([[sentences[c.sentence].positions[c.place]] for c in copies])
        logits = self._decode(self.mlm.states_each(torch.tensor(ids), positions)[:, 0])
        normaliser = logits.logsumexp(-1)
        rows = torch.tensor([n for n, known in enumerate(tokens) for _ in known], device=self.mlm.device)
        targets = self.support.indices(torch.tensor([token for known in tokens for token in known]))
        own = logits[rows, targets.to(logits.device)]
        likelier = (logits[rows] > own[:, None]).sum(1).tolist()
        log_probs = (own.cpu().double() - normaliser[rows].cpu().double()).tolist()
        answers = iter(zip(log_probs, likelier, strict=True))
        for known in tokens:
            known.update({token: Answer(*next(answers)) for token in known})

    def _in_pairs(
        self, sentences: Sequence[Sentence], answers: list[list[Answer]], progress: Progress
    ) -> list[SentenceScore]:
        """Turn the chain's answers into those of the chain of pairs: the same but in the rows of a grid."""
        rows = tokens_joined((self.support, self.support), self.candidates)
        found = [[answer.log_prob for answer in line] for line in answers]
        wanted: dict[Block, list[tuple[int, int]]] = defaultdict(list)
        for n, (sentence, line) in enumerate(zip(sentences, answers, strict=True)):
            for first in range(0, len(sentence) - 1, 2):
                if line[first].likelier < rows:
                    hidden = _all_that_follows(sentence, first)
                    ids = masked_copy(sentence, hidden, self.mlm.vocabulary.mask_id)
                    wanted[Block(sentence.positions[first], ids)].append((n, first))
        for text, joint in progress.over(self._joints(wanted), total=len(wanted), stage="blocks"):
            marginal = joint.marginal(0)
            for n, first in wanted[text]:
                a, b = sentences[n].tokens[first : first + 2]
                alone = float(marginal.log_prob(a))
                found[n][first : first + 2] = [alone, float(joint.log_prob([a, b])) - alone]
        return [SentenceScore(tuple(line)) for line in found]

    def _joints(self, texts: Iterable[Block]) -> Iterator[tuple[Block, Joint]]:
        """Go through the joints of blocks; some of the last ones are kept."""
        groups: dict[int, list[Block]] = defaultdict(list)
        for text in texts:
            groups[len(text.ids)].append(text)
        support = (self.support, self.support)
        one = 8 * tokens_joined(support, self.candidates) * len(self.support)
        kept = max(1, self.mlm.memory // KEPT_SHARE // one)
        for _, members in sorted(groups.items()):
            new = [text for text in members if text not in self._blocks]
            states = dict(zip(new, self._both_blank(new), strict=True))
            for text in members:
                joint = self._blocks.pop(text, None)
                if joint is None:
                    cloze = Cloze(text.ids, (text.first, text.first + 1), ("", "", ""), self.mlm.vocabulary)
                    joint = ModelConditionals(
                        self.mlm, cloze, support, candidates=self.candidates, states=states.get(text)
                    ).pair_joint()
                self._blocks[text] = joint
                while len(self._blocks) > kept:
                    self._blocks.popitem(last=False)
                yield text, joint

    @torch.inference_mode()
    def _both_blank(self, texts: list[Block]) -> Iterator[Tensor]:
        """Return the states at the two blanks of each text, [2, features], all texts being of one length."""
        for start in range(0, len(texts), ROWS_AT_ONCE):
            part = texts[start : start + ROWS_AT_ONCE]
            positions = torch.tensor([[text.first, text.first + 1] for text in part])
            states = self.mlm.states_each(torch.tensor([text.ids for text in part]), positions)
            yield from (pair.clone() for pair in states)  # of which some are kept, and others not


def _score(answers: Sequence[list[Answer]]) -> SentenceScore:
    """Make the score of a sentence from its tokens' answers, a list for each order."""
    if len(answers) == 1:
        (only,) = answers
        return SentenceScore(tuple(a.log_prob for a in only), tuple(a.likelier + 1 for a in only))
    log_probs = [[a.log_prob for a in line] for line in answers]
    return SentenceScore(mixture(log_probs), by_order=tuple(sum(line) for line in log_probs))
