"""Runs that Ctrl-C ends at a save, and whether two runs are the same bit for bit."""

import numpy as np

import meanfield as mf
from tests.handmade import interrupted

BUMPS = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
START = mf.Density(mf.Circle(32), BUMPS)
# 0.35 k is at no save of these but for rounding
SIX = mf.Layers([mf.SA(1.0), mf.SA(2.0), mf.USA(0.5)] * 2, step=0.35)
SAVED_AT_ENDS = {"t_end": 2.1, "save_at": 6}


class Interruption:
    """A monitor that stands for Ctrl-C at its n-th call."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, measure):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return measure.mass()


def mass(measure):
    """The monitor of runs that nothing interrupts."""
    return measure.mass()


MASS = {"m": mass}


def flow_map():
    """A new one, since a flow map remembers its run."""
    return mf.FlowMap(BUMPS, tol=1e-6)


def checkpointed(path, at=4):
    """A run of START is interrupted at its n-th save of nine; its file is left."""
    asked = {"monitors": {"m": Interruption(at)}, "checkpoint": path}
    interrupted(mf.evolve, START, mf.SA(4.0), 1.0, save_at=8, **asked)


def arrays(measure):
    names = ["coefficients", "angles", "expansion", "log_density", "frequencies", "widths", "parts"]
    if not isinstance(measure, mf.Density):
        # those of a density are its values, and a file keeps its coefficients, not its law
        names += ["points", "weights"]
    return [x for x in (getattr(measure, name, None) for name in names) if x is not None]


def assert_same_measures(some, others):
    for measure, other in zip(some, others, strict=True):
        assert type(measure) is type(other)
        for x, y in zip(arrays(measure), arrays(other), strict=True):
            np.testing.assert_array_equal(x, y)


def assert_same(run, other):
    assert run.status == other.status
    assert run.message == other.message
    assert run.dataset.identical(other.dataset)
    assert_same_measures(run.measures, other.measures)
    assert (run.history is None) == (other.history is None)
