"""Steps of DOP853 whose stages are formed in place."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

Array = NDArray[np.float64]

# of step sizes from one step to the next, and the exponent of an error estimate of order 7
_SAFETY, _LEAST, _MOST, _EXPONENT = 0.9, 0.2, 10.0, -1.0 / 8.0
_ESTIMATES = np.stack([DOP853.E5, DOP853.E3])


class Rate(Protocol):
    """d/dt of a state at time t, written into `out`, or a new array where there is none."""

    def __call__(self, t: float, state: Array, out: Array | None = None) -> Array:
        """Return the rate."""


class ExplicitSteps(DOP853):  # type: ignore[misc]
    """The explicit Runge-Kutta pair of order 8(5,3) of Hairer, Nørsett & Wanner (1993), II.5.

    Tableau, error estimate, choice of step sizes and dense output are those of scipy's class. What
    differs is that a stage y + h Σ a_i k_i is summed in one buffer, and that its rate is written
    to the row where it is kept: of a step, only the state at its end is a new array.

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
        super().__init__(rate, t, y, t_bound, first_step=first_step, rtol=rtol, atol=atol)
        self._rate, self._stage = rate, np.empty_like(self.y)
        self._weights = np.empty_like(self.A)
        self._stages = [
            (float(self.C[s]), self._weights[s, :s], self.K[:s], self.K[s])
            for s in range(1, self.n_stages)
        ]
        self._errors = np.empty((2, self.n))

    def _step_impl(self) -> tuple[bool, str | None]:
        """Take one step in as many tries as it needs."""
        least, most = 10.0 * np.spacing(self.t), _MOST
        size = max(self.h_abs, least)
        self.K[0] = self.f
        while size >= least:
            end = min(self.t + size, self.t_bound)
            h = end - self.t
            y = self._tried(end, h)
            error = self._error(h, y)
            if error < 1.0:
                factor = _SAFETY * error**_EXPONENT if error > 0.0 else most
                self.h_previous, self.h_abs = h, h * min(most, factor)
                self.t, self.y_old, self.y, self.f = end, self.y, y, self.K[-1].copy()
                return True, None
            factor = _SAFETY * error**_EXPONENT if np.isfinite(error) else _LEAST
            size, most = h * max(_LEAST, factor), 1.0
        return False, self.TOO_SMALL_STEP

    def _tried(self, end: float, h: float) -> Array:
        """The state at the end of a step h, all of whose rates are then in K."""
        stage, rate = self._stage, self._rate
        np.multiply(self.A, h, out=self._weights)
        for c, weights, before, own in self._stages:
            np.dot(weights, before, out=stage)
            stage += self.y
            rate(self.t + c * h, stage, own)
        y = np.dot(self.B, self.K[:-1])
        y *= h
        y += self.y
        rate(end, y, self.K[-1])
        return np.asarray(y)

    def _error(self, h: float, y: Array) -> float:
        """The estimate |h| e_5² / (n (e_5² + e_3²/100))^{1/2}, e norms in units of tolerances."""
        scale, errors = self._stage, self._errors
        np.maximum(np.abs(self.y), np.abs(y), out=scale)
        scale *= self.rtol
        scale += self.atol
        np.dot(_ESTIMATES, self.K, out=errors)
        errors /= scale
        fifth, third = np.einsum("ij,ij->i", errors, errors).tolist()
        if fifth == 0.0 and third == 0.0:
            return 0.0
        return float(h * fifth / math.sqrt((fifth + 0.01 * third) * len(scale)))

    def interpolant(self, out: Array) -> None:
        """Write what the dense output of the last step is made of into `out`, shape (8, n).

        The rows are y and F_0 … F_6 of y + x (F_0 + (1 - x) (F_1 + x (F_2 + (1 - x) (F_3 + …, with
        x from 0 to 1 over the step. Three more rates are asked for.
        """
        rates, h, stage = self.K_extended, self.h_previous, self._stage
        for s, (weights, c) in enumerate(
            zip(self.A_EXTRA, self.C_EXTRA, strict=True), start=self.n_stages + 1
        ):
            np.dot(weights[:s], rates[:s], out=stage)
            stage *= h
            stage += self.y_old
            self._rate(self.t_old + c * h, stage, rates[s])
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

    @staticmethod
    def interpolation(x: Array) -> Array:
        """By what the rows of `interpolant` count at shares x of the step, shape (len(x), 8)."""
        factors = np.ones((len(x), 8))
        factors[:, 1::2] = x[:, None]
        factors[:, 2::2] = 1.0 - x[:, None]
        return np.asarray(np.cumprod(factors, axis=1))
