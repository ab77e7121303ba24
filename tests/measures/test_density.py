"""Densities: values and series of them, on spaces of any size, and as other measures."""

import re

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from tests.handmade import slow, unit_points
from tests.measures.every import BUILT, DENSITIES, EPS, bumps, series_rounding

seeds = st.integers(0, 2**32 - 1)
radii = st.floats(-3.0, 1.3).map(lambda x: 10.0**x)
every_density = pytest.mark.parametrize("mu", DENSITIES.values(), ids=DENSITIES.keys())


# ---------------------------------------------------------------- one measure, two representations


@pytest.mark.parametrize("name", ["circle", "sphere"])
@given(seeds, radii)
def test_density_is_its_quadrature_nodes(name, seed, radius):
    mu = BUILT[name]
    cloud = mf.Particles(mu.space.points, weights=mu.space.weights * mu.values)
    z = radius * unit_points(mu.dim, 5, seed)
    for answer, exact in zip(cloud.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(answer - exact)) < 1e-13
    assert np.max(np.abs(cloud.mean() - mu.mean())) < 1e-13


@pytest.mark.parametrize("name", ["zonal 2", "zonal 3", "zonal 10", "zonal 50"])
@given(radii)
def test_zonal_density_is_its_nodes_turned_about_the_axis(name, radius):
    """Each node stands for a circle of latitude: along the axis that makes no difference."""
    mu = BUILT[name]
    cloud = mf.Particles(mu.space.points, weights=mu.space.weights * mu.values)
    z = np.outer([radius, -radius], mu.space.axis)
    log_g, mean = mu.log_moment(z)
    log_h, other = cloud.log_moment(z)
    assert np.max(np.abs(log_g - log_h)) < 1e-13
    assert np.max(np.abs((mean - other) @ mu.space.axis)) < 1e-13
    # and mu's own answer has nothing across
    across = mean - np.outer(mean @ mu.space.axis, mu.space.axis)
    assert np.max(np.abs(across)) < 8 * EPS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "general"), [("zonal 2", mf.Circle(64)), slow("zonal 3", mf.Sphere(31))]
)
@given(seeds, radii)
def test_zonal_density_on_a_general_space(name, general, seed, radius):
    zonal_mu = BUILT[name]
    mu = mf.Density(general, bumps(general.dim, axis=zonal_mu.space.axis))
    z = radius * unit_points(mu.dim, 5, seed)
    for answer, exact in zip(zonal_mu.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(answer - exact)) < 1e-13
    assert np.max(np.abs(mu.mean() - zonal_mu.mean())) < 1e-13
    points = unit_points(mu.dim, 20, seed)
    # a series of some 30 degrees, each with its roundings, for a density of size up to 7
    assert np.max(np.abs(mu.pdf(points) - zonal_mu.pdf(points))) < 1e-12
    assert np.allclose(mu.power[:32], zonal_mu.power, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dim", [2, 3, slow(10), slow(50)])
@given(seeds, radii)
def test_flow_map_is_its_law(dim, seed, radius):
    """At t = 0 the nodes are a quadrature of the density: two representations of one measure."""
    flow_mu = BUILT[f"flow {dim}"]
    if dim == 2:
        mu = BUILT["circle"]
    else:
        mu = mf.Density(mf.Zonal(dim, 31, axis=flow_mu.axis), flow_mu.line.law)
    z = radius * unit_points(dim, 5, seed)
    for answer, exact in zip(flow_mu.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(answer - exact)) < 1e-13
    assert np.max(np.abs(flow_mu.mean() - mu.mean())) < 1e-13


# ---------------------------------------------------------------- values, series, sizes


@every_density
def test_values_are_those_of_the_law_and_of_the_series(mu):
    assert mu.values.shape == mu.space.weights.shape
    assert np.allclose(mu.values, mu.law.pdf(mu.space.points), rtol=1e-13, atol=0)
    gap = mu.space.synthesis(mu.coefficients) - mu.values
    assert np.max(np.abs(gap)) < series_rounding(mu)
    points = unit_points(mu.dim, 40, 2)
    assert np.max(np.abs(mu.pdf(points) - mu.law.pdf(points))) < series_rounding(mu)
    assert mu.space.weights @ mu.values == pytest.approx(1, abs=1e-13)


@every_density
def test_from_values(mu):
    again = mf.Density(mu.space, mu.values)
    assert again.law is None
    # one more transform, whose rounding the mass then divides out
    assert np.max(np.abs(again.coefficients - mu.coefficients)) < 8 * EPS * np.sqrt(mu.power.sum())
    assert np.allclose(again.values, mu.values, rtol=8 * EPS, atol=0)


@pytest.mark.parametrize(("dim", "kmax"), [(50, 47), (200, 23)])
def test_values_in_high_dimension_are_resolved(dim, kmax):
    """Near the axis the series loses digits, however fine the space: nothing there has any mass."""
    space = mf.Zonal(dim, kmax)
    mu = mf.Density(space, 1 + 0.8 * space.nodes)
    assert np.max(np.abs(mu.coefficients[2:])) < 100 * EPS
    assert mu.mean()[-1] == pytest.approx(0.8 / dim, rel=1e-13)


@every_density
def test_from_coefficients(mu):
    again = mf.Density.from_coefficients(mu.space, mu.coefficients)
    assert np.array_equal(again.coefficients, mu.coefficients)
    assert again.law is None
    assert again.mass() == pytest.approx(mu.mass(), abs=8 * EPS)
    assert again.tail == mu.tail
    assert np.array_equal(again.mean(), mu.mean())
    assert np.max(np.abs(again.values - mu.values)) < series_rounding(mu)
    for radius in 1e-3, 1.0, 20.0:
        z = radius * unit_points(mu.dim, 3, 6)
        log_g, mean = mu.log_moment(z)
        log_h, other = again.log_moment(z)
        # a series has an absolute error, which counts the more the smaller G beside its maximum
        share = 100 * EPS * np.exp(radius - log_g.min())
        assert np.max(np.abs(log_g - log_h)) < share
        assert np.max(np.abs(mean - other)) < 2 * share


@every_density
def test_resized(mu):
    """A law is taken again, and its tail falls; a series is only embedded."""
    coarse = mf.Density(mu.space.resize(2 * (mu.space.size // 4)), mu.law)
    fine = coarse.resize(mu.space.size)
    assert fine.space.size == mu.space.size
    assert fine.law is mu.law
    assert fine.tail < 0.1 * coarse.tail
    assert np.array_equal(fine.coefficients, mu.coefficients)
    series = mf.Density.from_coefficients(coarse.space, coarse.coefficients)
    embedded = series.resize(mu.space.size)
    assert embedded.law is None
    points = unit_points(mu.dim, 20, 4)
    assert np.max(np.abs(embedded.pdf(points) - coarse.pdf(points))) < series_rounding(coarse)
    assert np.array_equal(embedded.mean(), coarse.mean())


def test_tail_tells_what_is_missing():
    """The last tenth of the spectrum, and the error at points, fall together with the size."""
    law, points = mf.VonMisesFisher([0.6, 0.8], 6.0), unit_points(2, 50, 0)
    tails, errors = [], []
    for n in (16, 24, 32, 48):
        mu = mf.Density(mf.Circle(n), law)
        tails.append(mu.tail)
        errors.append(np.max(np.abs(mu.pdf(points) - law.pdf(points))))
    assert np.all(np.diff(tails) < 0)
    # until rounding
    assert np.all(np.diff(errors) < 0)
    assert tails[0] > 1e-4
    assert errors[-1] < 1e-12
    assert mf.Density(mf.Circle(48), mf.Uniform(2)).tail < 8 * EPS


def test_a_density_of_a_function():
    space = mf.Zonal(5, 15)
    axis = space.axis
    mu = mf.Density(space, lambda x: 1.0 + 0.5 * x @ axis)
    assert mu.mean() == pytest.approx(0.1 * axis, abs=1e-14)
    with pytest.raises(ValueError, match="the density must have mass 1"):
        mf.Density(space, lambda x: np.full(len(x), 2.0))
    with pytest.raises(ValueError, match="values must be a non-empty array with 1 axes"):
        mf.Density(space, lambda x: x)
    with pytest.raises(ValueError, match=r"the function must return n values .* got one number"):
        mf.Density(space, lambda _: 1.0)
    with pytest.raises(ValueError, match="values must be"):
        mf.Density(space, mf.Uniform)


def test_what_is_handed_over_is_copied():
    values = 1 + 0.5 * np.cos(mf.Circle(16).angles)
    mu = mf.Density(mf.Circle(16), values)
    values[:] = 0
    assert mu.mean()[0] == pytest.approx(0.25, abs=EPS)
    assert mu.values[0] == pytest.approx(1.5, abs=4 * EPS)


# the degree that a law adds to the uniform one, and the space that would hold it: on the first grid
# the harmonic looks like one of degree 1, on the others like none of the degrees kept
HIDDEN = [
    (mf.Circle(16), 23, "Circle(64)"),
    (mf.Circle(16), 47, "Circle(128)"),
    (mf.Circle(16), 10, "Circle(32)"),
    (mf.Circle(256), 150, "Circle(512)"),
    (mf.Sphere(7), 10, "Sphere(15)"),
    (mf.Sphere(7), 16, "Sphere(31)"),
    (mf.Zonal(3, 7), 10, "Zonal(3, 15)"),
]


@pytest.mark.parametrize(("space", "degree", "larger"), HIDDEN, ids=str)
def test_law_that_the_space_takes_for_another(space, degree, larger):
    series = np.eye(degree)[-1] * 0.9
    law = mf.FourierSeries(cos=series) if space.dim == 2 else mf.ZonalSeries(3, series)
    with pytest.raises(ValueError, match=re.escape(f"take {larger}") + "$"):
        mf.Density(space, law)


class Fine:
    """A law of degree 10,000."""

    dim = 2

    @staticmethod
    def pdf(points):
        return 1.0 + 0.9 * np.cos(10_000 * np.arctan2(points[:, 1], points[:, 0]))

    @staticmethod
    def sample(n, rng):
        raise NotImplementedError


def test_law_that_no_space_resolves():
    with pytest.raises(ValueError, match="take a FlowMap, since no size up to 16384 resolves it"):
        mf.Density(mf.Circle(16), Fine())


def test_misfit_is_what_the_series_misses():
    """a cos 10θ has the norm a/√2, and Circle(16) ends at degree 7."""
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.0] * 9 + [0.01]))
    assert mu.misfit == pytest.approx(0.01 / np.sqrt(2), rel=1e-12)
    assert mu.resize(24).misfit < 8 * EPS


def test_tail_of_a_spectrum_with_gaps():
    """Multiples of 10 alone: none is among the last four degrees of 16, but 10 is the last."""
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.0] * 9 + [0.5]))
    # some log_2 32 roundings of a transform
    assert mu.misfit < 8 * EPS
    assert mu.tail == pytest.approx(0.5 / np.sqrt(2 + 0.5**2), rel=1e-12)
    assert mf.Density(mf.Circle(64), mu.law).tail < 8 * EPS


