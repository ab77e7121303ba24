"""Energies and moments of runs that were computed elsewhere by other methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import meanfield as mf
from validation.claims import Claim, main

TABLE = Path(__file__).parent.parent / "tests" / "data" / "reference_values.json"
TIGHT: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-14}


def check(quick: bool) -> list[Claim]:
    """The three reference problems, and the published table, its rows on the circle twice."""
    circles = [claim for n in (64, 256) for claim in _circle(n)]
    return [*circles, *_sphere([63, 95] if quick else [63, 95, 127]), *_zonal(), _table()]


def _energy(measure: mf.Density, dynamics: mf.SA | mf.USA, t_end: float, **options: Any) -> float:
    sol = mf.evolve(measure, dynamics, t_end, 1, on_unresolved="stop", **options)
    return float(sol.dataset["energy"][-1]) if sol.status == "finished" else float("nan")


def _circle(size: int) -> list[Claim]:
    mu = mf.Density(mf.Circle(size), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    name, why = (
        f"circle, n = {size}, 1 + 0.5 cos θ + 0.3 sin 2θ, β = 4",
        "rtol 1e-12, spectral in θ",
    )
    usa, sa = _energy(mu, mf.USA(4.0), 0.1, **TIGHT), _energy(mu, mf.SA(4.0), 2.0, **TIGHT)
    found = [
        ("E(0)", mf.energy(mu, 4.0), 1.60135670227965, 1e-13, "14 decimals"),
        ("USA, E(0.1)", usa, 1.81193444481650, 1e-12, why),
        ("SA, E(2)", sa, 2.04475125675735, 1e-12, why),
    ]
    return [Claim(f"{name}: {n}", "reference", abs(e - r), tol, w) for n, e, r, tol, w in found]


def _sphere(sizes: list[int]) -> list[Claim]:
    second = [np.sin(2) * np.cos(0.7), np.sin(2) * np.sin(0.7), np.cos(2)]
    laws = [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher(second, 3.0)]
    law = mf.Mixture(laws, [0.6, 0.4])
    claims = []
    for lmax in sizes:
        mu = mf.Density(mf.Sphere(lmax), law)
        loose = mf.Density(mf.Sphere(lmax), law, tail_tol=1e-4)
        found = [
            ("E(0)", mf.energy(mu, 4.0), 1.454973125679, 1e-12),
            ("USA, E(0.1)", _energy(loose, mf.USA(4.0), 0.1), 2.518173070008, 1e-10),
            ("SA, E(1.5)", _energy(mu, mf.SA(4.0), 1.5), 2.639776082951, 1e-10),
        ]
        claims += [
            Claim(
                f"S², two bumps, lmax {lmax}, β = 4: {n}",
                "reference",
                abs(e - r),
                tol,
                "12 decimals",
            )
            for n, e, r, tol in found
        ]
    return claims


def _zonal() -> list[Claim]:
    claims = []
    for dim, t_end, energy, moment in [
        (4, 2.0, 1.04053293760353, 0.49541885475416),
        (10, 3.0, 1.05513999052319, 0.66385199577700),
        (50, 4.0, 0.629300714302, 0.614983283177),
    ]:
        mu = mf.Density(mf.Zonal(dim, 31), mf.ZonalSeries(dim, [0.8]))
        sol = mf.evolve(mu, mf.SA(4.0), t_end, 1, **TIGHT)
        error = max(
            abs(float(sol.dataset["energy"][-1]) - energy), abs(sol.final.mean()[-1] - moment)
        )
        name = f"zonal d = {dim}, 1 + 0.8⟨x,e⟩, SA, β = 4: E and ⟨x,e⟩ at t = {t_end:g}"
        claims.append(Claim(name, "reference", error, 1e-11, "rtol 1e-12"))
    return claims


def _table() -> Claim:
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["pde_reference"]
    worst = 0.0
    for row in rows:
        dim, beta, axis = row["d"], float(row["beta"]), np.eye(row["d"])[0]
        law: mf.ZonalSeries | mf.VonMisesFisher = mf.VonMisesFisher(axis, 1.0)
        if row["mu0"] == "1+.5cos":
            law = mf.ZonalSeries(dim, [0.5], axis=axis)
        dynamics = {"SA": mf.SA, "USA": mf.USA}[row["kind"]](beta)
        zonal = mf.Zonal(dim, 47, axis=axis)
        for space in (zonal, mf.Circle(64)) if dim == 2 else (zonal,):
            mu: Any = mf.Density(space, law)
            if row["t"] > 0:
                mu = mf.evolve(mu, dynamics, row["t"], 1, **TIGHT).final
            t, mass, rate = mu.space.points @ axis, mu.space.weights * mu.values, row["dissipation"]
            errors = [
                mass @ t - float(row["m1"]),
                # ∫ cos 2θ dmu for every d, the moment of P_2 for d = 2 only
                mass @ (2 * t**2 - 1) - float(row["m2"]),
                mf.energy(mu, beta) - float(row["E"]),
                (mf.dissipation(mu, dynamics) - float(rate)) / max(1.0, abs(float(rate))),
            ]
            worst = max(worst, *map(abs, errors))
    name = f"{len(rows)} rows: ∫cos θ, ∫cos 2θ, E, dissipation"
    return Claim(name, "graded Lagrangian quadrature", worst, 1e-9, "the table's digits")


if __name__ == "__main__":
    main(check)
