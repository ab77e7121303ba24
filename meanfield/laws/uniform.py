"""The uniform law."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from meanfield._checks import integer, unit_rows
from meanfield.laws.law import DIM, checked_draw, uniform_points
from meanfield.typing import Array


@dataclass(frozen=True)
class Uniform:
    """f = 1: the uniform law σ on S^{d-1}, the only minimiser of the energy (Proposition 3.4).

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2.

    Raises
    ------
    ValueError
        If dim is no integer >= 2.

    Examples
    --------
    >>> Uniform(3).pdf([[0.0, 0.0, 1.0]])
    array([1.])
    """

    dim: int = field(metadata=DIM)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", integer("dim", self.dim, low=2))

    @property
    def symmetry_axis(self) -> Array:
        """The last unit vector, shape (d,): any will do."""
        return np.asarray(np.eye(self.dim)[-1])

    def pdf(self, points: ArrayLike) -> Array:
        """f = 1 at unit rows (n, d), shape (n,).

        Raises
        ------
        ValueError
            If the points are not unit rows of length d.
        """
        return np.ones(len(unit_rows("points", points, self.dim)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent draws, unit rows (n, d).

        Raises
        ------
        ValueError
            If n < 1 or rng is no numpy Generator.
        """
        return uniform_points(checked_draw(n, rng), self.dim, rng)
