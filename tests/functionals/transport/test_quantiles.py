"""Atoms and curves of mass on the circle: ranks, orders and places."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport.quantiles import Atoms, quantiles


@pytest.mark.parametrize("decades", [0, 3, 40])
def test_ranks_by_buckets_are_those_of_a_search(decades):
    # 40 decades of weights: nearly all starts share a bucket
    rng = np.random.default_rng(decades)
    atoms = Atoms(rng.random(3000), 10.0 ** (-decades * rng.random(3000)), 2.0 * np.pi)
    u = np.concatenate([rng.random(500), atoms.starts, np.nextafter(atoms.starts, 2.0), [0.0]])
    u = u[u <= 1.0]
    np.testing.assert_array_equal(atoms.rank(u), np.searchsorted(atoms.starts, u))
    assert atoms.rank(u.reshape(1, -1)).shape == (1, len(u))


def test_equal_angles_keep_their_order():
    angles = np.repeat(np.random.default_rng(0).permutation(100) / 16.0, 50)
    order = Atoms(angles, np.ones(5000), 2.0 * np.pi).order
    np.testing.assert_array_equal(order, np.argsort(angles, kind="stable"))


def test_places_where_a_series_makes_the_mass_fall():
    """1 + 1.02 cos(θ - a) is negative on an arc of 0.4: at its ends two places have one mass."""
    falls = 0
    for turn in np.linspace(0.0, 0.1, 7):
        coefficients = np.zeros(8, dtype=np.complex128)
        coefficients[:2] = 1.0, 0.51 * np.exp(-1j * turn)
        curve = quantiles(mf.Density.from_coefficients(mf.Circle(16), coefficients), None)
        falls += np.count_nonzero(np.diff(curve._masses_at_table, axis=0) < -1e-6)
        masses = np.linspace(0.0, 1.0, 20_001)
        # a few roundings of a mass of 1
        assert np.abs(curve.mass(*curve.place(masses)) - masses).max() < 1e-14
    assert falls > 7
