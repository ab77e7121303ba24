"""W_1 and W_2 on S^2 without symmetry: brackets hold what is known, and are narrow."""

import sys

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport import check_order, semidiscrete, sphere_dual
from meanfield.functionals.transport import sphere as distance
from meanfield.functionals.transport.clouds import best_plan, pair_distances
from meanfield.functionals.transport.semidiscrete import _cost as plan_cost
from meanfield.functionals.transport.semidiscrete import dual_value
from meanfield.functionals.transport.sphere import (
    cells_cost,
    length_of,
    map_cost,
    sphere_distance,
    steepest_of,
)
from meanfield.functionals.transport.sphere_dual import (
    Conjugate,
    Minima,
    Potential,
    RingSearch,
    dual,
)
from meanfield.functionals.transport.sphere_masses import atoms_of, cells_of, series, spread_of
from meanfield.spaces.geometry import exponential, geodesic_distance, logarithm, sphere_points
from meanfield.spaces.lattice import Lattice, cell_bulges, cell_integrals, hats
from meanfield.spaces.sphere_fields import Places, SphereAt, SphereFields

TILTED = np.array([0.6, 0.0, 0.8])
SIGMA = mf.Uniform(3)


def unit(rng, n=None, dim=3):
    points = rng.standard_normal((1 if n is None else n, dim))
    points /= np.linalg.norm(points, axis=1)[:, None]
    return points[0] if n is None else points


def bumps(rng, count, kappa):
    laws = [mf.VonMisesFisher(unit(rng), kappa) for _ in range(count)]
    return mf.Mixture(laws, rng.random(count) + 0.2, unit_mass=True)


def random_series(rng, lmax, decay):
    space = mf.Sphere(lmax)
    degrees = space.degrees
    coefficients = rng.standard_normal((2, len(degrees))) * np.exp(-decay * degrees)
    coefficients[1, : lmax + 1] = 0.0
    return space, coefficients[0] + 1j * coefficients[1]


def cosine():
    """Coefficients of cos θ up to degree 3: its gradient is sin θ long, π/4 in the mean."""
    space = mf.Sphere(3)
    return space.analysis(np.ascontiguousarray(space.points[:, 2]))


def rotation(rng):
    return np.linalg.qr(rng.standard_normal((3, 3)))[0]


# -- derivatives and their transforms ------------------------------------------------------------


def test_logarithm_undoes_the_exponential():
    rng = np.random.default_rng(2)
    for dim in 2, 3, 50:
        x, y = unit(rng, 20, dim), unit(rng, 20, dim)
        log = logarithm(x, y)
        np.testing.assert_allclose(exponential(x, log), y, atol=1e-14)
        np.testing.assert_allclose(np.linalg.norm(log, axis=1), geodesic_distance(x, y), rtol=1e-14)
        np.testing.assert_allclose(np.linalg.norm(logarithm(x, -x), axis=1), np.pi, rtol=1e-15)
        assert np.all(logarithm(x, x) == 0.0)


# -- W_1 -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_w1_of_bumps_is_narrow_however_they_are_turned():
    rng = np.random.default_rng(5)
    space = mf.Sphere(47)
    mu, nu = mf.Density(space, bumps(rng, 3, 20.0)), mf.Density(space, bumps(rng, 4, 20.0))
    bracket = mf.wasserstein(mu, nu)
    assert bracket.upper - bracket.lower <= 2e-3 * bracket.upper
    turned = rotation(rng)
    others = []
    for mix in mu.law, nu.law:
        parts = [mf.VonMisesFisher(turned @ law.mean, law.kappa) for law in mix.laws]
        others.append(mf.Density(space, mf.Mixture(parts, mix.weights)))
    other = mf.wasserstein(*others)
    assert max(other.lower, bracket.lower) <= min(other.upper, bracket.upper)


@pytest.mark.slow
def test_a_flow_of_few_degrees_is_a_bracket_of_all():
    """A sharp bump, whose polar angles tell W_1: each attempt holds it, and none is far off.

    The first has degree 31, where the series of the density ends at 255.
    """
    law = mf.VonMisesFisher(TILTED, 2000.0)
    about = mf.Density(mf.Zonal(3, 255, TILTED), law), mf.Density(mf.Zonal(3, 31, TILTED), SIGMA)
    truth = float(mf.wasserstein(*about))
    densities = mf.Density(mf.Sphere(255), law), mf.Density(mf.Sphere(31), SIGMA)
    difference, lmax = distance._difference(*densities)
    brackets = [distance.beckmann_flow(difference, lmax, 1e-6, 511, k) for k in (1, 2, 3)]
    for found, low, high in zip(brackets, (0.03, 0.01, 0.004), (0.6, 0.2, 0.01), strict=True):
        assert truth * (1.0 - low) <= found.lower < truth < found.upper <= truth * (1.0 + high)
    # the flow of these degrees alone is too short: what is left counts
    bare = mf.Sphere(lmax)._embed(difference, mf.Sphere(31))
    short = distance.beckmann_flow(bare, 31, 1e-6, 31)
    assert short.upper < 0.996 * truth
    # the potential is 1-Lipschitz, and has the lower bound as its mean
    space, best = mf.Sphere(lmax), brackets[-1]
    assert best.lmax == 127
    potential = mf.Sphere(best.lmax)._embed(best.potential, space)
    drop = SphereFields(space).inner(potential, difference)
    assert drop == pytest.approx(best.lower, rel=1e-11)
    steepest = np.hypot(*SphereFields(mf.Sphere(511), best.lmax).gradient(best.potential)).max()
    assert 0.99 < steepest <= 1.0


@pytest.mark.slow
def test_densities_that_differ_in_high_degrees_alone():
    """f = 1 + a P_40(cos θ) beside the uniform density, whose polar angles tell W_1."""
    coefficients = np.zeros(48)
    coefficients[[0, 40]] = 1.0, 0.05
    wave = mf.Density.from_coefficients(mf.Zonal(3, 47, TILTED), coefficients)
    flat = mf.Density(mf.Zonal(3, 31, TILTED), SIGMA)
    truth = float(mf.wasserstein(wave, flat))
    found = distance.beckmann_flow(*distance._difference(wave, flat), 1e-3, 511, budget=2)
    # the first degree that sees it is 63; each of its 40 kinks is as wide as a wave
    assert found.lmax == 127
    assert 0.0 < 0.8 * truth < found.lower < truth < found.upper < 1.01 * truth


def test_a_splitting_goes_on_where_a_coarser_one_ended():
    rng = np.random.default_rng(6)
    space = mf.Sphere(63)
    mu, nu = mf.Density(space, bumps(rng, 3, 20.0)), mf.Density(space, bumps(rng, 4, 20.0))
    difference = distance._difference(mu, nu)[0]
    coarse = distance._Splitting(31, space._embed(difference, mf.Sphere(31)), None)
    coarse.solve(1e-6)
    gaps = []
    for start in None, coarse:
        fine = distance._Splitting(63, difference, start)
        # at so wide a gap the first look is the last
        fine.solve(0.5)
        gaps.append(1.0 - fine.lower / fine.upper)
    assert 0.0 < gaps[1] < 0.6 * gaps[0]


def test_equal_measures_are_at_distance_zero():
    rng = np.random.default_rng(7)
    mu = mf.Density(mf.Sphere(31), bumps(rng, 2, 10.0))
    same = mf.Density(mf.Sphere(31), mu.law)
    for p in 1, 2:
        assert mf.wasserstein(mu, same, p) == mf.Bracket(0.0, 0.0, 0.0, proved=True)


