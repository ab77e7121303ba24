"""Steps in place: their sizes by the errors of those before, and where they lead."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from meanfield.evolution.steppers import (
    ExplicitSteps,
    ExponentialSteps,
    LooseSteps,
    StepSizes,
    phi_functions,
)

EPS = np.finfo(float).eps


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


def test_phi_functions_have_all_their_digits():
    z = np.concatenate([[0.0, -1.0], -np.geomspace(1e-20, 1e7, 200), [-1.0 - EPS, -700.0]])
    exact = []
    # three divisions by 1e-20 take 60 digits
    with mpmath.workdps(100):
        for x in map(mpmath.mpf, z.tolist()):
            row = [mpmath.exp(x)]
            for k in range(3):
                step = 1 / mpmath.factorial(k)
                row.append((row[-1] - step) / x if x else 1 / mpmath.factorial(k + 1))
            exact.append([float(number) for number in row])
    for numbers, expected in zip(phi_functions(z), np.array(exact).T, strict=True):
        assert np.allclose(numbers, expected, rtol=4 * EPS, atol=0)


def exponential_steps(rate, start, t_bound, first_step=None, decay=0.0):
    """Steps of one number, to 1e-9."""
    return ExponentialSteps(
        rate,
        *(0.0, np.full(1, start), t_bound),
        decay=np.array([decay]),
        which=np.zeros(1, dtype=int),
        first_step=first_step,
        rtol=1e-9,
        atol=np.full(1, 1e-12),
    )


def test_a_first_step_that_is_far_too_long_is_taken_back():
    """y' = y²: it leaves double precision; tried again it does not."""
    steps = exponential_steps(lambda t, y: y**2, 1e-3, 999.0, 1e300)
    while steps.status == "running":
        assert steps.step() is None
    # y = 1/(1000 - t): errors of 1e-9 a step, which y grows a thousandfold after
    assert steps.y[0] == pytest.approx(1.0, rel=1e-5)


def test_rates_whose_squares_overflow():
    """y' = -1e200 (y - 1) from 0, by stages or as decay."""
    for decay, rate in (1e200, lambda t, y: np.array([1e200])), (0.0, lambda t, y: 1e200 * (1 - y)):
        steps = exponential_steps(rate, 0.0, 3e-200, decay=decay)
        while steps.status == "running":
            assert steps.step() is None
        # what steps promise
        assert steps.y[0] == pytest.approx(-np.expm1(-3.0), rel=1e-9)


def test_a_step_that_can_not_be_taken_says_so():
    """The solution 1/(1-t) of y' = y² ends at t = 1."""
    steps, reason = exponential_steps(lambda t, y: y**2, 1.0, 2.0), None
    while reason is None:
        reason = steps.step()
    assert steps.status == "failed"
    assert "spacing of floats" in reason
    assert steps.t == pytest.approx(1.0, abs=1e-4)
