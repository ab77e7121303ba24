"""The scaling u of a doubly stochastic kernel: how many sums it takes, and what it refuses."""

from contextlib import nullcontext

import numpy as np
import pytest

from meanfield.kernels import sinkhorn
from meanfield.kernels.direct import PairSums
from meanfield.kernels.sinkhorn import scaling
from tests.handmade import unit_points


def counted(points, masses, beta):
    sums, calls = PairSums(points, beta), []

    def potential(summed):
        calls.append(1)
        return sums.potential(summed)

    return scaling(potential, masses), len(calls)


@pytest.mark.parametrize("beta", [0.1, 1.0, 4.0, 9.0, 25.0, 100.0, 1e4])
def test_few_sums_at_any_beta(beta):
    """I + P has a condition of 2: 14 digits take 14/log10(5.8) = 18 steps, and a few to begin."""
    points = unit_points(3, 300, 5)
    for masses in (np.full(300, 1 / 300), np.random.default_rng(0).dirichlet(np.full(300, 0.1))):
        log_u, steps = counted(points, masses, beta)
        assert np.ptp(log_u) > 1e-3
        assert 4 < steps <= 25


def test_sums_that_are_no_kernel_are_refused():
    with pytest.raises(ArithmeticError, match="a residual of nan"):
        scaling(lambda masses: np.full_like(masses, np.nan), np.full(2, 0.5))
    noise = np.random.default_rng(0)
    with pytest.raises(ArithmeticError, match="stands still at a residual of"):
        scaling(lambda masses: noise.uniform(1, 2, len(masses)), np.full(3, 1 / 3))


@pytest.mark.parametrize("size", [0.995e-7, 1.005e-7])
def test_a_residual_above_1e_7_is_an_error(size, monkeypatch):
    """One that stands still, whatever is tried."""
    monkeypatch.setattr(sinkhorn, "_residual", lambda *_: np.full(9, size))
    sums = PairSums(unit_points(3, 9, 2), 1.0).potential
    with pytest.raises(ArithmeticError, match=r"1\.0e-07") if size > 1e-7 else nullcontext():
        scaling(sums, np.full(9, 1 / 9))


def test_log_u_is_no_farther_off_than_its_residual():
    """δ + Pδ in the mean square of mu: P has eigenvalues from 1, of δ = 1, to nearly 0."""
    beta, points = 4.0, unit_points(3, 60, 8)
    masses = np.random.default_rng(1).dirichlet(np.ones(60))
    log_u = scaling(PairSums(points, beta).potential, masses)
    kernel = np.exp(beta * (points @ points.T - 1.0) + log_u[:, None] + log_u)
    # symmetric in L²(mu)
    roots = np.sqrt(masses)
    _, vectors = np.linalg.eigh(roots[:, None] * kernel * roots)
    for k, gain in (0, 1.0), (-1, 2.0):
        off = 1e-6 * vectors[:, k] / roots
        moved = log_u + off
        residual = moved + np.log(PairSums(points, beta).potential(masses * np.exp(moved)))
        size, missed = (np.sqrt(masses @ each**2) for each in (off, residual))
        # what is of second order in 1e-6
        assert missed >= size * (1.0 - 1e-5)
        assert missed == pytest.approx(gain * size, rel=1e-2)
