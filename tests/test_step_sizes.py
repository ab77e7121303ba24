"""Sizes of steps by the errors of those before."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.integrate.step_sizes import StepSizes


def test_sizes_by_hand():
    """Order 4: a quarter of an exponent, and a tenth of that of the error before."""
    sizes = StepSizes(4, most=5.0)
    # nothing is before the first
    assert sizes.next(2.0, 0.5) == pytest.approx(2.0 * 0.9 * 0.5**-0.25, rel=1e-15)
    assert sizes.next(2.0, 0.5) == pytest.approx(2.0 * 0.9 * 0.5**-0.25 * 0.5**0.1, rel=1e-15)
    # what is refused shrinks, by 5 at most, and what follows does not grow
    assert sizes.next(2.0, 16.0) == pytest.approx(0.9, rel=1e-15)
    assert sizes.next(2.0, 1e9) == pytest.approx(0.4, rel=1e-15)
    assert sizes.next(2.0, 1e-9) == 2.0
    # a small error counts for a hundredth
    assert sizes.next(2.0, 0.5) == pytest.approx(2.0 * 0.9 * 0.5**-0.25 * 0.01**0.1, rel=1e-15)
    assert sizes.next(2.0, 0.0) == 10.0
    # an error that is none is refused
    assert sizes.next(2.0, float("nan")) == pytest.approx(0.4, rel=1e-15)


def test_what_gets_faster_is_refused_less(monkeypatch):
    """A density that concentrates takes a tenth less right-hand sides."""
    mu = mf.Density(mf.Circle(192), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    exact = mf.evolve(mu, mf.USA(4.0), 0.165, 1, rtol=1e-12, atol=1e-14).final.coefficients
    calls, errors = [], []
    for before in (0.0, 0.4):
        monkeypatch.setattr("meanfield.integrate.step_sizes._BEFORE", before)
        sol = mf.evolve(mu, mf.USA(4.0), 0.165, 1, rtol=1e-6, atol=1e-9)
        calls.append(int(sol.dataset.evaluations[-1]))
        errors.append(np.abs(sol.final.coefficients - exact).max())
    assert calls[1] < 0.9 * calls[0]
    # a dozen steps of 1e-6 each
    assert max(errors) < 1e-5
