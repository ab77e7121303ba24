"""Stationary states under noise: branches over the noise, stability, phase transitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise

import numpy as np
import xarray as xr
from scipy.optimize import brentq
from scipy.special import gammaln, hyp0f1, ive, logsumexp

from meanfield import _checks
from meanfield._checks import EPS
from meanfield.dynamics.facts import multiplied_out
from meanfield.dynamics.isotropic import Isotropic
from meanfield.kernels.multipliers import bandwidth, relative_eigenvalues, scaled_eigenvalues
from meanfield.measures.density import Density
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.spaces.zonal import Zonal
from meanfield.studies.executors import labelled, run_tasks
from meanfield.theory import check_attention, critical_noise, energy_uniform
from meanfield.typing import Array, ArrayLike, NDArray

# a matrix that is not symmetric may have complex ones
Eigenvalues = Array | NDArray[np.complex128]

# at this value W * mu has no digits left, and the density is 0
_SMALLEST = 1e-300
# a cap has so many points, and a density may rise in it by a factor of this logarithm
_IN_CAP, _STEEP = 16, 3.0
# a share of this logarithm counts as no mass
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
    """The state f = e^{ρφ(h)}/Z on a grid: masses f·w, potential φ, φ'(h), log Z."""

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
    degree : int
        k of a branch, whose symmetry its states have: degrees are multiples of `step`, those of
        f(kθ) on the circle, and of even functions elsewhere. No symmetry if k = 1.

    Attributes
    ----------
    index : int
        Where b_k is among the moments.
    start : float
        log ρ where the branch leaves the uniform state.
    """

    def __init__(self, dynamics: Isotropic, dim: int, degree: int = 1) -> None:
        self.dynamics, self.dim = dynamics, dim
        self.step = step = degree if dim == 2 else 2 - degree % 2
        beta = dynamics.beta
        self.kmax = bandwidth(beta, dim)
        ratios = relative_eigenvalues(beta, dim, self.kmax)
        self.lam = float(ratios[1]) if dynamics.normalised else 0.0
        self.degrees = np.arange(step, self.kmax + 1, step)
        with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
            kappa = ratios[1:] / ratios[1] if ratios[1] > 0.0 else np.eye(1, self.kmax)[0]
        self.kappa = kappa[step - 1 :: step]
        self.index = degree // step - 1
        self.start = -float(np.log(self.kappa[self.index]))
        # scaled moments b = scales · sqrt(κ_k) ∫ P_k dmu
        self.scales = np.sqrt(multiplicities(dim, self.kmax)[step::step])
        # a grid is made once for each number of nodes
        self.grid = cache(self._grid)

    def _grid(self, count: int) -> Grid:
        nodes, weights = gauss_gegenbauer(self.dim, count)
        # angles from the poles; the poles themselves have no mass
        angles = np.arccos(nodes[-1]) * np.linspace(1.0, 0.0, _IN_CAP, endpoint=False)
        cosines = np.stack([-np.cos(angles), np.cos(angles)])
        measure = np.tile((self.dim - 2.0) * np.log(np.sin(angles)), (2, 1))
        with np.errstate(divide="ignore"):
            logs = np.log(weights)
        return Grid(nodes, logs, self._basis(nodes), measure, self._basis(cosines))

    def _basis(self, t: Array) -> Array:
        values = gegenbauer(self.dim, self.kmax, t)[self.step :: self.step]
        return np.asarray(np.moveaxis(values, 0, -1) * (np.sqrt(self.kappa) * self.scales))

    def state(self, b: Array, rho: float, grid: Grid) -> State:
        """The density that the moments b make, right or not."""
        potential, derivative = self._potential(grid.basis @ b)
        logits = grid.log_weights + rho * potential
        log_mass = float(logsumexp(logits))
        with np.errstate(under="ignore"):
            masses = np.exp(logits - log_mass)
        return State(masses, potential, derivative, log_mass)

    def _potential(self, h: Array) -> tuple[Array, Array]:
        """Return φ and φ' at h."""
        if self.lam == 0.0:
            return h, np.ones_like(h)
        # rounding may take the series of W * mu below 0 where it is almost 0
        kernel = np.maximum(1.0 + self.lam * h, _SMALLEST)
        log_near_1 = np.log1p(np.maximum(self.lam * h, -0.5))
        return np.where(kernel > 0.5, log_near_1, np.log(kernel)) / self.lam, 1.0 / kernel

    def residual(self, b: Array, rho: float, grid: Grid) -> tuple[float, float]:
        """Largest residual, in units of moments ∫ P_k dmu, and what log f loses by rounding."""
        state = self.state(b, rho, grid)
        largest_miss = float(np.max(np.abs(b - state.masses @ grid.basis) / self.scales))
        log_rounding = rho * float(np.max(np.abs(state.potential[state.masses > 0.0]))) + self.kmax
        if self._hides_mass(b, rho, grid, state):
            largest_miss = np.inf
        return largest_miss, EPS * log_rounding

    def _hides_mass(self, b: Array, rho: float, grid: Grid, state: State) -> bool:
        """Whether f rises steeply beyond the last nodes, which in high d are far from the poles."""
        # caps and inside are logarithms of the density of the polar angle
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

    def numbers(self, point: Point) -> dict[str, float]:
        """∫ f log f dσ, and (F - F(σ))/τ = ∫ f log f dσ - ρ|b|²/2 of USA."""
        b, rho = point.b, point.rho
        state = self.state(b, rho, self.grid(point.nodes))
        entropy = rho * float(state.masses @ state.potential) - state.log_mass
        return {"entropy": entropy, "excess": 0.5 * rho * float(b @ b) - state.log_mass}


