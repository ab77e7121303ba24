"""Distances are metrics of the sphere: of tokens near and far, heavy and light, and of bumps."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.transport.distance import (
    transport_plan,
    wasserstein,
)
from meanfield.spaces.geometry import circle_points, geodesic_distance
from tests.properties import EPS, powers_of_ten, rotation, seeds, unit_points

DIMS = st.sampled_from([2, 3, 4, 10, 200])
ORDERS = st.one_of(st.sampled_from([1.0, 2.0, 20.0]), st.floats(1.0, 20.0))
# as the docstring of wasserstein says
ROUNDING = 1e-12


@pytest.fixture(autouse=True)
def _raise_floating_point_errors():
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


@st.composite
def tokens(draw, dim, most=5):
    """A few tokens: anywhere, beside one another, opposite, of weights of any size."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(1, most))
    points = unit_points(dim, n, rng)
    kinds = draw(st.lists(st.sampled_from(["any", "near", "far", "same"]), min_size=n, max_size=n))
    for i, kind in enumerate(kinds[1:], 1):
        away = 10.0 ** rng.uniform(-16, -1) * unit_points(dim, 1, rng)[0]
        if kind != "any":
            sign = -1.0 if kind == "far" else 1.0
            points[i] = sign * points[0] + (0.0 if kind == "same" else away)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights = 10.0 ** rng.uniform(-draw(st.sampled_from([0.0, 3.0, 15.0, 300.0])), 0.0, n)
    return mf.Particles(points, weights, unit_mass=True)


@st.composite
def on_circle(draw):
    """A measure on the circle: tokens, a flow map of a bump, a density of a series."""
    kind = draw(st.sampled_from(["tokens", "tokens", "flow", "series"]))
    if kind == "tokens":
        return draw(tokens(2))
    if kind == "flow":
        mean = circle_points([draw(st.floats(0.0, 6.0))])[0]
        return mf.FlowMap(mf.VonMisesFisher(mean, draw(powers_of_ten(-3, 6))))
    rng = np.random.default_rng(draw(seeds))
    cos, sin = rng.normal(size=(2, 4))
    size = draw(st.sampled_from([1e-12, 0.5, 0.999])) / (np.abs(cos).sum() + np.abs(sin).sum())
    return mf.Density(mf.Circle(16), mf.FourierSeries(size * cos, size * sin))


@st.composite
def about_axis(draw, dim, axis):
    """A measure that is symmetric about an axis."""
    kind = draw(st.sampled_from(["tokens", "flow", "series"]))
    if kind == "tokens":
        weights = [1.0, draw(st.sampled_from([0.0, 1e-300, 1e-9, 0.5]))]
        return mf.Particles([axis, -axis], weights, unit_mass=True)
    if kind == "flow":
        kappa = draw(powers_of_ten(-3, 4 if dim <= 10 else 1))
        return mf.FlowMap(mf.VonMisesFisher(draw(st.sampled_from([axis, -axis])), kappa))
    rng = np.random.default_rng(draw(seeds))
    coefficients = rng.normal(size=3)
    coefficients *= draw(st.sampled_from([1e-12, 0.5, 0.999])) / np.abs(coefficients).sum()
    return mf.Density(mf.Zonal(dim, 15, axis), mf.ZonalSeries(dim, coefficients, axis))


def check_metric(distance, measures, rounding, farthest):
    """What holds of any metric: for any three measures, up to rounding."""
    mu, nu, third = measures
    apart, back = distance(mu, nu), distance(nu, mu)
    for bracket in apart, back:
        assert 0.0 <= bracket.lower <= bracket.value <= bracket.upper
        assert bracket.lower <= farthest + rounding
    assert back.lower <= apart.upper + rounding
    assert apart.lower <= back.upper + rounding
    for one in measures:
        assert distance(one, one).value <= rounding
    around = distance(mu, third).upper + distance(third, nu).upper
    assert apart.lower <= around + rounding


def rounding_of_mass(p):
    """What masses of rounding cost that have to go to the other side."""
    return np.pi * (1e3 * EPS) ** (1.0 / p) + 20 * ROUNDING


def mean_gap(mu, nu):
    return float(np.linalg.norm(mu.mean() - nu.mean()))


@pytest.mark.slow
@given(on_circle(), on_circle(), on_circle(), ORDERS)
def test_wasserstein_is_a_metric_on_the_circle(mu, nu, third, p):
    rounding = rounding_of_mass(p)
    check_metric(lambda a, b: wasserstein(a, b, p), (mu, nu, third), rounding, np.pi)
    # W_p grows with p, and no function of slope 1 has means further apart than W_1
    first, last = wasserstein(mu, nu, 1).value, wasserstein(mu, nu, p).value
    assert mean_gap(mu, nu) - 20 * ROUNDING <= first <= last + rounding
    # mass that moves by at most π
    assert last <= np.pi * (first / np.pi) ** (1.0 / p) + rounding


