"""Funk-Hecke multipliers Λ_k(β, d) of the kernel e^{β<x,y>} with respect to σ."""

from __future__ import annotations

import math

import numpy as np

from meanfield._checks import integer, number
from meanfield.spaces.gegenbauer import multiplicity_growth
from meanfield.typing import Array, Integers

# recurrences take seconds at these bounds; beyond them they may take all memory, or never end
_MOST_DEGREES = 1 << 20
_LARGEST_BETA = 1e9
_LOG_NEGLIGIBLE = math.log(1e-20)
_LN2 = math.log(2.0)
# β² of a smaller β counts for nothing beside 1
_SMALL = 1e-150
# products with numbers whose logarithm is less lose digits
_LOG_LEAST = math.log(1e-290)


def ratio_bound(beta: float | Array, order: Array) -> Array:
    """Upper bound of I_{ν+1}(β)/I_ν(β) by Amos (1974), eq. (9)."""
    return beta / (order + 0.5 + np.sqrt((order + 0.5) ** 2 + beta * beta))


def counted(beta: float, dim: int, kmax: int) -> tuple[int, Array]:
    """A degree past kmax where N_k Λ_k no longer counts in e^β = Σ N_k Λ_k; N_k / N_{k-1} to it."""
    size = max(64, 2 * kmax)
    while True:
        k = np.arange(1.0, size)
        growth = multiplicity_growth(dim, k)
        log_growth = np.log(np.maximum(ratio_bound(beta, k + 0.5 * dim - 2.0), 1e-300))
        log_growth += np.log(growth)
        log_terms = np.cumsum(log_growth)
        # all terms after one add up to less than this one over 1 - growth
        log_tails = log_terms - np.log(np.clip(-log_growth, 1e-300, 0.05) / 0.05)
        negligible = (log_tails < log_terms.max() + _LOG_NEGLIGIBLE) & (log_growth < 0.0)
        negligible[:kmax] = False
        if negligible.any():
            last_degree = int(np.argmax(negligible)) + 1
            return last_degree, growth[:last_degree]
        size *= 2


def _eigenvalue_ratios(beta: float, dim: int, last: int) -> list[float]:
    """Λ_{k+1}/Λ_k = I_{ν+1}(β)/I_ν(β), ν = k + d/2 - 1, for k < last, by Miller's recurrence."""
    # at each step down the starting error shrinks by the square of the ratio
    start, log_error = last, 0.0
    while log_error > -40.0:
        start += 1
        bound = beta / (start + 0.5 * dim + math.hypot(start, beta))
        log_error += 2.0 * math.log(max(bound, 1e-300))
    ratio = float(ratio_bound(beta, np.array(start + 0.5 * dim)))
    ratios = [0.0] * last
    for k in range(start, -1, -1):
        ratio = beta / (2.0 * (k + 0.5 * dim) + beta * ratio)
        if k < last:
            ratios[k] = ratio
    return ratios


def _binary_ratios(ratios: list[float], kmax: int, unit: float = 1.0) -> tuple[Array, Integers]:
    """Return Λ_k/Λ_0 = m · 2^e as mantissas and exponents, so that nothing underflows.

    The ratios Λ_{k+1}/Λ_k are given in a unit.
    """
    mantissas, exponents = np.ones(kmax + 1), np.zeros(kmax + 1, dtype=np.int64)
    factor, power = math.frexp(unit) if unit != 1.0 else (1.0, 0)
    product, exponent = 1.0, 0
    for k in range(1, kmax + 1):
        product, power_of_2 = math.frexp(product * (ratios[k - 1] * factor))
        exponent += power_of_2 + power
        mantissas[k], exponents[k] = product, exponent
    return mantissas, exponents


def _binary_small(beta: float, dim: int, kmax: int) -> tuple[Array, Integers]:
    """Λ_k = β^k/(d (d+2) … (d+2k-2)) for β < 1e-150, where Λ_0 = 1 to rounding, as m · 2^e."""
    return _binary_ratios([1.0 / (dim + 2.0 * k) for k in range(kmax)], kmax, beta)


def _binary_eigenvalues(beta: float, dim: int, kmax: int) -> tuple[Array, Integers]:
    """Return e^{-β} Λ_k(β, d) = m · 2^e as mantissas and exponents, so that nothing underflows.

    With ratios from Miller's recurrence and e^β = Σ_k N_k Λ_k (the kernel at x = y) every sum has
    positive terms only: relative accuracy survives for all β, d and k.
    """
    if beta < _SMALL:
        return _binary_small(beta, dim, kmax)
    last, growth = counted(beta, dim, kmax)
    ratios = _eigenvalue_ratios(beta, dim, last)
    term, total, sum_exponent = 1.0, 1.0, 0
    for ratio, growth_factor in zip(ratios, growth.tolist(), strict=True):
        term *= ratio * growth_factor
        total += term
        if total > 1e200:
            term, total, sum_exponent = term * 2.0**-512, total * 2.0**-512, sum_exponent + 512
    mantissas, exponents = _binary_ratios(ratios, kmax)
    return mantissas / total, exponents - sum_exponent


