"""Clusters of a measure on the scale of a radius."""

import importlib
import tracemalloc

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from validation.clusters import lost_mass, meridians

# the name in the package is that of the function
module = importlib.import_module("meanfield.measures.clusters")


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


CLOSE = mf.FourierSeries(cos=[-0.03, -0.08, -0.07, -0.05], sin=[-0.04, 0.08, -0.02, -0.07])
MEANS = unit(np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [-1.0, 0.3, -1.0]]))
BUMPS = mf.Mixture([mf.VonMisesFisher(mean, 6.0) for mean in MEANS], [0.5, 0.3, 0.2])


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


@pytest.mark.parametrize(
    ("dim", "radius"), [(2, 0.1), (3, 0.1), (30, 1.0), (100, 1.0), (300, 0.8), (768, 1.0)]
)
def test_an_atom_is_a_cluster_from_its_share_of_sigma_on(dim, radius):
    """Its smoothed density is its mass over that of the kernel, which Gauss nodes integrate."""
    width = np.sqrt(7 / 3) * radius
    nodes, weights = np.polynomial.legendre.leggauss(400)
    angles = 0.5 * width * (nodes + 1)
    kernel = (1 - (np.sin(angles / 2) / np.sin(width / 2)) ** 2) ** 2
    ratio = scipy.special.gammaln(dim / 2) - scipy.special.gammaln((dim - 1) / 2)
    latitudes = np.exp(ratio + (dim - 2) * np.log(np.sin(angles))) / np.sqrt(np.pi)
    least = 2 * 0.5 * width * (weights @ (kernel * latitudes))
    poles = np.outer([1.0, -1.0], np.eye(dim)[0])
    for mass, count in ((0.999 * least, 1), (1.001 * least, 2)):
        assert len(mf.clusters(mf.Particles(poles, [1 - mass, mass]), radius)) == count


@pytest.mark.parametrize(("dim", "radius"), [(768, 0.5), (1000, 0.3), (4096, 0.2), (10_000, 0.1)])
def test_tokens_apart_are_clusters_in_any_dimension(dim, radius):
    """σ has nothing within a radius there, and the logarithm of that is a number."""
    some = mf.clusters(mf.Particles(np.eye(dim)[:3]), radius)
    assert len(some) == 3


def test_tokens_with_one_sign_are_apart_in_many_dimensions():
    """In 20,000 dimensions all coordinates may be small, and two tokens a quarter turn apart."""
    halves = unit(np.repeat(np.eye(2), 10_000, axis=1))
    some = mf.clusters(mf.Particles(halves), 1.0)
    assert len(some) == 2
    assert some.radii.max() < 1e-12


