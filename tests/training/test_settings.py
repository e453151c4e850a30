"""Settings and the schedule: what is read is what was meant, and what cannot be is refused."""

import pytest

from unmask.errors import UsageError
from unmask.training.settings import Schedule, Settings, read_settings


def test_a_file_is_read_and_overridden(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(
        'corpora = ["a.txt"]\nmlm_probability = 0.4\nmax_steps = 2000\nencoder_lr = 1\n[shares]\na = 1.0\n'
    )
    settings = read_settings(path, max_steps=700, seed=None)
    assert (settings.mlm_probability, settings.max_steps, settings.seed, settings.encoder_lr) == (
        0.4,
        700,
        0,
        1.0,
    )
    assert settings.corpora == ("a.txt",)
    assert settings.to_dict()["shares"] == {"a": 1.0}


def test_mlm_probability_is_a_number_or_a_range(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("mlm_probability = [0.1, 0.5]\n")
    settings = read_settings(path)
    assert settings.masking.mlm_range == (0.1, 0.5)
    assert Settings(**settings.to_dict()) == settings
    assert read_settings(path, mlm_probability=0.2).masking.mlm_range == (0.2, 0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mlm_probability = [0.1]", "a range of two numbers"),
        ('mlm_probability = [0.1, "half"]', "a range of two numbers"),
        ("mlm_probability = [0.5, 0.1]", "the lower one first"),
        ("mlm_probability = [0.1, 1.0]", "mlm_probability between"),
        ('mlm_probability = "half"', "mlm_probability: expected a number"),
        ("stepz = 3", "unknown setting 'stepz'"),
        ('max_steps = "many"', "max_steps: expected a whole number"),
        ("max_steps = true", "max_steps: expected a whole number"),
        ("max_steps = ", "syntax error"),
        ("mlm_probability = 1.5", "mlm_probability between"),
        ("max_steps = 10\nwarmup_steps = 8\ndecay_steps = 8", "that fit in"),
        ("batch_size = 0", "batch_size: expected a whole number from 1 on"),
        ("save_steps = 0", "save_steps"),
        ("compatibility = -1.0", "penalty needs"),
        ("compatibility = nan", "compatibility: expected a number"),
        ('compatibility_fillings = "all"', "true or drawn"),
        ("mask_replace_prob = nan", "mask_replace_prob: expected a number"),
        ('tokenizer_type = "bpe"', "'wordpiece' or 'unigram'"),
        ("corpora = [1]", "NAME=FILE"),
        ("seed = 5000000000", "seed: expected a whole number from 0 to 4294967295"),
        ("encoder_lr = nan", "encoder_lr: expected a number above 0"),
        ("head_lr = -1.0", "head_lr: expected a number above 0"),
        ("dropout = 2.0", "dropout"),
        ("seed = -1", "seed: expected a whole number from 0"),
        ("vocab_size = -5", "vocab_size: expected a whole number from 0 on"),
        ("eval_one_in = 1", "leaves none to train on"),
        ('layers = ["a"]', "numbers of layers"),
        ('[shares]\na = "x"', "number as each"),
        ('shares = "a"', "shares: expected a value by corpus"),
        ("sentence_shares = 0.4", "sentence_shares: expected a value by corpus"),
        ("[sentence_shares]\na = 1.5", "sentence_shares of a: expected a number from 0 to 1"),
        ("next_sentence = true\n[sentence_shares]\na = 0.5", "next-sentence prediction"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as refusal:
        read_settings(path)
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="check the path"):
        read_settings(tmp_path / "none.toml")


def test_the_rate_rises_stays_and_falls():
    schedule = Schedule(max_steps=100, warmup_steps=10, decay_steps=40)
    factors = [schedule.factor(step) for step in range(101)]
    assert factors[:10] == sorted(factors[:10])
    assert all(factor == 1.0 for factor in factors[10:60])
    assert factors[60:] == sorted(factors[60:], reverse=True)
    assert 0 < factors[99] < 0.05
    assert factors[100] == 0.0


def test_the_stable_part_does_not_know_the_length_of_the_run():
    short, long = Schedule(100, 10, 40), Schedule(1000, 10, 40)
    assert [short.factor(step) for step in range(60)] == [long.factor(step) for step in range(60)]


def test_warmup_and_decay_follow_the_steps_unless_stated():
    assert Settings(max_steps=200).schedule == Schedule(200, 10, 100)
    assert Settings(max_steps=200, warmup_steps=0, decay_steps=3).schedule == Schedule(200, 0, 3)


def test_every_setting_has_a_default():
    assert Settings().masking.mlm_probability == 0.15


def test_a_trained_vocabulary_is_of_the_kind_that_the_start_has():
    assert Settings(init_from="xlm-r-base").trained_tokenizer_type == "unigram"
    assert Settings(init_from="bert-mini").trained_tokenizer_type == "wordpiece"
    assert Settings(init_from="xlm-r-base", tokenizer_type="wordpiece").trained_tokenizer_type == "wordpiece"
