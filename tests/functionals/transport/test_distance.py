"""Distances, plans and maps of pairs of each kind; sliced distances against their definition."""

import sys

import mpmath
import numpy as np
import ot
import pytest
import scipy.stats

import meanfield as mf
from meanfield.functionals.transport import Bracket
from meanfield.spaces.geometry import geodesic_distance
from tests.functionals.drawn import cloud, cost_of


def wasserstein(mu, nu, p=1, **asked):
    """The value of W_p."""
    return float(mf.wasserstein(mu, nu, p, **asked))


POWERS = [1, 1.5, 2, 3]
UNIFORM = mf.Density(mf.Circle(16), mf.Uniform(2))


def bump(angle, kappa):
    return mf.VonMisesFisher([np.cos(angle), np.sin(angle)], kappa)


def dense(law, n=64):
    return mf.Density(mf.Circle(n), law)


@pytest.mark.slow
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("dim", [3, 10, 50])
def test_axes_may_point_either_way(dim, p):
    axis = np.eye(dim)[0]
    law, mirrored = mf.VonMisesFisher(axis, 4.0), mf.VonMisesFisher(-axis, 4.0)
    measures = mf.Density(mf.Zonal(dim, 47, axis), law), mf.FlowMap(law)
    mirrors = mf.Density(mf.Zonal(dim, 47, -axis), mirrored), mf.FlowMap(mirrored)
    found = [wasserstein(mu, nu, p) for mu in measures for nu in mirrors]
    assert found[0] > 0.05
    np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-11)


def test_tokens_at_the_poles():
    poles = mf.Particles([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], [0.5, 0.5])
    uniform = mf.Density(mf.Zonal(3, 7), mf.Uniform(3))
    # each hemisphere to its pole: ∫_0^{π/2} θ sin θ dθ = 1
    assert wasserstein(poles, uniform) == pytest.approx(1.0, abs=1e-13)
    assert wasserstein(uniform, poles) == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize("p", POWERS)
def test_one_token_against_a_density_on_the_sphere(p):
    token = mf.Particles([[0.6, 0.0, 0.8]])
    # E dist^p = 1/2 ∫ γ^p sin γ dγ, whatever the token
    sines, cosines = (
        float(mpmath.quad(lambda x, g=g: x**p * mpmath.sin(x) * g(x), [0, 1, mpmath.pi]))
        for g in (lambda x: 1, mpmath.cos)
    )
    expected = (0.5 * sines) ** (1 / p)
    flat = mf.Density(mf.Sphere(8), mf.Uniform(3))
    assert wasserstein(token, flat, p) == pytest.approx(expected, abs=1e-12)
    # f = 1 + a <x, e> has the average 1 + a <y, e> cos γ about y
    moment = sines + 0.5 * 0.8 * cosines
    tilted = mf.ZonalSeries(3, [0.5])
    for space in mf.Sphere(8), mf.Zonal(3, 8):
        assert wasserstein(mf.Density(space, tilted), token, p) == pytest.approx(
            (0.5 * moment) ** (1 / p), abs=1e-12
        )


def test_one_token_off_the_axis_sees_sphere_and_zonal_alike():
    law = mf.VonMisesFisher([0.0, 0.0, 1.0], 8.0)
    sphere, zonal = mf.Density(mf.Sphere(47), law), mf.Density(mf.Zonal(3, 47), law)
    for point in [0.6, 0.0, 0.8], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]:
        token = mf.Particles([point])
        for p in 1, 2.5:
            apart = wasserstein(token, sphere, p)
            assert apart > 0.5
            assert apart == pytest.approx(wasserstein(token, zonal, p), abs=1e-12)


def test_clouds_without_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"transport\].*3 and 3 of them"):
        wasserstein(cloud(rng, 3, 3), cloud(rng, 3, 3))


def test_a_bracket_is_in_order():
    assert float(Bracket(2.0, 1.0, 3.0)) == 2.0
    for wrong in (2.0, 2.5, 3.0), (2.0, 1.0, 1.5), (np.nan, 0.0, 1.0):
        with pytest.raises(ValueError, match="between lower and upper"):
            Bracket(*wrong)