# -- cells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_cells_are_an_upper_bound(dim, p):
    rng = np.random.default_rng(8)
    x, y = unit(rng, 60, dim), unit(rng, 50, dim)
    a, b = rng.random(60), rng.random(50)
    a, b = a / a.sum(), b / b.sum()
    exact = best_plan(a, b, (pair_distances(x, y) / np.pi) ** p).upper * np.pi**p
    bounds = [cells_cost(cells_of(x, a, k), cells_of(y, b, k), p) for k in (1, 8, 30, 60)]
    assert np.all(np.array(bounds) >= exact * (1.0 - 1e-12))
    # a cell for each token leaves nothing open
    assert bounds[-1] == pytest.approx(exact, rel=1e-10)
    assert bounds[2] < bounds[0]


def test_the_plan_of_two_cells_costs_no_more_than_its_bound():
    """Mean of dist² over a product of two caps, up to antipodal ones."""
    rng = np.random.default_rng(9)
    for width in 0.1, 0.5, 1.5:
        for apart in 0.0, 1.0, 2.5, np.pi:
            centres = np.array([[0.0, 0.0, 1.0], [np.sin(apart), 0.0, np.cos(apart)]])
            points = []
            for centre in centres:
                offsets = width * np.cross(centre, unit(rng, 300))
                points.append(exponential(np.tile(centre, (300, 1)), offsets))
            cells = [cells_of(p, np.full(300, 1 / 300), 1) for p in points]
            mean = np.mean(pair_distances(*points) ** 2)
            assert mean <= cells_cost(*cells, 2.0) * (1.0 + 1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_two_masses_about_a_token_cost_their_spread(p):
    """Of two masses at a distance w on both sides of a token W_p is w, all of it spread."""
    pole, wide = np.array([[0.0, 0.0, 1.0]]), 0.3
    pair = np.array([[side * np.sin(wide), 0.0, np.cos(wide)] for side in (-1.0, 1.0)])
    cells = cells_of(pair, np.full(2, 0.5), 1), cells_of(pole, np.ones(1), 1)
    assert wide**p * (1.0 - 1e-14) <= cells_cost(*cells, p) <= wide**p * (1.0 + 1e-13)


# -- W_2 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 30])
def test_the_conjugate_of_zero_is_zero(steps, monkeypatch):
    """Of φ = 0 it is the least dist²/2, also where Newton's iteration does not move.

    Then the slack δ²/2 and the slope δ at the centre of a cell are all that is known, and the bound
    is δ²/2 - δ²/2λ: second derivatives are at least λ > 1 - 1e-4 in the ball around it.
    """
    monkeypatch.setattr(sphere_dual, "_MOST_NEWTON_STEPS", steps)
    potential = Potential(3, np.zeros(10, dtype=np.complex128))
    finest = potential.lattices[-1]
    targets = np.concatenate([unit(np.random.default_rng(4), 100), finest.corners[[0, 5, -1]]])
    found = potential.conjugate(targets, 1e-12)
    assert np.all(found.lower <= 0.0)
    assert np.all(found.upper >= 0.0)
    widest = 0.5 * float(finest.radii.max()) ** 2
    assert found.lower.min() > -2e-4 * widest - 2e-12
    assert (found.upper.max() > 0.5 * widest) == (steps == 0)


@pytest.mark.slow
def test_the_conjugate_is_bounded_by_the_least_slack():
    rng = np.random.default_rng(11)
    _, coefficients = random_series(rng, 10, 0.5)
    targets = unit(rng, 50)
    grid = mf.Sphere(200)
    costs = 0.5 * pair_distances(targets, grid.points) ** 2
    for size in 0.02, 0.2, 2.0:
        potential = Potential(10, size * coefficients)
        values = grid.synthesis(mf.Sphere(10)._embed(size * coefficients, grid))
        least = (costs - values).min(axis=1)
        for tolerance in 1e-3, 1e-6:
            found = potential.conjugate(targets, tolerance)
            # the grid's least value lies above the true one, by at most curvature · spacing²
            assert np.all(found.lower <= least)
            # next to -x the distance of two doubles is right to 2e-8
            assert np.all(found.upper <= least + 2e-7)
            assert np.all(least - found.upper < 5e-3 * max(size, 0.2))
            assert np.all(found.lower <= found.upper)
            assert np.median(found.upper - found.lower) <= tolerance + 2e-7


@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_the_margins_of_cells_are_reached(bend):
    """φ = -bend cos θ and the south pole, where -φ bends most: a corner of all cells around it.

    What the slack at a centre exceeds the least by is (1 + bend)/2 times the square of the radius,
    but for r⁴ and for what φ might do between corners.
    """
    pole = np.array([0.0, 0.0, -1.0])
    potential = Potential(3, -bend * cosine())
    for lattice, margins in zip(potential.lattices, potential.margins, strict=True):
        centres = lattice.points[-lattice.n_lon :]
        slack = 0.5 * geodesic_distance(centres, pole) ** 2 - potential.values(centres)
        excess = slack + potential.values(pole[None])
        assert np.all(excess <= margins[-1] * (1.0 + 1e-12))
        assert np.all(excess >= 0.995 * margins[-1])


def test_the_conjugate_holds_wherever_newton_ends(monkeypatch):
    """A wide tolerance leaves no cell open beside the start, and the iteration may go uphill."""
    rng = np.random.default_rng(3)
    potential, targets = Potential(10, 0.2 * random_series(rng, 10, 0.5)[1]), unit(rng, 100)
    honest = potential.conjugate(targets, 1e-6)

    def astray(self, sources, targets):
        turned = np.roll(sources, 1, axis=1)
        slack, _ = self.slack(turned, targets)
        values = 0.5 * slack.distance**2 - self.values(turned)
        return Minima(values, turned, slack, np.zeros(len(targets), dtype=bool))

    monkeypatch.setattr(Potential, "_descend", astray)
    for tolerance in 0.1, 1e-3, 1e-6:
        found = potential.conjugate(targets, tolerance)
        assert np.all(found.lower <= honest.upper)
        assert np.all(found.upper >= honest.lower)


def test_the_rings_that_are_looked_at_hold_the_least_slack():
    rng = np.random.default_rng(17)
    grid = mf.Sphere(31)
    targets = unit(rng, 200)
    targets = targets[RingSearch.order(targets)]
    costs = 0.5 * pair_distances(targets, grid.points) ** 2
    looked_at = []
    for size in 0.0, 0.1, 1.0:
        coefficients = size * random_series(rng, 10, 0.5)[1]
        values = grid.synthesis(mf.Sphere(10)._embed(coefficients, grid)).astype(np.float32)
        slack, seen = costs - values, np.full(len(targets), np.inf)
        for rows, columns in RingSearch(grid, targets).parts(values):
            seen[rows] = slack[rows, columns].min(axis=1)
            looked_at.append(len(grid.colatitudes) * (columns.stop - columns.start))
        assert np.array_equal(seen, slack.min(axis=1))
    # the flatter the potential, the fewer rings
    each = np.reshape(looked_at, (3, -1)).mean(axis=1) / len(grid.points)
    assert each[0] < each[1] < each[2] <= len(grid.colatitudes)


def tokens_and_bumps():
    """Two antipodal tokens and a law on their axis, of which S^2 knows nothing: both, and W_2."""
    axis = np.array([-0.11241839756933161, -0.011682249564929562, 0.9935922850611544])
    law = mf.Mixture(
        [mf.VonMisesFisher(axis, 5.034765136857585), mf.VonMisesFisher(-axis, 3.731694702758692)],
        [0.8217920027302146, 1.0 - 0.8217920027302146],
    )
    tokens = mf.Particles([axis, -axis], [0.7, 0.3])
    truth = float(mf.wasserstein(tokens, mf.Density(mf.Zonal(3, 47, axis), law), 2))
    return tokens, mf.Density(mf.Sphere(47), law), truth


@pytest.fixture
def smooth_only(monkeypatch):
    """Tokens and densities by smooth potentials, as where a weight for each is too much work."""
    monkeypatch.setattr(distance, "is_semidiscrete", lambda *given: False)


@pytest.mark.slow
def test_a_potential_of_needles_proves_no_more_than_there_is(smooth_only):
    """Newton's iteration in a wrong basin is above the c-transform by up to 0.19 here."""
    tokens, density, truth = tokens_and_bumps()
    assert truth == pytest.approx(0.89348977548, abs=1e-10)
    bracket = mf.wasserstein(tokens, density, 2)
    assert bracket.lower <= truth <= bracket.upper
    assert bracket.proved
    assert 0.0 < bracket.upper - bracket.lower <= 1e-2 * bracket.upper
    assert float(bracket) == pytest.approx(truth, rel=1e-3)


@pytest.mark.slow
def test_a_dual_above_its_primal_raises(monkeypatch, smooth_only):
    tokens, density, _ = tokens_and_bumps()

    def conjugate(self, targets, tolerance, honest=Potential.conjugate):
        found = honest(self, targets, tolerance)
        return Conjugate(found.lower + 0.19, found.upper + 0.19)

    with monkeypatch.context() as patch:
        patch.setattr(Potential, "conjugate", conjugate)
        with pytest.raises(
            ArithmeticError, match=r"lower bound of W_p\^p must be <= .*got 1\.\d+ and"
        ):
            mf.wasserstein(tokens, density, 2)

    def cheap(*given, honest=cells_cost):
        return 0.9 * honest(*given)

    monkeypatch.setattr(distance, "cells_cost", cheap)
    for p in 1, 2:
        with pytest.raises(ArithmeticError, match=r"one of the two is no bound"):
            mf.wasserstein(tokens, density, p)


@pytest.mark.slow
def test_a_steep_potential_raises(monkeypatch):
    monkeypatch.setattr(distance, "steepest_of", lambda *given: 0.9 * steepest_of(*given))
    space = mf.Sphere(31)
    mu, nu = mf.Density(space, mf.VonMisesFisher(TILTED, 4.0)), mf.Density(space, mf.Uniform(3))
    with pytest.raises(ArithmeticError, match=r"lower bound of W_p\^p must be <="):
        mf.wasserstein(mu, nu)


@pytest.mark.slow
def test_what_quadrature_finds_is_an_estimate(monkeypatch):
    """A bump turned by 0.1 needs the map, unless a wide bracket will do."""
    space, angle = mf.Sphere(15), 0.1
    laws = [mf.VonMisesFisher(m, 4.0) for m in ([0, 0, 1.0], [np.sin(angle), 0, np.cos(angle)])]
    pair = [mf.Density(space, law) for law in laws]
    narrow, wide = mf.wasserstein(*pair, p=2), mf.wasserstein(*pair, p=2, gap=0.5)
    assert not narrow.proved
    assert wide.proved
    assert wide.lower <= narrow.value <= wide.upper
    assert narrow.upper - narrow.lower <= 1e-2 * narrow.upper < wide.upper - wide.lower
    # no rotation of the sphere moves a point by more than its angle
    assert narrow.lower < angle
    # an estimate below what is proven is dropped
    monkeypatch.setattr(distance, "map_cost", lambda *given: 0.5 * map_cost(*given))
    monkeypatch.setattr(distance, "_ATTEMPTS", distance._ATTEMPTS[:1])
    dropped = mf.wasserstein(*pair, p=2)
    assert dropped.proved
    assert dropped.upper > 1.1 * narrow.upper


def test_integrals_of_hats_and_cells():
    rng = np.random.default_rng(21)
    lmax, n = 20, 24
    space, coefficients = random_series(rng, lmax, 0.1)
    lattice = Lattice(n)
    found = hats(lattice, coefficients, lmax)
    assert found.masses.sum() == pytest.approx(coefficients[0].real, rel=1e-13)
    squares, errors = cell_integrals(lattice, coefficients, lmax, 10.0)
    assert squares.sum() == pytest.approx(coefficients[0].real, rel=1e-12)
    assert 0.0 < found.error < 1e-9
    assert 0.0 < errors.max() < 1e-9
    nodes, weights = np.polynomial.legendre.leggauss(30)
    for i, j in (1, 0), (7, 5), (n - 1, 2 * n - 1):
        theta = lattice.step * (i + 0.5 * (1.0 + nodes))
        phi = lattice.step * (j + 0.5 * (1.0 + nodes))
        both = [part.ravel() for part in np.meshgrid(theta, phi, indexing="ij")]
        values = space._at(coefficients, sphere_points(*both)).reshape(30, 30)
        area = np.outer(weights * np.sin(theta), weights) * lattice.step**2 / (16.0 * np.pi)
        if i < n:
            assert squares[i, j] == pytest.approx(np.sum(area * values), rel=1e-9, abs=1e-14)
    # a hat from its four quarters
    i, j, total = 7, 5, 0.0
    for row in 0, 1:
        for column in 0, 1:
            ahead, beyond = 0.5 * (1.0 + nodes), 0.5 * (1.0 + nodes)
            theta, phi = lattice.step * (i - row + ahead), lattice.step * (j - column + beyond)
            both = [part.ravel() for part in np.meshgrid(theta, phi, indexing="ij")]
            values = space._at(coefficients, sphere_points(*both)).reshape(30, 30)
            hat = np.outer(ahead if row else 1.0 - ahead, beyond if column else 1.0 - beyond)
            area = np.outer(weights * np.sin(theta), weights) * lattice.step**2 / (16.0 * np.pi)
            total += np.sum(area * hat * values)
    assert found.masses[1 + (i - 1) * lattice.n_lon + j] == pytest.approx(total, rel=1e-9)


@pytest.mark.slow
def test_bounds_between_points():
    """Of |∇φ| and ∫|m|: above what many points have, by little, and above that of a grid."""
    rng = np.random.default_rng(22)
    lmax = 24
    space, coefficients = random_series(rng, lmax, 0.02)
    coefficients[0] = 0.0
    places = Places.of(unit(rng, 200_000))
    lengths = np.linalg.norm(SphereAt(lmax).gradient(coefficients, places), axis=1)
    lattice = Lattice(8 * (lmax + 1))
    bound = steepest_of(coefficients, lmax, lattice)
    coarse = np.hypot(*SphereFields(space).gradient(coefficients)).max()
    assert coarse < lengths.max() <= bound <= 1.01 * lengths.max()
    stream = random_series(rng, lmax, 0.05)[1]
    stream[0] = 0.0
    fine = SphereFields(mf.Sphere(511), lmax)
    straight, turned = fine.gradient(coefficients), fine.gradient(stream)
    flow = straight[0] - turned[1], straight[1] + turned[0]
    length = fine.space.weights @ np.hypot(*flow)
    assert length <= length_of(coefficients, stream, lmax, lattice) <= 1.005 * length
    potential = Potential(lmax, 1e-3 * coefficients)
    hessian = SphereAt(lmax).hessian(1e-3 * coefficients, places)
    half = np.hypot(0.5 * (hessian[0] - hessian[1]), hessian[2])
    sharpest = (np.abs(0.5 * (hessian[0] + hessian[1])) + half).max()
    assert sharpest <= potential.sharpest <= 1.1 * sharpest
    assert 1e-3 * lengths.max() <= potential.steepest <= 1.1e-3 * lengths.max()
    assert potential.values(unit(rng, 10_000)).max() <= potential.top


@pytest.mark.parametrize("rows", [32, 33])
def test_bounds_of_cos_theta(rows):
    """|∇φ|² may exceed a corner on the equator by Δ²/4; roots of means exceed the mean by Δ²/24."""
    lattice, wave = Lattice(rows), cosine()
    steepest = steepest_of(wave, 3, lattice)
    assert 1.0 <= steepest <= 1.0 + 0.13 * lattice.step**2
    for straight, stream in (wave, 0.0 * wave), (0.0 * wave, wave), (0.6 * wave, 0.8 * wave):
        length = length_of(straight, stream, 3, lattice)
        assert 0.25 * np.pi <= length <= 0.25 * np.pi * (1.0 + 0.05 * lattice.step**2)


def test_a_length_holds_what_integrals_may_be_off_by(monkeypatch):
    """Where integrals are too small by their error, 2 % of the mean, it is not too short."""
    wave = cosine()

    def low(lattice, coefficients, lmax, highest):
        squares, _ = cell_integrals(lattice, coefficients, lmax, highest)
        error = np.full(lattice.n, 0.02 * squares.mean())
        return squares - error[:, None], error

    monkeypatch.setattr(distance, "cell_integrals", low)
    assert length_of(0.0 * wave, wave, 3, Lattice(32)) >= 0.25 * np.pi


def test_atoms_of_a_density_cost_no_less_than_it():
    """The mean of dist² to any point, which is exact for a density, by atoms and their blurs."""
    rng = np.random.default_rng(23)
    density = mf.Density(mf.Sphere(31), bumps(rng, 2, 15.0))
    atoms = atoms_of(density, 128)
    assert 0.0 <= atoms.lost < 1e-8
    missed = 0
    for z in [*unit(rng, 6), *atoms.points[np.argsort(atoms.masses)[-6:]]]:
        exact = float(mf.wasserstein(density, mf.Particles(z[None]), 2)) ** 2
        alone = float(atoms.masses @ geodesic_distance(atoms.points, z) ** 2)
        assert exact <= alone + float(atoms.masses @ atoms.blurs) <= exact + 2e-3
        missed += exact > alone
    assert missed > 0


def power(direction, degree):
    """The density (degree + 1) ((1 + <x, e>)/2)^degree."""
    space = mf.Sphere(degree)
    values = (degree + 1.0) * (0.5 + 0.5 * space.points @ direction) ** degree
    return mf.Density(space, values)


def test_atoms_hold_for_skew_cells():
    """The mean of dist² of each cell to any z; those with little mass stand at their middle."""
    pole, rows, rng = np.array([0.0, 0.0, 1.0]), 16, np.random.default_rng(41)
    density = power(pole, 15)
    lattice, atoms = Lattice(rows), atoms_of(density, rows)
    ahead, shares = np.polynomial.legendre.leggauss(20)
    exceeded = []
    for z in [pole, -pole, *unit(rng, 30)]:
        for k in np.flatnonzero(atoms.masses > 1e-12)[:: 2 * rows + 1]:
            i, j = np.divmod(lattice.cell_of(atoms.points[k : k + 1])[0], lattice.n_lon)
            theta, phi = (lattice.step * (n + 0.5 + 0.5 * ahead) for n in (i, j))
            around = sphere_points(np.repeat(theta, 20), np.tile(phi, 20))
            share = np.outer(shares * np.sin(theta) * (1.0 + np.cos(theta)) ** 15, shares).ravel()
            mean = share @ geodesic_distance(around, z) ** 2 / share.sum()
            exceeded.append(mean - geodesic_distance(atoms.points[k], z) ** 2 - atoms.blurs[k])
    assert max(exceeded) < 0.0


def mean_power(degree, p):
    """The mean of dist^p to the centre of (degree + 1) ((1 + cos)/2)^degree."""
    cosines, weights = np.polynomial.legendre.leggauss(500)
    density = 0.5 * (degree + 1.0) * (0.5 + 0.5 * cosines) ** degree
    return float(weights @ (density * np.arccos(cosines) ** p))


def test_blurs_of_atoms_are_nearly_reached():
    """At the centre of the density what atoms alone are short of is 0.92 of their blurs."""
    middle = np.array([1.0, 0.0, 0.0])
    atoms = atoms_of(power(middle, 15), 512)
    short = mean_power(15, 2) - float(atoms.masses @ geodesic_distance(atoms.points, middle) ** 2)
    blurs = float(atoms.masses @ atoms.blurs)
    assert 0.9 * blurs < short <= blurs


def test_interpolation_about_a_token_is_bounded_to_its_size():
    """Near a token on the equator dist²/2 bends by 1 along meridians and parallels alike.

    Then the bound of what interpolation adds is what it adds: next to nothing is left between W_2²,
    which goes to the only token, and its bound.
    """
    token, rows = np.array([1.0, 0.0, 0.0]), 256
    density = power(token, 127)
    spreads = spread_of(mf.Particles(token[None])), spread_of(density)
    bulges = cell_bulges(Lattice(rows), series(density, 127), 127)
    missed = mean_power(127, 2) - dual_value(*spreads, np.zeros(1), 2.0, rows)
    assert 0.0 <= missed < 0.01 * 2.0 * float(sum(bulge.sum() for bulge in bulges))


def test_interpolation_of_a_conjugate_is_bounded():
    """A sharp φ has ψ = dist²/2 - max φ, nearly, which bends by 1 both ways near its top.

    Of distances to the source only their bounds in a row are known: half as much as interpolation
    adds along a meridian is taken off in vain, a fifth of all.
    """
    top, degree, rows = np.array([1.0, 0.0, 0.0]), 31, 64
    density, space, grid = power(top, degree), mf.Sphere(degree), mf.Sphere(47)
    potential = Potential(degree, space.analysis((0.5 + 0.5 * space.points @ top) ** degree))
    token, smooth = spread_of(mf.Particles(top[None])), spread_of(density)
    masses = grid.weights * density.pdf(grid.points)
    # φ is 1 at its top
    exact = 1.0 + float(masses @ potential.conjugate(grid.points, 1e-8).lower)
    missed = exact - dual(token, smooth, potential, 1e-8, rows)[0]
    between = hats(Lattice(rows), series(density, degree), degree).between
    assert 0.0 < missed < 0.5 * between


def test_parallels_turn():
    """Along them the slack of a token beyond 90° is convex, though its second derivative is not."""
    at, token = sphere_points(np.array([np.pi / 4, 5 * np.pi / 6]), np.array([0.1, 0.1]))
    density, fine = power(at, 15), mf.Sphere(255)
    lengths = geodesic_distance(fine.points, token)
    truth = fine.weights @ (16.0 * (0.5 + 0.5 * fine.points @ at) ** 15 * lengths)
    spreads = spread_of(mf.Particles(token[None])), spread_of(density)
    assert truth - 0.02 < dual_value(*spreads, np.zeros(1), 1.0, 16) < truth - 1e-5


@pytest.mark.slow
def test_tokens_and_densities():
    """A bracket beside POT's network simplex, and samples beside their law."""
    rng = np.random.default_rng(14)
    laws = bumps(rng, 2, 4.0), bumps(rng, 3, 4.0)
    clouds = [mf.Particles.sample(law, 200, rng) for law in laws]
    densities = [mf.Density(mf.Sphere(47), law) for law in laws]
    for p in 1.0, 2.0:
        exact = float(mf.wasserstein(*clouds, p=p))
        own = sphere_distance(*clouds, p, None)
        assert own.lower <= exact <= own.upper
        assert own.upper - own.lower < 0.01 * own.upper
        law = mf.wasserstein(*densities, p=p)
        mixed = mf.wasserstein(densities[0], clouds[1], p=p)
        assert mixed.upper - mixed.lower < 0.012 * mixed.upper
        # the triangle inequality: by how far samples are from their laws
        pairs = zip(clouds, densities, strict=True)
        errors = [sphere_distance(*pair, p, 1.0).upper for pair in pairs]
        assert law.lower - sum(errors) <= exact <= law.upper + sum(errors)
        assert law.lower - errors[1] <= mixed.upper
        assert mixed.lower <= law.upper + errors[1]
        assert sum(errors) < 0.5 * exact


# -- a weight for each token ---------------------------------------------------------------------

VERTICES = np.concatenate([np.eye(3), -np.eye(3)])


def to_the_nearest_vertex(p):
    """W_p^p of an octahedron's vertices and the uniform density: dist^p over a face of the cube."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    nodes, weights = 0.5 * (1.0 + nodes), 0.5 * weights
    tangent = np.hypot(nodes[:, None], nodes)
    density = np.outer(weights, weights) * (1.0 + tangent**2) ** -1.5
    return 24.0 / (4.0 * np.pi) * float(np.sum(density * np.arctan(tangent) ** p))


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_an_octahedron_beside_the_uniform_density(p):
    truth = to_the_nearest_vertex(p)
    tokens, uniform = mf.Particles(VERTICES), mf.Density(mf.Sphere(15), mf.Uniform(3))
    bracket = mf.wasserstein(tokens, uniform, p, gap=2e-4)
    assert bracket.proved
    assert bracket.lower <= truth ** (1.0 / p) <= bracket.upper
    assert 0.0 < bracket.upper - bracket.lower <= 2e-4 * bracket.upper
    # weights of 0 are the best: the bound misses what interpolation does, of order 2
    spreads = spread_of(tokens), spread_of(uniform)
    missed = [truth - dual_value(*spreads, np.zeros(6), float(p), n) for n in (64, 128, 256)]
    assert 0.0 < missed[-1] < 1e-4
    orders = np.log2(np.array(missed[:-1]) / missed[1:])
    assert np.all(np.abs(orders - 2.0) < 0.15)
    # any others prove less
    rng = np.random.default_rng(4)
    for size in 1e-2, 0.1, 1.0:
        assert dual_value(*spreads, size * rng.standard_normal(6), float(p), 64) < truth - 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_tokens_beside_their_own_law(p, monkeypatch):
    """Where smooth potentials leave brackets of 6 % and more, some 25 % of 2,000 tokens."""
    rng = np.random.default_rng(31)
    law = bumps(rng, 2, 5.0)
    tokens, density = mf.Particles.sample(law, 150, rng), mf.Density(mf.Sphere(31), law)
    narrow = mf.wasserstein(density, tokens, p)
    assert narrow.proved
    assert 0.0 < narrow.upper - narrow.lower <= 1e-2 * narrow.upper
    assert narrow.lower <= float(narrow) <= narrow.upper
    monkeypatch.setattr(distance, "is_semidiscrete", lambda *given: False)
    wide = mf.wasserstein(density, tokens, p, budget=1)
    assert wide.upper - wide.lower > 5.0 * (narrow.upper - narrow.lower)
    assert max(wide.lower, narrow.lower) <= min(wide.upper, narrow.upper)


@pytest.mark.parametrize("p", [1, 2])
def test_tokens_on_an_axis_and_where_no_mass_is(p):
    """W_p of polar angles, of which S^2 knows nothing; cells that begin without mass."""
    axis = np.array([0.36, 0.48, 0.8])
    for law, masses in (
        (mf.VonMisesFisher(axis, 5.0), [0.7, 0.3]),
        (
            mf.Mixture([mf.VonMisesFisher(axis, 60.0), mf.Uniform(3)], [1 - 1e-9, 1e-9]),
            [1e-3, 0.999],
        ),
        (mf.Uniform(3), [1e-12, 1.0 - 1e-12]),
    ):
        tokens = mf.Particles([axis, -axis], masses)
        truth = float(mf.wasserstein(tokens, mf.Density(mf.Zonal(3, 47, axis), law), p))
        bracket = mf.wasserstein(tokens, mf.Density(mf.Sphere(47), law), p)
        assert bracket.lower <= truth * (1.0 + 1e-9)
        assert truth * (1.0 - 1e-9) <= bracket.upper
        assert bracket.upper - bracket.lower <= 1e-2 * bracket.upper


def test_false_weights_and_false_plans_are_found(monkeypatch):
    """Without its nearest token a point's least slack is too large; a plan may miss a part."""
    tokens, density = mf.Particles(VERTICES), mf.Density(mf.Sphere(15), mf.Uniform(3))
    pair = spread_of(tokens), spread_of(density)
    honest = dual_value(*pair, np.zeros(6), 2.0, 64)

    class Blind(semidiscrete.Nearest):
        def __init__(self, points, weights, p, rows, margin=0.0):
            super().__init__(
                points, weights - (2.0 if margin == 0.0 else 0.0) * points[:, 0], p, rows, margin
            )

    with monkeypatch.context() as patch:
        patch.setattr(semidiscrete, "Nearest", Blind)
        assert dual_value(*pair, np.zeros(6), 2.0, 64) > 1.05 * honest
        with pytest.raises(ArithmeticError, match=r"one of the two is no bound"):
            mf.wasserstein(tokens, density, 2)
    monkeypatch.setattr(semidiscrete, "_cost", lambda *given: 0.98 * plan_cost(*given))
    for p in 1, 2:
        with pytest.raises(ArithmeticError, match=r"one of the two is no bound"):
            mf.wasserstein(tokens, density, p)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_nearest_tokens_of_a_cell_are_in_its_list(p):
    rng = np.random.default_rng(32)
    tokens, points = unit(rng, 40), unit(rng, 3000)
    distances = pair_distances(points, tokens)
    for size in 0.0, 0.2, 2.0:
        weights = size * rng.standard_normal(40)
        slack = distances**p / p - weights
        for margin in 0.0, 0.3:
            nearest = semidiscrete.Nearest(tokens, weights, p, 32, margin)
            arcs = semidiscrete.Arcs(points, tokens, nearest)
            listed = np.zeros(slack.shape, dtype=bool)
            listed[arcs.point, arcs.token] = True
            assert np.all(listed[slack <= slack.min(axis=1)[:, None] + margin])
            assert not listed.all()
            np.testing.assert_allclose(arcs.distance, distances[arcs.point, arcs.token], atol=1e-14)
            cell = nearest.lattice.cell_of(points)[arcs.point]
            assert np.all(nearest.near[cell] <= arcs.distance)
            assert np.all(arcs.distance <= nearest.far[cell])


def test_bulges_of_cells():
    rng = np.random.default_rng(33)
    lmax, n = 20, 24
    space, coefficients = random_series(rng, lmax, 0.1)
    lattice = Lattice(n)
    found = cell_bulges(lattice, coefficients, lmax)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    ahead = 0.5 * (1.0 + nodes)
    parabola = 0.5 * lattice.step**2 * ahead * (1.0 - ahead)
    for i, j in (0, 0), (7, 5), (n - 1, 2 * n - 1):
        theta, phi = lattice.step * (i + ahead), lattice.step * (j + ahead)
        both = [part.ravel() for part in np.meshgrid(theta, phi, indexing="ij")]
        values = space._at(coefficients, sphere_points(*both)).reshape(30, 30)
        area = np.outer(weights * np.sin(theta), weights) * lattice.step**2 / (16.0 * np.pi)
        truth = np.sum(area * values * parabola[:, None]), np.sum(area * values * parabola)
        for got, wanted in zip(found, truth, strict=True):
            assert got[i, j] == pytest.approx(wanted, rel=1e-9, abs=1e-16)


@pytest.mark.slow
@pytest.mark.parametrize(("kappa", "tol"), [(2.0, 1e-5), (2.0, 1e-9), (20.0, 1e-5), (20.0, 1e-9)])
def test_a_density_stands_for_a_mesh(kappa, tol):
    """What it is off in W_1 is below its estimate, which is of the size of the error."""
    law = mf.Mixture([mf.VonMisesFisher(TILTED, kappa), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)])
    flow, density = mf.FlowMap(law, tol=tol), mf.Density(mf.Sphere(63), law)
    series, off = flow._transported(1.0)
    # W_1 is at most the norm of H^{-1}
    missed = mf.sobolev(series, density)
    assert 0.0 < missed <= off < 10.0 * (missed + tol)
    # what is beyond the last degree counts
    assert kappa == 2.0 or missed > 100.0 * 1e-9
    apart = mf.wasserstein(flow, density)
    assert apart.lower == 0.0
    assert apart.upper <= (missed + off) * (1.0 + 1e-9)
    assert not apart.proved
    uniform = mf.Density(mf.Sphere(31), mf.Uniform(3))
    ours, theirs = mf.wasserstein(flow, uniform), mf.wasserstein(density, uniform)
    assert ours.lower + off <= theirs.upper
    assert theirs.lower <= ours.upper - off + missed
    assert ours.upper == pytest.approx(theirs.upper, rel=2e-3)
    assert theirs.proved
    assert not ours.proved


