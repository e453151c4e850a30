"""What every refusal of a run is: an error on purpose, in one line."""

import pytest

from unmask.training import train


def refusal(kind, match, settings, out):
    with pytest.raises(kind, match=match) as caught:
        train(settings, out)
    assert "\n" not in str(caught.value)
