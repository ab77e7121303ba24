"""Laws given by a Fourier or Gegenbauer series, refused where negative."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import generator, integer, real_array, unit_rows, unit_vector
from meanfield.geometry import circle_angles
from meanfield.harmonics import gegenbauer
from meanfield.laws.basic import Law, Uniform

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# a minimum below zero by no more than rounding is zero
_ROUNDING = 1e-12


class FourierSeries:
    """f(θ) = 1 + Σ_{k>=1} a_k cos kθ + b_k sin kθ on the circle.

    Parameters
    ----------
    cos, sin : array_like, optional
        a_1, a_2, … and b_1, b_2, …

    Raises
    ------
    ValueError
        If f is negative somewhere (zero is allowed), with its minimum and where that is.

    Examples
    --------
    >>> FourierSeries(cos=[0.5]).pdf([[1.0, 0.0], [-1.0, 0.0]])
    array([1.5, 0.5])
    """

    dim = 2

    def __init__(self, cos: ArrayLike = (), sin: ArrayLike = ()) -> None:
        self.cos, self.sin = _series("cos", cos), _series("sin", sin)
        modes = np.zeros(1 + max(len(self.cos), len(self.sin)), dtype=np.complex128)
        modes[0] = 1.0
        modes[1 : len(self.cos) + 1] += self.cos
        modes[1 : len(self.sin) + 1] -= 1j * self.sin
        self._modes = modes
        self._bound = 1.0 + float(np.abs(modes[1:]).sum())
        lowest, where = _minimum(modes)
        if lowest < -_ROUNDING * self._bound:
            raise ValueError(
                f"the series with cos = {self.cos.tolist()}, sin = {self.sin.tolist()} must be "
                f">= 0, got {lowest:.6g} at θ = {where:.6g}"
            )

    def __repr__(self) -> str:
        return f"FourierSeries(cos={self.cos.tolist()}, sin={self.sin.tolist()})"

    def pdf(self, points: ArrayLike) -> Array:
        """Density (n,) at unit rows (n, 2)."""
        angles = circle_angles(unit_rows("points", points, 2))
        return np.maximum(_cosine_sum(self._modes, angles), 0.0)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, 2)."""
        return _rejection(self, self._bound, n, rng)


class ZonalSeries:
    """f(x) = 1 + Σ_{k>=1} a_k P_k(<x, axis>) with Gegenbauer polynomials P_k(1) = 1, any d.

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2.
    coefficients : array_like
        a_1, a_2, …
    axis : array_like, shape (d,), optional
        Unit vector; the last unit vector if omitted.

    Raises
    ------
    ValueError
        If f is negative somewhere (zero is allowed), with its minimum and where that is.

    Examples
    --------
    >>> ZonalSeries(4, [0.8]).pdf([[0.0, 0.0, 0.0, 1.0]])
    array([1.8])
    """

    def __init__(self, dim: int, coefficients: ArrayLike, axis: ArrayLike | None = None) -> None:
        self.dim = integer("dim", dim, low=2)
        self.coefficients = _series("coefficients", coefficients)
        self.axis = np.eye(self.dim)[-1] if axis is None else unit_vector("axis", axis, self.dim)
        self.axis.flags.writeable = False
        self._bound = 1.0 + float(np.abs(self.coefficients).sum())
        degree = len(self.coefficients)
        # f(cos θ) is a cosine polynomial, whose minimum is that of a Fourier series
        chebyshev_sum = Chebyshev.interpolate(self._profile, max(degree, 1)).coef
        lowest, where = _minimum(chebyshev_sum.astype(np.complex128))
        if lowest < -_ROUNDING * self._bound:
            raise ValueError(
                f"the series with coefficients {self.coefficients.tolist()} must be >= 0, got "
                f"{lowest:.6g} at <x, axis> = {np.cos(where):.6g}"
            )

    def __repr__(self) -> str:
        return f"ZonalSeries({self.dim}, {self.coefficients.tolist()})"

    def _profile(self, t: Array) -> Array:
        polynomials = gegenbauer(self.dim, len(self.coefficients), t)
        return np.asarray(1.0 + np.tensordot(self.coefficients, polynomials[1:], axes=1))

    def pdf(self, points: ArrayLike) -> Array:
        """Density (n,) at unit rows (n, d)."""
        t = unit_rows("points", points, self.dim) @ self.axis
        return np.maximum(self._profile(np.clip(t, -1.0, 1.0)), 0.0)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d)."""
        return _rejection(self, self._bound, n, rng)


def _series(name: str, coefficients: ArrayLike) -> Array:
    array = np.atleast_1d(np.asarray(coefficients))
    if array.size == 0:
        return np.zeros(0)
    series = real_array(name, array, 1)
    series.flags.writeable = False
    return series


def _cosine_sum(modes: ComplexArray, angles: Array) -> Array:
    """Re Σ_k modes_k e^{ikθ}, by Horner's rule."""
    turn = np.exp(1j * angles)
    total = np.full(angles.shape, modes[-1])
    for mode in modes[-2::-1]:
        total = total * turn + mode
    return np.asarray(total.real)


def _minimum(modes: ComplexArray) -> tuple[float, float]:
    """The least value of Re Σ_k modes_k e^{ikθ} and its θ: a fine grid, then Newton's method."""
    k = np.arange(len(modes))
    angles = np.linspace(0.0, 2.0 * np.pi, 32 * (len(modes) + 2), endpoint=False)
    values = _cosine_sum(modes, angles)
    dips = (values <= np.roll(values, 1)) & (values <= np.roll(values, -1))
    theta, step = angles[dips], angles[1]
    for _ in range(8):
        slope = _cosine_sum(1j * k * modes, theta)
        bend = _cosine_sum(-(k**2) * modes, theta)
        flat = np.abs(bend) <= 1e-300
        move = np.where(flat, 0.0, slope / np.where(flat, 1.0, bend))
        theta = theta - np.clip(move, -step, step)
    candidates = np.concatenate([theta, angles])
    values = _cosine_sum(modes, candidates)
    where = int(np.argmin(values))
    return float(values[where]), float(candidates[where] % (2.0 * np.pi))


def _rejection(law: Law, bound: float, n: int, rng: np.random.Generator) -> Array:
    """n points of a law whose density is at most `bound`, from uniform proposals."""
    n, rng = integer("n", n, low=1), generator("rng", rng)
    proposals = Uniform(law.dim)
    points = np.empty((n, law.dim))
    have = 0
    while have < n:
        drawn = proposals.sample(int(bound * (n - have)) + 16, rng)
        kept = drawn[rng.uniform(0.0, bound, len(drawn)) < law.pdf(drawn)][: n - have]
        points[have : have + len(kept)] = kept
        have += len(kept)
    return points
