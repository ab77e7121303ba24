"""Tokens as a law: the heat kernel, sums over many tokens, and bandwidths."""

import math
import re
import tracemalloc

import numpy as np
import pytest

import meanfield as mf
from meanfield.laws import PointCloud, Uniform, VonMisesFisher
from meanfield.laws.point_cloud import heat_kernel, likelihood_bandwidth
from meanfield.laws.series import Pieces
from meanfield.measures import Density
from meanfield.spaces import Circle, Sphere
from meanfield.spaces.geometry import circle_points
from tests.laws.handmade import CLOUD, DRAWS, EPS, equispaced, meridian, within_five_errors

pytestmark = pytest.mark.usefixtures("floating_point_errors")


@pytest.mark.parametrize("bandwidth", [0.002, 0.05, 0.4, 3.0])
def test_heat_kernel_closed_forms(bandwidth):
    """d = 2: wrapped Gaussians; d = 4: their derivative over sin φ. Sums of positive terms."""
    φ = np.linspace(1e-3, np.pi - 1e-3, 101)
    images = φ[:, None] + 2.0 * np.pi * np.arange(-6, 7)
    with np.errstate(under="ignore"):
        bumps = np.exp(-(images**2) / (4.0 * bandwidth))
        circle = math.sqrt(np.pi / bandwidth) * bumps.sum(axis=1)
        three = (images * bumps).sum(axis=1) / np.sin(φ)
        three *= math.exp(bandwidth) * math.sqrt(np.pi) / (4.0 * bandwidth**1.5)
    for dim, exact in ((2, circle), (4, three)):
        axis = np.eye(dim)[0]
        values = PointCloud(axis[None, :], bandwidth=bandwidth).pdf(meridian(axis, np.cos(φ)))
        # rounding of terms as large as the peak, and of t = <x, x_i>: ε/(2 bandwidth) of h
        with np.errstate(under="ignore"):
            relative = EPS / bandwidth * exact
        tolerance = 1e-14 * heat_kernel(bandwidth, dim)(np.zeros(1))[0] + relative
        if dim == 4:
            # the closed form divides a difference by sin φ >= 1e-3
            tolerance = tolerance + 1e-11 * (bandwidth > 1.0)
        assert np.all(np.abs(values - exact) <= tolerance)


def test_many_tokens_go_in_blocks():
    """More tokens than a block holds, against a plain sum; unequal weights in each block."""
    rng = np.random.default_rng(5)
    tokens, points = Uniform(3).sample(70_000, rng), Uniform(3).sample(3, rng)
    weights = rng.uniform(size=70_000)
    law = PointCloud(tokens, weights, bandwidth=0.1, unit_mass=True)
    kernel = heat_kernel(0.1, 3)
    plain = [kernel(np.arccos(np.clip(tokens @ x, -1, 1))) @ law.weights for x in points]
    # sums of positive terms in another order
    assert np.allclose(law.pdf(points), plain, rtol=1e-13, atol=0.0)
    assert np.ptp(plain) > 1e-4


