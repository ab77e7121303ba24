"""Flow maps on S^2 without symmetry: reference runs, densities, and the way to separate atoms."""

from __future__ import annotations

import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf
from validation._inside import LineFlowMap, geodesic_distance
from validation.claims import Claim, main

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "nodes_s2.png"
SECOND = [np.sin(2.0) * np.cos(0.7), np.sin(2.0) * np.sin(0.7), np.cos(2.0)]
TWO = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher(SECOND, 3.0)], [0.6, 0.4]
)
# t_end, a time at which f is that of a density, and the energy at t_end
REFERENCES = [(mf.USA(4.0), 0.1, 0.05, 2.518173070008), (mf.SA(4.0), 1.5, 1.0, 2.639776082951)]
THREE = mf.Mixture(
    [
        mf.VonMisesFisher([0.5**0.5, 0.0, 0.5**0.5], 8.0),
        mf.VonMisesFisher([-0.5, 0.75**0.5, 0.0], 12.0),
        mf.VonMisesFisher([0.0, -0.6, -0.8], 5.0),
    ],
    [0.5, 0.3, 0.2],
)


def reference(quick: bool) -> list[Claim]:
    """Energies computed elsewhere, f beside `Density`, and the mass of `sol.pdf`."""
    runs = REFERENCES[:1] if quick else REFERENCES
    lmax, times = (63, [0.05]) if quick else (127, [0.2, 0.7, 1.3])
    claims = []
    for dynamics, t_end, _, energy in runs:
        sol = mf.evolve(mf.FlowMap(TWO), dynamics, t_end, 2)
        gained = sol.dataset.energy - sol.dataset.energy[0] - sol.dataset.work
        miss = abs(float(sol.dataset.energy[-1]) - energy)
        name = f"two bumps, {dynamics.name}, β = 4"
        claims += [
            Claim(f"{name}: E({t_end:g})", "reference", miss, 1e-9, "tol 1e-9"),
            Claim(f"{name}: energy balance", "(3.6)", float(abs(gained).max()), 1e-9, "tol 1e-9"),
        ]
    x = mf.Uniform(3).sample(1000, np.random.default_rng(0))
    start = mf.Density(mf.Sphere(95), TWO, tail_tol=1e-12)
    dynamics, _, t, _ = runs[-1]
    dense = mf.evolve(start, dynamics, t, 1, rtol=1e-11, on_unresolved="stop")
    f = cast(mf.Density, dense.final).pdf(x)
    gap = np.abs(sol.pdf(x, t) - f).max() / f.max()
    name = f"f({t:g}) at 1000 points, {dynamics.name}"
    claims.append(Claim(name, "density", float(gap), 1e-10, "tol 1e-9"))
    grid = mf.Sphere(lmax)
    masses = [grid.weights @ sol.pdf(grid.points, at) for at in times]
    worst = float(np.max(np.abs(np.array(masses) - 1.0)))
    claims.append(Claim("∫ f_t dσ by quadrature", "exact", worst, 1e-9, "tol 1e-9"))
    return claims


def to_atoms() -> list[Claim]:
    """Three bumps under SA until nothing is left between the clusters."""
    _forget_peak()
    start = time.perf_counter()
    sol = mf.evolve(mf.FlowMap(THREE), mf.SA(4.0), 20.0, 40)
    seconds = time.perf_counter() - start
    final = cast(mf.FlowMap, sol.final)
    atoms = mf.clusters(final, 0.3).centres
    squares = np.min([geodesic_distance(final.points, atom) ** 2 for atom in atoms], axis=0)
    gibibytes = _peak()
    _draw(sol)
    mass = abs(final.mass() - 1.0)
    gained = sol.dataset.energy - sol.dataset.energy[0] - sol.dataset.work
    name = "three bumps, SA, β = 4, t = 20"
    return [
        Claim(
            f"{name}: W_2 to {len(atoms)} atoms",
            "clusters",
            float(final.weights @ squares) ** 0.5,
            1e-6,
            "nothing between",
        ),
        Claim(f"{name}: seconds", "measured here", seconds, 300.0, "five minutes"),
        Claim(f"{name}: GiB at most", "measured here", gibibytes, 1.0, "one GiB"),
        Claim(f"{name}: mass", "exact", mass, 1e-8, "a few meshes at tol 1e-9"),
        Claim(f"{name}: energy balance", "(3.6)", float(abs(gained).max()), 1e-8, "the same"),
    ]


def _forget_peak() -> None:
    """Let Linux count the peak of memory anew: another script may have run in this process."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _peak() -> float:
    """GiB held at most, since `_forget_peak` on Linux, ever elsewhere."""
    with suppress(OSError):
        rows = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(float(row.split()[1]) for row in rows if row.startswith("VmHWM")) / 2**20
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _draw(sol: mf.Solution) -> None:
    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    ax = figure.add_subplot()
    ax.plot(sol.t, sol.dataset["size"].values, color="#0072b2", label="nodes of the mesh")
    ax.plot(sol.t, sol.dataset["n_atoms"].values, color="#d55e00", label="atoms")
    ax.set_xlabel("time t")
    ax.set_ylabel("number of nodes, of atoms")
    ax.set_xlim(sol.t[0], sol.t[-1])
    ax.set_yscale("symlog", linthresh=10.0)
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False, fontsize=8)
    ax.set_title("SA, β = 4, three bumps on S²: nodes and atoms", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=160)


def symmetric() -> list[Claim]:
    """A von Mises-Fisher law, whose flow map is a line of latitudes, to one atom."""
    sol = mf.evolve(mf.FlowMap(mf.VonMisesFisher([0.0, 0.6, 0.8], 10.0)), mf.SA(4.0), 17.0, 1)
    final = cast(LineFlowMap, sol.final)
    distance = float(final.weights @ final.angles**2) ** 0.5
    name = "von Mises-Fisher law, κ = 10, SA, β = 4, t = 17: W_2 to its mean"
    return [Claim(name, "polar angles", distance, 1e-6, "e^{-t}")]


def check(quick: bool) -> list[Claim]:
    """The quick form leaves out SA without symmetry, and with it the long run to atoms."""
    claims = [*reference(quick), *symmetric()]
    return claims if quick else [*claims, *to_atoms()]


if __name__ == "__main__":
    main(check)
