"""The von Mises-Fisher law in any dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy

from meanfield._checks import EPS, freeze, number, rounding, unit_rows, unit_vector
from meanfield._checks import weights as checked_weights
from meanfield._records import key
from meanfield.kernels.multipliers import log_eigenvalues, scaled_eigenvalues
from meanfield.laws.law import KnownLaw, brief, drawn, points_around, vector
from meanfield.typing import Array, ArrayLike

_LARGEST_KAPPA = 1e6
_LARGEST_EXPONENT = 709.0
# the tolerance, in log κ, of the search for κ
_XTOL = 1e-15


def _mean_length(kappa: float, dim: int) -> tuple[float, float]:
    """Return A_d(κ) = I_{d/2}(κ)/I_{d/2-1}(κ) and 1 - A_d(κ), both to 1e-15 relative.

    Perron's continued fraction (Gautschi & Slavik 1978, Math. Comp. 32), from its end on.
    """
    terms, previous = 32, 0.0
    while True:
        rest = 0.0
        for k in range(terms, 0, -1):
            rest = (dim + 2 * k - 1) * kappa / (dim + k + 2.0 * kappa - rest)
        below = dim - rest
        shortfall = below / (below + kappa)
        if abs(shortfall - previous) <= EPS * shortfall:
            return kappa / (below + kappa), shortfall
        terms, previous = 2 * terms, shortfall


def _concentration(length: float, shortfall: float, dim: int, low: float, high: float) -> float:
    """Return κ between bounds with A_d(κ) = `length` and 1 - A_d(κ) = `shortfall`."""

    def excess(log_kappa: float) -> float:
        mean, rest = _mean_length(math.exp(log_kappa), dim)
        # the smaller of the two has its digits, so it is compared
        return math.log(mean / length) if length < shortfall else math.log(shortfall / rest)

    root = scipy.optimize.brentq(excess, math.log(low), math.log(high), xtol=_XTOL, rtol=4.0 * EPS)
    return math.exp(root)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class VonMisesFisher(KnownLaw):
    """f(x) = e^{κ<x,m>} / Λ_0(κ, d), Λ_0 = Γ(d/2) (2/κ)^{d/2-1} I_{d/2-1}(κ).

    Its coefficient of degree k is Λ_k(κ)/Λ_0(κ), by Funk-Hecke; so ∫ x dμ = (Λ_1/Λ_0) m.

    Parameters
    ----------
    mean : array_like, shape (d,)
        Mean direction m, a unit vector (within 1e-6, then normalised), d >= 2.
    kappa : float
        Concentration 0 <= κ <= 1e6; 0 is the uniform law.

    Raises
    ------
    ValueError
        If mean is no unit vector or kappa is out of range.

    Examples
    --------
    >>> law = VonMisesFisher([0.0, 0.0, 1.0], 2.0)
    >>> float(law.pdf([[0.0, 0.0, 1.0]])[0] * np.sinh(2) / 2 / np.exp(2)).__round__(14)
    1.0
    """

    mean: Array = field(metadata=vector("a unit vector, one number for each dimension"))
    kappa: float = field(metadata=key("the concentration, a number >= 0", float, minimum=0))

    def __init__(self, mean: ArrayLike, kappa: float) -> None:
        mean = unit_vector("mean", mean)
        kappa = number("kappa", kappa, low=0, high=_LARGEST_KAPPA)
        freeze(self, mean=mean, kappa=kappa, dim=mean.size)

    def __repr__(self) -> str:
        return f"VonMisesFisher({brief(self.mean)}, kappa={self.kappa:g})"

    @cached_property
    def _log_scaled_normaliser(self) -> float:
        """Return log(e^{-κ} Λ_0)."""
        with np.errstate(under="ignore"):
            scaled = scaled_eigenvalues(self.kappa, self.dim, 0)[0]
            if scaled > 1e-290:
                return float(np.log(scaled))
            # in high dimension e^{-κ} Λ_0 may underflow; its logarithm then has an error of κ·1e-16
            return float(log_eigenvalues(self.kappa, self.dim, 0)[0] - self.kappa)

    @property
    def symmetry_axis(self) -> Array:
        """The mean direction, shape (d,)."""
        return self.mean

    @classmethod
    def fit(cls, points: ArrayLike, weights: ArrayLike | None = None) -> VonMisesFisher:
        """The law of the largest likelihood Σ_i w_i log f(x_i).

        Its mean direction is that of Σ_i w_i x_i, and κ solves A_d(κ) = |Σ_i w_i x_i|, A_d =
        I_{d/2}/I_{d/2-1} (Mardia & Jupp 2000, Directional Statistics, 10.3), to some 1e-14
        relative. Where points lie close together, 1 - A_d and the mean of |x_i - m|²/2 stand for
        both sides, so that no digits cancel.

        Parameters
        ----------
        points : array_like, shape (n, d)
            Unit rows.
        weights : array_like, shape (n,), optional
            Non-negative, of sum 1; equal if omitted.

        Raises
        ------
        ValueError
            If the points or weights are not of that kind, the mean is 0 to rounding (κ = 0, with no
            direction), or κ is beyond 1e6, as where all rows are equal.

        Examples
        --------
        >>> law = VonMisesFisher([0.0, 0.6, 0.8], 50.0)
        >>> fitted = VonMisesFisher.fit(law.sample(10_000, rng=0))
        >>> bool(np.abs(fitted.mean - law.mean).max() < 5e-3), round(fitted.kappa)
        (True, 50)
        """
        rows = unit_rows("points", points)
        masses = checked_weights("weights", weights, len(rows), remedy="divide by it")
        total = masses @ rows
        length = float(np.linalg.norm(total))
        if length <= rounding(points, len(rows)):
            raise ValueError(
                f"points must have a mean that is longer than its rounding, got length "
                f"{length:.3g}: the uniform law fits them"
            )
        deviations = rows - total / length
        shortfall = 0.5 * float(masses @ np.einsum("ij,ij->i", deviations, deviations))
        bound = length * rows.shape[1] / (shortfall * (1.0 + length)) if shortfall else np.inf
        # κ lies between one half of the bound and the bound
        kappa = 0.25 * bound
        if kappa <= _LARGEST_KAPPA:
            kappa = _concentration(length, shortfall, rows.shape[1], kappa, 1.01 * bound)
        if kappa > _LARGEST_KAPPA:
            raise ValueError(
                f"points must be spread so that kappa <= {_LARGEST_KAPPA:g}, got one beyond, "
                f"infinite where all rows are equal"
            )
        return cls(total / length, kappa)

    def _logpdf(self, points: Array) -> Array:
        """Return log f, with an error of about 1e-16 (10 + κ)."""
        # written as -κ|x-m|²/2, κ(<x,m> - 1) keeps its digits near the mean
        differences = points - self.mean
        squares = np.einsum("ij,ij->i", differences, differences)
        return np.asarray(-0.5 * self.kappa * squares - self._log_scaled_normaliser)

    def _pdf(self, points: Array) -> Array:
        """Return f at unit rows (n, d), shape (n,), with a relative error of about 1e-16 (10 + κ).

        Values below 1e-308 lose digits and then underflow to 0.
        """
        log_pdf = self._logpdf(points)
        row = int(np.argmax(log_pdf))
        if log_pdf[row] > _LARGEST_EXPONENT:
            raise ValueError(
                f"kappa must be smaller for a density in dim = {self.dim} to be held by a float, "
                f"got kappa = {self.kappa:g} with pdf e^{log_pdf[row]:.6g} in row {row} of points"
            )
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(log_pdf))

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n independent unit rows (n, d) by the exact rejection method of Wood (1994)."""
        angles = drawn(n, lambda count: self._accepted(count, rng))
        return points_around(self.mean, angles, rng)

    def _accepted(self, n: int, rng: np.random.Generator) -> Array:
        """Return the polar angles that are accepted among n proposals: some two thirds or more."""
        degrees = self.dim - 1.0
        b = degrees / (2.0 * self.kappa + np.hypot(2.0 * self.kappa, degrees))
        z = rng.beta(0.5 * degrees, 0.5 * degrees, n)
        # Wood's W is cos φ; 1 - W and 1 - W_0 are formed without cancellation
        cosine_deficit = 2.0 * b * z / (1.0 - (1.0 - b) * z)
        mode_below = 2.0 * b / (1.0 + b)
        ratio = (mode_below + (1.0 - mode_below) * cosine_deficit) * (1.0 + b) ** 2 / (4.0 * b)
        log_ratio = self.kappa * (mode_below - cosine_deficit) + degrees * np.log(ratio)
        accepted = z[log_ratio >= -rng.standard_exponential(n)]
        return np.asarray(2.0 * np.arctan2(np.sqrt(b * accepted), np.sqrt(1.0 - accepted)))
