"""What brackets of W_1 and W_2 on S² cost, beside POT's network simplex and Sinkhorn iteration.

"brackets": pairs of densities at lmax = 47 without symmetry, at the default gaps.

"tokens beside their law": samples of two bumps and the density itself, for a gap of 2 %.

"equal gap": a pair at lmax = 47 about a slanted axis, of which our bracket knows nothing, so that
the truth is W_p of polar angles. POT takes atoms, each with the mass of the points of a grid with
192 rings that are nearest to it, made outside of the measured time; its table of costs is made
within, as `wasserstein` makes its own. Moving that mass to the atoms
costs e, so that POT's distance W tells W - e ≤ W_p ≤ W + e: its gap is 2e/(W + e), and falls with
the number m of atoms only like m^(-1/2). "what POT would need" says which m would have our gap, or
our error (of order 1/m), how many GiB its table of costs would take, and how long the simplex,
whose time grows as between the last two m measured; no time is told beyond 1 TiB. Sinkhorn's
distance has the error of its regularisation, too, and no gap. POT's error is far below its gap: who
can do without a proof has an error below 1 % from a few hundred atoms, in less time than our
bracket takes. Ratios are of POT's time to ours. Without POT there is W_1 alone: W_2 on S² needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.spatial import cKDTree

import meanfield as mf
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, peer, ratio
from validation.drawing import COLOURS, MARKERS, label, panels
from validation.sphere_transport import GAPS, SPACE, axisymmetric_law, pairs_without_symmetry, unit
from validation.sphere_transport import width as gap_of

Array = NDArray[np.float64]

REPEATS, SEED, TOKENS = 1, 1, (500, 2000, 8000)
GRIDS, QUICK_GRIDS, FINE = (7, 11, 15, 23), (3, 5), mf.Sphere(127)
# regularisation as a share of the largest cost, on the grid with 1,152 points
SHARES, SINKHORN_ON = (0.1, 0.03, 0.01), 15
# of gaps and errors in the number of atoms, whose cells have the width m^(-1/2)
ORDERS = {"gap": -0.5, "error": -1.0}
LARGEST_TABLE = 1024.0
OWN, SIMPLEX, SINKHORN = "meanfield", "POT, simplex", "POT, Sinkhorn"


def brackets(
    pairs: dict[str, Any], powers: list[int], rounds: int, gap: float | None = None
) -> list[dict[str, Any]]:
    """Values, gaps and seconds."""
    found = []
    for name, pair in pairs.items():
        for p in powers:
            found_in = {OWN: lambda pair=pair, p=p: mf.wasserstein(*pair, p=p, gap=gap)}
            times = interleaved(found_in, rounds)
            bracket = mf.wasserstein(*pair, p=p, gap=gap)
            assert isinstance(bracket, mf.Bracket)
            found.append(
                {
                    "pair": name,
                    "p": p,
                    "W_p": bracket.value,
                    "gap": gap_of(bracket),
                    "seconds": median(times, OWN),
                }
            )
    return found


def beside_law(sizes: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """Samples and their law."""
    rng = np.random.default_rng(SEED)
    law = mf.Mixture([mf.VonMisesFisher(unit(rng), kappa) for kappa in (3.0, 5.0)], [0.4, 0.6])
    clouds = {
        f"{n} tokens": (mf.Particles.sample(law, n, rng), mf.Density(SPACE, law)) for n in sizes
    }
    return brackets(clouds, list(GAPS), rounds, gap=0.02)


def masses(density: mf.Density, points: Array, p: int) -> tuple[Array, float]:
    """The mass that is nearest to each point, and W_p of moving it there, at most."""
    fine = FINE.weights * np.maximum(density.pdf(FINE.points), 0.0)
    fine /= fine.sum()
    chord, nearest = cKDTree(points).query(FINE.points)
    moved = float(fine @ (2.0 * np.arcsin(0.5 * chord)) ** p) ** (1.0 / p)
    return np.bincount(nearest, fine, minlength=len(points)), moved


def simplex(points: Array, one: Array, other: Array, p: int) -> float:
    """W_p of atoms, with the costs made on the way."""
    ot: Any = peer("ot")
    costs = np.arccos(np.clip(points @ points.T, -1.0, 1.0)) ** p
    return float(ot.emd2(one, other, costs, numItermax=10_000_000)) ** (1.0 / p)


def sinkhorn(points: Array, one: Array, other: Array, p: int, share: float) -> float:
    """The cost of the regularised plan, without its entropy."""
    ot: Any = peer("ot")
    costs = np.arccos(np.clip(points @ points.T, -1.0, 1.0)) ** p
    reg = share * float(costs.max())
    return float(ot.sinkhorn2(one, other, costs, reg, stopThr=1e-7)) ** (1.0 / p)


def equal_gap(p: int, grids: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """Ours and POT's on the pair about an axis."""
    rng = np.random.default_rng(SEED)
    axis = unit(rng)
    laws = [axisymmetric_law(rng, axis) for _ in range(2)]
    truth = float(mf.wasserstein(*[mf.Density(mf.Zonal(3, 63, axis), law) for law in laws], p=p))
    pair = [mf.Density(SPACE, law) for law in laws]
    ways: dict[str, Callable[[], Any]] = {OWN: lambda: mf.wasserstein(*pair, p=p)}
    rows: dict[str, dict[str, Any]] = {OWN: {"way": OWN}}
    for lmax in grids if peer("ot") else ():
        points = mf.Sphere(lmax).points
        (one, e_one), (other, e_other) = (masses(density, points, p) for density in pair)
        atoms = points, one, other, p
        ways[f"{SIMPLEX}, {lmax}"] = lambda atoms=atoms: simplex(*atoms)
        rows[f"{SIMPLEX}, {lmax}"] = {"way": SIMPLEX, "atoms": len(points), "e": e_one + e_other}
        for share in SHARES if lmax == SINKHORN_ON else ():
            name = f"{SINKHORN}, {share}"
            ways[name] = lambda atoms=atoms, share=share: sinkhorn(*atoms, share)
            rows[name] = {"way": SINKHORN, "atoms": len(points), "regularisation": share}
    times = interleaved(ways, rounds)
    return [
        {"ratio": ratio(times, name, OWN), "p": p}
        | _told(row, ways[name](), truth)
        | {"seconds": median(times, name)}
        for name, row in rows.items()
    ]


