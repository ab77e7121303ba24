"""Layers through depth: which acts when, and shapes of them and of heads."""

import gc
import pickle
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import kstest, norm

import meanfield as mf
from meanfield.dynamics.attention import ENSEMBLES
from meanfield.evolution.loop import save_times
from tests.dynamics.weighted import tokens

EPS = np.finfo(np.float64).eps


def test_layers_follow_one_another():
    first, second = mf.SA(1.0), mf.SA(2.0)
    layers = mf.Layers([first, second, first], step=0.5)
    assert layers.depth == 1.5
    assert layers.all_layers == (first, second, first)
    assert list(layers.between(0.0, 1.5)) == [(0, 0.5), (1, 1.0), (2, 1.5)]
    assert list(layers.between(0.25, 0.75)) == [(0, 0.5), (1, 0.75)]
    assert list(layers.between(0.5, 1.0)) == [(1, 1.0)]
    # boundaries at sums of tenths, which are not exact
    tenths = mf.Layers([first, second] * 50, step=0.1)
    seen = [i for k in range(100) for i, _ in tenths.between(0.1 * k, 0.1 * (k + 1))]
    assert seen == list(range(100))


# of the layers of ordinary runs
STEPS = [0.1, 0.2, 0.25, 0.3, 0.35, 0.5, 0.7, 1.0]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_layers_lead_to_the_very_times_that_are_saved(first):
    """Each layer acts for its step, but for rounding, wherever the saves are."""
    close_calls = 0
    for n, step in product(range(first + 1, 12), STEPS):
        layers = mf.Layers([mf.SA(float(k)) for k in range(n)], step=step)
        # as a user writes them
        t_start, t_end = (float(f"{k * step:.12g}") for k in (first, n))
        for saves in {1, 2, 3, 4, 5, 8, 10, 16, 20, n - first}:
            times, lasted = save_times(t_start, t_end, saves), np.zeros(n)
            for t, instant in pairwise(times):
                for number, until in layers.between(t, instant):
                    assert until > t
                    lasted[number] += until - t
                    t = until
                assert t == instant
            # up to 20 differences of times that are rounded to eps t_end
            assert np.abs(lasted[first:] - step).max() <= 40.0 * EPS * t_end
            assert not lasted[:first].any()
            off = np.abs(times - np.round(times / step) * step)
            close_calls += bool(((off > 0.0) & (off < 1e-12)).any())
    assert close_calls > 50


def test_a_time_beyond_the_depth_by_rounding_is_the_end_of_the_last_layer():
    first, second = mf.SA(1.0), mf.SA(2.0)
    for end in 1.0 - 1e-13, 1.0, 1.0 + 1e-13:
        assert list(mf.Layers([first, second], step=0.5).between(0.5, end)) == [(1, end)]
    # 3 · 0.7 < 2.1
    layers = mf.Layers([first, first, second], step=0.7)
    sol = mf.evolve(tokens(3, 4), layers, 2.1, 1, t_start=3 * 0.7)
    assert sol.t.tolist() == [3 * 0.7, 2.1]


@pytest.mark.parametrize("passed", [lambda layers: layers, partial(mf.LayerMap, step=0.5)])
def test_the_velocity_of_layers_is_that_of_the_layer_at_t(passed):
    mu, (first, second) = tokens(4, 3), (mf.SA(1.0), mf.USA(2.0))
    layers = passed(mf.Layers([first, second], step=0.5))
    for t, layer in (0.0, first), (0.4, first), (0.5, second), (0.9, second), (1.0, second):
        expected = layer.velocity(mu, mu.points)
        assert np.array_equal(layers.velocity(mu, mu.points, t=t), expected)
    assert not np.array_equal(first.velocity(mu, mu.points), second.velocity(mu, mu.points))
    with pytest.raises(ValueError, match="t must be a finite number >= 0, got -1"):
        layers.velocity(mu, mu.points, t=-1.0)
    with pytest.raises(ValueError, match=r"t must be <= 1\.?0?, the depth of .* got 3"):
        layers.velocity(mu, mu.points, t=3.0)


