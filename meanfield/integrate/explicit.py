"""Steps of explicit Runge-Kutta pairs whose stages are formed in place."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853, RK45

from meanfield.integrate.step_sizes import StepSizes

Array = NDArray[np.float64]

# how far the size of a step may rise
MOST = 10.0
# of the dense output of order 4
_POWERS = np.arange(1.0, 5.0)


class Rate(Protocol):
    """d/dt of a state at time t, written into `out`, or a new array where there is none."""

    def __call__(self, t: float, state: Array, out: Array | None = None) -> Array:
        """Return the rate."""


class _InPlace(ABC):
    """Steps of one of scipy's explicit Runge-Kutta pairs, whose tableau and error estimate it has.

    What differs is that a stage y + h Σ a_i k_i is one product, of rows that y and its rates k_i
    are written to: of a step, only the state at its end is a new array. Sizes are those of
    `StepSizes`.
    """

    A: Array
    B: Array
    C: Array
    K: Array
    ESTIMATES: Array
    # rates that are kept, of a step and its dense output
    RATES: int
    n: int
    n_stages: int
    error_estimator_order: int
    rtol: float
    atol: Array
    t_bound: float
    TOO_SMALL_STEP: str
    t: float
    t_old: float
    h_abs: float
    h_previous: float
    y: Array
    y_old: Array
    f: Array

    def __init__(
        self,
        rate: Rate,
        t: float,
        y: Array,
        t_bound: float,
        *,
        first_step: float | None,
        rtol: float,
        atol: Array,
    ) -> None:
        # that of scipy's class
        super().__init__(  # type: ignore[call-arg]
            rate, t, y, t_bound, first_step=first_step, rtol=rtol, atol=atol
        )
        self._sizes = StepSizes(self.error_estimator_order + 1, MOST)
        self._rate, self._stage = rate, np.empty_like(self.y)
        self._errors = np.empty((len(self.ESTIMATES), self.n))
        self._rows = np.empty((1 + self.RATES, self.n))
        # under the names that scipy's dense output has for them
        self.K_extended = self._rows[1:]
        self.K = self.K_extended[: self.n_stages + 1]
        self._weights = np.ones((self.n_stages, 1 + self.A.shape[1]))
        self._stages = [
            (float(self.C[s]), self._weights[s, : s + 1], self._rows[: s + 1], self.K[s])
            for s in range(1, self.n_stages)
        ]
        self._last = np.ones(1 + self.n_stages)

    def _step_impl(self) -> tuple[bool, str | None]:
        """Take one step in as many tries as it needs."""
        least = 10.0 * np.spacing(self.t)
        size = max(self.h_abs, least)
        self._rows[0], self.K[0] = self.y, self.f
        while size >= least:
            end = min(self.t + size, self.t_bound)
            h = end - self.t
            y = self._tried(end, h)
            error = self._error(h, y)
            size = self._sizes.next(h, error)
            if error < 1.0:
                self.h_previous, self.h_abs = h, size
                self.t, self.y_old, self.y, self.f = end, self.y, y, self.K[-1].copy()
                return True, None
        return False, self.TOO_SMALL_STEP

    def _tried(self, end: float, h: float) -> Array:
        """The state at the end of a step h, all of whose rates are then in K."""
        stage, rate = self._stage, self._rate
        np.multiply(self.A, h, out=self._weights[:, 1:])
        np.multiply(self.B, h, out=self._last[1:])
        for c, weights, rows, own in self._stages:
            np.dot(weights, rows, out=stage)
            rate(self.t + c * h, stage, own)
        y: Array = np.dot(self._last, self._rows[: len(self._last)])
        rate(end, y, self.K[-1])
        return y

    def _error(self, h: float, y: Array) -> float:
        """Of the last step, to y, in units of the tolerance."""
        scale, errors = self._stage, self._errors
        np.abs(self.y, out=scale)
        np.maximum(scale, np.abs(y, out=errors[0]), out=scale)
        scale *= self.rtol
        scale += self.atol
        np.dot(self.ESTIMATES, self.K, out=errors)
        errors /= scale
        squares: list[float] = np.einsum("ij,ij->i", errors, errors).tolist()
        return h * self._estimate(squares)

    @abstractmethod
    def _estimate(self, squares: list[float]) -> float:
        """Of the error per unit of time, from sums over entries of each row of `ESTIMATES`."""


class ExplicitSteps(_InPlace, DOP853):  # type: ignore[misc]
    """The explicit Runge-Kutta pair of order 8(5,3) of Hairer, Nørsett & Wanner (1993), II.5.

    Parameters
    ----------
    rate : Rate
        Must not keep the state that it is given, which is overwritten.
    t, t_bound : float
        Start and end, t < t_bound.
    y : ndarray
        The state at t.
    first_step : float or None
        None to choose it.
    rtol : float
    atol : ndarray
        Of each entry of the state.
    """

    ESTIMATES = np.stack([DOP853.E5, DOP853.E3])
    RATES = 16
    D: Array
    A_EXTRA: Array
    C_EXTRA: Array

    def _estimate(self, squares: list[float]) -> float:
        """e_5² / (n (e_5² + e_3²/100))^{1/2}."""
        fifth, third = squares
        both = fifth + 0.01 * third
        return fifth / math.sqrt(both * self.n) if both != 0.0 else 0.0

    def interpolant(self) -> Array:
        """What the dense output of the last step is made of, shape (8, n); overwritten later.

        The rows are y and F_0 … F_6 of y + x (F_0 + (1 - x) (F_1 + x (F_2 + (1 - x) (F_3 + …, with
        x from 0 to 1 over the step. Three more rates are asked for.
        """
        h, rows, rates = self.h_previous, self._rows, self.K_extended
        for s, (weights, c) in enumerate(
            zip(self.A_EXTRA, self.C_EXTRA, strict=True), start=self.n_stages + 1
        ):
            np.dot(np.append(1.0, h * weights[:s]), rows[: s + 1], out=self._stage)
            self._rate(self.t_old + c * h, self._stage, rates[s])
        out = self._dense
        old, change, start, bend = out[:4]
        np.copyto(old, self.y_old)
        np.subtract(self.y, old, out=change)
        np.multiply(rates[0], h, out=start)
        np.add(self.f, rates[0], out=bend)
        bend *= -h
        bend += change
        bend += change
        start -= change
        np.matmul(h * self.D, rates, out=out[4:])
        return out

    @cached_property
    def _dense(self) -> Array:
        return np.empty((8, self.n))

    def interpolation(self, x: Array) -> Array:
        """By what the rows of `interpolant` count at shares x of the step, shape (len(x), 8)."""
        factors = np.ones((len(x), 8))
        factors[:, 1::2] = x[:, None]
        factors[:, 2::2] = 1.0 - x[:, None]
        return np.asarray(np.cumprod(factors, axis=1))


class LooseSteps(_InPlace, RK45):  # type: ignore[misc]
    """The pair of order 5(4) of Dormand & Prince (1980), for tolerances of 1e-6 and looser.

    There it takes fewer rates than the pair of order 8, and sums of half as many; what its dense
    output, of order 4, is made of is there already. Parameters are those of `ExplicitSteps`.
    """

    ESTIMATES = RK45.E[None]
    RATES = 7
    P: Array

    def _estimate(self, squares: list[float]) -> float:
        """e / n^{1/2}."""
        return math.sqrt(squares[0] / self.n)

    def interpolant(self) -> Array:
        """What the dense output of the last step is made of, shape (8, n); overwritten later.

        The rows are y and the rates k_i of y + h Σ_i p_i(x) k_i, with x from 0 to 1 over the step.
        """
        return self._rows

    def interpolation(self, x: Array) -> Array:
        """By what the rows of `interpolant` count at shares x of the step, shape (len(x), 8)."""
        weights = np.ones((len(x), 1 + self.RATES))
        np.matmul(x[:, None] ** _POWERS, self.h_previous * self.P.T, out=weights[:, 1:])
        return weights
