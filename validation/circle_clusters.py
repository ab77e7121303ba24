"""Clusters on the circle: two of any masses, and k equal ones, claimed and run.

Two clusters of masses a and 1-a close in at θ' = -e^{β cos θ} sin θ (USA), and at
-sin θ ((1-a)/(a e + 1-a) + a/((1-a) e + a)), e = e^{β(1-cos θ)} (SA). k equal clusters at equal
distances leave at λ_m in the Fourier mode m of their displacements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import exp1, expi, ive

import meanfield as mf
from validation._inside import circle_points

Array = NDArray[np.float64]
Kind = type[mf.SA] | type[mf.USA]

TIGHT: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-14}
SMALL = 1e-6
# share of the largest coefficient of USA's series below which the rest is rounding
ROUNDING = 1e-18


def usa_as_interaction(beta: float, noise: float = 0.0) -> mf.CircleInteraction:
    """USA on the circle, (7.1): h = e^{β cos x} sin x, b_k = (2/β) k I_k(β), to rounding."""
    # I_k(β) falls super-exponentially from k of order sqrt(β) on, where it is below e^β
    orders = np.arange(1, 40 + int(12.0 * np.sqrt(beta)) + int(beta / 4.0))
    if beta < 1e-8:
        # k I_k(β) 2/β = (β/2)^{k-1}/(k-1)!
        return mf.CircleInteraction((1.0, 0.5 * beta)[: 1 + (beta > 0.0)], noise=noise)
    scaled = 2.0 / beta * orders * ive(orders, beta)
    kept = np.flatnonzero(scaled > ROUNDING * scaled.max())[-1] + 1
    return mf.CircleInteraction(tuple((scaled[:kept] * np.exp(beta)).tolist()), noise=noise)


def lifted(sol: mf.Solution) -> Array:
    """Angles of tokens over the times, not wrapped, shape (times, n)."""
    points = np.array([one.points for one in sol.measures if isinstance(one, mf.Particles)])
    return np.asarray(np.unwrap(np.arctan2(points[..., 1], points[..., 0]), axis=0))


def speeds(angles: Array, velocity: Array) -> Array:
    """θ' of tokens that move with these vectors."""
    return np.asarray(velocity[:, 1] * np.cos(angles) - velocity[:, 0] * np.sin(angles))


def pair_speed(dynamics: mf.SA | mf.USA, mass: float, cosine: float) -> float:
    """-θ'/sin θ of two clusters."""
    if isinstance(dynamics, mf.USA):
        return float(np.exp(dynamics.beta * cosine))
    grown = np.exp(dynamics.beta * (1.0 - cosine))
    return float((1 - mass) / (mass * grown + 1 - mass) + mass / ((1 - mass) * grown + mass))


def pair_time(dynamics: mf.SA | mf.USA, mass: float, start: float, end: float) -> float:
    """∫ dθ/θ' from one angle down to another, in c = cos θ."""
    return quad(
        lambda c: 1.0 / (pair_speed(dynamics, mass, c) * (1.0 - c * c)),
        np.cos(start),
        np.cos(end),
        epsabs=0.0,
        epsrel=1e-12,
    )[0]


def closed_time(dynamics: mf.SA | mf.USA, start: float, end: float) -> float:
    """The same in exponential integrals, for USA and for SA with a = 1/2."""
    beta = dynamics.beta

    def usa(c: float) -> float:
        near, far = expi(beta * (1.0 - c)), exp1(beta * (1.0 + c))
        return float(-0.5 * (np.exp(-beta) * near + np.exp(beta) * far))

    def half(c: float) -> float:
        return float(0.25 * np.log((1 + c) / (1 - c)) + 0.5 * np.exp(beta) * usa(c))

    time = usa if isinstance(dynamics, mf.USA) else half
    return time(np.cos(end)) - time(np.cos(start))


