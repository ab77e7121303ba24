"""Kernels Σ a_m t^m: their Λ_k as rational numbers, so that signs and zeros are exact."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def exact_coefficients(given: Sequence[Fraction], dim: int) -> list[Fraction]:
    """Λ_k = Σ_m a_m ∫ t^m P_k dσ of Σ a_m t^m, k = 0 … degree.

    ∫ t^m P_k dσ = m!/(2^j j! d (d+2) … (d + 2(k+j) - 2)), m = k + 2j: the coefficient of β^m/m! in
    the power series of Λ_k(β, d).

    Examples
    --------
    >>> [str(one) for one in exact_coefficients([Fraction(a) for a in (0, -1, 0, 1)], 3)]
    ['0', '-2/15', '0', '2/35']
    """
    found = []
    for k in range(len(given)):
        total = Fraction(0)
        # of t^k, then two degrees on at a time
        moment = Fraction(1)
        for i in range(k):
            moment *= Fraction(i + 1, dim + 2 * i)
        for j in range((len(given) - 1 - k) // 2 + 1):
            m = k + 2 * j
            if j:
                moment *= Fraction(m * (m - 1), 2 * j * (dim + 2 * (k + j) - 2))
            total += given[m] * moment
        found.append(total)
    return found


def exact_multiplicities(dim: int, kmax: int) -> list[int]:
    """N_k as integers, N_(k+1)/N_k = (2k+d)(k+d-2)/((2k+d-2)(k+1)).

    Examples
    --------
    >>> exact_multiplicities(3, 3), exact_multiplicities(2, 3)
    ([1, 3, 5, 7], [1, 2, 2, 2])
    """
    found = [1, dim]
    for k in range(1, kmax):
        found.append(found[-1] * (2 * k + dim) * (k + dim - 2) // ((2 * k + dim - 2) * (k + 1)))
    return found[: kmax + 1]