# the largest step of arclength, and the least before a branch is given up
_LARGEST, _LEAST = 0.04, 1e-9
# a cosine between neighbouring tangents below the first halves the step, one above the second
# enlarges it
_BENT, _STRAIGHT = 0.97, 0.995
# a branch begins with the first amplitude b_k, or with smaller ones down to the second
_FIRST, _SMALLEST_AMPLITUDE = 2e-2, 1e-4
# a state all of whose moments are below it is on no branch
_UNIFORM = 1e-7
_MOST_NODES = 2048
_MOST_POINTS = 5000
# a Newton step this small is the last; the next would be its square times a curvature of up to 1e5
_CONVERGED, _NEWTON_STEPS = 1e-11, 12
# where rounding is all that is left, a step below this one is the last
_STAGNANT = 1e-6
# the residual of a resolved state, and so many times the rounding of log f
_NO_RESIDUAL, _ROUNDING = 1e-13, 10.0
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


class _Failed(ArithmeticError):
    """Raised if Newton's method finds no state, since the step was too large."""


class _Unresolved(ArithmeticError):
    """Raised if a state needs more nodes than there may be."""


def follow(
    equation: Equation, direction: int, last: float, events: Mapping[str, Callable[[Point], float]]
) -> tuple[list[Point], str]:
    """The branch that leaves the uniform state at ρ κ_k = 1, until log ρ rises past `last`.

    Parameters
    ----------
    equation : Equation
        Of this branch.
    direction : int
        Sign of the first moment of degree k.
    last : float
        log ρ at which to stop.
    events : mapping
        Functions of a point whose zeros along the branch are points of their own, under the name.

    Returns
    -------
    points : list of Point
        In the order of arclength.
    status : str
        How the branch ended.
    """
    events = {"end": lambda point: point.log_rho - last, **events}
    point = _first(equation, direction, last)
    points, step = [point], min(_LARGEST, 0.5 * point.arclength)
    # the first point of a branch may lie at its end already
    is_complete = point.log_rho >= last
    while not is_complete and len(points) < _MOST_POINTS:
        try:
            following = _moved(equation, point, step)
            events_found = _found(equation, point, step, following, events)
            straight = float(following.tangent @ point.tangent)
        except _Unresolved:
            return points, UNDER_RESOLVED
        except _Failed:
            straight = -1.0
        if straight < _BENT:
            step *= 0.5
            if step < _LEAST:
                break
            continue
        points += events_found
        point = points[-1]
        step = min(_LARGEST, step * (1.5 if straight > _STRAIGHT else 1.0))
        is_complete = point.event == "end"
    return points, COMPLETE if is_complete else CUT_SHORT


def _found(
    equation: Equation,
    point: Point,
    step: float,
    following: Point,
    events: Mapping[str, Callable[[Point], float]],
) -> list[Point]:
    """Return the events between two points in their order, and then the second point.

    After the end of the branch there are none.
    """
    events_found = []
    point = replace(point, nodes=following.nodes)
    for name, function in events.items():
        value_before, value_after = function(point), function(following)
        if value_before * value_after < 0.0 and not (name == "end" and value_after < 0.0):
            share = brentq(
                lambda s, f=function: f(_moved(equation, point, s)), 0.0, step, xtol=1e-15
            )
            events_found.append(replace(_moved(equation, point, share), event=name))
    events_found = [*sorted(events_found, key=lambda event: event.arclength), following]
    names = [event.event for event in events_found]
    return events_found[: names.index("end") + 1] if "end" in names else events_found


