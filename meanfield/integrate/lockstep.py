"""Steps of DOP853 for many states at once, each in its own time and with its own step size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.integrate.explicit import MOST
from meanfield.integrate.step_sizes import ManyStepSizes

Array = NDArray[np.float64]
Rates = Callable[[Array, Array], None]

# of the error in the size of a step
_ORDER = DOP853.error_estimator_order + 1
# the state goes into a stage as it is, stages with the step size that they hold already
_STAGES = [np.append(1.0, row[:s]) for s, row in enumerate(DOP853.A)]
_LAST = np.append(1.0, DOP853.B)
_ERRORS = np.array([DOP853.E5, DOP853.E3])


class Lockstep:
    """States y' = f(y) in lanes, which try their next steps together (Hairer, Nørsett & Wanner).

    Of each lane a step is judged, repeated or counted by itself, as `ExplicitSteps` does it; so a
    lane goes the way that it would go alone, but for rounding.

    Parameters
    ----------
    rates : callable
        From states (lanes, width) and an array for d/dt of them.
    lanes, width : int
    rtol : float

    Attributes
    ----------
    t, h, bound : ndarray, shape (lanes,)
        Present time, size of the next step, and time that no step goes beyond.
    states, slopes, atol : ndarray, shape (lanes, width)
        State, its d/dt, and absolute tolerance.
    tried, tried_slopes : ndarray, shape (lanes, width)
        The same where the last step has come to.
    spans : ndarray, shape (lanes,)
        Size of the last step.
    at_bound, too_small : ndarray of bool, shape (lanes,)
        Whether that step ends at `bound`, and whether the clock could not tell it.
    """

    def __init__(self, rates: Rates, lanes: int, width: int, rtol: float) -> None:
        self._rates, self._rtol = rates, rtol
        self._stack = np.zeros((DOP853.n_stages + 2, lanes, width))
        self._flat = self._stack.reshape(len(self._stack), -1)
        self.t, self.h, self.bound = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
        self.states = self._stack[0]
        self.slopes, self.atol = np.zeros((lanes, width)), np.ones((lanes, width))
        self.tried, self.tried_slopes = np.empty((lanes, width)), np.empty((lanes, width))
        self._scale, self._ends = np.empty((lanes, width)), np.empty((lanes, width))
        self._errors = np.empty((2, lanes, width))
        self._sizes = ManyStepSizes(_ORDER, MOST, lanes)
        self._is_anew, self._planned = np.ones(lanes, dtype=bool), np.zeros(lanes)
        self.spans = np.zeros(lanes)
        self.at_bound = self.too_small = np.zeros(lanes, dtype=bool)

    def attempt(self) -> NDArray[np.bool_]:
        """Try a step of each lane; whether its error is small enough, shape (lanes,)."""
        np.copyto(self._planned, self.h, where=self._is_anew)
        self.at_bound = self.t + self.h >= self.bound
        self.spans = np.where(self.at_bound, self.bound - self.t, self.h)
        self.too_small = self.spans < 10.0 * np.spacing(self.t)
        self._stages(self.spans[:, None])
        error = self._error()
        good: NDArray[np.bool_] = (error < 1.0) & np.isfinite(self.tried.sum(axis=1))
        self.h = self._sizes.next(self.spans, error, good)
        # a step that was cut short says nothing about the next
        is_cut = good & self.at_bound
        np.maximum(self.h, self._planned, out=self.h, where=is_cut)
        self._sizes.forget(is_cut)
        self._is_anew = good
        return good

    def _stages(self, spans: Array) -> None:
        tried, slopes, stack = self.tried, self.tried_slopes, self._stack
        np.multiply(self.slopes, spans, out=stack[1])
        for number, weights in enumerate(_STAGES[1:], start=2):
            np.dot(weights, self._flat[:number], out=tried.reshape(-1))
            self._rates(tried, slopes)
            np.multiply(slopes, spans, out=stack[number])
        np.dot(_LAST, self._flat[:-1], out=tried.reshape(-1))
        self._rates(tried, slopes)
        np.multiply(slopes, spans, out=stack[-1])

    def _error(self) -> Array:
        """Of the last step over its tolerance."""
        np.abs(self.states, out=self._scale)
        np.abs(self.tried, out=self._ends)
        np.maximum(self._scale, self._ends, out=self._scale)
        self._scale *= self._rtol
        self._scale += self.atol
        np.dot(_ERRORS, self._flat[1:], out=self._errors.reshape(2, -1))
        self._errors /= self._scale
        fifth, third = np.vecdot(self._errors, self._errors)
        both = fifth + 0.01 * third
        error: Array = np.zeros_like(both)
        np.divide(fifth, np.sqrt(both * self.states.shape[1]), out=error, where=both != 0.0)
        return error

    def accept(self, good: NDArray[np.bool_]) -> None:
        """Count the last step of these lanes."""
        np.copyto(self.states, self.tried, where=good[:, None])
        np.copyto(self.slopes, self.tried_slopes, where=good[:, None])
        self.t = np.where(good, np.where(self.at_bound, self.bound, self.t + self.spans), self.t)

    def put(
        self, lane: int, state: Array, slope: Array, atol: Array, clock: tuple[float, float, float]
    ) -> None:
        """Start a state in a lane; `clock` is t, h and `bound`."""
        self.states[lane], self.slopes[lane], self.atol[lane] = state, slope, atol
        self.t[lane], self.h[lane], self.bound[lane] = clock
        self._is_anew[lane] = True
        self._sizes.forget(lane)

    def rest(self, lane: int, state: Array) -> None:
        """Leave a lane to a state that does not move."""
        self.put(lane, state, np.zeros_like(state), np.ones_like(state), (0.0, 0.0, 0.0))

    def narrowed(self, rates: Rates, lanes: NDArray[np.intp]) -> Lockstep:
        """The same of some lanes, whose d/dt `rates` has."""
        narrow = Lockstep(rates, len(lanes), self.states.shape[1], self._rtol)
        for name in ("t", "h", "bound", "states", "slopes", "atol", "_is_anew", "_planned"):
            getattr(narrow, name)[:] = getattr(self, name)[lanes]
        narrow._sizes = self._sizes.of(lanes)
        return narrow


def first_steps(
    rates: Rates, states: Array, slopes: Array, spans: Array, tolerances: tuple[float, Array]
) -> Array:
    """Sizes of first steps (Hairer, Nørsett & Wanner, section II.4), at most spans, (lanes,)."""
    rtol, atol = tolerances
    scale = atol + rtol * np.abs(states)
    size, speed = _rms(states / scale), _rms(slopes / scale)
    is_small = (size < 1e-5) | (speed < 1e-5)
    first = np.where(is_small, 1e-6, 0.01 * size / np.where(is_small, 1.0, speed))
    first = np.minimum(first, spans)
    ahead = np.empty_like(states)
    rates(states + first[:, None] * slopes, ahead)
    bend = _rms((ahead - slopes) / scale) / first
    fastest = np.maximum(speed, bend)
    is_flat = fastest <= 1e-15
    second = np.where(
        is_flat,
        np.maximum(1e-6, 1e-3 * first),
        (0.01 / np.where(is_flat, 1.0, fastest)) ** (1.0 / _ORDER),
    )
    return np.minimum(np.minimum(100.0 * first, second), spans)


def _rms(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.vecdot(rows, rows) / rows.shape[1]))
