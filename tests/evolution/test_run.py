"""evolve: saves, refinement, endings, monitors and refusals."""

import os
import pickle
import re
import signal

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution.run import MOST_STEPS, StallDetector
from meanfield.exceptions import Interrupted
from tests.children import hearing_ctrl_c
from tests.handmade import interrupted, unfinished


def mu(n=64, **limits):
    return mf.Density(mf.Circle(n), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]), **limits)


def test_saves_where_asked():
    assert np.array_equal(mf.evolve(mu(), mf.SA(1.0), 1.0, 4).t, [0, 0.25, 0.5, 0.75, 1])
    assert np.array_equal(mf.evolve(mu(), mf.SA(1.0), 1.0, [0.1, 0.3]).t, [0, 0.1, 0.3, 1])
    assert len(mf.evolve(mu(), mf.SA(1.0), 1.0).t) == 21


@pytest.mark.parametrize("mass", [0.5, 1.0])
def test_a_save_has_the_mass_of_its_measure(mass):
    half = mf.Density.from_coefficients(mf.Circle(64), mass * mu().coefficients)
    sol = mf.evolve(half, mf.SA(1.0), 0.2, 2)
    assert [measure.mass() for measure in sol.measures] == sol.dataset.mass.values.tolist()
    assert sol.dataset.mass.values == pytest.approx(mass, rel=1e-14)


STARTS = {
    "density": mu(),
    "flow map": mf.FlowMap(mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])),
    "tokens": mf.Particles.sample(mf.FourierSeries(cos=[0.5]), 7, np.random.default_rng(0)),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_run_begins_at_t_start(start):
    """A field without a clock does not know; layers act by theirs."""
    early, late = (mf.evolve(start, mf.SA(2.0), t + 1.0, 2, t_start=t) for t in (0.0, 3.0))
    assert np.array_equal(late.t, [3.0, 3.5, 4.0])
    assert late.message.startswith("finished at t = 4 after")
    assert np.abs(early.final.mean() - start.mean()).max() > 1e-3
    assert np.abs(early.final.mean() - late.final.mean()).max() < 1e-12
    layers = mf.Layers([mf.SA(2.0), mf.SA(3.0, sign=-1), mf.USA(1.0)], step=0.5)
    whole = mf.evolve(start, layers, 1.5, [0.7])
    rest = mf.evolve(whole.at(0.7), layers, 1.5, 1, t_start=0.7)
    assert np.abs(whole.at(0.7).mean() - rest.final.mean()).max() > 1e-3
    assert np.abs(whole.final.mean() - rest.final.mean()).max() < 1e-8


def test_the_density_of_a_run_from_t_start_on():
    flow, points = STARTS["flow map"], np.eye(2)
    early, late = (mf.evolve(flow, mf.SA(2.0), t + 1.0, 1, t_start=t) for t in (0.0, 3.0))
    assert np.array_equal(late.pdf(points, 3.0), early.pdf(points, 0.0))
    assert late.pdf(points, 3.4) == pytest.approx(early.pdf(points, 0.4), rel=1e-11)
    with pytest.raises(ValueError, match=r"t must be a finite number >= 3 and <= 4, got 0\.4"):
        late.pdf(points, 0.4)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"t_start": -0.5}, "t_start must be a finite number >= 0, got -0.5"),
        ({"t_start": 1.0}, "t_end must be a finite number > 1, got 1"),
        ({"t_start": 0.5, "save_at": [0.2]}, r"ascending times in \[0.5, t_end = 1\], got 0.2"),
        (
            {"t_start": 0.3, "dynamics": mf.LayerMap(mf.SA(1.0), step=0.2)},
            "t_start must be a whole",
        ),
    ],
)
def test_a_start_out_of_range_is_refused(asked, message):
    given = {"measure": STARTS["tokens"], "dynamics": mf.SA(1.0), "t_end": 1.0} | asked
    with pytest.raises(ValueError, match=message):
        mf.evolve(**given)


