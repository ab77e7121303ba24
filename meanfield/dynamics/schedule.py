"""Weights in time: splines, or functions of t, in place of numbers and matrices."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from meanfield import _checks
from meanfield._checks import freeze, number, read_only, real_array, shown
from meanfield._records import Record, key
from meanfield.typing import Array, ArrayLike, Listed

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

_Thing = TypeVar("_Thing")

# a piece is cut into so many parts, whose control points lie close to the curve
_PARTS = 8
# a function is asked for at least and at most so many values; its series may miss this share of its
# size
_FIRST, _MOST, _CLOSE = 64, 4096, 1e-13
# a function is compared with its series at so many times, to this share of its size
_COMPARED, _ALIKE = 1000, 1e-10
# bounds of a series take so many values for each of its terms, for numbers and for arrays
_FINE, _COARSE = 512, 8


class TimeDependent(Record, Listed, ABC):
    """A number, vector or matrix that varies in time.

    Attributes
    ----------
    times : array_like
        Between the first and the last it is known; steps of a run end at each.
    shape : tuple of int
        The shape of a value; () if it is a number.
    _degree : int
        The degree of the polynomials between its times.
    """

    _for_rooms = "degree", "map_linear", "on_interval"

    times: ArrayLike
    degree: int
    # the derivative of order 0 or 1 at a time within the times
    _evaluate: Callable[[float, int], Array]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of a value: () of a number."""

    def __call__(self, t: float) -> float | Array:
        """The value at a time, a number or an array of `shape`.

        Raises
        ------
        ValueError
            If t is not within the times.
        """
        return self._single(self._evaluate(self._inside(t), 0))

    def derivative(self, t: float) -> float | Array:
        """d/dt of the value at a time.

        Raises
        ------
        ValueError
            If t is not within the times.
        """
        return self._single(self._evaluate(self._inside(t), 1))

    @property
    @abstractmethod
    def extrema(self) -> tuple[float, float]:
        """The least and the largest value, of numbers."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """A bound of |value| at all times, of matrices of the spectral norm."""

    @abstractmethod
    def map_linear(self, change: Callable[[Array], Array]) -> TimeDependent:
        """The result of a linear map, which takes values along the last axes."""

    def on_interval(self, start: float, end: float) -> TimeDependent:  # noqa: ARG002
        """The same for a run from one time to another: this one."""
        return self

    @property
    def ndim(self) -> int:
        """The number of axes of a value."""
        return len(self.shape)

    def __neg__(self) -> TimeDependent:
        """The same of the values with the other sign."""
        return self.map_linear(np.negative)

    def _inside(self, t: float) -> float:
        """Return the time, moved to an end of the schedule if rounding took it beyond.

        Raises
        ------
        ValueError
            If it is outside.
        """
        times, t = np.asarray(self.times), number("t", t)
        start, end = float(times[0]), float(times[-1])
        slack = _checks.time_tolerance(self.times) * max(abs(start), abs(end))
        if not start - slack <= t <= end + slack:
            text = _checks.tell_apart(t, start if t < start else end)[0]
            raise ValueError(f"t must be in [{start:g}, {end:g}], the times of {self}, got {text}")
        return min(max(t, start), end)

    def _single(self, value: Array) -> float | Array:
        """Return an array as it is, and a single value as a float."""
        return value if self.shape else float(value)


@dataclass(frozen=True, eq=False)
class Schedule(TimeDependent):
    """A number, vector or matrix that varies in time: the cubic spline through values at times.

    It stands in place of β, of any matrix of a `Head`, of W, A or b of a `FeedForward`, and of the
    weights of a `Sum`. The spline has two continuous derivatives and no knot at the second and the
    last but one time (`scipy.interpolate.CubicSpline`); through two values it is a line, through
    three a parabola. The steps of a run end at its times.

    Parameters
    ----------
    times : array_like, shape (k,)
        At least two, strictly ascending. It is not defined outside them.
    values : array_like, shape (k,), (k, m) or (k, m, n)
        The values at these times: numbers, vectors or matrices.

    Attributes
    ----------
    knots : ndarray, shape (k,)
    shape : tuple of int
        The shape of a value: () for a number.

    Raises
    ------
    ValueError
        If times do not ascend, or there is not one finite value for each.

    Examples
    --------
    >>> import meanfield as mf
    >>> beta = mf.Schedule([0.0, 1.0, 2.0], [1.0, 2.0, 5.0])
    >>> round(beta(0.5), 12), round(beta.derivative(2.0), 12)
    (1.25, 4.0)
    >>> mf.SA(beta)
    SA(beta=Schedule(3 times in [0, 2], values in [1, 5]), sign=1, noise=0.0)
    """

    times: ArrayLike = field(metadata=key("the times, ascending, at least two", list[float]))
    values: ArrayLike = field(
        metadata=key(
            "the values at these times, a list of numbers, of lists or of matrices",
            list[float] | list[list[float]] | list[list[list[float]]],
        )
    )

    def __post_init__(self) -> None:
        times, values = real_array("times", self.times, 1), real_array("values", self.values, None)
        if len(times) < 2 or (np.diff(times) <= 0.0).any():
            raise ValueError(
                f"times must be at least two and strictly ascending, got {shown(self.times)}"
            )
        if not 1 <= values.ndim <= 3 or len(values) != len(times):
            raise ValueError(
                f"values must be numbers, vectors or matrices, one for each of {len(times)} times, "
                f"got shape {values.shape}"
            )
        freeze(self, times=read_only(times), values=read_only(values))

    degree = 3

    def __repr__(self) -> str:
        start, *_, end = np.asarray(self.times)
        of = f"shape {self.shape}" if self.shape else "values in [{:g}, {:g}]".format(*self.extrema)
        return f"Schedule({len(np.asarray(self.times))} times in [{start:g}, {end:g}], {of})"

    def map_linear(self, change: Callable[[Array], Array]) -> Schedule:
        """The schedule of what a linear map, along the last axes, makes of the values."""
        return Schedule(self.times, change(np.asarray(self.values)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a value: () of a number."""
        return np.shape(self.values)[1:]

    @cached_property
    def _spline(self) -> CubicSpline:
        from scipy.interpolate import CubicSpline

        return CubicSpline(self.times, self.values)

    def _evaluate(self, t: float, order: int) -> Array:
        return np.asarray(self._spline(t, order))

    @cached_property
    def extrema(self) -> tuple[float, float]:
        """The least and the largest value of a spline of numbers over all of its times.

        Raises
        ------
        ValueError
            If its values are no numbers.
        """
        if self.shape:
            raise ValueError(f"values must be numbers to have extrema, got {self}")
        stationary = self._spline.derivative().roots(discontinuity=False, extrapolate=False)
        inside = stationary[np.isfinite(stationary)]
        values_at = np.concatenate([np.asarray(self.values), self._spline(inside)])
        return float(values_at.min()), float(values_at.max())

    @cached_property
    def largest(self) -> float:
        """A bound of |value| over all of its times, of matrices of the spectral norm.

        A piece of the spline lies in the convex hull of its Bernstein control points, so no value
        is larger than the largest of these. Of numbers it is the largest |value| itself.
        """
        if not self.shape:
            return max(map(abs, self.extrema))
        shares = np.arange(_PARTS) / _PARTS
        times = np.asarray(self.times)
        steps = np.diff(times)
        fine = np.append((times[:-1, None] + steps[:, None] * shares).ravel(), times[-1])
        third = np.diff(fine).reshape(-1, *(1 for _ in self.shape)) / 3.0
        value, change = self._spline(fine), self._spline(fine, 1)
        controls = value[:-1] + third * change[:-1], value[1:] - third * change[1:]
        points = np.concatenate([value, *controls])
        order = 2 if self.ndim == 2 else None
        return max(float(np.linalg.norm(point, order)) for point in points)


