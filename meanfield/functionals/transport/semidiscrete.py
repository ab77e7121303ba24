"""W_1 and W_2 between tokens and a density on S^2: Kantorovich's dual has one weight a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg

from meanfield.functionals.transport import ROUNDING, Bracket, check_order
from meanfield.functionals.transport.sphere_dual import quarters
from meanfield.functionals.transport.sphere_masses import (
    Atoms,
    DensitySpread,
    Spread,
    atoms_of,
    series,
)
from meanfield.spaces import Sphere
from meanfield.spaces.geometry import geodesic_distance
from meanfield.spaces.lattice import Lattice, cell_bulges, hats
from meanfield.typing import Array

# on a lattice of so many rows every token is compared with every cell
_ROOT = 4
# the error of an arc cosine near 1 or -1, where it loses half of its digits
_ARCCOS = 1e-7


class Nearest:
    """The tokens that are nearest to some point of each cell of a lattice, by weights w.

    Nearest to y is the token x of the least slack dist(x, y)^p/p - w_x. Within a radius r of the
    centre of a cell no slack changes by more than ((dist + r)^p - dist^p)/p. So where another token
    is surely nearer a token is left out, and the cells are cut in four.

    Parameters
    ----------
    tokens : ndarray, shape (n, 3)
    weights : ndarray, shape (n,)
    p : float
    rows : int
        Of the lattice, 4 times a power of two.
    margin : float
        Tokens are kept, too, whose slack exceeds the least one by so little.

    Attributes
    ----------
    lattice : Lattice
    starts, counts : ndarray of int, shape (n_cells,)
    token : ndarray of int
        Of cell k they are token[starts[k] : starts[k] + counts[k]].
    near, far : ndarray, shape (n_cells,)
        Bounds of the distances between the points of a cell and its tokens.
    """

    def __init__(
        self, tokens: Array, weights: Array, p: float, rows: int, margin: float = 0.0
    ) -> None:
        margin += _ARCCOS * (np.pi + np.abs(weights).max())
        lattice, columns = Lattice(_ROOT), tokens.T.copy()
        cells = np.arange(lattice.n * lattice.n_lon)
        counts = np.full(len(cells), len(tokens))
        token = np.tile(np.arange(len(tokens)), len(cells))
        while True:
            starts, owner = np.cumsum(counts) - counts, np.repeat(np.arange(len(cells)), counts)
            products = np.zeros(len(token))
            for centres, column in zip(lattice.some_points(cells).T.copy(), columns, strict=True):
                products += centres[owner] * column[token]
            distance = np.arccos(np.clip(products, -1.0, 1.0))
            radius = (lattice.radii[cells // lattice.n_lon] + _ARCCOS)[owner]
            least_distance, behind = np.maximum(distance - radius, 0.0), distance + radius
            least = np.minimum.reduceat(behind**p / p - weights[token], starts) + margin
            kept = least_distance**p / p - weights[token] <= least[owner]
            counts, token = np.add.reduceat(kept.astype(np.intp), starts), token[kept]
            starts = np.cumsum(counts) - counts
            if lattice.n == rows:
                break
            lattice = Lattice(2 * lattice.n)
            cells = quarters(cells, cells, lattice)[1]
            counts, first_of_four = np.repeat(counts, 4), np.repeat(starts, 4)
            first_of_four -= np.cumsum(counts) - counts
            token = token[np.arange(counts.sum()) + np.repeat(first_of_four, counts)]
        by_cell = np.argsort(cells)
        self.lattice, self.token = lattice, token
        self.starts, self.counts = starts[by_cell], counts[by_cell]
        self.near = np.minimum.reduceat(least_distance[kept], starts)[by_cell]
        self.far = np.maximum.reduceat(behind[kept], starts)[by_cell]


class Arcs:
    """Pairs of points and the tokens to which their mass may go.

    Parameters
    ----------
    points : ndarray, shape (K, 3)
    tokens : ndarray, shape (n, 3)
    nearest : Nearest

    Attributes
    ----------
    starts : ndarray of int, shape (K,)
        Where the arcs of each point begin.
    point, token : ndarray of int
        Of each arc.
    distance : ndarray
        Its length.
    """

    def __init__(self, points: Array, tokens: Array, nearest: Nearest) -> None:
        index = nearest.lattice.cell_of(points)
        counts = nearest.counts[index]
        self.starts = np.cumsum(counts) - counts
        self.point = np.repeat(np.arange(len(points)), counts)
        place = np.arange(len(self.point)) + np.repeat(nearest.starts[index] - self.starts, counts)
        self.token = nearest.token[place]
        self.distance = geodesic_distance(points[self.point], tokens[self.token])


class Plan(NamedTuple):
    """Shares of the mass of each point that go along arcs, and the masses that tokens receive."""

    arcs: Arcs
    shares: Array
    received: Array


# slacks that exceed the least one by more than so many ε get no mass; weights may move by so many ε
# before nearest tokens are searched again
_REACH, _MOVE = 6.0, 10.0
_MOST_SEARCHES, _MOST_STEPS, _MOST_CUTS = 40, 60, 10
# the Hessian is damped by the mass that a token lacks, since cells without mass make it singular,
# and is shifted along the constants
_DAMPING, _SHIFT = 1e-2, 1e-9
_MOST_CG_STEPS, _CG_TOLERANCE, _LEAST_SHARE = 300, 0.1, 1e-4


class Ascent:
    """Weights of tokens that ascend the dual functional, smoothed by an entropy ε.

    D(w) = Σ_i m_i w_i - ε Σ_k g_k log Σ_i exp((w_i - dist(x_i, y_k)^p/p)/ε) is concave. Its
    gradient is what tokens lack under the plan whose shares are the exponentials over their sum.
    Its Hessian is a Laplacian on the graph of tokens that share points. Newton's method ascends.

    Parameters
    ----------
    tokens, masses : ndarray, shapes (n, 3) and (n,)
    p : float
    """

    def __init__(self, tokens: Array, masses: Array, p: float) -> None:
        self._tokens, self._masses, self._p = tokens, masses, p
        self.weights = np.zeros(len(masses))

    def climb(self, points: Array, mass: Array, rows: int, epsilon: float, goal: float) -> Plan:
        """The plan from points (K, 3); at best tokens lack and exceed no more than the goal."""
        margin = (_REACH + _MOVE) * epsilon
        for _ in range(_MOST_SEARCHES):
            nearest = Nearest(self._tokens, self.weights, self._p, rows, margin)
            plan, is_done = self._newton(Arcs(points, self._tokens, nearest), mass, epsilon, goal)
            if is_done:
                break
        return plan

    def _newton(self, arcs: Arcs, mass: Array, epsilon: float, goal: float) -> tuple[Plan, bool]:
        """Return the plan along these arcs, and whether it is optimal.

        If not, weights have left their range.
        """
        sent, cost, start = mass[arcs.point], arcs.distance**self._p / self._p, self.weights

        def look(weights: Array) -> tuple[float, Plan]:
            slack = cost - weights[arcs.token]
            least = np.minimum.reduceat(slack, arcs.starts)
            shares = np.exp((least[arcs.point] - slack) / epsilon)
            sums = np.add.reduceat(shares, arcs.starts)
            shares /= sums[arcs.point]
            received = np.bincount(arcs.token, sent * shares, len(weights)).astype(np.float64)
            height = self._masses @ weights + mass @ (least - epsilon * np.log(sums))
            return float(height), Plan(arcs, shares, received)

        height, plan = look(start)
        for _ in range(_MOST_STEPS):
            lack = self._masses - plan.received
            if np.abs(lack).sum() <= goal:
                break
            step = epsilon * _direction(plan, sent, lack)
            step *= min(1.0, _MOVE * epsilon / max(float(np.ptp(step)), 1e-300))
            if np.ptp(self.weights + step - start) > _MOVE * epsilon * (1.0 + ROUNDING):
                return plan, False
            for _ in range(_MOST_CUTS):
                higher, new = look(self.weights + step)
                if higher > height:
                    break
                step *= 0.5
            else:
                break
            self.weights, height, plan = self.weights + step, higher, new
        return plan, True


def _direction(plan: Plan, sent: Array, lack: Array) -> Array:
    """Return x with (diag a - Pᵀ diag(g) P) x = lack by conjugate gradients.

    P has the shares, a = Pᵀ g.
    """
    arcs, n, is_kept = plan.arcs, len(lack), plan.shares > _LEAST_SHARE
    ends = np.append(0, np.cumsum(np.add.reduceat(is_kept.astype(np.intp), arcs.starts)))
    values = (np.sqrt(sent) * plan.shares)[is_kept]
    shares = csr_array((values, arcs.token[is_kept], ends), shape=(len(ends) - 1, n))
    columns = shares.T.tocsr()
    diagonal = (1.0 + _SHIFT) * plan.received + _DAMPING * np.maximum(lack, 0.0) + 1e-14 / n
    alone = np.bincount(arcs.token[is_kept], values**2, minlength=n)
    hessian = LinearOperator((n, n), lambda x: diagonal * x - columns @ (shares @ x), dtype=float)
    inverse = diags_array(1.0 / (diagonal - (1.0 - 1e-6) * alone))
    x, _ = cg(hessian, lack, rtol=_CG_TOLERANCE, maxiter=_MOST_CG_STEPS, M=inverse)
    return np.asarray(x - x.mean())


# the rows of the lattices of the attempts; coarser ones start the search and prove nothing
_ROWS, _ROUGHEST = (64, 128, 256, 512), 16
# the most tokens, times their distance from the density over that of neighbours; the largest degree
_MOST, _LARGEST_LMAX, _LOW_DEGREE = 10_000, 255, 15
# ε is at least the first share of the change of slacks between points, and the second share of the
# gap; it falls by the third factor
_EPSILON, _BIAS, _FALL = 0.1, 0.1, 0.25
# the mass that tokens may lack: on the first lattices, and as a share of the mass whose way across
# the sphere would cost the gap
_ROUGHLY, _LACK = 1e-2, 1e-2
_BLOCK = 1 << 17


def is_semidiscrete(tokens: Spread, density: DensitySpread) -> bool:
    """Whether a weight for each token is worth its work.

    It is not where tokens are many, or are so far from the density, by the H^{-1} norm of low
    degrees, that their Laguerre cells are long: there smooth potentials do.
    """
    if tokens.has_density or density.series.degree > _LARGEST_LMAX:
        return False
    difference = tokens.moments(_LOW_DEGREE) - density.moments(_LOW_DEGREE)
    eigenvalues = np.arange(1.0, _LOW_DEGREE + 1) * np.arange(2.0, _LOW_DEGREE + 2)
    far = np.sqrt(np.sum(Sphere(_LOW_DEGREE).power(difference)[1:] / eigenvalues))
    return bool(len(tokens.points) * max(far / _apart(tokens.masses), 1.0) <= _MOST)


def rows_for(density: DensitySpread) -> Sequence[int]:
    """The rows of lattices that are fine enough for a density."""
    return [rows for rows in _ROWS if rows > density.series.degree + 1]


def _apart(masses: Array) -> float:
    """Return roughly how far apart neighbours are among tokens with these masses."""
    return 2.0 * float(np.sqrt(np.sum(masses**2)))


class Semidiscrete:
    """Proven bounds of W_1 or W_2 between tokens and a density, on finer and finer lattices.

    Upper bound: a plan from the cells of a lattice, each with its mass at its centre. Lower bound:
    the dual functional, see `dual_value`. On each lattice the weights start from those of the last.

    Parameters
    ----------
    tokens : Spread
    density : DensitySpread
    p : float
        1 or 2.
    gap : float
        (upper - lower)/upper that is asked for.
    """

    def __init__(self, tokens: Spread, density: DensitySpread, p: float, gap: float) -> None:
        self._tokens, self._density, self._p, self._gap = tokens, density, p, gap
        self._ascent = Ascent(tokens.points, tokens.masses, p)
        self._rows, self._epsilon, self._far = _ROUGHEST, 1.0, np.pi
        self._lower, self._upper, self._reached = 0.0, np.inf, 1.0

    def refine(self, rows: int) -> Bracket:
        """The bracket with a lattice of so many rows, twice those of the last one."""
        p, density = self._p, self._density
        while self._rows < rows:
            self._climb(_rough_atoms(density, self._rows), _ROUGHLY)
            self._rows *= 2
        atoms = atoms_of(density.series, rows)
        lack = _LACK * max(self._gap, 0.25 * self._reached) * (self._far / np.pi) ** p
        cost = self._climb(atoms, lack) + (2.0 * density.negative + atoms.lost) * np.pi**p
        value = dual_value(self._tokens, density, self._ascent.weights, p, 2 * rows)
        self._lower, self._upper = max(self._lower, value), min(self._upper, cost)
        self._rows *= 2
        check_order(self._lower, self._upper)
        low, high = (end ** (1.0 / p) for end in (self._lower, self._upper))
        self._reached = 1.0 - low / high
        return Bracket(0.5 * (low + high), low, high, proved=True)

    def _climb(self, atoms: Atoms, lack: float) -> float:
        """Return the cost of the plan from the atoms; ε falls to the resolution of this lattice."""
        p, masses, step = self._p, self._tokens.masses, np.pi / self._rows
        while True:
            # slacks of neighbours change by this much from one point to the next
            least = _EPSILON * step * max(self._far, step) ** (p - 1.0)
            least *= min(1.0, _apart(masses) / self._far)
            least = max(least, _BIAS * self._gap * self._far**p)
            self._epsilon = max(_FALL * self._epsilon, least)
            plan = self._ascent.climb(atoms.points, atoms.masses, self._rows, self._epsilon, lack)
            cost = _cost(plan, atoms, masses, p)
            self._far = cost ** (1.0 / p)
            if self._epsilon == least:
                return cost


def _rough_atoms(density: DensitySpread, rows: int) -> Atoms:
    """Return the masses of a grid as atoms; they prove nothing."""
    points, masses = density.on_grid(rows - 1)
    return Atoms(points, masses, np.full(len(masses), (np.pi / rows) ** 2 / 6.0), 0.0)


def _cost(plan: Plan, atoms: Atoms, masses: Array, p: float) -> float:
    """Return ∫ dist^p of the plan; mass that tokens lack or exceed goes as far as it can."""
    arcs = plan.arcs
    lengths = (arcs.distance**2 + atoms.blurs[arcs.point]) ** (0.5 * p)
    missed_mass = 0.5 * float(np.abs(masses - plan.received).sum())
    cost = float((atoms.masses[arcs.point] * plan.shares) @ lengths)
    return float((1.0 + ROUNDING) * cost + (missed_mass + ROUNDING) * np.pi**p)


def dual_value(
    tokens: Spread, density: DensitySpread, weights: Array, p: float, rows: int
) -> float:
    """A bound of p (Σ m_i w_i + ∫ ψ dnu) from below, ψ(y) = min_i dist(x_i, y)^p/p - w_i.

    At the corners of a lattice ψ is known to rounding. It is no more there than the slack of the
    token that is nearest to y. Along an interval of length h this slack lies above its linear
    interpolation but for t(1 - t)h²/2 times its largest second derivative, or 2t(1 - t)h times its
    largest first one. Second derivatives are at most 1 for p = 2 and cot(dist) for p = 1. All that
    is integrated exactly against the density's series.
    """
    lmax, highest = density.series.degree, 1.0 + float(np.abs(weights).max())
    coefficients = series(density.series, lmax)
    nearest = Nearest(tokens.points, weights, p, rows)
    lattice, step = nearest.lattice, nearest.lattice.step
    hat_sums, least = hats(lattice, coefficients, lmax), np.empty(len(lattice.corners))
    for start in range(0, len(least), _BLOCK):
        arcs = Arcs(lattice.corners[start : start + _BLOCK], tokens.points, nearest)
        slack = arcs.distance**p / p - weights[arcs.token]
        least[start : start + _BLOCK] = np.minimum.reduceat(slack, arcs.starts)
    near, far = (each.reshape(lattice.n, lattice.n_lon) for each in (nearest.near, nearest.far))
    with np.errstate(divide="ignore"):
        bent = np.maximum(1.0 / np.tan(near), 0.0) if p == 1.0 else 1.0
    steep, sines = far ** (p - 1.0), np.sin(lattice.edges)
    turning = sines * np.abs(np.cos(lattice.edges))
    widest, turning = (np.maximum(each[:-1], each[1:])[:, None] for each in (sines, turning))
    along = np.minimum(bent, 4.0 * steep / step)
    across = np.minimum(widest**2 * bent + turning * steep, 4.0 * widest * steep / step)
    bulges = cell_bulges(lattice, coefficients, lmax)
    between = float(np.sum(along * bulges[0] + across * bulges[1]))
    of_hats = (hat_sums.masses @ least - between) / float(coefficients[0].real)
    value = tokens.masses @ weights + of_hats
    negative_part = 2.0 * (density.negative + hat_sums.error) * np.pi**p
    return float(p * value - negative_part - p * ROUNDING * highest)
