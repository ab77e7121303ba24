"""Integrals over the cells of a lattice on S^2, and against the hats of its corners."""

import numpy as np
import pytest

from meanfield.spaces.geometry import sphere_points
from meanfield.spaces.lattice import Lattice, cell_bulges, cell_integrals, hats
from tests.functionals.drawn import random_series

LATTICE, LMAX = Lattice(24), 20
NODES, WEIGHTS = np.polynomial.legendre.leggauss(30)
# from one side of a cell to the other
AHEAD = 0.5 * (1.0 + NODES)
CELLS = (0, 0), (7, 5), (23, 47)


@pytest.fixture(scope="module")
def drawn():
    return random_series(np.random.default_rng(21), LMAX, 0.1)


def masses_in(i, j, drawn):
    """The masses of a series at the nodes of a Gauss rule in a cell, with their weights."""
    space, coefficients = drawn
    theta, phi = LATTICE.step * (i + AHEAD), LATTICE.step * (j + AHEAD)
    both = [part.ravel() for part in np.meshgrid(theta, phi, indexing="ij")]
    values = space.evaluate(coefficients, sphere_points(*both)).reshape(30, 30)
    return np.outer(WEIGHTS * np.sin(theta), WEIGHTS) * LATTICE.step**2 / (16.0 * np.pi) * values


def test_integrals_over_cells(drawn):
    coefficients = drawn[1]
    squares, errors = cell_integrals(LATTICE, coefficients, LMAX, 10.0)
    assert squares.sum() == pytest.approx(coefficients[0].real, rel=1e-12)
    assert 0.0 < errors.max() < 1e-9
    for i, j in CELLS:
        # both rules have rounding and no last degree
        exact = masses_in(i, j, drawn).sum()
        assert squares[i, j] == pytest.approx(exact, rel=1e-9, abs=1e-14)


def test_a_hat_has_four_quarters(drawn):
    coefficients = drawn[1]
    found = hats(LATTICE, coefficients, LMAX)
    assert found.masses.sum() == pytest.approx(coefficients[0].real, rel=1e-13)
    assert 0.0 < found.error < 1e-9
    i, j, total = 7, 5, 0.0
    for row in 0, 1:
        for column in 0, 1:
            hat = np.outer(AHEAD if row else 1.0 - AHEAD, AHEAD if column else 1.0 - AHEAD)
            total += np.sum(hat * masses_in(i - row, j - column, drawn))
    assert found.masses[1 + (i - 1) * LATTICE.n_lon + j] == pytest.approx(total, rel=1e-9)


def test_bulges_of_cells(drawn):
    found = cell_bulges(LATTICE, drawn[1], LMAX)
    parabola = 0.5 * LATTICE.step**2 * AHEAD * (1.0 - AHEAD)
    for i, j in CELLS:
        masses = masses_in(i, j, drawn)
        exact = np.sum(masses * parabola[:, None]), np.sum(masses * parabola)
        bulges = found[0][i, j], found[1][i, j]
        assert bulges == pytest.approx(exact, rel=1e-9, abs=1e-16)
