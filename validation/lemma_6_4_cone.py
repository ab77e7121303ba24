"""Lemma 6.4: tokens that start in an open hemisphere stay in its cone and meet in one point.

With <x_i(0), w> > 0 for all i, runs of SA, USA and any Q, K with V = I (with and without softmax)
are followed to one point x*, and each step of the proof is held against them:

(6.2), (6.3): r(t) = min <x_i, w> never falls. At every save <X_i, w> is held against the sum
Σ_j A_ij (<x_j, w> - <x_i, x_j> <x_i, w>), with A summed here, and that of the lowest token against
the proof's bound, <X_i, w> >= r Σ_j A_ij (1 - <x_i, x_j>). (6.4): x* = Σ θ_k x_k(t) with θ_k >= 0,
Σ θ_k >= 1, for all t, by non-negative least squares.
(6.5) to (6.7): with α(t) = min <x_i, x*> and a the least that A_ij can be, α' >= a α (1 - α) where
α > 0, so α' >= a (1 - α)/2 from α = 1/2 on. (6.8): from there 1 - α falls at least as fast as
e^{-at/2}. a = e^{-2β|KᵀQ|}/n with softmax, e^{-2β}/n for SA; e^{-β|KᵀQ|}/n without, e^{-β}/n for
USA. The rate that is found is printed beside a/2: the bound is far from sharp.

Tolerances: runs make steps of 1e-12 and are right to 1e-10 after some hundred; x* is where tokens
are 1e-12 apart. Velocities, in units of the largest weight, round by 1e-15 a term.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import nnls

import meanfield as mf
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, label, panels

Array = NDArray[np.float64]
Dynamics = mf.SA | mf.USA | mf.Attention

SIZES = ((3, 2), (8, 3), (16, 3), (8, 20))
BETAS = 0.5, 2.0
KINDS = "SA", "USA", "any Q, K, softmax", "any Q, K, without"
RUN_ERROR, ROUNDING, MET = 1e-10, 1e-13, 1e-12
# 1 - α below it has lost its digits
LOST = 1e-16


@dataclass(frozen=True)
class Model:
    """A dynamics with V = I, its scores <Qx, Ky> = xᵀ M y and the name of its kind."""

    kind: str
    dynamics: Dynamics
    form: Array
    softmax: bool

    @property
    def scale(self) -> float:
        """The largest weight: 1 with softmax, e^{|M|} without."""
        return 1.0 if self.softmax else float(np.exp(self._norm))

    def least(self, n: int) -> float:
        """a, the least that an entry of A can be."""
        return float(np.exp(-(2.0 if self.softmax else 1.0) * self._norm)) / n

    def attention(self, points: Array) -> Array:
        """A_ij."""
        weights = np.exp(points @ self.form @ points.T)
        return np.asarray(
            weights / (weights.sum(axis=1, keepdims=True) if self.softmax else len(points))
        )

    @property
    def _norm(self) -> float:
        return float(np.linalg.norm(self.form, 2))


@dataclass(frozen=True)
class Run:
    """A run in a hemisphere: what is lowest along w and x*, and what the proof asks of it."""

    model: Model
    n: int
    dim: int
    times: Array
    r: Array
    one_minus_alpha: Array
    pull: Array
    cone: Array
    sum_theta: Array
    growth: Array
    sums: Array

    @property
    def bound(self) -> float:
        """a/2 of (6.7)."""
        return 0.5 * self.model.least(self.n)

    @property
    def held(self) -> slice:
        """The saves from α = 1/2 on, while 1 - α has digits."""
        gaps = self.one_minus_alpha
        return slice(int(np.argmax(gaps <= 0.5)), int(np.sum(gaps > LOST)))

    @property
    def over(self) -> float:
        """log of 1 - α over its bound (6.8), at most."""
        gaps, times = self.one_minus_alpha[self.held], self.times[self.held]
        return float(np.max(np.log(gaps / gaps[0]) + self.bound * (times - times[0])))

    @property
    def rate(self) -> float:
        """At which 1 - α fell on the whole from α = 1/2 on."""
        gaps, times = self.one_minus_alpha[self.held], self.times[self.held]
        return float(np.log(gaps[0] / gaps[-1]) / (times[-1] - times[0]))


def models(dim: int, beta: float, rng: np.random.Generator) -> Iterator[Model]:
    """One of each kind."""
    eye = beta * np.eye(dim)
    yield Model(KINDS[0], mf.SA(beta), eye, True)
    yield Model(KINDS[1], mf.USA(beta), eye, False)
    for kind, softmax in zip(KINDS[2:], (True, False), strict=True):
        query, key = rng.normal(size=(2, dim, dim)) / np.sqrt(2.0 * dim)
        dynamics = mf.Attention(beta, [mf.Head(query, key, 1.0)], normalised=softmax)
        yield Model(kind, dynamics, beta * query.T @ key, softmax)


def lengths(vectors: Array) -> Array:
    """|v| of rows."""
    return np.asarray(np.linalg.norm(vectors, axis=1))


def followed(model: Model, start: Array) -> tuple[Array, list[mf.Particles]]:
    """Saves, ever sparser, until all tokens are at one place, or for ten million units of time."""
    times, states = [0.0], [mf.Particles(start)]
    length = 2.0 / model.scale
    for _ in range(60):
        if lengths(states[-1].points - states[-1].points[0]).max() < MET:
            break
        sol = mf.evolve(states[-1], model.dynamics, length, 10, rtol=1e-12, atol=1e-14)
        times += list(times[-1] + sol.t[1:])
        states += [one for one in sol.measures[1:] if isinstance(one, mf.Particles)]
        # metastable starts take long, and nothing happens meanwhile
        length *= 1.3
    return np.array(times), states


def run(model: Model, n: int, dim: int, rng: np.random.Generator) -> Run:
    """Uniform tokens on one side of a random w."""
    w, start = rng.normal(size=dim), rng.normal(size=(n, dim))
    w /= np.linalg.norm(w)
    start *= np.sign(start @ w)[:, None] / lengths(start)[:, None]
    times, states = followed(model, start)
    limit = states[-1].points.mean(axis=0)
    limit /= np.linalg.norm(limit)
    return Run(model, n, dim, times, *np.array([_numbers(model, s, w, limit) for s in states]).T)


def _numbers(model: Model, tokens: mf.Particles, w: Array, limit: Array) -> list[float]:
    """r, 1 - α, lack of <X_i, w>, x* off the cone, Σ θ, lack of α', <X_i, w> off its sums."""
    points = tokens.points
    velocity = model.dynamics.velocity(tokens, at=points)
    along, gaps = points @ w, 0.5 * lengths(points - limit) ** 2
    low, far = int(np.argmin(along)), int(np.argmax(gaps))
    apart = 0.5 * lengths(points - points[low]) ** 2
    attention = model.attention(points)
    pull = along[low] * float(attention[low] @ apart)
    sums = attention @ along - np.sum(attention * (points @ points.T), axis=1) * along
    parted = float(np.abs(velocity @ w - sums).max()) / model.scale
    theta, off = nnls(points.T, limit)
    alpha = 1.0 - gaps[far]
    growth = model.least(len(points)) * max(alpha, 0.0) * gaps[far]
    lacks = pull - velocity[low] @ w, growth - velocity[far] @ limit if alpha > 0.0 else 0.0
    pull_lack, growth_lack = (float(lack) / model.scale for lack in lacks)
    return [along[low], gaps[far], pull_lack, float(off), float(theta.sum()), growth_lack, parted]


