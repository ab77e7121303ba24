"""Flow maps: reference runs, agreement with densities, mergers, the way to the Dirac."""

from __future__ import annotations

import time

import numpy as np

import meanfield as mf
from validation.claims import Claim, main

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])


def balance(sol: mf.Solution) -> float:
    """The largest gap of E(t) - E(0) = ∫ dissipation."""
    energy, work = sol.dataset["energy"].values, sol.dataset["work"].values
    return float(np.max(np.abs(energy - energy[0] - work)))


def atoms(angles: np.ndarray) -> mf.FlowMap:
    """Equal atoms on the circle."""
    return mf.FlowMap(mf.PointCloud(np.column_stack([np.cos(angles), np.sin(angles)])))


def reference() -> list[Claim]:
    """Energies of a Fourier run with N = 8192."""
    claims = []
    for dynamics, t_end, energy in [
        (mf.SA(4.0), 5.0, 3.62038354988778),
        (mf.USA(4.0), 0.5, 3.41738665514126),
    ]:
        sol = mf.evolve(mf.FlowMap(LAW), dynamics, t_end, 4)
        name = f"circle, {dynamics.name}, β = 4: E({t_end:g}), N = 8192 agrees"
        miss = abs(float(sol.dataset.energy[-1]) - energy)
        claims.append(Claim(name, "reference", miss, 1e-11, "tol 1e-12"))
    return claims


def agreement(dims: list[int]) -> list[Claim]:
    """Energy, and f at 1000 points of σ, against `Density` while both are resolved."""
    claims = []
    for dim in dims:
        law = LAW if dim == 2 else mf.ZonalSeries(dim, [0.8])
        space = mf.Circle(256) if dim == 2 else mf.Zonal(dim, 63)
        x = mf.Uniform(dim).sample(1000, np.random.default_rng(dim))
        energies, values = [], []
        for dynamics, t_end in [(mf.SA(4.0), 2.0), (mf.USA(4.0), 0.1 if dim < 10 else 0.3)]:
            flow = mf.evolve(mf.FlowMap(law), dynamics, t_end, 2)
            dense = mf.evolve(
                mf.Density(space, law, tail_tol=1e-12),
                dynamics,
                t_end,
                2,
                rtol=1e-11,
                atol=1e-14,
                on_unresolved="stop",
            )
            energies.append(np.max(np.abs(flow.dataset.energy - dense.dataset.energy)))
            final = dense.final
            assert isinstance(final, mf.Density)
            f = final.pdf(x)
            values.append(np.max(np.abs(flow.pdf(x, t_end) - f)) / f.max())
        where = "circle" if dim == 2 else f"zonal d = {dim}"
        why = "tol 1e-12, rtol 1e-11"
        claims += [
            Claim(f"{where}: energy, SA and USA", "density", float(max(energies)), 1e-10, why),
            Claim(f"{where}: f at 1000 points", "density", float(max(values)), 1e-10, why),
        ]
    return claims


def to_the_dirac() -> list[Claim]:
    """SA, β = 4, through the two-cluster plateau and the merger."""
    sol = mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 400.0, [20.0, 100.0, 150.0])
    dirac = mf.theory.energy_dirac(4.0)
    energy = sol.dataset["energy"].values
    name = "SA, β = 4 to t = 400"
    return [
        Claim(f"{name}: E(δ) - E", "(3.5)", abs(dirac - energy[-1]), 1e-10, "one atom"),
        Claim(f"{name}: energy balance", "(3.6)", balance(sol), 1e-9, "tol 1e-12, through all"),
        Claim(f"{name}: mass", "exact", float(np.abs(sol.dataset.mass - 1).max()), 1e-14, "sum"),
        Claim(
            f"{name}: energy of the largest collapse, share of E(δ)",
            "β m r²",
            float(np.abs(sol.dataset.collapse_energy).max() / dirac),
            1e-12,
            "radius 1e-8",
        ),
    ]


def pairs() -> list[Claim]:
    """Two atoms against their own equation."""
    end = mf.evolve(atoms(np.array([0.0, np.pi / 2])), mf.SA(10.0), 1129.33847345, 1).final
    assert isinstance(end, mf.FlowMap)
    miss = abs(float(np.arccos(np.prod(end.atoms.centres, axis=0).sum())) - 0.1)
    name = "two atoms, β = 10: 0.1 at t = 1129.33847345"
    return [Claim(name, "scalar equation", miss, 1e-9, "8 decimals")]


def long_runs(many: list[mf.SA | mf.USA]) -> list[Claim]:
    """β = 20, more than three clusters, to t = 1e5."""
    c, s = 1e-2 * np.random.default_rng(0).normal(size=(2, 5))
    claims = []
    for dynamics in many:
        start = time.perf_counter()
        sol = mf.evolve(mf.FlowMap(mf.FourierSeries(c, s)), dynamics, 1e5, 4)
        seconds = time.perf_counter() - start
        dirac = mf.theory.energy_dirac(20.0)
        name = f"{dynamics.name}, β = 20 to t = 1e5"
        gap = balance(sol) / dirac
        claims += [
            Claim(f"{name}: seconds", "measured here", seconds, 300.0, "five minutes"),
            Claim(f"{name}: energy balance, share of E(δ)", "(3.6)", gap, 1e-9, "tol 1e-12"),
        ]
    return claims


def check(quick: bool) -> list[Claim]:
    """All of them; the quick form takes two dimensions, and no runs to t = 1e5."""
    dims = [2, 50] if quick else [2, 3, 10, 50]
    long: list[mf.SA | mf.USA] = [] if quick else [mf.SA(20.0), mf.USA(20.0)]
    return [
        *reference(),
        *agreement(dims),
        *to_the_dirac(),
        *pairs(),
        *long_runs(long),
    ]


if __name__ == "__main__":
    main(check)