def test_meshes_near_to_each_other():
    """The value is that of the densities, also where `off` leaves little of it."""

    def turned(angle):
        cos, sin = np.cos(angle), np.sin(angle)
        bumps = [mf.VonMisesFisher([cos, sin, 0.0], 3.0), mf.VonMisesFisher([0.0, sin, cos], 2.0)]
        return mf.Mixture(bumps)

    def mesh(angle):
        return mf.FlowMap(turned(angle), tol=3e-4)

    off = 2.0 * mesh(0.0)._transported(1.0)[1]
    for angle, least in (1e-3, 0.0), (0.01, off), (0.015, off):
        theirs = mf.wasserstein(*(mf.Density(mf.Sphere(31), turned(a)) for a in (0.0, angle)))
        assert least <= theirs.lower <= theirs.upper < 10.0 * off
        ours = mf.wasserstein(mesh(0.0), mesh(angle))
        assert abs(ours.value - theirs.value) < off
        assert ours.value > 0.5 * theirs.value
        assert ours.lower <= theirs.upper
        assert theirs.lower <= ours.upper < theirs.upper + 3.0 * off
        assert (ours.lower > 0.0) == (least > 0.0)
        assert not ours.proved
    for p in 1, 2:
        same = mf.wasserstein(mesh(0.0), mesh(0.0), p)
        assert same.lower == same.upper == 0.0
        assert same.proved


