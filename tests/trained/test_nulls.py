"""Nulls keep what they say and destroy the rest."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.trained.clusters import modes
from meanfield.trained.nulls import drift_to_mean, other_layers, shuffle_coordinates
from meanfield.trained.synthetic import synthetic_layers
from meanfield.trained.temperature import effective_beta
from tests.trained.layers import bunches, drawn


def test_shuffled_coordinates_keep_their_values_and_no_clusters():
    points = bunches(drawn(4, 40, 1), 12, 0.05)
    mixed = shuffle_coordinates(points, np.random.default_rng(0))
    assert np.abs(np.linalg.norm(mixed, axis=1) - 1.0).max() < 1e-15
    # rows were divided by lengths of some 1, and up to these each column is what it was
    order = np.sort(mixed, axis=0) / np.sort(points, axis=0)
    assert np.median(np.abs(order - 1.0)) < 0.2
    assert len(modes(points, 30.0)) == 4
    assert len(modes(mixed, 30.0)) > 20
    again = shuffle_coordinates(points, 0)
    assert np.array_equal(again, mixed)
    assert not np.array_equal(shuffle_coordinates(points, 1), mixed)


def test_shuffled_coordinates_keep_the_mean():
    """Before lengths are made 1 the mean is kept to rounding: here they are nearly."""
    rng = np.random.default_rng(0)
    common = np.ones(400) / 20.0
    points = common + 0.05 * rng.standard_normal((50, 400))
    points /= np.linalg.norm(points, axis=1)[:, None]
    assert mf.mean_cosine(mf.Particles(points)) > 0.3
    assert mf.mean_cosine(mf.Particles(shuffle_coordinates(points, 0))) == pytest.approx(
        mf.mean_cosine(mf.Particles(points)), rel=0.02
    )


@pytest.mark.parametrize("cosine", [0.1, 0.4, 0.9, 0.999])
def test_drift_reaches_a_mean_cosine_along_great_circles(cosine):
    points = drawn(20, 8) + 0.4
    points /= np.linalg.norm(points, axis=1)[:, None]
    moved = drift_to_mean(points, cosine)
    assert mf.mean_cosine(mf.Particles(moved)) == pytest.approx(cosine, abs=1e-10)
    # each token stays in the plane of its own and the mean
    mean = points.mean(axis=0)
    for x, y in zip(points, moved, strict=True):
        assert np.linalg.matrix_rank(np.stack([x, y, mean]), tol=1e-10) == 2
    same = drift_to_mean(points, mf.mean_cosine(mf.Particles(points)))
    assert np.abs(same - points).max() < 1e-10


def test_drift_ends_where_it_can_go_no_further():
    points = drawn(20, 8) + 0.4
    points /= np.linalg.norm(points, axis=1)[:, None]
    least = mf.mean_cosine(mf.Particles(drift_to_mean(points, -1.0)))
    assert -1.0 / 19.0 - 1e-12 <= least < 0.0
    assert mf.mean_cosine(mf.Particles(drift_to_mean(points, 1.0))) > 1.0 - 1e-9


def test_heads_of_other_layers_do_not_fit():
    """Between layers that move tokens far β is found in a layer's own heads only."""
    start = drawn(40, 6)
    layers = synthetic_layers(start, 6, beta=4.0, step=3.0, rng=0)
    others = other_layers(6, 0)
    assert sorted(others) == list(range(6))
    assert (others != np.arange(6)).all()
    for layer in (0, 1):
        own = effective_beta(layers.attention_at(layer), layers.points(layer))
        other = effective_beta(layers.attention_at(5), layers.points(layer))
        mixed = shuffle_coordinates(layers.points(layer), layer)
        none = effective_beta(layers.attention_at(layer), mixed)
        assert own.r2 > 0.999
        assert other.r2 < 0.9
        assert none.r2 < 0.1


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="n_layers must be an integer >= 2, got 1"):
        other_layers(1, 0)
    with pytest.raises(ValueError, match="points must have a mean that is not 0"):
        drift_to_mean([[1.0, 0.0], [-1.0, 0.0]], 0.5)
    with pytest.raises(ValueError, match="cosine must be a finite number"):
        drift_to_mean(drawn(4, 3), 2.0)
    with pytest.raises(ValueError, match="rng"):
        shuffle_coordinates(drawn(4, 3), None)
