"""Properties of measures at extreme places: tokens of any weight and place, and narrow bumps.

Floating-point errors are raised, but for numbers that underflow to 0.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.spaces.geometry import geodesic_distance
from tests.properties import (
    EPS,
    examples,
    made_or_refused,
    powers_of_ten,
    rotation,
    seeds,
    unit_points,
)

DIMS = st.sampled_from([2, 3, 4, 10, 150])
LENGTHS = st.one_of(st.just(0.0), powers_of_ten(-300, -10), powers_of_ten(-3, 6))


@pytest.fixture(autouse=True)
def _raise_floating_point_errors():
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


@st.composite
def tokens(draw, dims=DIMS, most=6):
    """A few tokens: anywhere, beside one another, opposite, of weights of any size."""
    rng = np.random.default_rng(draw(seeds))
    dim, n = draw(dims), draw(st.integers(1, most))
    points = unit_points(dim, n, rng)
    kinds = draw(st.lists(st.sampled_from(["any", "near", "far", "same"]), min_size=n, max_size=n))
    for i, kind in enumerate(kinds[1:], 1):
        away = 10.0 ** rng.uniform(-16, -1) * unit_points(dim, 1, rng)[0]
        if kind != "any":
            sign = -1.0 if kind == "far" else 1.0
            points[i] = sign * points[0] + (0.0 if kind == "same" else away)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights = 10.0 ** rng.uniform(-draw(st.sampled_from([0.0, 3.0, 15.0, 300.0])), 0.0, n)
    sums = draw(st.sampled_from(["auto", "direct", "transforms"]))
    return mf.Particles(points, weights, unit_mass=True, sums=sums)


@st.composite
def smooth(draw):
    """A bump or two, as a density or a flow map, or the refusal of a space that is too small."""
    dim, seed = draw(DIMS), draw(seeds)
    axis = unit_points(dim, 1, seed)[0]
    kappa = draw(st.one_of(st.just(0.0), powers_of_ten(-12, 4 if dim < 100 else 1)))
    law = mf.VonMisesFisher(axis, kappa)
    if draw(st.booleans()):
        share = draw(st.one_of(st.floats(0.0, 1.0), powers_of_ten(-300, 0)))
        law = mf.Mixture([law, mf.VonMisesFisher(-axis, 0.3 * kappa)], [1.0, share], unit_mass=True)
    kind = draw(st.sampled_from(["flow", "zonal", "general"]))
    if kind == "flow":
        return lambda: mf.FlowMap(law)
    if kind == "zonal" or dim > 3:
        size = draw(st.sampled_from([3, 15, 63]))
        return lambda: mf.Density(mf.Zonal(dim, size, axis), law)
    size = draw(st.sampled_from([8, 16, 64]))
    return lambda: mf.Density(mf.Circle(size) if dim == 2 else mf.Sphere(size, "ducc0"), law)


def log_rounding(radius):
    """Exponents are rounded at the size of z; sums of positive terms."""
    return 60 * EPS * (radius + 10.0)


def check_moments(mu, z, rounding):
    """Bounds that any probability measure keeps."""
    radius = float(np.linalg.norm(z, axis=1).max())
    log_g, mean = mu.log_moment(z)
    assert np.isfinite(log_g).all()
    assert np.isfinite(mean).all()
    assert np.all(np.linalg.norm(mean, axis=1) <= 1.0 + rounding)
    assert np.all(log_g <= radius + (1.0 + radius) * rounding)
    assert np.all(log_g >= z @ mu.mean() - (1.0 + radius) * rounding)
    # convex, and its slope is the mean
    gaps = log_g[1] - log_g[0] - mean[0] @ (z[1] - z[0])
    assert gaps >= -4.0 * (1.0 + radius) * rounding


@given(tokens(), LENGTHS, seeds)
def test_moments_of_tokens(mu, radius, seed):
    """Bounds; and no token's order, and no frame, changes them."""
    rng = np.random.default_rng(seed)
    z = radius * unit_points(mu.dim, 4, rng)
    # transforms keep 1e-12 of G
    check_moments(mu, z, 1e-12)
    turn, order = rotation(mu.dim, [seed, 1]), rng.permutation(len(mu))
    other = mf.Particles(mu.points[order] @ turn.T, mu.weights[order], sums=mu.sums)
    log_g, mean = mu.log_moment(z)
    log_h, turned = other.log_moment(z @ turn.T)
    tolerance = 1e-12 + log_rounding(radius) * 10 * np.sqrt(mu.dim)
    assert np.max(np.abs(log_g - log_h)) < tolerance
    # a mean of tokens of nearly the same exponent turns with the rounding of these
    assert np.max(np.abs(mean @ turn.T - turned)) < 4.0 * tolerance
    assert np.max(np.abs(mu.mean() @ turn.T - other.mean())) < 20 * mu.dim * EPS