@pytest.mark.slow
def test_memory_of_a_cloud_is_bounded():
    rng = np.random.default_rng(6)
    law = PointCloud(Uniform(3).sample(470, rng), bandwidth=0.02)
    points = Uniform(3).sample(20_000, rng)
    tracemalloc.start()
    law.pdf(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # all inner products at once would take 75 MB; points and result take 1 MB
    assert peak < 8e6


@pytest.mark.parametrize("mean", [None, 100.0], ids=["spread", "bump"])
@pytest.mark.parametrize("space", [Circle(256), Sphere(63)], ids=repr)
def test_many_tokens_are_smoothed_by_a_series(space, mean):
    """100 tokens on a grid of many points against the heat kernel about each of them."""
    dim, bandwidth = space.dim, 0.01
    bump = Uniform(dim) if mean is None else VonMisesFisher(np.eye(dim)[0], mean)
    tokens = bump.sample(100, np.random.default_rng(0))
    weights = np.random.default_rng(1).dirichlet(np.ones(100))
    law, kernel = PointCloud(tokens, weights, bandwidth=bandwidth), heat_kernel(bandwidth, dim)
    angles = np.arccos(np.clip(space.points @ tokens.T, -1.0, 1.0))
    values = kernel(angles) @ weights
    # both have errors of some 1e-14 of a token's peak, of which f is a share
    assert np.abs(law.pdf(space.points) - values).max() < 3e-14 * values.max()
    assert np.abs(Density(space, law).coefficients - space.analysis(values)).max() < 3e-14


def test_a_density_of_many_tokens_asks_the_kernel_of_no_pair(monkeypatch):
    asked, plain = [], Pieces.__call__

    def noted(self, angles):
        asked.append(angles.size)
        return plain(self, angles)

    monkeypatch.setattr(Pieces, "__call__", noted)
    rng = np.random.default_rng(0)
    for space, points in (Sphere(63), 0), (Circle(256), 2):
        law = PointCloud(Uniform(space.dim).sample(12_288, rng), bandwidth=0.01)
        asked.clear()
        Density(space, law)
        # on the circle the series, on the grid and between its points
        assert sum(asked) == points * len(space.weights)


def test_without_bandwidth_draws_are_tokens():
    law = PointCloud(CLOUD, [1, 2, 0], unit_mass=True)
    x = law.sample(DRAWS, np.random.default_rng(18))
    hits = np.all(x[:, None, :] == law.points[None, :, :], axis=2).astype(float)
    assert np.array_equal(hits.sum(axis=1), np.ones(DRAWS))
    assert within_five_errors(hits[:, :2], [1 / 3, 2 / 3])
    assert hits[:, 2].sum() == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 8, 100, 1000])
def test_the_bandwidth_that_a_refusal_names_is_allowed(dim):
    tokens = np.eye(dim)[:2]
    with pytest.raises(ValueError, match="bandwidth must be >= ") as error:
        PointCloud(tokens, bandwidth=1e-9)
    named = float(re.search(r">= (\S+) for", str(error.value))[1])
    pdf = PointCloud(tokens, bandwidth=named).pdf(tokens)
    # the highest peak that is allowed, shared by two tokens
    assert np.all((pdf > 1.0) & (pdf < 1e10))
    with pytest.raises(ValueError, match="bandwidth must be >= "):
        PointCloud(tokens, bandwidth=0.98 * named)


def test_a_histogram_is_smoothed_by_the_width_of_a_bin():
    law = mf.PointCloud.from_histogram(np.ones(24))
    width = np.pi / 12.0
    assert law.bandwidth == pytest.approx(0.5 * width**2, rel=1e-12)
    # the comb of equal bins has the one harmonic 24 at 2 e^{-2π²}, to rounding of the peak
    ripple = law.pdf(circle_points(equispaced(960))) - 1.0
    assert ripple.max() == pytest.approx(2.0 * np.exp(-2.0 * np.pi**2), rel=1e-5)
    edges = np.linspace(-np.pi, np.pi, 25)
    exact = mf.VonMisesFisher(0.5, 2.0)
    middles = 0.5 * (edges[1:] + edges[:-1])
    counts = 1e6 * exact.pdf(circle_points(middles))
    found = mf.Density(mf.Circle(64), mf.PointCloud.from_histogram(counts, edges)).coefficients
    # modes of the law at 24 points, each times e^{-bandwidth k²}
    k = np.arange(5)
    plain = mf.Density(mf.Circle(64), exact).coefficients[:5]
    assert np.abs(found[:5] - np.exp(-0.5 * width**2 * k**2) * plain).max() < 1e-9


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_likelihood_finds_about_the_best_bandwidth(dim):
    """Two opposite bumps, on which a rule for one bump fails: near the least squared error."""
    axis = np.eye(dim)[0]
    law = mf.Mixture([mf.VonMisesFisher(axis, 20.0), mf.VonMisesFisher(-axis, 20.0)])
    tokens, probes = law.sample(400, 1), law.sample(2000, 2)
    found = mf.PointCloud(tokens, bandwidth="likelihood").bandwidth

    def error(bandwidth):
        # relative to the density, at its own draws
        smooth = mf.PointCloud(tokens, bandwidth=bandwidth).pdf(probes)
        return np.mean((smooth - law.pdf(probes)) ** 2 / law.pdf(probes))

    errors = [error(found * factor) for factor in (0.125, 0.5, 1.0, 2.0, 8.0)]
    assert errors[2] < 1.3 * min(errors)
    assert errors[0] > 1.5 * errors[2] < errors[4]


