"""The sentences of the results pages say what the numbers say, whichever way these turn out."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

from encoders_text import pretraining_gains, sense_gains
from table_text import answer, clear, lead, signed


def entry(value, half):
    return {"value": value, "low": value - half, "high": value + half}


RUN = "xsum-contiguous"


def found(rival):
    differences = {"ag": entry(0, 0), "gibbs": rival, "product": entry(0.3, 0.1), "mixture": entry(0.01, 0.1)}
    return {
        "runs": {RUN: {"differences": {"p_ppl": differences}}},
        "together": {"p_ppl": differences},
    }


def test_a_difference_is_clear_if_its_interval_leaves_zero_out_and_it_is_not_written_as_zero():
    assert clear(entry(0.2, 0.1))
    assert not clear(entry(0.2, 0.3))
    assert not clear(entry(0.0001, 0.00005))
    assert signed(entry(-0.2, 0.1)) == "-0.200* [-0.300, -0.100]"
    assert signed(entry(-0.2, 0.3)) == "-0.200 [-0.500, +0.100]"


def test_a_construction_that_beats_the_base_is_named_with_its_run():
    ahead = lead(found(entry(-0.2, 0.1)), "ag")
    assert ahead.startswith("Ahead of `ag`, clear of zero")
    assert ahead.endswith(": `gibbs` (0.200 in xsum, contiguous).")
    assert lead(found(entry(-0.2, 0.3)), "ag").startswith("No construction beats `ag`")


def test_the_answer_parts_what_is_level_from_what_is_behind():
    level, behind = (answer(found(entry(0.2, half)), "ag") for half in (0.3, 0.1))
    assert level.endswith("level with it: `gibbs`, `mixture`; behind it: `product`.")
    assert behind.endswith("level with it: `mixture`; behind it: `gibbs`, `product`.")


def test_gains_of_pretraining_are_in_points_the_largest_first_and_may_be_losses():
    def task(**models):
        return {name: {"test": {"overall": {"macro_f1": f1}}} for name, f1 in models.items()}

    tasks = {"a": task(english=0.5, twin=0.6), "b": task(english=0.7, twin=0.5), "c": task(english=0.5)}
    told = pretraining_gains(tasks, list(tasks))
    assert told == "Pretraining gives, in points: b (macro f1) +20.0, a (macro f1) -10.0."


def test_senses_are_told_against_the_most_frequent_one():
    scores = {"most frequent": {"all": {"f1": 0.6}}, "raw": {"all": {"f1": 0.55}}}
    told = sense_gains({"english": {"senseval2": scores, "semeval2007": scores}})
    assert told.splitlines()[2:] == ["- senseval2, english: raw -5.0", "- semeval2007, english: raw -5.0"]
