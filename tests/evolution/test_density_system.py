"""Densities in runs: their space is doubled as they sharpen, up to a limit."""

import re

import numpy as np
import pytest

import meanfield as mf
from tests.handmade import unfinished


def mu(n=64, **limits):
    return mf.Density(mf.Circle(n), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]), **limits)


TURNED = mf.Head(Q=[[1.0, 0.5], [0.0, 0.7]], V=0.4)


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
    # the rtol of both runs
    for one, other in zip(grown.measures, large.measures, strict=True):
        assert mf.energy(one, 4.0) == pytest.approx(mf.energy(other, 4.0), abs=1e-11)
    points = large.final.space.points
    assert np.max(np.abs(grown.final.pdf(points) - large.final.values)) < 1e-11


def test_initial_law_is_resolved_from_the_law_itself():
    sharp = mf.VonMisesFisher([1.0, 0.0], 60.0)
    sol = mf.evolve(mf.Density(mf.Circle(64), sharp), mf.SA(1.0), 0.01, 1)
    assert sol.dataset["size"][0] > 64
    start = sol.measures[0]
    # the tail of a law, which a start resolves to rounding
    assert np.max(np.abs(start.values - sharp.pdf(start.space.points))) < 1e-12


@pytest.mark.parametrize("degree", [10, pytest.param(23, marks=pytest.mark.slow)])
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


@pytest.mark.parametrize("field", [mf.SA(4.0), mf.Attention(4.0, [mf.Head(np.eye(2))])], ids=str)
def test_under_resolved_keeps_what_it_had(field):
    start = mu(64, max_size=128)
    sol = unfinished(mf.evolve, start, field, 50.0, 100, on_unresolved="stop")
    assert sol.status == "under-resolved"
    pattern = r"t = .* reached (\S+) > (\S+) on Circle\(128\).* try `on_unresolved='flow-map'`"
    tail, limit = map(float, re.search(pattern, sol.message).groups())
    assert tail > limit == 1e-8
    assert "tail_tol" in sol.message
    assert 0 < sol.t[-1] < 50
    assert len(sol.t) == len(sol.measures)
    assert sol.final.tail <= 1e-8
    assert np.all(np.diff(sol.t) > 0)
    again = mf.evolve(mu(256), field, float(sol.t[-1]), 1)
    # the tail at which a space is left, of all below
    assert abs(float(again.dataset.energy[-1] - sol.dataset.energy[-1])) < 1e-8


def sizes(sol):
    return [measure.space.size for measure in sol.measures if isinstance(measure, mf.Density)]


# a flow map takes over between 3 and 6
TIMES = [0.0, *np.linspace(3.0, 6.0, 13), 100.0]


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