@pytest.mark.slow
@given(st.data(), st.sampled_from([3, 4, 50]), ORDERS)
def test_wasserstein_is_a_metric_about_an_axis(data, dim, p):
    axis = unit_points(dim, 1, data.draw(seeds))[0]
    measures = [data.draw(about_axis(dim, axis)) for _ in range(3)]
    rounding = rounding_of_mass(p)
    check_metric(lambda a, b: wasserstein(a, b, p), measures, rounding, np.pi)
    mu, nu, _ = measures
    first, last = wasserstein(mu, nu, 1).value, wasserstein(mu, nu, p).value
    assert mean_gap(mu, nu) - 20 * ROUNDING <= first <= last + rounding


@given(st.data(), st.sampled_from([2, 3, 10, 200]), ORDERS, seeds)
def test_wasserstein_of_tokens(data, dim, p, seed):
    """A metric that turns with both, with plans that have the marginals and the cost."""
    mu, nu, third = (data.draw(tokens(dim)) for _ in range(3))
    rounding = 1e3 * ROUNDING
    check_metric(lambda a, b: wasserstein(a, b, p), (mu, nu, third), rounding, np.pi)
    apart, first = wasserstein(mu, nu, p), wasserstein(mu, nu, 1)
    assert mean_gap(mu, nu) <= first.upper + rounding
    assert first.lower <= apart.upper + rounding
    turn, order = rotation(dim, seed), np.random.default_rng(seed).permutation(len(mu))
    turned = wasserstein(
        mf.Particles(mu.points[order] @ turn.T, mu.weights[order]),
        mf.Particles(nu.points @ turn.T, nu.weights),
        p,
    )
    # a turn moves tokens by rounding, which moves W_p as much
    assert turned.lower <= apart.upper + rounding
    assert apart.lower <= turned.upper + rounding


@given(st.data(), st.sampled_from([2, 3, 10, 200]), ORDERS)
def test_plans_have_the_marginals_and_the_cost(data, dim, p):
    mu, nu = data.draw(tokens(dim)), data.draw(tokens(dim))
    with warnings.catch_warnings():
        # a plan that may not be the best one says so
        warnings.simplefilter("ignore", RuntimeWarning)
        plan = transport_plan(mu, nu, p).toarray()
    assert np.isfinite(plan).all()
    assert plan.min() >= 0.0
    assert np.allclose(plan.sum(axis=1), mu.weights, rtol=0.0, atol=1e-14)
    assert np.allclose(plan.sum(axis=0), nu.weights, rtol=0.0, atol=1e-14)
    far = geodesic_distance(mu.points[:, None], nu.points)
    cost = np.pi * np.sum(plan * (far / np.pi) ** p) ** (1.0 / p)
    apart, rounding = wasserstein(mu, nu, p), rounding_of_mass(p)
    assert apart.lower - rounding <= cost <= apart.upper + rounding


def bracketed(distance):
    """A distance without bounds as one with them."""
    return lambda a, b: mf.functionals.transport.exact(distance(a, b))


BETAS = st.one_of(st.just(0.0), powers_of_ten(-8, 4))


@pytest.mark.slow
@given(st.data(), DIMS, BETAS, seeds)
def test_mmd_is_a_metric(data, dim, beta, seed):
    if dim == 2:
        measures = [data.draw(on_circle()) for _ in range(3)]
    else:
        measures = [data.draw(tokens(dim)) for _ in range(3)]
    # ends at 1e-14 of the kernel's maximum; in d >= 4 by pairs, 1e-8 of the spread
    rounding = 1e-8 if dim >= 4 else 1e-12
    distance = bracketed(lambda a, b: mmd(a, b, beta, scaled=True))
    check_metric(distance, measures, rounding, 2.0)
    mu, nu, _ = measures
    # e^{β<x,y>} e^{-β} has slopes of at most sqrt(β) as a feature map
    nearest = np.sqrt(beta) * wasserstein(mu, nu, 1).upper
    assert mmd(mu, nu, beta, scaled=True) <= nearest + rounding
    if all(isinstance(m, mf.Particles) for m in (mu, nu)):
        turn = rotation(dim, seed)
        turned = [mf.Particles(m.points @ turn.T, m.weights) for m in (mu, nu)]
        assert abs(mmd(*turned, beta, scaled=True) - mmd(mu, nu, beta, scaled=True)) < rounding


@given(on_circle(), on_circle(), on_circle())
def test_sobolev_is_a_metric_on_the_circle(mu, nu, third):
    check_metric(bracketed(sobolev), (mu, nu, third), 1e-7, 2.0 * np.pi)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("share", [1e-150, 1e-20, 5e-17])
def test_tokens_of_hardly_any_mass_on_the_circle_do_not_count(share, p):
    """Sums of masses hide their steps: as far as a heavy token was from one of them, not more."""
    angles = [5.21, 5.22, 2.07]
    mu = mf.Particles.from_angles(angles, [1.0, share, 0.1 * share], unit_mass=True)
    nu = mf.Particles.from_angles([1.26, 1.27], [1.0, share], unit_mass=True)
    exact = 1.26 - 5.21 + 2.0 * np.pi
    # the p-th root of a mass of 1e-16, times its way
    for apart in wasserstein(mu, nu, p), wasserstein(nu, mu, p):
        assert apart.value == pytest.approx(exact, abs=1e-12)
