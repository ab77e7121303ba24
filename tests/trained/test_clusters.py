"""Modes, inner products, rank and couplings of the tokens of a layer."""

import numpy as np
import pytest
from scipy.optimize import minimize

import meanfield as mf
from meanfield.trained.clusters import (
    couplings,
    effective_rank,
    inner_products,
    modes,
)
from meanfield.trained.synthetic import synthetic_layers
from tests.trained.layers import bunches, drawn

# ---------------------------------------------------------------------------------------- modes


def test_bunches_are_modes_at_their_scale():
    points = bunches(np.eye(4)[:3], 10, 0.05)
    near, coarse, fine = (modes(points, beta) for beta in (30.0, 0.5, 1e5))
    assert (len(near), len(coarse), len(fine)) == (3, 1, 30)
    assert near.n_moving == coarse.n_moving == fine.n_moving == 0
    assert near.masses == pytest.approx(np.full(3, 1 / 3))
    assert (near.labels.reshape(3, 10) == near.labels[::10, None]).all()


@pytest.mark.parametrize("beta", [3.0, 12.0])
def test_modes_are_maxima_of_log_g(beta):
    """The gradient vanishes, and each token's mode is that of a quasi-Newton ascent from it."""
    points = drawn(20, 4)
    found, measure = modes(points, beta), mf.Particles(points)
    assert 1 < len(found) < 20
    _, means = measure.log_moment(beta * found.centres)
    tangent = means - np.einsum("ij,ij->i", means, found.centres)[:, None] * found.centres
    assert np.abs(tangent).max() < 1e-6
    values = measure.log_moment(beta * found.centres[found.labels])[0]
    assert (values >= measure.log_moment(beta * points)[0] - 1e-12).all()

    def fall(x, row):
        unit = x / np.linalg.norm(x)
        log_g, mean = measure.log_moment(beta * unit[None])
        slope = -beta * (mean[0] - (mean[0] @ unit) * unit) / np.linalg.norm(x)
        return -log_g[0], slope

    for centre in found.centres:
        end = minimize(fall, centre + 1e-3, args=(0,), jac=True, method="BFGS").x
        assert np.linalg.norm(end / np.linalg.norm(end) - centre) < 1e-4


def test_no_step_of_the_ascent_descends():
    points, beta = drawn(20, 4), 6.0
    measure, here = mf.Particles(points), points
    for _ in range(20):
        before, means = measure.log_moment(beta * here)
        here = means / np.linalg.norm(means, axis=1)[:, None]
        assert (measure.log_moment(beta * here)[0] >= before - 1e-14).all()


def test_tokens_without_a_direction_stay():
    """Of two opposite tokens at β → 0 the mean is 0 but for rounding."""
    pair = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert len(modes(pair, 1e-3)) == 2
    assert modes(pair[:1], 1.0).labels.tolist() == [0]
    assert repr(modes(pair, 1e-3)).startswith("Modes(masses=[0.5 0.5], ")


# ------------------------------------------------------------------------------ inner products


def test_the_histogram_is_that_of_all_pairs():
    points = drawn(1500, 3)
    first, second = np.triu_indices(1500, 1)
    products = np.einsum("ij,ij->i", points[first], points[second])
    counts, edges = inner_products(points, 40)
    assert counts.sum() == 1500 * 1499 // 2
    assert np.abs(counts - np.histogram(products, edges)[0]).max() <= 2
    # on S² products are uniform
    assert counts / counts.sum() == pytest.approx(np.full(40, 1 / 40), rel=0.1)
    assert inner_products(points[[0, 0]], 40)[0][-1] == 1


def test_effective_rank_is_the_entropy_of_singular_values():
    points = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    shares = np.array([2.0, 1.0]) / 3.0
    expected = np.exp(-np.sum(shares * np.log(shares)))
    assert effective_rank(points) == pytest.approx(expected, rel=1e-13)
    assert effective_rank(points[:4]) == pytest.approx(1.0, abs=1e-13)
    assert 2.9 < effective_rank(drawn(2000, 3)) <= 3.0


# ------------------------------------------------------------------------------------ couplings


@pytest.mark.parametrize("seed", range(3))
def test_optimal_is_never_above_own_and_is_w2(seed):
    before, after = drawn(12, 3, seed), drawn(12, 3, seed + 10)
    both = couplings(before, after)
    assert both.optimal < both.own
    assert both.gap == both.own - both.optimal > 0.0
    distance = mf.wasserstein(mf.Particles(before), mf.Particles(after), p=2)
    assert both.optimal == pytest.approx(float(distance), rel=1e-9)
    assert sorted(both.targets) == list(range(12))


def test_a_small_gradient_step_has_no_gap():
    start = drawn(40, 3)
    for step in (0.1, 0.01):
        end = synthetic_layers(start, 1, beta=4.0, step=step, rng=0).points(1)
        both = couplings(start, end)
        assert both.own > 0.01 * step
        assert both.gap == 0.0
        assert both.targets.tolist() == list(range(40))


def test_an_exchange_is_all_gap():
    start = drawn(40, 3)
    turned = couplings(start, np.roll(start, 1, axis=0))
    assert turned.optimal == 0.0
    assert turned.own > 1.0
    assert couplings(start, start).own == 0.0


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"after must have shape \(4, 3\), as before"):
        couplings(drawn(4, 3), drawn(3, 3))
    with pytest.raises(ValueError, match="beta must be a finite number > 0"):
        modes(drawn(4, 3), 0.0)
    with pytest.raises(ValueError, match="bins must be an integer >= 1"):
        inner_products(drawn(4, 3), 0)
