"""Runs that can't come to their end, and runs that Ctrl-C ends."""

import os
import pickle
import re
import signal

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution.run import MOST_STEPS, StallDetector
from meanfield.evolution.steppers import ExplicitSteps
from meanfield.evolution.token_system import NoisyTokenSystem
from meanfield.exceptions import Interrupted
from tests.children import hearing_ctrl_c
from tests.handmade import interrupted, unfinished

START = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))


@pytest.mark.slow
def test_run_that_can_not_arrive_ends():
    """Repulsive USA rests at the uniform measure, and keeps explicit steps to e^{-β}."""
    sol = unfinished(mf.evolve, START, mf.USA(beta=30.0, sign=-1), t_end=1.0)
    assert sol.status == "failed"
    assert "USA runs in times of order exp(-beta) = 9.4e-14; try a smaller t_end" in sol.message
    assert 0 < sol.t[-1] < 1e-6
    assert int(sol.dataset.steps[-1]) < 5000
    assert float(sol.dataset.energy[-1]) == pytest.approx(mf.theory.energy_uniform(30.0, 2))
    # in its own times it arrives
    near = mf.evolve(START, mf.USA(beta=30.0, sign=-1), t_end=100 * np.exp(-30.0))
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
            sol = mf.evolve(START, mf.SA(beta), 2.0, 20, monitors={"m": strike})
            done.append(sol)

    with hearing_ctrl_c():
        sol = interrupted(loop)
        # the handler of before is back
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [run.status for run in done] == ["finished"]
    assert sol.dynamics == mf.SA(2.0)
    assert sol.status == "interrupted"
    assert 0.0 < sol.t[-1] < 2.0
    # what was saved before is what an uninterrupted run saves
    whole = mf.evolve(START, mf.SA(2.0), 2.0, 20)
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
        sol = interrupted(mf.evolve, START, mf.SA(2.0), 2.0, 20, monitors={"m": strike})
    assert sol.status == "interrupted"
    assert 0.0 < sol.t[-1] < 2.0


def test_what_was_interrupted_travels_between_processes():
    stopped = pickle.loads(pickle.dumps(Interrupted("interrupted at t = 1", np.arange(3))))
    assert isinstance(stopped, KeyboardInterrupt)
    assert str(stopped) == "interrupted at t = 1"
    assert np.array_equal(stopped.solution, np.arange(3))


TOKENS = mf.Particles.from_angles([0.0, 1.0])
# of no axis
TWO_LAWS = mf.Mixture([mf.VonMisesFisher(x, 3.0) for x in ([0.0, 0.6, 0.8], [1.0, 0.0, 0.0])])


@pytest.mark.parametrize(
    ("start", "remedy"),
    [
        (TOKENS, "; try larger tolerances rtol and atol"),
        (mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5])), "; try larger tolerances rtol a"),
        (mf.FlowMap(mf.FourierSeries(cos=[0.5])), "; try a larger `tol` of the flow map"),
        (mf.FlowMap(TWO_LAWS, tol=1e-4), "; try a larger `tol` of the f"),
    ],
    ids=["tokens", "density", "line", "S^2"],
)
def test_steps_that_do_not_succeed_want_their_own_tolerance(start, remedy, monkeypatch):
    monkeypatch.setattr(ExplicitSteps, "_try", lambda self, end, h: (2.0, self.y, self.f))
    failed = unfinished(mf.evolve, start, mf.SA(1.0), 0.1, 1)
    assert failed.status == "failed"
    assert f": the step size is less than the spacing of floats{remedy}" in failed.message


class Ceasing:
    """A drift of a user's own that is no number at last."""

    name, noise, reads_measure = "ceasing", 0.0, False

    def __init__(self):
        self.calls = 0

    def output(self, measure, points):
        self.calls += 1
        return points[:, ::-1] * (np.nan if self.calls > 60 else 1.0)

    def divergence(self, measure, points):
        dim = points.shape[1]
        return dim % 2 - dim * np.einsum("ij,ij->i", points, points[:, ::-1])


@pytest.mark.parametrize("start", [TOKENS, mf.FlowMap(TWO_LAWS, tol=1e-4)], ids=["tokens", "S^2"])
def test_what_a_dynamics_answers_is_no_matter_of_tolerances(start):
    failed = unfinished(mf.evolve, start, Ceasing(), 5.0, 1)
    assert failed.status == "failed"
    assert re.search(r": output of .*Ceasing.* must be real, finite and of shape", failed.message)
    assert "try" not in failed.message


def test_noise_that_leaves_no_number_wants_a_smaller_step(monkeypatch):
    monkeypatch.setattr(NoisyTokenSystem, "_split", lambda *_: None)
    failed = unfinished(mf.evolve, TOKENS, mf.SA(1.0, noise=0.1), 0.1, 1, max_step=0.1, rng=0)
    assert failed.message.endswith(": a token is no longer finite; try a smaller max_step")
