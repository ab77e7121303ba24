"""One suite for every space: transforms and their adjoints, quadrature, and the function itself.

Floating-point errors of any kind are raised: nothing here may divide by zero, over- or underflow.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from scipy.special import eval_gegenbauer, sph_harm_y

import meanfield as mf
from meanfield.kernels import multipliers
from meanfield.kernels.direct import grid_log_moment
from meanfield.spaces import CircleAt, SphereAt, available, geometry
from meanfield.spaces.gegenbauer import gegenbauer, multiplicities

EPS = np.finfo(float).eps
SLANTED = np.array([0.48, 0.6, 0.64])
SPACES = [
    mf.Circle(32),
    mf.Sphere(15, "ducc0"),
    *([mf.Sphere(20, "shtns")] if available("shtns") == "shtns" else []),
    mf.Zonal(2, 15),
    mf.Zonal(3, 15, axis=SLANTED),
    mf.Zonal(10, 15, axis=np.full(10, 10**-0.5)),
    mf.Zonal(50, 15),
]
every_space = pytest.mark.parametrize("space", SPACES, ids=str)
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def _raise_floating_point_errors():
    with np.errstate(all="raise"):
        yield


def test_floating_point_errors_are_raised():
    with pytest.raises(FloatingPointError):
        np.float64(1e-200) * np.float64(1e-200)


# ---------------------------------------------------------------- what the suite is made of


def degrees(space):
    """The degree of each coefficient."""
    return space.degrees if isinstance(space, mf.Sphere) else np.arange(space.n_coefficients)


def orders(space):
    """How many harmonics a coefficient stands for: 1 if real, 2 with its complex conjugate."""
    if isinstance(space, mf.Sphere):
        return np.where(space.orders == 0, 1, 2)
    if isinstance(space, mf.Circle):
        return np.where(np.arange(space.n_coefficients) == 0, 1, 2)
    return np.ones(space.n_coefficients, dtype=int)


def random_coefficients(space, seed, decay=0.0):
    """Normal coefficients times e^{-decay k}, real where their order is 0."""
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=space.n_coefficients).astype(space.coefficient_type)
    if np.iscomplexobj(coefficients):
        coefficients[orders(space) == 2] += 1j * rng.normal(size=np.sum(orders(space) == 2))
    return coefficients * np.exp(-decay * degrees(space))


def random_values(space, seed):
    return np.random.default_rng([seed, 1]).normal(size=len(space.weights))


def random_points(space, seed, n=30):
    points = np.random.default_rng([seed, 2]).normal(size=(n, space.dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def inner_coefficients(space, a, b):
    """∫ f g dσ of two series, by Parseval."""
    return float(np.sum(orders(space) * (a.conj() * b).real))


def inner_values(space, f, g):
    """∫ f g dσ by quadrature; vector fields have their components first."""
    return float(np.sum(space.weights * f * g))


def laplacian(space):
    """-Δ of each coefficient, k(k+d-2)."""
    k = degrees(space)
    return k * (k + space.dim - 2.0)


def rounding(space):
    """A transform adds n numbers after k steps of a recurrence, in a random-walk of roundings."""
    return 2 * (space.kmax + np.sqrt(len(space.weights))) * EPS


def largest_values(space, coefficients):
    """Σ |f_k| sqrt(N_k) bounds |f|: the size to which a rounding is relative."""
    amplitude = np.sqrt(space.power(coefficients) * multiplicities(space.dim, space.kmax))
    return float(amplitude.sum())


def independent_values(space, coefficients, points):
    """The function by scipy's special functions."""
    if isinstance(space, mf.Circle):
        theta = np.arctan2(points[:, 1], points[:, 0])
        waves = np.exp(1j * np.outer(theta, degrees(space)))
        return (waves * coefficients * orders(space)).real.sum(axis=1)
    if isinstance(space, mf.Sphere):
        theta = np.arctan2(np.hypot(points[:, 0], points[:, 1]), points[:, 2])
        phi = np.arctan2(points[:, 1], points[:, 0])
        with np.errstate(under="ignore"):
            waves = sph_harm_y(space.degrees, space.orders, theta[:, None], phi[:, None])
            waves = waves * coefficients * orders(space)
        return np.sqrt(4 * np.pi) * waves.real.sum(axis=1)
    t, k = (points @ space.axis)[:, None], degrees(space)
    if space.dim == 2:
        polynomials = np.cos(k * np.arccos(np.clip(t, -1, 1)))
    else:
        order = space.dim / 2 - 1
        polynomials = eval_gegenbauer(k, order, t) / eval_gegenbauer(k, order, 1.0)
    return polynomials @ (np.sqrt(multiplicities(space.dim, space.kmax)) * coefficients)


