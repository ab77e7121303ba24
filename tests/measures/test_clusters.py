"""Clusters of a measure on the scale of a radius."""

import importlib
import tracemalloc

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from tests.handmade import slow, unit_points

# the name in the package is that of the function
module = importlib.import_module("meanfield.measures.clusters")
from_angles = mf.Particles.from_angles
NORTH = np.array([0.0, 0.0, 1.0])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def two_caps(dim, kappa, share):
    pole = np.eye(dim)[-1]
    caps = [mf.VonMisesFisher(pole, kappa), mf.VonMisesFisher(-pole, kappa)]
    return mf.Mixture(caps, [share, 1.0 - share])


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


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize("dim", [2, slow(3), slow(10), 128])
@given(st.integers(0, 100))
def test_atoms_far_apart_are_a_cluster_each(dim, seed):
    points = spread_points(dim, seed)
    masses = np.random.default_rng(seed).uniform(0.5, 1, len(points))
    clusters = mf.clusters(mf.Particles(points, masses, unit_mass=True))
    order = np.argsort(-masses)
    assert len(clusters) == len(points)
    assert np.allclose(clusters.masses, masses[order] / masses.sum(), rtol=1e-14)
    assert np.allclose(clusters.centres, points[order], rtol=0, atol=1e-14)
    # the arccos of a rounded cosine
    assert np.max(clusters.radii) < 1e-7


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
    assert len(mf.clusters(mf.Particles(np.eye(3, dim)), radius)) == 3


def test_tokens_with_one_sign_are_apart_in_many_dimensions():
    """In 20,000 dimensions all coordinates may be small, and two tokens a quarter turn apart."""
    clusters = mf.clusters(mf.Particles(unit(np.repeat(np.eye(2), 10_000, axis=1))), 1.0)
    assert len(clusters) == 2
    # rounding of squared distances
    assert clusters.radii.max() < 1e-12


def test_a_light_token_belongs_to_a_cluster_within_a_radius_of_it():
    """Three stand in a row behind a heavy one: the first has it in its ball, and is dense; the
    second is within a radius of the first; the third is nearer than two.
    """
    angles = [0.0, 0.08, 0.15, 0.23, 1.0, 2.0, 3.0, 4.0, 5.0, 5.5, 6.0]
    clusters = mf.clusters(from_angles(angles, [0.9] + [0.01] * 10))
    assert clusters.masses == pytest.approx([0.92], rel=1e-14)


def test_a_trickle_does_not_join():
    angles = np.concatenate([[0.0] * 5, np.linspace(0, 1, 200), [1.0] * 5])
    # the mass of the trickle is 2e-7, half of which may go to either side
    for light, expected, tol in (1e-9, [0.5, 0.5], 1e-6), (5e-3, [1.0], 1e-14):
        masses = np.concatenate([[0.1] * 5, [light] * 200, [0.1] * 5])
        clusters = mf.clusters(from_angles(angles, masses, unit_mass=True))
        assert clusters.masses == pytest.approx(expected, abs=tol)


@given(st.integers(0, 2**31), st.permutations(range(60)))
def test_turned_and_permuted(seed, order):
    rng = np.random.default_rng(seed)
    points = unit(np.repeat(spread_points(3, 3), 12, axis=0) + 1e-3 * rng.normal(size=(60, 3)))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    clusters, turned = (mf.clusters(mf.Particles(x)) for x in (points, points[order] @ turn.T))
    assert len(clusters) == len(turned) == 5
    # masses are alike, so their order may change; angles of 1e-3 are rounded by 1e-13 or so
    assert np.allclose(np.sort(clusters.radii), np.sort(turned.radii), rtol=0, atol=1e-9)
    gaps = np.abs((clusters.centres @ turn.T)[:, None] - turned.centres).max(axis=2)
    assert np.max(gaps.min(axis=1)) < 1e-9