def _told(row: dict[str, Any], found: Any, truth: float) -> dict[str, Any]:
    """With the error, and the gap where there is one."""
    told, e = dict(row), row.get("e")
    told.pop("e", None)
    gap = gap_of(found) if isinstance(found, mf.Bracket) else e and 2.0 * e / (found + e)
    return told | {"error": abs(float(found) / truth - 1.0), "gap": gap}


def needed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the simplex would take for our gap, and for our error, by power laws in m."""
    ours = rows[0]
    few, many = [row for row in rows if row["way"] == SIMPLEX][-2:]

    growth = float(np.log(many["seconds"] / few["seconds"]) / np.log(many["atoms"] / few["atoms"]))
    found = []
    for what, order in ORDERS.items():
        atoms = many["atoms"] * (ours[what] / many[what]) ** (1.0 / order)
        table, seconds = 8.0 * atoms**2 / 2**30, many["seconds"] * (atoms / many["atoms"]) ** growth
        found.append(
            {
                "ratio": seconds / ours["seconds"] if table <= LARGEST_TABLE else None,
                "p": ours["p"],
                "for": f"our {what}, {ours[what]:.1e}",
                "atoms": atoms,
                "GiB of costs": table,
                "seconds, extrapolated": seconds if table <= LARGEST_TABLE else None,
                "order of time": growth,
            }
        )
    return found


def measure(quick: bool) -> Tables:
    """Every pair and exponent; the short form takes one pair and W_1."""
    pairs = pairs_without_symmetry(np.random.default_rng(5))
    rounds = 1 if quick else REPEATS
    # W_2 on S² needs POT
    powers = [1] if quick or peer("ot") is None else list(GAPS)
    chosen = dict(list(pairs.items())[:1]) if quick else pairs
    beside = {p: equal_gap(p, QUICK_GRIDS if quick else GRIDS, rounds) for p in powers}
    return {
        "brackets": brackets(chosen, powers, rounds),
        "tokens beside their law": beside_law((50,) if quick else TOKENS, rounds),
        "equal gap": [row for rows in beside.values() for row in rows],
        "what POT would need": [row for rows in beside.values() for row in needed(rows)]
        if peer("ot")
        else [],
    }


def figure(tables: Tables) -> Figure:
    """Error, and gap where there is one, over time."""
    rows = tables["equal gap"]
    powers = sorted({row["p"] for row in rows})
    drawing, axes = panels(len(powers), "W_p on S²: error (full) and proven gap (open) over time")
    for ax, p in zip(axes, powers, strict=True):
        for way, colour, marker in zip((OWN, SIMPLEX, SINKHORN), COLOURS, MARKERS, strict=False):
            chosen = [row for row in rows if (row["p"], row["way"]) == (p, way)]
            seconds = [row["seconds"] for row in chosen]
            ax.loglog(
                seconds, [row["error"] for row in chosen], marker + "-", color=colour, label=way
            )
            if all(row["gap"] for row in chosen):
                gaps = [row["gap"] for row in chosen]
                ax.loglog(seconds, gaps, marker + ":", color=colour, markerfacecolor="none")
        label(ax, "seconds", "relative to W_p", f"p = {p}")
    return drawing


if __name__ == "__main__":
    main(measure, figure, packages=("ducc0", "POT"))
