"""How much of a density's spectrum is near its end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# a degree is present from this share of the power on: 1e-8 of the L² norm
_PRESENT = 1e-16


def spectral_tail(power: Array) -> float:
    """sqrt(Σ_{last tenth} power / Σ power), over at least the last four degrees.

    Where all that there is are multiples of one degree, over at least that many, so that one of
    them is among the last.

    Examples
    --------
    >>> spectral_tail(np.array([1.0] + [0.0] * 38 + [1e-20]))
    1e-10
    """
    total = power.sum()
    least = _PRESENT * total
    # with degree 1 there they are multiples of nothing else
    step = 1 if power[1] > least else int(np.gcd.reduce(np.nonzero(power > least)[0]))
    last = max(_count(power), step)
    return float(np.sqrt(power[-last:].sum() / total))


def _count(power: Array) -> int:
    return max(4, int(power.shape[-1]) // 10)