def test_a_density_stands_for_a_mesh_with_the_symmetry_of_an_icosahedron():
    """Degrees 1 to 5, 7 to 9, 13 and 14 are empty, and the series goes on."""
    golden = 0.5 * (1.0 + np.sqrt(5.0))
    some = np.array([[0.0, a, b * golden] for a in (1.0, -1.0) for b in (1.0, -1.0)])
    corners = np.concatenate([np.roll(some, k, axis=1) for k in range(3)])
    law = mf.Mixture([mf.VonMisesFisher(x / np.linalg.norm(x), 18.0) for x in corners])
    flow, density = mf.FlowMap(law, tol=1e-6), mf.Density(mf.Sphere(63), law)
    series, off = flow._transported(1.0)
    assert mf.sobolev(series, density) <= off < 1e-5
    bracket = mf.wasserstein(flow, density, budget=1)
    assert bracket.lower == 0.0
    assert bracket.upper <= 3.0 * off


def test_bounds_of_different_attempts_are_compared(monkeypatch):
    found = iter([(0.1, 0.2), (0.3, 0.4)])

    def solve(splitting, gap):
        lower, upper = next(found)
        return distance.BeckmannFlow(lower, upper, splitting._difference, splitting._space.size)

    monkeypatch.setattr(distance._Splitting, "solve", solve)
    difference = np.zeros(len(mf.Sphere(31).degrees), dtype=complex)
    difference[1] = 0.1
    with pytest.raises(ArithmeticError, match=r"must be <= an upper one, got 0\.3 and 0\.2"):
        distance.beckmann_flow(difference, 31, 1e-3, 63)