def _unscaled(beta: float, mantissas: Array, exponents: Integers) -> Array:
    """Return e^β m · 2^e; inf where it overflows."""
    # e^β is multiplied in factors below e^500, with exponents kept apart, so that nothing overflows
    pieces = 8 + int(beta / 500.0)
    factor, power = math.frexp(math.exp(beta / pieces))
    for _ in range(pieces):
        mantissas, power_of_2 = np.frexp(mantissas * factor)
        exponents = exponents + power_of_2 + power
    return _joined(mantissas, exponents)


def _joined(mantissas: Array, exponents: Integers) -> Array:
    """Return m · 2^e."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(mantissas, exponents))


def relative_eigenvalues(beta: float, dim: int, kmax: int) -> Array:
    """Λ_k(β, d) / Λ_0(β, d) for k = 0 … kmax: what SA sees of the kernel, finite at any β and d.

    Parameters, errors and accuracy as in `scaled_eigenvalues`.

    Examples
    --------
    >>> relative_eigenvalues(0.0, 3, 2)
    array([1., 0., 0.])
    """
    beta, dim, kmax = _check(beta, dim, kmax)
    if beta < _SMALL:
        return _joined(*_binary_small(beta, dim, kmax))
    return _joined(*_binary_ratios(_eigenvalue_ratios(beta, dim, kmax), kmax))


def scaled_eigenvalues(beta: float, dim: int, kmax: int) -> Array:
    """e^{-β} Λ_k(β, d) with Λ_k = Γ(d/2) (2/β)^{d/2-1} I_{k+d/2-1}(β), for k = 0 … kmax.

    The Funk-Hecke multipliers of the kernel e^{β(<x,y>-1)} with respect to σ (proof of
    Proposition 3.4). Relative accuracy 1e-13 for β up to 1e4, d up to 1024 and k up to 2000.

    Parameters
    ----------
    beta : float
        Inverse temperature 0 <= β <= 1e9.
    dim : int
        Ambient dimension d >= 2.
    kmax : int
        Largest degree.

    Returns
    -------
    ndarray, shape (kmax + 1,)
        Values below 1e-308 lose digits and then underflow to 0: see `log_eigenvalues`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> bool(abs(scaled_eigenvalues(2.0, 3, 0)[0] * np.exp(2) - np.sinh(2) / 2) < 1e-14)
    True
    """
    beta, dim, kmax = _check(beta, dim, kmax)
    return _joined(*_binary_eigenvalues(beta, dim, kmax))


def eigenvalues(beta: float, dim: int, kmax: int) -> Array:
    """Λ_k(β, d) = Γ(d/2) (2/β)^{d/2-1} I_{k+d/2-1}(β) > 0, for k = 0 … kmax.

    Parameters and errors as in `scaled_eigenvalues`; values above 1.8e308 are inf, values below
    1e-308 lose digits and then underflow to 0: see `log_eigenvalues`.

    Examples
    --------
    >>> eigenvalues(0.0, 5, 2)
    array([1., 0., 0.])
    """
    beta, dim, kmax = _check(beta, dim, kmax)
    return _unscaled(beta, *_binary_eigenvalues(beta, dim, kmax))


def degree_weights(beta: float, dim: int, kmax: int) -> Array:
    """e^{-β} N_k Λ_k(β, d), k = 0 … kmax: the share of degree k in e^{β<x,y>} at x = y.

    All shares sum to 1 over k >= 0. They are products of ratios, so that N_k may leave double
    precision. Parameters, errors and accuracy as in `scaled_eigenvalues`.

    Examples
    --------
    >>> bool(abs(degree_weights(4.0, 3, 40).sum() - 1.0) < 1e-15)
    True
    """
    beta, dim, kmax = _check(beta, dim, kmax)
    if beta < _SMALL:
        mantissas, exponents = _binary_small(beta, dim, kmax)
        counts = np.cumprod(np.append(1.0, multiplicity_growth(dim, np.arange(1.0, kmax + 1))))
        return _joined(mantissas * counts, exponents)
    last, growth = counted(beta, dim, kmax)
    factors = (np.array(_eigenvalue_ratios(beta, dim, last)) * growth).tolist()
    mantissas, exponents = _binary_ratios(factors, last)
    terms = _joined(mantissas, exponents - exponents.max())
    return np.asarray(terms[: kmax + 1] / terms.sum())


def log_eigenvalues(beta: float, dim: int, kmax: int) -> Array:
    """log Λ_k(β, d) for k = 0 … kmax, finite where Λ_k itself over- or underflows.

    Parameters and errors as in `scaled_eigenvalues`; at β = 0 the entries k >= 1 are -inf.
    The error is 1e-13, relative or absolute, whichever is larger; that of log Λ_0 is relative.

    Examples
    --------
    >>> bool(log_eigenvalues(1e-8, 3, 200)[200] < -4000)
    True
    """
    beta, dim, kmax = _check(beta, dim, kmax)
    mantissas, exponents = _binary_eigenvalues(beta, dim, kmax)
    with np.errstate(divide="ignore"):
        logs: Array = np.log(mantissas) + exponents * _LN2 + beta
        # beyond that size `eigenvalues` would need ever more factors
        if (np.abs(logs) < 700.0).any():
            direct = np.log(_unscaled(beta, mantissas, exponents))
            logs = np.where(np.abs(logs) < 700.0, direct, logs)
    if beta * beta < dim:
        logs[0] = beta * _log_first_over_beta(beta, dim)
    return logs


def log_first_over_beta(beta: float, dim: int) -> float:
    """log Λ_0(β, d)/β, 0 at β = 0, with a relative error of 1e-13 at any β and d.

    Parameters and errors as in `scaled_eigenvalues`.

    Examples
    --------
    >>> log_first_over_beta(3e-200, 3)  # β/2d
    5e-201
    """
    beta, dim, _ = _check(beta, dim, 0)
    if beta * beta < dim:
        return _log_first_over_beta(beta, dim)
    return float(log_eigenvalues(beta, dim, 0)[0]) / beta


def _log_first_over_beta(beta: float, dim: int) -> float:
    """Return log(Λ_0)/β from Λ_0 - 1 = Σ_j (β²/4)^j / (j! (d/2) … (d/2 + j - 1)), for β² < d."""
    # sums are in units of β, since β² may underflow
    term = total = 0.5 * beta / dim
    j = 1
    while term > 1e-18 * total:
        j += 1
        term *= 0.25 * beta * beta / (j * (0.5 * dim + j - 1.0))
        total += term
    excess = beta * total
    return total * (math.log1p(excess) / excess if excess > 0.0 else 1.0)


def eigenvalues_in_unit(beta: float, dim: int, kmax: int) -> tuple[Array, float]:
    """λ_k = e^{-u} Λ_k(β, d), k = 0 … kmax, and u: β, but log Λ_0 where e^{-β} Λ_0 < 1e-290.

    In that unit neither underflows for what a density's energy is made of, in high dimension too.
    Parameters and errors as in `scaled_eigenvalues`.

    Examples
    --------
    >>> eigenvalues_in_unit(1e4, 512, 0)[0], eigenvalues_in_unit(2.0, 3, 0)[1]
    (array([1.]), 2.0)
    """
    beta, dim, kmax = _check(beta, dim, kmax)
    mantissas, exponents = _binary_eigenvalues(beta, dim, kmax)
    if math.log(mantissas[0]) + int(exponents[0]) * _LN2 < _LOG_LEAST:
        log_first = float(log_eigenvalues(beta, dim, 0)[0])
        return relative_eigenvalues(beta, dim, kmax), log_first
    return _joined(mantissas, exponents), beta


def _check(beta: float, dim: int, kmax: int) -> tuple[float, int, int]:
    beta = number("beta", beta, low=0)
    if beta > _LARGEST_BETA:
        raise ValueError(f"beta must be at most {_LARGEST_BETA:g} for multipliers, got {beta:g}")
    return beta, integer("dim", dim, low=2), integer("kmax", kmax, low=0, high=_MOST_DEGREES)


def bandwidth(beta: float, dim: int, tolerance: float = 1e-17) -> int:
    """The least K >= 1 with N_k Λ_k(β, d) < tolerance · min(Λ_0, N_1 Λ_1) for all k > K.

    N_k Λ_k bounds what degree k of a measure adds to its potential at a point: where d is large it
    grows at first, though Λ_k falls. Λ_1 stands for the gradient, which degree 0 has no part in.
    At β = 0, K = 1.

    Examples
    --------
    >>> bandwidth(0.0, 3), bandwidth(9.0, 3)
    (1, 33)
    """
    beta, dim, _ = _check(beta, dim, 0)
    if beta < _SMALL:
        return 1
    kmax = 64
    while True:
        mantissas, exponents = _binary_ratios(_eigenvalue_ratios(beta, dim, kmax), kmax)
        logs = np.log(mantissas[1:]) + exponents[1:] * _LN2
        logs += np.cumsum(np.log(multiplicity_growth(dim, np.arange(1.0, kmax + 1))))
        counts = np.nonzero(logs >= math.log(tolerance) + min(0.0, logs[0]))[0]
        if counts[-1] < kmax - 1:
            return int(counts[-1]) + 1
        kmax *= 2
