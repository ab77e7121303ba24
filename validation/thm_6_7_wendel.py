"""Theorem 6.7: n uniform tokens lie in an open hemisphere with Wendel's probability, and collapse.

For 1 <= d <= n the probability is 2^{-(n-1)} Σ_{k<d} C(n-1, k); 1 for n <= d. Draws of n normal
vectors are decided one by one, without the formula: non-negative least squares for Σ λ_i x_i = 0,
Σ λ_i = 1 ends with a residual (u, s), and either s > 0, when w = -u has <x_i, w> >= s for all i,
or s = 0, when 0 is a convex combination of the points and no open hemisphere holds them. Both
certificates are checked. Shares are held against the formula in standard errors sqrt(P(1-P)/N):
5 of them are passed by chance about once in a million shares. The draws that do lie in a hemisphere
are then run: by Lemma 6.4 each of them ends in one point, at any β, under SA and USA.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import nnls

import meanfield as mf
from validation._inside import evolve_batch
from validation.claims import Claim, main
from validation.drawing import COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]

# d, and the numbers of points: from certain to rare
CASES = {
    2: (2, 3, 4, 6, 9),
    3: (3, 4, 6, 9, 12),
    8: (8, 9, 12, 16, 20, 26),
    24: (24, 28, 40, 48, 60),
}
ERRORS = 5.0
# a system of d + 1 equations of size 1, solved to rounding
ROUNDING = 1e-12
BETAS = 0.0, 1.0, 2.0
# in units of 1 (SA) and e^{-β} (USA); runs end once all their sets are together
TIMES = np.geomspace(0.1, 1e4, 40)
TOGETHER = 1e-6


@dataclass(frozen=True)
class Share:
    """Of `draws` sets of n points how many lie in an open hemisphere, and how sure each is."""

    dim: int
    n: int
    draws: int
    kept: Array
    slack: float

    @property
    def claimed(self) -> float:
        """Wendel's probability."""
        return mf.theory.wendel(self.n, self.dim)

    @property
    def found(self) -> float:
        """The share."""
        return len(self.kept) / self.draws

    @property
    def error(self) -> float:
        """Its standard error, by the formula."""
        return float(np.sqrt(self.claimed * (1.0 - self.claimed) / self.draws))

    @property
    def off(self) -> float:
        """What parts share and formula in standard errors; where P = 1 none may be missing."""
        gap = abs(self.found - self.claimed)
        return gap / self.error if self.error > 0.0 else (np.inf if gap else 0.0)


def decided(points: Array) -> tuple[bool, float]:
    """Whether an open hemisphere holds the rows, and by how much the certificate is off."""
    system = np.vstack([points.T, np.ones(len(points))])
    target = np.eye(len(system))[-1]
    weights = nnls(system, target)[0]
    residual = target - system @ weights
    if np.linalg.norm(residual) <= ROUNDING:
        return False, float(np.abs(residual).max())
    margin = float((points @ -residual[:-1]).min())
    return True, max(0.0, float(residual[-1]) - margin) if margin > 0.0 else np.inf


@cache
def shares(quick: bool) -> list[Share]:
    """Every case, from one generator."""
    rng, found = np.random.default_rng(67), []
    draws = 200 if quick else 16000
    for dim, numbers in CASES.items():
        for n in numbers:
            points = rng.normal(size=(draws, n, dim))
            points /= np.linalg.norm(points, axis=2, keepdims=True)
            verdicts = [decided(one) for one in points]
            inside = np.array([verdict for verdict, _ in verdicts])
            slack = max(slack for _, slack in verdicts)
            found.append(Share(dim, n, draws, points[inside], slack))
    return found


def least(grams: Array) -> Array:
    """The smallest inner product of each set."""
    return np.asarray(grams.min(axis=(1, 2)))


def is_together(products: Array) -> bool:
    """Whether all sets are one cluster."""
    return bool((products > 1.0 - TOGETHER).all())