@pytest.mark.parametrize("p", [1, 2])
def test_a_mesh_beside_a_token(p):
    """The nodes are a quadrature."""
    law = mf.Mixture([mf.VonMisesFisher(TILTED, 2.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)])
    density, token = mf.Density(mf.Sphere(47), law), mf.Particles([[0.0, 0.0, 1.0]])
    theirs = float(mf.wasserstein(density, token, p))
    for tol in 1e-2, 1e-9:
        flow = mf.FlowMap(law, tol=tol)
        ours = mf.wasserstein(flow, token, p)
        assert float(ours) == pytest.approx(theirs, abs=1e-5)
        assert ours.lower < theirs < ours.upper
        assert not ours.proved
        # dist² has a kink opposite to the token, in a patch with a hundredth of the mass
        assert ours.upper - ours.lower < max(20.0 * tol, 1e-3)


def nearly_round(kappa, tol, height=1.0):
    """A mesh of a law that is symmetric about the axis but for 1e-9, which it does not tell."""
    axis = np.array([0.0, 0.0, height])
    bumps = [mf.VonMisesFisher(x, kappa) for x in (axis, [1e-9, 0.0, height])]
    return mf.FlowMap(mf.Mixture(bumps), tol=tol)


def round_law(kappa, height=1.0):
    return mf.VonMisesFisher([0.0, 0.0, height], kappa)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kappa", "height"), [(2.5, 1.0), (6.0, 1.0), (2.0, -1.0)], ids=["near", "steeper", "opposite"]
)
def test_w2_of_meshes_has_an_honest_width(kappa, height):
    """The distance of polar angles lies within, and the nodes alone miss it."""
    truth = float(
        mf.wasserstein(mf.FlowMap(round_law(2.0)), mf.FlowMap(round_law(kappa, height)), 2)
    )
    mesh = nearly_round(2.0, 1e-3)
    ours = mf.wasserstein(mesh, nearly_round(kappa, 1e-3, height), 2)
    assert ours.lower < truth < ours.upper
    assert not ours.proved
    # the law is off by 1e-9, clouds are matched to 1e-12
    assert abs(ours.value - truth) > 1e-4
    # both have nodes some 0.04 apart
    assert 0.02 < ours.upper - ours.value < 0.1
    density = mf.Density(mf.Sphere(31), round_law(kappa, height))
    beside = mf.wasserstein(mesh, density, 2, gap=0.1)
    assert beside.lower < truth < beside.upper
    assert not beside.proved