def test_a_closed_ring_has_a_point_of_its_own_for_centre():
    half = np.arange(64) * np.pi / 64
    half = np.column_stack([np.cos(half), np.sin(half), 0 * half])
    points = np.vstack([half, -half])[np.arange(128).reshape(2, -1).T.ravel()]
    assert np.linalg.norm(points.sum(axis=0)) < 1e-12
    clusters = mf.clusters(mf.Particles(points))
    assert len(clusters) == 1
    assert np.max(points @ clusters.centres[0]) == pytest.approx(1, abs=1e-15)
    # the rms of an angle uniform in [0, π], to the second order of the spacing
    assert clusters.radii[0] == pytest.approx(np.pi / np.sqrt(3), rel=1e-3)


@pytest.mark.parametrize(("dim", "spread"), [(3, 1e-6), slow(3, 0.03), (10, 1e-6)])
def test_many_points_in_a_small_ball(dim, spread):
    """All of their 9e8 pairs would take 7 GB."""
    rng = np.random.default_rng(0)
    points = unit(np.eye(dim)[-1] + spread * rng.normal(size=(30_000, dim)))
    clusters = mf.clusters(mf.Particles(points))
    assert len(clusters) == 1
    # a share of 1/sqrt(2 · 30,000) of chance, and places a 64th of the radius wide
    assert clusters.radii[0] == pytest.approx(np.sqrt(dim - 1) * spread, rel=1e-2)


@pytest.mark.parametrize("n", [900, 1200])
def test_tokens_alone_are_clusters_however_many(n):
    tokens = mf.Particles(unit(np.random.default_rng(n).normal(size=(n, 50))))
    clusters = mf.clusters(tokens)
    assert len(clusters) == n
    assert np.array_equal(np.sort(clusters.labels), np.arange(n))
    heavy = mf.clusters(tokens, min_mass=1.5 / n)
    assert (len(heavy), heavy.outside) == (0, 1.0)


@pytest.mark.parametrize(("size", "count"), [(6, 2), (10, 2), (7, 4), (10, 6)])
def test_a_cluster_of_just_the_least_mass_is_one(size, count):
    """The sum of its tokens' masses may be less than their number over that of all, by rounding."""
    points = np.repeat(np.eye(count), size, axis=0)
    assert len(mf.clusters(mf.Particles(points), min_mass=size / len(points))) == count


def test_labels_say_which_token_is_where():
    rng = np.random.default_rng(1)
    points = unit(np.eye(40)[rng.integers(3, size=500)] + 1e-3 * rng.normal(size=(500, 40)))
    tokens = mf.Particles(points, rng.uniform(size=500), unit_mass=True)
    clusters = mf.clusters(tokens)
    assert len(clusters) == 3
    sums = np.bincount(clusters.labels, tokens.weights)
    np.testing.assert_allclose(clusters.masses, sums, rtol=1e-13)
    nearest = np.argmax(points @ clusters.centres.T, axis=1)
    np.testing.assert_array_equal(nearest, clusters.labels)
    heavy = mf.clusters(tokens, min_mass=sums[1])
    np.testing.assert_array_equal(heavy.labels, np.where(clusters.labels < 2, clusters.labels, -1))


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 0.004])
def test_many_tokens_in_many_dimensions_take_little_memory(spread):
    """The squared distances of all pairs would take 512 MB, a copy of the points takes 6 MB."""
    rng, n = np.random.default_rng(0), 8000
    noise = spread * rng.normal(size=(n, 100))
    tokens = mf.Particles(unit(np.eye(100)[rng.integers(9, size=n)] + noise))
    mf.clusters(mf.Particles(tokens.points[:10]))
    tracemalloc.start()
    clusters = mf.clusters(tokens)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(clusters) == (n if spread == 1.0 else 9)
    # beside a few tiles of distances no more edges are held than there are places
    assert peak < 64e6


def test_what_is_one_has_few_edges(monkeypatch):
    """A graph of all pairs of 4000 places in one cap within the distance would have 8e6 edges."""
    rng, n, counts = np.random.default_rng(2), 4000, []
    united = module._united

    def spy(labels, edges):
        counts.append(sum(part.shape[1] for part in edges))
        return united(labels, edges)

    monkeypatch.setattr(module, "_united", spy)
    cap = unit(np.array([0.0, 0.0, 1.0]) + 0.04 * rng.uniform(-1.0, 1.0, size=(n, 3)))
    assert module._Neighbours(cap, 0.15).components(0.15).max() == 0
    # once the first tile is one, each later place has an edge to the places of one tile at most
    assert sum(counts) < module._NEIGHBOURS * n
    # a tile more may come before the next count
    assert max(counts) < n + module._NEIGHBOURS * n


