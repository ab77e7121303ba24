"""Meshes on S² along a run: what they cost, what they leave out, and labels on them."""

from dataclasses import replace

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations import history as histories
from meanfield.equations import meshes
from meanfield.spaces.cubed_sphere import Patches
from tests.handmade import unit_points

TWO = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)], [0.6, 0.4]
)


@pytest.mark.slow
def test_what_light_leaves_held_is_known_without_them(monkeypatch):
    """A thousandth of what a mesh may miss: a run with all leaves tells the same to its tol."""
    tol, points, runs = 1e-4, unit_points(3, 50, 1), []
    for share in (meshes._LEFT_OUT, 0.0):
        monkeypatch.setattr(meshes, "_LEFT_OUT", share)
        runs.append(mf.evolve(mf.FlowMap(TWO, tol=tol), mf.SA(4.0), 5.5, 1))
    some, all_leaves = runs
    assert some.dataset["size"].values[-1] < 0.9 * all_leaves.dataset["size"].values[-1]
    assert abs(some.final.mass() - all_leaves.final.mass()) < tol
    assert np.abs(some.final.mean() - all_leaves.final.mean()).max() < tol
    energies = [float(run.dataset.energy[-1]) for run in runs]
    assert abs(energies[0] - energies[1]) < tol * mf.theory.energy_dirac(4.0)
    # characteristics tell the density where no node is left, too
    assert some.pdf(points, 5.5) == pytest.approx(all_leaves.pdf(points, 5.5), rel=1e-4)


def spied(monkeypatch, t_end):
    """A run, and of each time that points were followed how many, through how many steps."""
    followed = []

    def follow(field, history, points, start, end, **options):
        followed.append((start, len(points), len(histories._steps(history, start, end))))
        return real(field, history, points, start, end, **options)

    real = histories.follow
    monkeypatch.setattr(histories, "follow", follow)
    return mf.evolve(mf.FlowMap(TWO, tol=1e-6), mf.SA(4.0), t_end, 8), np.array(followed)


@pytest.mark.slow
def test_a_mesh_costs_no_more_at_a_later_time(monkeypatch):
    """Characteristics go back to the last mesh: as many steps at the end as at the beginning."""
    sol, followed = spied(monkeypatch, 3.0)
    passed = np.array([steps for _, _, steps in followed])
    times = np.unique(followed[:, 0])
    assert len(times) >= 5
    # but for 16 points of each mesh
    many = followed[:, 1] > 16
    passed, followed = passed[many], followed[many]
    # points times steps, of 12 stages each: some 250,000, for five meshes of 2400 to 9000 nodes
    assert passed @ followed[:, 1] < 290_000
    assert passed.max() < 0.4 * len(sol.history)
    late = followed[:, 0] > 1.5
    assert passed[late].max() <= 2 * passed[~late].max()
    # one map is kept from save to save
    assert len(sol.history.labels) <= 2
    # of a mesh that is laid to 1e-6
    assert 0.0 < sol.dataset.label_error.values[-1] < 1e-7
    assert np.abs(sol.dataset.balance_error).max() < 1e-5


@pytest.mark.slow
def test_the_label_error_is_the_mass_that_is_misplaced(monkeypatch):
    """Next to none of a mesh that holds the density; a percent of one that is 1 % too dense.

    And a percent where characteristics keep 1 % less.
    """
    seen, real, follow = [], meshes.Meshes._label_error, meshes.follow

    def losing(*arguments, **options):
        labels, stretch, kept = follow(*arguments, **options)
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
    real = Patches.at

    def wrong(patches, points):
        values = real(patches, points)
        # no mass is gained, but it is elsewhere
        values[3] += 1e-3 * points[:, 0]
        return values

    monkeypatch.setattr(Patches, "at", wrong)
    sol = mf.evolve(mf.FlowMap(TWO, tol=1e-6), mf.SA(4.0), 1.0, 1)
    assert not sol.history.labels
    assert sol.dataset.label_error.values[-1] == 0.0
    series = mf.evolve(mf.Density(mf.Sphere(47), TWO), mf.SA(4.0), 1.0, 1)
    # the mesh is laid to 1e-6 in mass
    assert sol.dataset.energy[-1] == pytest.approx(float(series.dataset.energy[-1]), abs=1e-6)
