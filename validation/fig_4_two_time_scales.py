"""Figure 4: on the circle tokens fall into few clusters fast, and these then hardly move.

Figure 4 follows n = 32 uniform tokens of the circle under (SA) and shows them at t = 2.5, 18, 30:
two clusters for β = 4, three for β = 9. One start proves little, so many are drawn: the claim is
that the median number of clusters at t = 30 is two, or three. A median is m where at most half of
all starts have fewer than m and at most half have more; three standard errors are added to both
shares. Two time scales: over [18, 30] the energy of at least half of all starts rises at less than
a hundredth of its rate over [0, 2.5], and no two clusters merge; again with three standard errors.

What a plateau is: the energy (7.4) of k atoms, up to 2 sqrt(β/e) times the largest width of a
cluster as a share of E(δ), since the slope of e^{β(cos x - 1)} is at most sqrt(β/e). How two
clusters leave it: the angle between them follows, for masses a and 1-a,
θ' = -sin θ ((1-a)/(a e + 1-a) + a/((1-a) e + a)), e = e^{β(1-cos θ)}; runs are held against this
one equation from t = 18 on. Runs themselves are held against (SA) in angles, written anew here and
stepped by the classical rule of Runge and Kutta.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.sparse.csgraph import connected_components

import meanfield as mf
from validation._inside import evolve_batch
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, label, panels

Array = NDArray[np.float64]

N = 32
KNOWN = {4.0: 2, 9.0: 3}
SNAPSHOTS = (2.5, 18.0, 30.0)
TIMES = np.array([0.0, *SNAPSHOTS])
# tokens nearer than this, in radians, are of one cluster, and clusters this narrow are atoms
REACH, NARROW = 0.05, 1e-3
# a normal variable is this many standard errors off once in 700 draws
SIGMAS = 3.0
# of inner products, of which arccos leaves the root
ROUNDING = 1e-7
SOURCE = "Figure 4"


def starts(count: int) -> Array:
    """Uniform angles, shape (count, n)."""
    return np.random.default_rng(4).uniform(0.0, 2.0 * np.pi, size=(count, N))


def on_circle(angles: Array) -> Array:
    """Points (cos θ, sin θ)."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


@cache
def grams(beta: float, count: int) -> Array:
    """Inner products at 0 and at the snapshots, shape (4, count, n, n)."""
    found = evolve_batch(on_circle(starts(count)), mf.SA(beta), TIMES, rtol=1e-8, atol=1e-10)
    return np.asarray(found)


def labels(gram: Array, reach: float = REACH) -> NDArray[np.intp]:
    """The cluster of each token of each start, shape (count, n), from 0 for each start."""
    near = gram >= np.cos(reach)
    found = [connected_components(one, directed=False)[1] for one in near]
    return np.array(found, dtype=np.intp)


def counts(gram: Array) -> NDArray[np.intp]:
    """Clusters of each start."""
    return np.asarray(labels(gram).max(axis=1) + 1)


def energies(gram: Array, beta: float) -> Array:
    """E/E(δ)."""
    return np.asarray(np.exp(beta * (gram - 1.0)).mean(axis=(-2, -1)))


def share(name: str, cases: NDArray[np.bool_], claimed: str) -> Claim:
    """That at most half of all starts are of a kind, with three standard errors."""
    part = float(cases.mean())
    error = float(np.sqrt(part * (1.0 - part) / len(cases)))
    why = f"a median; {len(cases)} starts, with {SIGMAS:g} standard errors"
    told = f"{part:.3f} ± {error:.3f}"
    return Claim(name, SOURCE, part + SIGMAS * error, 0.5, why, claimed, told)


def medians(count: int) -> list[Claim]:
    """Two clusters for β = 4, three for β = 9."""
    found = []
    for beta, known in KNOWN.items():
        number = counts(grams(beta, count)[3])
        name = f"β = {beta:g}, t = 30: share of starts with"
        claimed = f"median {known}"
        found.append(share(f"{name} fewer than {known} clusters", number < known, claimed))
        found.append(share(f"{name} more than {known} clusters", number > known, claimed))
    return found


