"""The transforms of one right-hand side on S^2, with their buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.spaces.sphere.ducc import DuccPlan
from meanfield.spaces.sphere.shtns_plan import ShtnsPlan

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

Plan = DuccPlan | ShtnsPlan


class SphereTransforms:
    """f, the gradient of Λ f and, if wanted, a potential M f on the grid; and the adjoint of ∇.

    Λ and M multiply each degree by a factor; their transforms stop at the last factor that is not
    zero. No field is allocated after construction.

    Parameters
    ----------
    plan : DuccPlan or ShtnsPlan
        Of the space's degree on its grid.
    weights : ndarray, shape (N,)
        Quadrature weights of σ on the grid.
    slope : ndarray, shape (lmax + 1,)
        The factors of Λ.
    potential : ndarray, shape (lmax + 1,), optional
        The factors of M.

    Attributes
    ----------
    values : ndarray, shape (N,)
    gradient, flux : ndarray, shape (2, N)
        Components along the colatitude θ and the longitude φ.
    potential : ndarray, shape (N,)
        Of length 0 where none is wanted.
    """

    def __init__(
        self, plan: Plan, weights: Array, slope: Array, potential: Array | None = None
    ) -> None:
        self._plan, self._weights = plan, weights
        count = len(weights)
        self.values: Array = np.empty(count)
        self.gradient: Array = np.empty((2, count))
        self.flux: Array = np.empty((2, count))
        self.potential: Array = np.empty(0 if potential is None else count)
        self._adjoint = plan.adjoint(self.flux)
        self._slope = plan.filtered(slope, _last(slope))
        self._factors = None if potential is None else plan.filtered(potential, _last(potential))

    def evaluate(self, coefficients: Coefficients) -> None:
        """Fill `values`, `gradient` and `potential`."""
        self._plan.values(coefficients, self.values)
        self._slope.gradient(coefficients, self.gradient)
        if self._factors is not None:
            self._factors.values(coefficients, self.potential)

    def weak_divergence(self, out: Coefficients) -> None:
        """out_lm = ∫ `flux` · ∇ conj(Y_lm) dσ, that is minus the divergence."""
        self._adjoint.weak_divergence(out)

    def integral(self, field: Array) -> float:
        """∫ `flux` · field dσ over the components of two vector fields, shape (2, N)."""
        return float(np.einsum("j,ij,ij->", self._weights, self.flux, field))


def _last(factors: Array) -> int:
    """The last degree whose factor is not 0, at least 1."""
    return max(1, int(np.max(np.nonzero(factors)[0], initial=0)))
