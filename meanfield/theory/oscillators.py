"""Closed forms for phase oscillators: when they synchronise, and how far."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx

from meanfield.arguments import number, real_array

Array = NDArray[np.float64]


def kuramoto_critical_coupling(density_at_centre: float) -> float:
    """K_c = 2/(π g(0)): from it on phases synchronise, for g even and falling away from 0.

    Parameters
    ----------
    density_at_centre : float
        g(0) > 0 of the frequencies' density, ∫ g dω = 1.

    Raises
    ------
    ValueError
        If it is not positive.

    Examples
    --------
    >>> kuramoto_critical_coupling(1.0 / np.pi)  # a Lorentzian of width 1
    2.0
    """
    return 2.0 / (math.pi * number("density_at_centre", density_at_centre, above=0))


def lorentzian_critical_coupling(width: float, noise: float = 0.0) -> float:
    """K_c = 2(γ + τ) of Lorentzian frequencies of width γ under noise τ.

    Above it r grows from the uniform state at the rate K/2 - γ - τ.

    Parameters
    ----------
    width, noise : float
        >= 0.

    Raises
    ------
    ValueError
        If one is negative.

    Examples
    --------
    >>> lorentzian_critical_coupling(1.0, noise=0.5)
    3.0
    """
    return 2.0 * (number("width", width, low=0) + number("noise", noise, low=0))


def gaussian_critical_coupling(deviation: float, noise: float = 0.0) -> float:
    """K_c of Gaussian frequencies of deviation s under noise τ (Sakaguchi 1988).

    2/K_c = ∫ τ/(τ² + ω²) g(ω) dω = sqrt(π/2)/s · e^{x²} erfc(x), x = τ/(s sqrt 2).

    Parameters
    ----------
    deviation : float
        s > 0.
    noise : float
        τ >= 0.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(gaussian_critical_coupling(1.0), 12)  # 2 sqrt(2/π)
    1.595769121606
    """
    deviation, noise = number("deviation", deviation, above=0), number("noise", noise, low=0)
    ratio = noise / deviation
    if ratio > 1e100:
        return 2.0 * noise
    share = float(erfcx(ratio / math.sqrt(2.0)))
    return 2.0 * deviation / (math.sqrt(math.pi / 2.0) * share)


def ott_antonsen(coupling: float, start: float, t: ArrayLike, width: float = 0.0) -> Array:
    """r(t) of Kuramoto's dynamics on the Ott–Antonsen manifold, r' = (K/2 - γ) r - (K/2) r³.

    There the density at t = 0 is the Poisson kernel (1 - r²)/(1 - 2r cos θ + r²), at every
    frequency, with respect to σ. With a = K/2 - γ,

        r² = r_0² e^{2at} / (1 + (K/2) r_0² (e^{2at} - 1)/a).

    Parameters
    ----------
    coupling : float
        K.
    start : float
        r_0 = r(0), 0 to 1.
    t : array_like, shape (n,)
        Times >= 0.
    width : float
        γ >= 0 of the Lorentzian frequencies; 0 for identical ones.

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    E. Ott & T. M. Antonsen, Chaos 18 (2008) 037113. For large t above K_c = 2γ it is
    sqrt(1 - K_c/K).

    Examples
    --------
    >>> ott_antonsen(4.0, 0.5, [0.0, 100.0], width=1.0)  # sqrt(1/2)
    array([0.5       , 0.70710678])
    """
    coupling, width = number("coupling", coupling), number("width", width, low=0)
    first = number("start", start, low=0, high=1)
    times = real_array("t", t, 1)
    if times.min() < 0.0:
        raise ValueError(f"t must be >= 0, got {times.min():g}")
    rate, half = 0.5 * coupling - width, 0.5 * coupling
    # 0 stays, and 1 where nothing pulls phases apart but repulsion
    if first == 0.0 or (first == 1.0 and width == 0.0):
        return np.full(times.shape, first)
    # each sum is one of positive terms
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        if rate == 0.0:
            return np.asarray(first / np.sqrt(1.0 + 2.0 * half * first**2 * times))
        if rate > 0.0:
            gained = -half * np.expm1(-2.0 * rate * times) / rate
            return np.asarray(1.0 / np.hypot(np.exp(-rate * times) / first, np.sqrt(gained)))
        left = np.exp(rate * times)
        if half >= 0.0:
            grown = np.expm1(2.0 * rate * times) / rate
            return np.asarray(first * left / np.sqrt(1.0 + half * first**2 * grown))
        share = half / rate
        lost = (1.0 - first) * (1.0 + first) - first**2 * width / rate
        kept = share * first**2
        return np.asarray(first * left / np.hypot(math.sqrt(lost), math.sqrt(kept) * left))
