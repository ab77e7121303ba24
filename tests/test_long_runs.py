"""What validation/long_runs.py measures: a step that leaves something behind is seen."""

from meanfield.evolution.progress import Patience
from validation import long_runs


def test_a_float_left_a_step_is_seen(monkeypatch):
    left, check = [], Patience.check

    def leaky(self):
        left.append(float(len(left)))
        check(self)

    monkeypatch.setattr(Patience, "check", leaky)
    claim = long_runs.left_behind("8 tokens", 400)
    # a reference of 8 bytes and a float of 24
    assert len(left) >= 400
    assert not claim.holds
    assert 20.0 < claim.measured < 60.0
