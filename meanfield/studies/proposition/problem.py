"""The energy that is examined: e^{βt}, or a kernel that takes its place, in units of its spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from meanfield.arguments import real_array
from meanfield.harmonics import degree_weights, gauss_gegenbauer, gegenbauer, multiplicities

Array = NDArray[np.float64]
Profile = Callable[[Array], Array]

# coefficients of a kernel below this share of ∫ |W P_k| dσ are rounding
ROUNDING = 1e-13
# half the step of the difference that stands for a kernel's derivative
_STEP = 1e-6


@dataclass(frozen=True)
class Problem:
    """E(mu) = ½ ∬ W(<x,y>) dmu dmu; numbers are (E(mu) - E(σ))/U, U = max |W - Λ_0|/2.

    For W = e^{βt}/β, U = E(δ) - E(σ), so the *share* of a measure is 0 for σ, 1 for a Dirac, and
    Σ_{k>=1} p_k r_k with r_k = ∬ P_k(<x,y>) dmu dmu in [0, 1] and p_k > 0 of sum 1.

    Attributes
    ----------
    dim : int
    beta : float
        nan for another kernel.
    weights : ndarray, shape (kmax + 1,)
        p_k = N_k Λ_k/(2U) with the Λ_k of W, and p_0 = 0.
    dirac : float
        The share of a Dirac.
    level : float
        The distance of E(σ) from 0 in units of U.
    kernel : callable or None
    centre, spread : float
        Λ_0 and max |W - Λ_0| of a kernel; e^{-β} Λ_0 and 1 - e^{-β} Λ_0 of e^{βt}.
    """

    dim: int
    beta: float
    weights: Array
    dirac: float
    level: float
    centre: float
    spread: float
    kernel: Profile | None = None

    @property
    def kmax(self) -> int:
        """The last degree that is looked at."""
        return len(self.weights) - 1

    def excess(self, t: Array) -> Array:
        """(W(t) - Λ_0)/max |W - Λ_0|: its double integral over a measure is the share."""
        if self.kernel is None:
            return np.asarray(1.0 + np.expm1(self.beta * (t - 1.0)) / self.spread)
        return np.asarray((self.kernel(t) - self.centre) / self.spread)

    def defect(self, squared: Array) -> Array:
        """(W(1) - W(t))/max |W - Λ_0|, t = 1 - |x-y|²/2, of the squares of distances."""
        if self.kernel is None:
            return np.asarray(-np.expm1(-0.5 * self.beta * squared) / self.spread)
        t = np.maximum(1.0 - 0.5 * squared, -1.0)
        return np.asarray((self.kernel(np.ones(1)) - self.kernel(t)) / self.spread)

    def slope(self, t: Array) -> Array:
        """The derivative of `excess`."""
        if self.kernel is None:
            return np.asarray(self.beta * np.exp(self.beta * (t - 1.0)) / self.spread)
        high, low = np.minimum(t + _STEP, 1.0), np.maximum(t - _STEP, -1.0)
        return np.asarray((self.kernel(high) - self.kernel(low)) / (high - low) / self.spread)


def attention(beta: float, dim: int, kmax: int) -> Problem:
    """The problem of e^{βt}/β, β > 0."""
    weights = degree_weights(beta, dim, max(kmax, 1))
    # all degrees count in the gap, whatever kmax is
    full = degree_weights(beta, dim, max(kmax, _reach(beta, dim)))
    gap = float(full[1:].sum())
    level = float(weights[0]) / gap
    own = weights / gap
    own[0] = 0.0
    return Problem(dim, beta, own, 1.0, level, float(weights[0]), gap)


def _reach(beta: float, dim: int) -> int:
    """Degrees past which the shares no longer count in their sum."""
    size = 64
    while True:
        tail = degree_weights(beta, dim, size)[size // 2 :]
        if tail.sum() < 1e-18 * max(1e-300, degree_weights(beta, dim, 1)[1]):
            return size
        size *= 2


def other(kernel: Profile, dim: int, kmax: int) -> Problem:
    """The problem of a kernel W on [-1, 1].

    Raises
    ------
    ValueError
        If the kernel is constant, or its Λ_k change with the number of nodes.
    """
    coefficients, rounding = quadrature(kernel, dim, kmax)
    again, _ = quadrature(kernel, dim, kmax, 4 * kmax + 131)
    t = np.concatenate([np.linspace(-1.0, 1.0, 4001), gauss_gegenbauer(dim, 64)[0]])
    values, centre = kernel(t), float(coefficients[0])
    spread = float(np.abs(values - centre).max())
    if spread <= ROUNDING * float(np.abs(values).max()):
        raise ValueError(f"kernel must not be constant on [-1, 1], got {centre:g} everywhere")
    change = np.abs(again - coefficients)
    if (change > rounding).any():
        k = int(np.argmax(change - rounding))
        raise ValueError(
            f"kernel must be smooth enough for {4 * kmax + 131} Gauss nodes, but its Λ_{k} = "
            f"{coefficients[k]:.6g} changes by {change[k]:.2g} with their number"
        )
    resolved = np.where(np.abs(coefficients) > rounding, coefficients, 0.0)
    weights = resolved * multiplicities(dim, kmax) / spread
    weights[0] = 0.0
    dirac = (float(kernel(np.ones(1))[0]) - centre) / spread
    return Problem(dim, np.nan, weights, dirac, abs(centre) / spread, centre, spread, kernel)


def quadrature(kernel: Profile, dim: int, kmax: int, nodes: int = 0) -> tuple[Array, Array]:
    """Λ_k = ∫ W(t) P_k(t) dσ by Gauss's rule, and 1e-13 ∫ |W P_k| dσ, the rounding of each."""
    t, w = gauss_gegenbauer(dim, nodes or 2 * kmax + 64)
    terms = gegenbauer(dim, kmax, t) * (w * kernel(t))
    return terms.sum(axis=1), ROUNDING * np.abs(terms).sum(axis=1)


def checked_kernel(kernel: Any) -> tuple[Profile, int | None]:
    """A callable of t, or the polynomial of these coefficients a_0, a_1, …; and its degree.

    Raises
    ------
    ValueError
        If it is neither, or not finite on [-1, 1].
    """
    if callable(kernel):
        t = np.linspace(-1.0, 1.0, 257)
        values = np.asarray(kernel(t))
        if values.shape != t.shape or not np.isfinite(values).all():
            raise ValueError(
                f"kernel must give a finite number for each t in [-1, 1], got {values!r:.200}"
            )
        return kernel, None
    if not isinstance(kernel, Sequence | np.ndarray) or isinstance(kernel, str):
        raise ValueError(
            f"kernel must be a callable of t or coefficients a_0, a_1, …, got {kernel!r}"
        )
    coefficients = real_array("kernel", kernel, 1)
    return Polynomial(coefficients), max(1, len(coefficients) - 1)