def test_a_light_token_belongs_to_a_cluster_within_a_radius_of_it():
    """Three stand in a row behind a heavy one: the first has it in its ball, and is dense; the
    second is within a radius of the first; the third is nearer than two.
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


@pytest.mark.parametrize("radius", [0.05, 0.02, 0.003])
def test_smooth_measures_have_none_below_the_spacing_of_their_points(radius):
    law = mf.FourierSeries(cos=[0.4])
    for measure in (mf.Density(mf.Circle(64), law), mf.FlowMap(mf.Uniform(2)), mf.FlowMap(law)):
        assert len(mf.clusters(measure, radius)) == 0
    spread = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 100.0))
    final = mf.evolve(spread, mf.SA(0.5, sign=-1), 12.0, 1).final
    assert np.exp(final.log_density.max()) < 1.6
    assert len(mf.clusters(final, radius)) == 0


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


@pytest.mark.slow
def test_a_stretched_node_hides_no_cluster_on_the_circle():
    """Nodes between two clusters have next to no mass, however far they have come apart."""
    sol = mf.evolve(mf.FlowMap(CLOSE), mf.SA(4.0), 30.0, 100)
    for flow in sol.measures:
        some, tokens = mf.clusters(flow), mf.clusters(mf.Particles(flow.points, flow.weights))
        assert len(some) == len(tokens)
        np.testing.assert_allclose(some.masses, tokens.masses, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(some.labels, tokens.labels)
    assert np.all(sol.dataset.n_clusters[30:] == 2)
    late = mf.clusters(sol.measures[58])
    assert late.masses == pytest.approx([0.628, 0.372], abs=1e-3)
    assert late.radii.max() < 2e-5


@pytest.mark.slow
def test_no_cluster_vanishes_under_attraction():
    """Nodes keep their mass and their order: what was a cluster is inside one at the next save."""
    rng = np.random.default_rng(34)
    for beta in (2.0, 4.0, 9.0):
        law = mf.FourierSeries(cos=0.07 * rng.normal(size=5), sin=0.07 * rng.normal(size=5))
        sol = mf.evolve(mf.FlowMap(law, tol=1e-9), mf.SA(beta), 30.0, 40)
        # the mass up to each node is its name, since panels split
        earlier = []
        for flow in sol.measures:
            names, some = np.cumsum(flow.weights) - 0.5 * flow.weights, mf.clusters(flow)
            assert lost_mass(earlier, names, some.labels) < 0.1
            members = [some.labels == index for index in range(len(some))]
            earlier = [(names[rows], flow.weights[rows]) for rows in members]
        assert len(some) >= 1


def runs_about_an_axis():
    rng = np.random.default_rng(5)
    for beta in (2.0, 4.0, 6.0):
        law = mf.ZonalSeries(3, 0.08 * rng.normal(size=5))
        yield mf.evolve(mf.FlowMap(law, tol=1e-9), mf.SA(beta), 12.0, 8)


@pytest.mark.slow
def test_rings_are_those_of_their_tokens():
    for sol in runs_about_an_axis():
        for flow in sol.measures:
            some, tokens = mf.clusters(flow), mf.clusters(meridians(flow))
            assert len(some) == len(tokens)
            if len(some) and some.radii.max() < 0.02:
                np.testing.assert_allclose(some.masses, tokens.masses, rtol=0, atol=1e-3)
        assert len(some) >= 1


@pytest.mark.slow
def test_rings_are_those_of_the_density():
    """Until there are atoms: the rule by itself at 10,000 latitudes, each ring by its points."""
    polar = np.pi * (np.arange(10_000) + 0.5) / 10_000
    meridian = np.column_stack([np.sin(polar), 0 * polar, np.cos(polar)])
    places = np.linspace(0, np.pi, 401)
    width, turns = np.sqrt(7 / 3) * 0.1, np.pi * (np.arange(200) + 0.5) / 200
    kernel = np.zeros((len(places), len(polar)))
    for turn in turns:
        squared = 2 - 2 * np.cos(places)[:, None] * np.cos(polar)
        squared -= 2 * np.sin(places)[:, None] * np.sin(polar) * np.cos(turn)
        kernel += np.maximum(1 - squared / (2 * np.sin(width / 2)) ** 2, 0) ** 2
    uniform = 0.5 * np.sin(polar) * np.pi / 10_000
    for sol in runs_about_an_axis():
        for t, flow in zip(sol.t[:5], sol.measures[:5], strict=True):
            masses = sol.pdf(meridian, t) * uniform
            smooth = (kernel @ masses) / (kernel @ uniform)
            dense = places[smooth >= 2]
            some = mf.clusters(flow)
            inside = np.abs(polar[:, None] - dense).min(axis=1, initial=9) <= 0.1
            assert 1 - some.outside == pytest.approx(masses[inside].sum(), abs=1e-2)
            assert len(some) == np.sum(np.diff(dense, prepend=-9) > 0.1)


@pytest.mark.slow
def test_clusters_on_the_sphere_are_those_of_its_tokens():
    """A ball of mass m has m ± sqrt(m/n) of n tokens: 4 % where it decides, 3e-3 of the mass."""
    flows = mf.evolve(mf.FlowMap(BUMPS, tol=1e-6), mf.SA(4.0), 3.0, 3)
    drawn = mf.Particles.sample(BUMPS, 100_000, 1)
    tokens = mf.evolve(drawn, mf.SA(4.0), 3.0, 3, rtol=1e-5, atol=1e-7)
    for flow, sample in zip(flows.measures, tokens.measures, strict=True):
        some, other = mf.clusters(flow), mf.clusters(sample)
        assert len(some) == len(other) > 0
        np.testing.assert_allclose(some.masses, other.masses, rtol=0, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "law", "t"),
    [
        (mf.Circle(512), CLOSE, 5.0),
        (mf.Zonal(3, 127), mf.ZonalSeries(3, [0.1, 0.1, 0.15]), 2.5),
        (mf.Sphere(95), BUMPS, 0.8),
    ],
    ids=str,
)
def test_nothing_happens_at_a_hand_over(space, law, t):
    """One radius for all: both end a cluster at a point of theirs, so differ by such masses."""
    flow = mf.evolve(mf.FlowMap(law), mf.SA(4.0), t, 1).final
    density = mf.evolve(mf.Density(space, law), mf.SA(4.0), t, 1).final
    some, other = mf.clusters(flow), mf.clusters(density)
    assert len(some) == len(other) > 0
    ends = 2 * flow.weights.max() if space.dim == 2 else 2e-3
    np.testing.assert_allclose(some.masses, other.masses, rtol=0, atol=ends)
    whole = mf.clusters(mf.FlowMap(law)), mf.clusters(mf.Density(space, law))
    assert len(whole[0]) == len(whole[1])


@pytest.mark.slow
def test_zonal_densities_have_the_clusters_that_they_have_on_the_sphere():
    law = mf.Mixture([mf.VonMisesFisher([0, 0, 1.0], 40.0), mf.Uniform(3)], [0.4, 0.6])
    whole = mf.clusters(mf.Density(mf.Sphere(127), law))
    for measure in (mf.Density(mf.Zonal(3, 127), law), mf.FlowMap(law)):
        some = mf.clusters(measure)
        assert len(some) == len(whole) == 1
        # on S^2 the cluster ends at points of a grid, 0.016 apart
        assert some.masses == pytest.approx(whole.masses, abs=3e-3)
        assert some.radii == pytest.approx(whole.radii, rel=1e-2)
        assert np.abs(some.centres - whole.centres).max() < 1e-3


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_a_cluster_that_holds_both_poles_has_its_centre_at_the_nearer(share):
    pole = np.eye(30)[-1]
    caps = [mf.VonMisesFisher(pole, 18.0), mf.VonMisesFisher(-pole, 18.0)]
    some = mf.clusters(mf.Density(mf.Zonal(30, 60), mf.Mixture(caps, [share, 1 - share])), 0.9)
    assert some.masses == pytest.approx([1.0], abs=1e-12)
    assert some.centres[0] == pytest.approx(pole if share > 0.5 else -pole, abs=1e-12)


@pytest.mark.parametrize(
    ("coarse", "fine", "law"),
    [
        (mf.Circle(16), mf.Circle(1024), mf.FourierSeries(cos=[0.9, 0.5])),
        (mf.Sphere(15), mf.Sphere(95), mf.VonMisesFisher([0.6, 0, 0.8], 6.0)),
    ],
    ids=["circle", "sphere"],
)
def test_a_coarse_grid_has_the_clusters_of_a_fine_one(coarse, fine, law):
    """Points are half a radius apart: a cluster ends that far off, where the density is about 1."""
    some, other = (mf.clusters(mf.Density(space, law)) for space in (coarse, fine))
    assert len(some) == len(other) == 1
    assert some.masses == pytest.approx(other.masses, abs=2 * 0.05 / (2 * np.pi))
    assert some.radii == pytest.approx(other.radii, abs=0.05)


def test_caps_far_narrower_than_the_radius():
    pole = np.eye(3)[2]
    bumps = [mf.VonMisesFisher(pole, 4e4), mf.VonMisesFisher(-pole, 4e4)]
    some = mf.clusters(mf.Density(mf.Zonal(3, 1023), mf.Mixture(bumps, [0.7, 0.3])))
    assert some.masses == pytest.approx([0.7, 0.3], rel=1e-9)
    assert some.radii == pytest.approx(np.sqrt(2 / 4e4), rel=1e-4)


@pytest.mark.parametrize("dim", [3, 30, 500])
def test_uniform_about_an_axis_has_none_in_any_dimension(dim):
    assert len(mf.clusters(mf.Density(mf.Zonal(dim, 20), mf.Uniform(dim)))) == 0


@pytest.mark.parametrize("n", [900, 1200])
def test_tokens_alone_are_clusters_however_many(n):
    points = unit(np.random.default_rng(n).normal(size=(n, 50)))
    some = mf.clusters(mf.Particles(points))
    assert len(some) == n
    assert np.array_equal(np.sort(some.labels), np.arange(n))
    heavy = mf.clusters(mf.Particles(points), min_mass=1.5 / n)
    assert (len(heavy), heavy.outside) == (0, 1.0)


@pytest.mark.parametrize(("size", "count"), [(6, 2), (10, 2), (7, 4), (10, 6)])
def test_a_cluster_of_just_the_least_mass_is_one(size, count):
    """The sum of its tokens' masses may be less than their number over that of all, by rounding."""
    points = np.repeat(np.eye(count), size, axis=0)
    some = mf.clusters(mf.Particles(points), min_mass=size / len(points))
    assert len(some) == count