def scales(count: int) -> list[Claim]:
    """Fast and slow: the rate of the energy, and clusters that do not merge."""
    found = []
    for beta in KNOWN:
        known = grams(beta, count)
        energy = energies(known, beta)
        fast = (energy[1] - energy[0]) / SNAPSHOTS[0]
        slow = (energy[3] - energy[2]) / (SNAPSHOTS[2] - SNAPSHOTS[1])
        merged = counts(known[3]) < counts(known[2])
        name = f"β = {beta:g}: share of starts"
        claimed = "slow by a factor 100"
        found += [
            share(f"{name} with > 1 % of the first rate of energy", slow > 0.01 * fast, claimed),
            share(f"{name} with a merger in [18, 30]", merged, "a plateau"),
        ]
    return found


def widths(gram: Array, member: NDArray[np.intp]) -> Array:
    """Largest angle inside a cluster, of each start."""
    same = member[:, :, None] == member[:, None, :]
    return np.asarray(np.arccos(np.clip(np.where(same, gram, 1.0).min(axis=(1, 2)), -1.0, 1.0)))


def atoms(count: int) -> list[Claim]:
    """At t = 30 the energy is that of atoms, one token standing for each cluster."""
    found = []
    for beta in KNOWN:
        gram = grams(beta, count)[3]
        member = labels(gram)
        gap = np.zeros(count)
        for i, (one, which) in enumerate(zip(gram, member, strict=True)):
            first = np.unique(which, return_index=True)[1][which]
            gap[i] = abs(energies(one, beta) - energies(one[np.ix_(first, first)], beta))
        bound = 2.0 * np.sqrt(beta / np.e) * widths(gram, member)
        worst = float(np.max(gap / np.maximum(bound, ROUNDING)))
        name = f"β = {beta:g}, t = 30: energy less that of atoms, over its bound, {count} starts"
        found.append(Claim(name, "(7.4)", worst, 1.0, "bound from the clusters' widths"))
    return found


def apart(gram: Array, member: NDArray[np.intp]) -> float:
    """The angle between two clusters."""
    between = gram[np.ix_(member == 0, member == 1)]
    return float(np.arccos(np.clip(between.mean(), -1.0, 1.0)))


def pair_rate(beta: float, share_of_one: float, theta: float) -> float:
    """θ' of two clusters."""
    a, grown = share_of_one, np.exp(beta * (1.0 - np.cos(theta)))
    pull = (1.0 - a) / (a * grown + 1.0 - a) + a / ((1.0 - a) * grown + a)
    return float(-np.sin(theta) * pull)


def pairs(count: int) -> list[Claim]:
    """Two clusters from t = 18 to 30 against the equation of their angle."""
    beta, worst, cases = 4.0, 0.0, 0
    before, after = grams(beta, count)[2:]
    member = labels(before)
    two = (member.max(axis=1) == 1) & (widths(before, member) < NARROW)
    for one, other, which in zip(before[two], after[two], member[two], strict=True):
        theta, mass = apart(one, which), float(np.mean(which == 0))
        run = solve_ivp(
            lambda t, y, a=mass: [pair_rate(beta, a, float(y[0]))],
            (SNAPSHOTS[1], SNAPSHOTS[2]),
            [theta],
            "DOP853",
            rtol=1e-10,
            atol=1e-12,
        )
        end = float(run.y[0, -1])
        # an error in θ grows as θ' does
        growth = max(1.0, abs(pair_rate(beta, mass, end) / pair_rate(beta, mass, theta)))
        worst, cases = max(worst, abs(apart(other, which) - end) / growth), cases + 1
    name = f"β = 4: angle of two clusters at t = 30, from t = 18, {cases} starts"
    why = "next to π a cos θ right to 1e-8 leaves 1e-4 of θ"
    return [Claim(name, "two clusters", worst if cases else np.nan, 1e-4, why)]