# ---------------------------------------------------------------- transforms


@every_space
@given(seeds)
def test_round_trip(space, seed):
    coefficients = random_coefficients(space, seed)
    values = space.synthesis(coefficients)
    assert values.shape == space.weights.shape
    found = space.analysis(values)
    assert found.dtype == space.coefficient_type
    scale = np.sqrt(space.power(coefficients).sum())
    assert np.max(np.abs(found - coefficients)) < rounding(space) * scale


@every_space
@given(seeds)
def test_between_is_the_series_elsewhere(space, seed):
    """Between the points of the grid, with weights that nearly are a quadrature there."""
    coefficients = random_coefficients(space, seed)
    points, weights, values = space.between_nodes(coefficients)
    # angles are rounded, which a degree k multiplies by k
    scale = EPS * space.kmax * np.sqrt(multiplicities(space.dim, space.kmax).sum())
    assert np.allclose(values, space.evaluate(coefficients, points), rtol=0, atol=50 * scale)
    apart, _ = cKDTree(space.points).query(points)
    assert apart.min() > 0.1 / len(space.weights)
    # the ends next to the poles are left out, in d = 2 a 24th of the whole
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=0.1)


@every_space
def test_results_are_the_callers(space):
    """A later transform must not write into an earlier result."""
    values = space.synthesis(random_coefficients(space, 0))
    coefficients = space.analysis(values)
    kept = values.copy(), coefficients.copy()
    space.analysis(space.synthesis(random_coefficients(space, 1)))
    assert np.array_equal(values, kept[0])
    assert np.array_equal(coefficients, kept[1])


@every_space
@given(seeds)
def test_analysis_is_the_adjoint_of_synthesis(space, seed):
    """∫ f g dσ with g any values on the grid, by quadrature and by coefficients."""
    coefficients, values = random_coefficients(space, seed), random_values(space, seed)
    synthesised, analysed = space.synthesis(coefficients), space.analysis(values)
    on_grid = inner_values(space, synthesised, values)
    scale = np.sqrt(
        inner_values(space, synthesised, synthesised) * inner_values(space, values, values)
    )
    gap = on_grid - inner_coefficients(space, coefficients, analysed)
    assert abs(gap) < rounding(space) * scale
    assert np.max(np.abs(analysed)) > 1e-3


@every_space
@given(seeds)
def test_divergence_is_the_adjoint_of_the_gradient(space, seed):
    """∫ <∇f, V> dσ with V any field on the grid, by quadrature and by coefficients."""
    coefficients = random_coefficients(space, seed)
    transforms = space.transforms(np.ones(space.kmax + 1))
    transforms.evaluate(coefficients)
    transforms.flux[:] = np.random.default_rng(seed).normal(size=transforms.flux.shape)
    out = np.empty_like(coefficients)
    transforms.weak_divergence(out)
    gradient, flux = transforms.gradient, transforms.flux
    on_grid = inner_values(space, gradient, flux)
    norms = [np.sqrt(inner_values(space, field, field)) for field in (gradient, flux)]
    assert min(norms) > 0.1
    tolerance = rounding(space) * norms[0] * norms[1]
    assert abs(on_grid - inner_coefficients(space, coefficients, out)) < tolerance
    assert abs(on_grid - transforms.integral(gradient)) < tolerance
    # mass: the constant has no gradient
    assert out[0] == 0