def _words(shape: tuple[int, ...]) -> str:
    """Describe a function in words, without its address, which differs between runs."""
    return "a function of t" + (f" of shape {shape}" if shape else "")


@dataclass(frozen=True, eq=False)
class FunctionOfTime(TimeDependent):
    """A number, vector or matrix that a function of t returns; no file keeps it.

    A run takes its Chebyshev series on the times of the run.

    Parameters
    ----------
    function : callable
        Of a float t; a value at t = 0, finite or not, tells its shape.

    Raises
    ------
    ValueError
        If its value at t = 0 is no number, vector or matrix of numbers.
    """

    function: Callable[[float], ArrayLike]

    # the times and bounds of a function are known once a run has sampled it
    times = (0.0, np.inf)
    degree = 0
    extrema = np.nan, np.nan
    largest = np.nan

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            value = _checks.unmasked(f"a function of t, {shown(self.function)},", self._asked(0.0))
        if value.dtype.kind not in "iuf" or value.ndim > 2 or value.size == 0:
            raise ValueError(
                f"a function of t must return a number, vector or matrix, got {shown(value)} at "
                f"t = 0 of {shown(self.function)}"
            )
        freeze(self, _shape=value.shape)

    def __repr__(self) -> str:
        return _words(self.shape)

    def _asked(self, t: float) -> ArrayLike:
        # 1/t at a numpy 0 is infinite, at a Python 0 an exception
        return self.function(np.float64(t))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a value: () of a number."""
        return self._shape  # type: ignore[attr-defined, no-any-return]

    def __call__(self, t: float) -> float | Array:
        """The value at a time, a number or an array of `shape`.

        Raises
        ------
        ValueError
            If it is not finite, or of another shape.
        """
        name = f"a function of t, {shown(self.function)} at t = {t:g},"
        with np.errstate(all="ignore"):
            value = real_array(name, self._asked(t), None)
        if value.shape != self.shape:
            raise ValueError(f"{name} must be of shape {self.shape}, got {value.shape}")
        return self._single(value)

    def derivative(self, t: float) -> float | Array:
        """Refuse.

        Raises
        ------
        TypeError
            Always: a series has one.
        """
        raise TypeError(f"{self} has a derivative on the times of a run only, got t = {t:g}")

    def map_linear(self, change: Callable[[Array], Array]) -> FunctionOfTime:
        """The function whose values are what a linear map makes of these."""
        return FunctionOfTime(lambda t: change(np.asarray(self(t))))

    def on_interval(self, start: float, end: float) -> ChebyshevSeries:
        """Its series on the times of a run, which misses it by 1e-13 of its largest value.

        The values at 64, 128, 256, … Chebyshev points are asked for, until the second half of the
        coefficients, which the first half of the points did not tell, is rounding, and the series
        is the function at 1000 other times. A pulse that is narrower than a thousandth of the run
        may lie between all of them.

        Raises
        ------
        ValueError
            If 4096 values do not tell it, as of what is not smooth, or one is not finite.
        """
        from scipy.fft import dct

        count = _FIRST
        while count <= _MOST:
            points = np.cos(np.pi * np.arange(count + 1) / count)
            times = np.clip(0.5 * ((end + start) + (end - start) * points), start, end)
            values = np.array([self(t) for t in times])
            coefficients = dct(values, type=1, axis=0) / count
            coefficients[[0, -1]] *= 0.5
            sizes = np.abs(coefficients).reshape(count + 1, -1).max(axis=1)
            size, noise = np.abs(values).max(), sizes[count // 2 :].max()
            if noise <= _CLOSE * size:
                significant = np.flatnonzero(sizes > max(noise, np.finfo(float).eps * size))
                leading = coefficients[: significant.max(initial=0) + 1]
                series = ChebyshevSeries(read_only(leading), (start, end))
                if self._is_near(series, _ALIKE * size):
                    return series
            count *= 2
        raise ValueError(
            f"a function of t must be smooth on the times of the run, [{start:g}, {end:g}], where "
            f"{_MOST} values tell it to {_CLOSE:g} only if it is, got {shown(self.function)}: take "
            f"mf.Schedule, whose times may be those of its kinks, or mf.Layers for jumps"
        )

    def _is_near(self, series: ChebyshevSeries, gap: float) -> bool:
        """Whether a series agrees with the function between the points where it was sampled."""
        start, end = series.times
        # multiples of the golden ratio modulo 1 are spread evenly, and are no Chebyshev points
        shares = np.modf(0.5 * (np.sqrt(5.0) - 1.0) * np.arange(1, _COMPARED + 1))[0]
        times = start + (end - start) * shares
        return all(np.abs(np.asarray(self(t)) - series(t)).max() <= gap for t in times)


@dataclass(frozen=True, eq=False)
class ChebyshevSeries(TimeDependent):
    """The Chebyshev series Σ c_k T_k of a function of t, on the times of a run.

    Parameters
    ----------
    coefficients : ndarray, shape (k, ...)
    times : (float, float)
        The first and the last, where T_k(-1) and T_k(1) are taken.
    """

    coefficients: Array
    times: tuple[float, float]

    def __repr__(self) -> str:
        return _words(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a value: () of a number."""
        return self.coefficients.shape[1:]

    @property
    def degree(self) -> int:  # type: ignore[override]
        """The degree of the series."""
        return len(self.coefficients) - 1

    def _evaluate(self, t: float, order: int) -> Array:
        """Return Σ c_k T_k at a time, T_k(cos θ) = cos kθ."""
        (start, end), coefficients = self.times, self._of_derivative if order else self.coefficients
        angle = np.arccos(np.clip((2.0 * t - start - end) / (end - start), -1.0, 1.0))
        waves = np.cos(np.arange(len(coefficients)) * angle)
        return np.asarray(np.tensordot(waves, coefficients, 1))

    @cached_property
    def _of_derivative(self) -> Array:
        """Return the Chebyshev coefficients of the derivative."""
        start, end = self.times
        slopes = np.polynomial.chebyshev.chebder(self.coefficients, scl=2.0 / (end - start))
        return np.asarray(slopes, dtype=np.float64)

    def _values(self, parts: int) -> tuple[Array, float]:
        """Return values at m = parts · degree Chebyshev points.

        With them comes a factor by which they bound all other values.

        A polynomial of degree n is at most 1/cos(πn/2m) times its largest |value| at them (Ehlich
        and Zeller, 1964), and so is each entry of u·Pv: a spectral norm, too.
        """
        from scipy.fft import dct

        count = parts * max(self.degree, 1)
        padded = np.zeros((count + 1, *self.shape))
        padded[: self.degree + 1] = 0.5 * self.coefficients
        padded[0] *= 2.0
        return dct(padded, type=1, axis=0), 1.0 / float(np.cos(0.5 * np.pi / parts))

    @cached_property
    def extrema(self) -> tuple[float, float]:
        """The least and the largest value of numbers, to 5e-6 of their difference."""
        values, _ = self._values(_FINE)
        return float(values.min()), float(values.max())

    @cached_property
    def largest(self) -> float:
        """A bound of |value| over all times, of matrices of the spectral norm."""
        values, factor = self._values(_COARSE if self.shape else _FINE)
        order = 2 if self.ndim == 2 else None
        return factor * max(float(np.linalg.norm(np.atleast_1d(value), order)) for value in values)

    def map_linear(self, change: Callable[[Array], Array]) -> ChebyshevSeries:
        """The series of what a linear map makes of the values."""
        return ChebyshevSeries(change(self.coefficients), self.times)


