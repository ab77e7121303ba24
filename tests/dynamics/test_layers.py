"""Heads, feed-forward layers and layers through depth: fields, shapes, records."""

import copy
import dataclasses
import json
import pickle
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import erf

import meanfield as mf
from meanfield._checks import from_record, to_record
from meanfield.dynamics import KNOWN
from meanfield.evolution.loop import save_times
from meanfield.laws import LAWS

EPS = np.finfo(np.float64).eps
KINDS = (*KNOWN, mf.Head)
ALL = (*KINDS, *LAWS)


def tokens(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    return mf.Particles(
        mf.Particles.sample(mf.Uniform(dim), n, rng).points, rng.random(n), unit_mass=True
    )


def heads(dim, count, rank, seed=1):
    rng = np.random.default_rng(seed)
    shapes = (rank, dim), (rank, dim), (dim, dim)
    return [mf.Head(*(rng.normal(size=s) for s in shapes)) for _ in range(count)]


def by_loops(particles, x, beta, given, normalised):
    """(2.7) as it stands in the paper, token by token."""
    total = np.zeros_like(x)
    for head in given:
        scores = [beta * (head.Q @ x) @ (head.K @ y) for y in particles.points]
        shares = particles.weights * np.exp(scores)
        if normalised:
            shares /= shares.sum()
        total += sum(s * head.V @ y for s, y in zip(shares, particles.points, strict=True))
    return total - (total @ x) * x


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize(("dim", "rank"), [(2, 1), (5, 3), (5, 7)])
def test_attention_is_equation_2_7(dim, rank, normalised):
    particles, given = tokens(6, dim), heads(dim, 3, rank)
    field = mf.Attention(0.7, given, normalised=normalised)
    found = field.velocity(particles, particles.points)
    for x, velocity in zip(particles.points, found, strict=True):
        expected = by_loops(particles, x, 0.7, given, normalised)
        assert np.abs(velocity - expected).max() < 1e-13 * max(1.0, np.abs(expected).max())
    assert np.abs(found).max() > 0.1


def test_a_number_times_a_matrix_is_that_multiple():
    rng = np.random.default_rng(4)
    key = rng.normal(size=(3, 3))
    assert np.array_equal(mf.Head(2.0, key).matrix, 2.0 * key.T)
    assert np.array_equal(mf.Head(key, 0.5).matrix, 0.5 * key)
    assert mf.Head(2.0, 3.0).matrix == 6.0
    assert mf.Head()._dim is None


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
def test_feed_forward(activation):
    rng = np.random.default_rng(2)
    W, A, b = rng.normal(size=(3, 5)), rng.normal(size=(5, 3)), rng.normal(size=5)
    particles = tokens(4, 3)

    def output(x):
        hidden = A @ x + b
        if activation == "relu":
            return W @ np.where(hidden > 0, hidden, 0.0)
        if activation == "gelu":
            return W @ (hidden * (1 + erf(hidden / 2**0.5)) / 2)
        return W @ ((np.exp(2 * hidden) - 1) / (np.exp(2 * hidden) + 1))

    layer = mf.FeedForward(W, A, b, activation=activation)
    velocity = layer.velocity(particles, particles.points)
    divergence = layer._divergence(particles.points)
    for i, x in enumerate(particles.points):
        drift = output(x)
        assert np.abs(velocity[i] - (drift - (drift @ x) * x)).max() < 1e-13
        slopes = [(output(x + h) - output(x - h)) / 2e-4 for h in 1e-4 * np.eye(3)]
        spread = np.trace(slopes) - x @ slopes @ x - 2.0 * (drift @ x)
        # a third derivative times h²/6
        assert divergence[i] == pytest.approx(spread, abs=1e-6)


def test_layers_follow_one_another():
    one, two = mf.SA(1.0), mf.SA(2.0)
    layers = mf.Layers([one, two, one], step=0.5)
    assert layers._depth == 1.5
    assert list(layers._between(0.0, 1.5)) == [(one, 0.5), (two, 1.0), (one, 1.5)]
    assert list(layers._between(0.25, 0.75)) == [(one, 0.5), (two, 0.75)]
    assert list(layers._between(0.5, 1.0)) == [(two, 1.0)]
    # boundaries at sums of tenths, which are not exact
    tenths = mf.Layers([one, two] * 50, step=0.1)
    seen = [layer for k in range(100) for layer, _ in tenths._between(0.1 * k, 0.1 * (k + 1))]
    assert seen == [one, two] * 50


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
    one, two = mf.SA(1.0), mf.SA(2.0)
    for end in 1.0 - 1e-13, 1.0, 1.0 + 1e-13:
        assert list(mf.Layers([one, two], step=0.5)._between(0.5, end)) == [(two, end)]
    # 3 · 0.7 < 2.1
    layers = mf.Layers([one, one, two], step=0.7)
    sol = mf.evolve(tokens(3, 4), layers, 2.1, 1, t_start=3 * 0.7)
    assert sol.t.tolist() == [3 * 0.7, 2.1]


@pytest.mark.parametrize("passed", [lambda layers: layers, partial(mf.LayerMap, step=0.5)])
def test_the_velocity_of_layers_is_that_of_the_layer_at_t(passed):
    mu, (one, two) = tokens(4, 3), (mf.SA(1.0), mf.USA(2.0))
    layers = passed(mf.Layers([one, two], step=0.5))
    for t, layer in (0.0, one), (0.4, one), (0.5, two), (0.9, two), (1.0, two):
        expected = layer.velocity(mu, mu.points)
        assert np.array_equal(layers.velocity(mu, mu.points, t=t), expected)
    assert not np.array_equal(one.velocity(mu, mu.points), two.velocity(mu, mu.points))
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


THINGS = [
    (mf.SA(2.0, sign=-1, noise=0.1), {"noise": 0.2}),
    (mf.Head(V=np.eye(3)), {"V": 2.0 * np.eye(3)}),
    (mf.Attention(1.0, heads(3, 2, 2), noise=0.2), {"heads": heads(3, 2, 2, seed=2)}),
    (mf.Attention(0.3, [mf.Head(V=-1.0)], normalised=False), {"normalised": True}),
    (mf.FeedForward(np.ones((3, 2)), np.eye(2, 3)), {"b": [0.0, 1.0]}),
    (mf.Layers([mf.Attention(1.0, heads(3, 2, 2))]), {"step": 2.0}),
    (mf.Uniform(3), {"dim": 2}),
    (mf.VonMisesFisher([0.0, 1.0], 2.0), {"kappa": 3.0}),
    (mf.FourierSeries([0.5]), {"sin": [0.3]}),
    (mf.ZonalSeries(3, [0.5]), {"axis": [1.0, 0.0, 0.0]}),
    (mf.PointCloud([[0.0, 1.0], [1.0, 0.0]], bandwidth=0.3), {"weights": [0.1, 0.9]}),
    (
        mf.Mixture([mf.Uniform(2), mf.FourierSeries([0.5])]),
        {"laws": [mf.Uniform(2), mf.FourierSeries([0.4])]},
    ),
]


@pytest.mark.parametrize(("thing", "change"), THINGS)
def test_equal_is_what_was_made_of_the_same(thing, change):
    matrices = []
    record = json.loads(json.dumps(to_record(thing, ALL, matrices)))
    for again in (
        *(copy.copy(thing), copy.deepcopy(thing), dataclasses.replace(thing)),
        *(pickle.loads(pickle.dumps(thing)), from_record(to_record(thing, ALL), ALL)),
        from_record(record, ALL, matrices),
    ):
        assert again == thing
        assert hash(again) == hash(thing)
        assert repr(again) == repr(thing)
    other = dataclasses.replace(thing, **change)
    assert other != thing
    assert dataclasses.replace(other, **{name: getattr(thing, name) for name in change}) == thing
    assert thing != 1


EYE = np.eye(3)


def neurons(number):
    return {"type": "FeedForward", "W": {"matrix": number}, "A": {"matrix": 0}}


BAD = [
    (lambda: from_record({"type": "GPT"}, KINDS), r"record must be of SA, USA, .*, Head"),
    (
        lambda: from_record({"type": "FeedForward", "W": {"matrix": 7}}, KINDS),
        r"record must be of SA, .* and its arguments, got",
    ),
    (
        lambda: from_record({"type": "Head", "V": 2.0}, KNOWN, parts=[mf.Head]),
        r"record must be of SA, .*LayerMap and its arguments, got .*'Head'",
    ),
    (
        lambda: from_record(neurons(-1), KNOWN, [EYE, EYE]),
        r"record must be of SA, .* and its arguments, got",
    ),
    (
        lambda: from_record(neurons(True), KNOWN, [EYE, EYE]),
        r"record must be of SA, .* and its arguments, got",
    ),
    (lambda: from_record("SA", KINDS), r"record must be of SA, .* got 'SA'"),
    (lambda: to_record(mf.Uniform(2), KINDS), r"a file keeps must be of SA, "),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_records_of_no_dynamics(call, message):
    with pytest.raises(ValueError, match=message):
        call()
