"""W_1 and W_2 on S^2 without symmetry: brackets hold what is known, and are narrow."""

import sys

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport import check_order
from meanfield.functionals.transport import sphere as distance
from meanfield.functionals.transport.clouds import best_plan, pair_distances
from meanfield.functionals.transport.sphere import (
    cells_cost,
    length_of,
    sphere_distance,
    steepest_of,
)
from meanfield.functionals.transport.sphere_dual import Conjugate, Potential, dual
from meanfield.functionals.transport.sphere_masses import atoms_of, cells_of, spread_of
from meanfield.spaces.geometry import exponential, geodesic_distance, logarithm
from meanfield.spaces.lattice import Lattice, cell_integrals
from meanfield.spaces.sphere_fields import Places, SphereAt, SphereFields
from tests.functionals.drawn import SIGMA, TILTED, bumps, cosine, random_series, unit


def rotation(rng):
    return np.linalg.qr(rng.standard_normal((3, 3)))[0]


def test_logarithm_undoes_the_exponential():
    rng = np.random.default_rng(2)
    for dim in 2, 3, 50:
        x, y = unit(rng, 20, dim), unit(rng, 20, dim)
        log = logarithm(x, y)
        np.testing.assert_allclose(exponential(x, log), y, atol=1e-14)
        np.testing.assert_allclose(np.linalg.norm(log, axis=1), geodesic_distance(x, y), rtol=1e-14)
        np.testing.assert_allclose(np.linalg.norm(logarithm(x, -x), axis=1), np.pi, rtol=1e-15)
        assert np.all(logarithm(x, x) == 0.0)


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
    bare = mf.Sphere(lmax).embed(difference, mf.Sphere(31))
    short = distance.beckmann_flow(bare, 31, 1e-6, 31)
    assert short.upper < 0.996 * truth
    # the potential is 1-Lipschitz, and has the lower bound as its mean
    space, best = mf.Sphere(lmax), brackets[-1]
    assert best.lmax == 127
    potential = mf.Sphere(best.lmax).embed(best.potential, space)
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
    coarse = distance._Splitting(31, space.embed(difference, mf.Sphere(31)), None)
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
    """W_p of two masses at a distance w on both sides of a token is w, all of it spread."""
    pole, wide = np.array([[0.0, 0.0, 1.0]]), 0.3
    pair = np.array([[side * np.sin(wide), 0.0, np.cos(wide)] for side in (-1.0, 1.0)])
    cells = cells_of(pair, np.full(2, 0.5), 1), cells_of(pole, np.ones(1), 1)
    assert wide**p * (1.0 - 1e-14) <= cells_cost(*cells, p) <= wide**p * (1.0 + 1e-13)


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
    # the error of a dual functional is of second order, a gap of 1e-2 of first
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
    monkeypatch.setattr(distance, "map_cost", lambda *given: 0.5 * narrow.lower**2)
    dropped = mf.wasserstein(*pair, p=2, gap=0.3, budget=1)
    assert dropped.proved
    assert dropped.upper > 1.1 * narrow.upper


def test_bounds_between_points():
    """Bounds of |∇φ| and ∫|m| are above those of many points, by little, and of a grid."""
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
    """A length is not too short where integrals are too small by their error of 2 %."""
    wave = cosine()

    def low(lattice, coefficients, lmax, highest):
        squares, _ = cell_integrals(lattice, coefficients, lmax, highest)
        error = np.full(lattice.n, 0.02 * squares.mean())
        return squares - error[:, None], error

    monkeypatch.setattr(distance, "cell_integrals", low)
    assert length_of(0.0 * wave, wave, 3, Lattice(32)) >= 0.25 * np.pi


@pytest.mark.slow
def test_tokens_and_densities():
    """A bracket beside POT's network simplex, and samples beside their law."""
    rng = np.random.default_rng(14)
    laws = bumps(rng, 2, 4.0), bumps(rng, 3, 4.0)
    clouds = [mf.Particles.sample(law, 200, rng) for law in laws]
    densities = [mf.Density(mf.Sphere(31), law) for law in laws]
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
    other = mf.Density(mf.Sphere(23), mf.VonMisesFisher(TILTED, 2.0))
    dense = mf.Density(mf.Sphere(23), law)
    for p in 1, 2:
        ours = mf.wasserstein(mf.FlowMap(law), other, p, gap=0.02)
        theirs = mf.wasserstein(dense, other, p)
        assert max(ours.lower, theirs.lower) <= min(ours.upper, theirs.upper)
        assert ours.upper - ours.lower < 0.02 * ours.upper


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