def test_labels_say_which_token_is_where():
    rng = np.random.default_rng(1)
    points = unit(np.eye(40)[rng.integers(3, size=500)] + 1e-3 * rng.normal(size=(500, 40)))
    weights = rng.uniform(size=500)
    some = mf.clusters(mf.Particles(points, weights, unit_mass=True))
    assert len(some) == 3
    sums = np.bincount(some.labels, weights / weights.sum())
    np.testing.assert_allclose(some.masses, sums, rtol=1e-13)
    np.testing.assert_array_equal(np.argmax(points @ some.centres.T, axis=1), some.labels)
    light = mf.clusters(mf.Particles(points, weights, unit_mass=True), min_mass=sums[1])
    np.testing.assert_array_equal(light.labels, np.where(some.labels < 2, some.labels, -1))


@pytest.mark.parametrize(
    "measure",
    [
        mf.Density(mf.Sphere(15), mf.VonMisesFisher([0, 0, 1.0], 8.0)),
        mf.Density(mf.Zonal(3, 15), mf.VonMisesFisher([0, 0, 1.0], 8.0)),
        mf.FlowMap(BUMPS, tol=1e-4),
        mf.FlowMap(mf.FourierSeries(cos=[0.9, 0.6])),
    ],
    ids=["sphere", "zonal", "mesh", "line"],
)
def test_labels_are_of_the_points_of_the_measure(measure):
    some = mf.clusters(measure)
    assert some.labels.shape == (len(measure.points),)
    assert set(some.labels) == set(range(-1, len(some)))
    inside = np.bincount(some.labels[some.labels >= 0], measure.weights[some.labels >= 0])
    # grids coarser than the radius end elsewhere than the cluster
    np.testing.assert_allclose(inside, some.masses, rtol=0.2)


