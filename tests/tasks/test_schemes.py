"""Tag schemes: read, written, mended; and scores that are the field's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nervaluate import Evaluator
from seqeval.metrics.sequence_labeling import get_entities

from unmask.errors import UsageError
from unmask.tasks.schemes import Entity, convert, detect, entities, fault, labels, write
from unmask.tasks.scores import class_scores, entity_scores, token_scores

SCHEMES = ("io", "bio", "bioes")
TYPES = ("PER", "LOC", "a-b")


@st.composite
def placed(draw, length=10):
    """Entities that do not overlap, in a sequence of some length."""
    found, at = [], 0
    while at < length:
        end = draw(st.integers(at + 1, length))
        if draw(st.booleans()):
            found.append(Entity(at, end, draw(st.sampled_from(TYPES))))
        at = end
    return found


def any_tags(scheme, length=8):
    """Tags of a scheme in any order, most of them broken."""
    return st.lists(st.sampled_from(labels(TYPES[:2], scheme)), min_size=length, max_size=length)


def pairs_of(scheme):
    return st.lists(st.tuples(any_tags(scheme), any_tags(scheme)), min_size=1, max_size=5)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@given(found=placed())
def test_what_is_written_is_read_back(scheme, found):
    tags = write(found, 10, scheme)
    assert entities(tags) == found
    assert fault(tags, scheme) is None
    for other in ("bio", "bioes"):
        assert convert(convert(tags, other), scheme) == tags


@given(found=placed())
def test_io_runs_neighbours_of_one_type_together_and_loses_nothing_else(found):
    tags = write(found, 10, "io")
    assert fault(tags, "io") is None
    inside = {place: kind for start, end, kind in found for place in range(start, end)}
    again = {place: kind for start, end, kind in entities(tags) for place in range(start, end)}
    assert again == inside
    assert convert(convert(tags, "bioes"), "io") == tags


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_a_repaired_sequence_is_valid_and_has_the_same_entities(scheme, data):
    tags = data.draw(any_tags(scheme))
    mended = convert(tags, scheme)
    assert fault(mended, scheme) is None
    assert entities(mended) == entities(tags)
    assert (fault(tags, scheme) is None) == (mended == tags)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_entities_are_those_of_seqeval_broken_sequences_included(scheme, data):
    tags = data.draw(any_tags(scheme))
    theirs = [Entity(start, end + 1, kind) for kind, start, end in get_entities(tags)]
    assert entities(tags) == theirs


def ratios(true, said):
    """Precision, recall and F1 of two sets, where 0/0 is 0."""
    both = len(true & said)
    precision, recall = both / max(len(said), 1), both / max(len(true), 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-300)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_scores_are_those_of_sets_of_entities_broken_sequences_included(scheme, data):
    pairs = data.draw(pairs_of(scheme))
    true, said = (
        {(number, *found) for number, tags in enumerate(side) for found in entities(tags)}
        for side in zip(*pairs, strict=True)
    )
    ours = entity_scores([a for a, _ in pairs], [b for _, b in pairs])
    told = [ours.overall[name] for name in ("precision", "recall", "f1")]
    assert told == pytest.approx(ratios(true, said))
    kinds = {kind for *_, kind in true | said}
    assert set(ours.by_label) == kinds
    for kind, numbers in ours.by_label.items():
        of_kind = [{found for found in side if found[-1] == kind} for side in (true, said)]
        assert [numbers[n] for n in ("precision", "recall", "f1")] == pytest.approx(ratios(*of_kind))
        assert numbers["support"] == len(of_kind[0])
    macro = sum(row["f1"] for row in ours.by_label.values()) / max(len(kinds), 1)
    assert ours.overall["macro_f1"] == pytest.approx(macro)


def test_scores_of_a_broken_sequence_worked_out_by_hand():
    """One of two entities is found; a wrong type and a cut one are said beside it."""
    true = [["B-PER", "I-PER", "O"], ["B-LOC", "I-LOC", "O"]]
    said = [["I-PER", "I-PER", "O"], ["B-LOC", "O", "I-PER"]]  # starts with I-: read as B-
    ours = entity_scores(true, said)
    assert ours.overall["precision"] == pytest.approx(1 / 3)
    assert ours.overall["recall"] == pytest.approx(1 / 2)
    assert ours.overall["f1"] == pytest.approx(0.4)
    assert ours.by_label["PER"]["f1"] == pytest.approx(2 / 3)  # one of two said, one of one there
    assert ours.by_label["LOC"]["f1"] == 0
    assert ours.overall["macro_f1"] == pytest.approx(1 / 3)
    assert ours.overall["token_accuracy"] == pytest.approx(3 / 6)


@given(pairs=st.lists(st.tuples(placed(8), placed(8)), min_size=1, max_size=5))
def test_scores_are_those_of_nervaluate(pairs):
    true, said = ([write(found, 8, "bio") for found in side] for side in zip(*pairs, strict=True))
    ours = entity_scores(true, said)
    result = Evaluator(true, said, tags=list(TYPES), loader="list").evaluate()
    strict = result["overall"]["strict"]
    assert ours.overall["f1"] == pytest.approx(strict.f1)
    assert ours.overall["precision"] == pytest.approx(strict.precision)
    for kind, numbers in ours.by_label.items():
        assert numbers["recall"] == pytest.approx(result["entities"][kind]["strict"].recall)


@pytest.mark.parametrize(
    ("tags", "scheme", "place", "expected"),
    [
        (["O", "I-PER"], "bio", 1, "B-PER"),
        (["B-PER", "I-LOC"], "bio", 1, "B-LOC"),
        (["B-PER", "O"], "bioes", 0, "S-PER"),
        (["B-PER", "I-PER"], "bioes", 1, "E-PER"),
        (["E-PER"], "bioes", 0, "S-PER"),
        (["B-PER"], "io", 0, "I-PER"),
        (["S-PER"], "bio", 0, "B-PER"),
    ],
)
def test_faults_are_found_where_they_are(tags, scheme, place, expected):
    assert fault(tags, scheme) == (place, tags[place], expected)


def test_schemes_are_told_apart_by_their_prefixes():
    assert detect([["O", "I-X"], ["I-X"]]) == "io"
    assert detect([["O", "I-X"], ["B-X"]]) == "bio"
    assert detect([["S-X"], ["B-X"]]) == "bioes"


@pytest.mark.parametrize("tag", ["PER", "X-PER", "B-", "o", ""])
def test_what_is_no_tag_is_refused(tag):
    with pytest.raises(UsageError, match="expected a tag such as"):
        entities([tag])


def test_class_scores_are_scikit_learns():
    from sklearn.metrics import accuracy_score
    from sklearn.metrics import f1_score as sk_f1

    true, said = list("aabbbccdda"), list("abbbacccda")
    ours = class_scores(true, said)
    assert ours.overall["accuracy"] == pytest.approx(accuracy_score(true, said))
    assert ours.overall["macro_f1"] == pytest.approx(sk_f1(true, said, average="macro"))
    assert [ours.by_label[x]["f1"] for x in "abcd"] == pytest.approx(list(sk_f1(true, said, average=None)))
    assert token_scores([true[:4], true[4:]], [said[:4], said[4:]]).overall == ours.overall
