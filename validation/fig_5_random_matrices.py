"""Figure 5: tokens cluster for most random Q, K and V (Problem 2), d = 128, n = 32.

Figure 5 draws the share of pairs with <x_i, x_j> >= 0.999 under (2.3), for (a) Q, K and V Ginibre,
(b) QᵀK from the GOE and V >= 0, (c) Q and K Ginibre with V = QᵀK, (d) QᵀK from the GOE and
V = QᵀK. Normalised as by the authors: QᵀK has entries of variance 1 in all four; V is G in (a),
GGᵀ/√d in (b), with N(0, 1) in G, QᵀK/√d in (c) and QᵀK/√(d+1) in (d). What Figure 5 shows is that
tokens cluster for most (Q, K, V); no theorem says so. Measured, each repeat with matrices and
tokens of its own: at β = 0.1, the lower end of the figure, all tokens become one cluster; at β = 1
and 9 they become at most n/4 clusters, often two at opposite points. "Most" is more than half of
all repeats, by the exact binomial lower bound that errs once in a thousand. Clusters are
looked for at t = 15 (β = 0.1) and at 30, the end of the figure, or as soon, 15/√d and 30/√d, where
V is √d times as large; in (c) and (d) with β >= 1 at t = 300. The share of pairs is given with its
standard error. So that nothing hangs on other ensembles, means of squares of what was drawn are
held against their laws.

Runs are held against (2.3) written anew and stepped by the classical rule of Runge and Kutta, and
Q = K = V = I in the same code against Figure 3: its P(t) and its curve (6.12).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import binomtest
from scipy.stats import t as student

import meanfield as mf
from validation._inside import evolve_batch
from validation.claims import Claim, main
from validation.drawing import COLOURS, label, panels
from validation.fig_3_phase_diagram import SIGMAS, half_time

Array = NDArray[np.float64]

DIM, N, DELTA = 128, 32, 1e-3
ROOT = float(np.sqrt(DIM))
LOWEST, BETAS = 0.1, (0.1, 1.0, 9.0)
# ensemble and V in units of `Head.random`, whose matrices have entries of variance 1/d
PANELS = {
    "a": ("ginibre", ROOT),
    "b": ("wigner-positive", ROOT),
    "c": ("ginibre-product", 1.0),
    "d": ("wigner-product", ROOT / np.sqrt(DIM + 1.0)),
}
SOURCE = "Figure 5"
CONFIDENCE = 0.999
# of inner products in a run with steps of 1e-11
ROUNDING = 1e-9


@dataclass(frozen=True)
class Runs:
    """Realisations of one panel at one β, over the times."""

    times: Array
    pairs: Array
    n_clusters: Array

    @property
    def share(self) -> tuple[Array, Array]:
        """The mean share of near pairs over repeats, and its standard error."""
        count = self.pairs.shape[1]
        return self.pairs.mean(axis=1), self.pairs.std(axis=1, ddof=1) / np.sqrt(count)


def attention(panel: str, beta: float, rng: np.random.Generator) -> mf.Attention:
    """Random matrices of a panel, normalised as by the authors."""
    kind, scale = PANELS[panel]
    head = mf.Head.random(kind, DIM, rng)
    return mf.Attention(beta * ROOT, [mf.Head(head.Q, head.K, scale * np.asarray(head.V))])


def tokens(rng: np.random.Generator) -> Array:
    """One repeat of uniform tokens, shape (1, n, d)."""
    return mf.Uniform(DIM).sample(N, rng)[None]


def near_pairs(gram: Array) -> Array:
    """The share of near pairs and the number of clusters of each repeat."""
    near = gram >= 1.0 - DELTA
    pairs = (np.count_nonzero(near, axis=(1, 2)) - N) / (N * (N - 1))
    return np.column_stack([pairs, [connected_components(one, False)[0] for one in near]])


@cache
def runs(panel: str, beta: float, t_end: float, count: int) -> Runs:
    """Realisations with matrices and tokens of their own."""
    times = np.geomspace(1e-3 * t_end, t_end, 40)
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        dynamics = attention(panel, beta, rng)
        # inner products are asked for to a tenth of δ
        one = evolve_batch(tokens(rng), dynamics, times, rtol=1e-4, atol=1e-5, observe=near_pairs)
        found.append(one[:, 0])
    shown = np.array(found)
    return Runs(times, shown[..., 0].T, shown[..., 1].T)


def cases(quick: bool) -> list[tuple[str, float, float, int]]:
    """Panel, β, last time and repeats."""
    found = []
    for panel in PANELS:
        for beta in BETAS[:1] if quick else BETAS:
            fast = panel in "ab"
            t_end = 15.0 if beta == LOWEST else 30.0 if fast else 300.0
            found.append((panel, beta, t_end / ROOT if fast else t_end, 10 if quick else 24))
    return found


def clustering(quick: bool) -> list[Claim]:
    """Most repeats end in one cluster at β = 0.1, in a few elsewhere."""
    found = []
    for panel, beta, t_end, count in cases(quick):
        one = runs(panel, beta, t_end, count)
        most = 1 if beta == LOWEST else N // 4
        good = int(np.count_nonzero(one.n_clusters[-1] <= most))
        low = binomtest(good, count, alternative="greater").proportion_ci(CONFIDENCE).low
        mean, error = (part[-1] for part in one.share)
        text = "one cluster" if most == 1 else f"at most {most} clusters"
        claimed = f"{text} for most"
        told = f"{good} of {count}; share of pairs {mean:.3f} ± {error:.3f}"
        name = f"({panel}), β = {beta:g}, t = {t_end:.3g}: share of (Q, K, V) not so"
        why = f"most: more than half, by a bound of {CONFIDENCE:.1%}"
        found.append(Claim(name, SOURCE, 1.0 - float(low), 0.5, why, claimed, told))
    return found


def by_hand(start: Array, dynamics: mf.Attention, t_end: float, steps: int) -> Array:
    """Inner products at t_end of (2.3) by the classical Runge-Kutta rule."""
    head = dynamics.heads[0]
    query, key, value = (
        m * np.eye(DIM) if np.ndim(m) == 0 else np.asarray(m) for m in (head.Q, head.K, head.V)
    )

    def speed(x: Array) -> Array:
        scores = np.exp(dynamics.beta * (x @ query.T) @ (x @ key.T).T)
        output = (scores / scores.sum(axis=1, keepdims=True)) @ (x @ value.T)
        return np.asarray(output - np.sum(output * x, axis=1, keepdims=True) * x)

    x, step = start[0], t_end / steps
    for _ in range(steps):
        first = speed(x)
        second = speed(x + 0.5 * step * first)
        third = speed(x + 0.5 * step * second)
        last = speed(x + step * third)
        x = x + step / 6.0 * (first + 2.0 * second + 2.0 * third + last)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x @ x.T)


def anew(quick: bool) -> list[Claim]:
    """Inner products of all panels against (2.3) by hand, in units of its error."""
    found, steps = [], 40 if quick else 200
    for panel in PANELS:
        for beta in BETAS[:2] if quick else BETAS:
            rng = np.random.default_rng(7)
            dynamics, start = attention(panel, beta, rng), tokens(rng)
            # |V| is 2√d and 4√d in (a) and (b), up to 4 in (c) and (d)
            t_end = (1.5e-3 if panel in "ab" else 1.5e-2) * steps
            ours = evolve_batch(start, dynamics, [t_end], rtol=1e-11, atol=1e-13)[0, 0]
            coarse, fine = (by_hand(start, dynamics, t_end, k * steps) for k in (1, 2))
            error = float(np.abs(fine - coarse).max()) / 15.0 + ROUNDING
            found.append(float(np.abs(ours - fine).max()) / error)
    name = f"(a) to (d), {len(found)} runs: inner products less those by hand, over their error"
    why = "a fifteenth of what halving the step changes, and as much again"
    return [Claim(name, "(2.3)", max(found), 2.0, why)]


def identity(quick: bool) -> list[Claim]:
    """Q = K = V = I in the same code: Figure 3 at d = 128."""
    betas = [2.0] if quick else [0.1, 2.0, 4.0]
    times = np.linspace(4.0, 9.0, 101)
    count = 12 if quick else 64
    one, other = (
        mf.studies.phase_diagram(several, DIM, N, 9.0, repeats=count, delta=DELTA, save_at=times)
        for several in (
            [mf.SA(beta) for beta in betas],
            [mf.Attention(beta, [mf.Head(np.eye(DIM))]) for beta in betas],
        )
    )
    gap = float(np.abs(one.probability.values - other.probability.values).max())
    why = "pairs within 1e-6 of 0.999, which they pass at 2e-3 per unit of t"
    found = [
        Claim(f"Q = K = V = I, {count} starts: P(t) less Figure 3's", "Figure 3", gap, 5e-3, why)
    ]
    for beta in betas:
        half, error = half_time(other.sel(beta=beta), times)
        exact = mf.theory.orthogonal_arrival(mf.SA(beta), N, DELTA)
        name = f"Q = K = V = I, β = {beta:g}: t at which P = 1/2, off t* by a share of"
        name += ", + 3 errors"
        off = (abs(half - exact) + SIGMAS * error) / exact
        bound, why = (4.0 + 0.5 * beta**2) / DIM, "(4 + β²/2)/d: starts are not orthogonal"
        values = f"{exact:.4f}", f"{half:.4f} ± {error:.4f}"
        found.append(Claim(name, "(6.12)", off, bound, why, *values))
    return found


def ensembles(quick: bool) -> list[Claim]:
    """Entries of QᵀK have variance 1, and V the trace that its law gives it."""
    count = 6 if quick else 40
    bound = float(student.ppf(0.5 + 0.5 * CONFIDENCE, count - 1))
    expected = {"a": DIM, "b": ROOT * DIM, "c": 1.0, "d": 1.0}
    found = []
    for panel in PANELS:
        scores, values = [], []
        for seed in range(count):
            drawn = attention(panel, 1.0, np.random.default_rng(seed))
            scores.append(np.mean(np.asarray(drawn.score_matrices[0]) ** 2))
            v = np.asarray(drawn.heads[0].V)
            # |V|² of a Wishart matrix is less simple than its trace
            values.append(np.trace(v) if panel == "b" else np.sum(v**2) / DIM)
        # (d + 1)/d in the GOE, whose diagonal has variance 2
        unit = 1.0 + 1.0 / DIM if panel in "bd" else 1.0
        for name, drawn_values, claimed in (
            ("mean square of QᵀK", scores, unit),
            ("tr V" if panel == "b" else "tr VᵀV/d", values, expected[panel]),
        ):
            mean = float(np.mean(drawn_values))
            error = float(np.std(drawn_values, ddof=1) / np.sqrt(count))
            off = abs(mean - claimed) / error
            told = f"{mean:.5g} ± {error:.2g}"
            name = f"({panel}): {name}, in standard errors of {count} draws"
            why = "Student's t beyond it once in 1000 draws"
            found.append(Claim(name, SOURCE, off, bound, why, f"{claimed:.5g}", told))
    return found


def check(quick: bool) -> list[Claim]:
    """Clustering, runs by hand, the identity, what was drawn."""
    return [*clustering(quick), *anew(quick), *identity(quick), *ensembles(quick)]


def figure(quick: bool) -> Figure:
    """The share of near pairs over t, with its standard error."""
    drawn, axes = panels(4, f"Random Q, K, V, n = {N}, d = {DIM}: pairs with ⟨x, y⟩ ≥ 0.999")
    colours = dict(zip(BETAS, COLOURS, strict=False))
    for panel, beta, t_end, count in cases(quick):
        ax, one = axes["abcd".index(panel)], runs(panel, beta, t_end, count)
        mean, error = one.share
        ax.semilogx(one.times, mean, color=colours[beta], linewidth=1.2, label=f"β = {beta:g}")
        ax.fill_between(
            one.times, mean - error, mean + error, color=colours[beta], alpha=0.25, linewidth=0
        )
    what = {
        "a": "(a) Q, K, V Ginibre",
        "b": "(b) QᵀK from GOE, V = GGᵀ/√d",
        "c": "(c) Q, K Ginibre, V = QᵀK/√d",
        "d": "(d) QᵀK from GOE, V = QᵀK/√(d+1)",
    }
    for ax, title in zip(axes, what.values(), strict=True):
        ax.set_ylim(-0.02, 1.02)
        label(ax, "t", "share of pairs, mean ± standard error", title)
    return drawn


if __name__ == "__main__":
    main(check)
