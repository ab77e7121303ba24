"""Flow maps on S^2: leaves and meshes, what a run keeps of its moments, and particles."""

from dataclasses import replace

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations import history as histories
from meanfield.equations import meshes
from meanfield.equations.atoms import compressed
from meanfield.equations.history import History, LabelMap, step_times
from meanfield.measures import SphereFlowMap
from meanfield.spaces.cubed_sphere import (
    Leaves,
    Patches,
    interpolation_error,
    lay,
    without_light_leaves,
)


def unit(rng, n):
    points = rng.normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_every_node_is_in_its_leaf():
    leaves = Leaves.uniform(1).take(np.arange(20)).children()
    points, weights = leaves.nodes()
    mass, count = leaves.holding(points, weights)
    assert (count == 100).all()
    assert np.abs(mass - weights.reshape(-1, 100).sum(axis=1)).max() < 1e-16


def test_narrow_peak_is_found_by_seeds_and_missed_with_an_error():
    axis = np.array([0.6, 0.1, 0.79])
    axis /= np.linalg.norm(axis)
    law = mf.VonMisesFisher(axis, 1e6)
    with pytest.raises(ArithmeticError, match="missed between nodes"):
        lay(law.pdf, 1e-9)
    seeds = law.sample(300, np.random.default_rng(3))
    mesh = lay(law.pdf, 1e-9, seeds=(seeds, np.full(300, 1 / 300)))
    assert mesh.mass == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(ArithmeticError, match="limit = 1000 nodes"):
        lay(law.pdf, 1e-9, limit=1000)


def test_each_density_of_a_mesh_has_its_own_tolerance():
    def densities(x):
        return np.stack([1e-3 * (1.0 + np.cos(40.0 * x[:, 0])), 1.0 + x[:, 2]])

    exact = 1e-3 * (1.0 + np.sin(40.0) / 40.0)
    coarse, fine = (lay(densities, tol, within=np.inf) for tol in (1e-3, np.array([1e-9, 1e-3])))
    missed = [abs(float(mesh.weights @ mesh.values[0]) - exact) for mesh in (coarse, fine)]
    assert missed[1] < 1e-9 < missed[0] < 1e-3


def smooth(points):
    x, y, z = points.T
    return np.stack([np.exp(x + 0.5 * y), np.sin(2.0 * z - x)])


def test_the_lightest_leaves_are_left_out():
    mesh = lay(mf.VonMisesFisher([0.6, 0.0, 0.8], 20.0).pdf, 1e-9)
    masses = (mesh.weights * mesh.values[0]).reshape(-1, 100).sum(axis=1)
    fewer = without_light_leaves(mesh, 1e-6)
    left = fewer.weights * fewer.values[0]
    assert 0.0 < mesh.mass - fewer.mass <= 1e-6
    # the next leaf would be too much
    assert mesh.mass - fewer.mass + left.reshape(-1, 100).sum(axis=1).min() > 1e-6
    # whole leaves, in their order
    kept = np.isin(masses, left.reshape(-1, 100).sum(axis=1))
    assert len(fewer.points) == 100 * kept.sum() < len(mesh.points)
    assert np.array_equal(fewer.points, mesh.points[np.repeat(kept, 100)])
    assert len(without_light_leaves(mesh, 0.0).points) == len(mesh.points)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_patches_interpolate_within_their_estimate(level):
    """The estimate is on the safe side, by less than 10^4; the order in the width is 8 and more."""
    leaves = Leaves.uniform(level)
    # two levels, each with half of the sphere
    half = np.arange(len(leaves)) < len(leaves) // 2
    levels = [leaves.take(half), leaves.take(~half).children()]
    values = [smooth(one.nodes()[0]) for one in levels]
    patches = Patches.of(list(zip(levels, values, strict=True)))
    points = unit(np.random.default_rng(level), 2000)
    missed = np.abs(patches.at(points) - smooth(points)).max()
    told = interpolation_error(values[0].reshape(2, -1, 100)).max()
    assert 1e-4 * told < missed < told
    assert missed < 4e-5 * 300.0**-level
    nodes = np.concatenate([one.nodes()[0] for one in levels])
    assert np.abs(patches.at(nodes) - np.concatenate(values, axis=1)).max() < 1e-13


