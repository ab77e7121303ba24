"""Runs against numbers that were computed elsewhere, by other methods."""

import json
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf

REFERENCE = json.loads((Path(__file__).parent / "data" / "reference_values.json").read_text())
# time-stepping errors well below the comparison
# spectral runs to their ends
STOP = {"on_unresolved": "stop"}
TIGHT = {"rtol": 1e-12, "atol": 1e-14} | STOP


def circle_law():
    return mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])


def sphere_law():
    colatitude, longitude = 2.0, 0.7
    second = [
        np.sin(colatitude) * np.cos(longitude),
        np.sin(colatitude) * np.sin(longitude),
        np.cos(colatitude),
    ]
    laws = [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher(second, 3.0)]
    return mf.Mixture(laws, [0.6, 0.4])


def final_energy(sol):
    assert sol.status == "finished"
    return float(sol.dataset.energy[-1])


@pytest.mark.parametrize("n", [64, 256])
def test_circle(n):
    mu = mf.Density(mf.Circle(n), circle_law())
    # the references have 14 decimals
    assert mf.energy(mu, 4.0) == pytest.approx(1.60135670227965, abs=1e-13)
    usa = mf.evolve(mu, mf.USA(4.0), 0.1, 1, **TIGHT)
    assert final_energy(usa) == pytest.approx(1.81193444481650, abs=1e-12)
    sa = mf.evolve(mu, mf.SA(4.0), 2.0, 1, **TIGHT)
    assert final_energy(sa) == pytest.approx(2.04475125675735, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("lmax", [63, 95])
def test_sphere_sa(lmax):
    mu = mf.Density(mf.Sphere(lmax), sphere_law())
    assert mf.energy(mu, 4.0) == pytest.approx(1.454973125679, abs=1e-12)
    assert final_energy(mf.evolve(mu, mf.SA(4.0), 1.5, 1, **STOP)) == pytest.approx(
        2.639776082951, abs=1e-10
    )


@pytest.mark.slow
def test_sphere_usa():
    # a tail of 1e-4 costs the energy nothing: high degrees reach it through the kernel alone
    mu = mf.Density(mf.Sphere(63), sphere_law(), tail_tol=1e-4)
    sol = mf.evolve(mu, mf.USA(4.0), 0.1, 1, **STOP)
    assert final_energy(sol) == pytest.approx(2.518173070008, abs=1e-10)


@pytest.mark.parametrize(
    ("dim", "t_end", "energy", "moment"),
    [
        (4, 2.0, 1.04053293760353, 0.49541885475416),
        (10, 3.0, 1.05513999052319, 0.66385199577700),
        (50, 4.0, 0.629300714302, 0.614983283177),
    ],
)
def test_zonal(dim, t_end, energy, moment):
    mu = mf.Density(mf.Zonal(dim, 31), mf.ZonalSeries(dim, [0.8]))
    sol = mf.evolve(mu, mf.SA(4.0), t_end, 1, **TIGHT)
    assert final_energy(sol) == pytest.approx(energy, abs=1e-11)
    assert sol.final.mean()[-1] == pytest.approx(moment, abs=1e-11)


def _space(dim):
    return mf.Circle(64) if dim == 2 else mf.Zonal(dim, 47, axis=np.eye(dim)[0])


@pytest.mark.parametrize(
    "row",
    REFERENCE["pde_reference"],
    ids=lambda row: f"{row['kind']}-d{row['d']}-b{row['beta']}-t{row['t']}",
)
def test_published_table(row):
    dim, beta = row["d"], float(row["beta"])
    law = {
        "1+.5cos": mf.ZonalSeries(dim, [0.5], axis=np.eye(dim)[0]),
        "vMF1": mf.VonMisesFisher(np.eye(dim)[0], 1.0),
    }[row["mu0"]]
    dynamics = {"SA": mf.SA, "USA": mf.USA}[row["kind"]](beta)
    measure = mf.Density(_space(dim), law)
    if row["t"] > 0:
        measure = mf.evolve(measure, dynamics, row["t"], 1, **TIGHT).final
    t = measure.space.points[:, 0]
    mass = measure.space.weights * measure.values
    assert mass @ t == pytest.approx(float(row["m1"]), abs=1e-9)
    # m2 is ∫ cos 2θ dmu for every d, the moment of P_2 for d = 2 only
    assert mass @ (2 * t**2 - 1) == pytest.approx(float(row["m2"]), abs=1e-9)
    assert mf.energy(measure, beta) == pytest.approx(float(row["E"]), abs=1e-9)
    rate = mf.dissipation(measure, dynamics)
    assert rate == pytest.approx(float(row["dissipation"]), abs=1e-9, rel=1e-9)
