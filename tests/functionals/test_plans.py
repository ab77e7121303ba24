"""Optimal plans and maps cost what the distance is; sliced distances against their definition."""

import numpy as np
import ot
import pytest

import meanfield as mf
from meanfield.spaces.geometry import geodesic_distance

POWERS = [1, 1.5, 2, 3]


def cloud(rng, n, dim=2):
    points = rng.standard_normal((n, dim))
    return mf.Particles(
        points / np.linalg.norm(points, axis=1)[:, None], rng.random(n), unit_mass=True
    )


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
        apart = geodesic_distance(mu.points[plan.row], nu.points[plan.col])
        cost = (plan.data @ apart**p) ** (1.0 / p)
        assert cost == pytest.approx(float(mf.wasserstein(mu, nu, p)), rel=1e-12)
        assert plan.nnz <= n + m + 1


def test_plans_with_tokens_without_mass_and_in_one_place():
    mu = mf.Particles([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 1.0, 0.0], unit_mass=True)
    nu = mf.Particles([[-1.0, 0.0], [0.0, -1.0]], [0.5, 0.5])
    plan = mf.transport_plan(mu, nu, 2).toarray()
    assert plan[2].sum() == 0.0
    np.testing.assert_allclose(plan.sum(axis=0), [0.5, 0.5], atol=1e-16)


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_what_has_no_plan_or_map():
    circle = mf.Density(mf.Circle(16), mf.Uniform(2))
    token, other = mf.Particles([[1.0, 0.0]]), mf.Particles([[1.0, 0.0, 0.0]])
    sphere = mf.Density(mf.Sphere(7), mf.Uniform(3))
    with pytest.raises(ValueError, match="nu must be Particles to have a plan, got Density"):
        mf.transport_plan(token, circle)
    with pytest.raises(ValueError, match="mu must have a density to have an optimal map"):
        mf.transport_map(token, circle, [[1.0, 0.0]])
    with pytest.raises(ValueError, match="nu must have dim"):
        mf.transport_plan(token, other)
    with pytest.raises(ValueError, match="symmetric about one axis"):
        mf.transport_map(sphere, sphere, [[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="at must"):
        mf.transport_map(circle, circle, [[1.0, 1.0]])
    for p in (0.5, np.nan, 101):
        with pytest.raises(ValueError, match="p must be"):
            mf.transport_plan(token, token, p)


# -- sliced distances ----------------------------------------------------------------------------


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


def test_sliced_distance_refuses():
    rng = np.random.default_rng(5)
    mu, flat = cloud(rng, 3, 3), cloud(rng, 3)
    with pytest.raises(ValueError, match="dim >= 3"):
        mf.sliced_wasserstein(flat, flat, rng=rng)
    with pytest.raises(ValueError, match="planes must be an integer >= 2, got 1"):
        mf.sliced_wasserstein(mu, mu, planes=1, rng=rng)
    with pytest.raises(ValueError, match="p must be"):
        mf.sliced_wasserstein(mu, mu, 0.5, rng=rng)
