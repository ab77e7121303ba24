"""Theorem 6.9: uniform tokens in many dimensions follow γ(t) within sqrt(log d/d) (6.11).

For n uniform tokens and d large, all <x_i, x_j> stay near the γ of (6.9) (SA) or (6.10) (USA) for
all times. As printed, (6.11) is out of reach: min{2 c^{nt} sqrt(log d/d), C e^{-λt}} with c =
e^{10 max(1, β)} passes 2, the largest gap there can be, at t = log(d)/(20 n) or before, and its
probability 1 - 2n² d^{-1/64} is positive from d = (2n²)^64 on. What it says of d is measured: D,
the largest |<x_i, x_j> - γ(t)| over pairs and times, over sqrt(log d/d), must not grow with d, and
the slope of log D over log d must be that of sqrt(log d/d) or steeper, within 5 standard errors
over independent draws.

What bites of (6.11) and its proof is held as printed: at t = 0 all |<x_i, x_j>| <= 2 sqrt(log d/d);
by (D.5) an orthonormal frame lies within sqrt(log d/d) of the tokens (here the nearest one, the
polar factor); (D.8) 1 - γ <= exp(n² e^β/(2(n + e^{β/2})) - nt/(n + e^{β/2}))/2 and, for USA, Remark
D.1, 1 - γ <= exp(-e^{β/2}(t - n/2))/2, on a grid. Both begin where γ has passed 1/2, by t = n e^β/2
and n/2, and hold from t = 0 on but for (D.8) at n = 2 and β < 0.05: there it is below 1 at t = 0,
where γ = 0, and false up to t = 0.06.

Runs move inner products, which is all that SA and USA ask of tokens with n <= d; those of uniform
tokens are drawn by Bartlett's triangular factor of a Wishart matrix, n × n whatever d is, so that d
goes up to 2^20.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import evolve_batch
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]
Isotropic = mf.SA | mf.USA

N, ERRORS = 8, 5.0
# from where D is far below 1, what it saturates at
DIMS = np.array([2.0**k for k in range(8, 21, 2)])
CASES = tuple(kind(beta) for kind in (mf.SA, mf.USA) for beta in (0.0, 1.0, 3.0))


def size(dim: float | Array) -> Array:
    """sqrt(log d/d)."""
    return np.asarray(np.sqrt(np.log(dim) / dim))


def uniform(count: int, n: int, dim: int, rng: np.random.Generator) -> Array:
    """Unit rows (count, n, n) whose inner products are those of n uniform tokens of S^{d-1}."""
    rows = np.tril(rng.normal(size=(count, n, n)), -1)
    diagonal = np.arange(n)
    rows[:, diagonal, diagonal] = np.sqrt(rng.chisquare(dim - diagonal, size=(count, n)))
    return np.asarray(rows / np.linalg.norm(rows, axis=2, keepdims=True))


@dataclass(frozen=True)
class Spread:
    """D of independent draws over d, for one dynamics."""

    dynamics: Isotropic
    largest: Array

    @property
    def name(self) -> str:
        """Its name and β."""
        return f"{self.dynamics.name}, β = {self.dynamics.beta:g}"

    @property
    def mean(self) -> Array:
        """Mean of log D over the draws, for each d."""
        return np.asarray(np.log(self.largest).mean(axis=1))

    @property
    def error(self) -> Array:
        """Its standard error."""
        draws = self.largest.shape[1]
        return np.asarray(np.log(self.largest).std(axis=1, ddof=1) / np.sqrt(draws))

    @property
    def slope(self) -> tuple[float, float]:
        """Of mean log D over log d, least squares, and its standard error."""
        x = np.log(DIMS) - np.log(DIMS).mean()
        weights = x / (x @ x)
        return float(weights @ self.mean), float(np.sqrt(weights**2 @ self.error**2))

    @property
    def growth(self) -> Array:
        """Rise of log(D/sqrt(log d/d)) from each d to the next, in standard errors."""
        steps = np.diff(self.mean - np.log(size(DIMS)))
        return np.asarray(steps / np.hypot(self.error[1:], self.error[:-1]))


@cache
def spreads(quick: bool) -> list[Spread]:
    """Every dynamics, over all d."""
    found = []
    draws = 24 if quick else 400
    for dynamics in CASES[1::3] if quick else CASES:
        # until γ has come within 1e-3 of 1 and all gaps have closed
        end = 1.5 * mf.theory.orthogonal_arrival(dynamics, N, 1e-3)
        times = end * np.linspace(0.0, 1.0, 41)
        gammas = np.array([mf.theory.orthogonal_tokens(dynamics, N, float(t)) for t in times])
        rng = np.random.default_rng(69)
        rows = []
        for dim in DIMS:
            starts = uniform(draws, N, int(dim), rng)
            grams = evolve_batch(starts, dynamics, times, rtol=1e-8, atol=1e-9, form="gram")
            gaps = np.abs(grams - gammas[:, None, None, None])
            gaps[:, :, np.arange(N), np.arange(N)] = 0.0
            rows.append(gaps.max(axis=(0, 2, 3)))
        found.append(Spread(dynamics, np.array(rows)))
    return found


def falls(quick: bool) -> list[Claim]:
    """How D falls with d."""
    found = []
    x = np.log(DIMS) - np.log(DIMS).mean()
    allowed = float(x @ np.log(size(DIMS)) / (x @ x))
    for one in spreads(quick):
        slope, error = one.slope
        draws = one.largest.shape[1]
        why = f"{draws} draws for each of {len(DIMS)} d, 2^8 to 2^20, n = {N}"
        found += [
            Claim(
                f"{one.name}: slope of log D above that of sqrt(log d/d), in standard errors",
                "(6.11)",
                (slope - allowed) / error,
                ERRORS,
                why,
                f"<= {allowed:.4f}",
                f"{slope:.4f} ± {error:.4f}",
            ),
            Claim(
                f"{one.name}: rise of D/sqrt(log d/d) from d to 4d, in standard errors",
                "(6.11)",
                float(one.growth.max()),
                ERRORS,
                why,
            ),
        ]
    return found


def starts(quick: bool) -> list[Claim]:
    """(6.11) at t = 0, and (D.5)."""
    rng = np.random.default_rng(5)
    products = frames = squares = 0.0
    draws = 100 if quick else 2000
    pairs = np.triu_indices(N, 1)
    for dim in DIMS[4:]:
        points = uniform(draws, N, int(dim), rng)
        inner = (points @ points.transpose(0, 2, 1))[:, *pairs]
        # products of different pairs are uncorrelated; E<x, y>² = 1/d, E<x, y>⁴ = 3/(d(d+2))
        error = np.sqrt((2.0 * dim - 2.0) / (dim + 2.0) / inner.size)
        squares = max(squares, abs(float(dim * np.mean(inner**2)) - 1.0) / float(error))
        left, _, right = np.linalg.svd(points)
        apart = np.linalg.norm(points - left @ right, axis=2)
        products = max(products, float(np.abs(inner).max() / size(dim)))
        frames = max(frames, float(apart.max() / size(dim)))
    name = f"{draws} draws for d = 2^16, 2^18, 2^20"
    # 8 numbers 4d |x_i - y_i|², near χ² of 7 degrees, beyond 4 log d; products are rarer
    why = "a start misses it by chance once in 5e5"
    return [
        Claim(
            f"{name}: d E<x_i, x_j>² - 1, in standard errors", "uniform", squares, ERRORS, "draws"
        ),
        Claim(f"{name}: <x_i, x_j>/sqrt(log d/d) at t = 0", "(6.11)", products, 2.0, why),
        Claim(f"{name}: |x_i - y_i|/sqrt(log d/d), y orthonormal", "(D.5)", frames, 1.0, why),
    ]


def log_bound(dynamics: Isotropic, n: int, t: Array) -> Array:
    """log of (D.8) or of Remark D.1's bound."""
    root = np.exp(0.5 * dynamics.beta)
    if dynamics.normalised:
        return np.asarray(n * (0.5 * n * root**2 - t) / (n + root) - np.log(2.0))
    return np.asarray(root * (0.5 * n - t) - np.log(2.0))