def test_a_layer_begins_at_its_time_but_for_rounding():
    layers = mf.Layers([mf.SA(float(k)) for k in range(1, 9)], step=0.1)
    # 0.3/0.1 is less than 3
    for k, t in enumerate((0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)):
        assert layers.at(t) == mf.SA(k + 1.0)
        assert next(layers.between(t, 0.8))[0] == k
    mu = tokens(4, 3)
    assert mf.energy(mu, layers, t=0.3) == mf.energy(mu, 4.0)


def drawn(ensemble="values", **changes):
    asked = {"beta": 1.0, "dim": 3, "n_layers": 12, "step": 0.1, "rng": 5} | changes
    return mf.Layers.random(ensemble, **asked)


def test_a_random_layer_is_that_of_its_number_and_seed():
    """Whatever was asked for before it."""
    for ensemble in (*ENSEMBLES, "values"):
        layers = drawn(ensemble, scale=3.0, beta=2.0)
        forwards = list(layers.all_layers)
        assert [
            *map(drawn(ensemble, scale=3.0, beta=2.0).all_layers.__getitem__, range(12))
        ] == forwards
        assert [layers.all_layers[i] for i in reversed(range(12))] == forwards[::-1]
        assert len(set(forwards)) == 12
        draws = np.random.Generator(np.random.Philox(key=5, counter=7 << 192))
        if ensemble == "values":
            head = mf.Head(V=draws.normal(size=(3, 3)))
        else:
            head = mf.Head.random(ensemble, 3, draws)
        head = mf.Head(Q=head.Q, K=head.K, V=3.0 * head.V)
        assert forwards[7] == layers.at(0.75) == mf.Attention(2.0, [head])
    other = drawn(rng=6)
    assert not {*other.all_layers} & {*drawn().all_layers}
    # 1/√step
    plain, scaled = (one.all_layers[0].heads[0].V for one in (drawn(scale=1.0), drawn(step=0.25)))
    assert np.array_equal(2.0 * plain, scaled)


def test_values_of_random_layers_are_independent_normal_numbers():
    """Within a layer and between layers: no number is in two layers."""
    layers = drawn(dim=10, n_layers=400, scale=1.0)
    values = np.array([layer.heads[0].V for layer in layers.all_layers]).reshape(400, 100)
    assert kstest(values.ravel(), norm.cdf).pvalue > 1e-3
    assert len(np.unique(values)) == 40000
    for lag in 1, 2, 100, 101:
        r = np.corrcoef(values.ravel()[lag:], values.ravel()[:-lag])[0, 1]
        assert abs(r) < 4.0 / 200.0


def test_a_generator_gives_the_seed_of_random_layers():
    seed = int(np.random.default_rng(3).integers((1 << 63) - 1))
    rng = np.random.default_rng(3)
    assert drawn(rng=rng) == drawn(rng=seed)
    assert drawn(rng=rng) != drawn(rng=seed)


def test_random_layers_know_the_largest_reach_of_all():
    firsts = []
    for ensemble in ENSEMBLES:
        layers = drawn(ensemble, beta=2.0, n_layers=30, rng=8)
        reaches = [np.linalg.norm(2.0 * one.heads[0].matrix, 2) for one in layers.all_layers]
        assert layers.reach == pytest.approx(max(reaches), rel=1e-14)
        firsts.append(np.argmax(reaches) == 0)
    assert not all(firsts)
    assert drawn(beta=2.0, n_layers=10**6).reach == 2.0


@pytest.mark.parametrize("passed", [lambda layers: layers, partial(mf.LayerMap, step=0.1)])
def test_random_layers_move_tokens_as_those_layers_do(passed):
    for ensemble in "values", "ginibre":
        layers, start = drawn(ensemble), tokens(5, 3)
        sol = mf.evolve(start, passed(layers), 1.2, 3)
        listed = mf.evolve(start, passed(mf.Layers(list(layers.all_layers), step=0.1)), 1.2, 3)
        assert np.array_equal(sol.final.points, listed.final.points)
        assert np.array_equal(sol.at(0.7).points, listed.at(0.7).points)


def test_a_token_moves_by_the_root_of_the_step():
    (x, y), layers = np.eye(4)[:2], drawn(dim=4, beta=0.0, step=0.04, n_layers=1)
    value = layers.all_layers[0].heads[0].V * 0.2
    moved = mf.evolve(mf.Particles([x, y]), mf.LayerMap(layers, step=0.04), 0.04, 1).final
    expected = np.array([x, y]) + 0.2 * value @ (0.5 * (x + y))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(moved.points - expected).max() < 4 * EPS


