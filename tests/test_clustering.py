"""Clusters of a measure on the scale of a radius."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def spread_points(dim, seed):
    """Tokens more than 0.3 rad apart, two to five of them."""
    rng = np.random.default_rng(seed)
    points = []
    while len(points) < 2 + seed % 4:
        x = unit(rng.normal(size=(1, dim)))[0]
        if all(np.arccos(np.clip(x @ y, -1, 1)) > 0.3 for y in points):
            points.append(x)
    return np.array(points)


@pytest.mark.parametrize("dim", [2, 3, 10, 128])
@given(st.integers(0, 100))
def test_atoms_far_apart_are_a_cluster_each(dim, seed):
    points = spread_points(dim, seed)
    masses = np.random.default_rng(seed).uniform(0.5, 1, len(points))
    found = mf.clusters(mf.Particles(points, masses, unit_mass=True))
    order = np.argsort(-masses)
    assert len(found) == len(points)
    assert np.allclose(found.masses, masses[order] / masses.sum(), rtol=1e-14)
    assert np.allclose(found.centres, points[order], rtol=0, atol=1e-14)
    assert np.max(found.radii) < 1e-7


def test_what_is_outside_is_told():
    light = mf.clusters(mf.Particles([[1.0, 0.0], [0.0, 1.0]], weights=[0.05, 0.95]))
    assert light.outside == pytest.approx(0.05, abs=1e-15)
    assert "masses=[0.95], outside=0.05, radii=[0.]" in repr(light)
    none = mf.clusters(mf.Density(mf.Circle(16), mf.Uniform(2)))
    assert (len(none), none.outside) == (0, 1.0)


def test_a_light_token_belongs_to_a_cluster_within_a_radius_of_it():
    """Of three in a row behind a heavy one the first has it in its ball, and is dense; the second
    is within a radius of the first; the third is nearer than two.
    """
    row, others = [0.0, 0.08, 0.15, 0.23], [1.0, 2.0, 3.0, 4.0, 5.0, 5.5, 6.0]
    angles, weights = np.array(row + others), [0.9] + [0.01] * 10
    found = mf.clusters(mf.Particles(np.column_stack([np.cos(angles), np.sin(angles)]), weights))
    assert found.masses == pytest.approx([0.92], rel=1e-14)


def test_a_dirac():
    found = mf.clusters(mf.Particles([[0.0, 0.0, 1.0]]))
    assert (len(found), found.masses[0], found.radii[0]) == (1, 1.0, 0.0)


@pytest.mark.parametrize(
    "space",
    [mf.Circle(8), mf.Circle(64), mf.Sphere(3), mf.Sphere(31), mf.Zonal(3, 3), mf.Zonal(20, 15)],
    ids=str,
)
def test_uniform_has_none(space):
    assert len(mf.clusters(mf.Density(space, mf.Uniform(space.dim)))) == 0
    if not isinstance(space, mf.Sphere):
        assert len(mf.clusters(mf.FlowMap(mf.Uniform(space.dim)))) == 0


@pytest.mark.parametrize("kind", ["density", "flow"])
@pytest.mark.parametrize("dim", [2, 3])
def test_bumps_have_their_masses_and_radii(kind, dim):
    """A narrow von Mises-Fisher law has E angle² = (d-1)/κ, the next order left out."""
    pole = np.eye(dim)[-1]
    law = mf.Mixture([mf.VonMisesFisher(pole, 800.0), mf.VonMisesFisher(-pole, 800.0)], [0.7, 0.3])
    space = mf.Circle(512) if dim == 2 else mf.Zonal(3, 191)
    mu = mf.FlowMap(law) if kind == "flow" else mf.Density(space, law)
    found = mf.clusters(mu, 0.2)
    assert len(found) == 2
    assert found.masses == pytest.approx([0.7, 0.3], rel=1e-4)
    assert np.max(np.abs(np.abs(found.centres @ pole) - 1)) < 1e-9
    assert found.radii == pytest.approx(np.sqrt((dim - 1) / 800.0), rel=1e-2)


@pytest.mark.slow
def test_bumps_on_the_sphere():
    means = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [-0.6, -0.8, 0.0]])
    law = mf.Mixture([mf.VonMisesFisher(m, 100.0) for m in means], [0.5, 0.3, 0.2])
    found = mf.clusters(mf.Density(mf.Sphere(95), law))
    assert found.masses == pytest.approx([0.5, 0.3, 0.2], abs=2e-3)
    assert np.max(np.abs(found.centres - means)) < 1e-3


@pytest.mark.slow
def test_caps_and_rings_of_an_axisymmetric_measure():
    law = mf.Mixture([mf.Uniform(3), mf.ZonalSeries(3, [0.0, 0.5])])
    sol = mf.evolve(mf.FlowMap(law), mf.SA(4.0), 12.0, 1)
    found = mf.clusters(sol.final)
    # symmetric about the equator: two caps, each about its pole
    assert found.masses == pytest.approx([0.5, 0.5], abs=1e-3)
    assert np.abs(found.centres[:, 2]) == pytest.approx([1, 1])
    # a belt around 60 degrees from the axis, (1 + cos(φ - π/3))^60 or so
    space = mf.Zonal(3, 255)
    polar = np.arccos(space.nodes)
    values = np.exp(-200.0 * (polar - np.pi / 3) ** 2)
    ring = mf.clusters(mf.Density(space, values / (space.weights @ values)))
    assert len(ring) == 1
    assert ring.centres[0, 2] == pytest.approx(0.5, abs=5e-3)
    assert ring.radii[0] == pytest.approx(0.05, rel=0.1)


def test_smooth_flow_maps_have_none():
    """Their nodes are coarser than the ball; what counts is the density, below 2 everywhere."""
    for law in (mf.FourierSeries(cos=[0.9]), mf.ZonalSeries(3, [0.9]), mf.Uniform(2)):
        assert len(mf.clusters(mf.FlowMap(law))) == 0


def test_a_trickle_does_not_join():
    angles = np.concatenate([[0.0] * 5, np.linspace(0, 1, 200), [1.0] * 5])
    masses = np.concatenate([np.full(5, 0.1), np.full(200, 1e-9), np.full(5, 0.1)])
    found = mf.clusters(
        mf.Particles(np.column_stack([np.cos(angles), np.sin(angles)]), masses, unit_mass=True)
    )
    assert len(found) == 2
    assert found.masses == pytest.approx([0.5, 0.5], abs=1e-6)
    # and with enough mass it does join
    masses[5:205] = 5e-3
    joined = mf.clusters(
        mf.Particles(np.column_stack([np.cos(angles), np.sin(angles)]), masses, unit_mass=True)
    )
    assert len(joined) == 1


@pytest.mark.slow
@given(st.integers(0, 2**31), st.permutations(range(60)))
def test_turned_and_permuted(seed, order):
    rng = np.random.default_rng(seed)
    centres = spread_points(3, 3)
    points = unit(np.repeat(centres, 12, axis=0) + 1e-3 * rng.normal(size=(60, 3)))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found = mf.clusters(mf.Particles(points))
    other = mf.clusters(mf.Particles(points[order] @ turn.T))
    assert len(found) == len(other) == 5
    assert np.allclose(np.sort(found.radii), np.sort(other.radii), rtol=0, atol=1e-9)
    gaps = np.abs((found.centres @ turn.T)[:, None] - other.centres).max(axis=2)
    assert np.max(gaps.min(axis=1)) < 1e-9


def test_uniform_has_none_below_the_grid_spacing():
    assert len(mf.clusters(mf.Density(mf.Circle(64), mf.Uniform(2)), 0.01)) == 0


def test_a_closed_ring_has_a_point_of_its_own_for_centre():
    half = np.arange(64) * np.pi / 64
    half = np.column_stack([np.cos(half), np.sin(half), 0 * half])
    points = np.vstack([half, -half])[np.arange(128).reshape(2, -1).T.ravel()]
    assert np.linalg.norm(points.sum(axis=0)) < 1e-12
    found = mf.clusters(mf.Particles(points))
    assert len(found) == 1
    assert np.max(points @ found.centres[0]) == pytest.approx(1, abs=1e-15)
    # the rms of an angle uniform in [0, π], to the second order of the spacing
    assert found.radii[0] == pytest.approx(np.pi / np.sqrt(3), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "spread"), [(3, 1e-6), (3, 0.03), (10, 1e-6)])
def test_many_points_in_a_small_ball(dim, spread):
    """All of their 5e9 pairs would take 40 GB."""
    rng = np.random.default_rng(0)
    points = unit(np.eye(dim)[-1] + spread * rng.normal(size=(100_000, dim)))
    found = mf.clusters(mf.Particles(points))
    assert len(found) == 1
    assert found.radii[0] == pytest.approx(np.sqrt(dim - 1) * spread, rel=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"radius": 0.0}, r"radius must be .* got 0"), ({"radius": 2.0}, r"radius must be .* got 2")],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        mf.clusters(mf.Particles([[1.0, 0.0]]), **arguments)
    with pytest.raises(ValueError, match="measure must be"):
        mf.clusters(mf.Uniform(2))
