"""log G and ∇ log G of weighted points against mpmath, and what a sum of positive terms obeys."""

import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield.kernels import direct
from meanfield.kernels.direct import Lost, log_moment, pull_of_others

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
    # terms that vanish beside the largest one do so in silence
    with np.errstate(all="raise"):
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
    for limit in (300.0, -1.0):
        monkeypatch.setitem(direct._PLAIN, np.float64, limit)
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


# ---------------------------------------------------------------- where a series is lost

POTENTIAL = np.array([1.0, 1e-5, 2e-8, 1e-7, 3e-4])


def test_lost_places_are_the_smallest_that_may_be_summed():
    """All below the share; as many as pairs allow, smallest first; below the last share always."""
    assert Lost(1e-3).places(POTENTIAL, 1.0, 100).tolist() == [1, 2, 3, 4]
    assert Lost(1e-3).places(POTENTIAL, 0.01, 100).tolist() == [2, 3]
    assert Lost(1e-3, most_pairs=250).places(POTENTIAL, 1.0, 100).tolist() == [2, 3]
    assert Lost(1e-3, 100, always=1e-4).places(POTENTIAL, 1.0, 100).tolist() == [2, 3, 1]
    assert Lost(1e-9).places(POTENTIAL, 1.0).tolist() == []


def test_lost_places_are_summed_held_or_refused():
    summed, floored = POTENTIAL.copy(), np.append(POTENTIAL, -1e-17)
    assert Lost(1e-6).settle(summed, 1.0, "sum", "maximum").tolist() == [2, 3]
    assert summed.tolist() == [1.0, 1e-5, 1.0, 1.0, 3e-4]
    assert len(Lost(1e-6).settle(floored, 2.0, "floor", "maximum")) == 0
    assert floored.tolist() == [*POTENTIAL, 2e-14]
    with pytest.raises(
        ArithmeticError, match="at 2 points G is down to 2e-08 of its maximum: give"
    ):
        Lost(1e-6).settle(POTENTIAL.copy(), 1.0, "refuse", "maximum")
    assert len(Lost(1e-9).settle(POTENTIAL.copy(), 1.0, "refuse", "maximum")) == 0
