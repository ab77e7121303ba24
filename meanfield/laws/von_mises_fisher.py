"""The von Mises-Fisher law in any dimension."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from meanfield._checks import freeze, key, number, unit_vector
from meanfield.kernels.multipliers import log_eigenvalues, scaled_eigenvalues
from meanfield.laws.law import KnownLaw, brief, drawn, points_around, vector
from meanfield.typing import Array, ArrayLike

_LARGEST_KAPPA = 1e6
_LARGEST_EXPONENT = 709.0


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
        """log(e^{-κ} Λ_0)."""
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

    def _pdf(self, points: Array) -> Array:
        """f at unit rows (n, d), shape (n,), with a relative error of about 1e-16 (10 + κ).

        Values below 1e-308 lose digits and then underflow to 0.
        """
        # κ(<x,m> - 1) = -κ|x-m|²/2 keeps its digits near the mean
        apart = points - self.mean
        log_pdf = -0.5 * self.kappa * np.einsum("ij,ij->i", apart, apart)
        log_pdf -= self._log_scaled_normaliser
        row = int(np.argmax(log_pdf))
        if log_pdf[row] > _LARGEST_EXPONENT:
            raise ValueError(
                f"kappa must be smaller for a density in dim = {self.dim} to be held by a float, "
                f"got kappa = {self.kappa:g} with pdf e^{log_pdf[row]:.6g} in row {row} of points"
            )
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(log_pdf))

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """n independent draws, unit rows (n, d), by the exact rejection method of Wood (1994)."""
        angles = drawn(n, lambda count: self._accepted(count, rng))
        return points_around(self.mean, angles, rng)

    def _accepted(self, n: int, rng: np.random.Generator) -> Array:
        """Those of n proposed polar angles that are accepted: some two thirds or more."""
        degrees = self.dim - 1.0
        b = degrees / (2.0 * self.kappa + np.hypot(2.0 * self.kappa, degrees))
        z = rng.beta(0.5 * degrees, 0.5 * degrees, n)
        # Wood's W is cos φ; 1 - W and 1 - W_0, here without cancellation
        below = 2.0 * b * z / (1.0 - (1.0 - b) * z)
        mode_below = 2.0 * b / (1.0 + b)
        ratio = (mode_below + (1.0 - mode_below) * below) * (1.0 + b) ** 2 / (4.0 * b)
        log_ratio = self.kappa * (mode_below - below) + degrees * np.log(ratio)
        accepted = z[log_ratio >= -rng.standard_exponential(n)]
        return np.asarray(2.0 * np.arctan2(np.sqrt(b * accepted), np.sqrt(1.0 - accepted)))
