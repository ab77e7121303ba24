"""Integrals over the cells of a lattice on S^2, and against the hats of its corners."""

import numpy as np
import pytest

from meanfield.spaces.geometry import sphere_points
from meanfield.spaces.lattice import Lattice, cell_bulges, cell_integrals, hats
from tests.functionals.drawn import (
    random_series,
)


def test_integrals_of_hats_and_cells():
    rng = np.random.default_rng(21)
    lmax, n = 20, 24
    space, coefficients = random_series(rng, lmax, 0.1)
    lattice = Lattice(n)
    found = hats(lattice, coefficients, lmax)
    assert found.masses.sum() == pytest.approx(coefficients[0].real, rel=1e-13)
    squares, errors = cell_integrals(lattice, coefficients, lmax, 10.0)
    assert squares.sum() == pytest.approx(coefficients[0].real, rel=1e-12)
    assert 0.0 < found.error < 1e-9
    assert 0.0 < errors.max() < 1e-9
    nodes, weights = np.polynomial.legendre.leggauss(30)
    for i, j in (1, 0), (7, 5), (n - 1, 2 * n - 1):
        theta = lattice.step * (i + 0.5 * (1.0 + nodes))
        phi = lattice.step * (j + 0.5 * (1.0 + nodes))
        both = [part.ravel() for part in np.meshgrid(theta, phi, indexing="ij")]
        values = space._at(coefficients, sphere_points(*both)).reshape(30, 30)
        area = np.outer(weights * np.sin(theta), weights) * lattice.step**2 / (16.0 * np.pi)
        if i < n:
            assert squares[i, j] == pytest.approx(np.sum(area * values), rel=1e-9, abs=1e-14)
    # a hat from its four quarters
    i, j, total = 7, 5, 0.0
    for row in 0, 1:
        for column in 0, 1:
            ahead, beyond = 0.5 * (1.0 + nodes), 0.5 * (1.0 + nodes)
            theta, phi = lattice.step * (i - row + ahead), lattice.step * (j - column + beyond)
            both = [part.ravel() for part in np.meshgrid(theta, phi, indexing="ij")]
            values = space._at(coefficients, sphere_points(*both)).reshape(30, 30)
            hat = np.outer(ahead if row else 1.0 - ahead, beyond if column else 1.0 - beyond)
            area = np.outer(weights * np.sin(theta), weights) * lattice.step**2 / (16.0 * np.pi)
            total += np.sum(area * hat * values)
    assert found.masses[1 + (i - 1) * lattice.n_lon + j] == pytest.approx(total, rel=1e-9)


def test_bulges_of_cells():
    rng = np.random.default_rng(33)
    lmax, n = 20, 24
    space, coefficients = random_series(rng, lmax, 0.1)
    lattice = Lattice(n)
    found = cell_bulges(lattice, coefficients, lmax)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    ahead = 0.5 * (1.0 + nodes)
    parabola = 0.5 * lattice.step**2 * ahead * (1.0 - ahead)
    for i, j in (0, 0), (7, 5), (n - 1, 2 * n - 1):
        theta, phi = lattice.step * (i + ahead), lattice.step * (j + ahead)
        both = [part.ravel() for part in np.meshgrid(theta, phi, indexing="ij")]
        values = space._at(coefficients, sphere_points(*both)).reshape(30, 30)
        area = np.outer(weights * np.sin(theta), weights) * lattice.step**2 / (16.0 * np.pi)
        truth = np.sum(area * values * parabola[:, None]), np.sum(area * values * parabola)
        for got, wanted in zip(found, truth, strict=True):
            assert got[i, j] == pytest.approx(wanted, rel=1e-9, abs=1e-16)
