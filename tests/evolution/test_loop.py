"""evolve: when it saves, from when to when it runs, and how its error follows the tolerance."""

import numpy as np
import pytest

import meanfield as mf


def mu(n=64, **limits):
    return mf.Density(mf.Circle(n), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]), **limits)


def test_saves_where_asked():
    assert np.array_equal(mf.evolve(mu(), mf.SA(1.0), 1.0, 4).t, [0, 0.25, 0.5, 0.75, 1])
    assert np.array_equal(mf.evolve(mu(), mf.SA(1.0), 1.0, [0.1, 0.3]).t, [0, 0.1, 0.3, 1])
    assert len(mf.evolve(mu(), mf.SA(1.0), 1.0).t) == 21


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
    # the same steps, but for the rounding of their times
    assert np.abs(early.final.mean() - late.final.mean()).max() < 1e-12
    layers = mf.Layers([mf.SA(2.0), mf.SA(3.0, sign=-1), mf.USA(1.0)], step=0.5)
    whole = mf.evolve(start, layers, 1.5, [0.7])
    rest = mf.evolve(whole.at(0.7), layers, 1.5, 1, t_start=0.7)
    assert np.abs(whole.at(0.7).mean() - rest.final.mean()).max() > 1e-3
    # steps that differ, each with a share of rtol = 1e-9
    assert np.abs(whole.final.mean() - rest.final.mean()).max() < 1e-10


def test_the_density_of_a_run_from_t_start_on():
    flow, points = STARTS["flow map"], np.eye(2)
    early, late = (mf.evolve(flow, mf.SA(2.0), t + 1.0, 1, t_start=t) for t in (0.0, 3.0))
    assert np.array_equal(late.pdf(points, 3.0), early.pdf(points, 0.0))
    # the same steps, but for the rounding of their times
    assert late.pdf(points, 3.4) == pytest.approx(early.pdf(points, 0.4), rel=1e-13)
    with pytest.raises(ValueError, match=r"t must be a finite number >= 3 and <= 4, got 0\.4"):
        late.pdf(points, 0.4)


def test_saves_do_not_change_the_answer():
    few = mf.evolve(mu(), mf.SA(4.0), 2.0, 1, rtol=1e-11, atol=1e-13)
    many = mf.evolve(mu(), mf.SA(4.0), 2.0, 37, rtol=1e-11, atol=1e-13)
    # the rtol of both runs
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


def test_particles_stay_on_the_sphere():
    cloud = mf.Particles.sample(mf.Uniform(5), 50, np.random.default_rng(0))
    sol = mf.evolve(cloud, mf.SA(2.0), 3.0, 3)
    assert sol.status == "finished"
    assert np.allclose(np.linalg.norm(sol.final.points, axis=1), 1, rtol=0, atol=1e-15)
    # the rtol of the steps
    assert abs(float(sol.dataset.energy[-1] - sol.dataset.energy[0] - sol.dataset.work[-1])) < 1e-9
    assert "tail" not in sol.dataset
