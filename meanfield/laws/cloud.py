"""The user's own tokens as a law, smoothed by the heat kernel."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.polynomial.chebyshev import chebval
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from meanfield import arguments
from meanfield.arguments import generator, integer, number, unit_rows
from meanfield.geometry import project
from meanfield.harmonics import gegenbauer, multiplicity_growth

Array = NDArray[np.float64]

_LARGEST_DEGREE = 2000
_NEGLIGIBLE = 1e-18
_HIGHEST_PEAK = 1e10
_BLOCK = 1 << 15


class PointCloud:
    """Tokens x_i with weights w_i, smoothed: f = Σ_i w_i h(<x, x_i>), h the heat kernel.

    h(t) = Σ_k e^{-τ k(k+d-2)} N_k P_k(t) at time τ = `bandwidth`: a bump of angular variance 2τ
    in each direction.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows.
    weights : array_like, shape (n,), optional
        Non-negative, normalised to sum 1; equal if omitted.
    bandwidth : float, optional
        τ > 0. Without it the law has no density, but can be sampled.

    Raises
    ------
    ValueError
        If an argument is not of that kind, or τ is so small that h needs more than
        2000 degrees or exceeds 1e10.

    Examples
    --------
    >>> law = PointCloud([[1.0, 0.0]], bandwidth=9.0)
    >>> law.pdf([[0.0, 1.0]]).round(12)
    array([1.])
    """

    def __init__(
        self,
        points: ArrayLike,
        weights: ArrayLike | None = None,
        bandwidth: float | None = None,
    ) -> None:
        self.points = unit_rows("points", points)
        self.weights = arguments.weights("weights", weights, len(self.points))
        self.points.flags.writeable = self.weights.flags.writeable = False
        self.dim = self.points.shape[1]
        self.bandwidth = None if bandwidth is None else number("bandwidth", bandwidth, above=0)
        if self.bandwidth is not None:
            self._multipliers = _heat_multipliers(self.dim, self.bandwidth)

    def __repr__(self) -> str:
        smoothing = "" if self.bandwidth is None else f", bandwidth={self.bandwidth:g}"
        return f"PointCloud({len(self.points)} points in dim {self.dim}{smoothing})"

    def _require_bandwidth(self) -> None:
        if self.bandwidth is None:
            raise ValueError(
                f"bandwidth must be a number > 0 for a density of {self}, got {self.bandwidth}"
            )

    @cached_property
    def _kernel(self) -> Array:
        """h as a Chebyshev series in t."""
        self._require_bandwidth()

        def kernel(t: Array) -> Array:
            polynomials = gegenbauer(self.dim, len(self._multipliers) - 1, t)
            return np.asarray(np.tensordot(self._multipliers, polynomials, axes=1))

        degree = max(1, len(self._multipliers) - 1)
        return np.asarray(Chebyshev.interpolate(kernel, degree).coef)

    def pdf(self, points: ArrayLike) -> Array:
        """Density (n,) at unit rows (n, d).

        Raises
        ------
        ValueError
            If there is no bandwidth, or the points are no unit rows.
        """
        kernel = self._kernel
        points = unit_rows("points", points, self.dim)
        values = np.empty(len(points))
        step = max(1, _BLOCK // len(self.points))
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            t = np.clip(points[part] @ self.points.T, -1.0, 1.0)
            values[part] = chebval(t, kernel) @ self.weights
        return np.maximum(values, 0.0)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d): a token, moved by the heat kernel if there is one."""
        n, rng = integer("n", n, low=1), generator("rng", rng)
        centres = self.points[rng.choice(len(self.points), size=n, p=self.weights)]
        if self.bandwidth is None:
            return centres
        angles = self._angles(rng.uniform(size=n))[:, None]
        directions = project(centres, rng.normal(size=centres.shape))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return np.asarray(np.cos(angles) * centres + np.sin(angles) * directions)

    def _angles(self, shares: Array) -> Array:
        """Polar angles at which the heat kernel's distribution reaches the given shares."""
        grid = np.linspace(0.0, np.pi, 8 * len(self._kernel) + 2049)
        density = chebval(np.cos(grid), self._kernel) * np.sin(grid) ** (self.dim - 2)
        reached = CubicSpline(grid, np.maximum(density, 0.0)).antiderivative()
        total = float(reached(np.pi))
        levels = np.maximum.accumulate(reached(grid)) / total
        angles = np.interp(shares, levels, grid)
        slope = reached.derivative()
        for _ in range(3):
            rate = np.maximum(slope(angles), 1e-3 * density.max())
            angles = np.clip(angles - (reached(angles) - shares * total) / rate, 0.0, np.pi)
        return np.asarray(angles)


def _heat_multipliers(dim: int, bandwidth: float) -> Array:
    """e^{-τ k(k+d-2)} N_k up to the degree where it no longer counts.

    Raises
    ------
    ValueError
        If that degree is beyond 2000, or the peak h(1) so high that rounding of the series there
        would drown h elsewhere.
    """
    k = np.arange(1.0, _LARGEST_DEGREE + 1)
    logs = np.cumsum(np.log(multiplicity_growth(dim, k))) - bandwidth * k * (k + dim - 2)
    counts = np.nonzero(logs > np.log(_NEGLIGIBLE))[0]
    last = int(counts[-1]) + 1 if len(counts) else 0
    if last >= _LARGEST_DEGREE:
        raise ValueError(
            f"bandwidth must be large enough for a heat kernel of at most {_LARGEST_DEGREE} "
            f"degrees, got {bandwidth:g}"
        )
    multipliers = np.concatenate([[1.0], np.exp(np.minimum(logs[:last], 700.0))])
    if multipliers.sum() > _HIGHEST_PEAK:
        raise ValueError(
            f"bandwidth must be large enough for a heat kernel below {_HIGHEST_PEAK:g} in "
            f"dim {dim}, got {bandwidth:g}"
        )
    return multipliers
