"""What fixed the velocity at every time of a run: a vector of moments, dense in time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NODES = 8
# Chebyshev-Lobatto points of a time step, from 0 to 1, and their barycentric weights
_LOBATTO = 0.5 * (1.0 - np.cos(np.pi * np.arange(NODES) / (NODES - 1)))
_BARYCENTRIC = (-1.0) ** np.arange(NODES)
_BARYCENTRIC[[0, -1]] *= 0.5


class MomentHistory:
    """Moments at eight times of each step, and the polynomial through them.

    Parameters
    ----------
    times : ndarray, shape (S + 1,)
        Ends of the S time steps, ascending.
    moments : ndarray, shape (S, 8, q)
        At the Chebyshev-Lobatto points of each step.

    Examples
    --------
    >>> history = MomentHistory(np.array([0.0, 2.0]), step_times(0.0, 2.0)[None, :, None] ** 3)
    >>> history.at(1.5).round(12)
    array([3.375])
    """

    def __init__(self, times: Array, moments: Array) -> None:
        self.times, self.moments = times, moments

    def at(self, t: float) -> Array:
        """Moments (q,) at a time in the history's range."""
        step = int(np.clip(np.searchsorted(self.times, t) - 1, 0, len(self.moments) - 1))
        start, end = self.times[step], self.times[step + 1]
        found: Array = between(self.moments[step], (t - start) / (end - start))
        return found


def between(values: NDArray[Any], share: float) -> NDArray[Any]:
    """The polynomial through values (8, …) at the Lobatto points of a step, a share of it on.

    Examples
    --------
    >>> between(step_times(0.0, 1.0)[:, None] ** 7, 0.5).round(12)
    array([0.0078125])
    """
    apart = share - _LOBATTO
    nearest = int(np.argmin(np.abs(apart)))
    if abs(apart[nearest]) < 1e-15:
        return np.asarray(values[nearest])
    shares = _BARYCENTRIC / apart
    return np.asarray(shares @ values / shares.sum())


def step_times(start: float, end: float) -> Array:
    """The eight times of a step at which its moments are kept.

    Examples
    --------
    >>> step_times(0.0, 1.0)[[0, -1]]
    array([0., 1.])
    """
    times: Array = start + (end - start) * _LOBATTO
    times[-1] = end
    return times