@pytest.mark.slow
def test_w2_of_a_mesh_and_tokens_has_an_honest_width():
    """Of the same law as a density, whose bracket is proven."""
    tokens = mf.Particles.sample(round_law(4.0), 40, 1)
    theirs = mf.wasserstein(mf.Density(mf.Sphere(31), round_law(2.0)), tokens, 2)
    ours = mf.wasserstein(nearly_round(2.0, 1e-6), tokens, 2)
    assert theirs.proved
    assert ours.lower < theirs.lower < theirs.upper < ours.upper
    assert not ours.proved


@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True])
def test_how_far_nodes_are_from_their_measure(moved):
    """Against proven brackets of the nodes and the density, where the flow has drawn them."""
    flow = nearly_round(2.0, 1e-4)
    if moved:
        flow = mf.evolve(flow, mf.SA(2.0), 1.0, 1).final
    series, off = flow._transported(1.0)
    nodes, spacing = flow._transported(2.0)
    apart = mf.wasserstein(nodes, series, 2, gap=0.05)
    assert apart.proved
    # W_2 of nodes to their own measure is at most that of the plan that it is an estimate of
    assert apart.lower - off < spacing < 1.1 * apart.upper


def test_a_halved_patch_halves_what_nodes_are_off():
    flow = nearly_round(2.0, 1e-3)
    coarse = flow._spacing(2.0)
    assert flow._spacing(1.0) < coarse < flow._spacing(20.0)
    # level 1 to level 2, in parts of equal size but for the corners of the cube
    fine = flow._resolving(20.0)._spacing(2.0)
    assert fine == pytest.approx(0.5 * coarse, rel=0.03)


