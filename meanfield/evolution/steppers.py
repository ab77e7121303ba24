"""Steps of time: explicit Runge-Kutta pairs, and exponential steps that are exact in decay."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from math import factorial
from typing import Protocol

import numpy as np
from scipy.integrate import DOP853, RK45, OdeSolver

from meanfield.typing import Array, Indices

# a safety factor, and the least ratio of a step to the one before
_SAFETY, _LEAST = 0.9, 0.2
# the error of the step before enters with this exponent, in units of 1/k; it counts as no less than
# the second number
_BEFORE, _SMALLEST = 0.4, 0.01


class StepSizes:
    """h ← 0.9 h ε^{-1/k} ε'^{0.4/k} after a step of error ε that followed one of error ε'.

    Errors are in units of the tolerance, and of order k in h. The last factor is proportional and
    integral control (Gustafsson 1991; Hairer & Wanner 1996, section IV.2): where a solution gets
    faster, or h is at the limit of stability, the error grows from step to step, and without it
    every second step is refused. It is left out after the first step, and ε' counts for 0.01 at
    least, so that steps may grow fast when they have been short.

    Parameters
    ----------
    order : int
        k.
    most : float
        How far the size of a step may rise.
    """

    def __init__(self, order: int, most: float) -> None:
        self._exponent, self._most = 1.0 / order, most
        self._before, self._limit = 1.0, most

    def next(self, h: float, error: float) -> float:
        """The size to try after a step h, which counts if its error is below 1."""
        if not error < 1.0:
            self._limit = 1.0
            share = _SAFETY * error**-self._exponent if math.isfinite(error) else _LEAST
            return h * max(_LEAST, share)
        factor = self._limit
        if error > 0.0:
            share = error * self._before**-_BEFORE
            factor = min(factor, _SAFETY * share**-self._exponent)
        self._before, self._limit = max(error, _SMALLEST), self._most
        return h * factor


# the largest ratio of a step to the one before
MOST = 10.0
# the dense output of order 4 has these powers
_POWERS = np.arange(1.0, 5.0)


class Rate(Protocol):
    """d/dt of a state at time t, written into `out`, or a new array where there is none."""

    def __call__(self, t: float, state: Array, out: Array | None = None) -> Array:
        """Return the rate."""


class Stepper(ABC):
    """Steps of time of one method, from a state at t to a bound.

    Attributes
    ----------
    t, t_old, t_bound : float
        The present time, that before the last step, and the end.
    y, y_old : ndarray
        The states at t and t_old. A run may put y back on the sphere.
    f : ndarray
        The rate at the end of the last step.
    h_abs : float
        The size of the next step to try.
    status : str
        'running', 'finished' or 'failed'.
    """

    t: float
    t_old: float
    t_bound: float
    y: Array
    y_old: Array
    f: Array
    h_abs: float
    status: str

    @abstractmethod
    def step(self) -> str | None:
        """Take one step in as many tries as it needs; why it failed, if numbers are finite."""


class _FittedSteps(Stepper):
    """Steps whose sizes follow from their error estimates."""

    _sizes: StepSizes

    def step(self) -> str | None:
        """Take one step in as many tries as it needs; why it failed, if it did."""
        least, planned = 10.0 * np.spacing(self.t), self.h_abs
        size = max(planned, least)
        while size >= least:
            end = min(self.t + size, self.t_bound)
            h = end - self.t
            error, y, f = self._try(end, h)
            size = self._sizes.next(h, error)
            if error < 1.0:
                self.t_old, self.t, self.y_old, self.y, self.f = self.t, end, self.y, y, f
                self.h_abs = size
                if end == self.t_bound:
                    # a step that was shortened to end at a save says nothing about the size of the
                    # next
                    self.status, self.h_abs = "finished", max(size, planned)
                return None
        self.status = "failed"
        return "the step size is less than the spacing of floats" if np.isfinite(error) else None

    @abstractmethod
    def _try(self, end: float, h: float) -> tuple[float, Array, Array]:
        """The error of a step h in units of the tolerance, and the state and rate at its end."""


class _Pair(_FittedSteps, OdeSolver):  # type: ignore[misc]
    """Steps of an explicit Runge–Kutta pair of scipy, with scipy's tableau and error estimate.

    What differs is that a stage y + h Σ a_i k_i is one product, of rows that y and its rates k_i
    are written to: of a step, only the state at its end is a new array. Sizes are those of
    `StepSizes`.
    """

    ESTIMATES: Array
    # the number of stages of a step and its dense output, whose rates are kept
    RATES: int

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
        # scipy's pair asks for the first rate, and chooses a first step where none is given
        super().__init__(rate, t, y, t_bound, first_step=first_step, rtol=rtol, atol=atol)
        # scipy would store functions that hold this object, which then could not be freed
        self.fun = self.fun_vectorized = rate
        self._sizes = StepSizes(self.error_estimator_order + 1, MOST)
        self._rate, self._stage = rate, np.empty_like(self.y)
        self._errors = np.empty((len(self.ESTIMATES), self.n))
        self._rows = np.empty((1 + self.RATES, self.n))
        # scipy's dense output reads the stages under these names
        self.K_extended = self._rows[1:]
        self.K = self.K_extended[: self.n_stages + 1]
        self._weights = np.ones((self.n_stages, 1 + self.A.shape[1]))
        self._stages = [
            (float(self.C[s]), self._weights[s, : s + 1], self._rows[: s + 1], self.K[s])
            for s in range(1, self.n_stages)
        ]
        self._last = np.ones(1 + self.n_stages)

    def _try(self, end: float, h: float) -> tuple[float, Array, Array]:
        stage, rate = self._stage, self._rate
        self.h_previous = h
        self._rows[0], self.K[0] = self.y, self.f
        np.multiply(self.A, h, out=self._weights[:, 1:])
        np.multiply(self.B, h, out=self._last[1:])
        for c, weights, rows, stage_rate in self._stages:
            np.dot(weights, rows, out=stage)
            rate(self.t + c * h, stage, stage_rate)
        y: Array = np.dot(self._last, self._rows[: len(self._last)])
        rate(end, y, self.K[-1])
        return self._error(h, y), y, self.K[-1].copy()

    def _error(self, h: float, y: Array) -> float:
        """Return the error of the last step, which led to y, in units of the tolerance."""
        allowed, errors = self._stage, self._errors
        np.abs(self.y, out=allowed)
        np.maximum(allowed, np.abs(y, out=errors[0]), out=allowed)
        allowed *= self.rtol
        allowed += self.atol
        np.dot(self.ESTIMATES, self.K, out=errors)
        errors /= allowed
        return h * self._estimate(errors)

    @abstractmethod
    def _estimate(self, errors: Array) -> float:
        """Return the error per unit of time from estimates, one for each row of `ESTIMATES`."""


class ExplicitSteps(_Pair, DOP853):  # type: ignore[misc]
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

    def _estimate(self, errors: Array) -> float:
        """Return e_5² / (n (e_5² + e_3²/100))^{1/2}."""
        fifth, third = np.einsum("ij,ij->i", errors, errors).tolist()
        combined = fifth + 0.01 * third
        return fifth / math.sqrt(combined * self.n) if combined != 0.0 else 0.0

    def interpolant(self) -> Array:
        """The coefficients of the dense output of the last step, shape (8, n); overwritten later.

        The rows are y and F_0 … F_6 of y + x (F_0 + (1 - x) (F_1 + x (F_2 + (1 - x) (F_3 + …, with
        x from 0 to 1 over the step. This needs three more rates.
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


class LargestErrorSteps(ExplicitSteps):
    """The pair of order 8(5,3), right at every entry of the state.

    A root mean square over 50,000 points hides the few where the field is steep.
    """

    def _estimate(self, errors: Array) -> float:
        """Return the largest e_5² / (e_5² + e_3²/100)^{1/2} of an entry."""
        fifth, third = np.abs(errors, out=errors)
        third *= 0.1
        np.hypot(fifth, third, out=third)
        # both estimates may be 0
        np.maximum(third, np.finfo(np.float64).tiny, out=third)
        fifth *= fifth
        fifth /= third
        return float(fifth.max())


class LooseSteps(_Pair, RK45):  # type: ignore[misc]
    """The pair of order 5(4) of Dormand & Prince (1980), for tolerances of 1e-6 and looser.

    There it takes fewer rates than the pair of order 8, and sums of half as many; what its dense
    output, of order 4, is made of is there already. Parameters are those of `ExplicitSteps`.
    """

    ESTIMATES = RK45.E[None]
    RATES = 7

    def _estimate(self, errors: Array) -> float:
        """Return e / n^{1/2}."""
        return math.sqrt(float(np.einsum("ij,ij->i", errors, errors)[0]) / self.n)

    def interpolant(self) -> Array:
        """The coefficients of the dense output of the last step, shape (8, n); overwritten later.

        The rows are y and the rates k_i of y + h Σ_i p_i(x) k_i, with x from 0 to 1 over the step.
        """
        return self._rows

    def interpolation(self, x: Array) -> Array:
        """By what the rows of `interpolant` count at shares x of the step, shape (len(x), 8)."""
        weights = np.ones((len(x), 1 + self.RATES))
        np.matmul(x[:, None] ** _POWERS, self.h_previous * self.P.T, out=weights[:, 1:])
        return weights


# so many terms of the series of φ_3 on [-1, 0] reach rounding
_TERMS = 18
# the order of the error in the step, and the largest ratio of a step to the one before
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
    clipped = np.maximum(z, -1.0)
    phi_3 = np.zeros_like(z)
    for power in range(_TERMS, -1, -1):
        phi_3 = phi_3 * clipped + 1.0 / factorial(power + 3)
    phi_2 = 0.5 + clipped * phi_3
    phi_1 = 1.0 + clipped * phi_2
    far = np.nonzero(z < -1.0)[0]
    phi_1[far] = np.expm1(z[far]) / z[far]
    phi_2[far] = (phi_1[far] - 1.0) / z[far]
    phi_3[far] = (phi_2[far] - 0.5) / z[far]
    return np.exp(z), phi_1, phi_2, phi_3


def _tableau(decay: Array, h: float) -> tuple[Array, Array, list[list[Array]]]:
    """Return the coefficients of Hochbruck & Ostermann (2005, (5.19)), c = 0, 1/2, 1/2, 1, 1/2.

    e^{-λh}, e^{-λh/2}, and h times the weights of the rates in the second stage, in the third to
    the fifth and at the end, those that are not 0.
    """
    full, phi_one, two, three = phi_functions(-h * decay)
    half, half_one, half_two, half_three = phi_functions(-0.5 * h * decay)
    a52 = 0.5 * half_two - three + 0.25 * two - 0.5 * half_three
    a54 = 0.25 * half_two - a52
    stages = (
        (0.5 * half_one,),
        (0.5 * half_one - half_two, half_two),
        (phi_one - 2.0 * two, two),
        (0.5 * half_one - 2.0 * a52 - a54, a52, a54),
        (phi_one - 3.0 * two + 4.0 * three, 4.0 * three - two, 4.0 * two - 8.0 * three),
    )
    return full, half, [[h * weight for weight in stage] for stage in stages]


class ExponentialSteps(_FittedSteps):
    """dy/dt = -λ y + N(t, y) from t to `t_bound` by an exponential Runge-Kutta method of order 4.

    The method has this order for any λ, is exact where N = 0, and does not move where
    N = λ y. Its error is estimated by what changes when the fourth stage, at the end of the step,
    gives way to N at the end itself, which the next step needs anyway: the difference to a method
    of order 3.

    Parameters
    ----------
    rate : Rate
        N(t, y), shape (n,).
    t : float
    y : ndarray, shape (n,)
    t_bound : float
        > t.
    decay : ndarray, shape (n_rates,)
        λ >= 0.
    which : ndarray of int, shape (n,)
        y_j decays at the rate `decay[which[j]]`.
    first_step : float or None
        The first step to try; None for one by the size of N.
    rtol : float
    atol : ndarray, shape (n,)

    Attributes
    ----------
    f : ndarray, shape (n,)
        N at the present state, without the decay.
    middle : ndarray, shape (n,)
        The last stage, halfway through the last step tried.

    Examples
    --------
    >>> steps = ExponentialSteps(lambda t, y: np.ones(1), 0.0, np.zeros(1), 1.0,
    ...                          decay=np.array([1e9]), which=np.zeros(1, int),
    ...                          first_step=1.0, rtol=1e-9, atol=np.ones(1))
    >>> steps.step()
    >>> steps.status, steps.y
    ('finished', array([1.e-09]))
    """

    def __init__(
        self,
        rate: Rate,
        t: float,
        y: Array,
        t_bound: float,
        *,
        decay: Array,
        which: Indices,
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
        self.status = "running"
        self.h_abs = self._first_step() if first_step is None else first_step

    def _first_step(self) -> float:
        """Return a step in which N alone changes y by a hundredth; all the time left if N = 0."""
        size, change = self._norm(self.y, self.y), self._norm(self.f, self.y)
        span = self.t_bound - self.t
        return span if change == 0.0 else min(span, 0.01 * max(size, 1e-5) / change)

    def _norm(self, what: Array, largest: Array) -> float:
        """Return the root mean square of entries over their tolerances.

        Squares of entries do not overflow.
        """
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            ratios = what / (self._atol + self._rtol * np.abs(largest))
            largest_ratio = float(np.abs(ratios).max())
            if largest_ratio == 0.0 or not np.isfinite(largest_ratio):
                return largest_ratio
            ratios /= largest_ratio
            return largest_ratio * float(np.sqrt(np.mean(ratios * ratios)))

    def _try(self, end: float, h: float) -> tuple[float, Array, Array]:
        # a step that leaves double precision was too long, and is rejected
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            full, half, (a2, a3, a4, a5, b) = _tableau(self._decay, h)
            rate, n_1, centre = self._rate, self.f, end - 0.5 * h
            n_2 = rate(centre, self._sum(half, a2, n_1))
            third = rate(centre, self._sum(half, a3, n_1, n_2))
            n_2 += third
            fourth = rate(end, self._sum(full, a4, n_1, n_2))
            self.middle = self._sum(half, a5, n_1, n_2, fourth)
            n_5 = rate(centre, self.middle)
            y = self._sum(full, b, n_1, fourth, n_5)
            f = rate(end, y)
            fourth -= f
            fourth *= b[1][self._which]
            return self._norm(fourth, np.maximum(np.abs(self.y), np.abs(y))), y, f

    def _sum(self, decayed: Array, weights: list[Array], *rates: Array) -> Array:
        """Return Σ of weights times rates, plus `decayed` times y; weights are by decay rate."""
        total = decayed[self._which]
        total *= self.y
        for weight, term in zip(weights, rates, strict=True):
            np.take(weight, self._which, out=self._product, mode="clip")
            self._product *= term
            total += self._product
        return total


class FlowSteps(_FittedSteps):
    """Steps of order 4 by exact flows of a field that stands still (Celledoni et al. 2003).

    The classical Runge-Kutta method without commutators: each stage follows the flow of a mean of
    the fields of those before, the result that of two means for half the step each. What the flow
    knows by itself, such as a rotation, costs no steps. The error is estimated, with order 3, by
    what Simpson's rule for the field over the step differs by from the midpoint rule: an estimate
    of order 4 from stages at one time does not see a field that oscillates between them.

    Parameters
    ----------
    field : callable
        From t and a state to the number that tells the field.
    flow : callable
        From a state, a field and h to the state after the time h.
    t, t_bound : float
        t < t_bound.
    y : ndarray
    first_step : float or None
        The first step to try; None for one by the size of the field.
    tolerance : float
        Of what the field moves in a step.

    Examples
    --------
    >>> steps = FlowSteps(lambda t, y: 1.0, lambda y, field, h: y * np.exp(field * h), 0.0,
    ...                   np.ones(1), 2.0, first_step=2.0, tolerance=1e-9)
    >>> steps.step()
    >>> steps.status, float(steps.y[0] / np.exp(2.0))
    ('finished', 1.0)
    """

    def __init__(
        self,
        field: Callable[[float, Array], complex],
        flow: Callable[[Array, complex, float], Array],
        t: float,
        y: Array,
        t_bound: float,
        *,
        first_step: float | None,
        tolerance: float,
    ) -> None:
        self._field, self._flow, self._tolerance = field, flow, tolerance
        self.t, self.y, self.t_bound = t, y, t_bound
        self._sizes = StepSizes(_ORDER - 1, _MOST)
        self._pull, self.f = field(t, y), np.zeros(0)
        self.status, span = "running", t_bound - t
        self.h_abs = first_step or span / (1.0 + abs(self._pull) * span)

    def _try(self, end: float, h: float) -> tuple[float, Array, Array]:
        field, flow, first, half = self._field, self._flow, self._pull, 0.5 * h
        middle, centre = flow(self.y, first, half), end - half
        second = field(centre, middle)
        third = field(centre, flow(self.y, second, half))
        fourth = field(end, flow(middle, 2.0 * third - first, half))
        middle_rates = 2.0 * (second + third)
        y = flow(self.y, (3.0 * first + middle_rates - fourth) / 6.0, half)
        y = flow(y, (3.0 * fourth + middle_rates - first) / 6.0, half)
        last = field(end, y)
        error = h / 6.0 * abs(first - second - third + last) / self._tolerance
        if error < 1.0:
            self._pull = last
        return error, y, self.f


class EqualSteps(Stepper):
    """Steps of one size, each a map from a state to the next: layers, or a scheme for noise.

    Parameters
    ----------
    advance : callable
        From a state and the size of a step to the state after it, None if there is none.
    y : ndarray
    start, size : float
        Where steps are counted from, and the time that one counts for.
    done, last : int
        The steps taken since `start`, and after which one to end.
    lost : str
        Why there is no next state, where there is none.
    """

    def __init__(
        self,
        advance: Callable[[Array, float], Array | None],
        y: Array,
        start: float,
        size: float,
        done: int,
        last: int,
        lost: str,
    ) -> None:
        self._advance, self.y, self.f = advance, y, np.zeros_like(y)
        self._start, self._done, self._last, self._lost = start, done, last, lost
        self.t, self.t_bound, self.h_abs = start + done * size, start + last * size, size
        self.status = "running"

    def step(self) -> str | None:
        """Take one step; why it failed, if it did."""
        after = self._advance(self.y, self.h_abs)
        if after is None:
            self.status = "failed"
            return self._lost
        self._done += 1
        self.y_old, self.y = self.y, after
        self.t_old, self.t = self.t, self._start + self._done * self.h_abs
        if self._done == self._last:
            self.status = "finished"
        return None
