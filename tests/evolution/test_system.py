"""Numbers that runs have of their systems: mass, energy, and the balance of energy and work."""

import numpy as np
import pytest

import meanfield as mf


@pytest.mark.parametrize("mass", [0.5, 1.0])
def test_a_save_has_the_mass_of_its_measure(mass):
    whole = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    half = mf.Density.from_coefficients(whole.space, mass * whole.coefficients)
    sol = mf.evolve(half, mf.SA(1.0), 0.2, 2)
    assert [measure.mass() for measure in sol.measures] == sol.dataset.mass.values.tolist()
    assert sol.dataset.mass.values == pytest.approx(mass, rel=1e-14)


@pytest.mark.parametrize("beta", [190.0, 210.0, pytest.param(700.0, marks=pytest.mark.slow)])
def test_usa_whose_rates_leave_double_precision(beta):
    """Its time runs like e^{-β}: a density and a flow map gain by the work, and alike."""
    law = mf.FourierSeries(cos=[0.5])
    runs = [
        mf.evolve(start, mf.USA(beta), 0.2 * np.exp(-beta), [0.1 * np.exp(-beta)], rtol=1e-11)
        for start in (mf.Density(mf.Circle(256), law), mf.FlowMap(law, tol=1e-13))
    ]
    for run in runs:
        assert run.status == "finished"
        assert np.array_equal(run.t, np.array([0.0, 0.1, 0.2]) * np.exp(-beta))
        gained = run.dataset.energy.values - run.dataset.energy.values[0]
        # of which the rounding of the energy is some 1e-9
        assert gained[-1] > 1e-7 * run.dataset.energy.values[0]
        assert np.allclose(gained, run.dataset.work.values, rtol=1e-8, atol=0)
    one, other = (run.dataset.work.values[-1] for run in runs)
    # the flow map's nodes are Gauss nodes of panels that are fine against the kernel
    assert one == pytest.approx(other, rel=1e-8, abs=0.0)


D3, ABOUT = np.diag([1.0, 0.5, 0.2]), np.diag([0.5, 0.5, 1.0])
KEPT = {
    "density": (lambda: mf.Density(mf.Sphere(11), mf.VonMisesFisher(np.eye(3)[2], 1.0)), D3),
    "about an axis": (lambda: mf.FlowMap(mf.VonMisesFisher(np.eye(3)[2], 1.0)), ABOUT),
    "tokens": (lambda: mf.Particles(np.eye(3)), D3),
    "S^2": (
        lambda: mf.FlowMap(
            mf.Mixture([mf.VonMisesFisher(row, 1.0) for row in np.eye(3)[:2]]), tol=1e-4
        ),
        D3,
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "S^2" else ()) for n in KEPT]
)
def test_what_runs_keep_of_their_energy(name):
    """What `evolve` says: all gradient flows keep a balance."""
    make, matrix = KEPT[name]
    form = [mf.Head(Q=matrix, V=matrix)]
    balance = {"dissipation", "work", "balance_error"}
    own = {"energy", "energy_share"}
    wanted = {
        mf.SA(1.0): own | balance,
        mf.USA(1.0): own | balance,
        mf.DoublyStochastic(1.0): own | balance,
        mf.Attention(1.0, [mf.Head(Q=matrix)]): set(),
        mf.Attention(1.0, form): own | balance,
        mf.Layers([mf.SA(1.0), mf.SA(2.0)], step=0.01): set(),
    }
    energies = own | balance
    for dynamics, names in wanted.items():
        sol = mf.evolve(make(), dynamics, 0.02, 1)
        assert energies & set(sol.dataset) == names
    if name == "tokens":
        noisy = mf.evolve(make(), mf.SA(1.0, noise=0.1), 0.02, 1, rng=np.random.default_rng(0))
        assert energies & set(noisy.dataset) == own | {"dissipation"}
