"""Kernels between angles against quadrature; the potential of gathered masses."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.kernels.direct import Lost
from meanfield.kernels.kernel import Exponential, PowerSeries, Sampled, kernel_of
from meanfield.kernels.line import Interpolation, LineSums, circle_kernel, line, zonal_kernel
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert PowerSeries((0.1234**2 + 1e-3, -0.2468, 1.0)).least_share > 1e-4
    # positive, but rounding makes more than 1e-10 of it
    assert PowerSeries((0.1234**2 + 1e-12, -0.2468, 1.0)).least_share == 0.0
    assert PowerSeries(tuple(15.0**j / math.factorial(j) for j in range(150))).least_share == 0.0


HIGH = np.polynomial.chebyshev.Chebyshev([0.0] * 128 + [1.0])
SHARP = (
    lambda t: 1.0 + np.exp(-1e5 * (t - 0.05) ** 2),
    lambda t: -2e5 * (t - 0.05) * np.exp(-1e5 * (t - 0.05) ** 2),
)
NO_KERNEL = [
    ((np.abs, np.sign), r"smooth .*<absolute and sign, .* has not ended after 4096 samples"),
    (SHARP, "has not ended after 4096 samples"),
    ((pole, pole), r"s' the derivative of s, got s'\(.*\) = .* slope"),
    ((np.log, np.reciprocal), r"finite on \[-1, 1\], got s\(.*\) not finite"),
    ((np.sinc, lambda t: np.cos(t) / t), r"got s'\(0\) not finite"),
    ((math.exp, math.exp), r"functions of arrays, got an s that raised TypeError.*\(3,\)"),
    ((lambda: 1.0, lambda: 0.0), "got an s that raised TypeError"),
    ((lambda t: 1j * t, lambda t: 0.0 * t), "got an s that gives shape .* of complex128"),
    ((lambda t: t[:2], lambda t: 0.0 * t), r"got an s that gives shape \(2,\)"),
    ((1.0,) * 1025, "1 to 1024 Taylor coefficients, got 1025"),
    (np.exp, r"Taylor coefficients or a pair .* of functions, got"),
    ((np.exp,), r"Taylor coefficients or a pair .* of functions, got"),
    ((np.exp, 1.0), r"Taylor coefficients or a pair .* of functions, got"),
    ("exp", r"Taylor coefficients or a pair .* of functions, got 'exp'"),
    (3.0, r"Taylor coefficients or a pair .* of functions, got 3.0"),
    ([], "must be a non-empty array"),
    ([1e160], r"largest \|s\| from 1e-100 to 1e\+100, got 1e\+160"),
    ([1e-300], r"largest \|s\| from 1e-100 to 1e\+100, got 1e-300"),
    (
        [0.0 if j % 2 else (-1) ** (j // 2) * 30.0**j / math.factorial(j) for j in range(120)],
        "whose terms do not cancel, .* give functions",
    ),
]


@pytest.mark.parametrize(("given", "message"), NO_KERNEL)
def test_kernel_that_can_not_be(given, message):
    with pytest.raises(ValueError, match=message):
        kernel_of(given)


def test_function_that_coarse_nodes_miss_is_resolved():
    """2 + T_128 is 2 or 3 at all nodes of fewer than 128 samples; T_16 is 0 at 16 of them."""
    t = np.linspace(-1.0, 1.0, 101)
    kernel = Sampled(lambda t: 2.0 + HIGH(t), HIGH.deriv())
    assert 128 <= kernel.highest < 256
    np.testing.assert_allclose(kernel.primitive(t) + 0.0, _integral(kernel, t), atol=1e-12)
    wave = np.polynomial.chebyshev.Chebyshev([0.0] * 16 + [1.0])
    assert 16 <= Sampled(wave, wave.deriv()).highest < 32


def _integral(kernel, t):
    """∫ s from 0 to each t, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return np.array([0.5 * x * weights @ kernel(0.5 * x * (nodes + 1.0)) for x in t])


def test_rounding_of_multipliers_in_high_dimension():
    with pytest.raises(ValueError, match=r"by Taylor coefficients in dim = 64, got <pole"):
        POLE.series(64, 40)


def near(t):
    return 1.0 / (1.05 - t)


def near_slope(t):
    return 1.0 / (1.05 - t) ** 2


@pytest.mark.parametrize("beta", [1.0, 5.0, 25.0])
def test_reach_of_an_exponential_is_about_beta(beta):
    kernel = Sampled(lambda t: np.exp(beta * t), lambda t: beta * np.exp(beta * t))
    assert 0.5 * beta < kernel.reach < 2.0 * beta + 1.0
    assert kernel.largest == pytest.approx(np.exp(beta))


@pytest.mark.slow
def test_cells_resolve_a_steep_kernel():
    """Sums through cells of its reach are those over pairs, at 1/(1.05 - t) and anywhere."""
    kernel, rng = Sampled(near, near_slope), np.random.default_rng(5)
    angles, masses = rng.uniform(0.0, 2.0 * np.pi, 300), rng.random(300)
    sums = LineSums(kernel.line(2), angles)(masses)
    exact = np.einsum("fij,j->fi", kernel.line(2).kernel(angles[:, None], angles), masses)
    assert np.abs(sums - exact).max(axis=1) == pytest.approx(
        np.zeros(5), abs=1e-13 * np.abs(exact).max()
    )
    polar = rng.uniform(0.0, np.pi, 40)
    sums = LineSums(kernel.line(4), polar)(masses[:40])
    exact = np.einsum("fij,j->fi", kernel.line(4).kernel(polar[:, None], polar), masses[:40])
    assert np.abs(sums - exact).max() < 1e-13 * np.abs(exact).max()


def test_bounds_and_signs_of_kernels():
    """½ S between -1 and 1; s(1) says whether neighbours attract; the largest |s| may be inside."""
    bump = PowerSeries((1.0, 0.0, -2.0))  # S = t - 2t³/3, largest at 1/√2
    lower, upper, _ = bump.energy_bounds()
    assert (-lower, upper) == pytest.approx((np.sqrt(0.5) / 3.0,) * 2)
    assert bump.largest == pytest.approx(1.0)
    assert bump.at_one == -1.0
    assert mf.Interaction(bump)._keeps_clusters is False
    assert mf.Interaction(bump, sign=-1)._keeps_clusters is True


def test_own_term_leaves_no_rounding():
    """e^{80t}: far tokens pull by 1e-17 of a token's own term, which is radial."""
    points = np.array([[np.cos(a), np.sin(a)] for a in (0.0, np.pi / 3.0, 2.0)])
    kernel = Sampled(lambda t: np.exp(80.0 * t), lambda t: 80.0 * np.exp(80.0 * t))
    pull, _, log_g = kernel.pull_of_others(points, np.full(3, 1.0 / 3.0))
    known, unit, known_log_g = Exponential(80.0).pull_of_others(points, np.full(3, 1.0 / 3.0))
    np.testing.assert_allclose(pull, known * np.exp(unit)[:, None], rtol=1e-9)
    np.testing.assert_allclose(log_g, known_log_g, rtol=1e-12)


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
