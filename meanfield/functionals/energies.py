"""Energy and dissipation of a measure."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from meanfield.arguments import boolean, number, shown
from meanfield.dynamics import SA, Attention, Dynamics, Isotropic
from meanfield.functionals.forms import form_dissipation, form_energy_in_unit
from meanfield.harmonics import eigenvalues_in_unit
from meanfield.measures import AnyMeasure, Density, LineFlowMap, SphereFlowMap, check_measure
from meanfield.tendency import (
    DensityTendency,
    FlowTendency,
    IsotropicTendency,
    SphereField,
    tendency,
)


def energy(
    measure: AnyMeasure, beta: float, *, form: ArrayLike | None = None, scaled: bool = False
) -> float:
    """E_β(mu) = 1/(2β) ∬ e^{β<x,y>} dmu dmu (3.5); at β = 0 its limit |∫ x dmu|²/2 without 1/(2β).

    For densities E = 1/(2β) Σ_k Λ_k |mu_k|², for flow maps and particles the double sum. With a
    form D, E_{β,D}(mu) = 1/(2β) ∬ e^{β<x,Dy>} dmu dmu, of which `Attention` with KᵀQ = D and
    V = ±D is a gradient flow (Burger et al., arXiv 2501.03096, whose E_D is 2 E_{1,D}); at β = 0
    <m, Dm>/2, m = ∫ x dmu.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    beta : float
        Inverse temperature β >= 0.
    form : array_like, shape (d, d), or float, optional
        D, symmetric; a number is that multiple of the identity, which it is if omitted. A measure
        that is stored by latitudes takes a D that commutes with rotations about its axis.
    scaled : bool
        Whether to return e^{-β} E, which overflows for no β without a form.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If β is negative or not finite, D is not symmetric, E is too large for float64, or the
        nodes of a flow map can't resolve the kernel: see `FlowMap.resolving`.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> round(energy(Particles([[1.0, 0.0]]), 2.0), 12)  # e^2/4
    1.847264024733
    """
    check_measure("measure", measure)
    beta, scaled = number("beta", beta, low=0), boolean("scaled", scaled)
    if form is None:
        return unscaled("energy", *energy_in_unit(measure, beta), beta, scaled)
    return unscaled("energy", *form_energy_in_unit(measure, beta, form), beta, scaled)


def energy_in_unit(measure: AnyMeasure, beta: float) -> tuple[float, float]:
    """e^{-u} E_β(mu), and u: β, but log Λ_0 for a density where e^{-β} Λ_0 underflows."""
    if beta == 0.0:
        return 0.5 * float(np.sum(measure.mean() ** 2)), 0.0
    if isinstance(measure, LineFlowMap):
        rate = FlowTendency(measure.resolving(beta), SA(beta))
        return rate.scaled_energy(rate.initial_state), beta
    if isinstance(measure, SphereFlowMap):
        flow, field = measure.resolving(beta), SphereField(SA(beta))
        return field.energy(field.moments(flow.points, flow.weights), scaled=True), beta
    if isinstance(measure, Density):
        power = measure.power
        multipliers, log_unit = eigenvalues_in_unit(beta, measure.dim, len(power) - 1)
        return float(multipliers @ power) / (2.0 * beta), log_unit
    log_g, _ = measure.log_moment(beta * measure.points)
    return float(measure.weights @ np.exp(log_g - beta)) / (2.0 * beta), beta


def dissipation(
    measure: AnyMeasure, dynamics: Isotropic | Attention, *, scaled: bool = False
) -> float:
    """∫ |X|² G(βx) dmu for SA (3.6), ∫ |X|² dmu for USA (Lemma 3.7); dE/dt is sign times it.

    ∫ |X|² dmu for DoublyStochastic, too, under which it is the rate of E_DS, `sinkhorn_energy`.
    For attention with a `form` D, dE_{β,D}/dt is ± ∫ |X|² dmu, with `normalise` ± ∫ |X|² G(βDx)
    dmu.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : SA, USA, DoublyStochastic, or Attention that has a `form`
    scaled : bool
        Whether to return e^{-β} times it, which overflows for no β.

    Returns
    -------
    float
        >= 0.

    Raises
    ------
    ValueError
        If the dynamics is no such gradient flow, the value is too large for float64, or a flow
        map can't resolve the kernel.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> from meanfield.measures import Particles
    >>> dissipation(Particles([[1.0, 0.0]]), SA(2.0))
    0.0
    """
    check_measure("measure", measure)
    scaled = boolean("scaled", scaled)
    if isinstance(dynamics, Attention):
        value = form_dissipation(measure, dynamics)
        return unscaled("dissipation", value, 0.0, dynamics.beta, scaled)
    if not isinstance(dynamics, Isotropic):
        raise ValueError(
            f"dynamics must be SA, USA, DoublyStochastic or Attention with a form, got "
            f"{shown(dynamics)}"
        )
    return unscaled("dissipation", *dissipation_in_unit(measure, dynamics), dynamics.beta, scaled)


def dissipation_in_unit(measure: AnyMeasure, dynamics: Dynamics) -> tuple[float, float]:
    """e^{-u} times the dissipation, and u as in `energy_in_unit`, 0 for DoublyStochastic."""
    if isinstance(measure, SphereFlowMap):
        flow, field = measure.resolving(dynamics.beta), SphereField(dynamics)
        velocity, moments = field.at_nodes(flow.points, flow.weights)
        scaled = field.dissipation(moments, flow.points, flow.weights, velocity, scaled=True)
        return scaled, 0.0 if dynamics.balanced else dynamics.beta
    rate = cast(IsotropicTendency, tendency(measure.resolving(dynamics.beta), dynamics))
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    log_unit = rate.log_unit if isinstance(rate, DensityTendency) else dynamics.beta
    return rate.scaled_dissipation(), 0.0 if dynamics.balanced else log_unit


def unscaled(
    name: str, value: float, log_unit: float, beta: float, scaled: bool, *, power: float = 1.0
) -> float:
    """A value that was computed in units of e^{power u}, as it is or in those of e^{power β}."""
    exponent = power * (log_unit - beta if scaled else log_unit)
    if value > 0.0 and np.log(value) + exponent > 709.0:
        raise ValueError(f"beta = {beta:g} makes the {name} overflow: ask for it with scaled=True")
    # the exponential in two factors, since it may overflow where the product does not
    half = float(np.exp(0.5 * exponent)) if value > 0.0 else 1.0
    return value * half * half
