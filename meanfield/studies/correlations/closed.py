"""Closed pair equations followed in time, on spaces that double as f sharpens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.harmonics import bandwidth
from meanfield.spaces import Circle
from meanfield.studies.correlations.equation import PairEquation

Array = NDArray[np.float64]

# of each of a thousand coefficients, whose errors may add up in f
RTOL, ATOL = 1e-12, 1e-14
# of coefficients of which that of degree 0 is 1; rounding in 8192 values of f stays below it
TAIL_TOL = 1e-11
FIRST_SIZE, LAST_SIZE = 128, 1 << 13
# |E cos kx| <= 1, but for rounding
_LARGEST = 1.0 + 1e-9


@dataclass(frozen=True)
class Closed:
    """What a closed equation gives at the times that it reached.

    Attributes
    ----------
    status : str
        'finished', 'under-resolved', 'impossible' or 'failed'.
    modes : ndarray, shape (times, kmax)
        E cos kx, k = 1 … kmax; nan where it did not arrive.
    psi : ndarray, shape (times, places)
        With respect to dx.
    least : ndarray, shape (times,)
        The least ψ on the grid.
    tail : ndarray, shape (times,)
        The largest coefficient of the last tenth of the spectrum.
    """

    status: str
    modes: Array
    psi: Array
    least: Array
    tail: Array


def solved(
    closure: str, beta: float, n: int, times: Array, kmax: int, places: Array, last: int = LAST_SIZE
) -> Closed:
    """Follow one closure from ψ = 1/2π, (8.1).

    Steps are those of DOP853, and end at each time. A step that leaves more than `TAIL_TOL` in the
    last tenth of the spectrum is taken again on twice the modes, up to `last` of them; past that
    the run is under-resolved. It ends as impossible where some |E cos kx| > 1, which no law has.
    """
    run = _Run(closure, beta, n, _first_size(beta, kmax))
    rows: list[tuple[Array, Array, float, float]] = []
    status = "finished"
    for time in times:
        status = run.to(float(time), last)
        if status != "finished":
            break
        rows.append(_seen(run.space, run.c, kmax, places))
    shapes = (kmax,), places.shape, (), ()
    blank = tuple(np.full(shape, np.nan) for shape in shapes)
    columns = zip(*(rows + [blank] * (len(times) - len(rows))), strict=True)
    return Closed(status, *(np.array(column) for column in columns))


def _first_size(beta: float, kmax: int) -> int:
    size = FIRST_SIZE
    while size < 2 * (max(bandwidth(beta, 2), kmax) + 1):
        size *= 2
    return size


def _seen(space: Circle, c: Array, kmax: int, places: Array) -> tuple[Array, Array, float, float]:
    points = np.column_stack([np.cos(places), np.sin(places)])
    psi = space.at(c, points) / (2.0 * np.pi)
    return c[1 : kmax + 1], psi, float(space.synthesis(c).min()) / (2.0 * np.pi), _tail(c)


def _tail(c: Array) -> float:
    return float(np.abs(c[-(len(c) // 10) :]).max())


class _Run:
    """The state of a closed equation: a time, coefficients, and the space of these."""

    def __init__(self, closure: str, beta: float, n: int, size: int) -> None:
        self._given, self.t = (closure, beta, n), 0.0
        self._step: float | None = None
        self.space = Circle(size)
        self.c = np.eye(1, self.space.kmax + 1)[0]

    def to(self, time: float, last: int) -> str:
        """Go on to a time; how that ended."""
        while self.t < time:
            status = self._on_this_space(time)
            if status == "coarse" and self.space.size < last:
                finer = self.space.doubled()
                self.c, self.space = self.space.embed(self.c, finer).real, finer
            elif status != "finished":
                return "under-resolved" if status == "coarse" else status
        return "finished"

    def _on_this_space(self, time: float) -> str:
        equation = PairEquation(*self._given, self.space)
        first = None if self._step is None else min(self._step, time - self.t)
        solver = DOP853(equation, self.t, self.c, time, rtol=RTOL, atol=ATOL, first_step=first)
        while solver.status == "running":
            if not np.isfinite(solver.h_abs):
                return "failed"
            with np.errstate(over="ignore", invalid="ignore"):
                solver.step()
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                return "failed"
            if _tail(solver.y) > TAIL_TOL:
                return "coarse"
            self.t, self.c, self._step = float(solver.t), solver.y, float(solver.h_abs)
            if np.abs(self.c).max() > _LARGEST:
                return "impossible"
        return "finished"
