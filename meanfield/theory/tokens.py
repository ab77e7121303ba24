"""Closed forms for n tokens: orthogonal starts, and how often all lie in a hemisphere."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from scipy.integrate import quad
from scipy.optimize import brentq

from meanfield.arguments import integer, number, shown
from meanfield.dynamics import Isotropic
from meanfield.theory.measures import check_attention

# of the integral over s = -log(1 - γ)
_EDGES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# γ (n + β) below it: γ grows in proportion to t but for rounding
_LINEAR = 1e-17
# e^β beyond it is taken out of an integral
_LARGEST_UNSCALED = 600.0
_LARGEST_LOG = math.log(1.7e308)


def orthogonal_tokens(dynamics: Isotropic, n: int, t: float) -> float:
    """γ(t) = <x_i, x_j> of n tokens that start orthogonal: (6.9) for SA, (6.10) for USA.

    For DoublyStochastic (6.9), too: tokens of equal inner products have equal rows of attention.
    The separable equation is inverted: t(γ) is an integral, whose root in 1 - γ is sought in
    logarithmic scale, so that γ keeps its digits near 1.

    Parameters
    ----------
    dynamics : SA, USA or DoublyStochastic
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
    last, log_unit = _arrival(dynamics, n, longest)
    # in two factors, since one may underflow where the product does not
    t = t * math.exp(-0.5 * log_unit) * math.exp(-0.5 * log_unit)
    if last <= t:
        return 1.0
    # at first γ grows in proportion to t
    first = t / _slowness(dynamics, n, 0.0, log_unit)
    if first * (n + dynamics.beta) < _LINEAR:
        return first
    s = brentq(
        lambda s: _arrival(dynamics, n, s)[0] - t,
        0.0,
        longest,
        xtol=1e-300,
        rtol=1e-14,
        maxiter=500,
    )
    return -math.expm1(-s)


def orthogonal_arrival(dynamics: Isotropic, n: int, delta: float) -> float:
    """t* at which n tokens that start orthogonal have inner products 1 - δ: Γ_{∞,δ} of (6.12).

    t* = ∫_0^{1-δ} (e^{β(1-γ)} + n - 1) / (2(1-γ)((n-1)γ + 1)) dγ for SA, and with n e^{-βγ} for
    the numerator under USA.

    Parameters
    ----------
    dynamics : SA, USA or DoublyStochastic
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
        If an argument is out of range, or t* is too large for float64 (SA from about β = 710 on).

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> round(orthogonal_arrival(SA(beta=0.0), n=2, delta=0.5), 14)  # artanh(1/2)
    0.54930614433405
    """
    n = integer("n", n, low=2)
    if not 1e-15 <= number("delta", delta) < 1.0:
        raise ValueError(f"delta must be in [1e-15, 1), got {shown(delta)}")
    _check_attraction(dynamics)
    time, log_unit = _arrival(dynamics, n, -math.log(delta))
    if math.log(time) + log_unit > _LARGEST_LOG:
        raise ValueError(
            f"beta must be such that t*, of order exp(beta)/beta, fits float64, got "
            f"{dynamics.beta:g} with n = {n} and delta = {delta:g}"
        )
    # in two factors, since the exponential may overflow where the product does not
    half = math.exp(0.5 * log_unit)
    return time * half * half


def _check_attraction(dynamics: Isotropic) -> None:
    check_attention(dynamics)
    if dynamics.sign != 1 or dynamics.noise != 0.0:
        raise ValueError(f"dynamics must have sign = 1 and noise = 0, got {shown(dynamics)}")


def _arrival(dynamics: Isotropic, n: int, s_end: float) -> tuple[float, float]:
    """e^{-u} times the time at which 1 - γ = e^{-s}, from (6.9) or (6.10), and u: β where large."""
    beta = dynamics.beta
    log_unit = beta if dynamics.normalised and beta > _LARGEST_UNSCALED else 0.0

    # at large β all is decided within 1/β of the start
    inner = [5.0**k / max(beta, 1.0) for k in range(6)]
    middle = [edge for edge in (*inner, *_EDGES) if edge < s_end]
    edges = [0.0, *sorted(middle), s_end]
    pieces = [
        quad(lambda s: _slowness(dynamics, n, s, log_unit), a, b, epsabs=0.0, epsrel=1e-13)[0]
        for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(pieces), log_unit


def _slowness(dynamics: Isotropic, n: int, s: float, log_unit: float) -> float:
    """e^{-u} dt/ds at 1 - γ = e^{-s}."""
    beta, gamma = dynamics.beta, -math.expm1(-s)
    if dynamics.normalised:
        factor = math.exp(beta * (1.0 - gamma) - log_unit) + (n - 1) * math.exp(-log_unit)
    else:
        factor = n * math.exp(-beta * gamma)
    return 0.5 * factor / ((n - 1) * gamma + 1)


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
