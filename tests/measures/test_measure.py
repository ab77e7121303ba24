"""One suite for every measure: what it answers about G(z) = ∫ e^{<z,y>} dmu(y), and how it turns.

Floating-point errors of any kind are raised: nothing here may divide by zero, over- or underflow.
"""

import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.measures import SphereFlowMap

EPS = np.finfo(float).eps
SLANTED = np.array([0.48, 0.6, 0.64])
seeds = st.integers(0, 2**32 - 1)
radii = st.floats(-3.0, 1.3).map(lambda x: 10.0**x)


@pytest.fixture(autouse=True)
def _raise_floating_point_errors():
    with np.errstate(all="raise"):
        yield


# ---------------------------------------------------------------- what the suite is made of


def unit_points(dim, n, seed):
    points = np.random.default_rng(seed).normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def rotation(dim, seed):
    """An orthogonal matrix of determinant 1."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))
    q = q * np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    return q


def bumps(dim, turn=None, axis=None):
    """Three bumps in general position, or on one axis; turned, if wanted."""
    means = unit_points(dim, 3, 17) if axis is None else np.array([axis, -axis, axis])
    means = means if turn is None else means @ turn.T
    kappas = [3.0, 2.0, 0.5]
    laws = [mf.VonMisesFisher(m, k) for m, k in zip(means, kappas, strict=True)]
    return mf.Mixture(laws, [0.5, 0.3, 0.2])


def tokens(dim, turn=None):
    """Nine tokens, masses over nine decades, two tokens at one place."""
    points = unit_points(dim, 9, 23)
    points[4] = points[7]
    points = points if turn is None else points @ turn.T
    return mf.Particles(points, weights=10.0 ** -np.arange(9), unit_mass=True)


def zonal(dim, kmax, axis, turn=None):
    axis = axis if turn is None else turn @ axis
    return mf.Density(mf.Zonal(dim, kmax, axis=axis), bumps(dim, axis=axis))


def flow(dim, axis, turn=None):
    return mf.FlowMap(bumps(dim, axis=axis if turn is None else turn @ axis))


def oscillators(turn=None):
    given = tokens(2, turn)
    angles = np.arctan2(given.points[:, 1], given.points[:, 0])
    return mf.Oscillators(angles, np.arange(9.0), given.weights)


# each takes a rotation, or None for the measure as it stands
MEASURES = {
    "circle": lambda turn=None: mf.Density(mf.Circle(64), bumps(2, turn)),
    "sphere": lambda turn=None: mf.Density(mf.Sphere(27), bumps(3, turn)),
    "zonal 2": lambda turn=None: zonal(2, 31, np.array([0.6, -0.8]), turn),
    "zonal 3": lambda turn=None: zonal(3, 31, SLANTED, turn),
    "zonal 10": lambda turn=None: zonal(10, 31, np.full(10, 10**-0.5), turn),
    "zonal 50": lambda turn=None: zonal(50, 15, np.eye(50)[-1], turn),
    "flow 2": lambda turn=None: mf.FlowMap(bumps(2, turn)),
    "flow 3": lambda turn=None: flow(3, SLANTED, turn),
    "flow 10": lambda turn=None: flow(10, np.full(10, 10**-0.5), turn),
    "flow 50": lambda turn=None: flow(50, np.eye(50)[-1], turn),
    "flow on S2": lambda turn=None: mf.FlowMap(bumps(3, turn), tol=1e-8),
    "tokens 2": lambda turn=None: tokens(2, turn),
    "tokens 3": lambda turn=None: tokens(3, turn),
    "tokens 10": lambda turn=None: tokens(10, turn),
    "oscillator density": lambda turn=None: mf.OscillatorDensity(
        mf.Circle(64), [bumps(2, turn), mf.Uniform(2)], [-1.0, 3.0], [3.0, 1.0], unit_mass=True
    ),
    "oscillators": lambda turn=None: oscillators(turn),
    "one token": lambda turn=None: mf.Particles(
        SLANTED[None] if turn is None else (turn @ SLANTED)[None]
    ),
}
BUILT = {name: make() for name, make in MEASURES.items()}
DENSITIES = {name: mu for name, mu in BUILT.items() if type(mu) is mf.Density}
every_measure = pytest.mark.parametrize("mu", BUILT.values(), ids=BUILT.keys())
every_density = pytest.mark.parametrize("mu", DENSITIES.values(), ids=DENSITIES.keys())


def rounding(radius):
    """Exponents of size |z| are rounded by |z| eps; hundreds of positive terms are summed."""
    return 8 * (radius + 10) * EPS


def series_rounding(mu):
    """A rounding of each coefficient, of its norm's size, times sqrt(N_k): |Y| at its largest.

    In high dimension that is much, near the axis, where there is hardly any measure.
    """
    peaks = np.sqrt(mf.spaces.gegenbauer.multiplicities(mu.dim, mu.space.kmax))
    return 4 * EPS * np.sqrt(mu._power.sum()) * peaks.sum()


# ---------------------------------------------------------------- G and its gradient


@every_measure
def test_mass(mu):
    assert mu.mass() == pytest.approx(1, abs=8 * EPS)


@every_measure
def test_points_and_weights_integrate(mu):
    """∫ <x, a> dmu for a along the axis, if there is one, for which all points count alike."""
    assert len(mu) == len(mu.points) == len(mu.weights)
    assert mu.points.shape == (len(mu), mu.dim)
    assert mu.weights.sum() == pytest.approx(1, abs=1e-12)
    along = np.eye(mu.dim) if mu.axis is None else mu.axis[None]
    tolerance = 1e-7 if np.ndim(getattr(mu, "log_density", None)) else 1e-12
    assert along @ (mu.weights @ mu.points) == pytest.approx(along @ mu.mean(), abs=tolerance)


@every_measure
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda mu: pickle.loads(pickle.dumps(mu))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_answer_alike(mu, copied):
    again, z = copied(mu), unit_points(mu.dim, 5, 3)
    assert type(again) is type(mu)
    assert repr(again) == repr(mu)
    assert again._limits == mu._limits
    for one, other in zip(again.log_moment(z), mu.log_moment(z), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", [name for name in BUILT if name.startswith(("flow", "circle"))])
def test_entropy_is_that_of_the_law(name):
    mu = BUILT[name]
    law = bumps(mu.dim) if mu.axis is None else bumps(mu.dim, axis=mu.axis)
    grid = mf.Density(mf.Circle(256), law) if mu.dim == 2 else mu
    assert mu.entropy() == pytest.approx(grid.entropy(), abs=1e-8)
    assert mu.entropy() > 0.01


def test_atoms_are_clusters():
    cloud = mf.PointCloud([[0.0, 1.0], [1.0, 0.0]], weights=[0.25, 0.75])
    found = mf.FlowMap(cloud).atoms
    assert found.masses == pytest.approx([0.75, 0.25])
    assert found.centres == pytest.approx(np.eye(2), abs=1e-15)
    assert found.radii.tolist() == [0.0, 0.0]
    assert len(BUILT["flow 10"].atoms) == len(BUILT["flow on S2"].atoms) == 0


def test_tokens_at_angles():
    angles = np.array([0.3, -2.0, 5.0])
    mu = mf.Particles.from_angles(angles, [1.0, 2.0, 1.0], sums="direct", unit_mass=True)
    assert mu.points == pytest.approx(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert (mu.weights.tolist(), mu.sums) == ([0.25, 0.5, 0.25], "direct")
    with pytest.raises(ValueError, match="angles must be finite"):
        mf.Particles.from_angles([np.nan])


@every_measure
def test_moment_at_zero(mu):
    """G(0) = 1 and ∇G(0) = ∫ x dmu."""
    g, gradient = mu.moment(np.zeros((2, mu.dim)))
    assert g == pytest.approx([1, 1], abs=rounding(0))
    mean = mu.mean()
    assert mean.shape == (mu.dim,)
    assert 0.01 < np.linalg.norm(mean) <= 1 + 4 * EPS
    assert np.max(np.abs(gradient - mean)) < rounding(0)


@pytest.mark.slow
@every_measure
@given(seeds, radii)
def test_moment_is_the_exponential_of_log_moment(mu, seed, radius):
    z = radius * unit_points(mu.dim, 3, seed)
    log_g, mean = mu.log_moment(z)
    g, gradient = mu.moment(z)
    assert log_g.shape == g.shape == (3,)
    assert mean.shape == gradient.shape == (3, mu.dim)
    assert np.allclose(g, np.exp(log_g), rtol=4 * EPS, atol=0)
    assert np.allclose(gradient, np.exp(log_g)[:, None] * mean, rtol=4 * EPS, atol=0)


@pytest.mark.slow
@every_measure
@given(seeds, radii)
def test_gradient_against_differences(mu, seed, radius):
    """∇ log G by central differences along every axis."""
    z = radius * unit_points(mu.dim, 1, seed)
    h = 3e-3
    steps = h * np.concatenate([np.eye(mu.dim), -np.eye(mu.dim)])
    steps = np.concatenate([steps, 2 * steps])
    up, down, up_twice, down_twice = mu.log_moment(z + steps)[0].reshape(4, mu.dim)
    slope = (8 * (up - down) - (up_twice - down_twice)) / (12 * h)
    mean = mu.log_moment(z)[1][0]
    # h⁴/30 times a fifth cumulant of a variable in [-1, 1], at most 16; and rounding over h
    assert np.max(np.abs(slope - mean)) < 16 * h**4 / 30 + 2 * rounding(radius) / h


@pytest.mark.slow
@every_measure
@given(seeds, radii)
def test_bounds(mu, seed, radius):
    """|∇ log G| <= 1, and <z, mean> <= log G(z) <= |z| (Jensen's inequality)."""
    z = radius * unit_points(mu.dim, 4, seed)
    log_g, mean = mu.log_moment(z)
    assert np.all(np.linalg.norm(mean, axis=1) <= 1 + rounding(0))
    assert np.all(log_g <= radius + rounding(radius))
    assert np.all(log_g >= z @ mu.mean() - rounding(radius))


@pytest.mark.slow
@every_measure
@given(seeds, radii)
def test_log_moment_is_convex(mu, seed, radius):
    """And ∇ log G is its slope: log G(b) >= log G(a) + <∇ log G(a), b - a>."""
    a, b = radius * unit_points(mu.dim, 2, seed)
    (log_a, log_b), mean = mu.log_moment(np.stack([a, b]))
    assert log_b >= log_a + mean[0] @ (b - a) - 2 * rounding(radius)


@every_measure
def test_rows_do_not_see_each_other(mu):
    """Of very different length, too: each row's answer is its own."""
    z = unit_points(mu.dim, 4, 3) * np.array([[1e-3], [1.0], [5.0], [60.0]])
    log_g, mean = mu.log_moment(z)
    for i in range(4):
        log_h, alone = mu.log_moment(z[i : i + 1])
        # the longest row may ask for a finer grid
        assert abs(log_g[i] - log_h[0]) < rounding(60)
        assert np.max(np.abs(mean[i] - alone[0])) < rounding(60)


# a mesh of patches does not turn with the measure: it has a test of its own, at its tolerance
TURNED = [name for name in MEASURES if name not in {"one token", "flow on S2"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", TURNED)
@given(seeds, radii)
def test_turning_the_measure_turns_the_answer(name, seed, radius):
    """G_{Rmu}(Rz) = G_mu(z), ∇G_{Rmu}(Rz) = R ∇G_mu(z)."""
    mu = BUILT[name]
    turn = rotation(mu.dim, [seed, 1])
    turned = MEASURES[name](turn)
    z = radius * unit_points(mu.dim, 3, seed)
    log_g, mean = mu.log_moment(z)
    log_h, other = turned.log_moment(z @ turn.T)
    # R itself is orthogonal to some d roundings
    tolerance = 2 * rounding(radius) + 4 * mu.dim * EPS * (1 + radius)
    assert np.max(np.abs(log_g - log_h)) < tolerance
    assert np.max(np.abs(other - mean @ turn.T)) < tolerance
    assert np.max(np.abs(turned.mean() - turn @ mu.mean())) < tolerance
    # a turn that does nothing would prove nothing
    assert np.max(np.abs(turned.mean() - mu.mean())) > 1e-6


# ---------------------------------------------------------------- one measure, two representations


@pytest.mark.parametrize("name", ["circle", "sphere"])
@given(seeds, radii)
def test_density_is_its_quadrature_nodes(name, seed, radius):
    mu = BUILT[name]
    cloud = mf.Particles(mu.space.points, weights=mu.space.weights * mu.values)
    z = radius * unit_points(mu.dim, 5, seed)
    for found, exact in zip(cloud.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(found - exact)) < 1e-13
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
    ("name", "general"), [("zonal 2", mf.Circle(64)), ("zonal 3", mf.Sphere(31))]
)
@given(seeds, radii)
def test_zonal_density_on_a_general_space(name, general, seed, radius):
    zonal_mu = BUILT[name]
    mu = mf.Density(general, bumps(general.dim, axis=zonal_mu.space.axis))
    z = radius * unit_points(mu.dim, 5, seed)
    for found, exact in zip(zonal_mu.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(found - exact)) < 1e-13
    assert np.max(np.abs(mu.mean() - zonal_mu.mean())) < 1e-13
    points = unit_points(mu.dim, 20, seed)
    # a series of some 30 degrees, each with its roundings, for a density of size up to 7
    assert np.max(np.abs(mu.pdf(points) - zonal_mu.pdf(points))) < 1e-12
    assert np.allclose(mu._power[:32], zonal_mu._power, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3, 10, 50])
@given(seeds, radii)
def test_flow_map_is_its_law(dim, seed, radius):
    """At t = 0 the nodes are a quadrature of the density: two representations of one measure."""
    flow_mu = BUILT[f"flow {dim}"]
    if dim == 2:
        mu = BUILT["circle"]
    else:
        mu = mf.Density(mf.Zonal(dim, 31, axis=flow_mu.axis), flow_mu.line.law)
    z = radius * unit_points(dim, 5, seed)
    for found, exact in zip(flow_mu.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(found - exact)) < 1e-13
    assert np.max(np.abs(flow_mu.mean() - mu.mean())) < 1e-13


@given(seeds, radii, st.permutations(range(9)))
def test_tokens_have_no_order(seed, radius, order):
    mu = BUILT["tokens 10"]
    other = mf.Particles(mu.points[order], weights=mu.weights[order])
    z = radius * unit_points(10, 3, seed)
    for found, exact in zip(other.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(found - exact)) < rounding(radius)
    assert np.max(np.abs(other.mean() - mu.mean())) < 8 * EPS


def test_tokens_at_one_place_are_one_token():
    once = mf.Particles([[0.6, 0.8], [1.0, 0.0]], weights=[2, 1], unit_mass=True)
    twice = mf.Particles([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0]])
    z = 20 * unit_points(2, 5, 0)
    for found, exact in zip(twice.log_moment(z), once.log_moment(z), strict=True):
        assert np.max(np.abs(found - exact)) < rounding(20)


