"""The energy of a run: whose it is, its share of a Dirac's, and what it gains by the work."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.text import summary_of_sweep
from meanfield.dynamics.attention import HeadsDynamics
from meanfield.evolution.system import System
from tests.handmade import heads_of

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BENT = np.array([[1.0, 0.3], [0.3, -0.5]])
# of its largest eigenvalue
TOP = np.linalg.eigh(BENT)[1][:, -1]
STARTS = {
    "density": lambda: mf.Density(mf.Circle(64), LAW),
    "flow map": lambda: mf.FlowMap(LAW),
    "tokens": lambda: mf.Particles.quantise(LAW, 60),
}

# the quick form has tokens alone
FEW_OR_MANY = [
    "tokens",
    *(pytest.param(start, marks=pytest.mark.slow) for start in ("density", "flow map")),
]


def form(sign, normalised):
    return mf.Attention(1.5, [mf.Head(Q=BENT, V=sign * BENT)], normalised=normalised)


# a dynamics of each kind, and of which its energy is that by itself
KINDS = {
    "SA": (mf.SA(2.0), 2.0),
    "SA, repulsive": (mf.SA(2.0, sign=-1), 2.0),
    "USA": (mf.USA(1.5), 1.5),
    "DoublyStochastic": (mf.DoublyStochastic(2.0),) * 2,
    "DoublyStochastic, repulsive": (mf.DoublyStochastic(2.0, sign=-1), mf.DoublyStochastic(2.0)),
    "Kuramoto": (mf.Kuramoto(1.3),) * 2,
    "Kuramoto, repulsive": (mf.Kuramoto(-1.3),) * 2,
    "Interaction": (mf.Interaction([1.0, 1.0, 0.25], normalised=True),) * 2,
    "a head of ones": (mf.Attention(1.0, [mf.Head()]), 1.0),
    **{
        f"form, {sign:+d}, {'softmax' if normalised else 'no softmax'}": (
            form(sign, normalised),
            heads_of(BENT, 1.5),
        )
        for sign in (1, -1)
        for normalised in (True, False)
    },
}


def moved(start, dynamics):
    return mf.evolve(STARTS[start](), dynamics, 0.5, 4)


@pytest.mark.parametrize("start", FEW_OR_MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_the_energy_of_a_run_is_its_dynamics_own(kind, start):
    dynamics, whose = KINDS[kind]
    sol = moved(start, dynamics)
    # a form's is largest for a Dirac at its eigenvector
    data, dirac = sol.dataset, mf.energy(mf.Particles([TOP]), whose)
    energies = np.array([mf.energy(measure, whose) for measure in sol.measures])
    assert mf.energy(sol.final, dynamics) == pytest.approx(energies[-1], rel=1e-12)
    # a run's own grid resolves its rates to a part of its tolerance of 1e-9
    rate = mf.dissipation(sol.final, dynamics)
    assert float(data.dissipation[-1]) == pytest.approx(rate, rel=1e-9)
    np.testing.assert_allclose(data.energy, energies, rtol=1e-12)
    np.testing.assert_allclose(data.energy_share, energies / dirac, rtol=1e-12)
    # those of a repulsive interaction are both negative
    assert 0.0 < float(data.energy_share.min()) < float(data.energy_share.max()) <= 1.0
    assert np.all(dynamics.energy_functional.sign * np.diff(energies) > 0.0)
    gained = data.energy - data.energy[0] - data.work
    np.testing.assert_allclose(data.balance_error, gained / abs(dirac), rtol=0, atol=1e-15)
    # a relative tolerance of 1e-9 a step, of flow maps 1e-12
    assert np.abs(data.balance_error).max() < (1e-10 if start == "flow map" else 1e-8)
    assert abs(float(data.work[-1])) > 5e-3 * abs(dirac)
    assert {data[name].attrs["symbol"] for name in ("energy", "work")} == {
        dynamics.energy_functional.symbol
    }


@pytest.mark.parametrize("start", FEW_OR_MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_the_balance_sees_a_wrong_rate(kind, start, monkeypatch):
    gains = System.gains
    monkeypatch.setattr(System, "gains", lambda self, *asked: 1.01 * gains(self, *asked))
    error = moved(start, KINDS[kind][0]).dataset.balance_error
    assert np.abs(error).max() > 1e-5


@pytest.mark.parametrize("start", STARTS)
def test_heads_may_have_the_energy_of_a_kernel(start):
    """USA as a head: the sums of heads do not tell its energy, which is computed by itself."""

    class Heads(HeadsDynamics):
        # as a file of the package would have it
        __module__ = HeadsDynamics.__module__
        normalised, score_matrices, value_matrices, energy_functional = (
            False,
            [1.5],
            [1.0],
            mf.USA(1.5).energy_functional,
        )

    moved, plain = (mf.evolve(STARTS[start](), one, 0.1, 2) for one in (Heads(), mf.USA(1.5)))
    # both runs have a relative tolerance of 1e-9 a step
    np.testing.assert_allclose(moved.dataset.energy, plain.dataset.energy, rtol=1e-8)
    assert np.abs(moved.dataset.balance_error).max() < 1e-8


@pytest.mark.parametrize("start", STARTS)
def test_at_beta_0_there_is_no_constant(start):
    data = moved(start, mf.SA(0.0)).dataset
    np.testing.assert_allclose(data.energy_share, 2.0 * data.energy, rtol=1e-15)
    assert np.abs(data.balance_error).max() < 1e-9


def test_without_an_energy_of_a_dirac_the_error_is_as_it_is():
    """K = 0: nothing moves; b_2 = -2 b_1: it does, and F(δ) = K/2 (b_1 + b_2/2) = 0."""
    for dynamics in mf.Kuramoto(0.0), mf.CircleInteraction([1.0, -2.0]):
        data = moved("tokens", dynamics).dataset
        assert dynamics.energy_functional.dirac == 0.0
        assert "energy_share" not in data
        gained = data.energy - data.energy[0] - data.work
        assert data.balance_error.values == pytest.approx(gained.values, abs=1e-16)
        assert np.abs(gained).max() < 1e-9
    assert float(data.energy[-1]) > 1e-2


@pytest.mark.parametrize("kind", ["layers", "turned", "cosines", "feed-forward"])
def test_a_dynamics_without_an_energy_records_none(kind):
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    dynamics = {
        "layers": mf.Layers([mf.SA(1.0), mf.SA(2.0)], step=0.3),
        "turned": mf.Attention(1.0, [mf.Head(V=turn)]),
        "cosines": mf.CircleInteraction([1.0], [0.5]),
        "feed-forward": mf.FeedForward(turn, np.eye(2), activation="tanh"),
    }[kind]
    for start in STARTS:
        roles = {one.attrs["role"] for one in moved(start, dynamics).dataset.values()}
        assert not roles & {"energy", "share", "rate", "work", "error"}
        assert "mass" in roles


def test_frequencies_leave_the_energy_and_no_balance():
    nodes = mf.gaussian_frequencies(0.5, 6)
    phases = mf.OscillatorDensity(mf.Circle(64), mf.FourierSeries(cos=[0.4]), *nodes)
    data = mf.evolve(phases, mf.Kuramoto(2.0), 0.5, 2).dataset
    np.testing.assert_allclose(data.energy, data.order_parameter**2, rtol=1e-13)
    assert "energy_share" in data
    assert not {"dissipation", "work", "balance_error"} & set(data)


def test_what_overflows_is_left_out_by_itself():
    """E of SA at β = 800 is e^800/1600; |X|² of USA at 400 is e^800, and its work e^400/800."""
    near = mf.Particles([[1.0, 0.0], [np.cos(1e-2), np.sin(1e-2)]])
    sharp = mf.evolve(near, mf.SA(800.0), 1e-3, 2).dataset
    assert not {"energy", "dissipation", "work"} & set(sharp)
    # e^{800 (cos 0.01 - 1)} of the pairs that differ
    assert float(sharp.energy_share[0]) == pytest.approx(0.5 + 0.5 * np.exp(-0.04), rel=1e-6)
    assert np.abs(sharp.balance_error).max() < 1e-9
    fast = mf.evolve(near, mf.USA(400.0), 1e-3 * np.exp(-400.0), 2).dataset
    assert "dissipation" not in fast
    assert float(fast.energy[0]) == pytest.approx(
        float(fast.energy_share[0]) * mf.theory.energy_dirac(400.0), rel=1e-13
    )
    assert float(fast.work[-1]) > 0.0


def stopped(path, start, dynamics, times):
    """The checkpoint of a run that Ctrl-C ends at its third save."""
    calls = iter(range(9))

    def strike(measure):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        mf.evolve(start, dynamics, times[-1], times, checkpoint=path, monitors={"m": strike})


@pytest.mark.slow
def test_what_has_overflown_once_stays_left_out(tmp_path):
    """A run that is gone on with leaves out the same, also where its last energies would fit."""
    angles = np.linspace(0.0, 0.02, 12)
    near = mf.Particles(np.column_stack([np.cos(angles), np.sin(angles)]))
    dynamics, times = mf.SA(718.0, sign=-1), [0.01, 6.0, 7.0]
    whole = mf.evolve(near, dynamics, 7.0, times)
    logs = np.log(whole.dataset.energy_share.values) + 718.0 - np.log(2.0 * 718.0)
    assert logs[2] < 709.7 < 709.8 < logs[1]
    assert "energy" not in whole.dataset
    stopped(tmp_path / "a.nc", near, dynamics, times)
    again = mf.resume(tmp_path / "a.nc", monitors={"m": lambda mu: 1.0}).dataset.drop_vars("m")
    assert again.identical(whole.dataset.assign_attrs(again.attrs))


def test_one_sweep_holds_numbers_that_can_be_compared(tmp_path):
    text = """
    law = {type = "FourierSeries", cos = [0.5]}
    measure = {type = "Particles", n = 20}
    dynamics = {type = "SA", beta = 1.0}
    run = {t_end = 0.01, save_at = 2, rng = 1}
    """
    (tmp_path / "case.toml").write_text(text)
    ds = mf.sweep(tmp_path / "case.toml", {"dynamics.beta": [1, 800]})
    assert np.isfinite(ds.energy.sel(beta=1)).all()
    assert np.isnan(ds.energy.sel(beta=800)).all()
    assert ((ds.energy_share > 0.0) & (ds.energy_share < 1.0)).all()
    assert (np.abs(ds.balance_error) < 1e-9).all()
    assert ds.energy.attrs["symbol"] == "E_β"
    told = summary_of_sweep(ds, tmp_path / "sweep.nc")
    assert told["final energy"].split(" to ")[0] == f"{ds.final_energy.values[0]:.12g}"
    sharp = mf.sweep(tmp_path / "case.toml", {"dynamics.beta": [800]})
    told = summary_of_sweep(sharp, tmp_path / "sweep.nc")
    assert "final energy" not in told
    assert told["final energy share"].startswith(f"{sharp.final_energy_share.values[0]:.12g}")
    kinds = mf.sweep(tmp_path / "case.toml", {"dynamics.type": ["SA", "DoublyStochastic"]})
    assert kinds.energy.attrs == {"role": "energy"}


@pytest.mark.slow
def test_every_variable_tells_its_role(tmp_path):
    start = mf.Density(mf.Circle(32), LAW)
    own = {"first": lambda mu: float(mu.mean()[0])}
    sol = mf.evolve(start, mf.USA(1.0, noise=0.1), 0.1, 2, monitors=own)
    sol.save(tmp_path / "run.nc")
    for data in sol.dataset, mf.load(tmp_path / "run.nc").dataset:
        roles = {str(name): one.attrs["role"] for name, one in data.variables.items()}
        assert {n for n, role in roles.items() if role == "energy"} == {"energy", "free_energy"}
        assert {n for n, role in roles.items() if role == "work"} == {
            *("work", "noise_work", "free_work")
        }
        assert (roles["first"], roles["t"], roles["energy_share"]) == ("monitor", "time", "share")
        # xarray prints it on an axis
        assert all(len(one.attrs["long_name"].split()) <= 6 for one in data.variables.values())
        assert data.free_energy.attrs["long_name"] == "free energy τS - E_β"
        assert "δE_β/δmu" in data.noise_work.attrs["comment"]
        assert data.free_energy.attrs["symbol"] == "τS - E_β"