def test_equal_measures_are_at_distance_zero():
    """Exactly, at any p, and however tokens are numbered."""
    rng = np.random.default_rng(3)
    law, turned = bump(0.3, 30.0), [0.0, 0.6, 0.8]
    zonal = mf.VonMisesFisher(turned, 30.0)
    pairs = [(dense(law), dense(law)), (mf.FlowMap(law), mf.FlowMap(law))]
    space = mf.Zonal(3, 40, turned)
    pairs += [(mf.Density(space, zonal), mf.Density(space, zonal))]
    pairs += [(mf.FlowMap(zonal), mf.FlowMap(zonal))]
    for dim in 2, 3:
        some, order = cloud(rng, 30, dim), rng.permutation(30)
        pairs.append((some, mf.Particles(some.points[order], some.weights[order])))
    for mu, nu in pairs:
        for p in 1, 2, 3.5:
            assert float(wasserstein(mu, nu, p)) == 0.0
            assert float(wasserstein(nu, mu, p)) == 0.0


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("p", [1, 5, 20])
def test_small_distances_at_large_powers(dim, p):
    """A turn by a small angle in a plane moves every token by it, or less off the plane."""
    rng = np.random.default_rng(4)
    for angle in 1e-2, 1e-6, 1e-9:
        turn = np.eye(dim)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        token = np.eye(dim)[:1]
        near = float(wasserstein(mf.Particles(token), mf.Particles(token @ turn.T), p))
        # points are stored to 1e-16, which is 1e-7 of the least angle
        assert near == pytest.approx(angle, rel=1e-6)
        some = cloud(rng, 12, dim)
        found = wasserstein(some, mf.Particles(some.points @ turn.T, some.weights), p)
        assert float(found) <= angle * (1.0 + 1e-6)
        if dim == 2 and angle < 1e-3:
            assert float(found) == pytest.approx(angle, rel=1e-6)


def test_densities_about_an_axis_of_the_circle_are_those_of_the_circle():
    """Cosines on half a circle stand for both halves."""
    laws, axis = (mf.FourierSeries(cos=[0.5]), mf.FourierSeries(cos=[-0.3, 0.2])), [1.0, 0.0]
    about = [mf.Density(mf.Zonal(2, 32, axis=axis), law) for law in laws]
    around = [mf.Density(mf.Circle(64), law) for law in laws]
    for p in 1, 2:
        exact = float(mf.wasserstein(*around, p))
        assert exact > 0.1
        assert float(mf.wasserstein(*about, p)) == pytest.approx(exact, abs=1e-12)
    centre = mf.Particles([axis])
    assert float(mf.wasserstein(about[0], centre)) == pytest.approx(
        float(mf.wasserstein(around[0], centre)), abs=1e-12
    )
    at = around[0].space.points[:5]
    moved = [mf.transport_map(*pair, at, 2) for pair in (about, around)]
    np.testing.assert_allclose(*moved, atol=1e-12)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("dim", [2, 3, 6])
def test_a_plan_has_both_marginals_and_costs_the_distance(dim, p):
    rng = np.random.default_rng(dim)
    for n, m in (1, 1), (1, 5), (17, 9), (30, 30):
        mu, nu = cloud(rng, n, dim), cloud(rng, m, dim)
        plan = mf.transport_plan(mu, nu, p)
        assert plan.data.min() > 0.0
        np.testing.assert_allclose(plan.sum(axis=1), mu.weights, atol=1e-15)
        np.testing.assert_allclose(plan.sum(axis=0), nu.weights, atol=1e-15)
        distance = float(mf.wasserstein(mu, nu, p))
        assert cost_of(plan, mu, nu, p) == pytest.approx(distance, rel=1e-12)
        assert plan.nnz <= n + m + 1


def test_plans_with_tokens_without_mass_and_in_one_place():
    mu = mf.Particles([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 1.0, 0.0], unit_mass=True)
    nu = mf.Particles([[-1.0, 0.0], [0.0, -1.0]], [0.5, 0.5])
    plan = mf.transport_plan(mu, nu, 2).toarray()
    assert plan[2].sum() == 0.0
    np.testing.assert_allclose(plan.sum(axis=0), [0.5, 0.5], atol=1e-16)


def test_a_plan_of_many_tokens_is_sparse():
    """Their 10^10 pairs would fit into no memory."""
    rng = np.random.default_rng(0)
    mu, nu = cloud(rng, 10**5), cloud(rng, 10**5)
    plan = mf.transport_plan(mu, nu, 2)
    assert plan.nnz <= 2 * 10**5 + 1
    np.testing.assert_allclose(plan.sum(axis=1), mu.weights, atol=1e-15)
    # what may be rounding of a sum of all of them is not split
    np.testing.assert_allclose(plan.sum(axis=0), nu.weights, atol=2e-12)