def varying(name: str, value: object) -> TimeDependent | None:
    """The value as one that varies in time, also a function of t; None if it is anything else.

    Raises
    ------
    ValueError
        If it is a function that can't be called with t alone, or returns no numbers.
    """
    if isinstance(value, TimeDependent):
        return value
    if not callable(value) or isinstance(value, type):
        return None
    try:
        # some functions written in C have no signature
        with suppress(ValueError):
            signature(value).bind(0.0)
    except TypeError as error:
        raise ValueError(f"{name} must be a function of t, got {shown(value)}: {error}") from error
    return FunctionOfTime(value)


def in_time(note: dict[str, object]) -> dict[str, object]:
    """The metadata of a field that may be a schedule."""
    return note | {"about": f"{note['about']}; or a table, a Schedule", "varies": True}


def walk_fields(thing: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """A dynamics or a head, and all that it is made of, each with the name of its field.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> list(walk_fields(SA(1.0)))[1:]
    [('beta', 1.0), ('sign', 1), ('noise', 0.0), ('mask', None)]
    """
    yield name, thing
    if isinstance(thing, tuple):
        for part in thing:
            yield from walk_fields(part, name)
    elif is_dataclass(thing) and not isinstance(thing, TimeDependent):
        for f in fields(thing):
            yield from walk_fields(getattr(thing, f.name, None), f.name)


def schedules(thing: object) -> Iterator[TimeDependent]:
    """The values that vary in time of a dynamics or a head, or of a sequence of them.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> list(schedules(SA(1.0)))
    []
    """
    return (part for _, part in walk_fields(thing) if isinstance(part, TimeDependent))


def _with(thing: object, change: Callable[[TimeDependent], object]) -> Any:
    """Return a thing with each part that varies in time replaced; itself if no part is replaced."""
    if isinstance(thing, TimeDependent):
        return change(thing)
    if isinstance(thing, tuple):
        entries = tuple(_with(part, change) for part in thing)
        return thing if all(map(operator.is_, entries, thing)) else entries
    if not is_dataclass(thing) or next(schedules(thing), None) is None:
        return thing
    arguments = {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}
    values = {name: _with(value, change) for name, value in arguments.items()}
    is_same = all(map(operator.is_, values.values(), arguments.values()))
    return thing if is_same else replace(thing, **values)  # type: ignore[type-var]


def within(thing: object, start: float, end: float) -> Any:
    """The same with functions of t as a run from one time to another has them.

    Raises
    ------
    ValueError
        If a function is not smooth or finite there, or its values are out of range.
    """
    return _with(thing, lambda each: each.on_interval(start, end))


def at_time(thing: _Thing, t: float) -> _Thing:
    """The same with the values at a time of what varies in it; itself where nothing does.

    Raises
    ------
    ValueError
        If what varies does not know the time.
    """
    thing_at_t: _Thing = _with(thing, lambda each: each(t))
    if is_dataclass(thing_at_t) and thing_at_t is not thing:
        # a spline near 0 has rounding errors of the size of its largest values
        sizes = [0.0, *(each.largest for each in schedules(thing))]
        freeze(thing_at_t, rounding_size=float(np.nanmax(sizes)))
    return thing_at_t


def derivative_of(weight: object, t: float) -> Array:
    """d/dt of what may be a schedule: 0 of a number or a matrix."""
    if isinstance(weight, TimeDependent):
        return np.asarray(weight.derivative(t))
    return np.zeros(np.asarray(weight).shape)


def opposite_of(weight: Any) -> Any:
    """The number, the matrix or the schedule with the other sign."""
    return -weight


def largest_of(weight: ArrayLike | TimeDependent) -> float:
    """A bound of |weight| at all times, of a matrix of its spectral norm."""
    if isinstance(weight, TimeDependent):
        return weight.largest
    return float(np.linalg.norm(np.atleast_2d(weight), 2))


def coefficient(name: str, value: object, *, high: float = np.inf) -> float | TimeDependent:
    """A number >= 0; or what varies and is > 0 at all of its times, or constant.

    Raises
    ------
    ValueError
        If it is neither, or beyond `high`.
    """
    if (weight := varying(name, value)) is None:
        return number(name, value, low=0, high=high)
    if weight.shape:
        raise ValueError(f"{name} must be a Schedule or a function of numbers, got {weight}")
    least, largest = weight.extrema
    # the bounds of a function are nan until a run has sampled it
    if (least <= 0.0 and not least == largest == 0.0) or largest > high:
        limit = "" if np.isinf(high) else f" and <= {high:g}"
        raise ValueError(
            f"{name} must be a Schedule or a function that is > 0{limit} at all of its times, or "
            f"constant, got {weight} in [{least:g}, {largest:g}]"
        )
    return weight


def refuse_schedules(name: str, things: Sequence[object], why: str) -> None:
    """Refuse what varies in time where nothing may.

    Raises
    ------
    ValueError
        Naming it, and why.
    """
    for thing in things:
        if (schedule := next(schedules(thing), None)) is not None:
            raise ValueError(f"{name} must not vary in time, since {why}, got {schedule}")