def test_power_is_known_for_a_bump():
    """The coefficient of degree k of vMF is Λ_k/Λ_0 times sqrt(N_k) (Funk-Hecke)."""
    for space in (mf.Circle(64), mf.Sphere(31), mf.Zonal(10, 31, axis=np.eye(10)[0])):
        mu = mf.Density(space, mf.VonMisesFisher(np.eye(space.dim)[0], 4.0))
        kmax = space.kmax
        ratio = mf.kernels.multipliers.relative_eigenvalues(4.0, space.dim, kmax)
        exact = mf.spaces.gegenbauer.multiplicities(space.dim, kmax) * ratio**2
        assert np.max(np.abs(np.sqrt(mu.power) - np.sqrt(exact))) < 1e-14
        assert np.allclose(mu.mean(), ratio[1] * np.eye(space.dim)[0], rtol=0, atol=1e-15)


# ---------------------------------------------------------------- bad input


@every_density
def test_bad_values(mu):
    n = len(mu.space.weights)
    # of the grid's highest degree, which no series of the space holds
    rough = 1 + 0.5 * np.cos(np.pi * np.arange(n))
    for values, message in [
        (mu.values[1:], rf"values must have shape \({n},\)"),
        (mu.values - mu.values.min() - 0.01, "values must be >= 0, got -0.01"),
        (rough / (mu.space.weights @ rough), "values must be resolved by .* a larger space"),
    ]:
        with pytest.raises(ValueError, match=message):
            mf.Density(mu.space, values)