@pytest.mark.parametrize("space", [s for s in SPACES if not isinstance(s, mf.Sphere)], ids=str)
@given(seeds)
def test_many_functions_at_once_are_what_each_is_alone(space, seed):
    """Factors end at another degree for each."""
    rng = np.random.default_rng(seed)
    last = rng.integers(1, space.kmax + 1, 4)
    factors = rng.normal(size=(2, 4, space.kmax + 1)) * (space.degrees <= last[:, None])
    coefficients = np.array([random_coefficients(space, [seed, i]) for i in range(4)])
    slope, potential = factors
    many = space.transforms(slope, potential)
    many.evaluate(coefficients)
    many.flux[:] = rng.normal(size=many.flux.shape)
    out = np.empty_like(coefficients)
    many.weak_divergence(out)
    power = space.power(coefficients)
    for i, own in enumerate(coefficients):
        one = space.transforms(slope[i], potential[i])
        one.evaluate(own)
        one.flux[:] = many.flux[:, i]
        alone = np.empty_like(own)
        one.weak_divergence(alone)
        size = rounding(space) * largest_values(space, own) * np.abs(factors).max()
        assert np.max(np.abs(one.gradient)) > 1e3 * size
        assert np.max(np.abs(many.values[i] - one.values)) < size
        assert np.max(np.abs(many.potential[i] - one.potential)) < size
        assert np.max(np.abs(many.gradient[:, i] - one.gradient)) < space.kmax * size
        flux_size = np.sqrt(inner_values(space, one.flux, one.flux))
        largest_slope = np.sqrt(laplacian(space).max())
        assert np.max(np.abs(out[i] - alone)) < rounding(space) * largest_slope * flux_size
        assert np.array_equal(power[i], space.power(own))


@every_space
@given(seeds)
def test_divergence_of_the_gradient_is_the_laplacian(space, seed):
    coefficients = random_coefficients(space, seed)
    transforms = space.transforms(np.ones(space.kmax + 1))
    transforms.evaluate(coefficients)
    assert np.max(np.abs(transforms.gradient)) > 1
    transforms.flux[:] = transforms.gradient
    out = np.empty_like(coefficients)
    transforms.weak_divergence(out)
    exact = laplacian(space) * coefficients
    assert np.max(np.abs(exact)) > 1
    # k² of the highest degree amplifies
    scale = laplacian(space).max() * np.sqrt(space.power(coefficients).sum())
    assert np.max(np.abs(out - exact)) < rounding(space) * scale


@every_space
@given(seeds)
def test_gradient_against_differences(space, seed):
    """∂f along each vector of the frame, by steps along the geodesic."""
    coefficients = random_coefficients(space, seed, decay=1.0)
    transforms = space.transforms(np.ones(space.kmax + 1))
    transforms.evaluate(coefficients)
    index = np.random.default_rng(seed).integers(0, len(space.weights), 12)
    frame, points = space.tangent_frame(index), space.points[index]
    h = 1e-3
    for gradient, direction in zip(transforms.gradient[:, index], frame, strict=True):

        def value(step, direction=direction):
            moved = geometry.exponential(points, step * direction)
            return space.evaluate(coefficients, moved)

        slope = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)
        size = largest_values(space, coefficients)
        # h⁴/30 ∂⁵f, ∂⁵ at most 15⁵ times the last terms and some 10² times the first; eps/h
        assert np.max(np.abs(slope - gradient)) < (1e3 * h**4 + 10 * rounding(space) / h) * size


