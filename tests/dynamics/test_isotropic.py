"""The velocity of SA and USA by hand, and at its extremes; validation/velocity.py has mpmath's."""

import numpy as np
import pytest

import meanfield as mf


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_velocity_is_tangent_and_turns_with_the_sign(kind):
    mu = mf.Particles([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]], weights=[1, 3], unit_mass=True)
    at = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    out = kind(2.0).velocity(mu, at=at)
    assert np.max(np.abs(np.einsum("ij,ij->i", out, at))) < 1e-15
    assert np.array_equal(kind(2.0, sign=-1).velocity(mu, at=at), -out)


def test_two_tokens_by_hand():
    """USA and SA for a token at the east seen from the north, weights 1/4 and 3/4."""
    mu = mf.Particles([[1.0, 0.0], [0.0, 1.0]], weights=[1, 3], unit_mass=True)
    beta = 1.5
    usa = mf.USA(beta).velocity(mu, at=[[0.0, 1.0]])
    assert np.allclose(usa, [[0.25, 0.0]], rtol=1e-15, atol=0)
    sa = mf.SA(beta).velocity(mu, at=[[0.0, 1.0]])
    assert np.allclose(sa, [[1 / (1 + 3 * np.exp(beta)), 0.0]], rtol=1e-14, atol=0)


def test_beta_beyond_overflow():
    mu = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5]))
    at = mf.spaces.geometry.circle_points([1.0])
    # β → ∞: X ≈ ∇ log f / β (facts of the heat limit), here to the next order in 1/β
    beta = 1e4
    slope = -0.5 * np.sin(1.0) / (1 + 0.5 * np.cos(1.0)) / beta
    speed = mf.SA(beta).velocity(mu, at=at)[0] @ [-np.sin(1.0), np.cos(1.0)]
    assert speed == pytest.approx(slope, rel=5 / beta)


def test_extreme_beta_in_extreme_dimension():
    """Λ_0 e^{-β} underflows here, and neither the velocity nor a run may notice."""
    mu = mf.Density(mf.Zonal(1024, 15), mf.ZonalSeries(1024, [0.5]))
    sol = mf.evolve(mu, mf.SA(1e4), 0.5, 1)
    assert sol.status == "finished"
    assert sol.final.mean()[-1] > mu.mean()[-1] > 0
    assert np.isfinite(sol.final.values).all()
    rates = mf.theory.growth_rates(mf.SA(1e4), 1024, 3)
    assert np.all(np.isfinite(rates))
    assert rates[1] > 0