def test_compression_keeps_every_exponential():
    rng = np.random.default_rng(5)
    points = np.array([0.6, 0.0, 0.8]) + 0.03 * rng.normal(size=(4000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    masses = rng.exponential(size=4000)
    fewer, weights = compressed(points, masses, 4.0, 1e-12)
    assert len(fewer) <= 153
    assert weights.min() > 0.0
    z = 4.0 * unit(rng, 100)
    expected = np.exp(z @ points.T) @ masses
    assert np.abs(np.exp(z @ fewer.T) @ weights / expected - 1.0).max() < 1e-11


def test_history_is_exact_on_polynomials_and_survives_saving():
    history = History(0.0)
    for start, end in ((0.0, 0.3), (0.3, 1.0)):
        times = step_times(start, end)
        history.append(end, np.stack([1.0 + times**7, 1j * times], axis=1))
        leaves = Leaves.uniform(0)
        values = np.full((5, 600), end)
        history.labels.append(LabelMap(end, Patches.of([(leaves, values)])))
    copy = History.from_arrays(history.arrays())
    for t in (0.0, 0.1, 0.3, 0.7, 1.0):
        assert np.abs(copy.at(t) - np.array([1.0 + t**7, 1j * t])).max() < 1e-14
    assert [one.time for one in copy.labels] == [0.3, 1.0]
    for one, other in zip(copy.labels, history.labels, strict=True):
        assert np.array_equal(one.patches.squares, other.patches.squares)
        assert np.array_equal(one.patches.values, other.patches.values)
    # a step back there is only the first
    assert [one.time for one in copy.until(1).labels] == [0.3]


# a law about an axis, followed as if it had none
BUMP = SphereFlowMap(mf.VonMisesFisher([0.6, 0.0, 0.8], 10.0), tol=1e-6)


@pytest.mark.slow
def test_clusters_become_particles():
    sol = mf.evolve(BUMP, mf.SA(4.0), 6.0, 1)
    found = mf.clusters(sol.final, 0.3)
    assert np.abs(found.centres - [[0.6, 0.0, 0.8]]).max() < 1e-6
    assert found.masses == pytest.approx([1.0], abs=1e-6)
    assert 1e-4 < found.radii[0] < 1e-2
    assert sol.dataset.smooth_mass[-1] < 1e-5
    assert np.exp(4.0) / 8.0 - sol.dataset.energy[-1] < 1e-3


@pytest.mark.slow
def test_particles_stand_for_what_they_replaced():
    alone, both = (
        mf.evolve(SphereFlowMap(BUMP.law, tol=BUMP.tol, atom_radius=radius), mf.SA(4.0), 2.2, 1)
        for radius in (0.0, 1e-8)
    )
    assert both.dataset.n_atoms[-1] > 0
    assert both.dataset.smooth_mass[-1] < 0.1
    assert alone.dataset.n_atoms[-1] == 0
    energies = [float(run.dataset.energy[-1]) for run in (alone, both)]
    assert energies[1] == pytest.approx(energies[0], abs=1e-8)
    # the density of the whole measure is still known
    nodes = both.pdf([[0.6, 0.0, 0.8], [0.0, 0.0, 1.0]], 2.2)
    assert nodes[0] > 100.0 > nodes[1] > 0.0


TWO = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)], [0.6, 0.4]
)


@pytest.mark.slow
def test_what_light_leaves_held_is_known_without_them(monkeypatch):
    """A thousandth of what a mesh may miss: a run with all leaves tells the same to its tol."""
    tol, points, runs = 1e-5, unit(np.random.default_rng(1), 50), []
    for share in (meshes._LEFT_OUT, 0.0):
        monkeypatch.setattr(meshes, "_LEFT_OUT", share)
        runs.append(mf.evolve(mf.FlowMap(TWO, tol=tol), mf.SA(4.0), 11.0, 1))
    some, all_leaves = runs
    assert some.dataset["size"].values[-1] < 0.9 * all_leaves.dataset["size"].values[-1]
    assert abs(some.final.mass() - all_leaves.final.mass()) < tol
    assert np.abs(some.final.mean() - all_leaves.final.mean()).max() < tol
    energies = [float(run.dataset.energy[-1]) for run in runs]
    assert abs(energies[0] - energies[1]) < tol * mf.theory.energy_dirac(4.0)
    # characteristics tell the density where no node is left, too
    assert some.pdf(points, 7.0) == pytest.approx(all_leaves.pdf(points, 7.0), rel=1e-4)