@pytest.mark.parametrize("ensemble", ["values", "ginibre"])
def test_random_layers_move_every_measure_on_the_circle_alike(ensemble):
    """Nodes of a flow map as tokens are a quadrature of the law, exact to rounding."""
    law, layers = (
        mf.FourierSeries(cos=[0.5], sin=[0.2]),
        drawn(ensemble, dim=2, n_layers=4, scale=1.0),
    )
    nodes = mf.FlowMap(law, tol=1e-12)
    density = mf.evolve(mf.Density(mf.Circle(64), law), layers, 0.4, 2, rtol=1e-11)
    flow = mf.evolve(nodes, layers, 0.4, 2)
    cloud = mf.evolve(mf.Particles(nodes.points, nodes.weights), layers, 0.4, 2, rtol=1e-11)
    still = np.abs(density.final.mean() - density[0].mean()).max()
    assert still > 1e-2
    # tail_tol = 1e-8 of the density's space, and the steps' tolerance
    for other in flow, cloud:
        assert np.abs(other.final.mean() - density.final.mean()).max() < 1e-9
        logs = [one.final.log_moment([[2.0, 0.0], [0.0, -3.0]])[0] for one in (other, density)]
        assert np.abs(logs[0] - logs[1]).max() < 1e-8
    angles = np.linspace(0.0, 6.0, 7)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert np.abs(flow.pdf(points, 0.35) / density.pdf(points, 0.35) - 1.0).max() < 1e-7


@pytest.mark.slow
def test_random_layers_move_every_measure_on_the_sphere_alike():
    """More layers than fields are kept, through which a mesh is followed back."""
    bumps = [mf.VonMisesFisher(mean, 1.0) for mean in np.eye(3)[:2]]
    law, layers = mf.Mixture(bumps, [0.6, 0.4]), drawn(n_layers=20, step=0.02)
    density = mf.evolve(mf.Density(mf.Sphere(31), law), layers, 0.4, 1)
    flow = mf.evolve(mf.FlowMap(law, tol=1e-7), layers, 0.4, 1)
    assert np.abs(density.final.mean() - density[0].mean()).max() > 1e-2
    # the tolerance of the flow map, and tail_tol of the density
    assert np.abs(flow.final.mean() - density.final.mean()).max() < 1e-6
    points = tokens(6, 3).points
    assert np.abs(flow.pdf(points, 0.37) / density.pdf(points, 0.37) - 1.0).max() < 1e-4


def test_a_result_keeps_the_seed_of_random_layers(tmp_path):
    layers = drawn("ginibre", dim=2, n_layers=1000, step=0.01, rng=2**63 - 1)
    for dynamics in layers, mf.LayerMap(layers, step=0.01):
        mf.evolve(tokens(3, 2), dynamics, 0.05, 1).save(tmp_path / "run.nc")
        kept = mf.load(tmp_path / "run.nc")
        assert kept.dynamics == dynamics
        assert max(len(str(about)) for about in kept.dataset.attrs.values()) < 300
    assert pickle.loads(pickle.dumps(layers)) == layers
    assert replace(layers, step=0.5).scale is None


def live_layers():
    # what other tests have left is not counted once, and gone the next time
    gc.collect()
    return sum(isinstance(one, mf.Attention) for one in gc.get_objects())


@pytest.mark.parametrize("n_layers", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_random_layers_are_drawn_when_they_act(n_layers):
    """Few are there at any time, however many there are; the first was in use before."""
    layers, before, live = drawn("ginibre", dim=3, n_layers=n_layers, step=1e-3), live_layers(), []

    def count(measure):
        live.append(live_layers() - before)
        return measure.mass()

    t_end = n_layers * 1e-3
    mf.evolve(tokens(2, 3), mf.LayerMap(layers, step=1e-3), t_end, 5, monitors={"live": count})
    mf.evolve(tokens(2, 3), layers, t_end, 5, rtol=1e-4, monitors={"live": count})
    assert 1 <= min(live) <= max(live) <= 8
