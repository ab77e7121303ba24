"""What fixed the velocity at every time of a run: moments of the measure, dense in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield._checks import number
from meanfield.typing import Array, Coefficients, NDArray

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

    def __len__(self) -> int:
        return len(self.moments)

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


@dataclass(frozen=True)
class Absorption:
    """At a time, the share χ of the smooth part that went over to particles.

    1 - χ = Π_j (1 - exp(-(|x - c_j|/r)^8)).

    Attributes
    ----------
    time : float
    centres : ndarray, shape (k, 3)
    radius : float
    """

    time: float
    centres: Array
    radius: float

    def kept(self, points: Array) -> Array:
        """1 - χ at points (n, 3), shape (n,), without cancellation near the centres."""
        kept = np.ones(len(points))
        with np.errstate(under="ignore"):
            for centre in self.centres:
                kept *= -np.expm1(-self._eighth(points, centre))
        return kept

    def taken(self, points: Array, index: int) -> Array:
        """The share of centre `index`, shape (n,); all shares and `kept` sum to 1."""
        taken = np.ones(len(points))
        with np.errstate(under="ignore"):
            for centre in self.centres[:index]:
                taken *= -np.expm1(-self._eighth(points, centre))
            return taken * np.exp(-self._eighth(points, self.centres[index]))

    def _eighth(self, points: Array, centre: Array) -> Array:
        apart = (points - centre) / self.radius
        squared = np.einsum("ij,ij->i", apart, apart)
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(squared, 1e3) ** 4)


class History:
    """mu_lm(t) as a polynomial of degree 7 on each step of a run, and what was absorbed when.

    Attributes
    ----------
    edges : list of float
        The times of the steps, ascending.
    pieces : list of ndarray, shape (8, n_coefficients)
        Moments at the Chebyshev-Lobatto points of each step.
    absorptions : list of Absorption
    """

    def __init__(self, start: float) -> None:
        self.edges: list[float] = [start]
        self.pieces: list[Coefficients] = []
        self.absorptions: list[Absorption] = []

    def __len__(self) -> int:
        return len(self.pieces)

    def append(self, end: float, moments: Coefficients) -> None:
        """A further step with moments (8, n_coefficients) at its `step_times`."""
        self.edges.append(end)
        self.pieces.append(np.array(moments))

    def piece(self, t: float) -> int:
        """The step that holds a time; of two, the earlier.

        Raises
        ------
        ValueError
            If the time is outside the run.
        """
        low, high = self.edges[0], self.edges[-1]
        t = number("t", t, low=low, high=high)
        index = int(np.searchsorted(np.asarray(self.edges), t, side="left")) - 1
        return max(0, min(index, len(self.pieces) - 1))

    def at(self, t: float, piece: int | None = None) -> Coefficients:
        """The moments at a time, by barycentric interpolation."""
        piece = self.piece(t) if piece is None else piece
        start, end = self.edges[piece], self.edges[piece + 1]
        return between(self.pieces[piece], (t - start) / (end - start))

    def until(self, count: int) -> History:
        """What there was after so many steps."""
        found = History(self.edges[0])
        found.edges, found.pieces = self.edges[: count + 1], self.pieces[:count]
        found.absorptions = [a for a in self.absorptions if a.time <= found.edges[-1]]
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it as arrays, to be saved."""
        centres = [np.zeros((0, 3)), *(a.centres for a in self.absorptions)]
        return {
            "edges": np.asarray(self.edges),
            "moments": np.asarray(self.pieces),
            "absorption_times": np.array(
                [a.time for a in self.absorptions for _ in a.centres], dtype=np.float64
            ),
            "absorption_radii": np.array(
                [a.radius for a in self.absorptions for _ in a.centres], dtype=np.float64
            ),
            "absorption_centres": np.concatenate(centres),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> History:
        """The inverse of `arrays`."""
        history = cls(float(arrays["edges"][0]))
        history.edges = [float(t) for t in arrays["edges"]]
        history.pieces = list(arrays["moments"])
        times = arrays["absorption_times"]
        for time in np.unique(times):
            here = times == time
            history.absorptions.append(
                Absorption(
                    float(time),
                    arrays["absorption_centres"][here],
                    float(arrays["absorption_radii"][here][0]),
                )
            )
        return history
