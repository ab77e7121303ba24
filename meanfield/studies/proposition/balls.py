"""Λ_k > 0 over an interval of β in ball arithmetic: inequalities that are proved.

Λ_k(β, d) = (β/2)^k/(d/2)_k · F_k, F_k = 0F1(; k + d/2; β²/4) = Σ_j (β²/4)^j/(j! (k + d/2)_j). The
first factor is positive, so a ball for F_k over an interval of β that lies above 0 proves Λ_k > 0
for every β in it. From term to term Λ_{k+1} is Λ_k times β/(2(k + j) + d), so that
0 < Λ_{k+1}/Λ_k < β/(2k + d) for all k: with it, Λ_k > 0 beyond the last degree too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# bits of a ball's centre; and the most, for the two from which the others follow
_PRECISION, _MOST_PRECISION = 160, 20480
# balls for all degrees together, before monotonicity in β takes over
_MOST_BALLS = 4000


@dataclass(frozen=True)
class Balls:
    """What was proved.

    Attributes
    ----------
    positive : ndarray of bool, shape (kmax + 1,)
        Whether Λ_k > 0 is proved for every β of the interval.
    lower, upper : ndarray, shape (kmax + 1,)
        Proved bounds of log Λ_k over the interval.
    count : int
        Number of balls.
    whole : bool
        Whether balls covered the interval for every degree; else those at its lower end did for
        some, and Λ_k grows with β, as each term of its series does.
    tail : float
        A proved bound of Σ_{k > kmax} N_k Λ_k/Σ_{k >= 1} N_k Λ_k at the upper end: what is beyond
        kmax in e^β = Σ N_k Λ_k, the kernel at x = y.
    """

    positive: NDArray[np.bool_]
    lower: Array
    upper: Array
    count: int
    whole: bool
    tail: float


def available() -> bool:
    """Whether python-flint can be imported."""
    try:
        import flint
    except ImportError:
        return False
    return flint is not None


def prove(low: float, high: float, dim: int, kmax: int) -> Balls:
    """Λ_k(β, d) > 0 for k <= kmax and every β in [low, high], 0 < low <= high.

    The interval is halved until each ball lies above 0. Where that takes more than some thousand
    balls, the ball at `low` alone is asked: F_k and Λ_k do not decrease with β, term by term.
    """
    from flint import arb, ctx

    before = ctx.prec
    try:
        return _prove(arb, ctx, (low, high), dim, kmax)
    finally:
        ctx.prec = before


def _prove(arb: Any, ctx: Any, interval: tuple[float, float], dim: int, kmax: int) -> Balls:
    low, high = interval
    positive, bounds = np.zeros(kmax + 1, dtype=np.bool_), np.empty((2, kmax + 1))
    count, whole, multiplicity = 0, True, arb(1)
    leading, seen = [arb(1), arb(1)], arb(0)
    ctx.prec = _PRECISION
    at_ends = [_points(arb, ctx, beta, dim, kmax) for beta in interval]
    for k in range(kmax + 1):
        order = arb(dim) / 2 + k
        # of the balls that are left, the share of this degree
        budget = (_MOST_BALLS - count) // (kmax + 1 - k) if low < high else 0
        ends = [balls[k] for balls in at_ends]
        covered, used = _cover(arb, low, high, order, budget) if low < high else (True, 0)
        whole &= covered
        count += used + 2 if low < high else 1
        positive[k] = bool(ends[0] > 0)
        values = [one * end for one, end in zip(leading, ends, strict=True)]
        if positive[k]:
            bounds[:, k] = _floor(values[0].log()), _ceil(values[1].log())
        multiplicity *= _growth(arb, dim, k)
        if k:
            seen += multiplicity * values[1]
        leading = [one * arb(beta) / 2 / order for one, beta in zip(leading, interval, strict=True)]
    rest = [arb(high).exp() - at_ends[1][0] - seen]
    # N_(k+1) Λ_(k+1)/(N_k Λ_k) < β (k+d-2)/((2k+d-2)(k+1)), which does not grow with k
    ratio = arb(high) * (kmax + dim - 2) / (2 * kmax + dim - 2) / (kmax + 1) if kmax else arb(1)
    if ratio < 1:
        rest.append(multiplicity * values[1] * ratio / (1 - ratio))
    # the lower of both bounds; e^β - Σ cancels where β is small
    tail = min([1.0, *(_ceil(one / (seen + one)) for one in rest if seen + one > 0)])
    return Balls(positive, bounds[0], bounds[1], count, whole, max(tail, 0.0))


def _points(arb: Any, ctx: Any, beta: float, dim: int, kmax: int) -> list[Any]:
    """F_0 … F_kmax at one β, downwards by F_k = F_{k+1} + (β²/4)/(c (c+1)) F_{k+2}, c = k + d/2.

    All terms are positive, so nothing cancels; the two to start from are balls of their own.
    """
    half = arb(dim) / 2
    while True:
        balls = [_series(arb(beta), half + k) for k in (kmax + 1, kmax)]
        bits = min(ball.rel_accuracy_bits() for ball in balls)
        if bits > _PRECISION // 2 or ctx.prec >= _MOST_PRECISION:
            break
        ctx.prec *= 2
    ctx.prec = _PRECISION
    square = arb(beta) * arb(beta) / 4
    for k in range(kmax - 1, -1, -1):
        order = half + k
        balls.append(balls[-1] + square / (order * (order + 1)) * balls[-2])
    return balls[:0:-1]


def _series(beta: Any, order: Any) -> Any:
    """F_k as a ball, for β a ball."""
    return (beta * beta / 4).hypgeom_0f1(order)


def _cover(arb: Any, low: float, high: float, order: Any, budget: int) -> tuple[bool, int]:
    """Whether balls above 0 cover F_k over [low, high], and how many were made."""
    pieces, used = [(low, high)], 0
    while pieces:
        if used >= budget:
            return False, used
        a, b = pieces.pop()
        used += 1
        if _series(arb(a).union(arb(b)), order) > 0:
            continue
        middle = float(np.sqrt(a) * np.sqrt(b))
        if not a < middle < b:
            return False, used
        pieces += [(a, middle), (middle, b)]
    return True, used


def _growth(arb: Any, dim: int, k: int) -> Any:
    """N_k/N_{k-1}, and N_0."""
    if k < 2:
        return arb(dim if k else 1)
    return arb((2 * k + dim - 2) * (k + dim - 3)) / ((2 * k + dim - 4) * k)


def _floor(ball: Any) -> float:
    return float(np.nextafter(float(ball.lower()), -np.inf))


def _ceil(ball: Any) -> float:
    return float(np.nextafter(float(ball.upper()), np.inf))
