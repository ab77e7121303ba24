"""Laws that are series, and pieces: sums, the least value, bounds that draws are accepted by."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield.laws import FourierSeries, ZonalSeries
from meanfield.laws.point_cloud import heat_kernel
from meanfield.laws.series import Pieces
from meanfield.spaces.circle import horner
from meanfield.spaces.gegenbauer import gegenbauer
from meanfield.spaces.geometry import circle_points
from tests.laws.handmade import DIMS, DRAWS, EPS, meridian, within_five_errors

pytestmark = pytest.mark.usefixtures("floating_point_errors")


@given(
    st.lists(st.floats(-0.2, 0.2), max_size=4),
    st.lists(st.floats(-0.05, 0.05), max_size=3),
    st.floats(0.0, 6.3),
)
def test_fourier_series_is_its_sum(cos, sin, angle):
    exact = 1.0 + sum(a * math.cos(k * angle) for k, a in enumerate(cos, 1))
    exact += sum(b * math.sin(k * angle) for k, b in enumerate(sin, 1))
    # Horner's rule: K + 1 roundings of a sum below 2
    assert abs(FourierSeries(cos, sin).pdf(circle_points([angle]))[0] - exact) < 20.0 * EPS


@pytest.mark.parametrize("dim", DIMS)
def test_zonal_series_is_its_sum(dim):
    t = np.linspace(-1.0, 1.0, 41)
    law = ZonalSeries(dim, [0.3, -0.2, 0.1])
    exact = 1.0 + np.array([0.3, -0.2, 0.1]) @ gegenbauer(dim, 3, t)[1:]
    assert np.allclose(law.pdf(meridian(np.eye(dim)[-1], t)), exact, rtol=0.0, atol=20.0 * EPS)
    assert np.array_equal(law.axis, np.eye(dim)[-1])


def test_empty_series_is_uniform():
    points = circle_points([0.3, 2.0])
    for law in (FourierSeries(), FourierSeries([], []), ZonalSeries(2, [])):
        assert np.array_equal(law.pdf(points), [1.0, 1.0])
        assert law.sample(5, np.random.default_rng(0)).shape == (5, 2)


def test_fourier_series_moments():
    cos, sin = np.array([0.5, 0.0, -0.2]), np.array([0.0, 0.3])
    x = FourierSeries(cos, sin).sample(DRAWS, np.random.default_rng(13))
    k = np.arange(1, 5)
    angles = np.arctan2(x[:, 1], x[:, 0])[:, None] * k
    assert within_five_errors(np.cos(angles), [0.25, 0.0, -0.1, 0.0])
    assert within_five_errors(np.sin(angles), [0.0, 0.15, 0.0, 0.0])


def named_minimum(error):
    return float(re.search(r"minimum (\S+) at", str(error.value))[1])


@pytest.mark.parametrize("n", [1, 2, 5, 20, 50])
def test_exact_zeros_are_accepted(n):
    """((1 + cos θ)/2)^n, normalised: a zero of order 2n at π. A little more of it is refused."""
    a = np.array([2.0 * math.comb(2 * n, n - k) / math.comb(2 * n, n) for k in range(1, n + 1)])
    law = FourierSeries(cos=a)
    at_zero = law.pdf([[-1.0, 0.0]])[0]
    assert 0.0 <= at_zero < 4.0 * EPS * (n + 1) * (1.0 + a.sum())
    with pytest.raises(ValueError, match="must give a density >= 0") as error:
        FourierSeries(cos=a * (1.0 + 1e-10))
    assert named_minimum(error) == pytest.approx(-1e-10, rel=1e-3)


@pytest.mark.parametrize("dim", DIMS)
def test_zonal_zeros_are_accepted(dim):
    """(1 + t)² / (1 + 1/d), in Gegenbauer polynomials: t² = 1/d + (1 - 1/d) P_2."""
    norm = 1.0 + 1.0 / dim
    a = np.array([2.0, 1.0 - 1.0 / dim]) / norm
    assert ZonalSeries(dim, a).pdf(-np.eye(dim)[-1:])[0] < 20.0 * EPS
    with pytest.raises(ValueError, match=r"at t = <x, axis> = -(1|0\.9999\d*)$") as error:
        ZonalSeries(dim, a * (1.0 + 1e-10))
    assert named_minimum(error) == pytest.approx(-1e-10, rel=1e-3)


@given(st.integers(1, 12), st.integers(0, 2**31))
def test_minimum_is_the_true_one(degree, seed):
    """Between the least value on a grid of step h and K² h² Σ|c_k|/8 less, by Bernstein."""
    rng = np.random.default_rng(seed)
    c = rng.normal(size=degree) + 1j * rng.normal(size=degree)
    angles = np.linspace(0.0, 2.0 * np.pi, 20_001)

    def function(a):
        return 1.0 + horner(c, np.exp(1j * a)).real

    lowest, where = Pieces(function, degree, 2.0 * np.pi).minimum()
    size = np.abs(c).sum()
    on_grid = function(angles).min()
    gap = size * (degree * angles[1]) ** 2 / 8.0
    assert on_grid - gap <= lowest <= on_grid + 1e-14 * (1.0 + size)
    assert abs(function(np.array([where]))[0] - lowest) < 1e-14 * (1.0 + size)


def test_a_dip_between_the_points_of_a_grid_is_seen():
    """1 + a cos kθ + … with a dip of width 1/200 where no small grid has a point."""
    k = np.arange(1, 201)
    a = -2.0 * (1.0 - k / 201.0) * 0.006
    turn = k * 1.2345
    cos, sin = a * np.cos(turn), a * np.sin(turn)
    depth = 1.0 + a.sum()
    assert depth < -0.1
    with pytest.raises(ValueError, match=rf"minimum {depth:.6g} at θ = 1\.2345$"):
        FourierSeries(cos, sin)
    share = 1.0 / -a.sum()
    FourierSeries(cos * share, sin * share)


def test_minimum_at_the_edge_of_a_cell_beats_one_near_a_centre():
    """Least at θ_0 between two cells, by 1.5e-4 below the dips at θ_0 ± 2π/3 inside of cells."""
    edge = 2.0 * np.pi * 10 / 64

    def function(a):
        return 1.0 - 0.5 * np.cos(3.0 * (a - edge)) - 1e-4 * np.cos(a - edge)

    pieces = Pieces(function, 3, 2.0 * np.pi)
    assert edge / pieces.width == pytest.approx(10.0)
    lowest, where = pieces.minimum()
    # five roundings of numbers up to 1 or their half
    assert lowest == pytest.approx(0.4999, abs=4.0 * EPS)
    # f'' = 4.5 turns an error of 4 ε in f into one of 2e-8 in θ
    assert where == pytest.approx(edge, abs=1e-7)


def test_pieces_reproduce_and_bound_a_function():
    rng = np.random.default_rng(7)
    c = (rng.normal(size=300) + 1j * rng.normal(size=300)) / np.arange(1.0, 301.0) ** 2

    def function(a):
        return 1.0 + horner(c, np.exp(1j * a)).real

    pieces, angles = Pieces(function, 300, 2.0 * np.pi), rng.uniform(0.0, 2.0 * np.pi, 20_000)
    size = 1.0 + np.abs(c).sum()
    # 6e-16 of interpolation; e^{iθ} to the power 300 carries 300 ε; sums of ten terms
    assert np.max(np.abs(pieces(angles) - function(angles))) < 400.0 * EPS * size
    assert abs(pieces(np.array([2.0 * np.pi]))[0] - function(np.zeros(1))[0]) < 2e3 * EPS * size


@pytest.mark.parametrize("power", [0, 1, 18])
def test_envelope_bounds_the_density(power):
    """Without the bound, rejection would cut off peaks; and a loose one would waste draws."""
    kernel = heat_kernel(0.02, power + 2)
    upper, steepest = kernel.envelope(power)
    angles = np.linspace(0.0, np.pi, 100_001)[1:-1]
    cell = np.minimum((angles / kernel.width).astype(int), upper.size - 1)
    density = kernel(angles) * np.sin(angles) ** power
    bound = upper[cell] * steepest[cell] ** power
    # the sum of ten terms in the one and the other order; the peak is what terms cancel from
    assert np.all(density <= bound * (1.0 + 1e-13) + 1e-15 * kernel(np.zeros(1))[0])
    assert bound.mean() < 2.0 * density.mean()