@every_density
def test_bad_coefficients_points_and_sizes(mu):
    for coefficients in (mu.coefficients[1:], mu.coefficients[None], np.nan * mu.coefficients):
        with pytest.raises(ValueError, match="coefficients must be finite with shape"):
            mf.Density.from_coefficients(mu.space, coefficients)
    with pytest.raises(ValueError, match=r"points must have rows of norm 1 .*got norm 2 in"):
        mu.pdf(2 * np.eye(mu.dim))
    with pytest.raises(ValueError, match=f"points must have rows of length = {mu.dim}"):
        mu.pdf(np.eye(mu.dim + 1))
    with pytest.raises(ValueError, match=f"size must be an integer >= {mu.space.size}, got 4"):
        mu.resize(4)


def test_complex_coefficients_about_an_axis_are_refused():
    with pytest.raises(ValueError, match=r"^coefficients must be "):
        mf.Density.from_coefficients(mf.Zonal(3, 3), np.array([1, 0.1j, 0, 0]))


@pytest.mark.parametrize(
    "law", [mf.FourierSeries(sin=[0.0, 0.3]), mf.VonMisesFisher([1.0, 0.0], 1)]
)
def test_a_law_about_no_axis_is_refused(law):
    with pytest.raises(ValueError, match=r"law must be axisymmetric about .* Zonal\(2, 31\)"):
        mf.Density(mf.Zonal(2, 31), law)


