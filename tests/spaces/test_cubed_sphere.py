"""Leaves of a cubed sphere, meshes that are laid on it, and patches that interpolate."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.spaces.cubed_sphere import (
    Leaves,
    Patches,
    interpolation_error,
    lay,
    without_light_leaves,
)
from tests.handmade import unit_points


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


def smooth(points):
    x, y, z = points.T
    return np.stack([np.exp(x + 0.5 * y), np.sin(2.0 * z - x)])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_patches_interpolate_within_their_estimate(level):
    """The estimate is on the safe side, by less than 10^4; the order in the width is 8 and more."""
    leaves = Leaves.uniform(level)
    # two levels, each with half of the sphere
    half = np.arange(len(leaves)) < len(leaves) // 2
    levels = [leaves.take(half), leaves.take(~half).children()]
    values = [smooth(one.nodes()[0]) for one in levels]
    patches = Patches.of(list(zip(levels, values, strict=True)))
    points = unit_points(3, 2000, level)
    missed = np.abs(patches.at(points) - smooth(points)).max()
    estimate = interpolation_error(values[0].reshape(2, -1, 100)).max()
    assert 1e-4 * estimate < missed < estimate
    assert missed < 4e-5 * 300.0**-level
    nodes = np.concatenate([one.nodes()[0] for one in levels])
    assert np.abs(patches.at(nodes) - np.concatenate(values, axis=1)).max() < 1e-13
