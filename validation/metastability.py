"""From which β an atom stays at the antipode, how it ends, and the nodes it takes (figures)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf
from validation._inside import KernelOnLine, LineFlowMap
from validation.claims import Claim, main

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])

# a density that is symmetric about θ = 0: π is at rest
SYMMETRIC = mf.FourierSeries(cos=[0.5])
# nodes this near, in radians, belong to an atom
_NEAR = 0.1


def surviving_atom(
    dynamics: mf.SA | mf.USA, t_end: float, law: mf.FourierSeries = SYMMETRIC
) -> tuple[float, float]:
    """Mass within 0.1 rad of π at the end of a run from a symmetric density, and div X there.

    What is near π approaches it at that time where div X < 0, and parts from it where div X > 0.
    Whether mass stays depends on β, and not monotonically.

    Raises
    ------
    ArithmeticError
        If the run can't go on.
    """
    solution = mf.evolve(mf.FlowMap(law), dynamics, t_end, 1)
    if not solution.success:
        raise ArithmeticError(f"the run of {dynamics!r}: {solution.message}")
    flow = cast(LineFlowMap, solution.final)
    mass = flow.weights[np.cos(flow.angles) < -np.cos(_NEAR)].sum()
    field = KernelOnLine(dynamics, 2, dynamics.beta)
    pole = np.array([np.pi])
    rates = field.rates([field.line.kernel(pole[:, None], flow.angles) @ flow.weights], pole)
    return float(mass), float(rates.divergence[0])


def antipode() -> list[Claim]:
    """Density 1 + cos(θ)/2 under USA: from which β on mass stays at π, and for how long."""
    low, high = _threshold(1.77, 1.81)
    name = f"least β with an atom at π: {low:.4f} to {high:.4f}, width"
    _draw_antipode()
    return [
        Claim(name, "bisection", high - low, 1e-3, "sign of div X at π, t = 150"),
        _broken(),
    ]


def _threshold(low: float, high: float) -> tuple[float, float]:
    """Bisection on the sign of div X at π late in the run."""
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        _, spread = surviving_atom(mf.USA(middle), 150.0)
        low, high = (middle, high) if spread > 0.0 else (low, middle)
    return low, high


def _broken() -> Claim:
    """With 1e-8 of sin θ the two atoms are no longer opposite, and merge in the end."""
    law = mf.FourierSeries(cos=[0.5], sin=[1e-8])
    sol = mf.evolve(mf.FlowMap(law), mf.USA(2.0), 2000.0, 40)
    counts = sol.dataset.n_clusters.values
    merged = float(sol.t[np.flatnonzero(counts == 2)[-1]]) if (counts == 2).any() else 0.0
    name = f"β = 2 with 1e-8 of asymmetry: atoms left (two until t = {merged:g})"
    return Claim(name, "symmetric starts only", float(counts[-1]), 1.0, "one Dirac")


def _draw_antipode() -> None:
    betas = np.concatenate(
        [np.arange(1.0, 1.75, 0.25), np.arange(1.76, 1.84, 0.02), np.arange(2.0, 5.1, 0.5)]
    )
    masses = [surviving_atom(mf.USA(float(beta)), 60.0)[0] for beta in betas]
    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    ax = figure.add_subplot()
    ax.plot(betas, masses, "o-", color="#d55e00", ms=4)
    ax.axhline(0.0, color="0.6", linewidth=0.8)
    ax.set_xlabel("β")
    ax.set_ylabel("mass near θ = π at t = 60")
    ax.set_title("USA from density 1 + cos(θ)/2", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURES / "surviving_atom.png", dpi=160)


def nodes(quick: bool) -> list[Claim]:
    """Nodes against the logarithm of the stretching, on circle, zonal and general S^2."""
    runs = {
        "circle": mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 25.0, 25),
        "zonal d = 10": mf.evolve(mf.FlowMap(mf.ZonalSeries(10, [0.8])), mf.SA(4.0), 25.0, 25),
    }
    claims = []
    for name, sol in runs.items():
        sizes, peaks = sol.dataset["size"].values, np.log(sol.dataset.max_density.values)
        slope = (sizes[-1] - sizes[5]) / (peaks[-1] - peaks[5])
        claims.append(
            Claim(
                f"{name}: nodes for each factor e of the peak",
                "log",
                float(slope),
                100.0,
                "no power of it",
            )
        )
    if not quick:
        _draw_nodes(runs)
    return claims


def _draw_nodes(runs: dict[str, mf.Solution]) -> None:
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    ax = figure.add_subplot()
    for (name, sol), colour in zip(runs.items(), ("#0072b2", "#009e73"), strict=True):
        ax.plot(sol.t, sol.dataset["size"].values, color=colour, label=f"{name}: nodes")
        ax.plot(
            sol.t,
            sol.dataset.max_density.values,
            ":",
            color=colour,
            label=f"{name}: peak of f",
        )
    ax.set_yscale("log")
    ax.set_ylim(1.0, 1e5)
    ax.set_xlim(0.0, 25.0)
    ax.set_xlabel("time t")
    ax.set_ylabel("number of nodes, peak of f")
    ax.legend(frameon=False, fontsize=8)
    ax.set_title("SA, β = 4: nodes of a flow map beside the peak that they hold", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURES / "nodes.png", dpi=160)


def check(quick: bool) -> list[Claim]:
    """The antipode and nodes; figures in the full form only."""
    claims = nodes(quick)
    if not quick:
        claims += antipode()
        ds = mf.studies.metastability(mf.SA(20.0), rng=1)
        mf.plot.save(mf.plot.metastability(ds), FIGURES / "metastability.png")
    return claims


if __name__ == "__main__":
    main(check)
