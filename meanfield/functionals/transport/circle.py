"""W_p on a line or the circle: of monotone plans the best (Delon, Salomon, Sobolevski 2010)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from meanfield._checks import EPS
from meanfield.functionals.transport.quantiles import Atoms, Curve, Quantiles, bracketed_roots
from meanfield.spaces.panels import NODES, to_legendre
from meanfield.typing import Array, Indices

# an integrand returns values at places of a curve, and the weight by which an interval's error
# counts
Integrand = Callable[[Indices, Array], tuple[Array, Array]]


class _Rule(NamedTuple):
    """Gauss nodes and weights; the matrix from values to the last three Legendre coefficients."""

    nodes: Array
    weights: Array
    last_modes: Array

    @classmethod
    def of(cls, count: int) -> _Rule:
        nodes, weights = legendre.leggauss(count)
        return cls(nodes, weights, to_legendre(nodes)[-3:].T)


# on so short a part of a piece, whose polynomials have degree 15, few nodes suffice
_SHORT = 1.0 / 16.0
_RULE, _RULE_ON_SHORT = _Rule.of(NODES), _Rule.of(6)
_CHUNK = 1 << 15
_MOST_HALVINGS = 64
# the absolute error that a distance may have, and the distance below which all is rounding
_ACCURACY, _SMALLEST = 1e-13, 1e-13
# a kink is looked for between points this far inside an interval, which has no jump
_INSIDE = 1e-9
# an error δ in the place of a kink costs at most δ in a slope, and δ² in a cost
_KINK = 1e-12


def cost(mu: Quantiles, nu: Quantiles, shift: float, p: float) -> float:
    """C(s) = ∫_0^1 |Q_mu(u) - Q_nu(u + s)|^p du.

    Exact for atoms. Otherwise by Gauss panels on the pieces of both, cut where the difference
    changes its sign and halved where they do not resolve it; zeros of a density, where its
    quantile function has a root's singularity, take some forty halvings.
    """
    if atoms := _both_atoms(mu, nu):
        return _cost_of_atoms(*atoms, shift, p)
    if not mu.is_smooth:
        return cost(nu, mu, -shift, p)

    def integrand(piece: Indices, sigma: Array) -> tuple[Array, Array]:
        density = mu.density(piece, sigma)
        distances = np.abs(_apart(mu, nu, shift, piece, sigma))
        return (distances if p == 1.0 else distances**p) * density, np.abs(density)

    def allowed(total: float) -> float:
        return float(_ACCURACY * p * max(total ** (1.0 / p), _SMALLEST) ** (p - 1.0))

    intervals = _intervals(mu, nu, shift, kinks=p % 2.0 != 0.0)
    more = 8 * len(intervals[0]) + 20_000
    # a density that is negative somewhere may make the sum negative by rounding
    return max(_integral(integrand, intervals, allowed, 1e-17, more, p.is_integer()), 0.0)


def cost_slope(mu: Quantiles, nu: Quantiles, shift: float, p: float) -> float:
    """dC/ds = -p ∫ |D|^{p-1} sign(D) dQ_mu(u), D = Q_mu(u) - Q_nu(u + s); ascending in s.

    Where Q_mu jumps, the integral over the jump is a difference of |D|^p: with atoms no quadrature
    is left.
    """
    if mu.is_smooth and not nu.is_smooth:
        return -cost_slope(nu, mu, -shift, p)
    lowest, highest = mu.ends
    behind = np.append(lowest[1:], lowest[0] + mu.turn)
    quantiles = nu.quantile(mu.starts[1:] + shift)
    jumps = float(np.sum(np.abs(behind - quantiles) ** p - np.abs(highest - quantiles) ** p))
    if not mu.is_smooth:
        return -jumps

    def integrand(piece: Indices, sigma: Array) -> tuple[Array, Array]:
        differences, angle_rate = _apart(mu, nu, shift, piece, sigma), mu.slope(piece, sigma)
        signed = np.sign(differences) * np.abs(differences) ** (p - 1.0)
        return p * signed * angle_rate, np.abs(angle_rate) / mu.turn

    # near the minimum the cost is flat, so an error of the shift counts to second order
    intervals = _intervals(mu, nu, shift, kinks=True)
    more, smooth = len(intervals[0]) + 2_000, p.is_integer()
    return -jumps - _integral(integrand, intervals, lambda cost: 1e-10 * cost, 1e-12, more, smooth)


def _both_atoms(mu: Quantiles, nu: Quantiles) -> tuple[Atoms, Atoms] | None:
    return None if mu.is_smooth or nu.is_smooth else (mu, nu)


def _apart(mu: Curve, nu: Quantiles, shift: float, piece: Indices, sigma: Array) -> Array:
    return mu.angle(piece, sigma) - nu.quantile(mu.mass(piece, sigma) + shift)


def _cost_of_atoms(mu: Atoms, nu: Atoms, shift: float, p: float) -> float:
    """Return the cost of a shift between atoms, summed over the intervals of the merged starts."""
    (own_starts, own_angles), (ahead, angles) = mu.stairs, nu.stairs
    ahead = ahead - shift
    ahead = ahead - np.floor(ahead) if mu.turn else np.clip(ahead, 0.0, 1.0)
    least, count = int(np.argmin(ahead)), len(own_starts)
    starts = np.concatenate([own_starts, ahead[least:], ahead[:least]])
    # both parts are sorted, and a stable sort merges them
    order = np.argsort(starts, kind="stable")
    cuts = np.append(starts[order], 1.0)
    lengths = np.diff(cuts)
    # an interval that is rounding between equal sums of masses may have a large cost
    lengths[lengths < sliver(len(cuts))] = 0.0
    passed = np.cumsum(order < count)
    other_index = np.arange(1, len(order) + 1) - passed + (least - 1)
    turns = np.floor(cuts[:-1] + 0.5 * lengths + shift)
    other_angles = angles[other_index % len(angles)] + mu.turn * turns
    distances = np.abs(own_angles[passed - 1] - other_angles)
    return float(lengths @ distances**p / lengths.sum())


def sliver(count: int) -> float:
    """The rounding of sums of so many masses: a smaller mass is none."""
    return 4.0 * EPS * float(np.sqrt(count))


def _intervals(mu: Curve, nu: Quantiles, shift: float, kinks: bool) -> tuple[Indices, Array, Array]:
    """Return intervals on which both quantile functions are smooth.

    An interval is a piece of mu and both ends in σ.
    """
    masses = nu.starts - shift
    if mu.turn:
        masses = masses - np.floor(masses)
    piece, sigma = mu.place(np.clip(masses, 0.0, 1.0))
    count = len(mu.starts) - 1
    positions = np.unique(np.concatenate([np.arange(count + 1.0), piece + 0.5 * (sigma + 1.0)]))
    if kinks:
        owner, low, high = _between(positions, count)
        width = high - low

        def apart(index: Indices, x: Array) -> Array:
            return _apart(mu, nu, shift, owner[index], x)

        inner_low, inner_high = low + _INSIDE * width, high - _INSIDE * width
        every = np.arange(len(owner))
        changes = np.flatnonzero(apart(every, inner_low) * apart(every, inner_high) < 0.0)
        roots = bracketed_roots(
            lambda i, x: apart(changes[i], x), inner_low[changes], inner_high[changes], _KINK
        )
        positions = np.unique(np.concatenate([positions, owner[changes] + 0.5 * (roots + 1.0)]))
    return _between(positions, count)


def _between(positions: Array, count: int) -> tuple[Indices, Array, Array]:
    piece = np.minimum(positions[:-1].astype(np.intp), count - 1)
    return piece, 2.0 * (positions[:-1] - piece) - 1.0, 2.0 * (positions[1:] - piece) - 1.0


def _integral(
    integrand: Integrand,
    intervals: tuple[Indices, Array, Array],
    allowed: Callable[[float], float],
    least: float,
    most: int,
    is_smooth: bool,
) -> float:
    """Return the integral over the intervals.

    An interval is halved while its tail is more than it may be.

    An interval with less weight than `least` is left as it is, and at most `most` are added, so
    that rounding near zeros of a density is not resolved for ever. Only where the integrand is
    smooth up to both ends of an interval do few nodes serve a short one.
    """
    total, share = 0.0, None
    piece, low, high = intervals
    left = most
    for _ in range(_MOST_HALVINGS):
        sums, tails, weights = _gauss(integrand, piece, low, high, is_smooth)
        if share is None:
            share = allowed(float(np.abs(sums).sum()))
        split = (tails > share * (weights + 1e-3)) & (weights > least)
        left -= 2 * int(split.sum())
        split &= left > 0
        total += float(sums[~split].sum())
        if not split.any():
            return total
        middle = 0.5 * (low[split] + high[split])
        piece = np.repeat(piece[split], 2)
        low = np.stack([low[split], middle], axis=1).ravel()
        high = np.stack([middle, high[split]], axis=1).ravel()
    return total + float(_gauss(integrand, piece, low, high, is_smooth)[0].sum())


def _gauss(
    integrand: Integrand, piece: Indices, low: Array, high: Array, is_smooth: bool
) -> tuple[Array, Array, Array]:
    """Return the sum of each interval.

    The tail of its Legendre series times its length and its weight follow.
    """
    integrals = np.empty((3, len(low)))
    short = is_smooth & (high - low < _SHORT)
    for rule, chosen in ((_RULE_ON_SHORT, short), (_RULE, ~short)):
        inside = np.flatnonzero(chosen)
        for start in range(0, len(inside), _CHUNK):
            part = inside[start : start + _CHUNK]
            half = 0.5 * (high[part] - low[part])
            sigma = 0.5 * (high[part] + low[part])[:, None] + half[:, None] * rule.nodes
            places = np.repeat(piece[part], len(rule.nodes)).reshape(sigma.shape)
            values, weight = integrand(places, sigma)
            integrals[0, part] = half * (values @ rule.weights)
            integrals[1, part] = half * np.abs(values @ rule.last_modes).max(axis=1)
            integrals[2, part] = half * (weight @ rule.weights)
    return integrals[0], integrals[1], integrals[2]


# angles start in [0, 2π) and end below 4π, so beyond these shifts the difference has one sign
_FARTHEST = 2.5
# a search takes so many steps before it asks where most atoms begin together
_STEPS = 8
_SHORTEST = 1e-15
# a step goes at least this share into the bracket
_LEAST_SHARE = 1e-4
# the relative error of the cost at the end of a search, and the bound from which the end is tested
_SEARCH_ACCURACY, _NEAR = 1e-15, 1e-6
# the first guess uses so many angles; from so many atoms on the size of a cost uses so many
# quantiles
_PLACES, _MANY_ATOMS = 1_001, 4_000
# a search ends beside a kink if it is this near to it
_BESIDE_KINK = 1e-12


def distance_of_angles(mu: Quantiles, nu: Quantiles, p: float) -> float:
    """W_p^p = min_s ∫ |Q_mu(u) - Q_nu(u + s)|^p du, convex in s; the root of its derivative.

    W_1 of atoms is the weighted median ∫ |F - G - c| dθ. On a line the shift is 0.
    """
    if mu.same_as(nu):
        return 0.0
    atoms = _both_atoms(mu, nu)
    if p == 1.0 and atoms and mu.turn:
        return _median_of_atoms(*atoms)
    shift = best_shift(mu, nu, p) if mu.turn else 0.0
    return float(cost(mu, nu, shift, p) ** (1.0 / p))


class _Shifts(NamedTuple):
    """Two shifts with the best one between them, and dC/ds at both."""

    low: float
    high: float
    at_low: float
    at_high: float

    def with_one(self, shift: float, rate: float) -> _Shifts:
        """Narrowed by one more."""
        if rate > 0.0:
            return self._replace(high=shift, at_high=rate)
        return self._replace(low=shift, at_low=rate)

    def has_root(self) -> bool:
        """Whether the slope changes its sign."""
        return self.at_low < 0.0 < self.at_high


def best_shift(mu: Quantiles, nu: Quantiles, p: float) -> float:
    """The s of the monotone plan Q_mu(u) to Q_nu(u + s) that costs least.

    Of atoms the slope dC/ds is a staircase, with one large step where many of them begin together.
    """
    shifts, ended = _first_shifts(mu, nu, p), False
    atoms = _both_atoms(mu, nu)
    shift_tol = sliver(len(mu.starts) + len(nu.starts)) if atoms else _SHORTEST
    while not ended:
        width = shifts.high - shifts.low
        shifts, ended = _narrowed(mu, nu, p, shifts, shift_tol)
        if atoms and not ended:
            shifts = _about_common_kink(*atoms, p, shifts, shift_tol)
        if shifts.high - shifts.low > 0.5 * width and not ended:
            middle = 0.5 * (shifts.low + shifts.high)
            shifts = shifts.with_one(middle, cost_slope(mu, nu, middle, p))
    shift = shifts.low if -shifts.at_low <= shifts.at_high else shifts.high
    return _at_kink(*atoms, shift) if atoms else shift


def _first_shifts(mu: Quantiles, nu: Quantiles, p: float) -> _Shifts:
    """Two shifts about a guess, which is the best one for p = 1: the median of F_nu - F_mu."""
    angles = np.linspace(0.0, mu.turn, _PLACES, endpoint=False)
    shifts = nu.cumulative(angles) - mu.cumulative(angles)
    shift, reach = float(np.median(shifts)), _SHORTEST
    mean_gap = float(np.abs(shifts - shift).mean())
    rate = cost_slope(mu, nu, shift, p)
    bracket = _Shifts(shift, shift, rate, rate)
    # to where the slope of the cost has the other sign
    while rate != 0.0 and not bracket.has_root() and abs(shift) < _FARTHEST:
        step = shift - reach if rate > 0.0 else shift + reach
        at_ahead = cost_slope(mu, nu, step, p)
        ends = (step, shift, at_ahead, rate) if rate > 0.0 else (shift, step, rate, at_ahead)
        bracket, shift, rate = _Shifts(*ends), step, at_ahead
        reach = max(8.0 * reach, mean_gap)
    return bracket


def _narrowed(
    mu: Quantiles, nu: Quantiles, p: float, shifts: _Shifts, within: float
) -> tuple[_Shifts, bool]:
    """Make some steps of false position with halved ends (Dowell and Jarratt 1971).

    Return whether it ended.

    As C is convex, C(s) - min C is at most |dC/ds| times the length of the bracket.
    """
    kept_low, kept_high, last_side, enough = shifts.at_low, shifts.at_high, 0, -1.0
    for _ in range(_STEPS):
        width = shifts.high - shifts.low
        open_ = min(-shifts.at_low, shifts.at_high) * width
        if not shifts.has_root() or width <= within or open_ <= enough:
            return shifts, True
        share = kept_low / (kept_low - kept_high)
        middle = shifts.low + min(max(share, _LEAST_SHARE), 1.0 - _LEAST_SHARE) * width
        rate = cost_slope(mu, nu, middle, p)
        side = 1 if rate > 0.0 else -1
        kept_low = rate if side < 0 else kept_low * (0.5 if last_side == side else 1.0)
        kept_high = rate if side > 0 else kept_high * (0.5 if last_side == side else 1.0)
        last_side, shifts = side, shifts.with_one(middle, rate)
        if enough < 0.0 and open_ < _NEAR:
            enough = _SEARCH_ACCURACY * _size(mu, nu, middle, p)
    return shifts, False


def _about_common_kink(mu: Atoms, nu: Atoms, p: float, shifts: _Shifts, within: float) -> _Shifts:
    """Return a bracket about the next shift at which most atoms begin together.

    Without such a shift the bracket stays the same.
    """
    shifted = mu.starts[:-1] + shifts.low
    shifted -= np.floor(shifted)
    kink = shifts.low + float(np.median(nu.starts[nu.rank(shifted)] - shifted))
    for place in kink - 0.5 * within, kink + 0.5 * within:
        if shifts.low < place < shifts.high:
            shifts = shifts.with_one(place, cost_slope(mu, nu, place, p))
    return shifts


def _size(mu: Quantiles, nu: Quantiles, shift: float, p: float) -> float:
    """Return the cost that errors are compared with; of many atoms by the midpoint rule."""
    if (atoms := _both_atoms(mu, nu)) and len(atoms[0].masses) > _MANY_ATOMS:
        u = (np.arange(_PLACES) + 0.5) / _PLACES
        return float(np.mean(np.abs(mu.quantile(u) - nu.quantile(u + shift)) ** p))
    return cost(mu, nu, shift, p)


def _at_kink(mu: Atoms, nu: Atoms, shift: float) -> float:
    """The nearest shift at which two atoms begin together, where the cost of atoms has its minima.

    Beside it a sliver of mass would go the other way round, which costs much where p is large.
    """
    shifted = mu.starts[:-1] + shift
    shifted -= np.floor(shifted)
    place = nu.rank(shifted)
    nearby = nu.starts[place - 1], nu.starts[place % len(nu.starts)]
    gaps = np.concatenate([start - shifted for start in nearby])
    nearest = float(gaps[np.argmin(np.abs(gaps))])
    return shift + nearest if abs(nearest) < _BESIDE_KINK else shift


def _median_of_atoms(mu: Atoms, nu: Atoms) -> float:
    angles = np.concatenate([mu.angles, nu.angles])
    # both are sorted, and a stable sort merges them
    order = np.argsort(angles, kind="stable")
    steps = np.concatenate([mu.masses, -nu.masses])[order]
    lengths = np.diff(angles[order], append=angles[order[0]] + mu.turn)
    excess = np.cumsum(steps)
    ranked = np.argsort(excess)
    half = np.searchsorted(np.cumsum(lengths[ranked]), 0.5 * mu.turn)
    median = excess[ranked[min(int(half), len(ranked) - 1)]]
    return float(lengths @ np.abs(excess - median))
