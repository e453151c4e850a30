"""Named entities of two to four tokens, blanked out of their sentences, and how well each method fills them.

A method sees the sentence with all tokens of the entity masked and nothing of the truth; each is a
distribution over all fillings by words, so their log-probabilities can be compared. The edges of a tree are
chosen by the likeliest tokens, without the truth; then its log-probability asks about the true tokens as
the chain asks about the true tokens before: it is that of the tree in which they have rows of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import unmask
from unmask.evaluation.benchmarks.blanks import JOINTS as BLANKS_JOINTS
from unmask.evaluation.benchmarks.blanks import TOP, BlanksSettings
from unmask.evaluation.keyed_tasks import Record, Task
from unmask.inference.model_conditionals import ModelConditionals
from unmask.inference.sentences import Sentence, SentenceReader
from unmask.inference.tree import TREE_CANDIDATES, tree_joint
from unmask.joints.chain import Chain
from unmask.joints.joint import Joint
from unmask.joints.tree import TreeJoint
from unmask.tasks.files import read_tagged
from unmask.text.cloze import Cloze
from unmask.text.support import Support

FILES = {"wikigold": "ner/wikigold.conll", "wnut17": "ner/wnut17-train.conll"}
BLANKS = (2, 3, 4)
LONGEST = 64
METHODS = {
    "independent": "independent",
    "l2r": "chain",
    "ag": "chain of `ag` pairs",
    "tree": "tree",
    "tree-0": "tree (one pass)",
}
Supports = tuple[Support, ...]
SETTINGS = BlanksSettings()
JOINTS: dict[str, Callable[[unmask.MaskedLM, Cloze, Supports], Joint]] = {
    "independent": lambda mlm, cloze, s: BLANKS_JOINTS["independent"](mlm, cloze, s, SETTINGS),
    "l2r": lambda mlm, cloze, s: BLANKS_JOINTS["beam"](mlm, cloze, s, SETTINGS),
    "ag": lambda mlm, cloze, s: Chain(ModelConditionals(mlm, cloze, s, method="ag"), block=2, beam=TOP),
    "tree": lambda mlm, cloze, s: tree_joint(mlm, cloze, s, TREE_CANDIDATES),
    "tree-0": lambda mlm, cloze, s: tree_joint(mlm, cloze, s, 0),
}


def spans(tags: Sequence[str]) -> Iterator[range]:
    """Go through the words of each entity of a sentence tagged by BIO."""
    first = None
    for n, tag in enumerate([*tags, "O"]):
        if first is not None and not tag.startswith("I-"):
            yield range(first, n)
            first = None
        if tag.startswith("B-"):
            first = n


def entity_tasks(mlm: unmask.MaskedLM, data: Path, count: int) -> tuple[list[Task], dict[str, int]]:
    """Draw entities, `count` of each number of tokens from each file; one entity per sentence."""
    tasks: list[Task] = []
    left = {"sentences too long": 0}
    read, kept = SentenceReader(mlm), set(Support.words(mlm.vocabulary).ids.tolist())
    for name, file in FILES.items():
        wanted = dict.fromkeys(BLANKS, count)
        rng = random.Random(f"entities {name}")
        examples = read_tagged(data / file, labelled=True)
        for number in rng.sample(range(len(examples)), len(examples)):
            words, tags = examples[number].words, examples[number].tags or []
            places = [tokenise(read, words, span) for span in spans(tags)]
            places = [(s, b) for s, b in places if wanted.get(len(b)) and kept >= {s.ids[i] for i in b}]
            if not places:
                continue
            sentence, blanks = rng.choice(places)
            ids = list(sentence.ids)
            if len(ids) > min(LONGEST, mlm.window):
                left["sentences too long"] += 1
                continue
            wanted[len(blanks)] -= 1
            tasks.append(
                {"key": f"{name}:{number}", "ids": ids, "places": list(blanks), "blanks": len(blanks)}
            )
    return tasks, left


def tokenise(read: SentenceReader, words: Sequence[str], span: range) -> tuple[Sentence, range]:
    """Return a sentence, tokenised word by word, and the places of an entity's tokens in it."""
    before, inside, after = (
        [token for word in part for token in read(word).tokens]
        for part in (words[: span.start], words[span.start : span.stop], words[span.stop :])
    )
    sentence = read.of_ids([*before, *inside, *after])
    first = sentence.positions[len(before)] if inside else 0
    return sentence, range(first, first + len(inside))


class Filler:
    """Asks every method about entities."""

    def __init__(self, mlm: unmask.MaskedLM) -> None:
        self.mlm, self._support = mlm, Support.words(mlm.vocabulary)

    @torch.inference_mode()
    def __call__(self, tasks: list[Task]) -> list[Record]:
        """Return the rank of the true filling among the ten best, and its log-probability, by method."""
        return [task | {"answers": self._answers(task)} for task in tasks]

    def _answers(self, task: Task) -> dict[str, Any]:
        cloze = Cloze.of_ids(task["ids"], task["places"], self.mlm.vocabulary)
        truth = list(cloze.truth or ())
        hidden = Cloze(cloze.ids, cloze.blanks, cloze.pieces, cloze.vocabulary)  # no method sees the truth
        found = {}
        for method, make in JOINTS.items():
            joint = make(self.mlm, hidden, (self._support,) * len(truth))
            best = joint._top(TOP)[0].tolist()
            rank = best.index(truth) + 1 if truth in best else None
            if method == "tree-0":
                joint = tree_joint(self.mlm, hidden, joint.supports, 0, include=[[token] for token in truth])
            log_prob = (
                tree_log_prob(self.mlm, hidden, joint, truth)
                if method == "tree" and isinstance(joint, TreeJoint)
                else float(joint.log_prob(torch.tensor(truth)))
            )
            found[method] = {"rank": rank, "log_prob": log_prob}
        return found


def tree_log_prob(mlm: unmask.MaskedLM, cloze: Cloze, tree: TreeJoint, tokens: Sequence[int]) -> float:
    """Return the log-probability of a filling by a tree's edges, each parent's token with its own pass."""
    states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    found = _log_prob(mlm, tree.supports[tree.root], states[tree.root], tokens[tree.root])
    for parent, child in tree.edges:
        token = torch.tensor([tokens[parent]])
        state = mlm.filled_states(cloze, parent, token, cloze.blanks[child])[0]
        found += _log_prob(mlm, tree.supports[child], state, tokens[child])
    return found


def _log_prob(mlm: unmask.MaskedLM, support: Support, state: Tensor, token: int) -> float:
    log_probs = mlm.log_probs(state, support.ids)
    return float(log_probs[support.indices(torch.tensor([token]))][0])
