"""A trigonometric polynomial as polynomials on small cells: to evaluate, to bound and to sample."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import comb

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_DEGREE = 9
_PHASE = 0.5
_FEWEST_CELLS = 64


class Pieces:
    """f on [0, length] as a polynomial of degree 9 on each of M equal cells.

    A trigonometric polynomial of degree K turns by at most K·(cell) = 1/2 on a cell; Chebyshev
    interpolation there has an error of 2 (1/8)^10 / 10! max|f| < 6e-16 max|f| by Bernstein's
    inequality. Evaluation costs the same for any K.

    Parameters
    ----------
    function : callable
        f of an array of angles, a trigonometric polynomial; asked at rows, each equispaced by
        `length` over their number.
    degree : int
        Its degree K >= 0.
    length : float
        2π for the circle, π for a function of the polar angle.

    Examples
    --------
    >>> f = Pieces(np.cos, 1, np.pi)
    >>> bool(abs(f(np.array([1.0]))[0] - np.cos(1)) < 1e-15)
    True
    """

    def __init__(self, function: Callable[[Array], Array], degree: int, length: float) -> None:
        cells = max(_FEWEST_CELLS, math.ceil(length * degree / _PHASE))
        self.width = length / cells
        self._centres = (np.arange(cells) + 0.5) * self.width
        nodes = chebyshev.chebpts1(_DEGREE + 1)
        values = function(self._centres + 0.5 * self.width * nodes[:, None])
        analysis = chebyshev.chebvander(nodes, _DEGREE).T * (2.0 / (_DEGREE + 1))
        analysis[0] *= 0.5
        to_powers = np.zeros((_DEGREE + 1, _DEGREE + 1))
        for j in range(_DEGREE + 1):
            to_powers[: j + 1, j] = chebyshev.cheb2poly(np.eye(j + 1)[j])
        with np.errstate(under="ignore"):
            # two products, lest the large entries of to_powers meet values that still cancel
            self._powers = to_powers @ (analysis @ values)
        self._table = self._powers * np.exp2(np.arange(_DEGREE + 1.0))[:, None]

    def __call__(self, angles: Array) -> Array:
        """f at angles in [0, length], any shape."""
        offset = angles / self.width
        cell = np.minimum(offset.astype(np.int32), np.int32(self._table.shape[1] - 1))
        offset -= cell
        offset -= 0.5
        values: Array = self._table[-1].take(cell)
        with np.errstate(under="ignore"):
            for coefficients in self._table[-2::-1]:
                values *= offset
                values += coefficients.take(cell)
        return values

    def minimum(self) -> tuple[float, float]:
        """The global minimum of f over [0, length], to rounding, and where it is attained.

        Branch and bound: a cell with p(s) = Σ c_j s^j, |s| <= 1, can't fall below c_0 - Σ |c_j|.
        Cells that might hold the minimum are cut in three until none might.
        """
        j = np.arange(_DEGREE + 1)
        cuts = [
            comb(j[None, :], j[:, None]) * shift ** np.maximum(j - j[:, None], 0) / 3.0**j
            for shift in (-2.0, 0.0, 2.0)
        ]
        powers, centres, half = self._powers, self._centres, 0.5 * self.width
        tolerance = _EPS * (4.0 * np.abs(powers).sum(axis=0))
        lowest, where = math.inf, 0.0
        while centres.size:
            least = int(np.argmin(powers[0]))
            if powers[0, least] < lowest:
                lowest, where = float(powers[0, least]), float(centres[least])
            keep = powers[0] - np.abs(powers[1:]).sum(axis=0) < lowest - tolerance
            with np.errstate(under="ignore"):
                powers = np.concatenate([cut @ powers[:, keep] for cut in cuts], axis=1)
            tolerance = np.tile(tolerance[keep], 3)
            half /= 3.0
            centres = np.concatenate([centres[keep] + 2.0 * i * half for i in (-1, 0, 1)])
        return lowest, where

    def envelope(self, power: int) -> tuple[Array, Array]:
        """c_0 + Σ |c_j| >= f and the largest sin φ on each cell, which bound f sin^power φ.

        Returns
        -------
        upper, steepest : ndarray, shape (M,)
        """
        half = 0.5 * self.width
        steepest = np.sin(np.clip(0.5 * np.pi, self._centres - half, self._centres + half))
        upper = np.maximum(self._powers[0] + np.abs(self._powers[1:]).sum(axis=0), 0.0)
        # on the circle of angles the sine is negative on one half, and has no part
        return upper, steepest if power else np.ones_like(upper)

    def sample(self, n: int, power: int, rng: np.random.Generator) -> Array:
        """n draws of φ with density ∝ f(φ) sin^power φ, f >= 0: exact, by rejection.

        The proposal is constant on each cell, as large as `envelope` allows there.

        Parameters
        ----------
        n : int
            Number of draws.
        power : int
            d - 2 for a polar angle on S^{d-1}, when length = π; 0 on the circle of angles.
        rng : numpy.random.Generator

        Returns
        -------
        ndarray, shape (n,)
        """
        upper, steepest = self.envelope(power)
        with np.errstate(under="ignore"):
            mass = upper * steepest**power
            mass /= mass.sum()
            angles, done = np.empty(n), 0
            while done < n:
                cell = rng.choice(mass.size, size=n - done, p=mass)
                proposed = (cell + rng.random(cell.size)) * self.width
                density = self(proposed) * (np.sin(proposed) / steepest[cell]) ** power
                accepted = proposed[rng.random(cell.size) * upper[cell] < density]
                angles[done : done + accepted.size] = accepted
                done += accepted.size
        return angles
