"""Properties of every law, extreme ones too: densities, turns, mixtures, draws and quantiles.

Floating-point errors are raised, but for numbers that underflow to 0.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.laws.law import symmetry_axis
from meanfield.laws.point_cloud import least_bandwidth
from meanfield.spaces.geometry import circle_points, latitude_density, line_points, polar_angles
from tests.properties import EPS, examples, powers_of_ten, rotation, seeds, unit_points

DIMS = st.sampled_from([2, 3, 4, 10, 150])
KAPPAS = st.one_of(st.just(0.0), powers_of_ten(-300, -10), powers_of_ten(-3, 6))
WEIGHTS = st.one_of(st.just(1.0), powers_of_ten(-300, 0))
LARGEST_LOG = 700.0


@pytest.fixture(autouse=True)
def _raise_floating_point_errors():
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


@st.composite
def bumps(draw, dim, axis):
    """A von Mises-Fisher law about an axis whose density a float holds."""
    kappa = draw(KAPPAS)
    # the peak of a narrow law is κ^{(d-1)/2} or so
    assume(0.5 * (dim - 1) * np.log1p(kappa) < LARGEST_LOG)
    return mf.VonMisesFisher(draw(st.sampled_from([1.0, -1.0])) * axis, kappa)


@st.composite
def series(draw, dim, axis):
    """A series of few or many degrees, its least value near 0 or not."""
    degree = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(seeds))
    coefficients = rng.normal(size=degree) * rng.uniform(0.1, 1.0) ** np.arange(degree)
    size = np.abs(coefficients).sum()
    coefficients *= draw(st.sampled_from([1.0, 0.9, 1e-12])) / (size or 1.0)
    return mf.ZonalSeries(dim, coefficients, axis)


@st.composite
def smoothed_tokens(draw, dim, axis):
    """A token on the axis or at both of its ends, as narrow as can be or broad."""
    bandwidth = max(draw(powers_of_ten(-5, 1)), 1.01 * least_bandwidth(dim))
    weights = [1.0, draw(WEIGHTS)]
    return mf.PointCloud([axis, -axis], weights, bandwidth=bandwidth, unit_mass=True)


@st.composite
def laws_about(draw, dim, axis):
    """A law that is symmetric about an axis."""
    simple = st.one_of(bumps(dim, axis), series(dim, axis), smoothed_tokens(dim, axis))
    parts = draw(st.lists(simple, min_size=1, max_size=3))
    if len(parts) == 1:
        return parts[0]
    weights = draw(st.lists(WEIGHTS, min_size=len(parts), max_size=len(parts)))
    return mf.Mixture(parts, weights, unit_mass=True)


@st.composite
def axial_laws(draw):
    """A law and the axis about which it is symmetric."""
    dim = draw(DIMS)
    axis = unit_points(dim, 1, draw(seeds))[0]
    return draw(laws_about(dim, axis)), axis


# panels that are finer towards both poles, and finer than a bump or a shell in many dimensions
_FINE = np.pi / 2 * 0.8 ** np.arange(60.0)
_EDGES = np.unique(np.concatenate([np.linspace(0.0, np.pi, 129), _FINE, np.pi - _FINE]))
_NODES, _SHARES = np.polynomial.legendre.leggauss(16)


def masses_of_panels(law, axis, edges=_EDGES):
    """∫ of a density over each of the panels of polar angles."""
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    angles = (middle[:, None] + half[:, None] * _NODES).ravel()
    values = law.pdf(line_points(angles, axis))
    if law.dim == 2:
        # both halves of the circle, of which a meridian is one
        values = values + law.pdf(line_points(-angles, axis))
    assert values.min() >= 0.0
    assert np.isfinite(values).all()
    density = values * latitude_density(angles, law.dim)
    return (density.reshape(-1, 16) * _SHARES).sum(axis=1) * half


@examples(20)
@given(axial_laws())
def test_densities_are_positive_and_have_mass_1(drawn):
    law, axis = drawn
    # κ ε of a narrow bump, and 1e-14 of the peak of a token at every place, as they say
    assert abs(masses_of_panels(law, axis).sum() - 1.0) < 1e-9


@pytest.mark.slow
@examples(10)
@given(axial_laws(), seeds)
def test_turning_the_law_and_the_points_changes_nothing(drawn, seed):
    law, axis = drawn
    dim = law.dim
    turn = rotation(dim, [seed, 1])
    # near the axis, at any place
    points = np.concatenate(
        [line_points(np.geomspace(1e-12, 3.0, 9), axis), unit_points(dim, 9, seed)]
    )
    before, after = law.pdf(points), turned(law, turn).pdf(points @ turn.T)
    peak = float(np.max(law.pdf(np.stack([axis, -axis]))))
    slope = 1.0 + sharpness(law)
    assert np.all(
        np.abs(after - before) <= 1e3 * dim * EPS * slope * np.maximum(before, 1e-3 * peak)
    )


def turned(law, turn):
    """The law after a rotation."""
    if isinstance(law, mf.Mixture):
        return mf.Mixture([turned(part, turn) for part in law.laws], law.weights)
    if isinstance(law, mf.VonMisesFisher):
        return mf.VonMisesFisher(turn @ law.mean, law.kappa)
    if isinstance(law, mf.ZonalSeries):
        return mf.ZonalSeries(law.dim, law.coefficients, turn @ law.axis)
    return mf.PointCloud(law.points @ turn.T, law.weights, bandwidth=law.bandwidth)


def sharpness(law):
    """By what log f may change with the cosine."""
    if isinstance(law, mf.Mixture):
        return max(sharpness(part) for part in law.laws)
    if isinstance(law, mf.VonMisesFisher):
        return law.kappa
    if isinstance(law, mf.ZonalSeries):
        return len(law.coefficients) ** 2.0
    return 1.0 / law.bandwidth


DRAWS = 4000
# P(sup |F_n - F| > x) <= 2 e^{-2nx²} (Dvoretzky, Kiefer, Wolfowitz; Massart 1990): 1 in 1e11
FARTHEST = np.sqrt(np.log(2e11) / (2.0 * DRAWS))


@examples(20)
@given(axial_laws(), seeds)
def test_draws_have_the_distribution_of_the_density(drawn, seed):
    law, axis = drawn
    points = law.sample(DRAWS, np.random.default_rng(seed))
    assert points.shape == (DRAWS, law.dim)
    assert np.max(np.abs(np.linalg.norm(points, axis=1) - 1.0)) < 8.0 * EPS
    polar = np.sort(polar_angles(points, axis))
    inside = np.searchsorted(polar, _EDGES[1:-1], side="right") / DRAWS
    exact = np.cumsum(masses_of_panels(law, axis))[:-1]
    assert np.max(np.abs(inside - exact)) < FARTHEST
    # nothing is across: a coordinate is a mean of n numbers in [-1, 1] (Hoeffding)
    across = points - np.outer(points @ axis, axis)
    direction = np.cos(1.0 + np.arange(law.dim) ** 1.5)
    direction -= (direction @ axis) * axis
    direction /= np.linalg.norm(direction)
    assert abs(np.mean(across @ direction)) < 2.0 * FARTHEST


@pytest.mark.slow
@examples(20)
@given(axial_laws(), st.lists(WEIGHTS, min_size=3, max_size=3), seeds)
def test_mixtures_are_linear(drawn, weights, seed):
    law, axis = drawn
    dim = law.dim
    parts = [law, mf.Uniform(dim), mf.ZonalSeries(dim, [0.5], axis)]
    mixture = mf.Mixture(parts, weights, unit_mass=True)
    points = np.concatenate([unit_points(dim, 5, seed), [axis, -axis]])
    expected = sum(w * part.pdf(points) for w, part in zip(mixture.weights, parts, strict=True))
    # points are normalised once more
    slope = 1.0 + sharpness(law)
    assert np.allclose(mixture.pdf(points), expected, rtol=8.0 * EPS * slope, atol=0.0)
    nested = mf.Mixture([mf.Mixture(parts[:2]), parts[2]], [0.5, 0.5])
    flat = mf.Mixture(parts, [0.25, 0.25, 0.5])
    assert np.allclose(nested.pdf(points), flat.pdf(points), rtol=8.0 * EPS * slope, atol=0.0)


@examples(20)
@given(st.data(), st.sampled_from([2, 3]), st.integers(1, 60))
def test_quantised_points_have_equal_shares(data, dim, n):
    axis = unit_points(dim, 1, data.draw(seeds))[0]
    law = data.draw(laws_about(dim, axis))
    # of tokens the package does not know that they lie on one axis
    assume(dim == 2 or symmetry_axis(law) is not None)
    points = mf.Particles.quantise(law, n).points
    assert points.shape == (n, dim)
    levels = (np.arange(n) + 0.5) / n
    axis = symmetry_axis(law)
    if dim == 3:
        # the share of smaller polar angles; these are rounded, which a narrow bump magnifies
        polar = polar_angles(points, axis)
        edges = np.unique(np.concatenate([_EDGES, polar]))
        below = np.concatenate([[0.0], np.cumsum(masses_of_panels(law, axis, edges))])
        assert np.max(np.abs(below[np.searchsorted(edges, polar)] - levels)) < 1e-9
        return
    angles = np.mod(np.arctan2(points[:, 1], points[:, 0]), 2.0 * np.pi)
    assert np.all(np.diff(angles) >= -1e-12)
    edges = np.unique(np.concatenate([np.linspace(0.0, 2.0 * np.pi, 4097), angles]))
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    at = (middle[:, None] + half[:, None] * _NODES).ravel()
    masses = (law.pdf(circle_points(at)).reshape(-1, 16) * _SHARES).sum(axis=1) * half
    below = np.concatenate([[0.0], np.cumsum(masses)]) / (2.0 * np.pi)
    assert np.max(np.abs(below[np.searchsorted(edges, angles)] - levels)) < 1e-9
