"""Densities given by a finite series, on the circle or about an axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import comb

from meanfield import _checks
from meanfield._checks import EPS, freeze, integer, read_only, real_array, unit_vector
from meanfield._records import key
from meanfield.laws import law
from meanfield.spaces.circle import horner
from meanfield.spaces.gegenbauer import gegenbauer, zonal_sum
from meanfield.spaces.geometry import circle_points
from meanfield.typing import Array, ArrayLike, Coefficients, NDArray

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
            # two products keep the large entries of to_powers away from values that still cancel
            self._powers = to_powers @ (analysis @ values)
        self._table = self._powers * np.exp2(np.arange(_DEGREE + 1.0))[:, None]

    def __call__(self, angles: Array) -> Array:
        """f at angles in [0, length], any shape."""
        offset = angles / self.width
        index = np.minimum(offset.astype(np.int32), np.int32(self._table.shape[1] - 1))
        offset -= index
        offset -= 0.5
        values: Array = self._table[-1].take(index)
        with np.errstate(under="ignore"):
            for coefficients in self._table[-2::-1]:
                values *= offset
                values += coefficients.take(index)
        return values

    def minimum(self) -> tuple[float, float]:
        """The global minimum of f over [0, length], to rounding, and where it is attained.

        Branch and bound: a cell with p(s) = Σ c_j s^j, |s| <= 1, can't fall below c_0 - Σ |c_j|.
        Cells that might hold the minimum are cut in three until none might.
        """
        j = np.arange(_DEGREE + 1)
        cuts = [
            comb(j[None, :], j[:, None]) * offset ** np.maximum(j - j[:, None], 0) / 3.0**j
            for offset in (-2.0, 0.0, 2.0)
        ]
        powers, centres, half = self._powers, self._centres, 0.5 * self.width
        tolerance = EPS * (4.0 * np.abs(powers).sum(axis=0))
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
        # on the circle of angles the sine is negative on one half, and gives no factor
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

        def accepted(count: int) -> Array:
            piece = rng.choice(mass.size, size=count, p=mass)
            proposed = (piece + rng.random(piece.size)) * self.width
            with np.errstate(under="ignore"):
                density = self(proposed) * (np.sin(proposed) / steepest[piece]) ** power
            return np.asarray(proposed[rng.random(piece.size) * upper[piece] < density])

        return law.drawn(n, accepted)

    def points(self, n: int, axis: Array | None, rng: np.random.Generator) -> Array:
        """n draws, unit rows: of the circle, or about an axis (d,) from which φ is counted."""
        if axis is None:
            return circle_points(self.sample(n, 0, rng))
        return law.points_around(axis, self.sample(n, axis.size - 2, rng), rng)


_LARGEST = 1e100


def _coefficients(name: str, values: ArrayLike) -> Array:
    array = np.zeros(0) if _checks.is_empty(values) else real_array(name, values, 1)
    large = np.abs(array) > _LARGEST
    if large.any():
        index = int(np.argmax(large))
        value_text, _ = _checks.tell_apart(array[index], np.copysign(_LARGEST, array[index]))
        raise ValueError(
            f"{name} must be <= {_LARGEST:g} in absolute value, got {value_text} at index {index}"
        )
    return array


def _rounding(terms: Coefficients) -> float:
    """Return how far below 0 rounding may take 1 + Σ_{k<=K} terms: 4 ε (K + 1) (1 + Σ |terms|)."""
    return 4.0 * EPS * (terms.size + 1) * (1.0 + float(np.abs(terms).sum()))


def fourier_rows(coefficients: NDArray[np.complex128], angles: Array) -> Array:
    """1 + Re Σ_{k>=1} c_k e^{ikθ} at rows (m, N) of θ_j = θ_0 + 2πj/N, by Fourier transforms.

    Examples
    --------
    >>> fourier_rows(np.array([0.5 + 0.0j]), np.array([[0.0, np.pi]]))
    array([[1.5, 0.5]])
    """
    rows, size = angles.shape
    degrees = np.arange(1, coefficients.size + 1)
    # on a row of points, degrees k and k + N are the same
    folded = np.zeros((rows, -(-degrees.size // size) * size), dtype=np.complex128)
    with np.errstate(under="ignore"):
        folded[:, : degrees.size] = coefficients * np.exp(1j * degrees * angles[:, :1])
        folded = folded.reshape(rows, -1, size).sum(axis=1)
        series = np.fft.fft(folded.conj(), axis=1).conj()
        return np.asarray(1.0 + (np.exp(2j * np.pi / size * np.arange(size)) * series).real)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class FourierSeries(law.KnownLaw):
    """f(θ) = 1 + Σ_{k>=1} a_k cos kθ + b_k sin kθ on the circle, d = 2.

    Parameters
    ----------
    cos, sin : array_like
        a_1, a_2, … and b_1, b_2, …; either may be shorter than the other, or empty.

    Raises
    ------
    ValueError
        If f is negative anywhere, by more than rounding: the message has its minimum and where.

    Examples
    --------
    >>> FourierSeries(cos=[0.5], sin=[0.0, 0.3]).pdf([[1.0, 0.0]])
    array([1.5])
    """

    cos: Array = field(metadata=key("cos_1, cos_2, …", list[float], maxItems=law.LONGEST_LIST))
    sin: Array = field(metadata=key("sin_1, sin_2, …", list[float], maxItems=law.LONGEST_LIST))

    dim = 2

    def __init__(self, cos: ArrayLike = (), sin: ArrayLike = ()) -> None:
        freeze(self, cos=_coefficients("cos", cos), sin=_coefficients("sin", sin))
        lowest, where = self._pieces.minimum()
        if lowest < -_rounding(self._complex):
            raise ValueError(
                f"cos and sin must give a density >= 0, but 1 + Σ a_k cos kθ + b_k sin kθ "
                f"has the minimum {lowest:.6g} at θ = {where:.6g}"
            )

    @cached_property
    def _complex(self) -> NDArray[np.complex128]:
        """Return the coefficients a_k - i b_k from k = 1 on."""
        series = np.zeros(max(self.cos.size, self.sin.size), dtype=np.complex128)
        series[: self.cos.size] += self.cos
        series[: self.sin.size] -= 1j * self.sin
        return read_only(series)

    @cached_property
    def _pieces(self) -> Pieces:
        """Return f over θ."""
        series = self._complex
        return Pieces(lambda rows: fourier_rows(series, rows), series.size, 2.0 * np.pi)

    def __repr__(self) -> str:
        return f"FourierSeries(cos={law.brief(self.cos)}, sin={law.brief(self.sin)})"

    def _pdf(self, points: Array) -> Array:
        """Return f at unit rows (n, 2), shape (n,)."""
        # rounding may turn a zero of f into -1e-17
        waves = horner(self._complex, points[:, 0] + 1j * points[:, 1])
        return np.maximum(1.0 + waves.real, 0.0)

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n independent unit rows (n, 2) by rejection from a proved bound."""
        return self._pieces.points(n, None, rng)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ZonalSeries(law.KnownLaw):
    """f(x) = 1 + Σ_{k>=1} a_k P_k(<x, axis>), P_k the Gegenbauer polynomial with P_k(1) = 1.

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2.
    coefficients : array_like
        a_1, a_2, …; may be empty.
    axis : array_like, shape (d,), optional
        A unit vector; the last one of the standard basis if omitted.

    Raises
    ------
    ValueError
        If an argument is out of range, or f is negative anywhere, by more than rounding: the
        message has its minimum and where.

    Examples
    --------
    >>> ZonalSeries(4, [0.8]).pdf([[0.0, 0.0, 0.0, 1.0]])
    array([1.8])
    """

    dim: int = field(metadata=law.DIM)
    coefficients: Array = field(
        metadata=key("the list a_1, a_2, … of numbers", list[float], maxItems=law.LONGEST_LIST)
    )
    axis: Array = field(
        metadata=law.vector("a unit vector, dim numbers; the last unit vector if left out")
    )

    def __init__(self, dim: int, coefficients: ArrayLike, axis: ArrayLike | None = None) -> None:
        dim = integer("dim", dim, low=2)
        axis = np.eye(dim)[-1] if axis is None else unit_vector("axis", axis, dim)
        coefficients = _coefficients("coefficients", coefficients)
        freeze(self, dim=dim, coefficients=coefficients, axis=axis)
        lowest, where = self._pieces.minimum()
        least = np.array([np.cos(where)])
        if lowest < -_rounding(coefficients * gegenbauer(dim, coefficients.size, least)[1:, 0]):
            raise ValueError(
                f"coefficients must give a density >= 0, but 1 + Σ a_k P_k(t) in dim = {dim} "
                f"has the minimum {lowest:.6g} at t = <x, axis> = {least[0]:.6g}"
            )

    @cached_property
    def _series(self) -> Array:
        """Return the coefficients from k = 0 on."""
        return read_only(np.append(1.0, self.coefficients))

    @cached_property
    def _pieces(self) -> Pieces:
        """Return f over the angle to the axis."""
        dim, series = self.dim, self._series
        return Pieces(lambda a: zonal_sum(dim, series, np.cos(a)), series.size - 1, np.pi)

    def __repr__(self) -> str:
        return (
            f"ZonalSeries({self.dim}, {law.brief(self.coefficients)}, axis={law.brief(self.axis)})"
        )

    def _pdf(self, points: Array) -> Array:
        """Return f at unit rows (n, d), shape (n,)."""
        t = np.clip(points @ self.axis, -1.0, 1.0)
        return np.maximum(zonal_sum(self.dim, self._series, t), 0.0)

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n independent unit rows (n, d) by rejection from a proved bound."""
        return self._pieces.points(n, self.axis, rng)
