"""Sums over n tokens at once, in O(n): cells on the circle, harmonics on S^2.

Of e^{β<x,y>}, and of e^{<Mx,y>} with any matrix M.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.bilinear import largest_score
from meanfield.token_sums.circle import CircleScoreSums, CircleSums
from meanfield.token_sums.crossover import fewest_pairs, fewest_score_pairs
from meanfield.token_sums.sphere import SphereSums
from meanfield.token_sums.sphere_scores import SphereScoreSums

__all__ = [
    "CircleScoreSums",
    "CircleSums",
    "ScoreSums",
    "SphereScoreSums",
    "SphereSums",
    "TokenSums",
    "fewest_pairs",
    "fewest_score_pairs",
    "score_sums",
    "token_sums",
]

TokenSums = CircleSums | SphereSums
ScoreSums = CircleScoreSums | SphereScoreSums


def score_sums(matrix: NDArray[np.float64]) -> ScoreSums | None:
    """The fast sums of the kernel e^{<Mx,y>} of a matrix (d, d), None where there are none.

    Examples
    --------
    >>> score_sums(np.eye(4)) is None
    True
    """
    kinds: dict[int, type[ScoreSums]] = {2: CircleScoreSums, 3: SphereScoreSums}
    kind = kinds.get(len(matrix))
    if kind is None or largest_score(matrix) > kind.largest_score:
        return None
    return kind(matrix)


def token_sums(beta: float, dim: int) -> TokenSums | None:
    """The fast sums of this kernel in this dimension, None where there are none.

    Examples
    --------
    >>> token_sums(1.0, 4) is None
    True
    """
    if fewest_pairs(beta, dim) == np.inf:
        return None
    return CircleSums(beta) if dim == 2 else SphereSums(beta)
