"""Sums of e^{β<x,y>} over n tokens at once, in O(n): cells on the circle, harmonics on S^2."""

from __future__ import annotations

from meanfield.token_sums.circle import CircleSums
from meanfield.token_sums.sphere import SphereSums

__all__ = ["CircleSums", "SphereSums", "TokenSums", "token_sums"]

TokenSums = CircleSums | SphereSums


def token_sums(beta: float, dim: int) -> TokenSums | None:
    """The fast sums of this kernel in this dimension, None where there are none.

    Examples
    --------
    >>> token_sums(1.0, 4) is None
    True
    """
    if dim == 2 and beta <= CircleSums.largest_beta:
        return CircleSums(beta)
    if dim == 3 and beta <= SphereSums.largest_beta:
        return SphereSums(beta)
    return None