def test_tiles_are_compact():
    """Pairs that are looked at are few times those within the distance, as parts are branches."""
    points, distance = unit_points(3, 20_000, 3), 0.15
    tiles = list(module._Neighbours(points, distance).tiles(distance))
    pairs = sum(len(rows) * len(columns) for rows, columns in tiles)
    # each pair in a tile once, of a share (chord/2)² of the sphere
    within = 0.5 * len(points) ** 2 * 0.25 * distance**2
    # 78 places fill a square with half a diagonal of 0.16: (0.31/0.15)² = 4.3; boxes are longer
    assert pairs < 6.0 * within
    assert max(len(rows) for rows, _ in tiles) <= module._NEIGHBOURS


@pytest.mark.parametrize("dim", [3, slow(40)])
def test_components_are_those_of_all_pairs(dim, monkeypatch):
    """By trees and by products, over tiles that a component crosses, few edges at a time."""
    rng = np.random.default_rng(dim)
    steps = np.cumsum(0.02 * rng.normal(size=(400, dim)), axis=0)
    points = unit(rng.normal(size=(6, 1, dim)) + steps.reshape(4, 100, dim)[[0, 1, 2, 3, 0, 1]])
    points = points.reshape(-1, dim)[rng.permutation(600)]
    for name, size in ("_NEIGHBOURS", 20), ("_ROWS", 50), ("_COLUMNS", 70):
        monkeypatch.setattr(module, name, size)
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


# ---------------------------------------------------------------- densities and flow maps


@pytest.mark.parametrize(
    "measure",
    [
        *(mf.Density(mf.Circle(n), mf.Uniform(2)) for n in (8, 64)),
        *(mf.Density(mf.Sphere(n), mf.Uniform(3)) for n in (3, 31)),
        mf.Density(mf.Zonal(3, 3), mf.Uniform(3)),
        *(mf.Density(mf.Zonal(dim, 20), mf.Uniform(dim)) for dim in (20, 30, 500)),
        *(mf.FlowMap(mf.Uniform(dim)) for dim in (2, 3, 20)),
        # nodes are coarser than the ball; what counts is the density, below 2 everywhere
        mf.FlowMap(mf.FourierSeries(cos=[0.9])),
        mf.FlowMap(mf.ZonalSeries(3, [0.9])),
    ],
    ids=str,
)
def test_what_is_nowhere_dense_has_none(measure):
    assert len(mf.clusters(measure)) == 0


@pytest.mark.parametrize("radius", [0.05, 0.02, slow(0.003)])
def test_smooth_measures_have_none_below_the_spacing_of_their_points(radius):
    law = mf.FourierSeries(cos=[0.4])
    for measure in (mf.Density(mf.Circle(64), law), mf.FlowMap(mf.Uniform(2)), mf.FlowMap(law)):
        assert len(mf.clusters(measure, radius)) == 0


@pytest.mark.slow
def test_a_flow_map_that_has_spread_has_none():
    spread = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 100.0))
    final = mf.evolve(spread, mf.SA(0.5, sign=-1), 12.0, 1).final
    assert np.exp(final.log_density.max()) < 1.6
    assert [len(mf.clusters(final, radius)) for radius in (0.05, 0.02, 0.003)] == [0, 0, 0]


