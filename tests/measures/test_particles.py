"""Tokens: their masses, places and order, and laws that they are drawn from."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from tests.handmade import unit_points
from tests.measures.every import BUILT, EPS, rounding


def test_tokens_at_angles():
    angles = np.array([0.3, -2.0, 5.0])
    mu = mf.Particles.from_angles(angles, [1.0, 2.0, 1.0], sums="direct", unit_mass=True)
    assert mu.points == pytest.approx(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert (mu.weights.tolist(), mu.sums) == ([0.25, 0.5, 0.25], "direct")


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 20.0), st.permutations(range(9)))
def test_tokens_have_no_order(seed, radius, order):
    mu = BUILT["tokens 10"]
    other = mf.Particles(mu.points[order], weights=mu.weights[order])
    z = radius * unit_points(10, 3, seed)
    for answer, exact in zip(other.log_moment(z), mu.log_moment(z), strict=True):
        assert np.max(np.abs(answer - exact)) < rounding(radius)
    assert np.max(np.abs(other.mean() - mu.mean())) < 8 * EPS


def test_tokens_at_one_place_are_one_token():
    once = mf.Particles([[0.6, 0.8], [1.0, 0.0]], weights=[2, 1], unit_mass=True)
    twice = mf.Particles([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0]])
    z = 20 * unit_points(2, 5, 0)
    for answer, exact in zip(twice.log_moment(z), once.log_moment(z), strict=True):
        assert np.max(np.abs(answer - exact)) < rounding(20)


@pytest.mark.parametrize("name", ["circle", "sphere", "zonal 10"])
def test_tokens_of_the_law_approach_the_density(name):
    mu = BUILT[name]
    n = 4000
    cloud = mf.Particles.sample(mu.law, n, np.random.default_rng(5))
    assert cloud.points.shape == (n, mu.dim)
    # five standard errors; coordinates of unit vectors have a variance of at most 1
    assert np.max(np.abs(cloud.mean() - mu.mean())) < 5 / np.sqrt(n)
    again = mf.Particles.sample(mu.law, n, np.random.default_rng(5))
    assert np.array_equal(cloud.points, again.points)


def test_what_is_handed_over_is_copied():
    points, shares = np.eye(2), np.array([1.0, 3.0])
    cloud = mf.Particles(points, weights=shares, unit_mass=True)
    points[:], shares[:] = 0, 0
    assert cloud.mean().tolist() == [0.25, 0.75]


@pytest.mark.parametrize("dim", [2, 4])
def test_measures_of_nodes_are_refused_with_what_to_do(dim):
    told = "law must be a law or a Density, got .*: draw rows of its points with .* weights"
    ending = "weights$" if dim == 2 else "weights, each turned about the axis$"
    nodes = mf.FlowMap(mf.VonMisesFisher(np.eye(dim)[-1], 2.0))
    for call in (lambda mu: mf.Particles.sample(mu, 3, 0), lambda mu: mf.Particles.quantise(mu, 3)):
        with pytest.raises(ValueError, match=f"{told}.*") as refusal:
            call(nodes)
        assert re.search(ending, str(refusal.value))
        with pytest.raises(ValueError, match=f"{told}$"):
            call(mf.Particles(np.eye(2)))
