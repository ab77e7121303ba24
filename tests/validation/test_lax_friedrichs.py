"""The scheme that we are measured beside: its order, and its convolution the right way round."""

import numpy as np

from meanfield.spaces.geometry import circle_points
from validation.benchmarks.lax_friedrichs import by_fft, centres, dense, lax_friedrichs, own


def error(cells, convolution=dense):
    exact = own(128, 1e-12).pdf(circle_points(centres(cells)))
    assert np.ptp(exact) > 1.0
    return np.abs(lax_friedrichs(cells, convolution) - exact).mean()


def test_first_order():
    # between the slopes of two pairs, the next order's share halves
    errors = [error(cells) for cells in (300, 600, 1200)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert 0.9 < orders[1] < 1.1
    assert abs(orders[1] - 1.0) < abs(orders[0] - 1.0)


def test_a_correlation_mirrors_the_density():
    def correlated(kernel):
        return lambda f: np.correlate(np.concatenate([f, f[:-1]]), kernel, "valid")

    assert error(400, correlated) > 10.0 * error(400)


def test_both_forms_agree():
    np.testing.assert_allclose(lax_friedrichs(99, by_fft), lax_friedrichs(99), rtol=1e-12)
