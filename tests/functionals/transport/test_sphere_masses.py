"""Atoms and cells that stand for a density on S^2 cost no less than it."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport.sphere_masses import atoms_of, cells_of, series
from meanfield.spaces.geometry import geodesic_distance, sphere_points
from meanfield.spaces.lattice import Lattice
from tests.functionals.drawn import TILTED, bumps, mean_power, power, unit


def test_atoms_of_a_density_cost_no_less_than_it():
    """The mean of dist² to any point, which is exact for a density, by atoms and their blurs."""
    rng = np.random.default_rng(23)
    density = mf.Density(mf.Sphere(31), bumps(rng, 2, 15.0))
    atoms = atoms_of(density, 128)
    assert 0.0 <= atoms.lost < 1e-8
    missed = 0
    for z in [*unit(rng, 6), *atoms.points[np.argsort(atoms.masses)[-6:]]]:
        exact = float(mf.wasserstein(density, mf.Particles(z[None]), 2)) ** 2
        alone = float(atoms.masses @ geodesic_distance(atoms.points, z) ** 2)
        assert exact <= alone + float(atoms.masses @ atoms.blurs) <= exact + 2e-3
        missed += exact > alone
    assert missed > 0


def test_atoms_hold_for_skew_cells():
    """The mean of dist² of each cell to any z; those with little mass stand at their middle."""
    pole, rows, rng = np.array([0.0, 0.0, 1.0]), 16, np.random.default_rng(41)
    density = power(pole, 15)
    lattice, atoms = Lattice(rows), atoms_of(density, rows)
    ahead, shares = np.polynomial.legendre.leggauss(20)
    exceeded = []
    for z in [pole, -pole, *unit(rng, 30)]:
        for k in np.flatnonzero(atoms.masses > 1e-12)[:: 2 * rows + 1]:
            i, j = np.divmod(lattice.cell_of(atoms.points[k : k + 1])[0], lattice.n_lon)
            theta, phi = (lattice.step * (n + 0.5 + 0.5 * ahead) for n in (i, j))
            around = sphere_points(np.repeat(theta, 20), np.tile(phi, 20))
            share = np.outer(shares * np.sin(theta) * (1.0 + np.cos(theta)) ** 15, shares).ravel()
            mean = share @ geodesic_distance(around, z) ** 2 / share.sum()
            exceeded.append(mean - geodesic_distance(atoms.points[k], z) ** 2 - atoms.blurs[k])
    assert max(exceeded) < 0.0


def test_blurs_of_atoms_are_nearly_reached():
    """At the centre of the density what atoms alone are short of is 0.92 of their blurs."""
    middle = np.array([1.0, 0.0, 0.0])
    atoms = atoms_of(power(middle, 15), 512)
    short = mean_power(15, 2) - float(atoms.masses @ geodesic_distance(atoms.points, middle) ** 2)
    blurs = float(atoms.masses @ atoms.blurs)
    assert 0.9 * blurs < short <= blurs


def test_masses_far_apart_in_size():
    points = np.array([[0.36, 0.48, 0.8], [0.0, 1.0, 0.0]])
    cells = cells_of(points, np.array([1e-4, 1e-21]), 5)
    assert len(cells.masses) == 1


def test_zonal_and_sphere_densities_meet():
    law = mf.VonMisesFisher(TILTED, 4.0)
    zonal, sphere = mf.Density(mf.Zonal(3, 47, TILTED), law), mf.Density(mf.Sphere(47), law)
    lmax = 63
    np.testing.assert_allclose(series(zonal, lmax), series(sphere, lmax), atol=1e-13)
    uniform = mf.Density(mf.Sphere(15), mf.Uniform(3))
    assert float(mf.wasserstein(zonal, uniform)) == pytest.approx(
        float(mf.wasserstein(sphere, uniform)), rel=1e-6
    )