@pytest.mark.parametrize("kind", ["density", "flow"])
@pytest.mark.parametrize("dim", [2, 3])
def test_bumps_have_their_masses_and_radii(kind, dim):
    """A narrow von Mises-Fisher law has E angle² = (d-1)/κ, the next order left out."""
    law = two_caps(dim, 800.0, 0.7)
    space = mf.Circle(512) if dim == 2 else mf.Zonal(3, 191)
    clusters = mf.clusters(mf.FlowMap(law) if kind == "flow" else mf.Density(space, law), 0.2)
    # all but the tail of a bump beyond where it is dense
    assert clusters.masses == pytest.approx([0.7, 0.3], rel=1e-4)
    assert np.max(np.abs(np.abs(clusters.centres[:, -1]) - 1)) < 1e-9
    assert clusters.radii == pytest.approx(np.sqrt((dim - 1) / 800.0), rel=1e-2)


@pytest.mark.slow
def test_bumps_on_the_sphere():
    means = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [-0.6, -0.8, 0.0]])
    law = mf.Mixture([mf.VonMisesFisher(m, 100.0) for m in means], [0.5, 0.3, 0.2])
    clusters = mf.clusters(mf.Density(mf.Sphere(95), law))
    # the tails of bumps, to points of a grid 0.02 apart
    assert clusters.masses == pytest.approx([0.5, 0.3, 0.2], abs=2e-3)
    assert np.max(np.abs(clusters.centres - means)) < 1e-3


def test_caps_far_narrower_than_the_radius():
    law, kappa = two_caps(3, 4e4, 0.7), 4e4
    clusters = mf.clusters(mf.Density(mf.Zonal(3, 1023), law))
    assert clusters.masses == pytest.approx([0.7, 0.3], rel=1e-9)
    # the next order in 1/κ
    assert clusters.radii == pytest.approx(np.sqrt(2 / kappa), rel=1e-4)


def test_caps_and_rings_of_an_axisymmetric_measure():
    law = mf.Mixture([mf.Uniform(3), mf.ZonalSeries(3, [0.0, 0.5])])
    clusters = mf.clusters(mf.evolve(mf.FlowMap(law), mf.SA(4.0), 12.0, 1).final)
    # symmetric about the equator: two caps, each about its pole, where 1e-3 has not yet come to
    assert clusters.masses == pytest.approx([0.5, 0.5], abs=1e-3)
    assert np.abs(clusters.centres[:, 2]) == pytest.approx([1, 1])
    # a belt around 60 degrees from the axis, of deviation 1/20 as seen along a meridian
    space = mf.Zonal(3, 255)
    values = np.exp(-200.0 * (np.arccos(space.nodes) - np.pi / 3) ** 2)
    ring = mf.clusters(mf.Density(space, values / (space.weights @ values)))
    assert len(ring) == 1
    # sin θ of the area moves the belt by its variance
    assert ring.centres[0, 2] == pytest.approx(0.5, abs=5e-3)
    assert ring.radii[0] == pytest.approx(0.05, rel=0.1)


@pytest.mark.slow
def test_zonal_densities_have_the_clusters_that_they_have_on_the_sphere():
    law = mf.Mixture([mf.VonMisesFisher(NORTH, 40.0), mf.Uniform(3)], [0.4, 0.6])
    whole = mf.clusters(mf.Density(mf.Sphere(95), law))
    for measure in (mf.Density(mf.Zonal(3, 127), law), mf.FlowMap(law)):
        clusters = mf.clusters(measure)
        assert len(clusters) == len(whole) == 1
        # on S^2 the cluster ends at points of a grid, 0.02 apart
        assert clusters.masses == pytest.approx(whole.masses, abs=3e-3)
        assert clusters.radii == pytest.approx(whole.radii, rel=1e-2)
        assert np.abs(clusters.centres - whole.centres).max() < 1e-3


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_a_cluster_that_holds_both_poles_has_its_centre_at_the_nearer(share):
    pole = np.eye(30)[-1]
    clusters = mf.clusters(mf.Density(mf.Zonal(30, 60), two_caps(30, 18.0, share)), 0.9)
    assert clusters.masses == pytest.approx([1.0], abs=1e-12)
    assert clusters.centres[0] == pytest.approx(pole if share > 0.5 else -pole, abs=1e-12)


