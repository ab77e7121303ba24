"""Transforms between a Gauss-Legendre grid and coefficients, by ducc0."""

from __future__ import annotations

from typing import Any

import ducc0
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

_SQRT_4PI = float(np.sqrt(4.0 * np.pi))


class DuccPlan:
    """Transforms of one degree on a grid; fields are (N,), vector fields (2, N) along θ and φ.

    Parameters
    ----------
    lmax : int
        Degree of the coefficients, which may be less than the grid resolves.
    grid : dict
        What ducc0 calls a grid.
    ring_weights : ndarray, shape (n_lat,)
        The quadrature weight of σ at each point of a ring.
    """

    def __init__(self, lmax: int, grid: dict[str, Any], ring_weights: Array) -> None:
        self._lmax, self._grid = lmax, grid
        self._ring_weights = ring_weights * _SQRT_4PI
        self._ring_ones = np.full(len(ring_weights), _SQRT_4PI)

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with f."""
        ducc0.sht.synthesis(
            alm=coefficients[None],
            map=out[None],
            lmax=self._lmax,
            spin=0,
            ringfactor=self._ring_ones,
            **self._grid,
        )

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇f."""
        ducc0.sht.synthesis(
            alm=coefficients[None],
            map=out,
            lmax=self._lmax,
            spin=1,
            mode="DERIV1",
            ringfactor=self._ring_ones,
            **self._grid,
        )

    def analysis(self, field: Array, out: Coefficients) -> None:
        """out_lm = ∫ field conj(Y_lm) dσ."""
        ducc0.sht.adjoint_synthesis(
            map=field[None],
            alm=out[None],
            lmax=self._lmax,
            spin=0,
            ringfactor=self._ring_weights,
            **self._grid,
        )

    def weak_divergence(self, field: Array, out: Coefficients) -> None:
        """out_lm = ∫ field · ∇ conj(Y_lm) dσ, that is minus the divergence."""
        ducc0.sht.adjoint_synthesis(
            map=field,
            alm=out[None],
            lmax=self._lmax,
            spin=1,
            mode="DERIV1",
            ringfactor=self._ring_weights,
            **self._grid,
        )

    def adjoint(self, flux: Array) -> DuccAdjoint:
        """The weak divergence of an array that keeps its place."""
        return DuccAdjoint(self, flux)

    def filtered(self, factors: Array, last: int) -> DuccFilter:
        """Transforms of Λ f, each degree times its factor (lmax + 1,), 0 beyond the last."""
        orders = np.arange(last + 1)
        starts = orders * (2 * self._lmax + 1 - orders) // 2
        degrees = np.concatenate([np.arange(m, self._lmax + 1) for m in range(self._lmax + 1)])
        band = {"lmax": last, "mstart": starts.astype(np.uint64)}
        return DuccFilter(factors[degrees] * _SQRT_4PI, band | self._grid)


class DuccFilter:
    """f ↦ Λ f and ∇Λ f on the grid, which read no degree beyond the last factor that is not 0."""

    def __init__(self, factors: Array, band: dict[str, Any]) -> None:
        # complex, since numpy would make them so at each call
        self._factors, self._band = factors.astype(np.complex128), band
        self._filtered = np.zeros((1, len(factors)), dtype=np.complex128)

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with Λ f."""
        np.multiply(self._factors, coefficients, out=self._filtered[0])
        ducc0.sht.synthesis(alm=self._filtered, map=out[None], spin=0, **self._band)

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇Λ f."""
        np.multiply(self._factors, coefficients, out=self._filtered[0])
        ducc0.sht.synthesis(alm=self._filtered, map=out, spin=1, mode="DERIV1", **self._band)


class DuccAdjoint:
    """out_lm = ∫ flux · ∇ conj(Y_lm) dσ of one array."""

    def __init__(self, plan: DuccPlan, flux: Array) -> None:
        self._plan, self._flux = plan, flux

    def weak_divergence(self, out: Coefficients) -> None:
        """Fill `out`."""
        self._plan.weak_divergence(self._flux, out)
