"""`Solution.at` between two saves: the run done again from the save before."""

import numpy as np
import pytest

import meanfield as mf

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
NORTH, SLANTED = mf.VonMisesFisher([0.0, 0.0, 1.0], 3.0), mf.VonMisesFisher([0.0, 0.8, -0.6], 2.0)
BUMPS = mf.Mixture([NORTH, SLANTED], [0.6, 0.4])
CIRCLE = mf.Density(mf.Circle(64), LAW)
TOKENS = mf.Particles.sample(BUMPS, 50, rng=1)
TWO = mf.Layers([mf.SA(1.0), mf.SA(3.0)], step=0.5)
# each with its t_end, and with what the tolerance of its steps leaves of the mmd at β = 2
RUNS = {
    "circle": (CIRCLE, mf.SA(4.0), 1.0, 1e-8),
    "noise": (CIRCLE, mf.SA(4.0, noise=0.1), 1.0, 1e-8),
    "balanced": (CIRCLE, mf.DoublyStochastic(2.0), 0.5, 1e-8),
    "layers": (CIRCLE, TWO, 1.0, 1e-8),
    "S^2": (mf.Density(mf.Sphere(31), BUMPS), mf.SA(2.0), 0.5, 1e-8),
    "axis": (mf.Density(mf.Zonal(3, 63), NORTH), mf.SA(2.0), 0.5, 1e-8),
    "phases": (
        *(mf.OscillatorDensity(mf.Circle(32), LAW, [0.0, 0.5]), mf.Kuramoto(1.0)),
        *(1.0, 1e-8),
    ),
    "tokens": (TOKENS, mf.SA(4.0), 1.0, 1e-8),
    "discrete": (TOKENS, mf.LayerMap(mf.SA(4.0), step=0.1), 1.0, 0.0),
    "line": (mf.FlowMap(LAW), mf.SA(4.0), 3.0, 1e-11),
    "mesh": (mf.FlowMap(BUMPS, tol=1e-4), mf.SA(3.0), 2.0, 1e-5),
    # a flow map takes over at t = 3.8, between 0.6 t_end and the end
    "hand-over": (mf.Density(mf.Circle(32), LAW), mf.SA(4.0), 6.0, 1e-8),
}


SLOW, SLOWER = pytest.mark.slow, ("balanced", "noise", "line", "mesh", "hand-over")


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW if n in SLOWER else ()) for n in RUNS])
def test_a_time_between_saves_is_that_of_a_run_that_saved_there(name, tmp_path):
    measure, dynamics, t_end, tolerance = RUNS[name]
    sol = mf.evolve(measure, dynamics, t_end, [0.6 * t_end])
    whole = mf.evolve(measure, dynamics, 0.8 * t_end, [0.2 * t_end])
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    for share in (0.2, 0.8):
        t = share * t_end
        saved, between, read = whole.at(t), sol.at(t), again.at(t)
        assert type(between) is type(saved)
        assert mf.mmd(saved, sol.at(0.6 * t_end), beta=2.0) > 1e-3
        assert mf.mmd(between, saved, beta=2.0) <= tolerance
        # a larger space, and a flow map, ask for the law of the start, which a file has as a series
        same = 1e-12 if name == "hand-over" else 0.0
        assert mf.mmd(between, read, beta=2.0) <= same


def test_a_saved_time_is_the_very_measure():
    sol = mf.evolve(CIRCLE, mf.SA(4.0), 0.3, 3)
    assert sol.at(0.1 + 0.2) is sol.final
    assert [sol.at(t) is mu for t, mu in sol] == [True] * 4


# 0.7 k is at no save but for rounding
THREE = mf.Layers([mf.SA(1.0), mf.SA(3.0), mf.USA(0.5)], step=0.7)


@pytest.mark.parametrize("kind", ["circle", "line", "tokens", pytest.param("mesh", marks=SLOW)])
def test_the_end_of_a_layer_is_one_time(kind):
    """Saved at, written as 0.7 k, and between the saves."""
    measure, _, _, tolerance = RUNS[kind]
    sol = mf.evolve(measure, THREE, 2.1, 3)
    assert sol.t.tolist() == np.linspace(0.0, 2.1, 4).tolist()
    assert [sol.at(0.7 * k) is sol[k] for k in range(4)] == [True] * 4
    late = mf.evolve(measure, THREE, 2.1, 1)
    for k in (1, 2):
        for t in (sol.t[k], 0.7 * k):
            assert mf.mmd(late.at(t), sol[k], beta=2.0) <= tolerance


def test_the_error_follows_the_tolerance_of_the_run():
    best = mf.evolve(TOKENS, mf.SA(4.0), 4.0, [3.3], rtol=1e-13, atol=1e-15).at(3.3)
    errors = []
    for rtol in (1e-4, 1e-6, 1e-8):
        sol = mf.evolve(TOKENS, mf.SA(4.0), 4.0, 1, rtol=rtol, atol=1e-3 * rtol)
        errors.append(np.abs(sol.at(3.3).points - best.points).max())
    assert errors[0] > 1e-6
    assert errors[0] > 10.0 * errors[1] > 100.0 * errors[2]


def test_pdf_between_saves_is_that_of_the_measure():
    sol, points = mf.evolve(CIRCLE, mf.SA(4.0), 1.0, 2), np.eye(2)
    assert np.array_equal(sol.pdf(points, 0.7), sol.at(0.7).pdf(points))
    flow = mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 1.0, 2)
    # the tail at which the space of the density is doubled
    assert np.abs(sol.pdf(points, 0.7) - flow.pdf(points, 0.7)).max() < 1e-8


def test_what_can_not_be_done_again_is_refused():
    noisy = mf.evolve(TOKENS, mf.SA(4.0, noise=0.1), 0.2, 2, rng=0)
    assert noisy.at(0.1) is noisy[1]
    with pytest.raises(ValueError, match=r"t must be a saved time of tokens under noise.* 0\.15"):
        noisy.at(0.15)
    discrete = mf.evolve(TOKENS, mf.LayerMap(mf.SA(4.0), step=0.1), 1.0, 2)
    with pytest.raises(ValueError, match=r"t must be a whole number of steps of 0\.1, got 0\.33"):
        discrete.at(0.33)
    for t in (-0.1, 0.21):
        with pytest.raises(ValueError, match=r"t must be a finite number >= 0 and <= 0\.2"):
            noisy.at(t)


class Own:
    """A dynamics that no file keeps."""

    name, noise = "Own", 0.0

    def output(self, measure, points):
        return np.broadcast_to(measure.mean(), points.shape)


def test_what_no_file_keeps_is_said(tmp_path):
    sol = mf.evolve(TOKENS, Own(), 0.2, 2)
    assert np.linalg.norm(sol.at(0.15).mean()) > np.linalg.norm(sol.at(0.1).mean())
    sol.save(tmp_path / "own.nc")
    again = mf.load(tmp_path / "own.nc")
    assert again.at(0.1).mean().tolist() == sol.at(0.1).mean().tolist()
    with pytest.raises(ValueError, match=r"dynamics 'Own' is not known any more .*mf.resume"):
        again.at(0.15)