@pytest.mark.parametrize(
    ("coarse", "fine", "law"),
    [
        (mf.Circle(16), mf.Circle(1024), mf.FourierSeries(cos=[0.9, 0.5])),
        (mf.Sphere(15), mf.Sphere(47), mf.VonMisesFisher([0.6, 0, 0.8], 6.0)),
    ],
    ids=["circle", "sphere"],
)
def test_a_coarse_grid_has_the_clusters_of_a_fine_one(coarse, fine, law):
    """Points are half a radius apart: a cluster ends that far off, where the density is about 1."""
    clusters, exact = (mf.clusters(mf.Density(space, law)) for space in (coarse, fine))
    assert len(clusters) == len(exact) == 1
    assert clusters.masses == pytest.approx(exact.masses, abs=2 * 0.05 / (2 * np.pi))
    assert clusters.radii == pytest.approx(exact.radii, abs=0.05)


@pytest.mark.parametrize(
    "measure",
    [
        mf.Density(mf.Sphere(15), mf.VonMisesFisher(NORTH, 8.0)),
        mf.Density(mf.Zonal(3, 15), mf.VonMisesFisher(NORTH, 8.0)),
        mf.FlowMap(BUMPS, tol=1e-4),
        mf.FlowMap(mf.FourierSeries(cos=[0.9, 0.6])),
    ],
    ids=["sphere", "zonal", "mesh", "line"],
)
def test_labels_are_of_the_points_of_the_measure(measure):
    clusters = mf.clusters(measure)
    assert clusters.labels.shape == (len(measure.points),)
    assert set(clusters.labels) == set(range(-1, len(clusters)))
    is_inside = clusters.labels >= 0
    masses = np.bincount(clusters.labels[is_inside], measure.weights[is_inside])
    # grids coarser than the radius end elsewhere than the cluster
    np.testing.assert_allclose(masses, clusters.masses, rtol=0.2)


# ---------------------------------------------------------------- along runs


@pytest.fixture(scope="module")
def close():
    """Two clusters form near one another on the circle."""
    law = mf.FourierSeries(cos=[-0.03, -0.08, -0.07, -0.05], sin=[-0.04, 0.08, -0.02, -0.07])
    return law, mf.evolve(mf.FlowMap(law, tol=1e-9), mf.SA(4.0), 30.0, [5.0, 9.0, 17.4, 30.0])