@pytest.mark.parametrize("name", ["circle", "sphere", "zonal 10"])
def test_tokens_of_the_law_approach_the_density(name):
    mu = BUILT[name]
    n = 4000
    cloud = mf.Particles.sample(mu.law, n, np.random.default_rng(5))
    assert cloud.points.shape == (n, mu.dim)
    # five standard errors; coordinates of unit vectors have a variance of at most 1
    assert np.max(np.abs(cloud.mean() - mu.mean())) < 5 / np.sqrt(n)
    again = mf.Particles.sample(mu.law, n, np.random.default_rng(5))
    assert np.array_equal(cloud.points, again.points)


# ---------------------------------------------------------------- densities: values, series, sizes


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
    assert np.max(np.abs(again.coefficients - mu.coefficients)) < 8 * EPS * np.sqrt(mu._power.sum())
    assert np.allclose(again.values, mu.values, rtol=8 * EPS, atol=0)


@pytest.mark.parametrize(("dim", "kmax"), [(50, 47), (200, 23)])
def test_values_in_high_dimension_are_resolved(dim, kmax):
    """Near the axis the series loses digits, however fine the space: nothing there has any mass."""
    space = mf.Zonal(dim, kmax)
    mu = mf.Density(space, 1 + 0.8 * space.nodes)
    assert np.max(np.abs(mu.coefficients[2:])) < 100 * EPS
    assert mu.mean()[-1] == pytest.approx(0.8 / dim, rel=1e-13)