def test_saves_do_not_change_the_answer():
    few = mf.evolve(mu(), mf.SA(4.0), 2.0, 1, rtol=1e-11, atol=1e-13)
    many = mf.evolve(mu(), mf.SA(4.0), 2.0, 37, rtol=1e-11, atol=1e-13)
    assert abs(float(few.dataset.energy[-1] - many.dataset.energy[-1])) < 1e-11
    assert many.dataset.steps[-1] < 3 * few.dataset.steps[-1] + 37


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_convergence_order_in_time(kind):
    """The error follows the tolerance: a thousandth of rtol gives less than a hundredth of it."""
    t_end = 1.0 if kind is mf.SA else 0.1

    def final(rtol, atol):
        return mf.evolve(mu(256, tail_tol=1e-4), kind(4.0), t_end, 1, rtol=rtol, atol=atol).final

    exact = final(1e-13, 1e-16).coefficients
    errors = [np.abs(final(r, 1e-3 * r).coefficients - exact).max() for r in (1e-4, 1e-7, 1e-10)]
    assert errors[0] > 100 * errors[1] > 1e4 * errors[2] > 0


TURNED = mf.Head(Q=[[1.0, 0.5], [0.0, 0.7]], V=0.4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dynamics", [mf.SA(4.0), mf.SA(4.0, noise=0.02), mf.Attention(4.0, [TURNED])], ids=str
)
def test_refinement_keeps_the_state(dynamics):
    """The run that has to grow ends where the run that started large does."""
    grown = mf.evolve(mu(16, tail_tol=1e-12), dynamics, 2.0, 5, rtol=1e-11, atol=1e-13)
    large = mf.evolve(mu(256), dynamics, 2.0, 5, rtol=1e-11, atol=1e-13)
    sizes = grown.dataset["size"].values
    assert sizes[0] == 16
    assert sizes[-1] >= (64 if dynamics.noise else 128)
    assert np.all(np.diff(sizes) >= 0)
    for one, other in zip(grown.measures, large.measures, strict=True):
        assert mf.energy(one, 4.0) == pytest.approx(mf.energy(other, 4.0), abs=1e-11)
    points = large.final.space.points
    assert np.max(np.abs(grown.final.pdf(points) - large.final.values)) < 1e-9


def test_initial_law_is_resolved_from_the_law_itself():
    sharp = mf.VonMisesFisher([1.0, 0.0], 60.0)
    sol = mf.evolve(mf.Density(mf.Circle(64), sharp), mf.SA(1.0), 0.01, 1)
    assert sol.dataset["size"][0] > 64
    start = sol.measures[0]
    assert np.max(np.abs(start.values - sharp.pdf(start.space.points))) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("degree", [10, 23])
def test_law_beyond_the_grid_starts_on_a_larger_one(degree):
    """The tail is rounding: it is the misfit that says that degrees are missing."""
    law = mf.FourierSeries(cos=0.005 * np.eye(degree)[-1])
    small, large = mf.Density(mf.Circle(16), law), mf.Density(mf.Circle(256), law)
    assert small.tail < 1e-12
    sol, other = (mf.evolve(start, mf.SA(100.0), 3.0, 3) for start in (small, large))
    assert sol.dataset["size"][0] > 2 * degree
    grown = other.dataset.energy - mf.theory.energy_uniform(100.0, 2)
    assert grown[-1] > 1.5 * grown[0] > 0
    assert np.allclose(sol.dataset.energy, other.dataset.energy, rtol=0, atol=1e-6 * grown[-1])
    small = mf.Density(mf.Circle(16), law, max_size=16)
    stopped = unfinished(mf.evolve, small, mf.SA(100.0), 3.0, 3, on_unresolved="stop")
    assert stopped.status == "under-resolved"
    assert "the misfit of the law reached" in stopped.message
    assert np.array_equal(stopped.t, [0.0])


@pytest.mark.slow
@pytest.mark.parametrize("field", [mf.SA(4.0), mf.Attention(4.0, [mf.Head(np.eye(2))])], ids=str)
def test_under_resolved_keeps_what_it_had(field):
    start = mu(64, max_size=128)
    sol = unfinished(mf.evolve, start, field, 50.0, 100, on_unresolved="stop")
    assert sol.status == "under-resolved"
    assert sol.status == "under-resolved"
    told = re.search(
        r"t = .* tail reached (\S+) > (\S+) on Circle\(128\).* try `on_unresolved='flow-map'`",
        sol.message,
    )
    assert float(told[1]) > float(told[2]) == 1e-8
    assert "tail_tol" in sol.message
    assert 0 < sol.t[-1] < 50
    assert len(sol.t) == len(sol.measures)
    assert sol.final.tail <= 1e-8
    assert np.all(np.diff(sol.t) > 0)
    again = mf.evolve(mu(256), field, float(sol.t[-1]), 1)
    assert abs(float(again.dataset.energy[-1] - sol.dataset.energy[-1])) < 1e-8


