"""W_p on the circle: the best of all monotone plans (Delon, Salomon, Sobolevski 2010)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meanfield.transport.cost import cost, cost_slope, sliver
from meanfield.transport.quantiles import Atoms, Quantiles

Array = NDArray[np.float64]

# angles start in [0, 2π) and end below 4π: at these shifts the difference has one sign
_FARTHEST = 2.5
# steps that a search takes before it asks where most atoms begin together
_STEPS = 8
_SHORTEST = 1e-15
# a step goes at least so far into the bracket
_LEAST_SHARE = 1e-4
# relative error of the cost that a search leaves, and the bound from which it is looked at
_ACCURACY, _NEAR = 1e-15, 1e-6
# atoms from which on their best shift is first looked for among a few
_MANY, _FEW = 4_000, 1_000
# how near to a kink a search has come that ends beside one
_KINK = 1e-12


def circle_distance(mu: Quantiles, nu: Quantiles, p: float) -> float:
    """W_p^p = min_s ∫ |Q_mu(u) - Q_nu(u + s)|^p du, convex in s; the root of its derivative.

    W_1 of atoms is the weighted median ∫ |F - G - c| dθ.
    """
    if mu.same_as(nu):
        return 0.0
    if p == 1.0 and isinstance(mu, Atoms) and isinstance(nu, Atoms):
        return _median_of_atoms(mu, nu)
    return float(cost(mu, nu, best_shift(mu, nu, p), p) ** (1.0 / p))


class _Shifts(NamedTuple):
    """Two shifts with the best between them, and dC/ds at both."""

    low: float
    high: float
    at_low: float
    at_high: float

    def with_one(self, shift: float, slope: float) -> _Shifts:
        """Narrowed by one more."""
        if slope > 0.0:
            return self._replace(high=shift, at_high=slope)
        return self._replace(low=shift, at_low=slope)

    def has_root(self) -> bool:
        """Whether the slope changes its sign."""
        return self.at_low < 0.0 < self.at_high


def best_shift(mu: Quantiles, nu: Quantiles, p: float, within: float = _SHORTEST) -> float:
    """The s of the monotone plan Q_mu(u) to Q_nu(u + s) that costs least, at best within so much.

    Of atoms the slope dC/ds is a staircase, with one large step where many of them begin together.
    """
    shifts, ended = _first_shifts(mu, nu, p), False
    atoms = (mu, nu) if isinstance(mu, Atoms) and isinstance(nu, Atoms) else None
    if atoms:
        within = max(within, sliver(len(mu.starts) + len(nu.starts)))
    while not ended:
        width = shifts.high - shifts.low
        shifts, ended = _narrowed(mu, nu, p, shifts, within)
        if atoms and not ended:
            shifts = _about_common_kink(*atoms, p, shifts, within)
        if shifts.high - shifts.low > 0.5 * width and not ended:
            middle = 0.5 * (shifts.low + shifts.high)
            shifts = shifts.with_one(middle, cost_slope(mu, nu, middle, p))
    shift = shifts.low if -shifts.at_low <= shifts.at_high else shifts.high
    return _at_kink(*atoms, shift) if atoms else shift


def _first_shifts(mu: Quantiles, nu: Quantiles, p: float) -> _Shifts:
    """Two to begin with; many atoms are first thinned."""
    if isinstance(mu, Atoms) and isinstance(nu, Atoms) and len(mu.masses) > _MANY:
        reach = 1.0 / _FEW
        guess = best_shift(mu.thinned(_FEW), nu.thinned(_FEW), p, within=0.1 * reach)
        while reach < _FARTHEST:
            shifts = _between(mu, nu, p, guess - reach, guess + reach)
            if shifts.has_root():
                return shifts
            reach *= 8.0
    return _between(mu, nu, p, -_FARTHEST, _FARTHEST)


def _between(mu: Quantiles, nu: Quantiles, p: float, low: float, high: float) -> _Shifts:
    return _Shifts(low, high, cost_slope(mu, nu, low, p), cost_slope(mu, nu, high, p))


def _narrowed(
    mu: Quantiles, nu: Quantiles, p: float, shifts: _Shifts, within: float
) -> tuple[_Shifts, bool]:
    """Some steps of false position with halved ends (Dowell and Jarratt 1971); whether it ended.

    As C is convex, C(s) - min C is at most |dC/ds| times the length of the bracket.
    """
    kept_low, kept_high, last, enough = shifts.at_low, shifts.at_high, 0, -1.0
    for _ in range(_STEPS):
        width = shifts.high - shifts.low
        open_ = min(-shifts.at_low, shifts.at_high) * width
        if not shifts.has_root() or width <= within or open_ <= enough:
            return shifts, True
        share = kept_low / (kept_low - kept_high)
        middle = shifts.low + min(max(share, _LEAST_SHARE), 1.0 - _LEAST_SHARE) * width
        slope = cost_slope(mu, nu, middle, p)
        side = 1 if slope > 0.0 else -1
        kept_low = slope if side < 0 else kept_low * (0.5 if last == side else 1.0)
        kept_high = slope if side > 0 else kept_high * (0.5 if last == side else 1.0)
        last, shifts = side, shifts.with_one(middle, slope)
        if enough < 0.0 and open_ < _NEAR:
            enough = _ACCURACY * _size(mu, nu, middle, p)
    return shifts, False


def _about_common_kink(mu: Atoms, nu: Atoms, p: float, shifts: _Shifts, within: float) -> _Shifts:
    """A bracket about the next shift that lets most atoms begin together, if it is in this one."""
    ahead = mu.starts[:-1] + shifts.low
    ahead -= np.floor(ahead)
    kink = shifts.low + float(np.median(nu.starts[nu.rank(ahead)] - ahead))
    for place in kink - 0.5 * within, kink + 0.5 * within:
        if shifts.low < place < shifts.high:
            shifts = shifts.with_one(place, cost_slope(mu, nu, place, p))
    return shifts


def _size(mu: Quantiles, nu: Quantiles, shift: float, p: float) -> float:
    """The cost that errors are held against; of many atoms by the midpoint rule."""
    if isinstance(mu, Atoms) and isinstance(nu, Atoms) and len(mu.masses) > _MANY:
        u = (np.arange(_FEW) + 0.5) / _FEW
        return float(np.mean(np.abs(mu.quantile(u) - nu.quantile(u + shift)) ** p))
    return cost(mu, nu, shift, p)


def _at_kink(mu: Atoms, nu: Atoms, shift: float) -> float:
    """The shift near this one that lets two atoms begin together, where the cost of atoms is least.

    Beside it a sliver of mass would go the other way round, which costs much where p is large.
    """
    ahead = mu.starts[:-1] + shift
    ahead -= np.floor(ahead)
    place = nu.rank(ahead)
    apart = np.concatenate(
        [nu.starts[place - 1] - ahead, nu.starts[place % len(nu.starts)] - ahead]
    )
    nearest = float(apart[np.argmin(np.abs(apart))])
    return shift + nearest if abs(nearest) < _KINK else shift


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