@cache
def ends(quick: bool) -> list[tuple[mf.SA | mf.USA, Share, Array]]:
    """The smallest inner product over time of the kept draws, for each dynamics and case."""
    found = []
    for share in shares(quick):
        if share.n == share.dim or (quick and share.dim > 8):
            continue
        starts = share.kept[: 8 if quick else 160]
        for beta in BETAS[::2] if quick else BETAS:
            for dynamics in (mf.SA(beta), mf.USA(beta)):
                unit = 1.0 if dynamics.normalised else float(np.exp(-beta))
                rows = evolve_batch(
                    starts, dynamics, unit * TIMES, rtol=1e-6, observe=least, settled=is_together
                )
                found.append((dynamics, share, rows))
    return found


def check(quick: bool) -> list[Claim]:
    """Shares for each d, all of them together, their certificates, and the collapse."""
    found = []
    for dim in CASES:
        some = [share for share in shares(quick) if share.dim == dim]
        worst = max(some, key=lambda share: share.off)
        found.append(
            Claim(
                f"d = {dim}: share in an open hemisphere, in standard errors, {len(some)} n",
                "Theorem 6.7",
                worst.off,
                ERRORS,
                f"{worst.draws} draws each; the worst is n = {worst.n}",
                f"{worst.claimed:.5f} ± {worst.error:.5f}",
                f"{worst.found:.5f}",
            )
        )
    slack = max(share.slack for share in shares(quick))
    total = sum(share.draws for share in shares(quick))
    name = f"certificates of {total} draws: what they miss"
    found.append(Claim(name, "duality", slack, ROUNDING, "rounding in a system of size 1"))
    for kind in (mf.SA, mf.USA):
        rows = [rows[-1] for dynamics, _, rows in ends(quick) if isinstance(dynamics, kind)]
        last = np.concatenate(rows)
        name = f"{kind.__name__}: starts in a hemisphere, of {len(last)}, not in one cluster"
        apart = float(np.sum(~(last > 1.0 - TOGETHER)))
        found.append(Claim(name, "Lemma 6.4", apart, 0.0, "every one of them"))
    return found


def figure(quick: bool) -> Figure:
    """Shares over n, and how starts in a hemisphere collapse."""
    drawn, (often, over) = panels(2, "Uniform tokens in an open hemisphere")
    for dim, colour, marker in zip(CASES, COLOURS, MARKERS, strict=False):
        some = [share for share in shares(quick) if share.dim == dim]
        numbers = np.arange(1, CASES[dim][-1] + 1)
        often.plot(
            numbers / dim,
            [mf.theory.wendel(int(n), dim) for n in numbers],
            "-",
            color=colour,
            linewidth=0.8,
        )
        often.errorbar(
            [share.n / dim for share in some],
            [share.found for share in some],
            [ERRORS * share.error for share in some],
            fmt=marker,
            color=colour,
            ms=4,
            linewidth=0.8,
            label=f"d = {dim}",
        )
    often.set_xlim(0.0, 4.7)
    label(often, "n/d", "probability", "lines: Theorem 6.7; marks: draws, ±5 standard errors")
    _draw_collapse(over, quick)
    return drawn


def _draw_collapse(ax: Axes, quick: bool) -> None:
    """The smallest inner product of sets on the circle, d = 2, over time."""
    some = [row for row in ends(quick) if row[1].dim == 2 and row[0].beta == BETAS[-1]]
    for (_, share, rows), colour in zip(some[::2], COLOURS, strict=False):
        gaps = 1.0 - rows
        ax.plot(TIMES, np.median(gaps, axis=1), "-", color=colour, label=f"n = {share.n}")
        ax.plot(TIMES, gaps.max(axis=1), ":", color=colour)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(TIMES[0], 300.0)
    ax.set_ylim(TOGETHER, 10.0)
    title = f"those in one, d = 2, SA, β = {BETAS[-1]:g}: median, dots slowest"
    label(ax, "t", "1 - least inner product", title)


if __name__ == "__main__":
    main(check)