def law_of_three(dim):
    """A series with no axis on the circle and S^2."""
    if dim == 2:
        return mf.FourierSeries(cos=[0.6, 0.0, 0.2], sin=[0.1, -0.3])
    return mf.Mixture([mf.VonMisesFisher(v, 3.0) for v in np.eye(3)[:2]], [0.3, 0.7])


OF_SERIES = {
    "circle": (mf.Circle(32), law_of_three(2)),
    "sphere": (mf.Sphere(31), law_of_three(3)),
    "about an axis": (mf.Zonal(5, 31), mf.VonMisesFisher(np.eye(5)[-1], 4.0)),
}


@pytest.mark.parametrize("kind", OF_SERIES)
def test_draws_have_the_law_of_the_series(kind):
    """Their means are known to 1/sqrt(n), and a projection passes a KS test of level 1e-3."""
    space, law = OF_SERIES[kind]
    mu = mf.Density(space, law)
    series = mf.Density.from_coefficients(mu.space, mu.coefficients)
    n, u = 20_000, np.linspace(1.0, 2.0, space.dim) / np.linalg.norm(np.linspace(1, 2, space.dim))
    draws = series.sample(n, np.random.default_rng(1))
    assert np.abs(draws.mean(axis=0) - mu.mean()).max() < 5.0 / np.sqrt(n)
    # of degree 2, too: that is no law of the mean alone
    exact = law.sample(n, np.random.default_rng(2))
    assert scipy.stats.ks_2samp(draws @ u, exact @ u).pvalue > 1e-3
    # draws of another law are told apart by the same test
    other = mf.Uniform(space.dim).sample(n, 3)
    assert scipy.stats.ks_2samp(other @ u, exact @ u).pvalue < 1e-12
    assert len(np.unique(draws, axis=0)) == n
    assert np.array_equal(mf.Particles.sample(series, n, 1).points, draws)
    # of a density from a law they are the law's own
    assert np.array_equal(mu.sample(9, 4), law.sample(9, np.random.default_rng(4)))


def test_draws_leave_out_where_a_series_is_negative():
    """f = 1 + 1.2 cos θ: of max(f, 0) each twentieth of the mass has a twentieth of the draws."""
    mu = mf.Density.from_coefficients(mf.Circle(8), np.array([1.0, 0.6, 0.0, 0.0], dtype=complex))
    draws, zero = mu.sample(20_000, 0), np.arccos(-1.0 / 1.2)
    angles = np.arctan2(draws[:, 1], draws[:, 0])
    assert np.abs(angles).max() <= zero
    cumulated = (angles + 1.2 * np.sin(angles)) / (2.0 * (zero + 1.2 * np.sin(zero))) + 0.5
    counts = np.histogram(cumulated, 20, (0.0, 1.0))[0]
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    tokens = mu.quantise(10_000)
    angles = np.arctan2(tokens[:, 1], tokens[:, 0])
    # one of n at each side of each edge
    cumulated = (angles + 1.2 * np.sin(angles)) / (2.0 * (zero + 1.2 * np.sin(zero))) + 0.5
    assert np.abs(np.histogram(cumulated, 20, (0.0, 1.0))[0] - 500).max() <= 2


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [("circle", 1e-12), pytest.param("sphere", 2e-3, marks=pytest.mark.slow), ("axis", 2e-3)],
)
def test_quantised_densities_have_their_moments(kind, tolerance):
    """On the circle means of smooth functions are exact to rounding, on S^2 to some 1/n."""
    space, law = OF_SERIES.get(kind, (mf.Zonal(3, 31), mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)))
    mu = mf.Density(space, law)
    series = mf.Density.from_coefficients(mu.space, mu.coefficients)
    tokens = mf.Particles.quantise(series, 1000)
    assert np.abs(tokens.mean() - mu.mean()).max() < tolerance
    assert np.array_equal(tokens.points, series.quantise(1000))
    assert np.abs(mu.quantise(1000) - tokens.points).max() < 1e-6
