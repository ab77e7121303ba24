"""Sums of e^{β<x,y>} over n tokens at once, in O(n): cells on the circle, harmonics on S^2."""

from __future__ import annotations

from meanfield.token_sums.circle import CircleSums
from meanfield.token_sums.sphere import SphereSums

__all__ = ["CircleSums", "SphereSums", "TokenSums", "is_fast", "token_sums"]

TokenSums = CircleSums | SphereSums


def token_sums(beta: float, dim: int) -> TokenSums | None:
    """The fast sums of this kernel in this dimension, None where there are none.

    Examples
    --------
    >>> token_sums(1.0, 4) is None
    True
    """
    if not is_fast(beta, dim):
        return None
    return CircleSums(beta) if dim == 2 else SphereSums(beta)


def is_fast(beta: float, dim: int) -> bool:
    """Whether there are fast sums of this kernel in this dimension.

    Examples
    --------
    >>> is_fast(1.0, 3), is_fast(1e5, 3), is_fast(1.0, 4)
    (True, False, False)
    """
    largest = {2: CircleSums.largest_beta, 3: SphereSums.largest_beta}
    return beta <= largest.get(dim, -1.0)
