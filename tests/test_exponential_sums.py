"""log G and ∇ log G of weighted points against mpmath, and what a sum of positive terms obeys."""

import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield.kernels import direct
from meanfield.kernels.direct import log_moment, moment, pull_of_others

EPS = np.finfo(float).eps
seeds = st.integers(0, 2**32 - 1)
dims = st.sampled_from([2, 3, 7])
radii = st.floats(-3.0, 4.0).map(lambda x: 10.0**x)


def unit_points(rng, n, dim):
    points = rng.normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def problem(seed, m, n, dim, radius):
    """Sources, masses that span nine decades, and rows z of one length."""
    rng = np.random.default_rng(seed)
    masses = 10.0 ** rng.uniform(-9, 0, m)
    return unit_points(rng, m, dim), masses / masses.sum(), radius * unit_points(rng, n, dim)


def rounding(z, m):
    """An exponent of size |z| is rounded by |z| eps; m terms are summed; d products each."""
    size = np.linalg.norm(z, axis=1).max()
    return (4 * size + m + 4 * z.shape[1]) * EPS


def exact(sources, masses, z):
    with mpmath.workdps(50):
        terms = [
            mpmath.mpf(mass) * mpmath.exp(mpmath.fdot(z.tolist(), y.tolist()))
            for mass, y in zip(masses.tolist(), sources, strict=True)
        ]
        total = mpmath.fsum(terms)
        mean = [mpmath.fdot(terms, column) / total for column in sources.T.tolist()]
        return float(mpmath.log(total)), np.array([float(x) for x in mean])


@given(seeds, dims, radii)
def test_against_mpmath(seed, dim, radius):
    sources, masses, z = problem(seed, 12, 2, dim, radius)
    log_g, mean = log_moment(sources, masses, z)
    assert log_g.shape == (2,)
    assert mean.shape == (2, dim)
    for i in range(2):
        exact_log, exact_mean = exact(sources, masses, z[i])
        assert abs(log_g[i] - exact_log) < rounding(z, 12)
        assert np.max(np.abs(mean[i] - exact_mean)) < rounding(z, 12)


@pytest.mark.parametrize("radius", [1.0, 30.0, 1e3, 1e4])
def test_far_from_all_mass(radius):
    """G is as small as e^{-|z|} and keeps its digits: one token, seen from its antipode."""
    token = np.array([[0.6, 0.8]])
    with np.errstate(all="raise"):
        log_g, mean = log_moment(token, np.ones(1), -radius * token)
    assert log_g[0] == pytest.approx(-radius, rel=2 * EPS)
    assert np.array_equal(mean, token)


@pytest.mark.parametrize("radius", [100.0, 1e3, 1e4])
def test_no_floating_point_error(radius):
    """Terms that vanish beside the largest one do so in silence, though numpy is told to raise."""
    sources, masses, z = problem(4, 200, 50, 3, radius)
    with np.errstate(all="raise"):
        log_g, mean = log_moment(sources, masses, z)
    assert np.isfinite(log_g).all()
    assert np.isfinite(mean).all()


def test_closed_form():
    """Two tokens at ±e: G = cosh a, ∇G = sinh a e for z = a e + anything across."""
    sources, masses = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([0.5, 0.5])
    a = np.array([0.0, 1e-9, 0.3, -2.0, 20.0])
    log_g, mean = log_moment(sources, masses, np.column_stack([a, a**2]))
    assert np.allclose(log_g, np.log(np.cosh(a)), rtol=0, atol=4 * EPS * 20)
    assert np.allclose(mean, np.column_stack([np.tanh(a), 0 * a]), rtol=0, atol=4 * EPS)


@given(seeds, dims, radii)
def test_coinciding_tokens_are_one_token(seed, dim, radius):
    sources, masses, z = problem(seed, 6, 3, dim, radius)
    log_g, mean = log_moment(sources, masses, z)
    log_h, twice = log_moment(
        np.concatenate([sources, sources]), np.concatenate([0.25 * masses, 0.75 * masses]), z
    )
    assert np.max(np.abs(log_g - log_h)) < rounding(z, 12)
    assert np.max(np.abs(mean - twice)) < rounding(z, 12)


@given(seeds, dims, radii)
def test_zero_masses_are_no_tokens(seed, dim, radius):
    """Not even where the largest exponent is theirs."""
    sources, masses, z = problem(seed, 6, 3, dim, radius)
    ghosts = z / np.linalg.norm(z, axis=1, keepdims=True)
    log_g, mean = log_moment(sources, masses, z)
    log_h, same = log_moment(
        np.concatenate([ghosts, sources]), np.concatenate([np.zeros(3), masses]), z
    )
    assert np.array_equal(log_g, log_h)
    assert np.array_equal(mean, same)


@given(seeds, dims, radii)
def test_order_does_not_matter(seed, dim, radius):
    sources, masses, z = problem(seed, 20, 4, dim, radius)
    order = np.random.default_rng(seed).permutation(20)
    log_g, mean = log_moment(sources, masses, z)
    log_h, other = log_moment(sources[order], masses[order], z[::-1])
    assert np.max(np.abs(log_g - log_h[::-1])) < rounding(z, 20)
    assert np.max(np.abs(mean - other[::-1])) < rounding(z, 20)


