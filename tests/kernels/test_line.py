"""Kernels between angles against quadrature; the potential of gathered masses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield.kernels.kernel import Sampled
from meanfield.kernels.line import (
    FinerLine,
    Interpolation,
    LineSums,
    circle_kernel,
    line,
    zonal_kernel,
)
from meanfield.spaces.gegenbauer import gauss_gegenbauer
from tests.handmade import slow

EPS = np.finfo(float).eps
betas = st.floats(-2.0, 2.0).map(lambda x: 10.0**x)
angles = st.floats(0.0, np.pi)


def averaged(beta, dim, phi, psi):
    """The same three numbers by Gauss sums over the latitude of the source."""
    u, w = gauss_gegenbauer(dim - 1, 120)
    t = np.cos(phi) * np.cos(psi) + np.sin(phi) * np.sin(psi) * u
    slope = -np.sin(phi) * np.cos(psi) + np.cos(phi) * np.sin(psi) * u
    kernel = w * np.exp(beta * (t - 1))
    laplacian = beta * (1 - t) * (1 + t) - (dim - 1) * t
    return np.array([kernel.sum(), kernel @ slope, kernel @ laplacian])


@pytest.mark.parametrize("dim", [3, 4, slow(5), slow(20), 100])
@given(betas, angles, angles)
def test_zonal_kernel_by_quadrature(dim, beta, phi, psi):
    exact = averaged(beta, dim, phi, psi)
    found = zonal_kernel(beta, dim, np.array(phi), np.array(psi))
    # exponents up to 2β are rounded; the Laplacian is of size β + d beside the kernel
    size = exact[0] * np.array([1, 1, beta + dim])
    assert exact[0] > 0
    assert np.max(np.abs(found - exact) / size) < (20 + 8 * beta) * EPS


@given(betas, st.floats(0, 7), st.floats(0, 7))
def test_circle_kernel_in_closed_form(beta, target, source):
    kernel, slope, laplacian = circle_kernel(beta, np.array(target), np.array(source))
    cosine = np.cos(target - source)
    assert kernel == pytest.approx(np.exp(beta * (cosine - 1)), rel=(10 + 8 * beta) * EPS)
    assert slope == pytest.approx(-np.sin(target - source) * kernel, rel=1e-12)
    h = 1e-4
    shifted = [circle_kernel(beta, target + s * h, np.array(source))[1] for s in (1, -1)]
    # the derivative of ∂K/β is ΔK/β
    assert abs((shifted[0] - shifted[1]) / (2 * h) - laplacian) < h**2 * (1 + beta) ** 2 + 1e-11


CASES = [(0.0, 2), (1e-9, 2), (1.0, 2), (4.0, 2), (20.0, 2), (100.0, 2)]
CASES += [(0.0, 3), (4.0, 3), (20.0, 10), (50.0, 50)]
CASES += [slow(100.0, 4)]


@pytest.mark.parametrize(("beta", "dim"), CASES)
def test_gathered_masses_keep_relative_accuracy(beta, dim):
    """Near the masses and at the antipode, where the potential is e^{-2β} of its maximum."""
    cells = line(beta, dim)
    assert cells.relative
    targets = np.linspace(0.0, np.pi if dim > 2 else 2 * np.pi, 101)
    for width in 3.0, 0.03:
        rng = np.random.default_rng(1)
        sources = np.clip(1.5 + 0.5 * width * rng.uniform(-1, 1, 300), 0, np.pi)
        masses = 10.0 ** -rng.uniform(0, 9, 300)
        fields = cells.fields(Interpolation(cells, sources).gather(masses))
        sums = Interpolation(cells, targets).evaluate(fields)
        exact = cells.kernel(targets[:, None], sources) @ masses
        if dim == 2 and width < 1 <= beta:
            assert exact[0].min() < np.exp(-1.9 * beta) * exact[0].max()
        # two interpolations, each with a Lebesgue constant below 3, on cells where the kernel
        # varies by e^3; its second derivative is β times larger
        error = np.abs(sums - exact) / (exact[0] * np.array([[1], [1], [beta + dim]]))
        assert np.max(error) < (2000 + 40 * beta) * EPS


@pytest.mark.parametrize(
    ("beta", "reach", "dim"), [(0.0, 30.0, 2), (3.0, 4.0, 2), (1.0, 1000.0, 2), (4.0, 100.0, 3)]
)
def test_a_kernel_keeps_its_digits_on_finer_cells(beta, reach, dim):
    """Charges of finer cells are taken to its own, and its sums back, however small they are."""
    own = line(beta, dim)
    cells = FinerLine(own, reach)
    assert cells.relative
    assert cells.size > own.size
    rng = np.random.default_rng(2)
    sources, targets = 1.5 + 0.1 * rng.uniform(-1, 1, 300), np.linspace(0.0, np.pi, 101)
    masses = 10.0 ** -rng.uniform(0, 9, 300)
    fields = cells.fields(Interpolation(cells, sources).gather(masses))
    sums = Interpolation(cells, targets).evaluate(fields)
    exact = cells.kernel(targets[:, None], sources) @ masses
    # as above, with four interpolations
    error = np.abs(sums - exact) / (exact[0] * np.array([[1], [1], [beta + dim]]))
    assert np.max(error) < 2 * (2000 + 40 * beta) * EPS
    few = cells.fields(Interpolation(cells, sources).gather(masses), 2)
    assert np.array_equal(few, fields[:, :2])


def test_large_beta_is_right_to_rounding_of_the_largest():
    cells = line(1000.0, 2)
    assert not cells.relative
    rng = np.random.default_rng(1)
    sources, masses = rng.uniform(0, 7, 2000), np.full(2000, 1 / 2000)
    targets = np.linspace(0.0, 6.0, 77)
    fields = cells.fields(Interpolation(cells, sources).gather(masses))
    found = Interpolation(cells, targets).evaluate(fields)
    exact = cells.kernel(targets[:, None], sources) @ masses
    assert np.max(np.abs(found[0] - exact[0])) < 1e-13 * exact[0].max()
    assert np.max(np.abs(found[2] - exact[2])) < 1e-12 * np.abs(exact[2]).max()


def test_large_beta_on_spheres_is_refused():
    with pytest.raises(ValueError, match=r"beta must be <= 150 .* got 151"):
        line(151.0, 3)


@pytest.mark.parametrize(("dim", "n"), [(2, 300), slow(4, 40)])
def test_cells_resolve_a_steep_kernel(dim, n):
    """Sums through cells of its reach are those over pairs, at 1/(1.1 - t) and anywhere."""
    kernel = Sampled(lambda t: 1.0 / (1.1 - t), lambda t: 1.0 / (1.1 - t) ** 2)
    rng = np.random.default_rng(5)
    places, masses = rng.uniform(0.0, 2.0 * np.pi / (dim // 2), n), rng.random(n)
    sums = LineSums(kernel.line(dim), places)(masses)
    exact = np.einsum("fij,j->fi", kernel.line(dim).kernel(places[:, None], places), masses)
    # sums of some hundred terms
    assert np.abs(sums - exact).max() < 1e-13 * np.abs(exact).max()