def sizes(sol):
    return [measure.space.size for measure in sol.measures if isinstance(measure, mf.Density)]


TIMES = np.append(np.linspace(0.0, 6.0, 25), 100.0)


@pytest.mark.slow
def test_the_first_run_that_one_tries_comes_to_its_end():
    sol = mf.evolve(mu(), mf.SA(4.0), 100.0, TIMES)
    assert sol.status == "finished"
    assert isinstance(sol.final, mf.FlowMap)
    # three doublings, and nodes from there on
    assert sizes(sol)[0] == 64
    assert max(sizes(sol)) == 512
    assert sol.dataset.attrs["hand_over_t"] < 5.0
    flow = mf.evolve(mf.FlowMap(mu().law), mf.SA(4.0), 100.0, TIMES)
    assert np.allclose(sol.dataset.energy, flow.dataset.energy, rtol=0, atol=1e-8)
    # about an axis alike
    zonal = mf.Density(mf.Zonal(5, 7), mf.ZonalSeries(5, [0.8]))
    about = mf.evolve(zonal, mf.SA(4.0), 20.0, 40)
    assert isinstance(about.final, mf.FlowMap)
    assert max(sizes(about)) == 63


@pytest.mark.slow
def test_a_limit_of_the_users_own_is_kept():
    sol = mf.evolve(mu(max_size=1024), mf.SA(4.0), 100.0, TIMES)
    assert max(sizes(sol)) == 1024
    assert isinstance(sol.final, mf.FlowMap)


@pytest.mark.slow
def test_the_limit_counts_from_the_space_that_is_given():
    """A law that takes a larger one at t = 0 has it."""
    start = mf.Density(mf.Circle(16), mf.VonMisesFisher([1.0, 0.0], 3.0), tail_tol=1e-12)
    sol = mf.evolve(start, mf.SA(4.0), 10.0, 40)
    assert sizes(sol)[0] > 16
    assert max(sizes(sol)) == 128
    assert isinstance(sol.final, mf.FlowMap)


@pytest.mark.slow
def test_where_no_flow_map_can_follow_the_space_grows_to_its_limit(monkeypatch):
    """With noise there is none by its nature, else it may be that none holds the law."""
    noisy = mf.evolve(mu(8), mf.SA(4.0, noise=1e-2), 3.0, 4)
    assert noisy.status == "finished"
    assert max(sizes(noisy)) > 64
    stopped = mf.evolve(mu(8), mf.SA(4.0), 2.5, 4, on_unresolved="stop")
    assert max(sizes(stopped)) > 64
    refusals = []

    def refuse(*given, **_):
        refusals.append(given)
        raise ValueError("no flow map holds it")

    monkeypatch.setattr(mf.FlowMap, "__new__", refuse)
    sol = mf.evolve(mu(8), mf.SA(4.0), 2.5, 4)
    assert sol.status == "finished"
    assert len(refusals) == 1
    assert sizes(sol) == sizes(stopped)
    assert np.allclose(sol.dataset.energy, stopped.dataset.energy, rtol=0, atol=1e-8)
    none = unfinished(mf.evolve, mu(64, max_size=64), mf.SA(4.0), 50.0, 4)
    assert none.status == "under-resolved"
    assert none.message.endswith("; a flow map can't take over: no flow map holds it")
    assert "on_unresolved" not in none.message


def test_a_run_with_noise_that_stops_has_no_flow_map_to_try():
    noisy = unfinished(mf.evolve, mu(16, max_size=32), mf.SA(4.0, noise=1e-3), 50.0, 400)
    assert noisy.status == "under-resolved"
    assert 0 < noisy.t[-1] < 50
    assert noisy.final.tail <= 1e-8
    assert "on_unresolved" not in noisy.message


def test_density_without_a_larger_space_ends_under_resolved():
    """In d = 1024 degrees end at 303, since N_k leaves double precision."""
    axis = np.eye(1024)[-1]
    start = mf.Density(mf.Zonal(1024, 200), mf.VonMisesFisher(axis, 500.0), tail_tol=1e-12)
    sol = unfinished(mf.evolve, start, mf.SA(30.0), 1.0, 1, on_unresolved="stop")
    assert sol.status == "under-resolved"
    assert "t = 0" in sol.message
    assert len(sol.measures) == 1
    with pytest.raises(ValueError, match=r"Zonal.* resolves, but its series misses .*a FlowMap"):
        mf.Density(mf.Zonal(1024, 200), mf.VonMisesFisher(axis, 600.0))


