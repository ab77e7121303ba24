"""Steps in place are those of scipy's classes, but for their sizes."""

import numpy as np
import pytest
from scipy.integrate import DOP853, RK45

from meanfield.evolution.steppers import ExplicitSteps, LooseSteps


class Swinging:
    """Driven pendulums of many frequencies, and how often their rate was asked for."""

    calls = 0

    def __call__(self, t, state, out=None):
        self.calls += 1
        rate = np.empty_like(state) if out is None else out
        place, speed = state.reshape(2, -1)
        stiffness = np.arange(1.0, len(place) + 1.0) ** 2
        rate[: len(place)] = speed
        rate[len(place) :] = np.cos(t) - stiffness * np.sin(place)
        return rate


PAIRS = {ExplicitSteps: DOP853, LooseSteps: RK45}


@pytest.mark.parametrize("first_step", [None, 2.0])
@pytest.mark.parametrize("pair", PAIRS)
def test_steps_are_those_of_scipy(pair, first_step):
    start, tolerances = np.linspace(0.5, 1.5, 40), {"rtol": 1e-9, "atol": np.full(40, 1e-12)}
    mine, scipys, steps = Swinging(), Swinging(), 0
    own = pair(mine, 0.0, start, 5.0, first_step=first_step, **tolerances)
    peer = PAIRS[pair](scipys, 0.0, start, 5.0, first_step=first_step, **tolerances)
    order, same, last = pair.error_estimator_order + 1, 0, 1.0
    while own.status == "running":
        # from one state, with one step size
        peer.t, peer.y, peer.f, peer.h_abs = own.t, own.y.copy(), own.f.copy(), own.h_abs
        before, calls, planned = own.y, scipys.calls, own.h_abs
        kept = before.copy()
        peer.step()
        own.step()
        steps += 1
        is_first_try = scipys.calls == calls + pair.n_stages
        scale = 1e-12 + 1e-9 * np.maximum(np.abs(peer.y), np.abs(peer.y_old))
        error = peer._estimate_error_norm(peer.K, peer.h_previous, scale)
        # what scipy would do, and less of it the smaller the error before was
        factor = 0.9 * error ** (-1 / order) * last ** (0.4 / order)
        size = peer.h_previous * min(10.0 if is_first_try else 1.0, factor)
        if own.status == "finished":
            # a step that was cut short says nothing about the next
            size = max(size, planned)
        # the estimate is a difference of rates of order 40: their rounding over the tolerance, 1e-6
        np.testing.assert_allclose([own.t, own.h_abs], [peer.t, size], rtol=1e-6)
        last = max(error, 0.01)
        np.testing.assert_allclose(own.f, Swinging()(own.t, own.y), rtol=1e-13, atol=1e-13)
        # a state that was handed out is not written to again
        np.testing.assert_array_equal(before, kept)
        if own.t == peer.t:
            same += 1
            # sums of 12 products of rates of order 40
            np.testing.assert_allclose(own.y, peer.y, atol=1e-12)
            middle = 0.5 * (own.t_old + own.t)
            found, expected = own.dense_output()(middle), peer.dense_output()(middle)
            np.testing.assert_allclose(found, expected, atol=1e-12)
    # the rates of a step, and 3 of the dense output of order 7: a first step of 2 is refused
    assert mine.calls == scipys.calls
    dense = 3 if pair is ExplicitSteps else 0
    assert mine.calls > pair.n_stages * (steps + (2 if first_step else 0)) + dense * same
    assert same > 10


@pytest.mark.parametrize("pair", PAIRS)
def test_rows_of_the_dense_output(pair):
    """What is between two steps by one product is what scipy's dense output says."""
    start, scale = np.linspace(0.5, 1.5, 40), np.full(40, 1e-9)
    own = pair(Swinging(), 0.0, start, 5.0, first_step=None, rtol=1e-6, atol=scale)
    for _ in range(8):
        own.step()
    x = np.array([0.0, 0.3, 0.5, 0.99, 1.0])
    found = own.interpolation(x) @ own.interpolant()
    expected = own.dense_output()(own.t_old + x * (own.t - own.t_old)).T
    assert np.abs(found[-1] - found[0]).max() > 0.1
    # eight rows of order 10
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found[0], own.y_old)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_field_without_a_derivative_ends_in_a_step_too_small(pair):
    def jumping(t, state, out=None):
        rate = np.empty_like(state) if out is None else out
        rate[:] = np.nan if t > 1.0 else 1.0
        return rate

    solver = pair(jumping, 0.0, np.zeros(3), 2.0, first_step=0.1, rtol=1e-6, atol=np.full(3, 1e-9))
    while solver.status == "running":
        reason = solver.step()
    assert solver.status == "failed"
    assert "step size" in reason
    assert solver.t <= 1.0
    assert np.isfinite(solver.y).all()