@every_space
@pytest.mark.parametrize("last", [1, 4, 15])
def test_factors_multiply_the_degrees(space, last):
    """Gradient of Λf and values of Mf, where the factors end at a degree; f itself stays whole."""
    coefficients = random_coefficients(space, 3)
    k = np.arange(space.kmax + 1)
    slope, potential = np.where(k <= last, 1 / (1 + k), 0.0), np.where(k <= last, 0.5**k, 0.0)
    transforms = space.transforms(slope, potential)
    # buffers are used again: another function went through them
    transforms.evaluate(random_coefficients(space, 4))
    transforms.evaluate(coefficients)
    whole = space.transforms(np.ones(space.kmax + 1))
    whole.evaluate(slope[degrees(space)] * coefficients)
    size = largest_values(space, coefficients)
    tolerance = rounding(space) * size
    assert np.max(np.abs(transforms.values - space.synthesis(coefficients))) < tolerance
    assert np.max(np.abs(transforms.gradient - whole.gradient)) < space.kmax * tolerance
    filtered = space.synthesis(potential[degrees(space)] * coefficients)
    assert np.max(np.abs(transforms.potential - filtered)) < tolerance
    assert np.max(np.abs(filtered)) > 0.1


@every_space
def test_no_potential_unless_asked_for(space):
    assert space.transforms(np.ones(space.kmax + 1)).potential.size == 0


# ---------------------------------------------------------------- grid and quadrature


@every_space
def test_grid(space):
    n = len(space.weights)
    assert space.points.shape == (n, space.dim)
    # d squares of coordinates that are products of two rounded numbers
    assert np.max(np.abs(np.linalg.norm(space.points, axis=1) - 1)) < 4 * EPS
    assert space.weights.min() > 0
    assert space.weights.sum() == pytest.approx(1, abs=n * EPS)
    assert n >= 3 * (space.kmax + 1) // 2
    # the product of three functions of the space, one differentiated, is integrated exactly
    assert space.exactness >= 3 * space.kmax


def harmonic_integrals(space, degree):
    """Quadratures of all orthonormal harmonics of one degree."""
    if isinstance(space, mf.Circle):
        waves = np.exp(1j * degree * space.angles)[None]
    elif isinstance(space, mf.Sphere):
        rings = np.repeat(space.colatitudes, space.n_lon)
        longitudes = np.tile(
            2 * np.pi / space.n_lon * np.arange(space.n_lon), len(rings) // space.n_lon
        )
        with np.errstate(under="ignore"):
            waves = sph_harm_y(degree, np.arange(degree + 1)[:, None], rings, longitudes)
        waves = waves * np.sqrt(4 * np.pi)
    else:
        scale = np.sqrt(multiplicities(space.dim, degree)[-1])
        waves = scale * gegenbauer(space.dim, degree, space.nodes)[-1:]
    return waves @ space.weights


@pytest.mark.slow
@every_space
def test_quadrature_is_exact_as_far_as_it_says(space):
    for degree in range(1, space.exactness + 1):
        # each harmonic has norm 1; its recurrence takes `degree` steps
        assert np.max(np.abs(harmonic_integrals(space, degree))) < 8 * (degree + 10) * EPS
    assert harmonic_integrals(space, 0)[0] == pytest.approx(1, abs=100 * EPS)


@every_space
def test_quadrature_is_not_exact_beyond(space):
    assert np.max(np.abs(harmonic_integrals(space, space.exactness + 1))) > 1e-4


@every_space
def test_frame_is_orthonormal_and_tangent(space):
    index = np.arange(len(space.weights))
    frame = space.tangent_frame(index)
    assert frame.shape[1:] == (len(index), space.dim)
    assert len(frame) == (2 if isinstance(space, mf.Sphere) else 1)
    gram = np.einsum("aid,bid->iab", frame, frame)
    # products of cosines and sines, each rounded once or twice
    assert np.max(np.abs(gram - np.eye(len(frame)))) < 8 * EPS
    assert np.max(np.abs(np.einsum("aid,id->ai", frame, space.points))) < 8 * EPS
    some = np.array([3, 0, len(index) - 1])
    assert np.array_equal(space.tangent_frame(some), frame[:, some])


# ---------------------------------------------------------------- the function


