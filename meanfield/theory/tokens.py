"""Closed forms for n tokens: orthogonal starts, and how often all lie in a hemisphere."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from scipy.integrate import quad
from scipy.optimize import brentq

from meanfield.arguments import integer, number
from meanfield.dynamics import Dynamics


def orthogonal_tokens(dynamics: Dynamics, n: int, t: float) -> float:
    """γ(t) = <x_i, x_j> of n tokens that start orthogonal: (6.9) for SA, (6.10) for USA.

    The separable equation is inverted: t(γ) is an integral, whose root in 1 - γ is sought in
    logarithmic scale, so that γ keeps its digits near 1.

    Parameters
    ----------
    dynamics : SA or USA
        Attractive and without noise.
    n : int
        Number of tokens, n >= 2.
    t : float
        Time t >= 0.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> round(orthogonal_tokens(SA(beta=0.0), n=2, t=0.5), 14)  # tanh(t)
    0.46211715726001
    """
    n = integer("n", n, low=2)
    t = number("t", t, low=0)
    _check_attraction(dynamics)
    if t == 0.0:
        return 0.0
    # with s = -log(1 - γ): dt/ds = slowness(γ(s))
    longest = 36.0
    if _arrival(dynamics, n, longest) <= t:
        return 1.0
    s = brentq(lambda s: _arrival(dynamics, n, s) - t, 0.0, longest, xtol=1e-300, rtol=1e-14)
    return -math.expm1(-s)


def orthogonal_arrival(dynamics: Dynamics, n: int, delta: float) -> float:
    """t* at which n tokens that start orthogonal have inner products 1 - δ: Γ_{∞,δ} of (6.12).

    t* = ∫_0^{1-δ} (e^{β(1-γ)} + n - 1) / (2(1-γ)((n-1)γ + 1)) dγ for SA, and with n e^{-βγ} for
    the numerator under USA.

    Parameters
    ----------
    dynamics : SA or USA
        Attractive and without noise.
    n : int
        Number of tokens, n >= 2.
    delta : float
        δ, 1e-15 <= δ < 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> round(orthogonal_arrival(SA(beta=0.0), n=2, delta=0.5), 14)  # artanh(1/2)
    0.54930614433405
    """
    n = integer("n", n, low=2)
    if not 1e-15 <= number("delta", delta) < 1.0:
        raise ValueError(f"delta must be in [1e-15, 1), got {delta!r}")
    _check_attraction(dynamics)
    return _arrival(dynamics, n, -math.log(delta))


def _check_attraction(dynamics: Dynamics) -> None:
    if dynamics.sign != 1 or dynamics.noise != 0.0:
        raise ValueError(f"dynamics must have sign = 1 and noise = 0, got {dynamics!r}")


def _arrival(dynamics: Dynamics, n: int, s_end: float) -> float:
    """The time at which 1 - γ = e^{-s}, from (6.9) or (6.10)."""
    beta = dynamics.beta

    def slowness(s: float) -> float:
        gamma = -math.expm1(-s)
        if dynamics.normalised:
            # e^700 is as good as never
            factor = 0.5 * (math.exp(min(beta * (1.0 - gamma), 700.0)) + n - 1)
        else:
            factor = 0.5 * n * math.exp(-beta * gamma)
        return factor / ((n - 1) * gamma + 1)

    edges = [0.0, *[edge for edge in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0) if edge < s_end], s_end]
    pieces = [
        quad(slowness, a, b, epsabs=0.0, epsrel=1e-13)[0] for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(pieces)


def wendel(n: int, dim: int) -> float:
    """P(n uniform points of S^{d-1} lie in a hemisphere) = 2^{-(n-1)} Σ_{k<d} C(n-1, k).

    Theorem 6.7; 1 for n <= d. In exact rational arithmetic, rounded once.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> wendel(4, 3)
    0.875
    """
    n, dim = integer("n", n, low=1), integer("dim", dim, low=2)
    if n <= dim:
        return 1.0
    ways = sum(math.comb(n - 1, k) for k in range(dim))
    return float(Fraction(ways, 2 ** (n - 1)))
