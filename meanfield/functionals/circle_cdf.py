"""The norm of H^-1 on the circle as the spread of a difference of distribution functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from meanfield import panels
from meanfield.functionals.moments import atoms_of, moments
from meanfield.geometry import circle_angles
from meanfield.measures import AnyMeasure, Density, LineFlowMap
from meanfield.spaces.circle_at import CircleAt

Array = NDArray[np.float64]

_TURN = 2.0 * np.pi
# Gauss nodes for an interval, by its length times the wavenumber: each to the last digit
_RULES = ((3e-4, 2), (0.06, 4), (1.2, 8), (np.inf, 16))
_LONGEST = 7.5
# of a panel: its parts, and the waves that a part may hold
_PARTS, _WAVES = 4, 5.0
# bisections until Newton's method is safe; its error is squared by the step that ends it
_BISECTIONS, _NEWTON, _CONVERGED = 5, 8, 1e-9


@dataclass(frozen=True)
class Distribution:
    """F(θ) = mu of an arc up to θ, but for a constant: smooth between breaks.

    Attributes
    ----------
    breaks : ndarray, shape (m,)
        Angles in [0, 2π), ascending.
    wavenumbers : ndarray, shape (m,)
        Of F after each break (before the first, that of the last): 0 where it is constant.
    at : callable
        F at angles (n,) in [0, 2π).
    """

    breaks: Array
    wavenumbers: Array
    at: Callable[[Array], Array]


def sobolev_circle(mu: AnyMeasure, nu: AnyMeasure) -> float:
    """2π times the standard deviation over the circle of D = F_mu - F_nu.

    D has Fourier coefficients Δ_k/(2πik), hence Σ_{k≠0} |Δ_k|²/k² = (2π)² Var D. D² is integrated
    by Gauss nodes between the breaks of both, tokens or ends of panels: no series is cut.
    """
    one, other = distribution(mu), distribution(nu)
    breaks = np.concatenate([[0.0], one.breaks, other.breaks])
    starts = np.unique(breaks)
    lengths = np.diff(starts, append=_TURN)
    waves = np.maximum(_after(one, starts), _after(other, starts)) * lengths
    angles, shares = _gauss(starts, lengths, waves)
    difference = one.at(angles) - other.at(angles)
    shares /= _TURN
    difference -= shares @ difference
    return _TURN * float(np.sqrt(shares @ difference**2))


def _after(distribution: Distribution, angles: Array) -> Array:
    # index -1, before the first break, is the last one's stretch
    return distribution.wavenumbers[np.searchsorted(distribution.breaks, angles, "right") - 1]


def _gauss(starts: Array, lengths: Array, waves: Array) -> tuple[Array, Array]:
    """Nodes and weights on all intervals, of as many points as the waves in each ask for."""
    angles, shares, low = [], [], 0.0
    constant = waves == 0.0
    rules = [(constant, 1)]
    for high, count in _RULES:
        rules.append((~constant & (waves >= low) & (waves < high), count))
        low = high
    for chosen, count in rules:
        nodes, weights = legendre.leggauss(count)
        half = 0.5 * lengths[chosen, None]
        angles.append((starts[chosen, None] + half * (1.0 + nodes)).ravel())
        shares.append((half * weights).ravel())
    return np.concatenate(angles), np.concatenate(shares)


def distribution(measure: AnyMeasure) -> Distribution:
    """The distribution function of a measure on the circle."""
    if isinstance(measure, Density):
        return _of_density(measure)
    if isinstance(measure, LineFlowMap) and measure.has_density:
        return _of_flow(measure)
    atoms = atoms_of(measure)
    return _of_steps(circle_angles(atoms.points), atoms.masses)


def _of_steps(angles: Array, masses: Array) -> Distribution:
    order = np.argsort(angles, kind="stable")
    breaks, sums = angles[order], np.concatenate([[0.0], np.cumsum(masses[order])])
    return Distribution(
        breaks, np.zeros(len(breaks)), lambda a: sums[np.searchsorted(breaks, a, "right")]
    )


def _of_density(density: Density) -> Distribution:
    """θ/2π + Σ_{k≠0} f_k e^{ikθ}/(2πik)."""
    basis = CircleAt(density.space.kmax)
    coefficients, _ = moments(density, basis, np.ones(basis.kmax + 1))
    waves = np.zeros_like(coefficients)
    waves[1:] = coefficients[1:] / (1j * basis.degrees[1:] * _TURN)
    count = int(np.ceil(_TURN * basis.kmax / _LONGEST)) + 1
    breaks = np.asarray(_TURN / count * np.arange(count), dtype=np.float64)
    return Distribution(
        breaks,
        np.full(count, float(basis.kmax)),
        lambda a: a / _TURN + basis.values(waves, a),
    )


def _of_flow(flow: LineFlowMap) -> Distribution:
    """The masses up to a label, at the angle of the label: polynomials on each panel."""
    shape = (-1, panels.NODES)
    places = panels.expansions(flow.angles.reshape(shape))
    half_masses = flow.weights.reshape(shape) / panels.GAUSS_WEIGHTS
    primitive = np.asarray(
        legendre.legint(panels.expansions(half_masses), lbnd=-1.0, axis=1), dtype=np.float64
    )
    totals = np.concatenate([[0.0], np.cumsum(flow.weights.reshape(shape).sum(axis=1))])
    cuts = np.linspace(-1.0, 1.0, _PARTS + 1)
    ends = legendre.legval(cuts, places.T)
    # neighbours agree but for rounding and for what the tolerance leaves
    starts = np.maximum.accumulate(ends[:, 0])
    origin = starts[0]
    parts = np.maximum.accumulate(ends[:, :-1].ravel())
    lengths = np.diff(parts, append=origin + _TURN)
    with np.errstate(divide="ignore"):
        waves = np.where(lengths > 0.0, _WAVES / lengths, 0.0)

    def at(angles: Array) -> Array:
        turns = np.floor((angles - origin) / _TURN)
        inside = angles - _TURN * turns
        panel = np.maximum(np.searchsorted(starts, inside, "right") - 1, 0)
        x = _inverse(places, panel, inside)
        share = _values(primitive, panel, x)
        return np.asarray(turns + totals[panel] + share)

    reduced = np.remainder(parts, _TURN)
    order = np.argsort(reduced, kind="stable")
    return Distribution(reduced[order], waves[order], at)


def _values(coefficients: Array, row: NDArray[np.intp], x: Array) -> Array:
    """Σ_j c_{row, j} P_j(x), by the recurrence."""
    before, present = np.ones_like(x), x
    total = coefficients[row, 0] + coefficients[row, 1] * x
    for j in range(1, coefficients.shape[1] - 1):
        before, present = present, ((2 * j + 1) * x * present - j * before) / (j + 1)
        total += coefficients[row, j + 1] * present
    return np.asarray(total)


def _inverse(places: Array, row: NDArray[np.intp], targets: Array) -> Array:
    """x in [-1, 1] at which the panel `row` stands at the target: bisection, then Newton."""
    slopes = np.asarray(legendre.legder(places, axis=1), dtype=np.float64)
    low, high = np.full(len(targets), -1.0), np.ones(len(targets))
    for _ in range(_BISECTIONS):
        x = 0.5 * (low + high)
        below = _values(places, row, x) < targets
        low, high = np.where(below, x, low), np.where(below, high, x)
    x = 0.5 * (low + high)
    for _ in range(_NEWTON):
        slope = _values(slopes, row, x)
        miss = _values(places, row, x) - targets
        step = miss / np.where(slope > 0.0, slope, np.inf)
        x = np.clip(x - step, -1.0, 1.0)
        if np.abs(step).max() < _CONVERGED:
            break
    return x