def test_a_stretched_node_hides_no_cluster_on_the_circle(close):
    """Nodes between two clusters have next to no mass, however far they have come apart."""
    _, sol = close
    for flow in sol.measures:
        clusters, tokens = mf.clusters(flow), mf.clusters(mf.Particles(flow.points, flow.weights))
        assert len(clusters) == len(tokens)
        np.testing.assert_allclose(clusters.masses, tokens.masses, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(clusters.labels, tokens.labels)
    assert np.all(sol.dataset.n_clusters[2:] == 2)
    late = mf.clusters(sol.measures[-2])
    # the masses are those of the basins, known to three digits
    assert late.masses == pytest.approx([0.628, 0.372], abs=1e-3)
    assert late.radii.max() < 2e-5


def test_atoms_label_their_nodes(close):
    flow = close[1].final
    assert len(flow.atoms) >= 1
    for index, mass in enumerate(flow.atoms.masses):
        assert flow.weights[flow.atoms.labels == index].sum() == pytest.approx(mass, rel=1e-12)


def hand_over(flow, density, law, end):
    """One radius for all: both end a cluster at a point of theirs, so differ by such masses."""
    clusters, after = mf.clusters(density), mf.clusters(flow)
    assert len(clusters) == len(after) > 0
    np.testing.assert_allclose(clusters.masses, after.masses, rtol=0, atol=end)
    before = mf.FlowMap(law, tol=1e-6), mf.Density(density.space, law)
    assert len({len(mf.clusters(measure)) for measure in before}) == 1


def test_nothing_happens_at_a_hand_over_on_the_circle(close):
    law, sol = close
    density = mf.evolve(mf.Density(mf.Circle(512), law), mf.SA(4.0), 5.0, 1).final
    hand_over(sol.measures[1], density, law, 2 * sol.measures[1].weights.max())


def test_nothing_happens_at_a_hand_over_about_an_axis():
    law = mf.ZonalSeries(3, [0.1, 0.1, 0.15])
    starts = mf.FlowMap(law), mf.Density(mf.Zonal(3, 127), law)
    finals = [mf.evolve(start, mf.SA(4.0), 2.5, 1).final for start in starts]
    hand_over(*finals, law, 2e-3)


@pytest.mark.slow
def test_rings_are_those_of_the_density():
    """Until there are atoms: the rule by itself at 4000 latitudes, each ring by its points."""
    polar = np.pi * (np.arange(4000) + 0.5) / 4000
    meridian = np.column_stack([np.sin(polar), 0 * polar, np.cos(polar)])
    places = np.linspace(0, np.pi, 401)
    width, turns = np.sqrt(7 / 3) * 0.1, np.pi * (np.arange(100) + 0.5) / 100
    kernel = np.zeros((len(places), len(polar)))
    for turn in turns:
        squared = 2 - 2 * np.cos(places)[:, None] * np.cos(polar)
        squared -= 2 * np.sin(places)[:, None] * np.sin(polar) * np.cos(turn)
        kernel += np.maximum(1 - squared / (2 * np.sin(width / 2)) ** 2, 0) ** 2
    uniform, rng = 0.5 * np.sin(polar) * np.pi / 4000, np.random.default_rng(5)
    seen = set()
    for beta in (2.0, 6.0):
        law = mf.ZonalSeries(3, 0.08 * rng.normal(size=5))
        sol = mf.evolve(mf.FlowMap(law, tol=1e-9), mf.SA(beta), 6.0, 4)
        for t, flow in zip(sol.t, sol.measures, strict=True):
            masses = sol.pdf(meridian, t) * uniform
            dense = places[(kernel @ masses) / (kernel @ uniform) >= 2]
            clusters = mf.clusters(flow)
            inside = np.abs(polar[:, None] - dense).min(axis=1, initial=9) <= 0.1
            # a ring ends at one of 401 places, where the density is about 1
            assert 1 - clusters.outside == pytest.approx(masses[inside].sum(), abs=1e-2)
            assert len(clusters) == np.sum(np.diff(dense, prepend=-9) > 0.1)
            seen.add(len(clusters))
    assert len(seen) > 1


@pytest.mark.slow
def test_clusters_on_the_sphere_are_those_of_its_tokens_and_of_its_density(monkeypatch):
    """Quantised tokens have the masses of balls to 2e-3 or so; a mesh ends between its nodes."""
    # tokens are so many that they count as those of the coarser cells
    monkeypatch.setattr(module, "_MANY", 2000)
    flows = mf.evolve(mf.FlowMap(BUMPS, tol=1e-6), mf.SA(4.0), 3.0, [1.0, 3.0])
    tokens = mf.evolve(
        mf.Particles.quantise(BUMPS, 10_000), mf.SA(4.0), 3.0, [1.0, 3.0], rtol=1e-5, atol=1e-7
    )
    for flow, sample in zip(flows.measures, tokens.measures, strict=True):
        clusters, exact = mf.clusters(flow), mf.clusters(sample)
        assert len(clusters) == len(exact) > 0
        np.testing.assert_allclose(clusters.masses, exact.masses, rtol=0, atol=1e-2)
    density = mf.evolve(mf.Density(mf.Sphere(95), BUMPS), mf.SA(4.0), 1.0, 1).final
    hand_over(flows.measures[1], density, BUMPS, 2e-3)


@pytest.mark.parametrize("radius", [0.0, 2.0])
def test_a_radius_that_is_none_is_refused(radius):
    with pytest.raises(ValueError, match=f"radius must be .* got {radius:g}"):
        mf.clusters(mf.Particles([[1.0, 0.0]]), radius)


def test_a_radius_below_all_points_is_refused():
    sphere = mf.Density(mf.Sphere(15), mf.Uniform(3))
    for measure in (sphere, mf.FlowMap(BUMPS, tol=1e-4), mf.FlowMap(mf.Uniform(3))):
        with pytest.raises(ValueError, match=r"radius must be larger for .* got 1e-05"):
            mf.clusters(measure, 1e-5)
