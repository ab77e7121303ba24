"""Kernels s(<x,y>) by coefficients or functions: multipliers, tables, signs, and no kernels."""

import math

import mpmath
import numpy as np
import pytest
from mpmath.calculus.quadrature import GaussLegendre

import meanfield as mf
from meanfield.kernels.kernel import Exponential, PowerSeries, Sampled, kernel_of
from meanfield.spaces.gegenbauer import gauss_gegenbauer
from tests.handmade import slow


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
@pytest.mark.parametrize("dim", [2, *map(slow, (3, 5, 16))])
def test_multipliers_by_high_precision(kernel, s, primitive, dim):
    """∫ s P_k dν and ∫ S P_k dν, ν the law of a coordinate under σ, with 30 digits."""
    series = kernel.series(dim, 9)
    with mpmath.workdps(30):
        # with t = cos a there is no singularity at the ends
        rule = GaussLegendre(mpmath.mp).calc_nodes(6, mpmath.mp.prec)
        angles = [mpmath.pi * (x + 1) / 2 for x, _ in rule]
        t = [mpmath.cos(a) for a in angles]
        weights = [w * mpmath.sin(a) ** (dim - 2) for a, (_, w) in zip(angles, rule, strict=True)]
        weights = [w / mpmath.fsum(weights) for w in weights]
        last, p = t, [mpmath.mpf(1)] * len(t)
        for k in range(10):
            for f, found in (s, series.potential), (primitive, series.primitive):
                exact = mpmath.fsum(w * f(x) * y for w, x, y in zip(weights, t, p, strict=True))
                assert float(abs(exact - found[k])) < 4e-16
            # of Gegenbauer polynomials that are 1 at 1
            ahead = zip(t, p, last, strict=True)
            step = [(2 * k + dim - 2) * x * y - k * z for x, y, z in ahead] if k else t
            last, p = p, [x / (k + dim - 2) for x in step] if k else t
    assert (series.unit, series.log_unit) == (1.0, 0.0)


@pytest.mark.parametrize("dim", [2, 3, 7])
@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_exponential_in_three_ways(beta, dim):
    """Its Taylor coefficients and its values give the multipliers of e^{βt}."""
    series = Exponential(beta).series(dim, 20)
    unit = series.unit * np.exp(series.log_unit)
    powers = PowerSeries(tuple(beta**j / math.factorial(j) for j in range(40)))
    sampled = Sampled(lambda t: np.exp(beta * t), lambda t: beta * np.exp(beta * t))
    for kernel in powers, sampled:
        other = kernel.series(dim, 20)
        # sums of 40 terms or so, each with a rounding of the largest
        np.testing.assert_allclose(other.potential, unit * series.potential, atol=4e-16 * unit * 20)
        # S(0) = 0 takes 1/β off the mean
        other.primitive[0] += 1.0 / beta
        np.testing.assert_allclose(other.primitive, unit * series.primitive, atol=4e-15 * unit)
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
    assert steep == pytest.approx(w @ (along * kernel.derivative(t)), rel=1e-13)
    assert primitive == pytest.approx(w @ kernel.primitive(t), rel=1e-13)
    ahead, behind = tables(phi + h), tables(phi - h)
    # a third derivative times h², and rounding over h
    cotangent = (dim - 2) / np.tan(phi)
    assert spread == pytest.approx((ahead[1] - behind[1]) / (2 * h) + cotangent * pull, abs=1e-8)
    assert pull == pytest.approx((ahead[4] - behind[4]) / (2 * h), abs=1e-9)


def test_a_kernel_with_a_zero_is_not_positive():
    """A double zero between nodes, and one sign change, each show; positive ones do not."""
    zeros = [(1.0, 4.0, 4.0), (0.3, 1.0), (0.0,), (-1.0,), (0.1234**2, -0.2468, 1.0)]
    assert [PowerSeries(kernel).least_share for kernel in zeros] == [0.0] * 5
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
    ((np.exp,), r"Taylor coefficients or a pair .* of functions, got"),
    ((np.exp, 1.0), r"Taylor coefficients or a pair .* of functions, got"),
    ([1e160], r"largest \|s\| from 1e-100 to 1e\+100, got 1e\+160"),
    ([1e-300], r"largest \|s\| from 1e-100 to 1e\+100, got 1e-300"),
    (
        [0.0 if j % 2 else (-1) ** (j // 2) * 30.0**j / math.factorial(j) for j in range(120)],
        "whose terms do not cancel, .* give functions",
    ),
]


@pytest.mark.parametrize(("kernel", "message"), NO_KERNEL)
def test_kernel_that_can_not_be(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel_of(kernel)


def _integral(kernel, t):
    """∫ s from 0 to each t, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return np.array([0.5 * x * weights @ kernel(0.5 * x * (nodes + 1.0)) for x in t])


def test_function_that_coarse_nodes_miss_is_resolved():
    """2 + T_128 is 2 or 3 at all nodes of fewer than 128 samples; T_16 is 0 at 16 of them."""
    t = np.linspace(-1.0, 1.0, 101)
    kernel = Sampled(lambda t: 2.0 + HIGH(t), HIGH.deriv())
    assert 128 <= kernel.highest < 256
    np.testing.assert_allclose(kernel.primitive(t) + 0.0, _integral(kernel, t), atol=1e-12)
    wave = np.polynomial.chebyshev.Chebyshev([0.0] * 16 + [1.0])
    assert 16 <= Sampled(wave, wave.deriv()).highest < 32


def test_rounding_of_multipliers_in_high_dimension():
    with pytest.raises(ValueError, match=r"by Taylor coefficients in dim = 64, got <pole"):
        POLE.series(64, 40)


@pytest.mark.parametrize("beta", [1.0, 5.0, 25.0])
def test_reach_of_an_exponential_is_about_beta(beta):
    kernel = Sampled(lambda t: np.exp(beta * t), lambda t: beta * np.exp(beta * t))
    assert 0.5 * beta < kernel.reach < 2.0 * beta + 1.0
    assert kernel.largest == pytest.approx(np.exp(beta))


def test_bounds_and_signs_of_kernels():
    """½ S between -1 and 1; s(1) says whether neighbours attract; the largest |s| may be inside."""
    bump = PowerSeries((1.0, 0.0, -2.0))  # S = t - 2t³/3, largest at 1/√2
    lower, upper, _ = bump.energy_bounds()
    assert (-lower, upper) == pytest.approx((np.sqrt(0.5) / 3.0,) * 2)
    assert bump.largest == pytest.approx(1.0)
    assert bump.at_one == -1.0
    assert mf.Interaction(bump).keeps_clusters is False
    assert mf.Interaction(bump, sign=-1).keeps_clusters is True


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
    pull, divergence = kernel.velocity_and_divergence(at, (points, masses))
    np.testing.assert_allclose(pull[0], velocity(at[0]), atol=1e-15)
    steps = 1e-5 * np.eye(4)
    trace = sum(((velocity(at[0] + h) - velocity(at[0] - h)) @ h) / 2e-10 for h in steps)
    # a third derivative times h², and rounding over h
    assert divergence[0] == pytest.approx(trace, abs=1e-8)
