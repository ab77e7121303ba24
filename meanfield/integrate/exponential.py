"""Exponential Runge-Kutta: steps of dy/dt = -λ y + N(y) in which decay is exact at any rate."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meanfield.integrate.step_sizes import StepSizes

Array = NDArray[np.float64]
Rate = Callable[[float, Array], Array]
Terms = list[tuple[Array, Array]]

# terms of the series of φ_3 on [-1, 0] that reach rounding
_TERMS = 18
# of the error in the size of a step, and how far that may rise
_ORDER, _MOST = 4, 5.0


def phi_functions(z: Array) -> tuple[Array, Array, Array, Array]:
    """e^z, φ_1, φ_2, φ_3 at z <= 0, φ_k = (φ_{k-1} - 1/(k-1)!)/z, right to a few roundings.

    Parameters
    ----------
    z : ndarray, shape (n,)
        <= 0.

    Returns
    -------
    four ndarrays, shape (n,)

    Notes
    -----
    The recursion cancels near 0 only: there φ_3 is its series, and the others follow from it
    upwards, with terms of which the first is the largest.

    Examples
    --------
    >>> [float(phi[0].round(12)) for phi in phi_functions(np.zeros(1))]
    [1.0, 1.0, 0.5, 0.166666666667]
    """
    near = np.maximum(z, -1.0)
    third = np.zeros_like(z)
    for power in range(_TERMS, -1, -1):
        third = third * near + 1.0 / factorial(power + 3)
    second = 0.5 + near * third
    first = 1.0 + near * second
    far = np.nonzero(z < -1.0)[0]
    first[far] = np.expm1(z[far]) / z[far]
    second[far] = (first[far] - 1.0) / z[far]
    third[far] = (second[far] - 0.5) / z[far]
    return np.exp(z), first, second, third


class _Tableau(NamedTuple):
    """Weights of a step h for each rate: e^{-λh}, e^{-λh/2}, and h times those of the stages."""

    whole: Array
    half: Array
    a21: Array
    a31: Array
    a32: Array
    a41: Array
    a42: Array
    a51: Array
    a52: Array
    a54: Array
    b1: Array
    b4: Array
    b5: Array


def _tableau(decay: Array, h: float) -> _Tableau:
    """The method of Hochbruck & Ostermann (2005, (5.19)), c = 0, 1/2, 1/2, 1, 1/2."""
    whole, one, two, three = phi_functions(-h * decay)
    half, half_one, half_two, half_three = phi_functions(-0.5 * h * decay)
    a52 = 0.5 * half_two - three + 0.25 * two - 0.5 * half_three
    a54 = 0.25 * half_two - a52
    weights = (
        *(0.5 * half_one, 0.5 * half_one - half_two, half_two),
        *(one - 2.0 * two, two),
        *(0.5 * half_one - 2.0 * a52 - a54, a52, a54),
        *(one - 3.0 * two + 4.0 * three, 4.0 * three - two, 4.0 * two - 8.0 * three),
    )
    return _Tableau(whole, half, *(h * weight for weight in weights))


class ExponentialSteps:
    """dy/dt = -λ y + N(t, y) from t to `t_bound` by an exponential Runge-Kutta method of order 4.

    The method has this order however large λ is, is exact where N = 0, and stands still where
    N = λ y. Its error is estimated by what changes when the fourth stage, at the end of the step,
    gives way to N at the end itself, which the next step needs anyway: the difference to a method
    of order 3.

    Parameters
    ----------
    rate : callable
        N(t, y), shape (n,).
    decay : ndarray, shape (n_rates,)
        λ >= 0.
    which : ndarray of int, shape (n,)
        y_j decays at the rate `decay[which[j]]`.
    t : float
    y : ndarray, shape (n,)
    t_bound : float
        > t.
    first_step : float or None
        The first step to try; None for one by the size of N.
    rtol : float
    atol : ndarray, shape (n,)

    Attributes
    ----------
    t, y, status, step_size, h_abs
        As in scipy's `OdeSolver`: the present state; 'running', 'finished' or 'failed'; the last
        step taken, 0 before it; the next one to try.
    f : ndarray, shape (n,)
        N at the present state.
    middle : ndarray, shape (n,)
        The last stage, halfway through the last step taken.

    Examples
    --------
    >>> steps = ExponentialSteps(lambda t, y: np.ones(1), np.array([1e9]), np.zeros(1, int), 0.0,
    ...                          np.zeros(1), 1.0, first_step=1.0, rtol=1e-9, atol=np.ones(1))
    >>> steps.step()
    >>> steps.status, steps.y
    ('finished', array([1.e-09]))
    """

    def __init__(
        self,
        rate: Rate,
        decay: Array,
        which: NDArray[np.intp],
        t: float,
        y: Array,
        t_bound: float,
        *,
        first_step: float | None,
        rtol: float,
        atol: Array,
    ) -> None:
        self._rate, self._decay, self._which = rate, decay, which
        self.t, self.y, self.t_bound = t, y, t_bound
        self._rtol, self._atol = rtol, atol
        self._product, self.middle = np.empty_like(y), y
        self._sizes = StepSizes(_ORDER, _MOST)
        self.f = rate(t, y)
        self.status, self.step_size = "running", 0.0
        self.h_abs: float = self._first_step() if first_step is None else first_step

    def _first_step(self) -> float:
        """A step in which N alone changes y by a hundredth; all the way if N = 0."""
        size, change = self._norm(self.y, self.y), self._norm(self.f, self.y)
        span = self.t_bound - self.t
        return span if change == 0.0 else min(span, 0.01 * max(size, 1e-5) / change)

    def _norm(self, what: Array, largest: Array) -> float:
        """Root mean square of the entries over their tolerances; squares do not overflow."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            ratios = what / (self._atol + self._rtol * np.abs(largest))
            unit = float(np.abs(ratios).max())
            if unit == 0.0 or not np.isfinite(unit):
                return unit
            ratios /= unit
            return unit * float(np.sqrt(np.mean(ratios * ratios)))

    def step(self) -> str | None:
        """Take one step in as many tries as it needs, to a new array `y`.

        Returns
        -------
        str or None
            Why it failed, if it did.
        """
        while self.h_abs >= 10.0 * np.spacing(self.t):
            end = min(self.t + self.h_abs, self.t_bound)
            h = end - self.t
            # a step that leaves double precision is one that was too long
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                middle, y, f, change = self._tried(end, h)
                error = self._norm(change, np.maximum(np.abs(self.y), np.abs(y)))
            self.h_abs = self._sizes.next(h, error)
            if error < 1.0:
                self.t, self.middle, self.y, self.f = end, middle, y, f
                self.step_size = h
                if end == self.t_bound:
                    self.status = "finished"
                return None
        self.status = "failed"
        return "the step size is less than the spacing of floats"

    def _tried(self, end: float, h: float) -> tuple[Array, Array, Array, Array]:
        """The last stage of a step h, y and N(y) at its end, and the estimate of its error."""
        w, rate, first = _tableau(self._decay, h), self._rate, self.f
        half = end - 0.5 * h
        second = rate(half, self._sum(w.half, [(w.a21, first)]))
        third = rate(half, self._sum(w.half, [(w.a31, first), (w.a32, second)]))
        second += third
        fourth = rate(end, self._sum(w.whole, [(w.a41, first), (w.a42, second)]))
        fifth = [(w.a51, first), (w.a52, second), (w.a54, fourth)]
        middle = self._sum(w.half, fifth)
        last = rate(half, middle)
        y = self._sum(w.whole, [(w.b1, first), (w.b4, fourth), (w.b5, last)])
        f = rate(end, y)
        fourth -= f
        fourth *= w.b4[self._which]
        return middle, y, f, fourth

    def _sum(self, decayed: Array, terms: Terms) -> Array:
        """Σ over `terms` of weight times rate, and `decayed` times y; weights are by decay rate."""
        total = decayed[self._which]
        total *= self.y
        for weight, term in terms:
            np.take(weight, self._which, out=self._product, mode="clip")
            self._product *= term
            total += self._product
        return total