@pytest.mark.slow
@every_density
@given(seeds, radii)
def test_from_coefficients(mu, seed, radius):
    again = mf.Density.from_coefficients(mu.space, mu.coefficients)
    assert np.array_equal(again.coefficients, mu.coefficients)
    assert again.law is None
    assert again.mass() == pytest.approx(mu.mass(), abs=8 * EPS)
    assert again.tail == mu.tail
    assert np.array_equal(again.mean(), mu.mean())
    assert np.max(np.abs(again.values - mu.values)) < series_rounding(mu)
    z = radius * unit_points(mu.dim, 3, seed)
    log_g, mean = mu.log_moment(z)
    log_h, other = again.log_moment(z)
    # the series has an absolute error, which counts the more the smaller G is beside its maximum
    share = 100 * EPS * np.exp(radius - log_g.min())
    assert np.max(np.abs(log_g - log_h)) < share
    assert np.max(np.abs(mean - other)) < 2 * share


@every_density
def test_resized(mu):
    """A law is taken again, and its tail falls; a series is only embedded."""
    coarse = mf.Density(mu.space._resized(2 * (mu.space.size // 4)), mu.law)
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


@pytest.mark.slow
def test_law_that_no_space_resolves():
    with pytest.raises(ValueError, match="take a FlowMap, since no size up to 16384 resolves it"):
        mf.Density(mf.Circle(16), mf.FourierSeries(cos=np.eye(10_000)[-1]))


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
        assert np.max(np.abs(np.sqrt(mu._power) - np.sqrt(exact))) < 1e-14
        assert np.allclose(mu.mean(), ratio[1] * np.eye(space.dim)[0], rtol=0, atol=1e-15)


@every_measure
def test_arrays_cannot_be_written(mu):
    nodes = isinstance(mu, mf.Particles | mf.FlowMap)
    arrays = [mu.points, mu.weights] if nodes else [mu.values, mu.coefficients]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.5


def test_what_is_given_is_copied():
    points, shares = np.eye(2), np.array([1.0, 3.0])
    values = 1 + 0.5 * np.cos(mf.Circle(16).angles)
    cloud, mu = (
        mf.Particles(points, weights=shares, unit_mass=True),
        mf.Density(mf.Circle(16), values),
    )
    points[:], shares[:], values[:] = 0, 0, 0
    assert cloud.mean().tolist() == [0.25, 0.75]
    assert mu.mean()[0] == pytest.approx(0.25, abs=EPS)
    assert mu.values[0] == pytest.approx(1.5, abs=4 * EPS)


@every_measure
def test_repr_is_short(mu):
    assert len(repr(mu)) < 80
    name = "FlowMap" if isinstance(mu, mf.FlowMap) else type(mu).__name__
    assert name in repr(mu)


# ---------------------------------------------------------------- bad input


@every_measure
@pytest.mark.parametrize("ask", ["moment", "log_moment"])
def test_bad_queries(mu, ask):
    wrong = [
        (np.zeros((3, mu.dim + 1)), f"z must have rows of length = {mu.dim}, got shape"),
        (np.zeros(mu.dim), "z must be a non-empty array with 2 axes, got shape"),
        (np.zeros((0, mu.dim)), "z must be a non-empty array with 2 axes, got shape"),
        (np.full((1, mu.dim), np.nan), "z must be finite, got nan at index"),
        ([["x"] * mu.dim], "z must be an array of real numbers"),
    ]
    for z, message in wrong:
        with pytest.raises(ValueError, match=message):
            getattr(mu, ask)(z)


@every_measure
def test_moment_that_overflows_is_refused(mu):
    z = 2000 * mu.mean()[None] / np.linalg.norm(mu.mean())
    if isinstance(mu, SphereFlowMap):
        # its patches end long before G overflows
        with pytest.raises(
            ValueError, match=r"the length of z, must be smaller .* got 2000: limit"
        ):
            mu.moment(z)
        return
    log_g, mean = mu.log_moment(z)
    assert log_g[0] > 709
    assert np.isfinite(mean).all()
    with pytest.raises(ValueError, match=r"log G\(z\) <= 709, got .*: ask for log_moment"):
        mu.moment(z)


@every_density
def test_bad_points(mu):
    for points, message in [
        (2 * np.eye(mu.dim), "points must have rows of norm 1 .*, got norm 2 in row 0"),
        (np.zeros((1, mu.dim)), "points must have rows of norm 1 .*, got norm 0 in row 0"),
        (np.eye(mu.dim + 1), f"points must have rows of length = {mu.dim}"),
        (np.eye(mu.dim)[0], "points must be a non-empty array with 2 axes"),
    ]:
        with pytest.raises(ValueError, match=message):
            mu.pdf(points)


@every_density
def test_bad_coefficients(mu):
    for coefficients in (mu.coefficients[1:], mu.coefficients[None], np.nan * mu.coefficients):
        with pytest.raises(ValueError, match="coefficients must be finite with shape"):
            mf.Density.from_coefficients(mu.space, coefficients)


@pytest.mark.parametrize(
    ("space", "coefficients"),
    [
        (mf.Circle(8), ["x"] * 4),
        (mf.Circle(8), [None] * 4),
        (mf.Zonal(3, 3), np.array([1, 0.1j, 0, 0])),
        (mf.Zonal(3, 3), [[1], [0, 0], 0, 0]),
    ],
    ids=str,
)
def test_coefficients_of_another_kind(space, coefficients):
    with pytest.raises(ValueError, match=r"^coefficients must be "):
        mf.Density.from_coefficients(space, coefficients)


@every_density
def test_bad_values(mu):
    n = len(mu.space.weights)
    # of the grid's highest degree, which no series of the space holds
    rough = 1 + 0.5 * np.cos(np.pi * np.arange(n))
    for values, message in [
        (2 * mu.values, "density must have mass 1 within 1e-08 .*, got mass 2"),
        (mu.values[1:], rf"values must have shape \({n},\)"),
        (mu.values - mu.values.min() - 0.01, "values must be >= 0, got -0.01"),
        (np.full(n, np.nan), "values must be finite, got nan"),
        (rough / (mu.space.weights @ rough), "values must be resolved by .* a larger space"),
        (["x"] * n, "values must be an array of real numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            mf.Density(mu.space, values)


@every_density
def test_bad_size(mu):
    with pytest.raises(ValueError, match=f"size must be an integer >= {mu.space.size}, got 4"):
        mu.resize(4)
