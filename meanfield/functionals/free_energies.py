"""Entropy of a density, and the free energy whose gradient flow USA with noise is."""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from meanfield.arguments import shown
from meanfield.dynamics import USA, DoublyStochastic
from meanfield.functionals.energies import energy, unscaled
from meanfield.functionals.sinkhorn import sinkhorn_energy
from meanfield.measures import Density
from meanfield.tendency import density_tendency

# those whose field is the gradient of an energy in W_2
GradientFlow = USA | DoublyStochastic


def entropy(density: Density) -> float:
    """∫ f log f dσ, 0 for the uniform measure and else positive, by the quadrature of the space.

    Parameters
    ----------
    density : Density
        Where its series is negative, f counts as 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If it is no `Density`.

    Examples
    --------
    >>> from meanfield.laws import FourierSeries
    >>> from meanfield.spaces import Circle
    >>> round(entropy(Density(Circle(64), FourierSeries(cos=[0.5]))), 12)
    0.06463813202
    """
    _check_density(density)
    positive = np.maximum(density.values, 0.0)
    return float(density.space.weights @ xlogy(positive, positive))


def free_energy(density: Density, dynamics: GradientFlow, *, scaled: bool = False) -> float:
    """F = τ ∫ f log f dσ ∓ E_β, which USA with noise τ lowers as fast as W_2 allows; ± its sign.

    For DoublyStochastic E_DS, `sinkhorn_energy`, stands for E_β.

    Parameters
    ----------
    density : Density
    dynamics : USA or DoublyStochastic
        SA with noise is no gradient flow.
    scaled : bool
        Whether to return e^{-β} F, which overflows for no β.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is of another kind.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> from meanfield.spaces import Circle
    >>> free_energy(Density(Circle(8), Uniform(2)), USA(0.0, noise=1.0)) + 0.0
    0.0
    """
    _check(density, dynamics)
    beta, factor = dynamics.beta, float(np.exp(-dynamics.beta)) if scaled else 1.0
    heat = dynamics.noise * entropy(density) * factor
    if isinstance(dynamics, DoublyStochastic):
        return heat - dynamics.sign * sinkhorn_energy(density, beta) * factor
    return heat - dynamics.sign * energy(density, beta, scaled=scaled)


def free_dissipation(density: Density, dynamics: GradientFlow, *, scaled: bool = False) -> float:
    """-dF/dt = ∫ |X - τ ∇ log f|² dmu under USA with noise τ, F the `free_energy`.

    Since X = ± ∇ δE/δmu (3.9), for DoublyStochastic with E_DS for E, X - τ ∇ log f = -∇ δF/δmu is
    the whole velocity of the density.

    Parameters
    ----------
    density : Density
    dynamics : USA or DoublyStochastic
        SA with noise is no gradient flow.
    scaled : bool
        Whether to return e^{-β} times it.

    Returns
    -------
    float
        >= 0, and 0 where the density is stationary.

    Raises
    ------
    ValueError
        If an argument is of another kind, or the value is too large for float64.

    Examples
    --------
    >>> from meanfield.laws import FourierSeries
    >>> from meanfield.spaces import Circle
    >>> mu = Density(Circle(16), FourierSeries(cos=[0.5]))
    >>> round(free_dissipation(mu, USA(0.0)), 12)  # at β = 0 without noise 0.5²/8
    0.03125
    """
    _check(density, dynamics)
    rate, beta = density_tendency(density, dynamics), dynamics.beta
    root = rate.noisy_speed(rate.initial_state) * float(np.exp(-0.5 * beta))
    return unscaled("free dissipation", root * root, beta, beta, scaled)


def _check(density: Density, dynamics: GradientFlow) -> None:
    _check_density(density)
    if not isinstance(dynamics, (USA, DoublyStochastic)):
        raise ValueError(
            f"dynamics must be USA or DoublyStochastic, whose flow has a free energy, got "
            f"{shown(dynamics)}"
        )


def _check_density(density: Density) -> None:
    if not isinstance(density, Density):
        raise ValueError(f"density must be a Density, got {shown(density)}")