@cache
def runs(quick: bool) -> list[Run]:
    """Every kind, size and β."""
    rng = np.random.default_rng(64)
    return [
        run(model, n, dim, rng)
        for _ in range(1 if quick else 4)
        for n, dim in (SIZES[1:3] if quick else SIZES)
        for beta in (BETAS[:1] if quick else BETAS)
        for model in models(dim, beta, rng)
    ]


def check(quick: bool) -> list[Claim]:
    """Each step of the proof for each kind."""
    found = []
    for kind in KINDS:
        some = [one for one in runs(quick) if one.model.kind == kind]
        falls = max(float(np.max(-np.diff(one.r))) for one in some)
        pull = max(float(one.pull.max()) for one in some)
        sums = max(float(one.sums.max()) for one in some)
        cone = max(float(max(one.cone.max(), 1.0 - one.sum_theta.min())) for one in some)
        growth = max(float(one.growth.max()) for one in some)
        over = max(one.over for one in some)
        slowest = min(some, key=lambda one: one.rate / one.bound)
        name = f"{kind}, {len(some)} runs"
        apart = sum(not one.one_minus_alpha[-1] < MET for one in some)
        found += [
            Claim(f"{name}: not in one point at the end", "Lemma 6.4", apart, 0.0, "a count"),
            Claim(f"{name}: largest fall of r", "(6.3)", falls, RUN_ERROR, "steps of 1e-12"),
            Claim(f"{name}: <X_i, w> off its sum", "(6.2)", sums, ROUNDING, "rounding"),
            Claim(f"{name}: lack of <X_i, w>", "(6.2), (6.3)", pull, ROUNDING, "rounding"),
            Claim(f"{name}: x* off Σ θ_k x_k, 1 - Σ θ_k", "(6.4)", cone, RUN_ERROR, "x*: 1e-12"),
            Claim(f"{name}: lack of α'", "(6.5), (6.7)", growth, ROUNDING, "rounding"),
            Claim(
                f"{name}: log of 1 - α over its bound",
                "(6.8)",
                over,
                0.0,
                "0 where it begins",
                f"rate >= {slowest.bound:.3g}",
                f"{slowest.rate:.3g} (n = {slowest.n}, d = {slowest.dim})",
            ),
        ]
    return found


def figure(quick: bool) -> Figure:
    """r over time, and 1 - α beside (6.8)."""
    drawn, (lowest, nearest) = panels(2, "Tokens that start in an open hemisphere")
    for kind, colour in zip(KINDS, COLOURS, strict=False):
        some = [one for one in runs(quick) if one.model.kind == kind]
        for one in some[:6]:
            times = one.model.scale * one.times
            lowest.plot(times[1:], one.r[1:], "-", color=colour, linewidth=0.7)
            kept = (one.one_minus_alpha > LOST) & (times > 0.0)
            nearest.plot(times[kept], one.one_minus_alpha[kept], "-", color=colour, linewidth=0.7)
            begin = one.held.start
            bound = one.one_minus_alpha[begin] * np.exp(-one.bound * (one.times - one.times[begin]))
            nearest.plot(times[begin:], bound[begin:], **{**CLAIMED, "color": colour})
        lowest.plot([], [], "-", color=colour, label=kind)
    nearest.plot([], [], **CLAIMED, label="at most: (6.8)")
    lowest.set_xscale("log")
    nearest.set_xscale("log")
    nearest.set_yscale("log")
    label(lowest, "t times the largest weight", "r = min <x_i, w>", "r never falls")
    label(nearest, "t times the largest weight", "1 - α", "α = min <x_i, x*>, the same runs")
    return drawn


if __name__ == "__main__":
    main(check)
