"""Closed forms for measures: linear growth at uniform, critical noise, energies, stability."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from meanfield.arguments import integer, number, shown
from meanfield.dynamics import (
    SA,
    USA,
    CircleInteraction,
    Isotropic,
    MeanField,
)
from meanfield.dynamics.heads import check_dim
from meanfield.harmonics import eigenvalues, log_first_over_beta, relative_eigenvalues

Array = NDArray[np.float64]

_MOST_DEGREES = 1 << 20


def growth_rates(dynamics: MeanField, dim: int, kmax: int) -> Array:
    """γ_k = ± k(k+d-2) Λ_k/β [/ Λ_0 for SA] - τ k(k+d-2): linear growth at the uniform measure.

    ± (k(k+d-2)/β) λ_k/(1 + λ_k), λ_k = Λ_k/Λ_0, for DoublyStochastic, ours: log u changes by
    -λ_k/(1 + λ_k) of the perturbation. At large β and given k that is half the rate of SA.

    A perturbation ε Y_k of σ grows like e^{γ_k t}; the degree with the largest γ_k tells how many
    clusters form first. Of an interaction on the circle γ_k = K k b_k/2 - τk².

    Parameters
    ----------
    dynamics : SA, USA, DoublyStochastic or CircleInteraction
    dim : int
        Ambient dimension d >= 2.
    kmax : int
        Largest degree.

    Returns
    -------
    ndarray, shape (kmax + 1,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> int(np.argmax(growth_rates(SA(beta=5.0), dim=2, kmax=10)))
    3
    """
    if not isinstance(dynamics, (Isotropic, CircleInteraction)):
        raise ValueError(
            f"dynamics must be SA, USA, DoublyStochastic or a CircleInteraction, got "
            f"{shown(dynamics)}"
        )
    k = np.arange(integer("kmax", kmax, low=0, high=_MOST_DEGREES) + 1)
    laplacian = k * (k + integer("dim", dim, low=2) - 2.0)
    if isinstance(dynamics, CircleInteraction):
        check_dim(dynamics, dim)
        rates = np.zeros(len(k))
        known = min(len(k), dynamics.kmax + 1)
        rates[:known] = 0.5 * k[:known] ** 2 * dynamics.potential[:known]
    else:
        rates = laplacian * _slopes(dynamics, dim, kmax)
    return np.asarray(dynamics.sign * rates - dynamics.noise * laplacian)


def _slopes(dynamics: Isotropic, dim: int, kmax: int) -> Array:
    """Λ_k/β [/ Λ_0, / (Λ_0 + Λ_k)] for k = 0 … kmax, 0 for k = 0.

    Λ_k(β, d)/β = Λ_{k-1}(β, d+2)/d, which loses nothing where β is small.
    """
    beta, slopes = dynamics.beta, np.zeros(kmax + 1)
    if kmax == 0:
        return slopes
    if not dynamics.normalised:
        slopes[1:] = eigenvalues(beta, dim + 2, kmax - 1) / dim
        return slopes
    ratios = relative_eigenvalues(beta, dim, kmax)
    # of degree 1 in the limit, where it may be denormal
    first = ratios[1] / beta if beta > 1e-150 else 1.0 / dim
    slopes[1:] = first * relative_eigenvalues(beta, dim + 2, kmax - 1)
    return slopes / (1.0 + ratios) if dynamics.balanced else slopes


def critical_noise(dynamics: Isotropic, dim: int, degree: int = 1) -> float:
    """τ_k = Λ_k/β (USA), Λ_k/(β Λ_0) (SA): above it degree k of the uniform state is damped.

    Λ_k/(β (Λ_0 + Λ_k)) for DoublyStochastic.

    Parameters
    ----------
    dynamics : SA, USA or DoublyStochastic
        Attractive (sign = +1); its own noise plays no part.
    dim : int
        Ambient dimension d >= 2.
    degree : int
        k >= 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of range, or the dynamics is repulsive.

    Examples
    --------
    >>> from meanfield.dynamics import USA
    >>> critical_noise(USA(beta=0.0), dim=3)
    0.3333333333333333
    """
    degree = integer("degree", degree, low=1)
    check_attention(dynamics)
    if dynamics.sign != 1:
        raise ValueError(f"dynamics must be attractive (sign = 1), got sign = {dynamics.sign}")
    rates = growth_rates(type(dynamics)(dynamics.beta), dim, degree)
    return float(rates[degree] / (degree * (degree + dim - 2)))


def transition_beta(dim: int) -> float:
    """β*(d), I_{d/2+1}(β*)/I_{d/2}(β*) = 1/d: up to it noise breaks symmetry continuously (USA).

    Below β* the branch of degree 1 leaves the uniform state towards smaller noise, and the free
    energy's minimiser with it; beyond, the transition is of first order (arXiv 2606.05140). The
    ratio is Λ_2/Λ_1.

    Parameters
    ----------
    dim : int
        Ambient dimension 2 <= d <= 1024.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the dimension is out of range.

    Examples
    --------
    >>> round(transition_beta(2), 12)
    2.446918311289
    """
    dim = integer("dim", dim, low=2, high=1024)

    def excess(beta: float) -> float:
        ratios = relative_eigenvalues(beta, dim, 2)
        return float(ratios[2] / ratios[1]) - 1.0 / dim

    # it falls from 2.45 at d = 2 to 1
    return float(brentq(excess, 0.5, 4.0, xtol=1e-15, rtol=1e-15))


def energy_uniform(beta: float, dim: int) -> float:
    """E_β(σ) = Λ_0(β, d)/(2β), the minimum (Proposition 3.4); 0 at β = 0.

    Raises
    ------
    ValueError
        If an argument is out of range, or the energy overflows.

    Examples
    --------
    >>> round(energy_uniform(2.0, 2), 12)
    0.569896325584
    """
    beta = number("beta", beta, low=0)
    if beta == 0.0:
        integer("dim", dim, low=2)
        return 0.0
    return _finite(float(eigenvalues(beta, dim, 0)[0]) / (2.0 * beta), beta)


def energy_dirac(beta: float) -> float:
    """E_β(δ) = e^β/(2β), the maximum (Proposition 3.4); 1/2 at β = 0.

    Raises
    ------
    ValueError
        If β is out of range, or the energy overflows.

    Examples
    --------
    >>> energy_dirac(0.0)
    0.5
    """
    beta = number("beta", beta, low=0)
    if beta == 0.0:
        return 0.5
    with np.errstate(over="ignore"):
        return _finite(float(np.exp(beta)) / (2.0 * beta), beta)


def sinkhorn_energy_uniform(beta: float, dim: int) -> float:
    """E_DS(σ) = log Λ_0(β, d)/(2β), the energy of `DoublyStochastic`; 0 at β = 0.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(sinkhorn_energy_uniform(2.0, 2), 12)  # log I_0(2)/4
    0.205998385371
    """
    return 0.5 * log_first_over_beta(beta, dim)


def sinkhorn_energy_dirac(beta: float) -> float:
    """E_DS(δ) = 1/2 at every β, where u² e^β = 1.

    Raises
    ------
    ValueError
        If β is out of range.

    Examples
    --------
    >>> sinkhorn_energy_dirac(4.0)
    0.5
    """
    number("beta", beta, low=0)
    return 0.5


def _finite(value: float, beta: float) -> float:
    if not math.isfinite(value):
        raise ValueError(
            f"beta must be 0 or from 1e-307 to 709 for an energy in float64, got {beta:g}"
        )
    return value


def check_attention(dynamics: Isotropic) -> None:
    """Refuse what is no attention without matrices.

    Raises
    ------
    ValueError
        Naming it.
    """
    if not isinstance(dynamics, Isotropic):
        raise ValueError(f"dynamics must be SA, USA or DoublyStochastic, got {shown(dynamics)}")


def dobrushin_constant(dynamics: Isotropic) -> float:
    """C in W_1(mu_t, nu_t) <= e^{Ct} W_1(mu_0, nu_0), Remark 3.3, in geodesic distance; ours.

    C bounds how fast the field varies with x and, in units of W_1, with the measure. USA: both
    are e^β, the largest derivative of P_x y e^{β<x,y>}. SA: its gradient is β Cov(y) - <x, ∇ log
    G>, of norm at most β + 1/(4β) (1 below β = 1/2), and e^{β<x,y>}/G varies by at most (1 + 2β)
    e^{2β}. Both signs alike. What runs do is far better: see `studies.mean_field_limit`.

    Parameters
    ----------
    dynamics : SA or USA
        Without noise.

    Returns
    -------
    float
        inf where it leaves double precision.

    Raises
    ------
    ValueError
        If there is noise, or the dynamics is another.

    Examples
    --------
    >>> from meanfield.dynamics import USA
    >>> dobrushin_constant(USA(0.0))
    2.0
    """
    if not isinstance(dynamics, (SA, USA)) or dynamics.noise > 0.0:
        raise ValueError(f"dynamics must be SA or USA without noise, got {shown(dynamics)}")
    beta = dynamics.beta
    if not dynamics.normalised:
        return 2.0 * math.exp(beta)
    in_x = beta + 0.25 / beta if beta > 0.5 else 1.0
    return in_x + (1.0 + 2.0 * beta) * (math.exp(2.0 * beta) if beta < 350.0 else math.inf)
