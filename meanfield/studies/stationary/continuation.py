"""Branches of stationary states by pseudo-arclength, through folds, with events on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from meanfield.studies.stationary.equation import Equation, Grid

Array = NDArray[np.float64]

# steps of arclength: the largest, and the least before a branch is given up
_LARGEST, _LEAST = 0.04, 1e-9
# cosine between neighbouring tangents: below, the step is halved; above, it grows
_BENT, _STRAIGHT = 0.97, 0.995
# first amplitudes b_k of a branch
_FIRST, _SMALLEST = 2e-2, 1e-4
# all moments below it: not on a branch
_UNIFORM = 1e-7
_MOST_NODES = 2048
_MOST_POINTS = 5000
# a Newton step this small is the last; the next would be its square times a curvature of up to 1e5
_CONVERGED, _ITERATIONS = 1e-11, 12
# but where rounding is all that is left
_STAGNANT = 1e-6
# the residual of a resolved state, beside so many times what log f loses by rounding
_RESOLVED, _ROUNDING = 1e-13, 10.0
COMPLETE, UNDER_RESOLVED, CUT_SHORT = "complete", "under-resolved", "cut short"


@dataclass(frozen=True)
class Point:
    """A stationary state: moments b, log ρ, unit tangent in y, and nodes that resolve it.

    y = (sqrt(κ_k) ∫ P_k dmu, log ρ), in which arclength is measured too; `residual` is that on
    twice the nodes.
    """

    b: Array
    log_rho: float
    tangent: Array
    nodes: int
    arclength: float = 0.0
    residual: float = 0.0
    event: str = ""

    @property
    def rho(self) -> float:
        """τ_1/τ."""
        return float(np.exp(self.log_rho))


@dataclass
class Branch:
    """States in the order of arclength, and how the branch ended."""

    points: list[Point] = field(default_factory=list)
    status: str = COMPLETE

    def at(self, event: str) -> list[Point]:
        """The points at which this was found."""
        return [point for point in self.points if point.event == event]


class _Failed(ArithmeticError):
    """Newton's method found no state: the step was too large."""


class _Unresolved(ArithmeticError):
    """A state needs more nodes than there may be."""


def follow(
    equation: Equation,
    degree: int,
    direction: int,
    last: float,
    events: Mapping[str, Callable[[Point], float]],
) -> Branch:
    """The branch that leaves the uniform state at ρ κ_k = 1, until log ρ rises past `last`.

    Parameters
    ----------
    equation : Equation
    degree : int
        k, a multiple of the equation's step.
    direction : int
        Sign of the first moment of degree k.
    last : float
        log ρ at which to stop.
    events : mapping
        Functions of a point whose zeros along the branch are points of their own, under the name.

    Returns
    -------
    Branch
    """
    branch = Branch()
    events = {"end": lambda point: point.log_rho - last, **events}
    point = _first(equation, degree, direction, last)
    branch.points.append(point)
    step = min(_LARGEST, 0.5 * point.arclength)
    # it may have no room before the end
    branch.status = COMPLETE if point.log_rho >= last else CUT_SHORT
    while branch.status == CUT_SHORT and len(branch.points) < _MOST_POINTS:
        try:
            following = _moved(equation, point, step)
            found = _found(equation, point, step, following, events)
        except _Unresolved:
            branch.status = UNDER_RESOLVED
            return branch
        except _Failed:
            following = None
        straight = -1.0 if following is None else float(following.tangent @ point.tangent)
        if following is None or straight < _BENT:
            step *= 0.5
            if step < _LEAST:
                return branch
            continue
        branch.points += found
        if branch.points[-1].event != "end":
            branch.points.append(following)
        point = branch.points[-1]
        step = min(_LARGEST, step * (1.5 if straight > _STRAIGHT else 1.0))
        branch.status = COMPLETE if point.event == "end" else CUT_SHORT
    return branch


def fold(point: Point) -> float:
    """0 where τ turns: the last entry of the tangent."""
    return float(point.tangent[-1])


def _found(
    equation: Equation,
    point: Point,
    step: float,
    following: Point,
    events: Mapping[str, Callable[[Point], float]],
) -> list[Point]:
    """Events between two points, in their order; nothing after the end."""
    found = []
    point = replace(point, nodes=following.nodes)
    for name, function in events.items():
        before, after = function(point), function(following)
        if before * after < 0.0 and not (name == "end" and after < 0.0):
            share = brentq(
                lambda s, f=function: f(_moved(equation, point, s)), 0.0, step, xtol=1e-15
            )
            found.append(replace(_moved(equation, point, share), event=name))
    found.sort(key=lambda event: event.arclength)
    names = [event.event for event in found]
    return found[: names.index("end") + 1] if "end" in names else found