@cache
def pair_run(dynamics: mf.SA | mf.USA, mass: float) -> tuple[Array, Array]:
    """Times, and the angle of two atoms that start at 2.5."""
    unit = 1.0 if isinstance(dynamics, mf.SA) else float(np.exp(-dynamics.beta))
    start = mf.Particles(circle_points(np.array([0.0, 2.5])), weights=[mass, 1.0 - mass])
    sol = mf.evolve(start, dynamics, 8.0 * unit, 40, **TIGHT)
    angles = lifted(sol)
    return np.asarray(sol.t), np.abs(angles[:, 1] - angles[:, 0])


@dataclass(frozen=True)
class Escape:
    """k clusters displaced in mode m: the rate claimed and found."""

    k: int
    mode: int
    claimed: float
    found: float
    unit: float

    @property
    def off(self) -> float:
        """What parts them, in units of Σ |h'|/k."""
        return abs(self.found - self.claimed) / self.unit


def slopes(kind: Kind, beta: float, k: int) -> Array:
    """h'(2πj/k)/k, over the mean of e^{β cos} under SA."""
    x = 2.0 * np.pi / k * np.arange(k)
    # a negative β has its largest weight at π
    weights = np.exp(beta * np.cos(x) - abs(beta))
    unit = weights.sum() if kind is mf.SA else k * np.exp(-abs(beta))
    return np.asarray(weights * (np.cos(x) - beta * np.sin(x) ** 2) / unit)


def rates(kind: Kind, beta: float, k: int) -> tuple[float, Array]:
    """Of what parts a cluster, and λ_m of the modes 0 … k/2 of all."""
    x, steep = 2.0 * np.pi / k * np.arange(k), slopes(kind, beta, k)
    modes = np.arange(k // 2 + 1)
    return float(-steep.sum()), -(1.0 - np.cos(np.outer(modes, x))) @ steep


def largest_rate(beta: float, k: int) -> float:
    """Under USA, of the modes of the clusters and of what parts one."""
    parting, modes = rates(mf.USA, beta, k)
    return max(parting, float(modes[1:].max()))


def energy(beta: float, k: int) -> float:
    """E_β of k equal clusters, (I_0 + 2 Σ I_mk)/2β."""
    orders = k * np.arange(1, 80)
    return float(np.exp(beta) * (ive(0, beta) + 2.0 * ive(orders, beta).sum()) / (2.0 * beta))


def interaction(beta: float) -> mf.CircleInteraction:
    """(7.1) for any β ≠ 0, negative too, as (7.5)."""
    orders = np.arange(1, 60)
    signs = np.where(orders % 2, 1.0, np.sign(beta))
    unit = 2.0 * np.exp(abs(beta)) / abs(beta)
    return mf.CircleInteraction(sin=(unit * signs * orders * ive(orders, abs(beta))).tolist())


def escape(
    beta: float, k: int, mode: int, dynamics: mf.SA | mf.USA | mf.CircleInteraction
) -> Escape:
    """Run two tokens in each of k places, displaced by 1e-6 in a mode; 0: the two apart."""
    x = 2.0 * np.pi * np.arange(k) / k
    shape = np.cos(mode * x) if mode else np.ones(k)
    signs = np.array([[1.0], [1.0 if mode else -1.0]])
    away = SMALL * signs * shape
    kind = mf.SA if isinstance(dynamics, mf.SA) else mf.USA
    parting, modes = rates(kind, beta, k)
    claimed = float(modes[mode]) if mode else parting
    unit = float(np.abs(slopes(kind, beta, k)).sum())
    t_end = 0.5 / unit
    sol = mf.evolve(mf.Particles(circle_points((x + away).ravel())), dynamics, t_end, 1, **TIGHT)
    angles = lifted(sol)
    away = away + (angles[-1] - angles[0]).reshape(2, k)
    size = float((signs * away @ shape).mean() / (shape @ shape))
    return Escape(k, mode, claimed, float(np.log(size / SMALL)) / t_end, unit)