def by_angles(angles: Array, beta: float, step: float) -> Array:
    """Inner products at the snapshots by the classical Runge-Kutta rule of (SA) in angles."""

    def speed(theta: Array) -> Array:
        gap = theta[:, :, None] - theta[:, None, :]
        weight = np.exp(beta * (np.cos(gap) - 1.0))
        return np.asarray(-(weight * np.sin(gap)).sum(axis=2) / weight.sum(axis=2))

    found, theta = [], angles
    for k in range(round(SNAPSHOTS[-1] / step)):
        first = speed(theta)
        second = speed(theta + 0.5 * step * first)
        third = speed(theta + 0.5 * step * second)
        last = speed(theta + step * third)
        theta = theta + step / 6.0 * (first + 2.0 * second + 2.0 * third + last)
        if any(abs((k + 1) * step - t) < 0.5 * step for t in SNAPSHOTS):
            found.append(np.cos(theta[:, :, None] - theta[:, None, :]))
    return np.array(found)


def anew(quick: bool) -> list[Claim]:
    """The same runs by (SA) in angles."""
    found = []
    for beta in KNOWN:
        some = starts(2 if quick else 16)
        runs = evolve_batch(on_circle(some), mf.SA(beta), SNAPSHOTS, rtol=1e-10, atol=1e-12)
        gap = float(np.abs(runs - by_angles(some, beta, 0.05)).max())
        name = f"β = {beta:g}: inner products at t = 2.5, 18, 30 against (SA) in angles"
        why = "rates of order 1: 0.05⁴/120 of a step's rule, which mergers enlarge"
        found.append(Claim(name, "(SA)", gap, 1e-5, why))
    return found


def check(quick: bool) -> list[Claim]:
    """Medians, time scales, atoms, the angle of two clusters, (SA) in angles."""
    count = 100 if quick else 400
    return [*medians(count), *scales(count), *atoms(count), *pairs(count), *anew(quick)]


def tracks(beta: float, times: Array) -> Array:
    """Angles of one start, cut where no token is at first."""
    tokens = np.sort(starts(1)[0])
    gaps = np.diff(tokens, append=tokens[0] + 2.0 * np.pi)
    cut = tokens[np.argmax(gaps)] + 0.5 * gaps.max() - 2.0 * np.pi
    start = mf.Particles(on_circle(tokens))
    sol = mf.evolve(start, mf.SA(beta), times[-1], times, rtol=1e-6, atol=1e-8)
    points = np.array([one.points for one in sol.measures[1:] if isinstance(one, mf.Particles)])
    angles = np.arctan2(points[..., 1], points[..., 0])
    return np.asarray(np.unwrap(np.mod(angles - cut, 2.0 * np.pi), axis=0))


def figure(quick: bool) -> Figure:
    """Tokens of one start, the energy of several, and how many clusters all starts have."""
    drawn, axes = panels(3, "SA on the circle, 32 uniform tokens: fast, then slow", rows=2)
    times = np.geomspace(0.1, 100.0, 60 if quick else 300)
    count = 100 if quick else 400
    for (beta, known), row in zip(KNOWN.items(), (axes[:3], axes[3:]), strict=True):
        left, middle, right = row
        left.semilogx(times, tracks(beta, times) / np.pi, color=COLOURS[0], linewidth=0.6)
        few = on_circle(starts(len(COLOURS)))
        runs = evolve_batch(few, mf.SA(beta), times, rtol=1e-6, atol=1e-8)
        for energy, colour in zip(energies(runs, beta).T, COLOURS, strict=True):
            middle.semilogx(times, energy, color=colour, linewidth=1.0)
        for ax in (left, middle):
            for moment in SNAPSHOTS:
                ax.axvline(moment, **CLAIMED)
        number = np.bincount(counts(grams(beta, count)[3]), minlength=7)
        right.bar(np.arange(len(number)), number / count, color=COLOURS[0], width=0.7)
        right.axvline(known, **CLAIMED, label="claimed")
        label(left, "t", "angle / π", f"β = {beta:g}: one start")
        label(middle, "t", "E/E(δ)", f"{len(COLOURS)} starts; dashed: t = 2.5, 18, 30")
        label(right, "clusters at t = 30", "share of starts", f"{count} starts")
        right.set_xlim(0.4, 6.6)
    return drawn


if __name__ == "__main__":
    main(check)