@given(seeds, dims, radii)
def test_mean_is_in_the_convex_hull(seed, dim, radius):
    """<∇ log G, u> lies between the least and the largest <y_j, u>, for every u."""
    sources, masses, z = problem(seed, 9, 5, dim, radius)
    _, mean = log_moment(sources, masses, z)
    directions = unit_points(np.random.default_rng([seed, 1]), 50, dim)
    along, spread = mean @ directions.T, sources @ directions.T
    # a quotient of two sums of 9 terms
    assert np.all(along <= spread.max(axis=0) + 20 * EPS)
    assert np.all(along >= spread.min(axis=0) - 20 * EPS)
    assert np.all(np.linalg.norm(mean, axis=1) <= 1 + 20 * EPS)


@given(seeds, dims, radii)
def test_bounds_of_g(seed, dim, radius):
    """-|z| <= <z, mean of mu> <= log G <= |z| (Jensen's inequality)."""
    sources, masses, z = problem(seed, 9, 5, dim, radius)
    log_g, _ = log_moment(sources, masses, z)
    assert np.all(log_g <= radius + rounding(z, 9))
    assert np.all(log_g >= z @ (masses @ sources) - rounding(z, 9))


@given(seeds, dims, st.floats(-1.0, 2.0).map(lambda x: 10.0**x))
def test_gradient_against_differences(seed, dim, radius):
    sources, masses, z = problem(seed, 9, 1, dim, radius)
    _, mean = log_moment(sources, masses, z)
    h = 1e-3
    steps = h * np.eye(dim)

    def g(multiple):
        return log_moment(sources, masses, z + multiple * steps)[0]

    slope = (8 * (g(1) - g(-1)) - (g(2) - g(-2))) / (12 * h)
    assert np.abs(mean).max() > 1e-3
    # h⁴/30 times a fifth cumulant of a variable in [-1, 1], at most 16; and rounding over h
    assert np.max(np.abs(slope - mean[0])) < 16 * h**4 / 30 + 2 * rounding(z, 9) / h


def test_rows_of_many_blocks_are_those_of_one():
    sources, masses, z = problem(1, 3000, 4000, 2, 3.0)
    whole, few = log_moment(sources, masses, z), log_moment(sources, masses, z[-7:])
    for one, other in zip(whole, few, strict=True):
        # products of other shapes may be summed in another order
        assert np.max(np.abs(one[-7:] - other)) < rounding(z, 3000)


@pytest.mark.parametrize("radius", [1e-3, 4.0, 140.0])
def test_either_way_to_sum(monkeypatch, radius):
    """Exponents as they are, and less their largest: twelve decades of masses, at any length."""
    points = unit_points(np.random.default_rng(0), 60, 3)
    masses = 10.0 ** np.random.default_rng(1).uniform(-12, 0, 60)
    found = []
    for limit in (direct._PLAIN, -1.0):
        monkeypatch.setattr(direct, "_PLAIN", limit)
        pull, log_unit, log_g = pull_of_others(points, masses, radius)
        found.append((*log_moment(points, masses, radius * points), log_g))
        # relative to what pulls, which may be e^{-2β} of G
        found[-1] += (np.log(np.abs(pull).max(axis=1)) + log_unit,)
    assert np.ptp(found[0][3]) > 1.0
    for plain, shifted in zip(*found, strict=True):
        assert np.abs(plain - shifted).max() < 4 * rounding(radius * points, 60) + 60 * EPS


@pytest.mark.parametrize("beta", [1.0, 1000.0])
def test_nobody_pulls_without_mass(beta):
    points = unit_points(np.random.default_rng(0), 4, 3)
    pull, _, log_g = pull_of_others(points, np.array([1.0, 0.0, 0.0, 0.0]), beta)
    assert not pull[0].any()
    assert np.abs(pull[1:]).max() > 0.1
    assert log_g[0] == beta


def test_memory_stays_flat():
    sources, masses, z = problem(1, 3000, 4000, 2, 3.0)
    tracemalloc.start()
    try:
        log_moment(sources, masses, z)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # one block of float64, where all exponents would take five
    assert peak < 1.3 * 8 * direct._BLOCK


def test_arguments_stay_as_they_are():
    sources, masses, z = problem(2, 5, 3, 3, 2.0)
    copies = sources.copy(), masses.copy(), z.copy()
    log_moment(sources, masses, z)
    for array, copy in zip((sources, masses, z), copies, strict=True):
        assert np.array_equal(array, copy)


def test_moment_is_the_exponential():
    sources, masses, z = problem(2, 5, 3, 3, 2.0)
    g, gradient = moment(*log_moment(sources, masses, z))
    terms = masses * np.exp(z @ sources.T)
    assert np.allclose(g, terms.sum(axis=1), rtol=rounding(z, 5), atol=0)
    assert np.allclose(gradient, terms @ sources, rtol=0, atol=rounding(z, 5) * g.max())


def test_moment_that_overflows_is_refused():
    g, _ = moment(np.array([709.0]), np.zeros((1, 2)))
    assert np.isfinite(g).all()
    with pytest.raises(ValueError, match=r"log G\(z\) <= 709, got 710: ask for log_moment$"):
        moment(np.array([1.0, 710.0]), np.zeros((2, 2)))