@every_space
@given(seeds)
def test_at_is_synthesis_on_the_grid(space, seed):
    coefficients = random_coefficients(space, seed)
    gap = space.evaluate(coefficients, space.points) - space.synthesis(coefficients)
    # a grid point is rounded, so f moves by its slope, some kmax times its size
    size = largest_values(space, coefficients)
    assert np.max(np.abs(gap)) < (rounding(space) + space.kmax * EPS) * size


@every_space
@given(seeds)
def test_at_against_special_functions(space, seed):
    coefficients, points = random_coefficients(space, seed), random_points(space, seed)
    exact = independent_values(space, coefficients, points)
    assert np.max(np.abs(exact)) > 1e-3
    size = largest_values(space, coefficients)
    # as above; and scipy's functions have a rounding for each degree too
    tolerance = (rounding(space) + 8 * space.kmax * EPS) * size
    assert np.max(np.abs(space.evaluate(coefficients, points) - exact)) < tolerance


@every_space
def test_at_the_poles(space):
    """On the axes of R^d, where angles are degenerate."""
    coefficients = random_coefficients(space, 8)
    points = np.concatenate([np.eye(space.dim), -np.eye(space.dim)])
    exact = independent_values(space, coefficients, points)
    tolerance = (rounding(space) + 8 * space.kmax * EPS) * largest_values(space, coefficients)
    assert np.max(np.abs(space.evaluate(coefficients, points) - exact)) < tolerance


@every_space
@given(seeds)
def test_power_by_degree(space, seed):
    """Parseval: Σ power = ∫ f² dσ, and each entry is that of its degree alone."""
    coefficients = random_coefficients(space, seed)
    power = space.power(coefficients)
    assert power.shape == (space.kmax + 1,)
    values = space.synthesis(coefficients)
    exact = inner_values(space, values, values)
    assert power.sum() == pytest.approx(exact, rel=2 * rounding(space))
    for degree in (0, 1, space.kmax):
        alone = np.where(degrees(space) == degree, coefficients, 0)
        values = space.synthesis(alone)
        exact = inner_values(space, values, values)
        assert exact > 0
        assert power[degree] == pytest.approx(exact, rel=4 * rounding(space))


@every_space
@given(seeds)
def test_mean_by_quadrature(space, seed):
    """∫ x f dσ; across the axis of a zonal space it vanishes."""
    coefficients = random_coefficients(space, seed)
    mass = space.weights * space.synthesis(coefficients)
    zonal = isinstance(space, mf.Zonal)
    exact = mass @ (np.outer(space.nodes, space.axis) if zonal else space.points)
    assert np.max(np.abs(exact)) > 1e-6
    scale = np.sqrt(space.power(coefficients).sum())
    assert np.max(np.abs(space.mean(coefficients) - exact)) < rounding(space) * scale


@every_space
def test_constant(space):
    """f = 1 has the coefficient 1 at degree 0, on every space."""
    one = space.analysis(np.ones(len(space.weights)))
    expected = np.zeros_like(one)
    expected[0] = 1
    assert np.max(np.abs(one - expected)) < rounding(space)


# ---------------------------------------------------------------- other sizes


@every_space
@given(seeds)
def test_larger_spaces_hold_the_same_function(space, seed):
    coefficients, points = random_coefficients(space, seed), random_points(space, seed, n=10)
    size = largest_values(space, coefficients)
    for larger in (space.double(), space.resize(space.size + 6)):
        assert type(larger) is type(space)
        assert larger.dim == space.dim
        assert larger.kmax > space.kmax
        embedded = space.embed(coefficients, larger)
        assert embedded.shape == (larger.n_coefficients,)
        gap = larger.evaluate(embedded, points) - space.evaluate(coefficients, points)
        assert np.max(np.abs(gap)) < 2 * rounding(larger) * size
        # the same numbers in another place: nothing is rounded
        assert np.array_equal(larger.embed(embedded, space), coefficients)
        assert np.array_equal(larger.power(embedded)[: space.kmax + 1], space.power(coefficients))