def test_atoms_label_their_nodes():
    flow = mf.evolve(mf.FlowMap(mf.FourierSeries(cos=[0.5])), mf.SA(2.0), 30.0, 1).final
    some = flow.atoms
    assert len(some) >= 1
    for index, mass in enumerate(some.masses):
        assert flow.weights[some.labels == index].sum() == pytest.approx(mass, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 0.004])
def test_many_tokens_in_many_dimensions_take_little_memory(spread):
    """The squared distances of all pairs would take 3.2 GB, a copy of the points takes 16 MB."""
    rng = np.random.default_rng(0)
    noise = spread * rng.normal(size=(20_000, 100))
    points = unit(np.eye(100)[rng.integers(9, size=20_000)] + noise)
    tokens = mf.Particles(points)
    mf.clusters(mf.Particles(points[:10]))
    tracemalloc.start()
    some = mf.clusters(tokens)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(some) == (20_000 if spread == 1.0 else 9)
    assert peak < 200e6


@pytest.mark.parametrize("dim", [3, 40])
def test_components_are_those_of_all_pairs(dim, monkeypatch):
    """By trees and by products, over tiles that a component crosses, few edges at a time."""
    rng = np.random.default_rng(dim)
    steps = np.cumsum(0.02 * rng.normal(size=(400, dim)), axis=0)
    points = unit(rng.normal(size=(6, 1, dim)) + steps.reshape(4, 100, dim)[[0, 1, 2, 3, 0, 1]])
    points = points.reshape(-1, dim)[rng.permutation(600)]
    monkeypatch.setattr(module, "_MOST_EDGES", 100)
    monkeypatch.setattr(module, "_ROWS", 50)
    monkeypatch.setattr(module, "_COLUMNS", 70)
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    for distance in (0.05, 0.15, 0.5):
        labels = module._Neighbours(points, distance).components(distance)
        count, expected = scipy.sparse.csgraph.connected_components(apart <= distance)
        assert len(np.unique(labels)) == count
        assert len(set(zip(labels.tolist(), expected.tolist(), strict=True))) == count
        nearest = module._Neighbours(points[:300], distance).nearest(
            points[300:], np.arange(300), distance
        )
        least = apart[300:, :300].argmin(axis=1)
        right = np.where(apart[300:, :300].min(axis=1) <= distance, least, -1)
        np.testing.assert_array_equal(nearest, right)


@pytest.mark.slow
def test_three_clusters_stand_on_one_plateau():
    found = mf.studies.metastability([mf.SA(5.0)], rng=0, t_end=100.0)
    counts = found.plateau_n_clusters.values
    assert counts[0, np.isfinite(counts[0])].tolist() == [3, 2]


def test_a_radius_below_all_points_is_refused():
    for measure in (
        mf.Density(mf.Sphere(15), mf.Uniform(3)),
        mf.FlowMap(BUMPS, tol=1e-4),
        mf.FlowMap(mf.Uniform(3)),
    ):
        with pytest.raises(ValueError, match=r"radius must be larger for .* got 1e-05"):
            mf.clusters(measure, 1e-5)
