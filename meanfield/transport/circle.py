"""W_p on the circle: the best of all monotone plans (Delon, Salomon, Sobolevski 2010)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.transport.cost import cost, cost_slope
from meanfield.transport.quantiles import Atoms, Quantiles

Array = NDArray[np.float64]

# angles start in [0, 2π) and end below 4π: at these shifts the difference has one sign
_FARTHEST = 2.5
_MOST_STEPS = 300
_SHORTEST = 1e-15
# a step goes at least so far into the bracket
_LEAST_SHARE = 1e-4
# relative error of the cost that a search leaves, and the bound from which it is looked at
_ACCURACY, _NEAR = 1e-15, 1e-6
# atoms from which on their best shift is first looked for among a few
_MANY, _FEW = 10_000, 2_000
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


def best_shift(mu: Quantiles, nu: Quantiles, p: float, within: float = _SHORTEST) -> float:
    """The s of the monotone plan Q_mu(u) to Q_nu(u + s) that costs least, at best within so much.

    False position with halved ends (Dowell and Jarratt 1971) for the root of dC/ds. As C is convex,
    C(s) - min C is at most |dC/ds| times the length of the bracket: that ends the search.
    """
    low, high, at_low, at_high = _bracket(mu, nu, p)
    kept_low, kept_high, last, enough = at_low, at_high, 0, -1.0
    for _ in range(_MOST_STEPS):
        if at_low >= 0.0 or at_high <= 0.0 or high - low <= within:
            break
        share = kept_low / (kept_low - kept_high)
        middle = low + min(max(share, _LEAST_SHARE), 1.0 - _LEAST_SHARE) * (high - low)
        slope = cost_slope(mu, nu, middle, p)
        side = 1 if slope > 0.0 else -1
        if side > 0:
            high, at_high, kept_high = middle, slope, slope
            kept_low *= 0.5 if last == side else 1.0
        else:
            low, at_low, kept_low = middle, slope, slope
            kept_high *= 0.5 if last == side else 1.0
        last = side
        open_ = min(-at_low, at_high) * (high - low)
        if enough < 0.0 and open_ < _NEAR:
            enough = _ACCURACY * _size(mu, nu, middle, p)
        if open_ <= enough:
            break
    shift = low if -at_low <= at_high else high
    return _at_kink(mu, nu, shift) if isinstance(mu, Atoms) and isinstance(nu, Atoms) else shift


def _bracket(mu: Quantiles, nu: Quantiles, p: float) -> tuple[float, float, float, float]:
    """Two shifts with the best between them, and both slopes; many atoms are first thinned."""
    if isinstance(mu, Atoms) and isinstance(nu, Atoms) and len(mu.masses) > _MANY:
        reach = 1.0 / _FEW
        guess = best_shift(mu.thinned(_FEW), nu.thinned(_FEW), p, within=0.1 * reach)
        while reach < _FARTHEST:
            low, high = guess - reach, guess + reach
            at_low, at_high = (cost_slope(mu, nu, s, p) for s in (low, high))
            if at_low < 0.0 < at_high:
                return low, high, at_low, at_high
            reach *= 8.0
    at_low, at_high = (cost_slope(mu, nu, s, p) for s in (-_FARTHEST, _FARTHEST))
    return -_FARTHEST, _FARTHEST, at_low, at_high


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
