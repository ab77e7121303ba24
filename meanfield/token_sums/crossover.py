"""From how many pairs of tokens on sums in O(n) take less time than those over all pairs.

Both take the same time where n m terms of exp cost as much as what does not depend on n: cells and
their products on the circle, a grid and its transforms on S^2, a matrix between harmonics. How this
grows is known; the factors were measured on one core (`validation/benchmarks/particles.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.bilinear import SphereBilinear, largest_score
from meanfield.line_potential import node_count
from meanfield.token_sums.circle import CircleScoreSums, CircleSums
from meanfield.token_sums.sphere import SphereSums


def fewest_pairs(beta: float, dim: int, *, once: bool = False) -> float:
    """Pairs from which sums of e^{β<x,y>} are taken in O(n); inf where there are no such sums.

    Parameters
    ----------
    beta : float
    dim : int
    once : bool
        Whether tables are built for one call, as when a measure is asked, not for a run.

    Examples
    --------
    >>> [round(fewest_pairs(beta, 2) ** 0.5) for beta in (1.0, 100.0)], fewest_pairs(1.0, 4)
    ([259, 1237], inf)
    """
    largest = {2: CircleSums.largest_beta, 3: SphereSums.largest_beta}
    if beta > largest.get(dim, -1.0):
        return np.inf
    tables = float(once << 18)
    if dim == 2:
        return tables + 2**16 + node_count(2, beta) ** 2 / 8
    return tables + 2**17 + 100 * _harmonics(beta)


def fewest_score_pairs(matrix: NDArray[np.float64], *, once: bool = False) -> float:
    """Pairs from which sums of e^{<Mx,y>}, M (d, d), are taken in O(n); inf where there are none.

    Examples
    --------
    >>> [round(fewest_score_pairs(np.eye(dim)) ** 0.5) for dim in (2, 3)]
    [279, 649]
    """
    largest = {2: CircleScoreSums.largest_score, 3: SphereBilinear.largest_score}
    size = largest_score(matrix)
    if size > largest.get(len(matrix), -1.0):
        return np.inf
    if len(matrix) == 2:
        nodes = node_count(2, size)
        return float(2**18 + 40 * nodes**2 if once else 2**16 + nodes**2)
    entries = _harmonics(size) ** 2
    return 2**22 + 15 * entries if once else 3 * 2**17 + entries / 3


def _harmonics(beta: float) -> float:
    """About the square of `harmonics.bandwidth(beta, 3)`, which takes longer than a thousand pairs.

    Λ_k is e^{-k²/2β} Λ_0 or so, hence k² grows like β.
    """
    return 200.0 + 92.0 * beta