@every_space
def test_smaller_spaces_hold_the_projection(space):
    coefficients = random_coefficients(space, 5)
    smaller = space.resize(space.size // 2)
    cut = space.embed(coefficients, smaller)
    assert cut.shape == (smaller.n_coefficients,)
    assert np.array_equal(smaller.power(cut), space.power(coefficients)[: smaller.kmax + 1])
    low = np.where(degrees(space) <= smaller.kmax, coefficients, 0)
    assert np.array_equal(smaller.embed(cut, space), low)


@every_space
def test_doubling_doubles(space):
    assert space.resize(space.size).size == space.size
    assert space.double().kmax >= 2 * space.kmax
    if isinstance(space, mf.Zonal):
        assert np.array_equal(space.double().axis, space.axis)


@every_space
def test_exact_size_is_exact_and_no_larger_than_needed(space):
    """The grid has 3/2 of the points that its functions need: a third of the degree is enough."""
    for degree in [*range(30), 100, 101, 102]:
        grid = space.resize(space.exact_size(degree))
        assert grid.exactness >= degree
        assert grid.kmax <= max(3, degree / 3 + 1)


# ---------------------------------------------------------------- exponential moments


@every_space
@given(seeds, st.floats(-2.0, 1.0).map(lambda x: 10.0**x))
def test_log_moment_in_closed_form(space, seed, radius):
    """f = e^{κ<x,m>}/Λ_0(κ): G(z) = Λ_0(r)/Λ_0(κ), ∇ log G = Λ_1(r)/Λ_0(r) (z+κm)/r, r = |z+κm|."""
    kappa, dim = 1.5, space.dim
    m = space.axis if isinstance(space, mf.Zonal) else random_points(space, seed, 1)[0]
    log_norm = multipliers.log_eigenvalues(kappa, dim, 0)[0]
    values = np.exp(kappa * (space.points @ m) - log_norm)
    z = radius * random_points(space, seed, 4)
    log_g, mean = grid_log_moment(space, values, z)
    for i, sum_ in enumerate(z + kappa * m):
        r = float(np.linalg.norm(sum_))
        logs = multipliers.log_eigenvalues(r, dim, 1)
        # the exponent is rounded at the size of its parts, the sum has positive terms only; beyond
        # the exactness of the grid, 47, Λ_k/Λ_0 is below 1e-28 for r <= 12
        tolerance = 10 * (radius + kappa + 10) * EPS
        assert abs(log_g[i] - (logs[0] - log_norm)) < tolerance
        exact = np.exp(logs[1] - logs[0]) * sum_ / r
        assert np.max(np.abs(mean[i] - exact)) < tolerance


@every_space
def test_log_moment_on_the_axis(space):
    """z = 0, and z along the axis of a zonal space, where no direction across it is defined."""
    values = np.ones(len(space.weights))
    axis = np.eye(space.dim)[-1] if not isinstance(space, mf.Zonal) else space.axis
    log_g, mean = grid_log_moment(space, values, np.stack([0 * axis, 3 * axis, -3 * axis]))
    logs = multipliers.log_eigenvalues(3.0, space.dim, 1)
    assert log_g == pytest.approx([0, logs[0], logs[0]], abs=100 * EPS)
    exact = np.outer([0, 1, -1], axis) * np.exp(logs[1] - logs[0])
    assert np.max(np.abs(mean - exact)) < 100 * EPS


@pytest.mark.parametrize("at", [CircleAt(400), SphereAt(24)], ids=["circle", "sphere"])
def test_sums_over_many_points_repeat_to_the_bit(at):
    """Two threads of a transform add in any order: a fault that shows in some of 100 calls."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40_000, at.dim)) + np.eye(at.dim)[-1]
    points /= np.linalg.norm(points, axis=1)[:, None]
    masses = np.exp(3.0 * rng.normal(size=len(points)))
    first = at.point_moments(points, masses)
    assert first[0].real == pytest.approx(masses.sum(), rel=1e-13)
    assert all(np.array_equal(at.point_moments(points, masses), first) for _ in range(100))
