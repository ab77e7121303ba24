"""Clusters that become atoms of a line, and particles on S²."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations.atoms import collapsed, compressed
from meanfield.measures import SphereFlowMap
from meanfield.spaces.geometry import circle_points
from tests.handmade import unit_points


def test_repelling_nodes_are_no_cluster():
    mu = mf.FlowMap(mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    assert collapsed(mu, np.ones(len(mu.angles)), 10.0) is mu
    held = collapsed(mu, -np.ones(len(mu.angles)), 10.0)
    assert len(held.atoms) == 1
    assert held.atoms.masses[0] == pytest.approx(1)


def test_atoms_that_meet_are_one_and_the_others_keep_their_nodes():
    """The second and third of five come within the radius: they meet at their mean."""
    places, masses = np.array([0.5, 2.0, 2.0005, 4.0, 5.0]), np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    flow = mf.FlowMap(mf.PointCloud(circle_points(places), masses))
    met = collapsed(flow, np.zeros(len(flow.angles)), 1e-3)
    middle = 0.4 * 2.0 + 0.6 * 2.0005
    # the heaviest first
    assert met.atoms.masses == pytest.approx([0.5, 0.25, 0.15, 0.1], rel=1e-14)
    np.testing.assert_allclose(
        met.atoms.centres, circle_points(np.array([middle, 5.0, 4.0, 0.5])), rtol=0, atol=1e-15
    )
    expected = np.repeat([0.5, middle, middle, 4.0, 5.0], len(flow.angles) // 5)
    np.testing.assert_allclose(met.angles, expected, rtol=0, atol=1e-15)
    assert met.mean() == pytest.approx(flow.mean(), abs=1e-7)


def test_compression_keeps_every_exponential():
    rng = np.random.default_rng(5)
    points = np.array([0.6, 0.0, 0.8]) + 0.03 * rng.normal(size=(4000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    masses = rng.exponential(size=4000)
    fewer, weights = compressed(points, masses, 4.0, 1e-12)
    assert len(fewer) <= 153
    assert weights.min() > 0.0
    z = 4.0 * unit_points(3, 100, 6)
    expected = np.exp(z @ points.T) @ masses
    assert np.abs(np.exp(z @ fewer.T) @ weights / expected - 1.0).max() < 1e-11


# a law about an axis, followed as if it had none
BUMP = SphereFlowMap(mf.VonMisesFisher([0.6, 0.0, 0.8], 10.0), tol=1e-6)


@pytest.fixture(scope="module")
def gathering():
    return mf.evolve(BUMP, mf.SA(4.0), 6.0, [2.2, 6.0])


@pytest.mark.slow
def test_clusters_become_particles(gathering):
    clusters = mf.clusters(gathering.final, 0.3)
    # the mesh is laid to 1e-6 in mass
    assert np.abs(clusters.centres - [[0.6, 0.0, 0.8]]).max() < 1e-6
    assert clusters.masses == pytest.approx([1.0], abs=1e-6)
    # angles fall like e^{-t}, at first a third or so
    assert 1e-4 < clusters.radii[0] < 1e-2
    data = gathering.dataset
    assert data.smooth_mass[-1] < 1e-5
    assert np.exp(4.0) / 8.0 - data.energy[-1] < 1e-3


@pytest.mark.slow
def test_particles_stand_for_what_they_replaced(gathering):
    alone = SphereFlowMap(BUMP.law, tol=BUMP.tol, atom_radius=0.0)
    alone = mf.evolve(alone, mf.SA(4.0), 2.2, 1).dataset.isel(t=1)
    both = gathering.dataset.isel(t=1)
    assert both.n_atoms > 0 == alone.n_atoms
    assert both.smooth_mass < 0.1
    # of clusters of radius 1e-8
    assert float(both.energy) == pytest.approx(float(alone.energy), abs=1e-8)
    # the density of the whole measure is still known
    densities = gathering.pdf([[0.6, 0.0, 0.8], [0.0, 0.0, 1.0]], 2.2)
    assert densities[0] > 100.0 > densities[1] > 0.0
