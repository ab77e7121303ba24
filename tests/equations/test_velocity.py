"""The velocity of right-hand sides, and by hand; validation/velocity.py has it against mpmath."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive

import meanfield as mf
from meanfield.equations.tendency import tendency
from meanfield.kernels.kernel import Exponential


def least_potential(beta, kappa):
    """min G/max G of e^{κ cos θ} under e^{β<x,y>}: I_0(|β - κ|)/I_0(β + κ)."""
    apart = abs(beta - kappa)
    return ive(0, apart) / ive(0, beta + kappa) * np.exp(apart - beta - kappa)


@pytest.mark.parametrize("share", [0.5e-6, 2e-6])
@pytest.mark.parametrize("kind", [mf.Density, mf.FlowMap])
def test_terms_are_summed_below_a_millionth_of_the_largest_potential(kind, share, monkeypatch):
    """Errors of series of G are shares of it: a density's, and a flow map's beyond β = 100."""
    larger = 30.0 if kind is mf.Density else 300.0
    smaller = brentq(lambda x: np.log(least_potential(larger, x) / share), 3.0, 20.0)
    beta, kappa = (smaller, larger) if kind is mf.Density else (larger, smaller)
    law, dynamics, places = mf.VonMisesFisher([1.0, 0.0], kappa), mf.SA(beta), []
    mu = mf.FlowMap(law)._resolving(beta) if kind is mf.FlowMap else mf.Density(mf.Circle(128), law)
    rate = tendency(mu, dynamics)
    attention, spread = Exponential.attention, Exponential.spread

    def in_density(kernel, density, points):
        places.extend(points)
        return attention(kernel, density, points)

    def in_flow(kernel, points, sources):
        places.extend(points)
        return spread(kernel, points, sources)

    monkeypatch.setattr(Exponential, "attention", in_density)
    monkeypatch.setattr(Exponential, "spread", in_flow)
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    # opposite to the mass, or nowhere
    assert (len(places) > 0) == (share < 1e-6)
    assert all(x < -0.9 for x, _ in places)


# at 4 the series of G has its digits everywhere, and is all there is
@pytest.mark.parametrize("beta", [4, 16, 25, 100])
@pytest.mark.parametrize("space", [mf.Circle(256), mf.Zonal(3, 95), mf.Zonal(10, 95)], ids=str)
def test_right_hand_side_has_the_same_velocity(space, beta):
    """The right-hand side switches to positive sums by itself: flux / f is X on the grid."""
    bump = mf.VonMisesFisher(np.eye(space.dim)[-1], 50.0)
    mu = mf.Density(space, mf.Mixture([bump, mf.Uniform(space.dim)], [1 - 1e-8, 1e-8]))
    rate = tendency(mu, mf.SA(float(beta)))
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    transforms = rate._transforms
    index = np.arange(len(space.weights))
    expected = np.einsum(
        "aid,id->ai", space._frame(index), mf.SA(float(beta)).velocity(mu, at=space.points)
    )
    # f has lost its small values in the coefficients, so only where f is resolved is X the law's
    resolved = mu.values > 1e-4 * mu.values.max()
    found = transforms.flux[:, resolved] / transforms.values[resolved]
    assert np.max(np.abs(expected[:, resolved])) > 0.01
    assert np.max(np.abs(found - expected[:, resolved])) < 1e-9
    assert np.isfinite(transforms.flux).all()
    # a convex combination of unit vectors is no longer than 1, with room for rounding
    assert np.max(np.abs(transforms.flux)) <= (1 + 1e-9) * np.max(np.abs(transforms.values))


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
    found = mf.SA(beta).velocity(mu, at=at)[0] @ [-np.sin(1.0), np.cos(1.0)]
    assert found == pytest.approx(slope, rel=5 / beta)


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
@pytest.mark.parametrize("beta", [1e-30, 1e-12, 1e-9, 1e-4, 1.0, 6.0])
@pytest.mark.parametrize("space", [mf.Circle(64), mf.Zonal(10, 31), mf.Zonal(100, 31)], ids=str)
def test_right_hand_side_keeps_every_degree_that_counts(space, beta, kind):
    """Series against positive sums, relative to the velocity, from tiny β and in high dimension."""
    mu = mf.Density(space, mf.VonMisesFisher(np.eye(space.dim)[-1], 2.0))
    rate = tendency(mu, kind(beta))
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    found = rate.speed_unit * rate._transforms.flux / rate._transforms.values
    index = np.arange(len(space.weights))
    velocity = kind(beta).velocity(mu, at=space.points)
    expected = np.einsum("aid,id->ai", space._frame(index), velocity)
    size = np.max(np.abs(expected))
    assert size > 1e-3
    assert np.max(np.abs(found - expected)) < 1e-12 * size


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


def test_products_on_the_circle_do_not_alias():
    """A full spectrum moves on its own grid as on one four times as fine, to rounding."""
    rates = []
    for space in mf.Circle(32), mf.Circle(128):
        coefficients = np.zeros(space.kmax + 1, dtype=complex)
        coefficients[:16] = 0.02 * np.exp(1j * np.arange(16.0))
        coefficients[0] = 1.0
        rate = tendency(mf.Density.from_coefficients(space, coefficients), mf.USA(4.0))
        out = np.empty_like(rate.initial_state)
        rate(rate.initial_state, out)
        rates.append(out.view(complex)[:16])
    size = np.abs(rates[1]).max()
    assert size > 1e-3
    assert np.abs(rates[0] - rates[1]).max() < 1e-14 * size
