"""What validation/long_runs.py measures: a step that leaves something behind is seen."""

import pytest

import meanfield as mf
from validation import long_runs


class Leaky:
    """SA that keeps a float each time it is asked: by layers once a step."""

    name, beta, noise, dim = "Leaky", 1.0, 0.0, None

    def __init__(self):
        self.left = []

    def output(self, measure, points):
        self.left.append(float(len(self.left)))
        return mf.SA(self.beta).output(measure, points)


def leaky(kind, steps):
    measure, _, step, asked = long_runs.KINDS[kind]()
    dynamics = Leaky()
    layers = mf.LayerMap(dynamics, step=step)
    long_runs.KINDS[kind] = lambda: (measure, layers, step, asked)
    claim = long_runs.left_behind(kind, steps)
    assert len(dynamics.left) >= steps
    return claim


@pytest.mark.slow
def test_a_float_left_a_step_is_seen():
    claim = long_runs.apart(leaky, "8 tokens", 1600)
    # a reference of 8 bytes and a float of 24
    assert not claim.holds
    assert 20.0 < claim.measured < 60.0
