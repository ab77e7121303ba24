"""Energy and dissipation of a measure."""

from __future__ import annotations

import numpy as np

from meanfield.arguments import number
from meanfield.dynamics import SA, Dynamics
from meanfield.harmonics import scaled_eigenvalues
from meanfield.measures import AnyMeasure, Density, LineFlowMap, SphereFlowMap
from meanfield.tendency import FlowTendency, SphereField, tendency


def energy(measure: AnyMeasure, beta: float, *, scaled: bool = False) -> float:
    """E_β(mu) = 1/(2β) ∬ e^{β<x,y>} dmu dmu (3.5); at β = 0 its limit |∫ x dmu|²/2 without 1/(2β).

    For densities E = 1/(2β) Σ_k Λ_k |mu_k|², for flow maps and particles the double sum.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    beta : float
        Inverse temperature β >= 0.
    scaled : bool
        Whether to return e^{-β} E, which overflows for no β.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If β is negative or not finite, or E is too large for float64.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> round(energy(Particles([[1.0, 0.0]]), 2.0), 12)  # e^2/4
    1.847264024733
    """
    beta = number("beta", beta, low=0)
    if beta == 0.0:
        return 0.5 * float(np.sum(measure.mean() ** 2))
    if isinstance(measure, LineFlowMap):
        rate = FlowTendency(measure, SA(beta))
        return unscaled("energy", rate.scaled_energy(rate.initial_state), beta, scaled)
    if isinstance(measure, Density):
        power = measure.power
        double_integral = float(scaled_eigenvalues(beta, measure.dim, len(power) - 1) @ power)
    else:
        log_g, _ = measure.log_moment(beta * measure.points)
        double_integral = float(measure.weights @ np.exp(log_g - beta))
    return unscaled("energy", double_integral / (2.0 * beta), beta, scaled)


def dissipation(measure: AnyMeasure, dynamics: Dynamics, *, scaled: bool = False) -> float:
    """∫ |X|² G(βx) dmu for SA (3.6), ∫ |X|² dmu for USA (Lemma 3.7); dE/dt is sign times it.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : SA or USA
    scaled : bool
        Whether to return e^{-β} times it, which overflows for no β.

    Returns
    -------
    float
        >= 0.

    Raises
    ------
    ValueError
        If the value is too large for float64.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> from meanfield.measures import Particles
    >>> dissipation(Particles([[1.0, 0.0]]), SA(2.0))
    0.0
    """
    if isinstance(measure, SphereFlowMap):
        return unscaled("dissipation", _on_sphere(measure, dynamics), dynamics.beta, scaled)
    rate = tendency(measure, dynamics)
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    return unscaled("dissipation", rate.scaled_dissipation(), dynamics.beta, scaled)


def _on_sphere(measure: SphereFlowMap, dynamics: Dynamics) -> float:
    """e^{-β} times the dissipation of a flow map on S^2."""
    field, sources = SphereField(dynamics), (measure.points, measure.weights)
    moments = field.moments(*sources)
    velocity = field.velocity(moments, measure.points, sources)
    return field.dissipation(moments, *sources, velocity) * float(np.exp(-dynamics.beta))


def unscaled(name: str, value: float, beta: float, scaled: bool, *, power: float = 1.0) -> float:
    """A value that was computed as e^{-power β} times what it is, or as it was if it shall be."""
    if scaled:
        return value
    if value > 0.0 and np.log(value) + power * beta > 709.0:
        raise ValueError(f"beta = {beta:g} makes the {name} overflow: ask for it with scaled=True")
    # the exponential in two factors, since it may overflow where the product does not
    half = float(np.exp(0.5 * power * beta)) if value > 0.0 else 1.0
    return value * half * half
