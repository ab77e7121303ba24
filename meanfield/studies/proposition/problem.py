"""The energy that is examined: e^{βt}, or a kernel that takes its place, in units of its spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from meanfield.harmonics import degree_weights

Array = NDArray[np.float64]
Profile = Callable[[Array], Array]

# what rounding may hide, as a share of the sum of absolute terms
ROUNDING = 1e-13
# below it e^{βt} - 1 leaves double precision
LEAST_BETA = 1e-290
# half the step of the difference that stands for a kernel's derivative
_STEP = 1e-6
_EPS = float(np.finfo(float).eps)


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
    centre, spread : float
        Λ_0 and max |W - Λ_0| of a kernel; e^{-β} Λ_0 and 1 - e^{-β} Λ_0 of e^{βt}.
    error : float
        Of `excess` and `defect`, and so of the share of any measure that is summed in pairs.
    unresolved : ndarray, shape (kmax + 1,)
        The error of each p_k.
    kernel : callable or None
    """

    dim: int
    beta: float
    weights: Array
    dirac: float
    level: float
    centre: float
    spread: float
    error: float
    unresolved: Array
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
    """The problem of e^{βt}/β, β > 0; below 1e-290 with the weights of β = 1e-290, to rounding."""
    if beta < LEAST_BETA:
        return replace(attention(LEAST_BETA, dim, kmax), beta=beta)
    weights = degree_weights(beta, dim, max(kmax, 1))
    # all degrees count in the gap, whatever kmax is
    full = degree_weights(beta, dim, max(kmax, _reach(beta, dim)))
    gap = float(full[1:].sum())
    level = float(weights[0]) / gap
    own = weights / gap
    own[0] = 0.0
    # an exponential rounds its argument, which is of order β where neither it nor 1 is alone
    error = ROUNDING + 8.0 * _EPS * beta
    return Problem(
        dim, beta, own, 1.0, level, float(weights[0]), gap, error, ROUNDING * own, kernel=None
    )


def _reach(beta: float, dim: int) -> int:
    """Degrees past which the shares no longer count in their sum."""
    size = 64
    while True:
        tail = degree_weights(beta, dim, size)[size // 2 :]
        if tail.sum() < 1e-18 * max(1e-300, degree_weights(beta, dim, 1)[1]):
            return size
        size *= 2
