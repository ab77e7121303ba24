"""Sums under a causal mask, against loops over each token and those before it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meanfield as mf
from meanfield.kernels import causal
from meanfield.kernels.kernel import Exponential, kernel_of
from meanfield.spaces.geometry import circle_angles, project
from tests.handmade import slow, unit_points

DECAYS = [0.0, 1.0, 30.0, 1000.0]
BETAS = [0.0, 1.0, 9.0, 30.0, 100.0]
# one token, edges of blocks and of chunks of 1,024 on S^2 and 2,048
COUNTS = [
    1,
    2,
    15,
    16,
    17,
    31,
    32,
    33,
    *(slow(n) for n in [1024, 1025, 2047, 2048, 2049]),
    slow(4097),
]
POSITIVE = kernel_of([2.0, 2.0, 1.0])


def uneven(n, seed=1):
    """Weights of sum 1, one of them 0.9 where there are several."""
    weights = np.random.default_rng(seed).uniform(0.2, 1.0, n)
    if n > 1:
        weights[n // 2] = 9.0 * (weights.sum() - weights[n // 2])
    return weights / weights.sum()


def shares_of(j, weights, decay):
    """The masses of what token j sees, of sum 1."""
    places = np.cumsum(weights)
    seen = weights[: j + 1] * np.exp(-decay * (places[j] - places[: j + 1]))
    return seen / seen.sum()


def loop_means(kernel, points, weights, decay):
    """Means of s, of s y without the token's own, and the share of its own."""
    potential, pull, own = np.empty(len(points)), np.empty(points.shape), np.empty(len(points))
    for j, point in enumerate(points):
        shares = shares_of(j, weights, decay)
        own[j] = shares[j]
        terms = shares * kernel.values(points[: j + 1] @ point)
        potential[j] = terms.sum()
        pull[j] = terms[:j] @ points[:j]
    return potential, pull, own


def places_of(points):
    """What moments are asked at: angles on the circle, else unit rows."""
    return circle_angles(points) if points.shape[1] == 2 else points


def tangential(points, vectors):
    """Their parts along the circle, or at right angles to the points."""
    if points.shape[1] == 2:
        return points[:, 0] * vectors[:, 1] - points[:, 1] * vectors[:, 0]
    return project(points, vectors)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("decay", DECAYS)
def test_means_are_those_of_loops(n, decay):
    """In rows of pairs in any dimension, and on the circle and on S^2 by moments."""
    weights = uneven(n)
    for kernel in (*map(Exponential, BETAS), POSITIVE):
        for dim in (2, 3, 5):
            # e^{β<x,y>} has the rounding of β times a product, some 1e-14 at β = 100
            allowed = {"rtol": 0, "atol": 1e-13 * kernel.largest}
            points = unit_points(dim, n, 2)
            exact = loop_means(kernel, points, weights, decay)
            for got, expected in zip(
                causal.kernel_means(kernel, points, weights, decay), exact, strict=True
            ):
                np.testing.assert_allclose(got, expected, **allowed)
            if dim < 5 and (means := causal.causal_means(kernel, dim)).holds(weights, decay):
                potential, pull = means(places_of(points), weights, decay)
                np.testing.assert_allclose(potential, exact[0], **allowed)
                np.testing.assert_allclose(pull, tangential(points, exact[1]), **allowed)


@pytest.mark.parametrize("dim", [2, 3])
def test_moments_refuse_what_leaves_double_precision(dim):
    """Equal weights decay slowly within a chunk; one large weight, or few tokens, at once."""
    means = causal.causal_means(Exponential(1.0), dim)
    assert means.holds(np.full(40_960, 1.0 / 40_960), 1000.0)
    assert not means.holds(uneven(40_960), 1000.0)
    assert not means.holds(np.full(100, 0.01), 1000.0)