CIRCLE_LAWS = [mf.VonMisesFisher([0.0, 1.0], 3.0), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.4])]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["density", "flow map"])
@pytest.mark.parametrize("p", [1.5, 2, 3])
def test_a_map_on_the_circle_pushes_one_onto_the_other(kind, p):
    if kind == "density":
        mu, nu = (mf.Density(mf.Circle(128), law) for law in CIRCLE_LAWS)
    else:
        mu, nu = (mf.FlowMap(law) for law in CIRCLE_LAWS)
    grid = mf.Circle(2048)
    masses = grid.weights * CIRCLE_LAWS[0].pdf(grid.points)
    images = mf.transport_map(mu, nu, grid.points, p)
    # the map is smooth but for the cut locus: its integrands are periodic
    for power in range(1, 6):
        moment = masses @ (images[:, 0] + 1j * images[:, 1]) ** power
        own = grid.weights @ (
            CIRCLE_LAWS[1].pdf(grid.points) * (grid.points[:, 0] + 1j * grid.points[:, 1]) ** power
        )
        assert moment == pytest.approx(own, abs=1e-11)
    apart = geodesic_distance(grid.points, images)
    cost = (masses @ apart**p) ** (1.0 / p)
    # a kink of |D|^p where the map crosses the identity: second order at least
    assert cost == pytest.approx(float(mf.wasserstein(mu, nu, p)), rel=1e-5 if p == 1.5 else 1e-9)


@pytest.mark.parametrize("dim", [3, 5])
def test_a_map_about_an_axis(dim):
    axis = np.eye(dim)[0]
    mu = mf.Density(mf.Zonal(dim, 63, axis), mf.VonMisesFisher(axis, 5.0))
    nu = mf.FlowMap(mf.VonMisesFisher(-axis, 2.0))
    rng = np.random.default_rng(1)
    points = np.concatenate([mu.law.sample(20_000, rng), [axis, -axis]])
    images = mf.transport_map(mu, nu, points, 2)
    np.testing.assert_allclose(np.linalg.norm(images, axis=1), 1.0, atol=1e-14)
    # along meridians
    across, moved = points[:-2].copy(), images[:-2].copy()
    across[:, 0] = moved[:, 0] = 0.0
    cosines = np.sum(across * moved, axis=1)
    lengths = np.linalg.norm(across, axis=1) * np.linalg.norm(moved, axis=1)
    np.testing.assert_allclose(cosines, lengths, atol=1e-13)
    # rounding of the mass near a pole, where it grows like the angle to the power d - 1
    np.testing.assert_allclose(images[-2:], [axis, -axis], atol=3.0 * 1e-16 ** (1.0 / (dim - 1)))
    # both by a sample of 20000: five standard errors
    apart = geodesic_distance(points[:-2], images[:-2]) ** 2
    error = 5.0 * apart.std() / np.sqrt(len(apart))
    assert abs(apart.mean() - float(mf.wasserstein(mu, nu, 2)) ** 2) < error
    assert np.all(np.abs(images[:-2].mean(axis=0) - nu.mean()) < 5.0 / np.sqrt(len(apart)))


def test_a_map_onto_tokens_is_a_staircase():
    mu = mf.Density(mf.Circle(64), CIRCLE_LAWS[0])
    nu = cloud(np.random.default_rng(2), 4)
    grid = mf.Circle(4096)
    images = mf.transport_map(mu, nu, grid.points, 2)
    nearest = np.argmax(images @ nu.points.T, axis=1)
    np.testing.assert_allclose(images, nu.points[nearest], atol=1e-15)
    masses = np.bincount(nearest, grid.weights * CIRCLE_LAWS[0].pdf(grid.points), minlength=4)
    # each of four ends of a stair is known to the spacing, where the density is at most 3
    np.testing.assert_allclose(masses, nu.weights, atol=8.0 / 4096)


def test_a_turn_of_the_circle_is_its_own_map():
    law = mf.VonMisesFisher([1.0, 0.0], 2.0)
    turn = 0.4
    turned = mf.VonMisesFisher([np.cos(turn), np.sin(turn)], 2.0)
    mu, nu = (mf.Density(mf.Circle(64), law) for law in (law, turned))
    at = mf.Circle(16).points
    images = mf.transport_map(mu, mu, at, 2)
    np.testing.assert_allclose(images, at, atol=1e-12)
    # not the turn itself, which is a feasible map that costs no less
    cost = float(mf.wasserstein(mu, nu, 2))
    assert cost < turn


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dim", [3, 8])
def test_sliced_distance_against_pot(dim, p):
    """The same planes, and POT's distance of the shadows on each."""
    rng = np.random.default_rng(3)
    mu, nu = cloud(rng, 40, dim), cloud(rng, 30, dim)
    ours = mf.sliced_wasserstein(mu, nu, p, planes=25, rng=np.random.default_rng(7))
    again = np.random.default_rng(7)
    planes = np.stack([np.linalg.qr(again.standard_normal((dim, 2)))[0] for _ in range(25)])
    theirs = ot.sliced_wasserstein_sphere(
        mu.points, nu.points, mu.weights, nu.weights, 25, p, planes
    )
    # POT's angles are in turns
    assert float(ours) == pytest.approx(2.0 * np.pi * float(theirs), rel=1e-6)