def test_nodes_at_one_place_are_no_estimate_apart():
    """A cluster that is held as particles is as wide as the space between them."""
    flow = nearly_round(2.0, 1e-3)
    close = np.array([[1e-3, 0.0, 1.0], [-1e-3, 0.0, 1.0], [0.0, 1.0, 0.0]])
    close /= np.linalg.norm(close, axis=1)[:, None]
    shares = np.array([0.3, 0.3, 0.4])
    held = flow._moved(1.0, points=close, weights=shares, log_density=np.full(3, np.inf))
    # two stand for 0.6 of the mass, 2e-3 apart; one has no other beside it
    assert held._spacing(2.0) == pytest.approx(2e-3 * np.sqrt(0.6), rel=1e-5)
    token = mf.Particles([[0.0, 1.0, 0.0]])
    assert mf.wasserstein(held, token, 2).value == pytest.approx(
        0.5 * np.pi * np.sqrt(0.6), rel=1e-5
    )


@pytest.mark.parametrize("particles", [100, None])
def test_a_mesh_with_particles_beside_a_token(particles):
    """No density stands for particles, which may carry all of the mass."""
    law = mf.Mixture([mf.VonMisesFisher(TILTED, 2.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)])
    flow = mf.FlowMap(law, tol=1e-3)
    logs = flow.log_density.copy()
    logs[-(particles or len(logs)) :] = np.inf
    flow = flow._moved(1.0, points=flow.points, weights=flow.weights, log_density=logs)
    token = mf.Particles([[0.0, 0.0, 1.0]])
    nodes = mf.Particles(flow.points, flow.weights, unit_mass=True)
    assert float(mf.wasserstein(flow, token)) == float(mf.wasserstein(nodes, token))