@pytest.mark.parametrize("dim", [2, 3])
def test_decay_that_is_carried_over_many_chunks(dim):
    """Masses of all chunks lose e^{-1000} between first and last."""
    n, decay = 40_960, 1000.0
    points, weights = unit_points(dim, n, 3), np.full(n, 1.0 / n)
    kernel, rows = Exponential(4.0), [0, 5, 2047, 2048, 2049, 4096, 20_000, n - 1]
    potential, pull = causal.causal_means(kernel, dim)(places_of(points), weights, decay)
    for j in rows:
        terms = shares_of(j, weights, decay) * kernel.values(points[: j + 1] @ points[j])
        assert potential[j] == pytest.approx(terms.sum(), rel=0, abs=1e-13)
        expected = tangential(points[j : j + 1], (terms[:j] @ points[:j])[None])[0]
        np.testing.assert_allclose(pull[j], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("decay", DECAYS)
def test_log_moments_are_those_of_loops(decay):
    """Relative to their own size, however small: z is where G is largest, or smallest."""
    for n in (1, 2, 33, 70):
        for dim in (2, 3, 64):
            points, weights = unit_points(dim, n, 4), uneven(n)
            for scale in (0.0, 1.0, -1.0, 100.0, -100.0, -2000.0):
                z = scale * points
                log_g, mean = causal.log_moment(points, weights, decay, z)
                for j in range(n):
                    shares, exponents = shares_of(j, weights, decay), points[: j + 1] @ z[j]
                    largest = exponents.max()
                    terms = shares * np.exp(exponents - largest)
                    # shares below e^{-700} are 0, and nothing beside the token's own e^{-|z|}
                    if terms.sum() < 1e-290:
                        continue
                    # an exponent is right to rounding of |z|
                    rounding = 1e-15 * (100.0 + 2.0 * abs(scale))
                    exact = largest + np.log(terms.sum())
                    assert log_g[j] == pytest.approx(exact, rel=0, abs=rounding)
                    np.testing.assert_allclose(
                        mean[j], terms @ points[: j + 1] / terms.sum(), rtol=0, atol=rounding
                    )


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_what_sees_next_to_nothing_is_right_relative_to_that(dim, decay):
    """Tokens far from a cluster of nearly all the mass: a series has lost the potential's digits.

    They see themselves with 1e-9 / n, and the cluster through e^{-2β}.
    """
    n, far = 3000, [40, 900, 2048, 2999]
    points = unit_points(dim, n, 5) * 0.02 + np.eye(dim)[0]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[far] *= -1.0
    weights = np.ones(n)
    weights[far] = 1e-9
    weights /= weights.sum()
    kernel = Exponential(30.0)
    potential, pull, _ = loop_means(kernel, points, weights, decay)
    assert potential[far].max() < 1e-9
    means = causal.causal_means(kernel, dim)
    got, speed = means(places_of(points), weights, decay)
    # relative to its own potential, by which a softmax divides; exponents have 60 roundings
    np.testing.assert_allclose(got / potential, 1.0, rtol=0, atol=1e-13)
    size = potential if dim == 2 else potential[:, None]
    exact = tangential(points, pull)
    np.testing.assert_allclose(speed / size, exact / size, rtol=0, atol=1e-13)


def test_rows_that_are_asked_for_are_those_of_all():
    points, weights, rows = unit_points(3, 500, 6), uneven(500), np.array([0, 7, 250, 251, 499])
    every = causal.kernel_means(Exponential(9.0), points, weights, 3.0)
    some = causal.kernel_means(Exponential(9.0), points, weights, 3.0, rows)
    for all_rows, asked in zip(every, some, strict=True):
        # blocks of rows differ, and so the order of sums
        np.testing.assert_allclose(asked, all_rows[rows], rtol=0, atol=1e-15)


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(2, 80), cut=st.integers(1, 79), decay=st.sampled_from(DECAYS), seed=st.integers(0)
)
def test_what_comes_later_does_not_count(n, cut, decay, seed):
    """Later tokens in another order, elsewhere, with other weights: earlier ones stay as they are.

    Positions are masses, and only their differences count.
    """
    cut, rng = min(cut, n), np.random.default_rng(seed)
    points, weights = unit_points(2, n, seed), rng.uniform(0.1, 1.0, n) / n
    others, heavy = points.copy(), weights.copy()
    others[cut:], heavy[cut:] = points[cut:][::-1] @ [[0.6, 0.8], [-0.8, 0.6]], weights[cut:] * 3.0
    kernel = Exponential(4.0)
    for summed in (
        lambda x, w: causal.kernel_means(kernel, x, w, decay),
        lambda x, w: causal.log_moment(x, w, decay, 4.0 * x),
        lambda x, w: causal.CircleMeans(kernel)(circle_angles(x), w, min(decay, 30.0)),
    ):
        before, after = summed(points, weights), summed(others, heavy)
        for first, second in zip(before, after, strict=True):
            # blocks of rows hang on the number of tokens only
            np.testing.assert_allclose(first[:cut], second[:cut], rtol=0, atol=2e-15)


@settings(deadline=None, max_examples=20)
@given(angle=st.floats(0.0, 6.3), decay=st.sampled_from([0.0, 30.0]), beta=st.floats(1e-3, 30.0))
def test_rotations_turn_the_pull_alone(angle, decay, beta):
    points, weights = unit_points(2, 70, 8), uneven(70)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    kernel = Exponential(beta)
    before = causal.kernel_means(kernel, points, weights, decay)
    after = causal.kernel_means(kernel, points @ turn, weights, decay)
    for got, exact in zip(after, (before[0], before[1] @ turn, before[2]), strict=True):
        np.testing.assert_allclose(got, exact, rtol=0, atol=1e-13)
    means, angles = causal.CircleMeans(kernel), circle_angles(points)
    # the series is that of the same kernel wherever it begins
    np.testing.assert_allclose(
        means(angles + angle, weights, decay), means(angles, weights, decay), rtol=0, atol=1e-13
    )


def test_all_tokens_are_those_of_a_measure_to_the_last():
    """The last token sees all, as without a mask."""
    points, weights = unit_points(3, 40, 9), uneven(40)
    tokens = mf.Particles(points, weights)
    log_g, mean = causal.log_moment(points, weights, 0.0, 9.0 * points)
    exact_log, exact_mean = tokens.log_moment(9.0 * points[-1:])
    assert log_g[-1] == pytest.approx(exact_log[0], rel=1e-14)
    np.testing.assert_allclose(mean[-1], exact_mean[0], rtol=0, atol=1e-14)