def _first(equation: Equation, direction: int, last: float) -> Point:
    """Return the first state, nearer to the uniform one than any fold and than the end."""
    amplitude = _FIRST
    while True:
        try:
            near_point = _with_amplitude(equation, direction * amplitude)
            nearer = _with_amplitude(equation, direction * amplitude / 4)
        except _Failed:
            if amplitude < _SMALLEST_AMPLITUDE**1.5:
                raise
        else:
            # τ must move away from the bifurcation point in one direction from the first state on
            away = [point.log_rho - equation.start for point in (near_point, nearer)]
            ways = [*away, near_point.tangent[-1]]
            plain = np.min(ways) > 0.0 or np.max(ways) < 0.0 or amplitude < _SMALLEST_AMPLITUDE
            if (plain and near_point.log_rho < last) or amplitude < _SMALLEST_AMPLITUDE**1.5:
                return near_point
        amplitude /= 4


def _with_amplitude(equation: Equation, amplitude: float) -> Point:
    """Return the state with a given moment b_k near the bifurcation point."""
    factor = equation.scales[equation.index]
    row = np.eye(1, len(equation.degrees) + 1, equation.index)[0]
    y = row * amplitude / factor
    y[-1] = equation.start
    # the nodes are a multiple of 3, as on the grid of a `Zonal` space
    nodes = 3 * (2 * equation.kmax // 3 + 2)
    return _resolved(equation, y, row * np.sign(amplitude), nodes, abs(amplitude) / factor)


def _moved(equation: Equation, point: Point, step: float) -> Point:
    """Return the state one step of arclength further, in the plane across the tangent."""
    y = np.append(point.b / equation.scales, point.log_rho) + step * point.tangent
    moved = _resolved(equation, y, point.tangent, point.nodes, point.arclength + step)
    if np.max(np.abs(moved.b / equation.scales)) < _UNIFORM:
        raise _Failed(f"Newton's method falls back to the uniform state, log ρ = {moved.log_rho:g}")
    return moved


def at_noise(equation: Equation, point: Point, log_rho: float) -> Point:
    """The state near a point with exactly this noise."""
    row = np.eye(1, len(point.b) + 1, len(point.b))[0]
    y = np.append(point.b / equation.scales, log_rho)
    return _resolved(equation, y, row, point.nodes, point.arclength)


def _newton(equation: Equation, y: Array, row: Array, nodes: int) -> Array:
    """Run Newton's method from y with steps orthogonal to `row`."""
    target, last_change = float(row @ y), np.inf
    for _ in range(_NEWTON_STEPS):
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
        if size < _CONVERGED or 0.3 * last_change < size < _STAGNANT:
            return y
        last_change = size
    raise _Failed(f"Newton's method does not converge at log ρ = {y[-1]:g}")


def _bordered(equation: Equation, y: Array, row: Array, nodes: int) -> tuple[Array, Array]:
    """Return the Jacobian of the equation in y with `row` below it, and the residual with 0."""
    size = len(y)
    b, rho = equation.scales * y[:-1], float(np.exp(y[-1]))
    residual, jacobian, drift = equation.linearised(b, rho, equation.grid(nodes))
    matrix = np.empty((size, size))
    factors = equation.scales
    matrix[:-1, :-1] = jacobian * (factors / factors[:, None])
    matrix[:-1, -1], matrix[-1] = drift / factors, row
    return matrix, np.append(residual / factors, 0.0)


def _finer(equation: Equation, nodes: int) -> Grid:
    """Return the grid of twice the nodes."""
    # in high dimensions double precision allows fewer nodes
    with suppress(ValueError):
        if nodes <= _MOST_NODES:
            return equation.grid(2 * nodes)
    raise _Unresolved(f"a state needs more than {nodes} nodes")


def _resolved(equation: Equation, y: Array, row: Array, nodes: int, arclength: float) -> Point:
    """The state near y, across `row`, on as many nodes as it needs, and its tangent along `row`.

    Twice as many nodes must leave no residual.
    """
    while True:
        y = _newton(equation, y, row, nodes)
        b, rho = equation.scales * y[:-1], float(np.exp(y[-1]))
        residual, log_rounding = equation.residual(b, rho, _finer(equation, nodes))
        if residual < _NO_RESIDUAL + _ROUNDING * log_rounding:
            break
        nodes *= 2
    matrix, _ = _bordered(equation, y, row, nodes)
    tangent = np.linalg.solve(matrix, np.eye(1, len(y), len(y) - 1)[0])
    tangent /= np.linalg.norm(tangent)
    return Point(b, float(y[-1]), tangent, nodes, arclength, residual)


# eigenvalues this near to 0 are 0 to rounding
_NEUTRAL = 1e-8
# perturbations are polynomials of at most this degree, orthonormal under the state
_MODES = 48
# for a larger β, e^{-2β} is below 1e-6, and the series of W * f has too few digits to divide by
_LARGEST_BETA = 6.9
# the series is trusted down to this share of its maximum; masses beyond are iterated to this
# change, so often
_TRUSTED, _CHANGE, _ITERATIONS = 1e-8, 1e-10, 200
# Bessel functions below the first have lost digits; masses below the second count as 0
_UNDERFLOW, _NO_MASS = 1e-280, 1e-260


class Linearisation:
    """The noisy flow linearised at stationary states of one equation.

    A perturbation fψ obeys ∂_t ψ = (1/f) ∇·(f ∇(τψ - Tψ)), Tψ = W * (fψ)/β, for SA over W * f.
    In polynomials that are orthonormal under f dσ this is -τ D (1 - ρT), D the form ∫ f ∇ψ·∇χ.
    Mass, which can't change, is left out.

    Parameters
    ----------
    equation : Equation
        With step 1: perturbations need not have the symmetry of the state.
    """

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        beta = equation.dynamics.beta
        # elsewhere a series has digits enough
        self._by_sums = equation.lam > 0.0 and beta > _LARGEST_BETA
        self._kernel = cache(self._averaged)

    def rates(self, b: Array, rho: float, count: int) -> Eigenvalues:
        """Eigenvalues over τ of the state with moments b (K,) on so many nodes, fastest first."""
        grid = self.equation.grid(count)
        state = self.equation.state(b, rho, grid)
        masses = state.masses
        with np.errstate(under="ignore"):
            if self._by_sums:
                masses = self._far_masses(masses, state.slope, rho, count)
            # nodes without mass would act as a boundary
            has_mass = masses > _NO_MASS
            masses = masses[has_mass]
            modes = min(_MODES, len(masses) // 2)
            values, derivatives = _orthonormal(grid.nodes[has_mass], masses, modes)
            if self._by_sums:
                shares = self._kernel(count)[np.ix_(has_mass, has_mass)] * masses
                pull = shares @ values / (self.equation.lam * shares.sum(axis=1)[:, None])
            else:
                basis = grid.basis[has_mass]
                moments = basis.T @ (masses[:, None] * values)
                pull = state.slope[has_mass, None] * (basis @ moments)
            form = derivatives.T @ (masses[:, None] * derivatives)
            pull_matrix = values.T @ (masses[:, None] * pull)
        rates = np.linalg.eigvals(form @ (rho * pull_matrix - np.eye(len(form))))
        return np.asarray(rates[np.argsort(-rates.real)])

    def unstable(self, b: Array, rho: float, count: int, rates: Eigenvalues) -> int:
        """Number of axisymmetric perturbations that grow, where these are the rates.

        Newton's Jacobian 1 - ρT has as many negative eigenvalues as growth is positive: under USA
        it has the inertia of F's second variation. So growth like e^{-1/τ}, as of two equal
        clusters that exchange mass, is seen though rounding hides the rate, as long as the
        Jacobian's eigenvalue is below -1e-8. Under SA complex rates may cross without it, and
        count too.
        """
        _, jacobian, _ = self.equation.linearised(b, rho, self.equation.grid(count))
        negative = int(np.sum(np.linalg.eigvals(jacobian).real < -_NEUTRAL))
        if self.equation.lam == 0.0:
            return negative
        return max(negative, int(np.sum(rates.real > _NEUTRAL)))

    def _far_masses(self, masses: Array, derivative: Array, rho: float, count: int) -> Array:
        """Return masses; sums of positive terms give those where the series of W * f has no digits.

        f = (W * f)^{ρ/λ}/Z is iterated there only: a state itself may be an unstable fixed point.
        """
        is_trusted = derivative * _TRUSTED < derivative.min()
        if is_trusted.all():
            return masses
        peak = int(np.argmax(masses))
        masses = np.where(is_trusted, masses, 0.0)
        rows = np.append(np.flatnonzero(~is_trusted), peak)
        kernel, weights = self._kernel(count)[rows], np.exp(self.equation.grid(count).log_weights)
        for _ in range(_ITERATIONS):
            sums = kernel @ masses
            # numbers are in units of the peak, where f is known
            ratio = (sums / sums[-1]) ** (rho / self.equation.lam) * weights[rows] / weights[peak]
            new = ratio[:-1] * masses[peak]
            old, masses[rows[:-1]] = masses[rows[:-1]], new
            if np.all(np.abs(new - old) <= _CHANGE * new + _NO_MASS):
                break
        return masses

    def _averaged(self, count: int) -> Array:
        """Return e^{β(<x,y> - 1)} averaged over the latitudes of both, shape (N, N), for N nodes.

        <x,y> = c + s u, u the cosine between directions across the axis: ∫ e^{βsu} is
        ₀F₁(n/2; x²/4) = Γ(n/2) (2/x)^{n/2-1} I_{n/2-1}(x), x = βs and n = d - 1.
        """
        beta, half = self.equation.dynamics.beta, 0.5 * (self.equation.dim - 1)
        nodes = self.equation.grid(count).nodes
        sines = np.sqrt((1.0 - nodes) * (1.0 + nodes))
        x = beta * np.outer(sines, sines)
        with np.errstate(all="ignore"):
            bessel = ive(half - 1.0, x)
            large = np.log(bessel) + x + gammaln(half) - (half - 1.0) * np.log(0.5 * x)
            log_of_small = np.log(hyp0f1(half, 0.25 * np.minimum(x, 4.0 * half) ** 2))
            is_small = (x < 1e-3) | (bessel < _UNDERFLOW)
            logs = beta * (np.outer(nodes, nodes) - 1.0)
            return np.asarray(np.exp(logs + np.where(is_small, log_of_small, large)))


def _orthonormal(nodes: Array, masses: Array, count: int) -> tuple[Array, Array]:
    """Polynomials of degrees 1 … count-1 orthonormal under the masses, and sqrt(1-t²) times p'."""
    sines = np.sqrt((1.0 - nodes) * (1.0 + nodes))
    values, derivatives = np.ones((count, len(nodes))), np.zeros((count, len(nodes)))
    for j in range(1, count):
        new, new_derivative = nodes * values[j - 1], values[j - 1] + nodes * derivatives[j - 1]
        # each polynomial is made orthogonal to all lower ones, since rounding spoils the recurrence
        # of three terms
        for _ in range(2):
            shares = values[:j] @ (masses * new)
            new = new - shares @ values[:j]
            new_derivative = new_derivative - shares @ derivatives[:j]
        size = float(np.sqrt(masses @ new**2))
        values[j], derivatives[j] = new / size, new_derivative / size
    return values[1:].T, (derivatives[1:] * sines).T


# a branch is followed so far past the bifurcation point, in log τ
_BEYOND = 1e-3
# no further degree improves a density with this spectral tail
_RESOLVED = 1e-14


def stationary_density(
    dynamics: Isotropic,
    dim: int,
    *,
    degree: int = 1,
    direction: int = 1,
    axis: ArrayLike | None = None,
) -> Density:
    """The stationary state on a branch of `stationary_states` at the noise of the dynamics.

    If the branch has several, the last one. Under USA and degree 1 this is the state of lowest free
    energy that is not uniform. Newton's method refines its nodes until the residual vanishes.

    Parameters
    ----------
    dynamics : SA or USA
        Attractive, with noise > 0.
    dim : int
        Ambient dimension d >= 2.
    degree : int
        k of the branch.
    direction : int
        Sign of ∫ P_k dmu, 1 or -1.
    axis : array_like, shape (d,), optional
        Unit vector; the last unit vector if omitted.

    Returns
    -------
    Density
        On a `Zonal` space; on the circle even about the axis.

    Raises
    ------
    ValueError
        If an argument is out of range, or the noise is too large for a state on this branch.
    ArithmeticError
        If the branch can't be followed down to this noise.

    Examples
    --------
    >>> from meanfield import USA
    >>> mu = stationary_density(USA(1.0, noise=0.5), 2)
    >>> round(float(mu.mean()[-1]), 11)
    0.54382120316
    """
    dim = _checks.integer("dim", dim, low=2, high=1024)
    check_attention(dynamics, is_balanced=False, attracts=True, has_noise=True)
    degree = _checks.integer("degree", degree, low=1, high=bandwidth(dynamics.beta, dim))
    direction = _checks.plus_or_minus("direction", direction)
    axis = None if axis is None else _checks.unit_vector("axis", axis, dim)
    equation = Equation(dynamics, dim, degree)
    wanted = float(np.log(critical_noise(dynamics, dim)) - np.log(dynamics.noise))
    # a state at τ < τ_k ends the branch; a branch back at τ_k has passed all others
    passed = wanted <= equation.start
    events = {"noise": lambda point: point.log_rho - wanted} if passed else {}
    end = equation.start + _BEYOND if passed else wanted
    points, status = follow(equation, direction, end, events)
    name = "noise" if passed else "end"
    matches = [point for point in points if point.event == name]
    if not matches and status != COMPLETE:
        raise ArithmeticError(f"the branch of degree {degree} is {status} at {dynamics!r}")
    if not matches:
        largest_noise = dynamics.noise * np.exp(wanted - min(point.log_rho for point in points))
        text, least = _checks.tell_apart(dynamics.noise, largest_noise)
        raise ValueError(f"noise must be < {least} for a state of degree {degree}, got {text}")
    return _density(equation, at_noise(equation, matches[-1], wanted), axis)


def _density(equation: Equation, point: Point, axis: Array | None) -> Density:
    """Return the state as a series, of more degrees than its moments need."""
    nodes = point.nodes
    while True:
        masses = equation.state(point.b, point.rho, equation.grid(nodes)).masses
        # this space has the grid of the state
        space = Zonal(equation.dim, 2 * nodes // 3 - 1, axis)
        density = Density.from_coefficients(space, masses @ space.basis)
        if density.tail < _RESOLVED or nodes >= 4 * point.nodes:
            return density
        nodes *= 2


EQUAL = "equal free energy"
# so many nodes suffice for the few dozen polynomials of a perturbation
_ENOUGH = 512
# free energies this near, in units of τ, count as equal where branches are interpolated
_SAME = 1e-6
# long names and formulas of the variables over the points of a branch
_OVER_POINTS = {
    "noise": ("noise", "τ"),
    "arclength": ("arclength along the branch", ""),
    "order_parameter": ("order parameter", "|∫ x dmu|"),
    "moment": ("moment of the branch's degree", "∫ P_k dmu"),
    "energy": ("energy", "E; nan beyond float64"),
    "energy_share": ("energy as a share of a Dirac's", "E/E(δ)"),
    "entropy": ("entropy", "∫ f log f dσ"),
    "growth_rate": ("growth rate", "of the fastest axisymmetric perturbation"),
    "n_unstable": ("number of unstable directions", "axisymmetric perturbations that grow"),
    "residual": ("residual", "on twice the nodes"),
}
_OF_USA = {
    "free_energy": ("free energy", "F = τ ∫ f log f dσ - E"),
    "free_energy_excess": ("excess of free energy", "F - F(σ)"),
    "lowest": ("state of lowest free energy", "1 where F is lowest of all at this noise"),
}


def dataset(
    tables: list[xr.Dataset], runs: list[Isotropic], ways: list[tuple[int, int]], dim: int
) -> xr.Dataset:
    """All branches, those of one β after the other."""
    join = partial(xr.concat, join="outer", fill_value={"event": ""})
    rows, is_usa = [], not runs[0].normalised
    for row, dynamics in enumerate(runs):
        of_beta = tables[row * len(ways) : (row + 1) * len(ways)]
        if is_usa:
            of_beta = _compared(of_beta, energy_uniform(dynamics.beta, dim))
        rows.append(join(of_beta, "branch"))
    ds = join(rows, "beta").drop_vars(["point", "excess"])
    ds["event"] = ds["event"].astype(str)
    noise = ds["noise"]
    ds["bifurcation_noise"] = noise[:, :, 0]
    ds["fold_noise"] = noise.where(ds["event"] == "fold").max("point")
    # the branches of degree 1 decide the transition from the uniform state
    tau_1 = xr.DataArray([critical_noise(dynamics, dim) for dynamics in runs], dims="beta")
    is_first = ds["fold_noise"][:, 0].fillna(0.0) > tau_1
    ds["critical_noise"] = tau_1
    ds["nature"] = "beta", np.where(is_first, "first order", "continuous")
    if is_usa:
        # a branch that ended before it has no such state
        first_branch = ds.isel(branch=0)
        equal = first_branch["event"] == EQUAL
        equal_point = first_branch.isel(point=equal.argmax("point")).where(equal.any("point"))
        ds["transition_noise"] = equal_point["noise"].where(is_first, tau_1)
        ds["jump"] = equal_point["order_parameter"].where(is_first, 0.0)
    ds = ds.assign_coords(
        beta=[dynamics.beta for dynamics in runs],
        degree=("branch", [degree for degree, _ in ways]),
        direction=("branch", [direction for _, direction in ways]),
        dim=dim,
    )
    ds.attrs["dynamics"] = runs[0].name
    return labelled(ds, _OVER_POINTS | (_OF_USA if is_usa else {}))


def _compared(tables: list[xr.Dataset], uniform: float) -> list[xr.Dataset]:
    """Add the free energy of the branches of one β, and whether it is the lowest at its noise.

    That of the uniform state is -E(σ). nan where the branch of degree 1, which comes first, has
    not been followed to.
    """
    end, differences = float(tables[0]["noise"].min()), []
    for table in tables:
        noise, excess = table["noise"], table["excess"]
        best = np.minimum.reduce([_lowest_at(each, -np.log(noise.values)) for each in tables])
        best = np.minimum(best, 0.0)
        lowest = (excess <= best + _SAME * np.abs(best)).astype(np.float64)
        gap = noise * excess
        numbers = {"free_energy": gap - uniform, "free_energy_excess": gap}
        differences.append(table.assign(numbers | {"lowest": lowest.where(noise >= end)}))
    return differences


def _lowest_at(branch: xr.Dataset, logs: Array) -> Array:
    """Return (F - F(σ))/τ of the lowest state of a branch at each log 1/τ; inf if there is none."""
    along, excess = -np.log(branch["noise"].values), branch["excess"].values
    turns = [0, *np.flatnonzero(branch["event"] == "fold").tolist(), len(along) - 1]
    best = np.full_like(logs, np.inf)
    for start, end in pairwise(turns):
        part = slice(start, end + 1)
        order = np.argsort(along[part])
        values = np.interp(logs, along[part][order], excess[part][order], np.inf, np.inf)
        best = np.minimum(best, values)
    return best


def stationary_states(
    dynamics: Isotropic | Sequence[Isotropic],
    dim: int,
    *,
    kmax: int = 1,
    until: float = 0.25,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Axisymmetric stationary states over the noise τ, on branches from the uniform state.

    A state solves f = e^{u/τ}/Z, u = W * mu/β (USA), or f = (W * mu)^{1/(βτ)}/Z (SA), W the kernel
    e^{β<x,y>}. The uniform state has a branch of degree k at τ_k = Λ_k/β (USA), Λ_k/(βΛ_0) (SA);
    each is followed through its folds. Under USA, noise makes a gradient flow of the free energy F,
    and of several states at one τ that of the lowest F is what noise selects in the end: where
    that changes from the uniform state to the branch of degree 1, at τ_c, is the phase transition,
    continuous up to `theory.transition_beta`, first order beyond. SA with noise is no gradient flow
    and has no F.

    Parameters
    ----------
    dynamics : SA or USA, or a sequence of one of them
        Attractive and without noise, β in any order; β <= 700 for USA.
    dim : int
        Ambient dimension d >= 2. On the circle states are even about their peak.
    kmax : int
        Branches of degrees 1 … `kmax`; of even degrees where d >= 3 both directions, of others
        one, since the other is its mirror image.
    until : float
        A branch ends at τ = `until` τ_k, on the way down. 0.01 <= until < 1.
    executor : concurrent.futures.Executor or 'processes', optional
        It computes the branches; without it and `workers` that is done here, one by one.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts branches.

    Returns
    -------
    xarray.Dataset
        Over (beta, branch, point), filled with nan: `noise` τ, `arclength`, `order_parameter`,
        `moment`, `energy`, `energy_share`, `entropy`, `growth_rate`, `n_unstable`, `residual` and
        `event`; under USA also `free_energy`, `free_energy_excess` and `lowest`.
        Over (beta, branch): `bifurcation_noise` τ_k; `fold_noise`, the largest, nan without; and
        `status`. Over beta: `critical_noise` τ_1; `nature`, 'continuous' or 'first order'; under
        USA `transition_noise` τ_c, and `jump` of the order parameter there. The page
        docs/studies.md says what each is.

    Raises
    ------
    ValueError
        If an argument is out of range, before any work starts.

    Examples
    --------
    >>> from meanfield import USA
    >>> ds = stationary_states(USA(3.0), 2)
    >>> str(ds.nature.item()), round(1 / ds.transition_noise.item(), 10), round(ds.jump.item(), 10)
    ('first order', 0.7521877664, 0.4815438131)
    """
    dim = _checks.integer("dim", dim, low=2, high=1024)
    kmax = _checks.integer("kmax", kmax, low=1)
    until = _checks.number("until", until)
    if not 0.01 <= until < 1.0:
        raise ValueError(f"until must be in [0.01, 1), got {until:g}")
    runs = [_checked(each, dim, kmax) for each in _checks.several("dynamics", dynamics)]
    if len({each.normalised for each in runs}) > 1:
        raise ValueError(f"dynamics must be all SA or all USA, got {_checks.shown(runs)}")
    ways = [
        (degree, direction)
        for degree in range(1, kmax + 1)
        for direction in ((1, -1) if degree % 2 == 0 and dim > 2 else (1,))
    ]
    tasks = [(each, *way) for each in runs for way in ways]
    branch = partial(_branch, dim=dim, until=until)
    tables = run_tasks(executor, branch, tasks, "stationary states", progress, workers)
    return dataset(tables, runs, ways, dim)


def _checked(dynamics: Isotropic, dim: int, kmax: int) -> Isotropic:
    check_attention(dynamics, is_balanced=False, attracts=True, has_noise=False)
    limit = bandwidth(dynamics.beta, dim)
    if kmax > limit:
        raise ValueError(
            f"kmax must be <= {limit}, the kernel's bandwidth at beta = {dynamics.beta:g}, got "
            f"{kmax}"
        )
    return dynamics


def _branch(task: tuple[Isotropic, int, int], dim: int, until: float) -> xr.Dataset:
    """Return one branch from the uniform state on: the numbers of each point, and how it ended."""
    dynamics, degree, direction = task
    equation = Equation(dynamics, dim, degree)
    # the last entry of the tangent is 0 where τ turns back
    events: dict[str, Callable[[Point], float]] = {"fold": lambda point: float(point.tangent[-1])}
    if not dynamics.normalised:
        events[EQUAL] = lambda point: equation.numbers(point)["excess"]
    start = equation.start
    points, status = follow(equation, direction, start - float(np.log(until)), events)
    first = points[0]
    uniform = replace(first, b=0.0 * first.b, log_rho=start, arclength=0.0, event="bifurcation")
    # before a fold, equal free energies are rounding near b = 0
    folds = (i for i, point in enumerate(points) if point.event == "fold")
    fold = min(folds, default=len(points))
    points_kept = [point for i, point in enumerate(points) if i > fold or point.event != EQUAL]
    beta = dynamics.beta
    full_equation = Equation(dynamics, dim)
    linearisation = Linearisation(full_equation)
    tau_1, scaled = critical_noise(dynamics, dim), scaled_eigenvalues(beta, dim, 1)
    index = equation.index
    unit = float(np.sqrt(equation.kappa[index]) * equation.scales[index])
    rows = []
    for point in [uniform, *points_kept]:
        b = np.zeros(full_equation.kmax)
        b[equation.degrees - 1] = point.b
        # perturbations need more nodes, where the state is next to 0
        finer = max(point.nodes, min(2 * point.nodes, _ENOUGH))
        rates = linearisation.rates(b, point.rho, finer)
        size = float(b @ b)
        if beta == 0.0:
            share = size / dim
            energy = 0.5 * share
        else:
            share = float(scaled[0] + scaled[1] * size)
            energy = multiplied_out(share / (2.0 * beta), beta)
        tau = tau_1 / point.rho
        rows.append(
            {
                "noise": tau,
                "arclength": point.arclength,
                "order_parameter": abs(float(b[0])) / np.sqrt(dim),
                "moment": float(point.b[index]) / unit,
                "energy": energy if np.isfinite(energy) else np.nan,
                "energy_share": share,
                **equation.numbers(point),
                "growth_rate": rates[0].real * tau,
                "n_unstable": float(linearisation.unstable(b, point.rho, point.nodes, rates)),
                "residual": point.residual,
                "event": point.event,
            }
        )
    columns = {name: ("point", [row[name] for row in rows]) for name in rows[0]}
    return xr.Dataset({**columns, "status": status}, {"point": np.arange(len(rows))})
