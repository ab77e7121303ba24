"""Weights in time: cubic splines in place of numbers and matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from meanfield._checks import (
    Record,
    freeze,
    key,
    number,
    read_only,
    real_array,
    shown,
    tell_apart,
    time_tolerance,
)
from meanfield.typing import Array, ArrayLike

# control points are those of so many parts of each piece, which lie close to it
_PARTS = 8


@dataclass(frozen=True, eq=False)
class Schedule(Record):
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

    def __repr__(self) -> str:
        first, last = self._span
        of = f"shape {self.shape}" if self.shape else "values in [{:g}, {:g}]".format(*self.extrema)
        return f"Schedule({len(np.asarray(self.times))} times in [{first:g}, {last:g}], {of})"

    def __neg__(self) -> Schedule:
        """The schedule of the values with the other sign."""
        return Schedule(self.times, -np.asarray(self.values))

    @property
    def shape(self) -> tuple[int, ...]:
        """That of a value: () of a number."""
        return np.shape(self.values)[1:]

    @property
    def ndim(self) -> int:
        """The number of axes of a value."""
        return len(self.shape)

    @cached_property
    def _spline(self) -> Any:
        from scipy.interpolate import CubicSpline

        return CubicSpline(self.times, self.values)

    @property
    def _span(self) -> tuple[float, float]:
        times = np.asarray(self.times)
        return float(times[0]), float(times[-1])

    def _inside(self, t: float) -> float:
        """The time, at an end where rounding took it beyond.

        Raises
        ------
        ValueError
            If it is outside.
        """
        (first, last), t = self._span, number("t", t)
        slack = time_tolerance(self.times) * max(abs(first), abs(last))
        if not first - slack <= t <= last + slack:
            got = tell_apart(t, first if t < first else last)[0]
            raise ValueError(f"t must be in [{first:g}, {last:g}], the times of {self}, got {got}")
        return min(max(t, first), last)

    def __call__(self, t: float) -> Any:
        """The value at a time, a number or an array of `shape`.

        Raises
        ------
        ValueError
            If t is not within the times.
        """
        return self._of(self._spline(self._inside(t)))

    def derivative(self, t: float) -> Any:
        """d/dt of the value at a time.

        Raises
        ------
        ValueError
            If t is not within the times.
        """
        return self._of(self._spline(self._inside(t), 1))

    def _of(self, value: Array) -> Any:
        return value if self.shape else float(value)

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
        at = np.concatenate([np.asarray(self.values), self._spline(inside)])
        return float(at.min()), float(at.max())

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
        value, slope = self._spline(fine), self._spline(fine, 1)
        inner = value[:-1] + third * slope[:-1], value[1:] - third * slope[1:]
        points = np.concatenate([value, *inner])
        order = 2 if self.ndim == 2 else None
        return max(float(np.linalg.norm(point, order)) for point in points)


def in_time(note: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a field that may be a schedule."""
    return note | {"about": f"{note['about']}; or a table, a Schedule", "varies": True}


def schedules(thing: Any) -> Iterator[Schedule]:
    """The schedules in a dynamics or a head, or in a sequence of them.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> list(schedules(SA(1.0)))
    []
    """
    if isinstance(thing, Schedule):
        yield thing
    elif isinstance(thing, tuple):
        for part in thing:
            yield from schedules(part)
    elif is_dataclass(thing):
        for each in fields(thing):
            yield from schedules(getattr(thing, each.name, None))


def at_time(thing: Any, t: float) -> Any:
    """The same with the values that its schedules have at a time; itself where it has none.

    Raises
    ------
    ValueError
        If a schedule does not know the time.
    """
    if isinstance(thing, Schedule):
        return thing(t)
    if isinstance(thing, tuple):
        return tuple(at_time(part, t) for part in thing)
    if not is_dataclass(thing) or next(schedules(thing), None) is None:
        return thing
    values = {f.name: at_time(getattr(thing, f.name), t) for f in fields(thing) if f.init}
    then = replace(thing, **values)  # type: ignore[type-var]
    # where a spline passes through 0 its rounding is that of its larger values
    freeze(then, _size=max(schedule.largest for schedule in schedules(thing)))
    return then


def slope_of(weight: Any, t: float) -> Any:
    """d/dt of what may be a schedule: 0 of a number or a matrix."""
    return weight.derivative(t) if isinstance(weight, Schedule) else np.zeros(np.shape(weight))


def largest_of(weight: Any) -> float:
    """A bound of |weight| at all times, of a matrix of its spectral norm."""
    if isinstance(weight, Schedule):
        return weight.largest
    return float(np.linalg.norm(np.atleast_2d(weight), 2))


def coefficient(name: str, value: Any, *, high: float = np.inf) -> Any:
    """A number >= 0; or a schedule of numbers that are > 0 at all of its times, or constant.

    Raises
    ------
    ValueError
        If it is neither, or beyond `high`.
    """
    if not isinstance(value, Schedule):
        return number(name, value, low=0, high=high)
    if value.shape:
        raise ValueError(f"{name} must be a Schedule of numbers, got {value}")
    least, largest = value.extrema
    if not (least > 0.0 or least == largest == 0.0) or largest > high:
        limit = "" if np.isinf(high) else f" and <= {high:g}"
        raise ValueError(
            f"{name} must be a Schedule whose spline is > 0{limit} at all of its times, or constant"
            f", got {value}"
        )
    return value


def refuse_schedules(name: str, things: Sequence[Any], why: str) -> None:
    """Refuse what varies in time where nothing may.

    Raises
    ------
    ValueError
        Naming it, and why.
    """
    for thing in things:
        if (found := next(schedules(thing), None)) is not None:
            raise ValueError(f"{name} must not vary in time, since {why}, got {found}")
