"""Tokens: their masses, places and order, and laws that they are drawn from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from tests.handmade import unit_points
from tests.measures.every import BUILT, EPS, rounding


def test_tokens_at_angles():
    angles = np.array([0.3, -2.0, 5.0])
    mu = mf.Particles.from_angles(angles, [1.0, 2.0, 1.0], sums="direct", unit_mass=True)
    assert mu.points == pytest.approx(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert (mu.weights.tolist(), mu.sums) == ([0.25, 0.5, 0.25], "direct")


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 20.0), st.permutations(range(9)))
def test_tokens_have_no_order(seed, radius, order):
    mu = BUILT["tokens 10"]
    other = mf.Particles(mu.points[order], weights=mu.weights[order])
    z = radius * unit_points(10, 3, seed)
    for answer, exact in zip(other.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(answer - exact)) < rounding(radius)
    assert np.max(np.abs(other.mean() - mu.mean())) < 8 * EPS


def test_tokens_at_one_place_are_one_token():
    once = mf.Particles([[0.6, 0.8], [1.0, 0.0]], weights=[2, 1], unit_mass=True)
    twice = mf.Particles([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0]])
    z = 20 * unit_points(2, 5, 0)
    for answer, exact in zip(twice.log_moment(z), once.log_moment(z), strict=True):
        assert np.max(np.abs(answer - exact)) < rounding(20)


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


def test_what_is_handed_over_is_copied():
    points, shares = np.eye(2), np.array([1.0, 3.0])
    cloud = mf.Particles(points, weights=shares, unit_mass=True)
    points[:], shares[:] = 0, 0
    assert cloud.mean().tolist() == [0.25, 0.75]


@pytest.fixture(scope="module", params=[2, 3, 5])
def moved(request):
    """Flow maps on a line at a time when one of two bumps is an atom, and the other is not yet."""
    dim = request.param
    pole = np.eye(dim)[-1]
    bumps = [mf.VonMisesFisher(pole, 1e6), mf.VonMisesFisher(-pole, 30.0)]
    start = mf.FlowMap(mf.Mixture(bumps, [0.25, 0.75]), tol=1e-9, atom_radius=1e-3)
    flow = mf.evolve(start, mf.SA(beta=30.0), t_end=4.0).final
    assert (len(flow.atoms.masses), flow.atoms.masses.sum() < 0.5) == (1, True)
    return flow


def test_draws_of_a_flow_map_have_its_moments(moved):
    n = 40_000
    tokens = mf.Particles.sample(moved, n, np.random.default_rng(3))
    assert np.array_equal(tokens.points, moved.sample(n, np.random.default_rng(3)))
    z = 3.0 * unit_points(moved.dim, 4, 1)
    (once, _), (twice, _) = moved.moment(z), moved.moment(2.0 * z)
    # five standard errors, of the variance that the flow map has itself
    errors = 5.0 * np.sqrt((twice - once**2) / n)
    assert np.all(np.abs(tokens.moment(z)[0] - once) < errors)
    mass, centre = moved.atoms.masses[0], moved.atoms.centres[0]
    at_atom = np.linalg.norm(tokens.points - centre, axis=1) < 1e-12
    assert abs(at_atom.mean() - mass) < 5.0 * np.sqrt(mass * (1.0 - mass) / n)


def test_quantiles_of_a_flow_map_near_it(moved):
    """On the circle W_1 is at most the width of a cell, 1/n of the spread; on S² n^{-1/2} of it."""
    if moved.dim > 3:
        with pytest.raises(ValueError, match=r"measure must be on the circle or S\^2 .*FlowMap"):
            mf.Particles.quantise(moved, 9)
        return
    counts = [100, 400, 1600]
    if moved.dim == 2:
        tokens = [mf.Particles.quantise(moved, n) for n in counts]
        distances = [float(mf.wasserstein(some, moved, p=1)) for some in tokens]
        rates = np.diff(np.log(distances)) / np.log(4.0)
        assert np.all(rates < -0.9), (distances, rates)
        return
    # the polar angles are quantiles, so that what hangs on them alone is right to 1/n
    exact = moved.mean() @ moved.axis
    errors = [abs(mf.Particles.quantise(moved, n).mean() @ moved.axis - exact) for n in counts]
    assert np.all(np.array(errors) < 2.0 / np.array(counts)), errors


def test_a_flow_map_at_its_start_is_quantised_as_its_law():
    for law in (mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]), mf.VonMisesFisher([0, 0, 1], 3.0)):
        exact, flow = mf.Particles.quantise(law, 500).points, mf.FlowMap(law)
        np.testing.assert_allclose(mf.Particles.quantise(flow, 500).points, exact, atol=1e-9)
    bumps = mf.Mixture([mf.VonMisesFisher(mean, 4.0) for mean in np.eye(3)[:2]])
    flow = mf.FlowMap(bumps, tol=1e-4)
    for draw in (lambda x: mf.Particles.sample(x, 50, 1), lambda x: mf.Particles.quantise(x, 50)):
        assert np.array_equal(draw(flow).points, draw(bumps).points)


def test_a_flow_map_of_tokens_draws_them():
    cloud = mf.PointCloud([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], [0.5, 0.25, 0.25])
    quantised = mf.Particles.quantise(mf.FlowMap(cloud), 8).points
    angles = np.sort(np.arctan2(quantised[:, 1], quantised[:, 0]))
    np.testing.assert_allclose(angles, np.repeat([0.0, 0.5 * np.pi, np.pi], [4, 2, 2]), atol=1e-12)


def test_measures_of_nodes_are_refused_with_what_to_do():
    """Tokens, and a flow map on S^2 that has moved: there is no map from its law at hand."""
    bumps = mf.Mixture([mf.VonMisesFisher(mean, 2.0) for mean in np.eye(3)[:2]])
    flow = mf.evolve(mf.FlowMap(bumps, tol=1e-3), mf.SA(1.0), t_end=0.05).final
    for call in (lambda mu: mf.Particles.sample(mu, 3, 0), lambda mu: mf.Particles.quantise(mu, 3)):
        for nodes in (flow, mf.Particles(np.eye(2))):
            with pytest.raises(ValueError, match=r"law must .*: draw rows of its points"):
                call(nodes)
