"""Layers through depth: which acts when, and shapes of them and of heads."""

from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution.loop import save_times
from tests.dynamics.weighted import tokens

EPS = np.finfo(np.float64).eps


def test_layers_follow_one_another():
    first, second = mf.SA(1.0), mf.SA(2.0)
    layers = mf.Layers([first, second, first], step=0.5)
    assert layers._depth == 1.5
    assert list(layers._between(0.0, 1.5)) == [(first, 0.5), (second, 1.0), (first, 1.5)]
    assert list(layers._between(0.25, 0.75)) == [(first, 0.5), (second, 0.75)]
    assert list(layers._between(0.5, 1.0)) == [(second, 1.0)]
    # boundaries at sums of tenths, which are not exact
    tenths = mf.Layers([first, second] * 50, step=0.1)
    seen = [layer for k in range(100) for layer, _ in tenths._between(0.1 * k, 0.1 * (k + 1))]
    assert seen == [first, second] * 50


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
                for layer, until in layers._between(t, instant):
                    assert until > t
                    lasted[int(layer.beta)] += until - t
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
        assert list(mf.Layers([first, second], step=0.5)._between(0.5, end)) == [(second, end)]
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
        assert layers._at(t) == mf.SA(k + 1.0)
        assert next(layers._between(t, 0.8))[0] is layers._at(t)
    mu = tokens(4, 3)
    assert mf.energy(mu, layers, t=0.3) == mf.energy(mu, 4.0)
