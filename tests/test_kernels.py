"""Kernels between angles against quadrature; the potential of gathered masses."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield.kernels.angles import circle_kernel, zonal_kernel
from meanfield.kernels.direct import Lost
from meanfield.kernels.kernel import Exponential, PowerSeries, Sampled, kernel_of
from meanfield.kernels.line import Interpolation, line
from meanfield.spaces.gegenbauer import gauss_gegenbauer

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


@pytest.mark.parametrize("dim", [3, 4, 5, 20, 100])
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
CASES += [(0.0, 3), (4.0, 3), (20.0, 10), (50.0, 50), (100.0, 4)]


@pytest.mark.parametrize(("beta", "dim"), CASES)
@pytest.mark.parametrize("width", [3.0, 0.03])
def test_gathered_masses_keep_relative_accuracy(beta, dim, width):
    """Near the masses and at the antipode, where the potential is e^{-2β} of its maximum."""
    rng = np.random.default_rng(1)
    cells = line(beta, dim)
    assert cells.relative
    sources = np.clip(1.5 + 0.5 * width * rng.uniform(-1, 1, 300), 0, np.pi)
    masses = 10.0 ** -rng.uniform(0, 9, 300)
    targets = np.linspace(0.0, np.pi if dim > 2 else 2 * np.pi, 101)
    gathered = Interpolation(cells, sources).charges(masses)
    found = Interpolation(cells, targets).values(cells.fields(gathered))
    exact = cells.kernel(targets[:, None], sources) @ masses
    if dim == 2 and width < 1 <= beta:
        assert exact[0].min() < np.exp(-1.9 * beta) * exact[0].max()
    # two interpolations, each with a Lebesgue constant below 3, on cells where the kernel varies
    # by e^3; its second derivative is β times larger
    error = np.abs(found - exact) / (exact[0] * np.array([[1], [1], [beta + dim]]))
    assert np.max(error) < (2000 + 40 * beta) * EPS


def test_large_beta_is_right_to_rounding_of_the_largest():
    cells = line(1000.0, 2)
    assert not cells.relative
    rng = np.random.default_rng(1)
    sources, masses = rng.uniform(0, 7, 2000), np.full(2000, 1 / 2000)
    targets = np.linspace(0.0, 6.0, 77)
    fields = cells.fields(Interpolation(cells, sources).charges(masses))
    found = Interpolation(cells, targets).values(fields)
    exact = cells.kernel(targets[:, None], sources) @ masses
    assert np.max(np.abs(found[0] - exact[0])) < 1e-13 * exact[0].max()
    assert np.max(np.abs(found[2] - exact[2])) < 1e-12 * np.abs(exact[2]).max()


def test_large_beta_on_spheres_is_refused():
    with pytest.raises(ValueError, match=r"beta must be <= 150 .* got 151"):
        line(151.0, 3)


# ---------------------------------------------------------------- kernels of a user's own


def pole(t):
    return 1.0 / (1.5 - t)


def pole_slope(t):
    return 1.0 / (1.5 - t) ** 2


SQUARE = PowerSeries((1.0, 1.0, 0.25))
POLE = Sampled(pole, pole_slope)
SERIES = [
    (SQUARE, lambda t: (1 + t / 2) ** 2, lambda t: ((1 + t / 2) ** 3 - 1) * 2 / 3),
    (POLE, lambda t: 1 / (mpmath.mpf(3) / 2 - t), lambda t: -mpmath.log(1 - 2 * t / 3)),
]


@pytest.mark.parametrize(("kernel", "s", "primitive"), SERIES, ids=["powers", "function"])
@pytest.mark.parametrize("dim", [2, 3, 5, 16])
def test_multipliers_by_high_precision(kernel, s, primitive, dim):
    """∫ s P_k dν and ∫ S P_k dν, ν the law of a coordinate under σ, with 30 digits."""
    found, nu = kernel.series(dim, 9), mpmath.mpf(dim) / 2 - 1
    with mpmath.workdps(30):
        total = mpmath.beta(mpmath.mpf(1) / 2, nu + mpmath.mpf(1) / 2)

        def weighed(f, k):
            # with t = cos a there is no singularity at the ends
            def value(a):
                t = mpmath.cos(a)
                if dim == 2:
                    p = mpmath.cos(k * a)
                else:
                    p = mpmath.gegenbauer(k, nu, t) / mpmath.gegenbauer(k, nu, 1)
                return f(t) * p * mpmath.sin(a) ** (dim - 2)

            return mpmath.quad(value, mpmath.linspace(0, mpmath.pi, 5)) / total

        for k in range(10):
            assert float(abs(weighed(s, k) - found.potential[k])) < 4e-16
            assert float(abs(weighed(primitive, k) - found.primitive[k])) < 4e-16
    assert (found.size, found.log_unit) == (1.0, 0.0)


@pytest.mark.parametrize("dim", [2, 3, 7])
@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_exponential_in_three_ways(beta, dim):
    """Its Taylor coefficients and its values give the multipliers of e^{βt}."""
    told = Exponential(beta).series(dim, 20)
    unit = told.size * np.exp(told.log_unit)
    powers = PowerSeries(tuple(beta**j / math.factorial(j) for j in range(40)))
    sampled = Sampled(lambda t: np.exp(beta * t), lambda t: beta * np.exp(beta * t))
    for kernel in powers, sampled:
        found = kernel.series(dim, 20)
        np.testing.assert_allclose(found.potential, unit * told.potential, atol=4e-16 * unit * 20)
        # S(0) = 0 takes 1/β off the mean
        found.primitive[0] += 1.0 / beta
        np.testing.assert_allclose(found.primitive, unit * told.primitive, atol=4e-15 * unit)
        assert kernel.least_share == pytest.approx(np.exp(-2.0 * beta), rel=1e-12)
        assert kernel.at_one == pytest.approx(np.exp(beta))


@pytest.mark.parametrize("kernel", [SQUARE, POLE], ids=["powers", "function"])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_tables_of_a_kernel(kernel, dim):
    """K, its pull along the angle, ∂K and the primitive are averages; div of the pull by steps."""
    phi, psi, h = 1.1, 0.4, 1e-5

    def tables(at):
        return kernel.line(dim).kernel(np.array(at), np.array(psi))

    u, w = (np.ones(1), np.ones(1)) if dim == 2 else gauss_gegenbauer(dim - 1, 40)
    t = np.cos(phi) * np.cos(psi) + np.sin(phi) * np.sin(psi) * u
    along = -np.sin(phi) * np.cos(psi) + np.cos(phi) * np.sin(psi) * u
    value, pull, spread, steep, primitive = tables(phi)
    assert value == pytest.approx(w @ kernel(t), rel=1e-14)
    assert pull == pytest.approx(w @ (along * kernel(t)), rel=1e-13)
    assert steep == pytest.approx(w @ (along * kernel.slope(t)), rel=1e-13)
    assert primitive == pytest.approx(w @ kernel.primitive(t), rel=1e-13)
    ahead, behind = tables(phi + h), tables(phi - h)
    cotangent = (dim - 2) / np.tan(phi)
    assert spread == pytest.approx((ahead[1] - behind[1]) / (2 * h) + cotangent * pull, abs=1e-8)
    assert pull == pytest.approx((ahead[4] - behind[4]) / (2 * h), abs=1e-9)


def test_a_kernel_with_a_zero_is_not_positive():
    """A double zero between nodes, and one sign change, each show; positive ones do not."""
    zeros = [(1.0, 4.0, 4.0), (0.3, 1.0), (0.0,), (-1.0,), (0.1234**2, -0.2468, 1.0)]
    assert [PowerSeries(given).least_share for given in zeros] == [0.0] * 5
    assert SQUARE.least_share == pytest.approx(0.25 / 2.25)
    assert POLE.least_share == pytest.approx(0.2)
    assert PowerSeries((0.1234**2 + 1e-12, -0.2468, 1.0)).least_share > 1e-13


def test_kernel_that_can_not_be():
    with pytest.raises(ValueError, match=r"kernel must be smooth .* of \(absolute, sign\) 4096"):
        Sampled(np.abs, np.sign)
    with pytest.raises(ValueError, match=r"s' the derivative of s, got s'\(.*\) = .* slope"):
        Sampled(pole, pole)
    with pytest.raises(ValueError, match=r"finite on \[-1, 1\], got s\(.*\) not finite"):
        Sampled(np.log, np.reciprocal)
    with pytest.raises(ValueError, match="1 to 1024 Taylor coefficients, got 1025"):
        PowerSeries((1.0,) * 1025)
    with pytest.raises(ValueError, match=r"Taylor coefficients or a pair .* of functions, got"):
        kernel_of(np.exp)
    with pytest.raises(ValueError, match=r"by Taylor coefficients in dim = 64, got \(pole"):
        POLE.series(64, 40)


@pytest.mark.parametrize("kernel", [SQUARE, POLE], ids=["powers", "function"])
def test_divergence_by_sums(kernel):
    """Of X = P ∫ s y dmu / ∫ s dmu, against differences of itself."""
    rng = np.random.default_rng(3)
    points, masses = rng.normal(size=(9, 4)), rng.random(9)
    points /= np.linalg.norm(points, axis=1)[:, None]

    def velocity(x):
        x = x / np.linalg.norm(x)
        t = points @ x
        pull = (masses * kernel(t)) @ points / (masses @ kernel(t))
        return pull - (pull @ x) * x

    at = np.array([[0.5, -0.5, 0.5, 0.5]])
    found, spread = kernel.spread(at, (points, masses))
    np.testing.assert_allclose(found[0], velocity(at[0]), atol=1e-15)
    steps = 1e-5 * np.eye(4)
    trace = sum(((velocity(at[0] + h) - velocity(at[0] - h)) @ h) / 2e-10 for h in steps)
    assert spread[0] == pytest.approx(trace, abs=1e-8)


# ---------------------------------------------------------------- where a series is lost

POTENTIAL = np.array([1.0, 1e-5, 2e-8, 1e-7, 3e-4])


def test_lost_places_are_the_smallest_that_may_be_summed():
    """All below the share; as many as pairs allow, smallest first; below the last share always."""
    assert Lost(1e-3).places(POTENTIAL, 1.0, 100).tolist() == [1, 2, 3, 4]
    assert Lost(1e-3).places(POTENTIAL, 0.01, 100).tolist() == [2, 3]
    assert Lost(1e-3, most_pairs=250).places(POTENTIAL, 1.0, 100).tolist() == [2, 3]
    assert Lost(1e-3, 100, always=1e-4).places(POTENTIAL, 1.0, 100).tolist() == [2, 3, 1]
    assert Lost(1e-9).places(POTENTIAL, 1.0).tolist() == []


def test_lost_places_are_summed_held_or_refused():
    summed, floored = POTENTIAL.copy(), np.append(POTENTIAL, -1e-17)
    assert Lost(1e-6).settle(summed, 1.0, "sum", "maximum").tolist() == [2, 3]
    assert summed.tolist() == [1.0, 1e-5, 1.0, 1.0, 3e-4]
    assert len(Lost(1e-6).settle(floored, 2.0, "floor", "maximum")) == 0
    assert floored.tolist() == [*POTENTIAL, 2e-14]
    with pytest.raises(
        ArithmeticError, match="at 2 points G is down to 2e-08 of its maximum: give"
    ):
        Lost(1e-6).settle(POTENTIAL.copy(), 1.0, "refuse", "maximum")
    assert len(Lost(1e-9).settle(POTENTIAL.copy(), 1.0, "refuse", "maximum")) == 0