@pytest.mark.slow
def test_run_that_can_not_arrive_ends():
    """Repulsive USA rests at the uniform measure, and keeps explicit steps to e^{-β}."""
    start = mf.Density(mf.Circle(128), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    sol = unfinished(mf.evolve, start, mf.USA(beta=30.0, sign=-1), t_end=1.0)
    assert sol.status == "failed"
    assert "USA runs in times of order exp(-beta) = 9.4e-14; try a smaller t_end" in sol.message
    assert 0 < sol.t[-1] < 1e-6
    assert int(sol.dataset.steps[-1]) < 5000
    assert float(sol.dataset.energy[-1]) == pytest.approx(mf.theory.energy_uniform(30.0, 2))
    # in its own times it arrives
    near = mf.evolve(start, mf.USA(beta=30.0, sign=-1), t_end=100 * np.exp(-30.0))
    assert near.status == "finished"


def test_noise_that_can_not_arrive_ends_at_once():
    tokens = mf.Particles(np.eye(3))
    rng = np.random.default_rng(0)
    sol = unfinished(mf.evolve, tokens, mf.USA(30.0, noise=0.1), 1.0, rng=rng)
    assert sol.status == "failed"
    assert "the next save is" in sol.message
    assert sol.t.tolist() == [0.0]


def test_pace_waits_for_steps_that_grow():
    """Small steps at the start of a run, or in a collapse, are no reason to end it."""
    growing, steady, now, later = StallDetector(), StallDetector(), 0.0, 0.0
    left = []
    for step in range(6000):
        now += 1e-12 * 1.001**step
        later += 1e-6
        left.append(growing.left(now, 1.0))
        assert steady.left(later, 1.0) <= MOST_STEPS
    assert max(left) == 0.0


def test_ctrl_c_ends_the_loop_around_a_run():
    """The signal itself, in the middle of the second run of three."""
    done, calls = [], []

    def strike(measure):
        if len(done) == 1 and not calls and measure.mean()[0] > 0.3:
            calls.append(measure)
            os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    def loop():
        for beta in 1.0, 2.0, 3.0:
            sol = mf.evolve(mu(), mf.SA(beta), 2.0, 20, monitors={"m": strike})
            done.append(sol)

    with hearing_ctrl_c():
        sol = interrupted(loop)
        # the handler of before is back
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [one.status for one in done] == ["finished"]
    assert sol.dynamics == mf.SA(2.0)
    assert sol.status == "interrupted"
    assert 0.0 < sol.t[-1] < 2.0
    # what was saved before is what an uninterrupted run saves
    whole = mf.evolve(mu(), mf.SA(2.0), 2.0, 20)
    before = len(sol.t) - 1
    assert np.array_equal(sol.dataset.energy[:before], whole.dataset.energy[:before])


def test_ctrl_c_in_the_step_that_ends_a_run_is_heard():
    """Where the run would have ended there by itself, the loop around it ends all the same."""

    def strike(measure):
        if measure.mean()[0] > 0.3:
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("no such number")
        return 0.0

    with hearing_ctrl_c():
        sol = interrupted(mf.evolve, mu(), mf.SA(2.0), 2.0, 20, monitors={"m": strike})
    assert sol.status == "interrupted"
    assert 0.0 < sol.t[-1] < 2.0


def test_what_was_interrupted_travels_between_processes():
    stopped = pickle.loads(pickle.dumps(Interrupted("interrupted at t = 1", np.arange(3))))
    assert isinstance(stopped, KeyboardInterrupt)
    assert str(stopped) == "interrupted at t = 1"
    assert np.array_equal(stopped.solution, np.arange(3))


def test_particles_stay_on_the_sphere():
    cloud = mf.Particles.sample(mf.Uniform(5), 50, np.random.default_rng(0))
    sol = mf.evolve(cloud, mf.SA(2.0), 3.0, 3)
    assert sol.status == "finished"
    assert np.allclose(np.linalg.norm(sol.final.points, axis=1), 1, rtol=0, atol=1e-15)
    assert abs(float(sol.dataset.energy[-1] - sol.dataset.energy[0] - sol.dataset.work[-1])) < 1e-9
    assert "tail" not in sol.dataset


@pytest.mark.slow
@pytest.mark.parametrize("beta", [190.0, 210.0, 500.0, 700.0])
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


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
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
