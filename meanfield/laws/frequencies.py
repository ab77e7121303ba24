"""Natural frequencies of oscillators: nodes and weights that stand for a law g(ω)."""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from meanfield._checks import integer, number
from meanfield.typing import Array

# beyond it weights of the Gauss rule leave double precision
_MOST_NODES = 180


def lorentzian_frequencies(width: float, n: int, centre: float = 0.0) -> tuple[Array, Array]:
    """ω_j = centre + γ tan φ_j at the middles φ_j of n equal parts of (-π/2, π/2).

    These are quantiles of g(ω) = (γ/π)/((ω - centre)² + γ²), for `Oscillators`. As a quadrature
    for an `OscillatorDensity` they are poor: e^{-iωt} has no limit in φ at ±π/2, so that errors
    fall like n^{-3/4} only. There a node of this width is exact: see its `widths`.

    Parameters
    ----------
    width : float
        γ > 0, half the width at half the maximum.
    n : int
        >= 1.
    centre : float

    Returns
    -------
    frequencies, weights : ndarray, shape (n,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> lorentzian_frequencies(1.0, 2)[0].round(12)
    array([-1.,  1.])
    """
    width, centre = number("width", width, above=0), number("centre", centre)
    n = integer("n", n, low=1)
    levels = (np.arange(n) + 0.5) / n - 0.5
    return centre + width * np.tan(np.pi * levels), np.full(n, 1.0 / n)


def gaussian_frequencies(deviation: float, n: int, centre: float = 0.0) -> tuple[Array, Array]:
    """Gauss–Hermite nodes and weights of g(ω) = e^{-(ω - centre)²/(2 s²)}/(s sqrt(2π)).

    Up to times of order sqrt(n)/s means over them are those over g: beyond, e^{-iωt} turns faster
    than the nodes can tell, and phases come back together that would not.

    Parameters
    ----------
    deviation : float
        s > 0.
    n : int
        1 to 180.
    centre : float

    Returns
    -------
    frequencies, weights : ndarray, shape (n,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> frequencies, weights = gaussian_frequencies(2.0, 5)
    >>> round(float(weights @ frequencies**2), 12)
    4.0
    """
    deviation, centre = number("deviation", deviation, above=0), number("centre", centre)
    nodes, weights = hermegauss(integer("n", n, low=1, high=_MOST_NODES))
    return centre + deviation * nodes, weights / weights.sum()
