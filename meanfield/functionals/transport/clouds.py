"""Distances of clouds in any dimension, by the network simplex method of POT.

POT works in doubles with absolute tolerances, so costs far below the largest are nothing to it.
Here its answer is refined until the bounds agree (Gleixner, Steffy and Wolter 2016): potentials
are sums of exact parts, and what they leave of the costs is the next problem, in its own units.
Masses are whole numbers, so that a plan has its marginals exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
import scipy

from meanfield._checks import EPS
from meanfield.functionals.transport import Bracket
from meanfield.kernels.direct import blocks
from meanfield.measures.particles import Particles
from meanfield.spaces.geometry import geodesic_distance
from meanfield.typing import Array, Indices

LARGEST = 1 << 26
_MOST_PIVOTS = 10_000_000
_SAME = 1e-15
# a search ends when the bracket of the cost has this relative width
_GOAL = 1e-12
_MOST_ROUNDS = 40
_NEARLY_BEST = 1e-4
# the relative rounding error of sums of terms of one sign, of reduced costs and of a root
_ROUNDING = 16.0 * EPS
# smaller costs are raised to the least cost, since subnormal numbers lose digits; larger ones are
# cut
_LEAST_COST, _DEAREST = 2.0**-900, 2.0**100
# below this cost a new unit of distances is chosen
_TINY = 2.0**-700
# potentials are multiples of this share of the unit of a round, so that sums of two are exact
_GRID = 2.0**-52
# a search for finer potentials looks at up to so many arcs, and has failed below this potential
_MOST_ARCS, _TOO_NEAR = 1 << 27, -16.0
# so many entries fit into a cache together
_BLOCK = 1 << 16
_LEAST = 5e-324


@dataclass(frozen=True)
class BestPlan:
    """A plan between two finite measures, and proven bounds of the least cost.

    Attributes
    ----------
    plan : scipy.sparse.coo_array, shape (n, m)
    lower, upper : float
        Of the least cost: that of dual potentials, and that of the plan. Rounding is in them.
    """

    plan: scipy.sparse.coo_array
    lower: float
    upper: float


def cloud_distance(mu: Particles, nu: Particles, p: float) -> Bracket:
    """W_p of n and m tokens: O(n m) memory, and time that grows about like n³.

    The measures are those of the stored weights, divided by their exact sums. The plan found gives
    the upper bound, and its dual potentials the lower one.

    Raises
    ------
    ValueError
        If n m > 2^26, or POT is not installed.
    """
    mass_apart = _weights_apart(mu, nu)
    if mass_apart is not None:
        # mass left over by rounding is moved by at most π
        return Bracket(0.0, 0.0, float(np.pi * mass_apart ** (1.0 / p)), proved=True)
    unit, best = cloud_plan(mu, nu, p)
    # W_p is homogeneous of degree 1 in the distances, so it has their relative rounding error
    rounding = _ROUNDING + (mu.dim + 16.0) * EPS
    lower, upper = (float(unit * cost ** (1.0 / p)) for cost in (best.lower, best.upper))
    return Bracket(upper, lower * (1.0 - rounding), upper * (1.0 + rounding), proved=True)


def _weights_apart(mu: Particles, nu: Particles) -> float | None:
    """Return the mass by which equal tokens, numbered in any way, differ.

    The mass is None if it is more than rounding.
    """
    if mu.points.shape != nu.points.shape:
        return None
    mu_order, nu_order = (np.lexsort((cloud.weights, *cloud.points.T)) for cloud in (mu, nu))
    a, b = mu.weights[mu_order], nu.weights[nu_order]
    if not np.array_equal(mu.points[mu_order], nu.points[nu_order]):
        return None
    if np.array_equal(a, b):
        return 0.0
    if not np.allclose(a, b, rtol=_SAME, atol=0.0):
        return None
    # masses whose sum is not 1 count, too
    return float(np.abs(a - b).sum()) + abs(math.fsum(a) - 1.0) + abs(math.fsum(b) - 1.0)


def cloud_plan(mu: Particles, nu: Particles, p: float) -> tuple[float, BestPlan]:
    """A unit r of length, and the best plan of n and m tokens for the cost (dist/r)^p.

    Raises
    ------
    ValueError
        If n m > 2^26, or POT is not installed.
    """
    n, m = len(mu.points), len(nu.points)
    if n * m > LARGEST:
        raise ValueError(f"mu and nu must have n m <= 2^26 pairs of tokens, got {n} and {m} tokens")
    distances = pair_distances(mu.points, nu.points)
    unit = float(distances.max()) or 1.0
    best = best_plan(mu.weights, nu.weights, _powers(distances, unit, p))
    while best.upper < _TINY:
        used = float(distances[best.plan.row, best.plan.col].max())
        if not 0.0 < used < 0.5 * unit:
            break
        costs = _powers(distances, used, p)
        finer = best_plan(mu.weights, nu.weights, costs)
        if costs[finer.plan.row, finer.plan.col].max() >= _DEAREST:
            break
        unit, best = used, finer
    # costs below the least one were raised
    return unit, replace(best, lower=max(best.lower - _LEAST_COST, 0.0))


def _powers(distances: Array, unit: float, p: float) -> Array:
    """Return (dist/unit)^p, kept within the range of normal doubles."""
    with np.errstate(over="ignore", under="ignore"):
        costs = np.minimum((distances / unit) ** p, _DEAREST)
    if costs.min() < _LEAST_COST:
        costs[(costs < _LEAST_COST) & (distances > 0.0)] = _LEAST_COST
    return np.asarray(costs)


def pair_distances(x: Array, y: Array) -> Array:
    """Geodesic distances (n, m), a row at a time since the differences would take d times more."""
    return np.stack([geodesic_distance(point, y) for point in x])


# -- the linear programme --------------------------------------------------------------------------


class _Masses(NamedTuple):
    """Integers with equal sums, in proportion to the masses of two measures."""

    supply: list[int]
    demand: list[int]

    @classmethod
    def of(cls, a: Array, b: Array) -> _Masses:
        """Exactly a and b, divided by their sums."""
        ratios = [mass.as_integer_ratio() for mass in (*a.tolist(), *b.tolist())]
        finest = max(below for _, below in ratios)
        integers = [above * (finest // below) for above, below in ratios]
        supply, demand = integers[: len(a)], integers[len(a) :]
        if sum(supply) != sum(demand):
            totals = sum(demand), sum(supply)
            supply = [totals[0] * mass for mass in supply]
            demand = [totals[1] * mass for mass in demand]
        return cls(supply, demand).reduced()

    def reduced(self) -> _Masses:
        """Without common factors."""
        common = math.gcd(*self.supply, *self.demand)
        return _Masses([x // common for x in self.supply], [x // common for x in self.demand])

    def rounded(self) -> tuple[Array, Array]:
        """Whole numbers with equal sums that a double holds."""
        return _rounded(self.supply), _rounded(self.demand)


def _rounded(masses: list[int]) -> Array:
    total = sum(masses)
    # POT multiplies and divides by the sum, which a power of two makes exact
    if total * max(masses) > 1 << 53:
        masses = [((mass << 53) // total + 1) >> 1 for mass in masses]
        masses[masses.index(max(masses))] += (1 << 52) - sum(masses)
    return np.array(masses, dtype=np.float64)


class _Flow(NamedTuple):
    """The masses, as shares of their sum, that go from rows to columns."""

    rows: Indices
    columns: Indices
    shares: Array

    def total(self, costs: Array) -> float:
        """The sum of shares times costs, right to a few roundings of itself."""
        with np.errstate(under="ignore"):
            return math.fsum(self.shares * costs[self.rows, self.columns])


class _Dual(NamedTuple):
    """Potentials as sums of parts (n,) and (m,), and costs less potentials, all >= 0."""

    parts: list[tuple[Array, Array]]
    reduced: Array

    def plus(self, costs: Array, u: Array, v: Array, step: float) -> _Dual:
        """With another part; u is lowered by steps where a reduced cost would be negative."""
        u = u.copy()
        parts = [*self.parts, (u, v)]
        reduced = _reduced_costs(costs, parts)
        lowest = reduced.min(axis=1)
        while (low := np.flatnonzero(lowest < 0.0)).size:
            u[low] -= step * np.ceil(-lowest[low] / step)
            rows = [(left_side[low], other) for left_side, other in parts]
            reduced[low] = _reduced_costs(costs[low], rows)
            lowest[low] = reduced[low].min(axis=1)
        return _Dual(parts, reduced)


def best_plan(a: Array, b: Array, costs: Array) -> BestPlan:
    """The plan of least cost between masses a (n,) and b (m,), for costs (n, m) >= 0.

    The masses are divided by their exact sums. Each round solves the problem of the reduced costs
    that are left by the potentials found so far, cut off at the largest that equal masses could
    use. Rounds end when the bounds agree to 1e-12, or no longer approach each other.

    Raises
    ------
    ValueError
        If POT is not installed.
    """
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    if len(rows) < len(a) or len(columns) < len(b):
        best = best_plan(a[rows], b[columns], costs[np.ix_(rows, columns)])
        places = rows[best.plan.row], columns[best.plan.col]
        plan = scipy.sparse.coo_array((best.plan.data, places), shape=costs.shape)
        return replace(best, plan=plan)
    masses, dual = _Masses.of(a, b), _Dual([], costs)
    largest, reach = float(costs.max()), float(max(costs.shape))
    unit, upper, gap, resolve = _power_of_two(largest), math.inf, math.inf, True
    for _ in range(_MOST_ROUNDS):
        last_gap, scaled = gap, np.minimum(dual.reduced / unit, 1.0)
        if resolve:
            optimal, u = _solve(masses, scaled)
            if (total := optimal.total(costs)) < upper or upper == math.inf:
                flow, upper = optimal, total
        else:
            u = _tighten(flow, scaled)
        u, v = _transform(scaled, u)
        other = dual.plus(costs, u * unit, v * unit, max(_GRID * unit, _LEAST))
        if flow.total(other.reduced) < flow.total(dual.reduced):
            dual = other
        gap = flow.total(dual.reduced)
        if gap <= _GOAL * upper:
            break
        is_slow = gap > 0.25 * last_gap
        if is_slow and resolve:
            if unit >= largest:
                break
            # expensive arcs with little mass may have been cut off
            reach *= 4096.0
        # a plan that is best to rounding needs finer potentials only
        resolve = gap > _NEARLY_BEST * upper or (is_slow and not resolve)
        unit = _power_of_two(min(reach * gap, largest))
    # shares and products that underflow lose at most this
    underflow = _LEAST * len(flow.shares) if flow.total(np.sign(costs)) > 0.0 else 0.0
    lower = upper * (1.0 - _ROUNDING) - gap * (1.0 + _ROUNDING) - underflow
    plan = scipy.sparse.coo_array((flow.shares, (flow.rows, flow.columns)), shape=costs.shape)
    plan.sum_duplicates()
    return BestPlan(plan, max(lower, 0.0), upper * (1.0 + _ROUNDING) + underflow)


def _power_of_two(above: float) -> float:
    """Return the least power of two that is larger."""
    return math.ldexp(1.0, math.frexp(above)[1])


def _solve(masses: _Masses, costs: Array) -> tuple[_Flow, Array]:
    """Return a plan with exactly these masses, best to rounding, and potentials of its rows.

    Costs are at most 1. What rounding of the masses leaves over is a smaller problem of the kind.
    """
    plan, u = _network_simplex(*masses.rounded(), costs)
    supply, demand = list(masses.supply), list(masses.demand)
    rows, columns = np.nonzero(plan)
    arcs = _peel(rows, columns, supply, demand)
    while any(supply):
        rows = np.array([row for row, mass in enumerate(supply) if mass])
        columns = np.array([column for column, mass in enumerate(demand) if mass])
        rest = _Masses([supply[k] for k in rows], [demand[k] for k in columns]).reduced()
        part = np.ascontiguousarray(costs[np.ix_(rows, columns)])
        plan = _network_simplex(*rest.rounded(), part)[0]
        chosen = np.nonzero(plan)
        further = _peel(rows[chosen[0]], columns[chosen[1]], supply, demand)
        if not further:
            raise ArithmeticError(f"POT found no plan for {len(rows)} and {len(columns)} masses")
        arcs += further
    total = sum(masses.supply)
    shares = np.array([mass / total for _, _, mass in arcs])
    places = np.array([arc[:2] for arc in arcs], dtype=np.intp)
    return _Flow(places[:, 0], places[:, 1], shares), u


def _network_simplex(a: Array, b: Array, costs: Array) -> tuple[Array, Array]:
    """Return POT's plan, and its potentials of the rows."""
    try:
        import ot
    except ImportError as error:
        raise ValueError(
            f"mu and nu must lie on the circle, be symmetric about one axis, or one be a point, "
            f"unless POT is installed (pip install 'meanfield-attention[transport]'); got tokens "
            f"or cells, {len(a)} and {len(b)} of them"
        ) from error
    plan, log = ot.emd(a, b, costs, log=True, numItermax=_MOST_PIVOTS, check_marginals=False)
    return np.asarray(plan), np.asarray(log["u"])


