"""Right-hand sides of densities and of flow maps, where the series of their potential ends."""

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
    mu = mf.FlowMap(law).resolve(beta) if kind is mf.FlowMap else mf.Density(mf.Circle(128), law)
    rate = tendency(mu, dynamics)
    attention = Exponential.attention
    velocity_and_divergence = Exponential.velocity_and_divergence

    def in_density(kernel, density, points):
        places.extend(points)
        return attention(kernel, density, points)

    def in_flow(kernel, points, sources):
        places.extend(points)
        return velocity_and_divergence(kernel, points, sources)

    monkeypatch.setattr(Exponential, "attention", in_density)
    monkeypatch.setattr(Exponential, "velocity_and_divergence", in_flow)
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    # opposite to the mass, or nowhere
    assert (len(places) > 0) == (share < 1e-6)
    assert all(x < -0.9 for x, _ in places)