@pytest.fixture(scope="module")
def clusters():
    """A cluster that particles hold on S², and the same one about its axis."""
    flows = nearly_round(5.0, 1e-8), mf.FlowMap(round_law(5.0))
    held, about = (mf.evolve(flow, mf.SA(4.0), 4.0, 1).final for flow in flows)
    assert held.weights[held.n_nodes :].sum() > 0.99
    return held, about


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 1.5, 2])
@pytest.mark.parametrize("tilt", [0.0, 0.02, 0.4, 0.5 * np.pi, np.pi])
def test_particles_beside_a_token_in_their_cluster(clusters, tilt, p):
    """dist has a kink at the token, and at its antipode, which no moments of particles tell."""
    held, about = clusters
    token = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    turn = 2.0 * np.pi * (np.arange(2000) + 0.5) / 2000
    points, masses = about._quadrature
    along, across = points[:, 2:], np.hypot(*points[:, :2].T)[:, None]
    around = np.stack([across * np.cos(turn), across * np.sin(turn), along + 0.0 * turn], axis=-1)
    # half the chord tells small angles
    angles = 2.0 * np.arcsin(0.5 * np.linalg.norm(around - token, axis=-1).clip(max=2.0))
    truth = float(masses @ (angles**p).mean(axis=1)) ** (1.0 / p)
    ours = mf.wasserstein(held, mf.Particles(token[None]), p)
    assert ours.lower < truth < ours.upper
    # the cluster is 0.02 wide
    assert ours.upper - ours.lower < (2e-2 if abs(np.sin(tilt)) < 0.1 else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("height", [1.0, -1.0])
def test_w1_of_a_drawn_mesh_and_a_token(height):
    """The density with its moments is negative somewhere, and mass of it would count elsewhere."""
    flows = nearly_round(5.0, 1e-6), mf.FlowMap(round_law(5.0))
    drawn, about = (mf.evolve(flow, mf.SA(4.0), 1.0, 1).final for flow in flows)
    token = mf.Particles([[0.0, 0.0, height]])
    ours, truth = mf.wasserstein(drawn, token), float(mf.wasserstein(about, token))
    assert drawn._series is not None
    assert ours.lower < truth < ours.upper
    assert float(ours) == pytest.approx(truth, abs=1e-5)
    with pytest.raises(ValueError, match="budget must be None"):
        mf.wasserstein(drawn, token, budget=1)


def test_particles_miss_what_no_polynomial_meets():
    """By hand: two particles have a mean, and one has none to be off from."""
    flow = nearly_round(2.0, 1e-3)
    close = np.array([[0.1, 0.0, 1.0], [-0.1, 0.0, 1.0], [0.0, 1.0, 0.0]])
    close /= np.linalg.norm(close, axis=1)[:, None]
    held = flow._moved(
        1.0, points=close, weights=np.array([0.3, 0.3, 0.4]), log_density=np.full(3, np.inf)
    )
    # twice the mass times half of what values differ by, and the tolerance
    missed = held._missed(np.array([0.2, 0.5, 7.0]), np.array([[0.0, 0.0, 1.0]]))
    assert missed == pytest.approx(2.0 * 0.6 * 0.15 + 7e-3, rel=1e-12)


@pytest.mark.slow
def test_zonal_and_sphere_densities_meet():
    law = mf.VonMisesFisher(TILTED, 4.0)
    zonal, sphere = mf.Density(mf.Zonal(3, 47, TILTED), law), mf.Density(mf.Sphere(47), law)
    lmax = 63
    np.testing.assert_allclose(series(zonal, lmax), series(sphere, lmax), atol=1e-13)
    uniform = mf.Density(mf.Sphere(15), mf.Uniform(3))
    assert float(mf.wasserstein(zonal, uniform)) == pytest.approx(
        float(mf.wasserstein(sphere, uniform)), rel=1e-6
    )


def test_a_density_with_much_negative_mass_has_no_distance():
    space = mf.Sphere(7)
    coefficients = np.zeros(len(space.degrees), dtype=complex)
    coefficients[0], coefficients[1] = 1.0, 1.5
    wrong = mf.Density.from_coefficients(space, coefficients)
    uniform = mf.Density(space, mf.Uniform(3))
    with pytest.raises(ValueError, match=r"no more than 0.001 of its mass below 0.*take a larger"):
        mf.wasserstein(wrong, uniform, 2)
    half = mf.Density.from_coefficients(space, 0.5 * uniform.coefficients)
    for p in 1, 2:
        with pytest.raises(ValueError, match=r"mass 1 within 1e-06.*mass 0.5"):
            mf.wasserstein(half, uniform, p)


@pytest.mark.parametrize("a", [1.03, 1.06])
def test_mass_below_zero_widens_both_ends(a):
    """1 + a cos θ has the mass (a - 1)²/4a below 0: elsewhere it costs up to π^p."""
    space, pole = mf.Sphere(7), spread_of(mf.Particles([[0.0, 0.0, 1.0]]))
    wave = space.analysis(np.ascontiguousarray(1.0 + a * space.points[:, 2]))
    spread, exact = spread_of(mf.Density.from_coefficients(space, wave)), (a - 1.0) ** 2 / (4 * a)
    # by a grid of degree 127
    assert spread.negative == pytest.approx(exact, rel=2e-3)
    low, estimate = dual(pole, spread, Potential(3, 0.0 * cosine()), 1e-9, 64)
    assert estimate - low == pytest.approx(2.0 * exact * 0.5 * np.pi**2, rel=2e-3)
    potential = Potential(3, 0.1 * cosine())
    low, estimate = dual(spread, pole, potential, 1e-9, 64)
    assert estimate - low == pytest.approx(2.0 * exact * 0.1, rel=5e-3)
    for p in 1.0, 2.0:
        cost = cells_cost(spread.cells(300), pole.cells(300), p)
        widened = distance._between_cells(spread, pole, 300, p) - cost
        atoms = atoms_of(spread.series, 128)
        assert widened == pytest.approx((2.0 * exact + atoms.lost) * np.pi**p, rel=2e-3)
        assert atoms.lost >= 2.0 * exact * (1.0 - 2e-3)


@pytest.mark.slow
def test_w2_needs_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    space = mf.Sphere(15)
    mu, nu = mf.Density(space, mf.VonMisesFisher(TILTED, 1.0)), mf.Density(space, mf.Uniform(3))
    assert mf.wasserstein(mu, nu).upper > 0.0
    with pytest.raises(ValueError, match=r"transport\]"):
        mf.wasserstein(mu, nu, 2)


def test_densities_that_differ_by_rounding_are_near(monkeypatch):
    """No flow of rounding is looked for: its length bounds both distances."""
    for search in "DualAscent", "beckmann_flow":
        monkeypatch.delattr(f"meanfield.functionals.transport.sphere.{search}")
    space = mf.Sphere(31)
    uniform = mf.Density(space, mf.Uniform(3))
    heavier = mf.Density.from_coefficients(space, uniform.coefficients * (1.0 + 1e-9))
    zonal = mf.Density(mf.Zonal(3, 31, TILTED), mf.Uniform(3))
    bump = mf.Density(space, mf.VonMisesFisher(TILTED, 3.0))
    near = mf.Density(mf.Zonal(3, 31, TILTED), mf.VonMisesFisher(TILTED, 3.0))
    for pair in (uniform, heavier), (uniform, zonal), (bump, near):
        for p in 1, 2:
            bracket = mf.wasserstein(*pair, p=p)
            assert bracket.lower == bracket.value == 0.0
            assert bracket.upper < (1e-13 if p == 1 else 1e-6)


def test_the_length_of_a_flow_of_rounding_is_nearly_w1():
    """ρ = -Δu with u = θ - π/2 and |∇u| = 1, cut at degree 63 and made as small as rounding."""
    lmax, size = 63, 5e-14
    cosines, weights = np.polynomial.legendre.leggauss(256)
    angles, degrees = np.arccos(cosines), np.arange(lmax + 1.0)
    waves = np.polynomial.legendre.legvander(cosines, lmax)
    potential = (degrees + 0.5) * ((weights * (angles - 0.5 * np.pi)) @ waves)
    derivative = np.polynomial.legendre.Legendre(potential).deriv()
    # about an axis W_1 is ∫|u'| dσ
    first = 0.5 * size * float(weights @ np.abs(np.sin(angles) * derivative(cosines)))
    space, uniform = mf.Sphere(lmax), mf.Density(mf.Sphere(lmax), SIGMA)
    coefficients = uniform.coefficients.copy()
    # P_l = Y_l0/√(2l+1)
    change = size * degrees * (degrees + 1.0) * potential
    coefficients[: lmax + 1] += change / np.sqrt(2.0 * degrees + 1.0)
    near = mf.Density.from_coefficients(space, coefficients)
    for p, exact in (1, first), (2, np.sqrt(np.pi * first)):
        assert exact <= mf.wasserstein(near, uniform, p).upper <= exact * 1.001


def test_w1_of_a_cosine():
    """1 + cos θ/2 beside 1: W_1 is ∫|F| of polar angles, π/16, reached from both sides."""
    cosine_law, exact = mf.ZonalSeries(3, [0.5], TILTED), np.pi / 16.0
    bracket = mf.wasserstein(*(mf.Density(mf.Sphere(31), law) for law in (cosine_law, SIGMA)))
    assert bracket.lower <= exact <= bracket.upper
    assert bracket.upper <= exact * 1.002
    assert bracket.lower >= exact * 0.99
    assert bracket.proved


def test_bounds_in_the_wrong_order_are_refused():
    check_order(1.0, 1.0)
    for lower, upper in (1.0, np.nextafter(1.0, 0.0)), (np.nan, 1.0), (1.0, np.nan):
        with pytest.raises(ArithmeticError, match="one of the two is no bound"):
            check_order(lower, upper)


@pytest.mark.slow
def test_a_flow_map_about_another_axis():
    """Its latitudes as tokens, beside its density."""
    law = mf.VonMisesFisher([1.0, 0.0, 0.0], 4.0)
    other = mf.Density(mf.Sphere(31), mf.VonMisesFisher(TILTED, 2.0))
    dense = mf.Density(mf.Sphere(31), law)
    for p in 1, 2:
        ours = mf.wasserstein(mf.FlowMap(law), other, p, gap=0.02)
        theirs = mf.wasserstein(dense, other, p)
        assert max(ours.lower, theirs.lower) <= min(ours.upper, theirs.upper)
        assert ours.upper - ours.lower < 0.02 * ours.upper


def test_masses_far_apart_in_size():
    points = np.array([[0.36, 0.48, 0.8], [0.0, 1.0, 0.0]])
    cells = cells_of(points, np.array([1e-4, 1e-21]), 5)
    assert len(cells.masses) == 1


@pytest.mark.slow
def test_axes_that_nearly_agree_are_two():
    """A zonal pair about axes 1e-6 apart: no common meridian, but a bracket."""
    angle = 1e-6
    axes = np.array([0.0, 0.0, 1.0]), np.array([np.sin(angle), 0.0, np.cos(angle)])
    pair = [mf.Density(mf.Zonal(3, 63, a), mf.VonMisesFisher(a, 20.0)) for a in axes]
    bracket = mf.wasserstein(*pair)
    # W_1 is at least the distance of the means, and at most the turn
    apart = np.linalg.norm(pair[0].mean() - pair[1].mean())
    assert 0.99 * apart <= bracket.upper
    assert bracket.lower <= angle
    assert bracket.upper - bracket.lower < 0.1 * bracket.upper


@pytest.mark.slow
def test_a_budget_bounds_the_attempts(capsys):
    """One attempt of W_1 is that of lmax = 31; as many as there are give what none given gives."""
    pair = [
        mf.Density(mf.Sphere(31), mf.VonMisesFisher(a, 12.0)) for a in ([0, 0, 1.0], [0, 1.0, 0])
    ]
    one, all_of_them = mf.wasserstein(*pair, gap=1e-5, budget=1), mf.wasserstein(*pair, budget=9)
    assert mf.wasserstein(*pair) == all_of_them
    finer = mf.wasserstein(*pair, gap=1e-5, budget=2, progress=True)
    assert "wasserstein" in capsys.readouterr().err
    assert one.proved
    assert finer.proved
    assert 0.0 < finer.upper - finer.lower < one.upper - one.lower
    assert max(one.lower, finer.lower) <= min(one.upper, finer.upper)
    with pytest.raises(ValueError, match="budget must be an integer >= 1, got 0"):
        mf.wasserstein(*pair, budget=0)
    clouds = [mf.Particles(np.eye(3)), mf.Particles(-np.eye(3))]
    with pytest.raises(ValueError, match=r"budget must be None but for measures on S\^2 without"):
        mf.wasserstein(*clouds, budget=3)
