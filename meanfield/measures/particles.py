"""A measure of n weighted points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments
from meanfield.arguments import generator, integer, rows, unit_rows
from meanfield.exponential_sums import log_moment, moment
from meanfield.laws import Law

Array = NDArray[np.float64]


class Particles:
    """The measure Σ_i w_i δ_{x_i} of n tokens on S^{d-1}.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows (within 1e-6, then normalised).
    weights : array_like, shape (n,), optional
        Non-negative, normalised to sum 1; equal if omitted.

    Attributes
    ----------
    points : ndarray, shape (n, d)
    weights : ndarray, shape (n,)
    dim : int

    Raises
    ------
    ValueError
        If points or weights are not of that kind.

    Examples
    --------
    >>> Particles([[1.0, 0.0], [0.0, 1.0]]).mean()
    array([0.5, 0.5])
    """

    def __init__(self, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        self.points = unit_rows("points", points)
        self.weights = arguments.weights("weights", weights, len(self.points))
        self.dim = self.points.shape[1]
        self.points.flags.writeable = False
        self.weights.flags.writeable = False

    @classmethod
    def sample(cls, law: Law, n: int, rng: np.random.Generator) -> Particles:
        """n tokens drawn independently from a law.

        Raises
        ------
        ValueError
            If n < 1 or rng is no numpy Generator.
        """
        return cls(law.sample(integer("n", n, low=1), generator("rng", rng)))

    def __repr__(self) -> str:
        return f"Particles(n={len(self.points)}, dim={self.dim})"

    def mass(self) -> float:
        """Σ_i w_i."""
        return float(self.weights.sum())

    def mean(self) -> Array:
        """Σ_i w_i x_i, shape (d,)."""
        return np.asarray(self.weights @ self.points)

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G(z) and ∇ log G(z), G(z) = Σ_i w_i e^{<z,x_i>}, at rows z (m, d): O(n m).

        Raises
        ------
        ValueError
            If z is not finite or has the wrong length.
        """
        return log_moment(self.points, self.weights, rows("z", z, self.dim))

    def moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """G(z), shape (m,), and ∇G(z), shape (m, d), at rows z (m, d) of any length.

        Raises
        ------
        ValueError
            If z is not finite, has the wrong length, or G(z) overflows.
        """
        return moment(*self.log_moment(z))
