"""Steps in place: their sizes by the errors of those before, and where they lead."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from meanfield.evolution.steppers import ExplicitSteps, LooseSteps, StepSizes


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


@pytest.mark.parametrize(
    ("pair", "rtol", "off"), [(ExplicitSteps, 1e-9, 3e-7), (LooseSteps, 1e-6, 2e-3)]
)
def test_driven_pendulums_against_scipy(pair, rtol, off):
    """At the ends of steps and between them; a state that was handed out is not written to."""
    stiffness = np.arange(1.0, 21.0) ** 2

    def rate(t, state, out=None):
        out = np.empty_like(state) if out is None else out
        out[:20], out[20:] = state[20:], np.cos(t) - stiffness * np.sin(state[:20])
        return out

    start = np.linspace(0.5, 1.5, 40)
    exact = solve_ivp(rate, (0, 1), start, "DOP853", dense_output=True, rtol=1e-12, atol=1e-13).sol
    own = pair(rate, 0.0, start, 1.0, first_step=1.0, rtol=rtol, atol=np.full(40, rtol))
    while own.status == "running":
        planned = own.h_abs
        own.step()
        x, old, kept = np.array([0.3, 1.0]), own.y, own.y.copy()
        found = own.interpolation(x) @ own.interpolant()
        np.testing.assert_allclose(found.T, exact(own.t_old + x * (own.t - own.t_old)), atol=off)
        np.testing.assert_allclose(own.y, exact(own.t), atol=off)
        np.testing.assert_array_equal(old, kept)
    # a step that was cut short says nothing about the next
    assert own.h_abs >= planned > own.h_previous