def bounds(quick: bool) -> list[Claim]:
    """1 - γ on a grid of n, β and t; t = 0 among them."""
    found = []
    deltas = np.concatenate([1.0 - np.geomspace(1e-6, 0.5, 20), np.geomspace(1e-12, 0.49, 20)])
    for kind, source in ((mf.SA, "(D.8)"), (mf.USA, "Remark D.1")):
        excess = -np.inf
        for n in (2, 3, 32) if quick else (2, 3, 4, 8, 32, 128, 1024):
            for beta in (0.0, 4.0) if quick else (0.0, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 7.0, 10.0):
                dynamics = kind(beta)
                times = [mf.theory.orthogonal_arrival(dynamics, n, delta) for delta in deltas]
                t, logs = np.append(0.0, times), np.append(0.0, np.log(deltas))
                # only (D.8) may miss before γ = 1/2
                held = (t >= 0.5 * n * np.exp(beta)) | (n > 2) | (kind is mf.USA)
                excess = max(
                    excess, float(np.max((logs - log_bound(dynamics, n, t))[held], initial=-np.inf))
                )
        name = f"{kind.__name__}: log of 1 - γ over its bound"
        name += ", n = 2 from γ = 1/2 on" if kind is mf.SA else ""
        found.append(Claim(name, source, excess, 0.0, "it is a bound"))
    return found


def check(quick: bool) -> list[Claim]:
    """D over d, starts, and bounds of γ."""
    return [*falls(quick), *starts(quick), *bounds(quick)]


def figure(quick: bool) -> Figure:
    """D over d beside sqrt(log d/d), and the ratio of the two."""
    drawn, (over, ratio) = panels(2, f"{N} uniform tokens: largest |<x_i, x_j> - γ(t)| = D")
    for one, colour, marker in zip(spreads(quick), COLOURS, MARKERS, strict=False):
        means, errors = np.exp(one.mean), ERRORS * one.error
        over.plot(DIMS, means, marker, color=colour, ms=4, label=one.name)
        over.vlines(DIMS, means * np.exp(-errors), means * np.exp(errors), color=colour)
        shares = means / size(DIMS)
        ratio.plot(DIMS, shares, marker + "-", color=colour, ms=4, linewidth=0.8)
        ratio.vlines(DIMS, shares * np.exp(-errors), shares * np.exp(errors), color=colour)
    over.plot(DIMS, size(DIMS), **CLAIMED, label="$(\\log d/d)^{1/2}$")
    over.set_yscale("log")
    ratio.set_ylim(bottom=0.0)
    for ax in (over, ratio):
        ax.set_xscale("log", base=2)
    label(over, "d", "D, geometric mean ± 5 standard errors", "over all pairs and times")
    label(ratio, "d", "$D (d/\\log d)^{1/2}$", "the claim: it does not grow")
    return drawn


if __name__ == "__main__":
    main(check)