def _peel(
    rows: Indices, columns: Indices, supply: list[int], demand: list[int]
) -> list[tuple[int, int, int]]:
    """Return row, column and mass of a flow on a forest; supply and demand keep the rest."""
    n = len(supply)
    neighbours: list[set[int]] = [set() for _ in range(n + len(demand))]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        neighbours[row].add(n + column)
        neighbours[n + column].add(row)
    leaves = [node for node, others in enumerate(neighbours) if len(others) == 1]
    arcs = []
    while leaves:
        leaf = leaves.pop()
        if not neighbours[leaf]:
            continue
        other = neighbours[leaf].pop()
        neighbours[other].discard(leaf)
        row, column = min(leaf, other), max(leaf, other) - n
        mass = min(supply[row], demand[column])
        supply[row] -= mass
        demand[column] -= mass
        if mass:
            arcs.append((row, column, mass))
        if len(neighbours[other]) == 1:
            leaves.append(other)
    return arcs


def _tighten(flow: _Flow, costs: Array) -> Array:
    """Return potentials of rows that make the arcs of a best plan tight, by Bellman and Ford.

    Only arcs that cost less than 1 take part. Errors of this show in the reduced costs.
    """
    rows, columns = np.nonzero(costs < 1.0)
    lengths, back = costs[rows, columns], costs[flow.rows, flow.columns]
    used = back < 1.0
    starts, ends, back = flow.rows[used], flow.columns[used], back[used]
    far = np.zeros(len(costs))
    for _ in range(min(sum(costs.shape), _MOST_ARCS // max(len(rows), 1))):
        column_potentials = np.full(costs.shape[1], np.inf)
        np.minimum.at(column_potentials, columns, far[rows] + lengths)
        nearer = far.copy()
        np.minimum.at(nearer, starts, column_potentials[ends] - back)
        change = float((far - nearer).max())
        far = nearer
        # a cycle of negative length would make potentials fall without end
        if change <= 4.0 * _GRID or far.min() < _TOO_NEAR:
            break
    return -far


def _transform(costs: Array, u: Array) -> tuple[Array, Array]:
    """Return feasible potentials from those of rows by two c-transforms, multiples of 2^-52."""
    # first min_i (c_ij - u_i), then min_j (c_ij - v_j)
    slices = list(blocks(len(costs), costs.shape[1], _BLOCK))
    v = np.min([(costs[rows] - u[rows, None]).min(axis=0) for rows in slices], axis=0)
    v = np.floor((v - v.max()) / _GRID) * _GRID
    u = np.concatenate([(costs[rows] - v).min(axis=1) for rows in slices])
    return np.floor(u / _GRID) * _GRID, v


def _reduced_costs(costs: Array, parts: list[tuple[Array, Array]]) -> Array:
    """Return c_ij - Σ_k (u_ki + v_kj), with the right sign and a relative error of few roundings.

    Sums u + v are exact. More than one are gathered without error (Shewchuk 1997).
    """
    reduced = np.empty_like(costs)
    for block in blocks(len(costs), costs.shape[1], _BLOCK):
        terms = [costs[block]]
        for u, v in parts:
            term = -(u[block, None] + v)
            if len(parts) == 1:
                terms.append(term)
                break
            for k, part in enumerate(terms):
                term, terms[k] = _two_sum(term, part)
            terms.append(term)
        reduced[block] = reduce(np.add, terms)
    return reduced


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b, rounded, and its rounding error (Knuth)."""
    total = a + b
    recovered = total - a
    return total, (a - (total - recovered)) + (b - recovered)
