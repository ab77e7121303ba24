"""Properties of spaces of any size, and of what they are made from: panels, patches, lattices.

Floating-point errors are raised, but for numbers that underflow to 0.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.spaces import cubed_sphere, geometry, lattice, panels
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities, zonal_sum
from tests.properties import EPS, made_or_refused, powers_of_ten, rotation, seeds, unit_points

DIMS = st.sampled_from([2, 3, 4, 10, 100, 1024])


@pytest.fixture(autouse=True)
def _raise_floating_point_errors():
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


@st.composite
def spaces(draw):
    """A space of any kind and size that double precision holds."""
    kind = draw(st.sampled_from(["circle", "sphere", "zonal"]))
    if kind == "circle":
        return mf.Circle(2 * draw(st.integers(4, 600)))
    if kind == "sphere":
        return mf.Sphere(draw(st.integers(3, 40)), "ducc0")
    dim, kmax = draw(DIMS), draw(st.integers(3, 200))
    axis = unit_points(dim, 1, draw(seeds))[0]
    space = made_or_refused(mf.Zonal, dim, kmax, axis)
    return mf.Zonal(dim, 3, axis) if space is None else space


def orders(space):
    """How many harmonics a coefficient stands for: 1 if real, 2 with its complex conjugate."""
    return np.where(np.arange(space.n_coefficients) < space.n_real, 1, 2)


def random_coefficients(space, rng):
    """Normal coefficients, real where their order is 0, of a few degrees or of all."""
    coefficients = rng.normal(size=space.n_coefficients).astype(space.coefficient_type)
    if np.iscomplexobj(coefficients):
        coefficients[space.n_real :] += 1j * rng.normal(size=space.n_coefficients - space.n_real)
    return coefficients * rng.uniform(0.05, 1.0) ** space.degrees


@given(spaces(), seeds)
def test_transforms_are_isometries(space, seed):
    """Coefficients come back; Parseval; adjoints; at points a series is what it is on the grid."""
    rng = np.random.default_rng(seed)
    coefficients = random_coefficients(space, rng)
    values, n = space.synthesis(coefficients), len(space.weights)
    norm = np.sqrt(space.power(coefficients).sum())
    rounding = 8 * (space.kmax + np.sqrt(n)) * EPS
    assert np.max(np.abs(space.analysis(values) - coefficients)) < rounding * norm
    assert np.sqrt(space.weights @ values**2) == pytest.approx(norm, rel=rounding)
    others = rng.normal(size=n)
    by_series = np.sum(orders(space) * (coefficients.conj() * space.analysis(others)).real)
    scale = norm * np.sqrt(space.weights @ others**2)
    assert abs(space.weights @ (values * others) - by_series) < rounding * scale
    # Σ |f_k| sqrt(N_k) bounds |f|
    size = np.sqrt(space.power(coefficients) * multiplicities(space.dim, space.kmax)).sum()
    some = rng.integers(0, n, 20)
    gap = space.evaluate(coefficients, space.points[some]) - values[some]
    assert np.max(np.abs(gap)) < (rounding + space.kmax * EPS) * size
    anywhere = np.concatenate([unit_points(space.dim, 5, rng), np.eye(space.dim)[[0, -1]]])
    assert np.max(np.abs(space.evaluate(coefficients, anywhere))) <= size * (1.0 + rounding)


@given(spaces(), seeds)
def test_mean_of_a_quadrature(space, seed):
    """The weights are masses, and integrate the square of a sum of harmonics."""
    assert space.weights.min() > 0.0
    assert space.weights.sum() == pytest.approx(1.0, abs=len(space.weights) * EPS)
    x = unit_points(space.dim, 1, seed)[0] if space.axis is None else space.axis
    along = space.points @ x
    # ∫ <x,y>² dσ = 1/d and ∫ <x,y>⁴ dσ = 3/(d (d + 2))
    assert abs(space.weights @ along) < 20 * EPS
    assert space.weights @ along**2 == pytest.approx(1.0 / space.dim, rel=100 * EPS)
    fourth = 3.0 / (space.dim * (space.dim + 2.0))
    assert space.weights @ along**4 == pytest.approx(fourth, rel=100 * EPS)


@given(st.integers(3, 30), seeds)
def test_turning_a_function_keeps_the_power_of_each_degree(lmax, seed):
    space, turn = mf.Sphere(lmax, "ducc0"), rotation(3, seed)
    coefficients = random_coefficients(space, np.random.default_rng(seed))
    turned = space.analysis(space.evaluate(coefficients, space.points @ turn))
    power, other = space.power(coefficients), space.power(turned)
    assert np.max(np.abs(np.sqrt(power) - np.sqrt(other))) < 1e-12 * np.sqrt(power.sum())
    assert np.max(np.abs(space.mean(turned) - turn @ space.mean(coefficients))) < (
        1e-12 * np.sqrt(power.sum())
    )


@given(DIMS, st.integers(0, 300), seeds)
def test_gegenbauer_polynomials_are_bounded_and_orthogonal(dim, kmax, seed):
    t = np.random.default_rng(seed).uniform(-1.0, 1.0, 50)
    values = gegenbauer(dim, kmax, np.append(t, [1.0, -1.0]))
    assert np.max(np.abs(values)) <= 1.0 + 8 * (kmax + 1) * EPS
    assert np.allclose(values[:, -2], 1.0, rtol=0.0, atol=8 * (kmax + 1) * EPS)
    signs = (-1.0) ** np.arange(kmax + 1)
    assert np.allclose(values[:, -1], signs, rtol=0.0, atol=8 * (kmax + 1) * EPS)
    rule = made_or_refused(gauss_gegenbauer, dim, kmax // 2 + 1)
    if rule is None:
        return
    nodes, weights = rule
    assert weights.min() > 0.0
    assert np.all(np.diff(nodes) > 0.0)
    polynomials = gegenbauer(dim, kmax, nodes)
    # exact up to degree 2n - 1
    sums = polynomials[: 2 * len(nodes)] @ weights
    assert np.max(np.abs(sums - np.eye(1, len(sums))[0])) < 20 * (kmax + 1) * EPS


# ---------------------------------------------------------------- geometry


# where y is ±x to rounding, rounding tells the way to it
GAPS = st.one_of(powers_of_ten(-12, 0), st.floats(1e-3, 3.1))


@given(DIMS, seeds, GAPS, st.booleans())
def test_logarithm_is_the_inverse_of_the_exponential(dim, seed, gap, is_far):
    """Beside the point and beside its antipode, where the shortest way turns fast."""
    rng = np.random.default_rng(seed)
    x = unit_points(dim, 1, rng)
    across = geometry.project(x, unit_points(dim, 1, rng))
    assume(np.linalg.norm(across) > 1e-6)
    across = geometry.project(x, across / np.linalg.norm(across))
    across /= np.linalg.norm(across)
    y = (-1.0 if is_far else 1.0) * np.cos(gap) * x + np.sin(gap) * across
    y /= np.linalg.norm(y)
    velocity = geometry.logarithm(x, y)
    length = float(np.linalg.norm(velocity))
    assert length == pytest.approx(float(geometry.geodesic_distance(x, y)[0]), rel=8 * EPS)
    # tangent, and it leads to y
    assert abs(float(np.sum(velocity * x))) <= 8 * dim * EPS * length
    reached = geometry.exponential(x, velocity)
    assert np.max(np.abs(reached - y)) < 16 * dim * EPS


@given(DIMS, seeds, st.floats(0.0, np.pi))
def test_polar_angles_come_back(dim, seed, angle):
    axis = unit_points(dim, 1, seed)[0]
    points = geometry.line_points(np.array([angle]), axis)
    assert abs(np.linalg.norm(points) - 1.0) < 8 * EPS
    assert geometry.polar_angles(points, axis)[0] == pytest.approx(angle, abs=8 * EPS)


@given(DIMS, seeds, st.floats(-10.0, 10.0), st.floats(-10.0, 10.0))
def test_matrices_about_an_axis_come_back(dim, seed, along, turn):
    axis = unit_points(dim, 1, seed)[0]
    across = complex(0.5 * along - 1.0, turn if dim == 3 else 0.0)
    matrix = geometry.axial_matrix(along, across, axis)
    own = geometry.axial_part(matrix, axis)
    size = 1.0 + np.abs(matrix).max()
    assert abs(own[0] - along) < 50 * dim * EPS * size
    assert abs(own[1] - across) < 50 * dim * EPS * size
    assert geometry.asymmetry(matrix, axis) == 0.0


# ---------------------------------------------------------------- panels, patches and cells


@given(st.integers(1, 15), seeds, powers_of_ten(-12, 12))
def test_ascending_series_are_inverted(degree, seed, scale):
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(degree, 4)) * 0.5 ** np.arange(degree)[:, None]
    slopes[0] = np.abs(slopes[1:]).sum(axis=0) + rng.uniform(1e-6, 1.0, 4)
    slopes *= scale
    series = np.polynomial.legendre.legint(slopes, lbnd=-1.0)
    places = rng.uniform(-1.0, 1.0, 4)
    values = np.polynomial.legendre.legval(places, series, tensor=False)
    found = panels.invert(series, slopes, values)
    again = np.polynomial.legendre.legval(found, series, tensor=False)
    assert np.all(np.abs(again - values) <= 1e-12 * np.abs(slopes).sum(axis=0))


@given(seeds, powers_of_ten(-2, 3))
def test_patches_hold_a_bump(seed, kappa):
    mean = unit_points(3, 1, seed)[0]
    law = mf.VonMisesFisher(mean, kappa)
    mesh = cubed_sphere.lay(law.pdf, 1e-9)
    assert abs(mesh.mass - 1.0) < 1e-7
    masses = mesh.weights * mesh.values[0]
    exact = 1.0 / np.tanh(kappa) - 1.0 / kappa if kappa > 0.1 else kappa / 3.0 - kappa**3 / 45.0
    assert np.max(np.abs(masses @ mesh.points - exact * mean)) < 1e-6


@given(st.integers(0, 8), seeds)
def test_each_place_is_in_one_leaf(level, seed):
    points = np.concatenate([unit_points(3, 50, seed), np.eye(3), -np.eye(3), [[0.6, 0.0, 0.8]]])
    leaves = cubed_sphere.Leaves.uniform(level)
    leaf, place, local = leaves.find(*cubed_sphere.angles_on_faces(points))
    assert np.array_equal(np.sort(place), np.arange(len(points)))
    assert np.max(np.abs(local)) <= 1.0 + 1e-9 * 2**level
    nodes = leaves.take(leaf).nodes()[0].reshape(len(points), -1, 3)
    near = np.linalg.norm(nodes - points[place][:, None], axis=2).min(axis=1)
    assert near.max() < leaves.width


@given(st.integers(2, 40), seeds)
def test_cells_hold_their_points(n, seed):
    cells, points = lattice.Lattice(n), unit_points(3, 100, seed)
    points = np.concatenate([points, np.eye(3), -np.eye(3)])
    number = cells.cell_of(points)
    apart = geometry.geodesic_distance(points, cells.some_points(number))
    assert np.all(apart <= cells.radii[number // cells.n_lon])


@given(st.integers(3, 20), st.integers(1, 4), seeds)
def test_cells_and_hats_hold_all_of_the_mass(lmax, finer, seed):
    space, rng = mf.Sphere(lmax, "ducc0"), np.random.default_rng(seed)
    coefficients = random_coefficients(space, rng)
    cells = lattice.Lattice((lmax + 1) * finer + 1)
    mass, size = coefficients[0].real, np.abs(space.synthesis(coefficients)).max()
    highest = cells.overshoot(lmax) * np.abs(cells.at_corners(coefficients, lmax)).max()
    # between the points, too
    anywhere = space.evaluate(coefficients, unit_points(3, 200, rng))
    assert np.abs(anywhere).max() <= highest * (1.0 + 1e-12)
    masses, errors = lattice.cell_integrals(cells, coefficients, lmax, highest)
    assert abs(masses.sum() - mass) <= cells.n_lon * errors.sum() + 1e-13 * size
    hats = lattice.hats(cells, coefficients, lmax)
    assert abs(hats.masses.sum() - mass) <= hats.error + 1e-13 * size
    assert np.allclose(hats.of_rows.sum(), mass, rtol=0.0, atol=hats.error + 1e-13 * size)


@given(DIMS, st.integers(0, 100), seeds)
def test_zonal_sums_are_linear(dim, degree, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, degree + 1))
    t = rng.uniform(-1.0, 1.0, 20)
    both = zonal_sum(dim, one + 2.0 * other, t)
    apart = zonal_sum(dim, one, t) + 2.0 * zonal_sum(dim, other, t)
    assert np.allclose(both, apart, rtol=0.0, atol=20 * EPS * (degree + 1) * 4.0)


@given(DIMS, powers_of_ten(-8, 3))
def test_panels_resolve_a_bump(dim, kappa):
    axis = np.eye(dim)[0]
    law = mf.VonMisesFisher(axis, min(kappa, 100.0) if dim > 100 else kappa)

    def density(labels):
        points = geometry.line_points(labels, None if dim == 2 else axis)
        return law.pdf(points) * geometry.latitude_density(labels, dim)

    edges = panels.lay(density, 2.0 * np.pi if dim == 2 else np.pi, 1e-12, 200_000)
    masses = density(panels.nodes(edges).ravel()) * panels.weights(edges).ravel()
    assert abs(masses.sum() - 1.0) < 1e-9
    assert np.array_equal(edges[1:, 0], edges[:-1, 1])