def spied(monkeypatch, t_end):
    """A run, and of each time that points were followed how many, through how many steps."""
    followed = []

    def follow(field, history, points, start, end, **asked):
        followed.append((start, len(points), len(histories._steps(history, start, end))))
        return real(field, history, points, start, end, **asked)

    real = histories.follow
    monkeypatch.setattr(histories, "follow", follow)
    return mf.evolve(mf.FlowMap(TWO, tol=1e-6), mf.SA(4.0), t_end, 8), np.array(followed)


@pytest.mark.slow
def test_a_mesh_costs_no_more_at_a_later_time(monkeypatch):
    """Characteristics go back to the last mesh: as many steps at the end as at the beginning."""
    sol, followed = spied(monkeypatch, 4.0)
    passed = np.array([steps for _, _, steps in followed])
    times = np.unique(followed[:, 0])
    assert len(times) >= 5
    # but for 16 points of each mesh
    many = followed[:, 1] > 16
    passed, followed = passed[many], followed[many]
    assert passed.max() < 0.4 * len(sol._history)
    late = followed[:, 0] > 2.0
    assert passed[late].max() <= 2 * passed[~late].max()
    # one map is kept from save to save
    assert len(sol._history.labels) <= 2
    assert 0.0 < sol.dataset.label_error.values[-1] < 1e-7
    assert np.abs(sol.dataset.balance_error).max() < 1e-5


def test_the_label_error_is_the_mass_that_is_misplaced(monkeypatch):
    """Next to none of a mesh that holds the density; a percent of one that is 1 % too dense.

    And a percent where characteristics keep 1 % less.
    """
    seen, real, follow = [], meshes.Meshes._label_error, meshes.follow

    def losing(*given, **asked):
        labels, stretch, kept = follow(*given, **asked)
        return labels, stretch, 0.99 * kept

    def spy(builder, mesh, t, history):
        error = real(builder, mesh, t, history)
        dense = replace(mesh, values=1.01 * mesh.values)
        seen.append([error, real(builder, dense, t, history), mesh.mass])
        with monkeypatch.context() as patch:
            patch.setattr(meshes, "follow", losing)
            seen[-1].insert(0, real(builder, mesh, t, history))
        return error

    monkeypatch.setattr(meshes.Meshes, "_label_error", spy)
    sol = mf.evolve(mf.FlowMap(TWO, tol=1e-4), mf.SA(4.0), 4.0, 1)
    lost, errors, dense, masses = np.array(seen).T
    # particles have taken what is near them from the last meshes
    assert len(sol.final.points) > sol.final.n_nodes
    assert 0.0 < errors.max() < 1e-6
    # the mean of |f/1.01 f - 1|, times 1.01 of the mass
    for missed in dense, lost:
        np.testing.assert_allclose(missed, 0.01 * masses, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_label_map_that_is_wrong_is_seen(monkeypatch):
    """A mesh whose map tells another density than characteristics is laid without one."""
    right = mf.evolve(mf.FlowMap(TWO, tol=1e-6), mf.SA(4.0), 1.0, 1)
    assert right._history.labels
    real = Patches.at

    def wrong(patches, points):
        found = real(patches, points)
        # no mass is gained, but it is elsewhere
        found[3] += 1e-3 * points[:, 0]
        return found

    monkeypatch.setattr(Patches, "at", wrong)
    sol = mf.evolve(mf.FlowMap(TWO, tol=1e-6), mf.SA(4.0), 1.0, 1)
    assert not sol._history.labels
    assert sol.dataset.label_error.values[-1] == 0.0
    assert sol.dataset.energy[-1] == pytest.approx(float(right.dataset.energy[-1]), abs=1e-6)