def _first(equation: Equation, degree: int, direction: int, last: float) -> Point:
    """The first state, nearer to the uniform one than any fold and than the end."""
    index = degree // equation.step - 1
    start = -float(np.log(equation.kappa[index]))
    amplitude = _FIRST
    while True:
        sizes = amplitude, amplitude / 4
        try:
            near, nearer = (
                _with_amplitude(equation, index, direction * size, start) for size in sizes
            )
        except _Failed:
            if amplitude < _SMALLEST**1.5:
                raise
        else:
            # the way of τ from the bifurcation point must be the same from the first
            ways = [near.log_rho - start, nearer.log_rho - start, near.tangent[-1]]
            plain = np.min(ways) > 0.0 or np.max(ways) < 0.0 or amplitude < _SMALLEST
            if (plain and near.log_rho < last) or amplitude < _SMALLEST**1.5:
                return near
        amplitude /= 4


def _with_amplitude(equation: Equation, index: int, amplitude: float, start: float) -> Point:
    """The state with a given moment b_k near the bifurcation point."""
    row = np.eye(1, len(equation.degrees) + 1, index)[0]
    y = row * amplitude / equation.scales[index]
    y[-1] = start
    # a multiple of 3: the grid of a `Zonal` space
    nodes = 3 * (2 * equation.kmax // 3 + 2)
    y = _newton(equation, y, row, nodes)
    size = abs(amplitude) / equation.scales[index]
    away = row * np.sign(amplitude)
    return _resolved(equation, y, row, away, nodes, size)


def _moved(equation: Equation, point: Point, step: float) -> Point:
    """The state one step of arclength further, in the plane across the tangent."""
    y = np.append(point.b / equation.scales, point.log_rho) + step * point.tangent
    y = _newton(equation, y, point.tangent, point.nodes)
    if np.max(np.abs(y[:-1])) < _UNIFORM:
        raise _Failed(f"Newton's method falls back to the uniform state at log ρ = {y[-1]:g}")
    arclength = point.arclength + step
    return _resolved(equation, y, point.tangent, point.tangent, point.nodes, arclength)


def at_noise(equation: Equation, point: Point, log_rho: float) -> Point:
    """The state near a point with exactly this noise."""
    row = np.eye(1, len(point.b) + 1, len(point.b))[0]
    y = np.append(point.b / equation.scales, log_rho)
    y = _newton(equation, y, row, point.nodes)
    return _resolved(equation, y, row, point.tangent, point.nodes, point.arclength)


def _newton(equation: Equation, y: Array, row: Array, nodes: int) -> Array:
    """Newton's method in y across `row`, from y."""
    target, before = float(row @ y), np.inf
    for _ in range(_ITERATIONS):
        matrix, residual = _bordered(equation, y, row, nodes)
        residual[-1] = row @ y - target
        try:
            change = np.linalg.solve(matrix, residual)
        except np.linalg.LinAlgError:
            break
        size = float(np.max(np.abs(change)))
        if not size < 1.0:
            break
        y = y - change
        if size < _CONVERGED or 0.3 * before < size < _STAGNANT:
            return y
        before = size
    raise _Failed(f"Newton's method does not converge at log ρ = {y[-1]:g}")


def _bordered(equation: Equation, y: Array, row: Array, nodes: int) -> tuple[Array, Array]:
    """Jacobian of the equation in y with `row` below it, and the residual with 0."""
    size = len(y)
    b, rho = equation.scales * y[:-1], float(np.exp(y[-1]))
    residual, jacobian, drift = equation.linearised(b, rho, equation.grid(nodes))
    matrix = np.empty((size, size))
    scales = equation.scales
    matrix[:-1, :-1] = jacobian * (scales / scales[:, None])
    matrix[:-1, -1], matrix[-1] = drift / scales, row
    return matrix, np.append(residual / scales, 0.0)


def _finer(equation: Equation, nodes: int) -> Grid:
    """The grid of twice the nodes."""
    if nodes > _MOST_NODES:
        raise _Unresolved(f"a state needs more than {nodes} nodes")
    try:
        return equation.grid(2 * nodes)
    except ValueError as error:
        raise _Unresolved(f"a state needs more than {nodes} nodes") from error


def _resolved(
    equation: Equation, y: Array, row: Array, forward: Array, nodes: int, arclength: float
) -> Point:
    """The state on as many nodes as it needs: twice as many must leave no residual."""
    while True:
        b, rho = equation.scales * y[:-1], float(np.exp(y[-1]))
        residual, lost = equation.residual(b, rho, _finer(equation, nodes))
        if residual < _RESOLVED + _ROUNDING * lost:
            break
        nodes *= 2
        y = _newton(equation, y, row, nodes)
    matrix, _ = _bordered(equation, y, forward, nodes)
    tangent = np.linalg.solve(matrix, np.eye(1, len(y), len(y) - 1)[0])
    tangent /= np.linalg.norm(tangent)
    return Point(b, float(y[-1]), tangent, nodes, arclength, residual)