def test_likelihood_is_the_largest_leave_one_out_likelihood():
    tokens, weights = mf.Uniform(3).sample(40, 4) * [1, 1, 0.2], np.linspace(1.0, 2.0, 40)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    weights /= weights.sum()

    def likelihood(bandwidth):
        kernel = heat_kernel(bandwidth, 3)
        found = 0.0
        for i in range(40):
            others = np.arange(40) != i
            angles = np.arccos(np.clip(tokens[others] @ tokens[i], -1.0, 1.0))
            found += weights[i] * np.log(kernel(angles) @ weights[others] / weights[others].sum())
        return found

    best = likelihood_bandwidth(tokens, weights)
    assert 0.01 < best < 1.0
    assert likelihood(best) > max(likelihood(best * factor) for factor in (0.5, 0.9, 1.1, 2.0))


@pytest.mark.slow
def test_likelihood_of_many_tokens_shrinks_as_it_should():
    """n^{-2/(d+3)}: of 8 times as many tokens of one law half the bandwidth in d = 3."""
    law = mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0)
    few, many = (
        np.mean(
            [mf.PointCloud(law.sample(n, s), bandwidth="likelihood").bandwidth for s in range(4)]
        )
        for n in (500, 4000)
    )
    assert many / few == pytest.approx(0.5, rel=0.35)


def test_likelihood_asks_for_no_order_of_the_tokens():
    """A narrow bump and a wide one in turn, of which every other token would be one bump only."""
    tokens = np.empty((1200, 3))
    for first, sharpness in enumerate((300.0, 1.0)):
        tokens[first::2] = mf.VonMisesFisher(np.eye(3)[first], sharpness).sample(600, first)
    weights = np.linspace(1.0, 2.0, 1200) / 1800.0
    found = [
        likelihood_bandwidth(tokens[order], weights[order])
        for order in (np.arange(1200), np.roll(np.arange(1200), 1), np.arange(1200)[::-1])
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "sharpness"), [(2, 3500.0), (3, 2000.0)])
def test_likelihood_goes_down_to_the_least_bandwidth(dim, sharpness):
    """Of a Gaussian of variance 1/κ the best 2h is (4/(d + 1)/n)^{2/(d+3)}/κ (Silverman 1986)."""
    law = mf.VonMisesFisher(np.eye(dim)[0], sharpness)
    best = 0.5 / sharpness * (4.0 / (dim + 1.0) / 400.0) ** (2.0 / (dim + 3.0))
    found = mf.PointCloud(law.sample(400, 3), bandwidth="likelihood").bandwidth
    assert 0.4 * best < found < 2.5 * best


def test_likelihood_of_one_token_that_has_nearly_all_the_weight():
    angles = [0.0, 0.3, -0.3]
    nearly, wholly = (
        mf.PointCloud(
            circle_points(np.array(angles)), [1.0, one, one], bandwidth="likelihood", unit_mass=True
        ).bandwidth
        for one in (1e-6, 1e-17)
    )
    # two tokens at a distance s from one: the Gaussian of variance 2h = s² has the largest value
    assert nearly == pytest.approx(0.045, rel=0.01)
    assert wholly == pytest.approx(nearly, rel=2e-3)


@pytest.mark.slow
def test_tokens_that_repeat_have_no_likelihood_bandwidth():
    tokens = np.repeat(mf.Uniform(3).sample(10, 0), 2, axis=0)
    for points, message in (tokens, "is below 1.2.*given twice"), (tokens[:1], "needs two points"):
        with pytest.raises(ValueError, match=f"bandwidth must be a number: .* {message}"):
            mf.PointCloud(points, bandwidth="likelihood")
    with pytest.raises(
        ValueError, match=r"bandwidth must be a number > 0 or 'likelihood', got 'scott'"
    ):
        mf.PointCloud(tokens, bandwidth="scott")