@pytest.mark.slow
def test_sliced_distance_has_the_error_it_says():
    rng = np.random.default_rng(4)
    mu, nu = cloud(rng, 50, 6), cloud(rng, 50, 6)
    # it is as uncertain as the mean of the others
    many = mf.sliced_wasserstein(mu, nu, planes=500, rng=rng)
    few = [mf.sliced_wasserstein(mu, nu, planes=25, rng=rng) for _ in range(20)]
    values = np.array([float(one) for one in few])
    errors = np.array([one.standard_error for one in few])
    # the scatter of 20 values knows its standard deviation to 16 %
    assert values.std(ddof=1) == pytest.approx(errors.mean(), rel=0.4)
    assert abs(values.mean() - float(many)) < 5.0 * errors.mean() / np.sqrt(20)
    again = mf.sliced_wasserstein(mu, nu, planes=10, rng=np.random.default_rng(0))
    assert again == mf.sliced_wasserstein(mu, nu, planes=10, rng=0)


@pytest.mark.slow
def test_sliced_distance_has_the_coverage_it_says():
    """Of 300 intervals of 95 % some 285 hold the mean over planes; frames lessen its variance."""
    rng = np.random.default_rng(4)
    mu, nu = cloud(rng, 20, 6), cloud(rng, 20, 6)
    exact = float(mf.sliced_wasserstein(mu, nu, planes=10_000, rng=1))
    # 16 frames of 3 planes
    draws = [mf.sliced_wasserstein(mu, nu, planes=48, rng=100 + i) for i in range(300)]
    values = np.array([float(one) for one in draws])
    errors = np.array([one.standard_error for one in draws])
    held = np.abs(values - exact) < scipy.stats.t(15).ppf(0.975) * errors
    # the count has the standard deviation 3.8
    assert 285 - 4 * 3.8 < held.sum() <= 300
    # of fewer than 32 planes each is a frame of its own: 24 of them have twice the variance of 48
    alone = np.array([float(mf.sliced_wasserstein(mu, nu, planes=24, rng=i)) for i in range(300)])
    # a ratio of two such variances is known to 12 %
    assert values.var() < 0.65 * 0.5 * alone.var()


EAST = [1.0, 0.0, 0.0, 0.0]
FOUR, SOME = mf.Particles([EAST]), cloud(np.random.default_rng(0), 3, 4)
ZONAL = mf.Density(mf.Zonal(4, 8), mf.ZonalSeries(4, [0.5]))
ABOUT_EAST = mf.Density(mf.Zonal(4, 8, EAST), mf.ZonalSeries(4, [0.5], EAST))
FLOW = mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], 2.0))
SPHERE = mf.Density(mf.Sphere(8), mf.ZonalSeries(3, [0.5]))
LONG = mf.Density(mf.Zonal(3, 1100, [1.0, 0.0, 0.0]), mf.Uniform(3))
LIGHT = mf.Density.from_coefficients(mf.Circle(8), 0.9 * np.eye(4)[0])
AXIS, POWER = r"both be symmetric about one axis.*got", "p must be a finite number >= 1 and <= 20"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *((pair, AXIS) for pair in ((ZONAL, ABOUT_EAST), (FLOW, ABOUT_EAST))),
        *((pair, AXIS) for pair in ((FLOW, FOUR), (ZONAL, SOME))),
        ((SPHERE, LONG), r"degrees <= 1023 on S\^2 .* got Density\(Zonal"),
        ((SPHERE, SPHERE, 3), r"p must be 1 or 2 .* got p = 3"),
        ((UNIFORM, ZONAL), "nu must have dim"),
        ((LIGHT, UNIFORM), "mass 1 within 1e-06"),
        *(((UNIFORM, UNIFORM, p), POWER) for p in (0.5, 101)),
    ],
)
def test_what_has_no_distance(arguments, message):
    with pytest.raises(ValueError, match=message):
        mf.wasserstein(*arguments)


@pytest.mark.parametrize("gap", [0.0, 1.5])
def test_gaps_out_of_range(gap):
    with pytest.raises(ValueError, match=r"gap must be a finite number >= 1e-06 and <= 1, got"):
        mf.wasserstein(SPHERE, SPHERE, gap=gap)