@pytest.mark.slow
@given(smooth(), LENGTHS, seeds)
def test_moments_of_bumps_are_bounded_or_refused(made, radius, seed):
    mu = made_or_refused(made)
    if mu is None:
        return
    # nodes near the axis, where hardly any mass is in many dimensions, are too few beyond, and
    # grids that resolve longer ones take long
    radius = min(radius, 100.0 if isinstance(mu, mf.FlowMap) and mu.dim > 10 else 1000.0)
    z = radius * unit_points(mu.dim, 3, seed)
    if made_or_refused(mu.log_moment, z) is None:
        return
    # series are right to 1e-8, flow maps to 1e-12
    rounding = 1e-11 if isinstance(mu, mf.FlowMap) else 1e-11 + 10.0 * mu.misfit
    check_moments(mu, z, rounding)
    assert mu.mass() == pytest.approx(1.0, abs=rounding)
    points = unit_points(mu.dim, 5, seed)
    if isinstance(mu, mf.Density):
        assert np.isfinite(mu.pdf(points)).all()
        assert np.isfinite(mu.entropy())
        # 0 is the least
        assert mu.entropy() >= -rounding


@given(tokens(most=12), powers_of_ten(-3, 0), st.sampled_from([0.0, 1e-3, 0.3]), seeds)
def test_clusters_of_tokens(mu, radius, least, seed):
    """Each mass is that of its labels; permuted and turned tokens have the same clusters."""
    some = mf.clusters(mu, radius, min_mass=least)
    check_clusters(mu, some, least)
    own = mf.clusters(mu, radius)
    # all that has mass at all, in high dimension, is dense
    order = np.random.default_rng(seed).permutation(len(mu))
    other = mf.clusters(mf.Particles(mu.points[order], mu.weights[order]), radius)
    assert len(own) == len(other)
    assert np.allclose(np.sort(own.masses), np.sort(other.masses), rtol=1e-12, atol=1e-300)


def check_clusters(mu, some, least):
    count = len(some)
    assert 0.0 <= some.outside <= 1.0
    for part in (some.masses, some.centres, some.radii):
        assert np.isfinite(part).all()
        assert len(part) == count
    assert np.all(np.diff(some.masses) <= 0.0)
    assert np.all(some.masses >= least * (1.0 - 1e-9))
    assert abs(some.masses.sum() + some.outside - 1.0) < 1e-12
    assert np.all((some.labels >= -1) & (some.labels < count))
    assert np.all((some.radii >= 0.0) & (some.radii <= np.pi))
    assert np.max(np.abs(np.linalg.norm(some.centres, axis=1) - 1.0), initial=0.0) < 1e-12
    if isinstance(mu, mf.Particles):
        for label in range(count):
            rows = some.labels == label
            assert some.masses[label] == pytest.approx(mu.weights[rows].sum(), rel=1e-12)
            squared = geodesic_distance(mu.points[rows], some.centres[label]) ** 2
            mean = mu.weights[rows] @ squared / mu.weights[rows].sum()
            assert some.radii[label] == pytest.approx(np.sqrt(mean), rel=1e-6, abs=1e-12)


@pytest.mark.slow
@examples(20)
@given(smooth(), powers_of_ten(-1.5, 0))
def test_clusters_of_bumps(made, radius):
    mu = made_or_refused(made)
    some = None if mu is None else made_or_refused(mf.clusters, mu, radius)
    if some is not None:
        check_clusters(mu, some, 0.0)


@given(tokens(), powers_of_ten(-3, 2.5))
def test_energy_is_between_that_of_the_uniform_measure_and_of_a_token(mu, beta):
    """And between those of the tokens as given and in one place, for each kind of sum."""
    share = mf.energy_share(mu, beta)
    assert np.isfinite(share)
    assert share <= 1.0 + 1e-12
    assert share >= np.exp(-2.0 * beta) * (1.0 - 1e-12)
    direct = mf.energy_share(mf.Particles(mu.points, mu.weights, sums="direct"), beta)
    assert share == pytest.approx(direct, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("beta", [300.0, 400.0, 9000.0])
def test_transforms_on_the_sphere_are_right_where_all_tokens_are_far(beta):
    """Where e^{-2β} underflows, too: such G are sums over all tokens."""
    points = unit_points(3, 20, 0)
    points[:, 2] = np.abs(points[:, 2])
    z = beta * np.array([[0.0, 0.0, -1.0], [0.6, 0.0, -0.8], [0.0, 0.0, 1.0]])
    fast, direct = (mf.Particles(points, sums=sums) for sums in ("transforms", "direct"))
    for found, exact in zip(fast.log_moment(z), direct.log_moment(z), strict=True):
        # exponents are rounded at the size of β
        assert np.max(np.abs(found - exact)) < 1e-12 + 20 * EPS * beta
