"""Energies of layers between their bounds; what tokens did to them, with a residual of order h²."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.trained.energy import (
    attribute_energy,
    energy_gradient,
    energy_shares,
    least_shares,
)
from meanfield.trained.synthetic import synthetic_layers
from tests.trained.layers import drawn

BETAS = [0.5, 4.0, 900.0]
# rounding of the exponent β<x, y>, twice, and of the sum
ROUNDING = 5e-16 * (2.0 + np.array(BETAS))


def test_shares_are_those_of_the_energy():
    points = drawn(20, 5)
    measure = mf.Particles(points)
    energies = [mf.energy(measure, beta) / mf.theory.energy_dirac(beta) for beta in BETAS[:2]]
    assert energy_shares(points, BETAS[:2]) == pytest.approx(energies, rel=1e-14)
    assert (np.abs(energy_shares(points[:1], BETAS) - 1.0) <= ROUNDING).all()


@pytest.mark.parametrize(("n", "dim"), [(3, 2), (5, 4), (40, 2), (200, 3)])
def test_no_tokens_are_below_the_bound(n, dim):
    for seed in range(5):
        shares = energy_shares(drawn(n, dim, seed), BETAS)
        assert (shares >= least_shares(BETAS, n, dim) * (1.0 - ROUNDING)).all()
        assert (shares <= 1.0).all()


def test_the_bound_is_reached():
    """By a simplex, and by many equal distances on the circle, which are as good as uniform."""
    simplex = np.eye(5) - 0.2
    simplex /= np.linalg.norm(simplex, axis=1)[:, None]
    assert energy_shares(simplex, BETAS) == pytest.approx(least_shares(BETAS, 5, 5), rel=1e-13)
    ring = mf.Particles.from_angles(2.0 * np.pi * np.arange(60) / 60).points
    assert energy_shares(ring, 4.0) == pytest.approx(least_shares(4.0, 60, 2), rel=1e-12)


def test_gradient_is_that_of_the_energy():
    """Central differences along a great circle, of order ε² with ε = 1e-5."""
    points, beta = drawn(1100, 4), 3.0
    gradient = energy_gradient(points, beta)
    assert np.abs(np.einsum("ij,ij->i", gradient, points)).max() < 1e-15
    for i in (0, 1050):
        direction = gradient[i] / np.linalg.norm(gradient[i])
        ends = []
        for angle in (-1e-3, 1e-3):
            moved = points.copy()
            moved[i] = np.cos(angle) * points[i] + np.sin(angle) * direction
            ends.append(energy_shares(moved, beta)[0])
        slope = (ends[1] - ends[0]) / 2e-3
        assert slope == pytest.approx(np.linalg.norm(gradient[i]), rel=1e-5)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_residual_is_of_second_order(mask):
    # the slope differs from 2 by some h of itself
    start, steps = drawn(24, 6), 0.04 * 0.5 ** np.arange(5)
    residuals, changes = [], []
    for step in steps:
        end = synthetic_layers(start, 1, beta=4.0, step=step, rng=0, mask=mask).points(1)
        part = attribute_energy(start, end, 4.0)
        assert part.of_tokens.sum() + part.residual == pytest.approx(part.change, abs=1e-15)
        residuals.append(abs(part.residual))
        changes.append(part.change)
    slopes = np.diff(np.log(residuals)) / np.diff(np.log(steps))
    assert np.abs(slopes - 2.0).max() < 0.1
    # the change itself is of first order, and what is attributed is not 0
    assert np.log(changes[-2] / changes[-1]) / np.log(2.0) == pytest.approx(1.0, abs=0.1)
    assert changes[-1] > 10.0 * residuals[-1] > 0.0


def test_tokens_that_stay_have_no_part():
    points, moved = drawn(24, 6), drawn(24, 6)
    moved[3] = drawn(1, 6, 9)[0]
    part = attribute_energy(points, moved, 4.0)
    expected = energy_gradient(points, 4.0)[3] @ (moved[3] - points[3])
    assert part.of_tokens[3] == pytest.approx(expected, rel=1e-13)
    assert np.flatnonzero(part.of_tokens).tolist() == [3]


def test_what_does_not_fit_is_refused():
    points = drawn(4, 3)
    with pytest.raises(ValueError, match=r"after must have shape \(4, 3\), as before"):
        attribute_energy(points, points[:3], 1.0)
    with pytest.raises(ValueError, match="beta must be a finite number > 0"):
        energy_gradient(points, 0.0)
    with pytest.raises(ValueError, match="beta"):
        energy_shares(points, -1.0)
