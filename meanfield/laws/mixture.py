"""Convex combinations of laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from meanfield import _checks
from meanfield._checks import shown
from meanfield.laws.law import (
    LONGEST_LIST,
    Law,
    Uniform,
    check_law,
    checked_draw,
    freeze,
    symmetry_axis,
)
from meanfield.laws.record import Record, key
from meanfield.spaces.geometry import are_parallel
from meanfield.typing import Array


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Mixture(Record):
    """f = Σ_i w_i f_i: the law of a draw from law i, taken with probability w_i.

    Parameters
    ----------
    laws : sequence of Law
        At least one; all of one dimension.
    weights : array_like, shape (len(laws),), optional
        Non-negative, normalised to sum 1; equal if omitted.

    Raises
    ------
    ValueError
        If an entry is no law, dimensions differ or the weights are not of that kind.

    Examples
    --------
    >>> from meanfield.laws import Uniform, VonMisesFisher
    >>> Mixture([VonMisesFisher([0.0, 1.0], 5.0), Uniform(2)], [0.9, 0.1])
    Mixture(2 laws, dim=2)
    """

    laws: tuple[Law, ...] = field(
        metadata=key(
            "a list of tables, each of them a law", list, minItems=1, maxItems=LONGEST_LIST
        )
    )
    weights: Array = field(
        metadata=key(
            "a number >= 0 for each law; equal if left out",
            list[float],
            items={"type": "number", "minimum": 0},
        )
    )
    dim: int = field(init=False)

    def __init__(self, laws: Sequence[Law], weights: ArrayLike | None = None) -> None:
        if not isinstance(laws, Sequence) or isinstance(laws, str) or not laws:
            raise ValueError(f"laws must be a non-empty sequence of laws, got {shown(laws)}")
        for i, law in enumerate(laws):
            check_law("laws", law, f" at index {i}")
            if law.dim != laws[0].dim:
                raise ValueError(
                    f"laws must have one dim, got dim = {laws[0].dim} at index 0 "
                    f"and dim = {law.dim} at index {i}"
                )
        weights = _checks.weights("weights", weights, len(laws))
        freeze(self, laws=tuple(laws), weights=weights, dim=laws[0].dim)

    def __repr__(self) -> str:
        return f"Mixture({len(self.laws)} laws, dim={self.dim})"

    @property
    def symmetry_axis(self) -> Array | None:
        """The axis of all parts that are not uniform, shape (d,); None if they have no common one.

        A mixture of uniform laws has theirs.
        """
        parts = [law for law in self.laws if not isinstance(law, Uniform)] or self.laws
        axes = [symmetry_axis(law) for law in parts]
        return axes[0] if all(are_parallel(axis, axes[0]) for axis in axes) else None

    def pdf(self, points: ArrayLike) -> Array:
        """Σ_i w_i f_i at unit rows (n, d), shape (n,).

        Raises
        ------
        ValueError
            If the points are not unit rows of length d, or a law has no density.
        """
        points = _checks.unit_rows("points", points, self.dim)
        total = np.zeros(len(points))
        for law, weight in zip(self.laws, self.weights, strict=True):
            if weight > 0.0:
                total += weight * law.pdf(points)
        return total

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent draws, unit rows (n, d).

        Raises
        ------
        ValueError
            If n < 1 or rng is no numpy Generator.
        """
        n = checked_draw(n, rng)
        chosen = rng.choice(len(self.laws), size=n, p=self.weights)
        points = np.empty((n, self.dim))
        for i, law in enumerate(self.laws):
            rows = np.flatnonzero(chosen == i)
            if rows.size:
                points[rows] = law.sample(rows.size, rng)
        return points
