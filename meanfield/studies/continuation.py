"""Branches of stationary states by pseudo-arclength, through folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from meanfield._checks import EPS
from meanfield.dynamics.isotropic import Isotropic
from meanfield.kernels.multipliers import bandwidth, relative_eigenvalues
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.typing import Array

# where W * mu has no digits left, and its density far fewer than none
_SMALLEST = 1e-300
# points of a cap, and the logarithm of the factor by which a density may rise in it
_IN_CAP, _STEEP = 16, 3.0
# the logarithm of a share that counts as no mass
_NEGLIGIBLE = -35.0


@dataclass(frozen=True)
class Grid:
    """Gauss-Gegenbauer nodes t with log-weights, and B_k(t).

    Of the caps beyond the last nodes, end node first: log of sin^{d-2}, and B_k, each (2, n, …).
    """

    nodes: Array
    log_weights: Array
    basis: Array
    cap_measure: Array
    cap_basis: Array


@dataclass(frozen=True)
class State:
    """What f = e^{ρφ(h)}/Z is on a grid: masses f·w, potential φ, φ'(h), log Z."""

    masses: Array
    potential: Array
    slope: Array
    log_mass: float


class Equation:
    """b = ∫ B f dσ with f = e^{ρ φ(h)}/Z and h = Σ b_k B_k: zonal stationary states.

    B_k = sqrt(κ_k) p_k, κ_k = Λ_k/Λ_1, so that b_k = sqrt(κ_k) c_k, and ρ = τ_1/τ with τ_1 =
    Λ_1/β (USA), Λ_1/(β Λ_0) (SA). φ = h for USA, log(1 + λ h)/λ with λ = Λ_1/Λ_0 for SA: the
    potential (W * mu)/Λ_0 is 1 + λ h. All is finite at every β, and β = 0 is no special case.
    The uniform state b = 0 branches where ρ κ_k = 1. Degrees beyond the kernel's bandwidth don't
    reach the potential, so these moments are all the unknowns that there are.

    Parameters
    ----------
    dynamics : SA or USA
    dim : int
    step : int
        Only degrees that are multiples of it: f(kθ) on the circle, even functions elsewhere.
    """

    def __init__(self, dynamics: Isotropic, dim: int, step: int = 1) -> None:
        self.dynamics, self.dim, self.step = dynamics, dim, step
        beta = dynamics.beta
        self.kmax = bandwidth(beta, dim)
        ratios = relative_eigenvalues(beta, dim, self.kmax)
        self.lam = float(ratios[1]) if dynamics.normalised else 0.0
        self.degrees = np.arange(step, self.kmax + 1, step)
        with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
            kappa = ratios[1:] / ratios[1] if ratios[1] > 0.0 else np.eye(1, self.kmax)[0]
        self.kappa = kappa[step - 1 :: step]
        # b = scales · sqrt(κ_k) ∫ P_k dmu
        self.scales = np.sqrt(multiplicities(dim, self.kmax)[step::step])
        self._grids: dict[int, Grid] = {}

    def grid(self, count: int) -> Grid:
        """The grid of so many nodes."""
        if count not in self._grids:
            nodes, weights = gauss_gegenbauer(self.dim, count)
            # angles from the poles, which stay out where the measure is 0
            angles = np.arccos(nodes[-1]) * np.linspace(1.0, 0.0, _IN_CAP, endpoint=False)
            cosines = np.stack([-np.cos(angles), np.cos(angles)])
            measure = np.tile((self.dim - 2.0) * np.log(np.sin(angles)), (2, 1))
            with np.errstate(divide="ignore"):
                logs = np.log(weights)
            self._grids[count] = Grid(
                nodes, logs, self._basis(nodes), measure, self._basis(cosines)
            )
        return self._grids[count]

    def _basis(self, t: Array) -> Array:
        values = gegenbauer(self.dim, self.kmax, t)[self.step :: self.step]
        return np.asarray(np.moveaxis(values, 0, -1) * (np.sqrt(self.kappa) * self.scales))

    def state(self, b: Array, rho: float, grid: Grid) -> State:
        """The density that the moments b make, right or not."""
        potential, slope = self._potential(grid.basis @ b)
        logits = grid.log_weights + rho * potential
        log_mass = float(logsumexp(logits))
        with np.errstate(under="ignore"):
            masses = np.exp(logits - log_mass)
        return State(masses, potential, slope, log_mass)

    def _potential(self, h: Array) -> tuple[Array, Array]:
        """φ and φ' at h."""
        if self.lam > 0.0:
            # the series of W * mu may fall below 0 by rounding, where it is next to nothing
            kernel = np.maximum(1.0 + self.lam * h, _SMALLEST)
            small = np.log1p(np.maximum(self.lam * h, -0.5))
            potential = np.where(kernel > 0.5, small, np.log(kernel)) / self.lam
            slope = 1.0 / kernel
        else:
            potential, slope = h, np.ones_like(h)
        return potential, slope

    def residual(self, b: Array, rho: float, grid: Grid) -> tuple[float, float]:
        """Largest residual, in units of moments ∫ P_k dmu, and what log f loses by rounding."""
        state = self.state(b, rho, grid)
        missed = float(np.max(np.abs(b - state.masses @ grid.basis) / self.scales))
        lost = rho * float(np.max(np.abs(state.potential[state.masses > 0.0]))) + self.kmax
        if self._hides_mass(b, rho, grid, state):
            missed = np.inf
        return missed, EPS * lost

    def _hides_mass(self, b: Array, rho: float, grid: Grid, state: State) -> bool:
        """Whether f rises steeply beyond the last nodes, which are far from the poles in high d."""
        # logarithms of the density of the polar angle
        caps = grid.cap_measure + rho * self._potential(grid.cap_basis @ b)[0]
        inside = (0.5 * self.dim - 1.0) * np.log1p(-(grid.nodes**2)) + rho * state.potential
        peaks = caps.max(axis=1)
        steep = peaks > caps[:, 0] + _STEEP
        return bool(np.any(steep & (peaks > inside.max() + _NEGLIGIBLE)))

    def linearised(self, b: Array, rho: float, grid: Grid) -> tuple[Array, Array, Array]:
        """The residual, its Jacobian in b, and its derivative in log ρ."""
        state = self.state(b, rho, grid)
        with np.errstate(under="ignore"):
            means = state.masses @ grid.basis
            weighted = state.masses * state.slope
            jacobian = grid.basis.T @ (weighted[:, None] * grid.basis)
            jacobian -= np.outer(means, weighted @ grid.basis)
            mixed = (state.masses * state.potential) @ grid.basis
        drift = mixed - means * float(state.masses @ state.potential)
        return b - means, np.eye(len(b)) - rho * jacobian, -rho * drift

    def numbers(self, b: Array, rho: float, grid: Grid) -> dict[str, float]:
        """∫ f log f dσ, and (F - F(σ))/τ = ∫ f log f dσ - ρ|b|²/2 of USA."""
        state = self.state(b, rho, grid)
        entropy = rho * float(state.masses @ state.potential) - state.log_mass
        return {"entropy": entropy, "excess": 0.5 * rho * float(b @ b) - state.log_mass}


# steps of arclength: the largest, and the least before a branch is given up
_LARGEST, _LEAST = 0.04, 1e-9
# cosine between neighbouring tangents: below, the step is halved; above, it grows
_BENT, _STRAIGHT = 0.97, 0.995
# first amplitudes b_k of a branch
_FIRST, _SMALLEST_AMPLITUDE = 2e-2, 1e-4
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
        try:
            near = _with_amplitude(equation, index, direction * amplitude, start)
            nearer = _with_amplitude(equation, index, direction * amplitude / 4, start)
        except _Failed:
            if amplitude < _SMALLEST_AMPLITUDE**1.5:
                raise
        else:
            # the way of τ from the bifurcation point must be the same from the first
            ways = [near.log_rho - start, nearer.log_rho - start, near.tangent[-1]]
            plain = np.min(ways) > 0.0 or np.max(ways) < 0.0 or amplitude < _SMALLEST_AMPLITUDE
            if (plain and near.log_rho < last) or amplitude < _SMALLEST_AMPLITUDE**1.5:
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
